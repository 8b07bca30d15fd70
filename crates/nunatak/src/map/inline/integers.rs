//! Integers that are changed in place: counters, sums, maxima.

use crate::entry::{InlineKey, Integer};
use crate::error::BatchError;
use crate::hash::Hashing;
use crate::map::inline::InlineMap;
use crate::table::{Change, HashesWith, Unshadowed};

impl<K: InlineKey, V: Integer, S: Hashing, D: HashesWith<S> + Unshadowed> InlineMap<K, V, S, D> {
    /// Changes the key's value by a function of the value and `amount`, or stores `absent`.
    #[inline]
    fn fetch(&self, key: K, absent: V, amount: V, change: impl Fn(V, V) -> V) -> Option<V> {
        let to = |word| Change::To(change(V::from_word(word), amount).to_word());
        self.apply(key, Some(absent), to)
    }

    /// Adds to the key's value, wrapping around, and returns the value before. An absent key counts
    /// as zero, and is stored.
    ///
    /// Costs an [`insert`](Self::insert): no lookup comes before, and no attempt is lost to other
    /// threads.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let hits: DlhtMap<u32, u64> = DlhtMap::new();
    /// assert_eq!(hits.fetch_add(404, 1), None);
    /// assert_eq!(hits.fetch_add(404, 1), Some(1));
    /// assert_eq!(hits.get(&404), Some(2));
    /// ```
    #[inline]
    pub fn fetch_add(&self, key: K, amount: V) -> Option<V> {
        self.fetch(key, amount, amount, V::wrapping_add)
    }

    /// Subtracts from the key's value, wrapping around, and returns the value before; otherwise as
    /// [`fetch_add`](Self::fetch_add).
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let balances: DlhtMap<u32, i64> = [(1, 10)].into();
    /// assert_eq!(balances.fetch_sub(1, 3), Some(10));
    /// assert_eq!(balances.fetch_sub(2, 3), None);
    /// assert_eq!((balances.get(&1), balances.get(&2)), (Some(7), Some(-3)));
    /// ```
    #[inline]
    pub fn fetch_sub(&self, key: K, amount: V) -> Option<V> {
        self.fetch(key, V::default().wrapping_sub(amount), amount, V::wrapping_sub)
    }

    /// Raises the key's value to `least`, if it is lower or absent, and returns the value before.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let last_seen: DlhtMap<u32, u64> = [(1, 10)].into();
    /// assert_eq!(last_seen.fetch_max(1, 12), Some(10));
    /// assert_eq!(last_seen.fetch_max(1, 11), Some(12));
    /// assert_eq!(last_seen.get(&1), Some(12));
    /// ```
    #[inline]
    pub fn fetch_max(&self, key: K, least: V) -> Option<V> {
        self.fetch(key, least, least, V::max)
    }

    /// Lowers the key's value to `most`, if it is higher or absent, and returns the value before.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let first_seen: DlhtMap<u32, u64> = [(1, 10)].into();
    /// assert_eq!(first_seen.fetch_min(1, 8), Some(10));
    /// assert_eq!(first_seen.get(&1), Some(8));
    /// ```
    #[inline]
    pub fn fetch_min(&self, key: K, most: V) -> Option<V> {
        self.fetch(key, most, most, V::min)
    }

    /// [`fetch_add`](Self::fetch_add) for all entries, in order, with overlapped memory latencies.
    /// Returns how many keys were new.
    ///
    /// # Errors
    /// If `previous` is shorter than `entries`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let sums: DlhtMap<u32, u64> = DlhtMap::new();
    /// let mut previous = [None; 3];
    /// assert_eq!(sums.fetch_add_many(&[(1, 10), (2, 20), (1, 5)], &mut previous), Ok(2));
    /// assert_eq!(previous, [None, None, Some(10)]);
    /// assert_eq!(sums.get(&1), Some(15));
    /// ```
    #[inline]
    pub fn fetch_add_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError> {
        self.store_many(entries, previous, |at, word| {
            Change::To(V::from_word(word).wrapping_add(entries[at].1).to_word())
        })
    }
}
