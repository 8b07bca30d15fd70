//! [`PeaBlobMultiMap`]: batches. A group of keys is looked up first, and then their values.

use super::PeaBlobMultiMap;
use crate::entry::{Entries, Inline};
use crate::error::{BatchError, Error};
use crate::map::batch::{check_batch, windows};
use crate::sync::GuardPin;
use crate::table::ByEntry;
use crate::table::pea::MultiTable;
use core::hash::BuildHasher;

/// How many keys are looked up before their values are.
const GROUP: usize = 64;

/// Some keys of a batch. Their bytes are taken and hashed before anything is locked, since both are
/// the caller's code.
struct Group<'k> {
    len: usize,
    keys: [&'k [u8]; GROUP],
    hashes: [u64; GROUP],
}

impl<'k> Group<'k> {
    fn new(keys: impl Iterator<Item = &'k [u8]>, hash: impl Fn(&[u8]) -> u64) -> Self {
        let mut group = Self { len: 0, keys: [&[]; GROUP], hashes: [0; GROUP] };
        for key in keys.take(GROUP) {
            (group.keys[group.len], group.hashes[group.len]) = (key, hash(key));
            group.len += 1;
        }
        group
    }

    fn hashes(&self) -> &[u64] {
        &self.hashes[..self.len]
    }
}

/// The numbers of those keys of a group that are in the map.
struct Numbers {
    len: usize,
    /// A key's index in the group, and its number.
    of: [(usize, u64); GROUP],
}

