//! Batches over columns: keys and values in slices of their own, presence as bits. Joins and other
//! languages have their data so.

use crate::entry::{Inline, InlineKey, Integer};
use crate::error::BatchError;
use crate::hash::Hashing;
use crate::map::batch::check_batch;
use crate::map::inline::InlineMap;
use crate::table::{ByWord, Change, HashesWith, PairTable, Unshadowed};

/// How many keys a word of presence has bits for.
const BITS: usize = u64::BITS as usize;

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S>> InlineMap<K, V, S, D> {
    /// Looks up a column of keys, in order, with overlapped memory latencies, and returns how many
    /// were present. Bit `i % 64` of `present[i / 64]` becomes whether `keys[i]` was, and
    /// `values[i]` its value; the values of absent keys, and bits behind the last key, are left
    /// alone.
    ///
    /// # Errors
    /// If `values` is shorter than `keys`, or `present` has fewer bits; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = (0..100).map(|key| (key, 2 * key)).collect();
    /// let (mut values, mut present) = ([0; 3], [0; 1]);
    /// assert_eq!(map.get_columns(&[1, 200, 3], &mut values, &mut present), Ok(2));
    /// assert_eq!((values, present), ([2, 0, 6], [0b101]));
    /// ```
    #[inline]
    pub fn get_columns(
        &self,
        keys: &[K],
        values: &mut [V],
        present: &mut [u64],
    ) -> Result<usize, BatchError> {
        check_batch(keys.len(), values.len())?;
        check_batch(keys.len(), present.len().saturating_mul(BITS))?;
        let mut count = 0;
        self.table.find_many(
            keys.len(),
            |at| keys[at].to_word(),
            |_| ByWord,
            |at, found| {
                let bit = 1 << (at % BITS);
                match found {
                    Some(word) => {
                        values[at] = V::from_word(word);
                        present[at / BITS] |= bit;
                        count += 1;
                    }
                    None => present[at / BITS] &= !bit,
                }
            },
        );
        Ok(count)
    }
}

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S> + Unshadowed> InlineMap<K, V, S, D> {
    /// Stores a column of values under a column of keys, in order, with overlapped memory
    /// latencies, and returns how many keys were new. What they replace is not reported.
    ///
    /// # Errors
    /// If the columns are not of one length; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.insert_columns(&[1, 2, 1], &[10, 20, 11]), Ok(2));
    /// assert_eq!(map.get(&1), Some(11));
    /// assert!(map.insert_columns(&[1, 2], &[10]).is_err());
    /// ```
    #[inline]
    pub fn insert_columns(&self, keys: &[K], values: &[V]) -> Result<usize, BatchError> {
        check_batch(keys.len(), values.len())?;
        check_batch(values.len(), keys.len())?;
        Ok(self.apply_columns(keys, values, |at, _| Change::To(values[at].to_word())))
    }

    fn apply_columns(
        &self,
        keys: &[K],
        values: &[V],
        change: impl Fn(usize, u64) -> Change,
    ) -> usize {
        let mut new = 0;
        self.table.apply_many(
            keys.len(),
            |at| keys[at].to_word(),
            |_| ByWord,
            |at| Some(values[at].to_word()),
            change,
            |_, before| {
                new += usize::from(before.is_none());
                true
            },
        );
        new
    }

    /// [`fetch_add`](Self::fetch_add) for columns, in order, with overlapped memory latencies:
    /// sums by key. Returns how many keys were new.
    ///
    /// # Errors
    /// If the columns are not of one length; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let sums: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(sums.fetch_add_columns(&[1, 2, 1], &[10, 20, 5]), Ok(2));
    /// assert_eq!(sums.get(&1), Some(15));
    /// ```
    #[inline]
    pub fn fetch_add_columns(&self, keys: &[K], amounts: &[V]) -> Result<usize, BatchError>
    where
        V: Integer,
    {
        check_batch(keys.len(), amounts.len())?;
        check_batch(amounts.len(), keys.len())?;
        let sum = |at: usize, word| V::from_word(word).wrapping_add(amounts[at]).to_word();
        Ok(self.apply_columns(keys, amounts, |at, word| Change::To(sum(at, word))))
    }
}
