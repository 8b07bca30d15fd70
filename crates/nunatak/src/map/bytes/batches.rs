//! [`ByteMap`]: batches.

use super::ByteMap;
use crate::entry::{Entries, KeyOf, KeyRef};
use crate::error::Error;
use crate::map::batch::windows;
use crate::sync::GuardPin;
use crate::table::{Design, KeyTest, PairTable};

/// Tells a key from other keys with the same word, as far as the slot alone tells.
struct MayBe<'e, 'k, E: Entries> {
    entries: &'e E,
    key: KeyRef<'k, E>,
}

impl<E: Entries> KeyTest for MayBe<'_, '_, E> {
    const BY_WORD: bool = E::WORDS_ARE_KEYS;

    #[inline(always)]
    fn accepts(&self, value_word: u64) -> bool {
        self.entries.may_be(self.key, value_word)
    }
}

impl<E: Entries, D: Design> ByteMap<E, D> {
    /// Calls `found` for each key of a batch, in order, with its index and its value.
    pub(super) fn find_many<'g, K: KeyOf<E::Naming>>(
        &'g self,
        guard: &'g GuardPin<'_>,
        keys: &[K],
        mut found: impl FnMut(usize, Option<E::Value<'g>>),
    ) {
        windows::find_many(
            &self.table,
            keys.iter().map(|key| self.entries.word(key.key())),
            |at| MayBe { entries: &*self.entries, key: keys[at].key() },
            |word| self.entries.prefetch(word),
            (
                |at, word| {
                    let key = keys[at].key();
                    // SAFETY: read under the guard (R3).
                    E::fits(key) && unsafe { self.entries.is(key, word) }
                },
                |at| self.find_word(guard, keys[at].key()),
            ),
            |at, word| found(at, word.map(|word| self.value(guard, word))),
        );
    }

    /// Runs `each` for every key of a batch, in order, after the lines of its slot and its entry
    /// have been fetched.
    pub(super) fn for_each_fetched<'k, const INSERTS: bool>(
        &self,
        keys: impl ExactSizeIterator<Item = KeyRef<'k, E>>,
        each: impl FnMut(usize) -> bool,
    ) {
        let words = keys.map(|key| self.entries.word(key));
        let prefetch = |word| self.entries.prefetch(word);
        windows::for_each_fetched::<INSERTS>(&self.table, words, prefetch, each);
    }

    /// Prefetches the lines that an operation on the key touches first.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// TurboBlobMap::new().prefetch(b"a");
    /// ```
    pub fn prefetch(&self, key: KeyRef<'_, E>) {
        if E::fits(key) {
            self.table.prefetch(self.entries.word(key));
        }
    }

    /// Stores all entries, in order, and returns how many keys were new.
    ///
    /// # Errors
    /// As [`put`](Self::put), for the first entry that can't be stored; the entries before it are
    /// stored.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// assert_eq!(map.put_many(&[("a", "1"), ("b", "2"), ("a", "3")]), Ok(2));
    /// ```
    pub fn put_many<K: KeyOf<E::Naming>, V: AsRef<[u8]>>(
        &self,
        entries: &[(K, V)],
    ) -> Result<usize, Error> {
        let mut fresh = 0;
        self.put_until(entries, &mut fresh).map_err(|(_, error)| error)?;
        Ok(fresh)
    }

    /// Stores entries, in order, and counts the keys that were new. The error tells how many
    /// entries were stored before one that can't be.
    pub(crate) fn put_until<K: KeyOf<E::Naming>, V: AsRef<[u8]>>(
        &self,
        entries: &[(K, V)],
        fresh: &mut usize,
    ) -> Result<(), (usize, Error)> {
        let mut result = Ok(());
        self.for_each_fetched::<true>(entries.iter().map(|(key, _)| key.key()), |at| {
            let (key, value) = &entries[at];
            match self.put(key.key(), value.as_ref()) {
                Ok(replaced) => *fresh += usize::from(!replaced),
                Err(error) => result = Err((at, error)),
            }
            result.is_ok()
        });
        result
    }

    /// Removes all keys, in order, and returns how many were present.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put_many(&[("a", "1"), ("b", "2")])?;
    /// assert_eq!(map.delete_many(&["b", "b"]), 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn delete_many<K: KeyOf<E::Naming>>(&self, keys: &[K]) -> usize {
        let mut present = 0;
        self.for_each_fetched::<false>(keys.iter().map(KeyOf::key), |at| {
            present += usize::from(self.delete(keys[at].key()));
            true
        });
        present
    }
}