impl<V: Inline, S: BuildHasher + Send + Sync + 'static> PeaBlobMultiMap<V, S> {
    fn group<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Group<'k> {
        Group::new(keys, |key| self.keys.entries.word(key))
    }

    /// Looks up the keys of a group.
    fn numbers(&self, guard: &GuardPin<'_>, group: &Group<'_>) -> Numbers {
        let mut numbers = Numbers { len: 0, of: [(0, 0); GROUP] };
        windows::find_many(
            &self.keys.table,
            group.hashes().iter().copied(),
            |_| ByEntry(|_| true),
            |number| self.keys.entries.prefetch(number),
            (
                // SAFETY: read under the guard (R3).
                |at, number| unsafe { self.keys.entries.is(group.keys[at], number) },
                |at| self.number_of_hashed(guard, group.hashes[at], group.keys[at]),
            ),
            |at, number| {
                if let Some(number) = number {
                    numbers.of[numbers.len] = (at, number);
                    numbers.len += 1;
                }
            },
        );
        numbers
    }

    /// Stores many values, in order, as calls of [`insert`](Self::insert) would, with overlapped
    /// memory latencies.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), for the first value that can't be stored; the values before it
    /// are stored.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = PeaBlobMultiMap::new();
    /// map.insert_many(&[("a", 10), ("b", 20), ("a", 30)])?;
    /// assert_eq!(map.count(b"a"), 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn insert_many<K: AsRef<[u8]>>(&self, entries: &[(K, V)]) -> Result<(), Error> {
        let table = &self.values.table;
        self.add_many(entries, |pairs| {
            MultiTable::insert_values(table, pairs.len(), |at| pairs[at])
        })
    }

    /// Stores many values, in order, as calls of [`insert_unique`](Self::insert_unique) would, with
    /// overlapped memory latencies. Returns how many were added.
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = PeaBlobMultiMap::new();
    /// assert_eq!(map.insert_unique_many(&[("a", 10), ("b", 20), ("a", 10)])?, 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn insert_unique_many<K: AsRef<[u8]>>(&self, entries: &[(K, V)]) -> Result<usize, Error> {
        let (table, mut added) = (&self.values.table, 0);
        self.add_many(entries, |pairs| {
            added += MultiTable::insert_absent_values(table, pairs.len(), |at| pairs[at])?;
            Ok(())
        })?;
        Ok(added)
    }

    /// Calls `add` with the pairs of each group: numbers and values.
    fn add_many<K: AsRef<[u8]>>(
        &self,
        entries: &[(K, V)],
        mut add: impl FnMut(&[(u64, u64)]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for entries in entries.chunks(GROUP) {
            let group = self.group(entries.iter().map(|(key, _)| key.as_ref()));
            let mut pairs = [(0, 0); GROUP];
            for (pair, (_, value)) in pairs.iter_mut().zip(entries) {
                pair.1 = value.to_word();
            }
            let guard = self.keys.guard();
            let kept = self.locks.keep_all(group.hashes());
            let (mut count, mut result) = (0, Ok(()));
            windows::for_each_fetched::<true>(
                &self.keys.table,
                group.hashes().iter().copied(),
                |number| self.keys.entries.prefetch(number),
                |at| {
                    match self.number_or_new(&guard, group.hashes[at], group.keys[at]) {
                        Ok(number) => (pairs[at].0, count) = (number, count + 1),
                        Err(error) => result = Err(error),
                    }
                    result.is_ok()
                },
            );
            let added = add(&pairs[..count]);
            drop(kept);
            if added.is_err() {
                for (at, &(number, _)) in pairs[..count].iter().enumerate() {
                    self.forget_if_empty(&guard, group.hashes[at], group.keys[at], number);
                }
            }
            added.and(result)?;
        }
        Ok(())
    }

    /// Appends all values of many keys, in order. The values of key `n` end at index `ends[n]` of
    /// `values`. They are the values of one moment for each key; these moments are in no order.
    ///
    /// # Errors
    /// If `ends` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = [("a", 10), ("b", 20), ("b", 20)].into_iter().collect();
    /// let (mut values, mut ends) = (Vec::new(), [0; 3]);
    /// map.copy_all_many(&["b", "c", "a"], &mut values, &mut ends)?;
    /// assert_eq!((values, ends), (vec![20, 20, 10], [2, 2, 3]));
    /// # Ok::<(), nunatak::BatchError>(())
    /// ```
    pub fn copy_all_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        values: &mut Vec<V>,
        ends: &mut [usize],
    ) -> Result<(), BatchError> {
        check_batch(keys.len(), ends.len())?;
        for (keys, ends) in keys.chunks(GROUP).zip(ends.chunks_mut(GROUP)) {
            let group = self.group(keys.iter().map(AsRef::as_ref));
            let guard = self.keys.guard();
            let Numbers { len, of } = self.numbers(&guard, &group);
            // A key that is not there ends where the key before it ends.
            let (mut next, mut end) = (0, values.len());
            let mut copied = |at: usize, end_of_it| {
                ends[next..of[at].0].fill(end);
                ends[of[at].0] = end_of_it;
                (next, end) = (of[at].0 + 1, end_of_it);
            };
            MultiTable::copy_values_of(&self.values.table, len, |at| of[at].1, values, &mut copied);
            ends[next..group.len].fill(end);
        }
        Ok(())
    }

    /// Counts the values of each of many keys. Each count is that of one moment; these moments are
    /// in no order.
    ///
    /// # Errors
    /// If `counts` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = [("a", 10), ("b", 20), ("b", 20)].into_iter().collect();
    /// let mut counts = [0; 3];
    /// map.count_many(&["b", "c", "a"], &mut counts)?;
    /// assert_eq!(counts, [2, 0, 1]);
    /// # Ok::<(), nunatak::BatchError>(())
    /// ```
    pub fn count_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        counts: &mut [usize],
    ) -> Result<(), BatchError> {
        check_batch(keys.len(), counts.len())?;
        for (keys, counts) in keys.chunks(GROUP).zip(counts.chunks_mut(GROUP)) {
            let group = self.group(keys.iter().map(AsRef::as_ref));
            let guard = self.keys.guard();
            let Numbers { len, of } = self.numbers(&guard, &group);
            counts[..group.len].fill(0);
            let counted = |at: usize, count| counts[of[at].0] = count;
            MultiTable::count_values_of(&self.values.table, len, |at| of[at].1, counted);
        }
        Ok(())
    }

    /// Removes all values of many keys, in order, and stores in `removed` how many each had.
    ///
    /// # Errors
    /// If `removed` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = [("a", 10), ("b", 20), ("b", 20)].into_iter().collect();
    /// let mut removed = [0; 3];
    /// map.remove_all_many(&["b", "b", "a"], &mut removed)?;
    /// assert_eq!(removed, [2, 0, 1]);
    /// # Ok::<(), nunatak::BatchError>(())
    /// ```
    pub fn remove_all_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        removed: &mut [usize],
    ) -> Result<(), BatchError> {
        check_batch(keys.len(), removed.len())?;
        for (keys, removed) in keys.chunks(GROUP).zip(removed.chunks_mut(GROUP)) {
            let group = self.group(keys.iter().map(AsRef::as_ref));
            let guard = self.keys.guard();
            let Numbers { len, of } = self.numbers(&guard, &group);
            removed[..group.len].fill(0);
            let counted = |at: usize, count| removed[of[at].0] = count;
            MultiTable::remove_values_of(&self.values.table, len, |at| of[at].1, counted);
            for &(at, number) in of[..len].iter().filter(|(at, _)| removed[*at] > 0) {
                self.forget_if_empty(&guard, group.hashes[at], group.keys[at], number);
            }
        }
        Ok(())
    }
}
