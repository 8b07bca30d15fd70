//! When keys were used last, or how often: what `maxmemory-policy` needs to know of them.
//!
//! A table has two words for a key's hash, so a record is not written when it is read. Other keys that share one
//! of them make it look more used than the key is, so the less used one counts. There are two to four words a
//! key. They are kept when a key makes room: counts of keys that are stored again go on. A word is, by the policy,
//!
//! ```text
//! LRU   the time of the last use in ticks of 8 ms; it is known for 198 days
//! LFU   | minutes (16) | a logarithmic count of uses (16), which falls by one a minute |
//! ```
//!
//! and zero if the key was not used since the server was started. The count is Redis's, but has eight bits behind
//! the point and rises by what Redis's rises on average, so that three uses are more than two. Two threads that use
//! a key at the same time may count once.
//!
//! A word may be newer than the time that it is compared with: another thread's batch began later, or the clock was
//! set back. Such a key was used now.

use crate::config::Policy;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How many words there are at first: a power of two, as always.
const FIRST_WORDS: usize = 1 << 12;
/// There are at least so many words for a key, so that few keys share one.
const WORDS_OF_KEY: usize = 2;

/// Milliseconds of a tick, as a power of two.
const TICK: u32 = 3;

/// One, as a count.
const ONE: u32 = 1 << 8;
/// The count of a new key: it is not the first to go.
const FIRST_COUNT: u32 = 5 * ONE;
const MOST_COUNT: u32 = 0xFF * ONE;
/// How much slower a count rises the higher it is, as Redis's `lfu-log-factor` 10.
const SLOWER: u32 = 10;

/// The words of all keys. They are read and stored relaxed: they are hints.
#[derive(Debug)]
pub(crate) struct Ages {
    words: Box<[AtomicU32]>,
    counts: bool,
}

/// Returns the minutes of the word of a count.
fn minutes(now: u64) -> u32 {
    (now / 60_000) as u32 & 0xFFFF
}

/// Returns a count as it is now: it falls by one in each minute.
fn decayed(word: u32, now: u64) -> u32 {
    let passed = (minutes(now) as u16).wrapping_sub((word >> 16) as u16).cast_signed();
    (word & 0xFFFF).saturating_sub(u32::from(passed.max(0).cast_unsigned()) * ONE)
}

impl Ages {
    /// Makes a table; `None` if the policy needs none, or nothing has to go.
    pub(crate) fn new(policy: Policy, max_memory: usize) -> Option<Self> {
        (max_memory > 0 && policy.needs_ages()).then(|| Self {
            words: (0..FIRST_WORDS).map(|_| AtomicU32::new(0)).collect(),
            counts: policy.counts_uses(),
        })
    }

    /// Returns a table for so many keys that knows what this one knows; `None` if this one is large enough.
    pub(crate) fn grown(&self, keys: usize) -> Option<Self> {
        let wanted = keys.saturating_mul(WORDS_OF_KEY);
        if wanted <= self.words.len() {
            return None;
        }
        // The upper bits of a hash choose: each word becomes several neighbours.
        let factor = wanted.div_ceil(self.words.len()).next_power_of_two();
        let word = |at: usize| AtomicU32::new(self.words[at / factor].load(Relaxed));
        let words = (0..self.words.len() * factor).map(word).collect();
        Some(Self { words, counts: self.counts })
    }

    #[inline(always)]
    fn words(&self, hash: u64) -> [&AtomicU32; 2] {
        // The upper bits choose: the lower ones name the stripe.
        [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03].map(|factor| {
            let hash = u128::from(hash.wrapping_mul(factor));
            &self.words[((hash * self.words.len() as u128) >> 64) as usize]
        })
    }

    /// Notes that a key is used, at so many milliseconds since 1970.
    #[inline]
    pub(crate) fn note(&self, hash: u64, now: u64) {
        let words = self.words(hash);
        let used = if self.counts {
            let before = self.count(hash, now);
            let above = before.unwrap_or(0).saturating_sub(FIRST_COUNT);
            let step = (ONE * ONE / (above * SLOWER + ONE)).max(1);
            let count = (before.unwrap_or(FIRST_COUNT) + step).min(MOST_COUNT);
            // A word that another key has used more often stays as it is.
            for word in words {
                let seen = word.load(Relaxed);
                if seen == 0 || decayed(seen, now) < count {
                    word.store(minutes(now) << 16 | count, Relaxed);
                }
            }
            return;
        } else {
            // Zero is a key that was not used.
            ((now >> TICK) as u32).max(1)
        };
        for word in words {
            // Most uses of a key are in the same tick: its line is not written then.
            if word.load(Relaxed) != used {
                word.store(used, Relaxed);
            }
        }
    }

