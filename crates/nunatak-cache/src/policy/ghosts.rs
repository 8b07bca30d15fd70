//! The keys that left the small queue without a second use: fingerprints, without entries.
//!
//! A table of buckets of four words. A word holds a fingerprint and the time of its eviction,
//! counted in evictions. It needs no queue: a word is dead once as many keys have followed it as the
//! window is long, and a new word replaces the oldest of its bucket (S3-FIFO, section 4.2).

use crate::key::spread;

const WAYS: usize = 4;

/// A word without a key.
const EMPTY: u64 = 0;

#[derive(Debug, Default)]
pub(crate) struct Ghosts {
    /// Of a fingerprint in the high half, which is not zero, and a time in the low half.
    words: Vec<u64>,
    time: u32,
}

fn word(fingerprint: u32, time: u32) -> u64 {
    (u64::from(fingerprint) << 32) | u64::from(time)
}

impl Ghosts {
    /// Returns the bucket of a key, and its fingerprint.
    fn place(&self, hash: u64) -> (usize, u32) {
        let spread = spread(hash);
        let buckets = self.words.len() / WAYS;
        // The low half chooses the bucket and the high half is the fingerprint: equal fingerprints
        // in a bucket are rare.
        let bucket = ((spread & 0xFFFF_FFFF) * buckets as u64) >> 32;
        (bucket as usize * WAYS, (spread >> 32) as u32 | 1)
    }

    /// Makes room for as many keys. Keeps the keys that are there, or forgets them if the table
    /// grows.
    pub(crate) fn reserve(&mut self, keys: usize) {
        if self.words.len() < keys.max(1) {
            self.words = vec![EMPTY; keys.next_power_of_two().max(4 * WAYS)];
        }
    }

    /// Remembers a key.
    pub(crate) fn insert(&mut self, hash: u64) {
        let (at, fingerprint) = self.place(hash);
        self.time = self.time.wrapping_add(1);
        let time = self.time;
        let age = |word: &u64| match *word {
            EMPTY => u32::MAX,
            word => time.wrapping_sub(word as u32),
        };
        let oldest = self.words[at..at + WAYS].iter_mut().max_by_key(|word| age(word));
        *oldest.expect("buckets are not empty") = word(fingerprint, time);
    }

    /// Forgets a key, and returns whether it was one of the last `window` keys.
    pub(crate) fn remove(&mut self, hash: u64, window: usize) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let (at, fingerprint) = self.place(hash);
        let bucket = &mut self.words[at..at + WAYS];
        let found = bucket.iter_mut().find(|word| (**word >> 32) as u32 == fingerprint);
        found.is_some_and(|found| {
            let age = self.time.wrapping_sub(*found as u32);
            *found = EMPTY;
            (age as usize) < window
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_remembered_for_the_window() {
        let mut ghosts = Ghosts::default();
        assert!(!ghosts.remove(1, 10));
        ghosts.reserve(1000);
        (0..100).for_each(|key| ghosts.insert(key));
        assert!(!ghosts.remove(100, 100));
        assert!(ghosts.remove(99, 1) && !ghosts.remove(99, 100));
        assert!(ghosts.remove(90, 10) && !ghosts.remove(89, 10));
    }

    #[test]
    fn a_new_key_replaces_the_oldest_of_its_bucket() {
        let mut ghosts = Ghosts::default();
        ghosts.reserve(1);
        (0..10_000).for_each(|key| ghosts.insert(key));
        let remembered = (0..10_000).filter(|key| ghosts.remove(*key, usize::MAX)).count();
        assert_eq!(remembered, ghosts.words.len());
    }
}
