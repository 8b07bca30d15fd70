//! [`PeaBlobMultiMap`]: single changes.

use super::PeaBlobMultiMap;
use crate::entry::{Entries, Inline};
use crate::error::Error;
use crate::seeded::{Bug, seeded};
use crate::sync::GuardPin;
use crate::table::pea::MultiTable;
use crate::table::{Change, PairTable};
use core::hash::BuildHasher;

impl<V: Inline, S: BuildHasher + Send + Sync + 'static> PeaBlobMultiMap<V, S> {
    /// Adds a value to a key, even if the key has an equal one.
    ///
    /// # Errors
    /// If memory for a new key is refused, or the key has more than 2^32 - 1 bytes; the map is as
    /// it was. This holds for all methods that add values.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = PeaBlobMultiMap::new();
    /// map.insert(b"a", 1)?;
    /// map.insert(b"a", 1)?;
    /// assert_eq!(map.count(b"a"), 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn insert(&self, key: &[u8], value: V) -> Result<(), Error> {
        let word = value.to_word();
        self.add(key, |number| MultiTable::insert_value(&self.values.table, number, word))
    }

    /// Adds a value to a key unless the key has an equal one, and returns whether it was added. If
    /// two threads add the same pair at once, one of them adds it. Looks through the key's values,
    /// as [`contains_pair`](Self::contains_pair) does, under the lock of the key's buckets.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = PeaBlobMultiMap::new();
    /// assert!(map.insert_unique(b"a", 7)? && !map.insert_unique(b"a", 7)?);
    /// assert_eq!(map.count(b"a"), 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn insert_unique(&self, key: &[u8], value: V) -> Result<bool, Error> {
        let word = value.to_word();
        self.add(key, |number| MultiTable::insert_absent(&self.values.table, number, word))
    }

    /// Adds to the values of a key. `add` runs no code of the caller, since a lock is held.
    fn add<R>(&self, key: &[u8], add: impl FnOnce(u64) -> Result<R, Error>) -> Result<R, Error> {
        let hash = self.keys.entries.word(key);
        let guard = self.keys.guard();
        let kept = (!seeded(Bug::KeyNotKept)).then(|| self.locks.keep(hash));
        let number = self.number_or_new(&guard, hash, key)?;
        let added = add(number);
        drop(kept);
        if added.is_err() {
            self.forget_if_empty(&guard, hash, key, number);
        }
        added
    }

    /// Returns the number of a key, which gets one if it has none. The caller keeps the key.
    pub(super) fn number_or_new(
        &self,
        guard: &GuardPin<'_>,
        hash: u64,
        key: &[u8],
    ) -> Result<u64, Error> {
        if let Some(number) = self.number_of_hashed(guard, hash, key) {
            return Ok(number);
        }
        let fresh = self.keys.entries.store(key, &[])?;
        let (number, test) = (fresh.word(), self.keys.is(guard, key));
        let table = &self.keys.table;
        let present = table.apply_unless_shadowed(hash, &test, Some(number), Change::keep)?;
        Ok(present.unwrap_or_else(|| {
            fresh.published();
            number
        }))
    }

    /// Takes a key out if it has no value. The caller does not keep the key, and runs this after it
    /// has removed the key's last value.
    pub(super) fn forget_if_empty(&self, guard: &GuardPin<'_>, hash: u64, key: &[u8], number: u64) {
        if self.values.contains_key(&number) {
            return;
        }
        let alone = self.locks.alone(hash);
        if self.values.contains_key(&number) && !seeded(Bug::KeyForgottenWithValue) {
            return;
        }
        // The key may have been taken out already, and may have another number.
        let take_out = Change::Remove.of_exactly(number);
        let test = self.keys.is(guard, key);
        let before = self.keys.table.apply(hash, &test, None, take_out);
        drop(alone);
        if before == Some(number) {
            self.keys.retire(number);
        }
    }

    /// Removes values of a key. The key needs no lock: if it was taken out since its number was
    /// found, the number has no values, and neither had the key at that moment.
    fn take<R: Default>(&self, key: &[u8], take: impl FnOnce(u64) -> R) -> R {
        let hash = self.keys.entries.word(key);
        let guard = self.keys.guard();
        let Some(number) = self.number_of_hashed(&guard, hash, key) else { return R::default() };
        let taken = take(number);
        self.forget_if_empty(&guard, hash, key, number);
        taken
    }

    /// Removes one occurrence of a value of a key, and returns whether there was one. Looks through
    /// the key's values.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = [("a", 10), ("a", 10), ("a", 20)].into_iter().collect();
    /// assert!(map.remove_one(b"a", &10) && map.remove_one(b"a", &10));
    /// assert!(!map.remove_one(b"a", &10));
    /// assert_eq!(map.count(b"a"), 1);
    /// ```
    pub fn remove_one(&self, key: &[u8], value: &V) -> bool {
        self.take(key, |number| self.values.remove_one(&number, value))
    }

    /// Removes all values of a key, atomically, and returns how many there were.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = (0..100).map(|value| ("a", value)).collect();
    /// assert_eq!((map.remove_all(b"a"), map.remove_all(b"a")), (100, 0));
    /// ```
    pub fn remove_all(&self, key: &[u8]) -> usize {
        self.take(key, |number| self.values.remove_all(&number))
    }

    /// Removes all values of a key, atomically, and returns them.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = (0..100).map(|value| ("a", value)).collect();
    /// assert_eq!(map.drain(b"a").sum::<u64>(), 4950);
    /// assert!(map.is_empty());
    /// ```
    pub fn drain(&self, key: &[u8]) -> std::vec::IntoIter<V> {
        let words = self.take(key, |number| MultiTable::drain_values(&self.values.table, number));
        words.into_iter().map(V::from_word).collect::<Vec<V>>().into_iter()
    }

    /// Removes the pairs that `keep` rejects, each as [`remove_one`](Self::remove_one) does. So
    /// removing most values of a key that has very many takes long.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = [("a", 1), ("a", 2), ("b", 3)].into_iter().collect();
    /// map.retain(|key, value| key == b"a" && *value > 1);
    /// assert_eq!((map.count(b"a"), map.count(b"b")), (1, 0));
    /// ```
    pub fn retain<F: FnMut(&[u8], &V) -> bool>(&self, mut keep: F) {
        for (key, value) in self.iter() {
            if !keep(&key, &value) {
                self.remove_one(&key, &value);
            }
        }
        if self.unreclaimed() > 0 {
            self.reclaim();
        }
    }

    /// Removes all values of each key that the walk reaches.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = [("a", 1), ("b", 2)].into_iter().collect();
    /// map.clear();
    /// assert!(map.is_empty());
    /// ```
    pub fn clear(&self) {
        for (key, _) in self.distinct_keys() {
            self.remove_all(&key);
        }
        if self.unreclaimed() > 0 {
            self.reclaim();
        }
    }
}