    /// Returns how often a key was used.
    fn count(&self, hash: u64, now: u64) -> Option<u32> {
        let [first, second] = self.words(hash).map(|word| word.load(Relaxed));
        let is_used = first != 0 && second != 0;
        is_used.then(|| decayed(first, now).min(decayed(second, now)))
    }

    /// Returns for how many ticks a key was not used.
    fn idle(&self, hash: u64, now: u64) -> Option<u32> {
        let [first, second] = self.words(hash).map(|word| word.load(Relaxed));
        let passed = |word: u32| {
            ((now >> TICK) as u32).wrapping_sub(word).cast_signed().max(0).cast_unsigned()
        };
        (first != 0 && second != 0).then(|| passed(first).max(passed(second)))
    }

    /// Returns a number that is the higher the sooner a key may go.
    pub(crate) fn rank(&self, hash: u64, now: u64) -> u32 {
        let rank = match self.counts {
            true => self.count(hash, now).map(|count| MOST_COUNT - count),
            false => self.idle(hash, now),
        };
        rank.unwrap_or(u32::MAX)
    }

    /// Returns for how many seconds a key was not used; `None` if uses are counted, not timed.
    pub(crate) fn idle_seconds(&self, hash: u64, now: u64) -> Option<i64> {
        let ticks = self.idle(hash, now).unwrap_or(0);
        (!self.counts).then_some((i64::from(ticks) << TICK) / 1000)
    }

    /// Returns how often a key was used, as a logarithmic count; `None` if uses are timed.
    pub(crate) fn frequency(&self, hash: u64, now: u64) -> Option<i64> {
        self.counts.then(|| i64::from(self.count(hash, now).unwrap_or(0) / ONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_policies_that_look_at_uses_have_a_table() {
        assert!(Ages::new(Policy::NoEviction, 1 << 20).is_none());
        assert!(Ages::new(Policy::AllkeysRandom, 1 << 20).is_none());
        assert!(Ages::new(Policy::AllkeysLru, 0).is_none());
        for policy in
            [Policy::AllkeysLru, Policy::VolatileLru, Policy::AllkeysLfu, Policy::VolatileLfu]
        {
            assert!(Ages::new(policy, 1 << 20).is_some());
        }
    }

    #[test]
    fn times_of_use_are_ordered() {
        let ages = Ages::new(Policy::AllkeysLru, 1 << 20).unwrap();
        let start = 1_800_000_000_000;
        ages.note(1, start);
        ages.note(2, start + 1000);
        let now = start + 5000;
        assert!(ages.rank(3, now) > ages.rank(1, now) && ages.rank(1, now) > ages.rank(2, now));
        assert_eq!(ages.idle_seconds(1, now), Some(5));
        assert_eq!((ages.frequency(1, now), ages.idle_seconds(3, now)), (None, Some(0)));
        ages.note(1, now);
        assert!(ages.rank(1, now) < ages.rank(2, now));
    }

    /// Another thread's batch began later, or the clock was set back.
    #[test]
    fn a_use_in_the_future_is_one_of_now() {
        let now = 1_800_000_000_000;
        for policy in [Policy::AllkeysLru, Policy::AllkeysLfu] {
            let ages = Ages::new(policy, 1 << 20).unwrap();
            ages.note(1, now + 2 * 60_000);
            ages.note(2, now - 3 * 60_000);
            assert!(ages.rank(1, now) < ages.rank(2, now), "{policy:?}");
        }
    }

    #[test]
    fn growth_forgets_nothing() {
        let ages = Ages::new(Policy::AllkeysLru, 1 << 20).unwrap();
        let now = 1_800_000_000_000;
        (0..500).for_each(|hash| ages.note(hash << 40, now));
        assert!(ages.grown(1000).is_none());
        let grown = ages.grown(FIRST_WORDS * 3).unwrap();
        assert_eq!(grown.words.len(), FIRST_WORDS * 8);
        assert!((0..500).all(|hash| grown.rank(hash << 40, now) == 0));
        assert!(grown.grown(FIRST_WORDS * 4).is_none());
    }

    #[test]
    fn counts_rise_with_uses_and_fall_with_time() {
        let ages = Ages::new(Policy::AllkeysLfu, 1 << 20).unwrap();
        let start = 1_800_000_000_000;
        (0..1000).for_each(|_| ages.note(1, start));
        ages.note(2, start);
        let [often, once] = [1, 2].map(|hash| ages.frequency(hash, start).unwrap());
        assert_eq!(once, 6);
        assert!((10..60).contains(&often), "{often}");
        assert!(ages.rank(2, start) > ages.rank(1, start));
        assert_eq!(ages.frequency(1, start + 2 * 60_000), Some(often - 2));
        assert_eq!(ages.frequency(1, start + 10_000 * 60_000), Some(0));
        assert_eq!(ages.idle_seconds(1, start), None);
    }
}
