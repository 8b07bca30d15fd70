//! How often a thread looks whether a table is full.

#[cfg(not(modelled))]
use super::{AtomicU64, Ordering};

/// After so many entries of its own a thread looks when the table is nearly full. A power of two.
#[cfg(not(modelled))]
const MOST_OFTEN: u64 = 32;
/// And when it is nearly empty.
#[cfg(not(modelled))]
const LEAST_OFTEN: u64 = 1 << 16;

/// After how many entries of its own a thread looks, a power of two.
///
/// A look reads the counts of all threads, each of which is in a line that its thread stores to. So threads look
/// the less often the more room there is: all of them together add at most half of it in between. It is a hint: a
/// table also looks where a key finds no room, so threads that look too late make it fuller, and no more.
#[cfg(not(modelled))]
#[derive(Debug)]
pub(crate) struct Looks(AtomicU64);

#[cfg(not(modelled))]
impl Looks {
    /// Begins as if there were no room. (`_in_models` is how often threads of a model look, always.)
    pub(crate) fn new(_in_models: u64) -> Self {
        Self(AtomicU64::new(MOST_OFTEN))
    }

    /// Whether a thread that has added so many entries must look.
    #[inline(always)]
    pub(crate) fn is_due(&self, added: u64) -> bool {
        // Relaxed, here and below: a hint. All threads load the word, so it changes seldom.
        added & (self.0.load(Ordering::Relaxed) - 1) == 0
    }

    /// Says how much room is left for at most so many threads.
    pub(crate) fn set(&self, room: usize, threads: usize) {
        let entries = (room / (2 * threads.max(1))) as u64;
        let entries = 1 << entries.clamp(MOST_OFTEN, LEAST_OFTEN).ilog2();
        if self.0.load(Ordering::Relaxed) != entries {
            self.0.store(entries, Ordering::Relaxed);
        }
    }

    /// As if there were no room: the table may have become smaller.
    pub(crate) fn reset(&self) {
        self.0.store(MOST_OFTEN, Ordering::Relaxed);
    }
}

/// In a model the word would be one more that threads share.
#[cfg(modelled)]
#[derive(Debug)]
pub(crate) struct Looks(u64);

#[cfg(modelled)]
impl Looks {
    pub(crate) fn new(in_models: u64) -> Self {
        Self(in_models)
    }

    pub(crate) fn is_due(&self, added: u64) -> bool {
        added.is_multiple_of(self.0)
    }

    pub(crate) fn set(&self, _room: usize, _threads: usize) {}

    pub(crate) fn reset(&self) {}
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn threads_look_before_they_have_used_half_of_the_room() {
        let looks = Looks::new(1);
        for room in [0, 1, 1000, 4096, 100_000, 1 << 40] {
            for threads in [1, 8, 24, 1000] {
                looks.set(room, threads);
                let between = (1..).find(|&added| looks.is_due(added)).unwrap();
                assert!(between.is_power_of_two() && (32..=1 << 16).contains(&between));
                let together = between as usize * threads;
                assert!(between == 32 || together <= room / 2, "{room} {threads}: {between}");
                assert!(between == 1 << 16 || together >= room / 4, "{room} {threads}: {between}");
            }
        }
        looks.reset();
        assert!(!looks.is_due(31) && looks.is_due(32));
    }
}
