//! Stripes: a lock and a version for the keys whose hash names it.
//!
//! ```text
//! word  63          32 31        2    1         0
//!       | generation  | version  | watched | locked |
//! ```
//!
//! 1. A command that changes a key holds the lock of the key's stripe. One that changes several keys
//!    takes all locks first, in the order of their numbers. Who holds locks in another order waits for none.
//! 2. A change increments the version before the lock is released.
//! 3. While a change consists of several changes of the map, the generations of its stripes are odd: from the
//!    lock on, or, if it is found later that there are several, from before the first one on. They become even when
//!    all of it is done.
//! 4. A reader of one key needs the generation only: it must be even, and the same before and after the
//!    read. So no reader sees a part of a change. A reader of several keys needs the whole word, unlocked.
//! 5. Only the holder of the lock stores a word.

use foldhash::fast::FixedState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// How many stripes there are: few enough that all words stay in the second cache.
const STRIPES: usize = 8192;

const LOCKED: u64 = 1;
const WATCHED: u64 = 2;
const VERSION: u64 = 4;
const GENERATION: u64 = 1 << 32;
/// The bits of the version.
const VERSIONS: u64 = GENERATION - VERSION;

/// How often a thread looks before it lets others run.
const SPINS: usize = 100;

/// The locks and versions of all keys.
#[derive(Debug)]
pub(crate) struct Stripes {
    words: Box<[AtomicU64]>,
    hasher: FixedState,
}

/// What a reader saw of a stripe before it read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) stripe: u32,
    word: u64,
}

/// Waits for another thread, which may need this core.
fn wait(spins: &mut usize) {
    *spins += 1;
    if spins.is_multiple_of(SPINS) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

impl Stripes {
    pub(crate) fn new(seed: u64) -> Self {
        let words = (0..STRIPES).map(|_| AtomicU64::new(0)).collect();
        Self { words, hasher: FixedState::with_seed(seed) }
    }

    /// Returns the hash of a key, whose lower bits name its stripe.
    #[inline(always)]
    pub(crate) fn hash(&self, db: usize, key: &[u8]) -> u64 {
        let hash = self.hasher.hash_one(key);
        // Databases have equal keys often.
        (hash ^ (hash >> 32)).wrapping_add((db as u64).wrapping_mul(0x9E37_79B9))
    }

    /// Returns the stripe of a hash.
    #[inline(always)]
    pub(crate) fn of(hash: u64) -> u32 {
        (hash % STRIPES as u64) as u32
    }

    /// Returns all stripes.
    pub(crate) fn all() -> impl Iterator<Item = u32> {
        0..STRIPES as u32
    }

    #[inline(always)]
    fn word(&self, stripe: u32) -> &AtomicU64 {
        &self.words[stripe as usize]
    }

    /// Waits until no change of several keys goes on in a stripe; `locks`: until nobody changes it.
    #[inline(always)]
    pub(crate) fn begin_read(&self, stripe: u32, locks: bool) -> Seen {
        let mut spins = 0;
        loop {
            // Acquire: pairs with the release of `unlock`, so that the read sees the whole change.
            let word = self.word(stripe).load(Ordering::Acquire);
            if word & GENERATION == 0 && !(locks && word & LOCKED != 0) {
                return Seen { stripe, word };
            }
            wait(&mut spins);
        }
    }

    /// Whether what was read since belongs to one moment (rule 4).
    #[inline(always)]
    pub(crate) fn end_read(&self, seen: Seen, locks: bool) -> bool {
        // Pairs with the fence of `lock`: a reader that saw a store of the change sees its mark.
        fence(Ordering::Acquire);
        let word = self.word(seen.stripe).load(Ordering::Relaxed);
        let changed = word ^ seen.word;
        if locks { changed & !WATCHED == 0 } else { changed < GENERATION }
    }

    /// Looks at a stripe whose lock may be [tried](Self::try_lock).
    #[inline(always)]
    pub(crate) fn look(&self, stripe: u32) -> Seen {
        // Relaxed: the exchange of `try_lock` decides.
        Seen { stripe, word: self.word(stripe).load(Ordering::Relaxed) }
    }

    /// Takes the lock of a stripe, for a change by itself, unless somebody has it, or had it since it was
    /// looked at.
    #[inline(always)]
    pub(crate) fn try_lock(&self, seen: Seen) -> bool {
        let (word, before) = (self.word(seen.stripe), seen.word);
        // Acquire, relaxed and the fence: as in `lock`.
        let is_taken = before & LOCKED == 0
            && word
                .compare_exchange(before, before | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        fence(Ordering::Release);
        is_taken
    }

    /// Takes the lock of a stripe. `many`: the change is one of several.
    #[inline(always)]
    pub(crate) fn lock(&self, stripe: u32, many: bool) {
        let (word, mut spins) = (self.word(stripe), 0);
        loop {
            // Relaxed: the exchange below decides.
            let seen = word.load(Ordering::Relaxed);
            let marked = (seen | LOCKED).wrapping_add(if many { GENERATION } else { 0 });
            // Acquire: what the last holder did is seen here.
            if seen & LOCKED == 0
                && word
                    .compare_exchange_weak(seen, marked, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                // Before all stores of the change: see `end_read`.
                fence(Ordering::Release);
                return;
            }
            wait(&mut spins);
        }
    }

    /// Marks the change of a stripe, whose lock is held, as one of several changes of the map. None was made yet.
    pub(crate) fn escalate(&self, stripe: u32) {
        let word = self.word(stripe);
        // Relaxed: rule 5.
        let seen = word.load(Ordering::Relaxed);
        if seen & GENERATION == 0 {
            word.store(seen.wrapping_add(GENERATION), Ordering::Relaxed);
            // Before all stores of the change: see `end_read`.
            fence(Ordering::Release);
        }
    }

    /// Releases a lock.
    #[inline(always)]
    pub(crate) fn unlock(&self, stripe: u32, is_changed: bool) {
        let word = self.word(stripe);
        // Relaxed: rule 5.
        let seen = word.load(Ordering::Relaxed) & !LOCKED;
        let version = (seen & VERSIONS).wrapping_add(if is_changed { VERSION } else { 0 });
        let next = (seen & !VERSIONS) | (version & VERSIONS);
        // Release: pairs with `lock` and `begin_read`. The generation becomes even.
        word.store(next.wrapping_add(seen & GENERATION), Ordering::Release);
    }

    /// Whether connections watch keys of a stripe whose lock is held.
    #[inline(always)]
    pub(crate) fn is_watched(&self, stripe: u32) -> bool {
        // Relaxed: rule 5.
        self.word(stripe).load(Ordering::Relaxed) & WATCHED != 0
    }

    /// Notes whether connections watch keys of a stripe whose lock is held.
    pub(crate) fn set_watched(&self, stripe: u32, is_watched: bool) {
        // Relaxed: rule 5.
        let seen = self.word(stripe).load(Ordering::Relaxed) & !WATCHED;
        let mark = if is_watched { WATCHED } else { 0 };
        // Release: a reader may begin with this word; it then sees the changes before it, as after
        // `unlock`.
        self.word(stripe).store(seen | mark, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_a_change_crosses_are_refused() {
        let stripes = Stripes::new(1);
        let (seen, seen_with_locks) = (stripes.begin_read(3, false), stripes.begin_read(3, true));
        assert!(stripes.end_read(seen, false) && stripes.end_read(seen_with_locks, true));
        stripes.lock(3, false);
        assert!(stripes.end_read(seen, false), "one change of the map is whole by itself");
        assert!(!stripes.end_read(seen_with_locks, true));
        stripes.unlock(3, true);
        assert!(!stripes.end_read(seen_with_locks, true));
        let seen = stripes.begin_read(3, false);
        stripes.lock(3, true);
        assert!(!stripes.end_read(seen, false));
        stripes.unlock(3, true);
        assert!(!stripes.end_read(seen, false));
        let seen = stripes.begin_read(3, false);
        stripes.lock(3, false);
        stripes.escalate(3);
        stripes.escalate(3);
        assert!(!stripes.end_read(seen, false));
        stripes.unlock(3, true);
        assert!(!stripes.end_read(seen, false));
        stripes.begin_read(3, false);
        let seen = stripes.begin_read(3, true);
        stripes.lock(3, false);
        stripes.set_watched(3, true);
        stripes.unlock(3, false);
        assert!(stripes.end_read(seen, true) && stripes.is_watched(3));
    }

    #[test]
    fn versions_do_not_reach_generations() {
        let stripes = Stripes::new(1);
        stripes.words[0].store(VERSIONS, Ordering::Relaxed);
        stripes.lock(0, false);
        stripes.unlock(0, true);
        assert_eq!(stripes.words[0].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn locks_are_tried() {
        let stripes = Stripes::new(1);
        let seen = stripes.look(3);
        assert!(stripes.try_lock(seen) && !stripes.try_lock(seen));
        assert!(!stripes.try_lock(stripes.look(3)));
        stripes.unlock(3, true);
        assert!(!stripes.try_lock(seen), "somebody had it");
        assert!(stripes.try_lock(stripes.look(3)));
    }

    #[test]
    fn locks_exclude() {
        let (stripes, count) = (Stripes::new(1), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        stripes.lock(7, true);
                        let seen = count.load(Ordering::Relaxed);
                        count.store(seen + 1, Ordering::Relaxed);
                        stripes.unlock(7, true);
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 40_000);
    }
}
