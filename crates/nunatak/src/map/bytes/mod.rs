//! [`ByteMap`]: byte strings by byte strings, wherever their entries are kept.

mod batches;
pub(super) mod blob;
mod collection;
pub(super) mod detached;
mod execute;
mod from_iterators;
pub(super) mod guard;
pub(super) mod record;
mod removal;
pub(super) mod shadow;
#[cfg(feature = "serde")]
pub(super) mod with_serde;

use crate::entry::{Entries, KeyRef, RetiredBytes};
use crate::error::Error;
use crate::map::Compute;
use crate::sync::{GuardPin, Limbo};
use crate::table::{Change, Design, KeyTest, PairTable};
use core::fmt;
use std::sync::Arc;

/// A concurrent map of byte strings by byte strings: a [`BlobMap`](crate::BlobMap), which keeps its
/// entries side by side in its own memory, or a [`RecordMap`](crate::RecordMap), which keeps each
/// entry in memory of the caller's allocator.
///
/// `E` says where entries are kept, and `D` is the table's [design](crate::Design).
///
/// # When memory is given back
///
/// An entry that was replaced or removed waits until no guard lives that may see it. The memory of
/// entries that no guard can see is given back when
///
/// - this thread, or other threads of the same eighth of all threads, retire 128 more entries or
///   256 KiB more than guards hold back;
/// - [`reclaim`](Self::reclaim), [`clear`](Self::clear), [`retain`](Self::retain) or
///   [`shrink_to_fit`](Self::shrink_to_fit) is called;
/// - the map is dropped.
///
/// ```
/// use nunatak::{ByteMap, Design, Error, entry::{Entries, Plain}};
/// fn copy<E, D>(map: &ByteMap<E, D>, from: &[u8], to: &[u8]) -> Result<bool, Error>
/// where
///     E: Entries<Naming = Plain>,
///     D: Design,
/// {
///     map.get(from).map_or(Ok(false), |value| map.put(to, &value).map(|_| true))
/// }
/// let map = nunatak::TurboBlobMap::new();
/// map.put(b"a", b"1")?;
/// assert!(copy(&map, b"a", b"b")? && map.contains_key(b"b"));
/// # Ok::<(), Error>(())
/// ```
pub struct ByteMap<E: Entries, D: Design> {
    pub(crate) table: D::Table<E::HashCodec>,
    /// Declared before `entries`, so dropped before: it gives its entries back to them.
    pub(super) limbo: Limbo<RetiredBytes<E>>,
    /// In an `Arc`, since limbo knows its address.
    pub(crate) entries: Arc<E>,
}

/// Tells a key from other keys with the same word.
pub(crate) struct IsKey<'e, 'k, E: Entries> {
    entries: &'e E,
    key: KeyRef<'k, E>,
}

impl<E: Entries> Clone for IsKey<'_, '_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: Entries> Copy for IsKey<'_, '_, E> {}

impl<E: Entries> KeyTest for IsKey<'_, '_, E> {
    const BY_WORD: bool = E::WORDS_ARE_KEYS;

    #[inline(always)]
    fn accepts(&self, value_word: u64) -> bool {
        // SAFETY: the table holds words of these entries only, and every operation runs under a
        // guard that was taken before.
        self.entries.may_be(self.key, value_word)
            && unsafe { self.entries.is(self.key, value_word) }
    }

    fn is_hidden(&self) -> Option<bool> {
        self.entries.is_hidden(self.key)
    }
}

impl<E: Entries, D: Design> fmt::Debug for ByteMap<E, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteMap").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<E: Entries, D: Design> ByteMap<E, D> {
    /// Wraps a table and entries that are made already.
    pub(crate) fn of(table: D::Table<E::HashCodec>, entries: Arc<E>) -> Self {
        const {
            assert!(
                matches!(D::WORD_BITS, (64, 64)),
                "the design's entries are smaller than two words"
            );
        }
        Self { table, limbo: Limbo::new(), entries }
    }

    #[inline(always)]
    pub(crate) fn guard(&self) -> GuardPin<'_> {
        self.table.registry().guard()
    }

    /// Returns the value of a word that was read under a guard.
    #[inline(always)]
    pub(super) fn value<'g>(&'g self, _guard: &'g GuardPin<'_>, word: u64) -> E::Value<'g> {
        // SAFETY: the table holds words of these entries only, and the word was read under the
        // guard, which outlives the returned value.
        unsafe { self.entries.value(word) }
    }

    /// Gives back an entry that a change took out of its slot, once no thread can see it any more.
    pub(crate) fn retire(&self, word: u64) {
        // SAFETY: the caller's change took it out, and limbo, which is dropped before the entries,
        // keeps it from every guard that may have seen it (R3, R4).
        let retired = unsafe { RetiredBytes::new(&*self.entries, word) };
        let bytes = retired.bytes();
        self.limbo.retire_with(self.table.registry(), retired, bytes, |items| {
            self.entries.prefetch_places(items.iter().map(RetiredBytes::word));
        });
    }
}

impl<E: Entries, D: Design> ByteMap<E, D> {
    #[inline(always)]
    pub(crate) fn is<'g, 'k>(
        &'g self,
        _guard: &'g GuardPin<'_>,
        key: KeyRef<'k, E>,
    ) -> IsKey<'g, 'k, E> {
        IsKey { entries: &self.entries, key }
    }

    /// Returns the key's value word.
    #[inline(always)]
    pub(crate) fn find_word(&self, guard: &GuardPin<'_>, key: KeyRef<'_, E>) -> Option<u64> {
        if !E::fits(key) {
            return None;
        }
        self.table.find_guarded(guard, self.entries.word(key), self.is(guard, key))
    }

    /// Applies a change to the key's slot, and returns the word that was there.
    pub(super) fn apply(
        &self,
        guard: &GuardPin<'_>,
        key: KeyRef<'_, E>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64> {
        if !E::fits(key) {
            return None;
        }
        self.table.apply(self.entries.word(key), &self.is(guard, key), None, change)
    }

    /// As `apply`, but stores `fresh` if the key is absent. The key fits.
    fn apply_or_insert(
        &self,
        guard: &GuardPin<'_>,
        key: KeyRef<'_, E>,
        fresh: u64,
        change: impl Fn(u64) -> Change,
    ) -> Result<Option<u64>, Error> {
        let (word, test) = (self.entries.word(key), self.is(guard, key));
        let before = self.table.apply_unless_shadowed(word, &test, Some(fresh), change)?;
        #[cfg(durable)]
        if <D::Medium as crate::memory::Medium>::IS_DURABLE && crate::table::is_refused() {
            return Err(crate::FileError::Full.into());
        }
        Ok(before)
    }

    /// Replaces the very entry `current` by another, or removes it. The error is the entry that is
    /// there instead, if any.
    pub(super) fn replace(
        &self,
        guard: &GuardPin<'_>,
        key: KeyRef<'_, E>,
        current: u64,
        change: Change,
    ) -> Result<(), Option<u64>> {
        match self.apply(guard, key, change.of_exactly(current)) {
            Some(before) if before == current => Ok(()),
            other => Err(other),
        }
    }

    #[inline(always)]
    pub(super) fn find_value<'g>(
        &'g self,
        guard: &'g GuardPin<'_>,
        key: KeyRef<'_, E>,
    ) -> Option<E::Value<'g>> {
        self.find_word(guard, key).map(|word| self.value(guard, word))
    }

    /// Runs `f` on the key's value, without a copy.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"123")?;
    /// assert_eq!(map.get_with(b"a", <[u8]>::len), Some(3));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    // Always inlined: the caller may know the key's length, and the processor overlaps more short
    // lookups.
    #[inline(always)]
    pub fn get_with<R>(&self, key: KeyRef<'_, E>, f: impl FnOnce(E::Value<'_>) -> R) -> Option<R> {
        let guard = self.guard();
        self.find_value(&guard, key).map(f)
    }

    /// Returns a copy of the key's value.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// assert_eq!(TurboBlobMap::new().get(b"a"), None);
    /// ```
    pub fn get(&self, key: KeyRef<'_, E>) -> Option<Vec<u8>> {
        self.get_with(key, E::copy)
    }

    /// Appends the key's value to a buffer, and returns whether the key is present.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let (map, mut buffer) = (TurboBlobMap::new(), vec![0]);
    /// map.put(b"a", &[1, 2])?;
    /// assert!(map.get_into(b"a", &mut buffer) && buffer == [0, 1, 2]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get_into(&self, key: KeyRef<'_, E>, buffer: &mut Vec<u8>) -> bool {
        self.get_with(key, |value| E::append(value, buffer)).is_some()
    }

    /// Returns whether the key is present.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// assert!(!TurboBlobMap::new().contains_key(b"a"));
    /// ```
    // Always inlined: the caller may know the key's length, and the processor overlaps more short
    // lookups.
    #[inline(always)]
    pub fn contains_key(&self, key: KeyRef<'_, E>) -> bool {
        let guard = self.guard();
        self.find_word(&guard, key).is_some()
    }

    /// Stores the value, and returns whether it replaced one.
    ///
    /// # Errors
    /// If memory is refused, the key or the value has more than 2^32 - 1 bytes or not the size that
    /// the format fixes, or the key is hidden; the map is as it was. This holds for all methods
    /// that store something.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// assert_eq!((map.put(b"", b"")?, map.put(b"", b"1")?), (false, true));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn put(&self, key: KeyRef<'_, E>, value: &[u8]) -> Result<bool, Error> {
        let guard = self.guard();
        Ok(self.swap(&guard, key, value)?.map(|word| self.retire(word)).is_some())
    }

    /// Stores the value and returns the word that it replaced.
    fn swap(
        &self,
        guard: &GuardPin<'_>,
        key: KeyRef<'_, E>,
        value: &[u8],
    ) -> Result<Option<u64>, Error> {
        let fresh = self.entries.store(key, value)?;
        let word = fresh.word();
        let before = self.apply_or_insert(guard, key, word, |_| Change::To(word))?;
        fresh.published();
        Ok(before)
    }

    /// Stores the value and returns a copy of the value that it replaced.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// assert_eq!(map.insert(b"a", b"1")?, None);
    /// assert_eq!(map.insert(b"a", b"2")?, Some(b"1".to_vec()));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn insert(&self, key: KeyRef<'_, E>, value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let guard = self.guard();
        let before = self.swap(&guard, key, value)?;
        Ok(before.map(|word| self.take_out(&guard, word)))
    }

    /// Copies the value of a word that the caller took out of its slot, and retires its entry.
    pub(super) fn take_out(&self, guard: &GuardPin<'_>, word: u64) -> Vec<u8> {
        let value = E::copy(self.value(guard, word));
        self.retire(word);
        value
    }

    /// Stores the value if the key is absent. The inner error is a copy of the present value.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// assert_eq!(map.try_insert(b"a", b"1")?, Ok(()));
    /// assert_eq!(map.try_insert(b"a", b"2")?, Err(b"1".to_vec()));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn try_insert(
        &self,
        key: KeyRef<'_, E>,
        value: &[u8],
    ) -> Result<Result<(), Vec<u8>>, Error> {
        let guard = self.guard();
        let present = self.store_if_absent(&guard, key, value)?;
        Ok(present.map_or(Ok(()), |word| Err(E::copy(self.value(&guard, word)))))
    }

    /// Stores the value if the key is absent, and returns the word of the present value otherwise.
    fn store_if_absent(
        &self,
        guard: &GuardPin<'_>,
        key: KeyRef<'_, E>,
        value: &[u8],
    ) -> Result<Option<u64>, Error> {
        if let Some(present) = self.find_word(guard, key) {
            return Ok(Some(present));
        }
        let fresh = self.entries.store(key, value)?;
        let present = self.apply_or_insert(guard, key, fresh.word(), Change::keep)?;
        if present.is_none() {
            fresh.published();
        }
        Ok(present)
    }

    /// Replaces the value if the key is present, and returns a copy of the value that it replaced.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// assert_eq!(TurboBlobMap::new().update(b"a", b"1")?, None);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn update(&self, key: KeyRef<'_, E>, value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let guard = self.guard();
        let before = self.swap_if_present(&guard, key, value)?;
        Ok(before.map(|word| self.take_out(&guard, word)))
    }

    /// Replaces the value if the key is present, and returns the word that it replaced.
    fn swap_if_present(
        &self,
        guard: &GuardPin<'_>,
        key: KeyRef<'_, E>,
        value: &[u8],
    ) -> Result<Option<u64>, Error> {
        if self.find_word(guard, key).is_none() {
            return Ok(None);
        }
        let fresh = self.entries.store(key, value)?;
        let word = fresh.word();
        let before = self.apply(guard, key, |_| Change::To(word));
        if before.is_some() {
            fresh.published();
        }
        Ok(before)
    }

    /// Keeps, replaces or removes the key's value as `f` decides, atomically, and returns a copy of
    /// the value before. `f` may run more than once; its last answer counts.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// ```
    /// # use nunatak::{Compute, TurboBlobMap};
    /// let map = TurboBlobMap::new();
    /// let mut append = |byte: u8| {
    ///     map.compute(b"a", |value| Compute::Put([value.unwrap_or(&[]), &[byte]].concat()))
    /// };
    /// assert_eq!((append(1)?, append(2)?), (None, Some(vec![1])));
    /// assert_eq!(map.get(b"a"), Some(vec![1, 2]));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn compute<F>(&self, key: KeyRef<'_, E>, mut f: F) -> Result<Option<Vec<u8>>, Error>
    where
        F: FnMut(Option<E::Value<'_>>) -> Compute<Vec<u8>>,
    {
        let guard = self.guard();
        let mut present = self.find_word(&guard, key);
        loop {
            let value = present.map(|word| self.value(&guard, word));
            let attempt = match (f(value), present) {
                (Compute::Keep, _) | (Compute::Remove, None) => {
                    return Ok(value.map(E::copy));
                }
                (Compute::Remove, Some(current)) => {
                    self.replace(&guard, key, current, Change::Remove)
                }
                (Compute::Put(new), present) => {
                    let fresh = self.entries.store(key, &new)?;
                    let word = fresh.word();
                    let attempt = match present {
                        Some(current) => self.replace(&guard, key, current, Change::To(word)),
                        None => match self.apply_or_insert(&guard, key, word, Change::keep)? {
                            None => Ok(()),
                            newer => Err(newer),
                        },
                    };
                    if attempt.is_ok() {
                        fresh.published();
                    }
                    attempt
                }
            };
            match attempt {
                Ok(()) => return Ok(present.map(|word| self.take_out(&guard, word))),
                Err(newer) => present = newer,
            }
        }
    }

    /// Replaces the value by the result of `f`, and returns a copy of the value before. `f` may run
    /// more than once, each time on a newer value. If it returns `None` nothing changes.
    ///
    /// # Errors
    /// As [`put`](Self::put). The inner result is an error if nothing was replaced: a copy of the
    /// value for which `f` returned `None`, or `None` if the key is absent.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// let twice = |value: &[u8]| Some(value.repeat(2));
    /// assert_eq!(map.fetch_update(b"a", twice)?, Ok(b"1".to_vec()));
    /// assert_eq!(map.fetch_update(b"b", twice)?, Err(None));
    /// assert_eq!(map.get(b"a"), Some(b"11".to_vec()));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn fetch_update<F>(
        &self,
        key: KeyRef<'_, E>,
        mut f: F,
    ) -> Result<Result<Vec<u8>, Option<Vec<u8>>>, Error>
    where
        F: FnMut(E::Value<'_>) -> Option<Vec<u8>>,
    {
        let mut is_changed = false;
        let before = self.compute(key, |present| {
            let new = present.and_then(&mut f);
            is_changed = new.is_some();
            new.map_or(Compute::Keep, Compute::Put)
        })?;
        Ok(match before {
            Some(before) if is_changed => Ok(before),
            declined => Err(declined),
        })
    }

    /// Replaces a value that is equal to `current`, and returns a copy of it.
    ///
    /// # Errors
    /// As [`put`](Self::put). The inner result is an error if nothing was replaced: a copy of the
    /// value that is present instead, or `None` if the key is absent.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.compare_exchange(b"a", b"1", b"2")?, Ok(b"1".to_vec()));
    /// assert_eq!(map.compare_exchange(b"a", b"1", b"3")?, Err(Some(b"2".to_vec())));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn compare_exchange(
        &self,
        key: KeyRef<'_, E>,
        current: &[u8],
        new: &[u8],
    ) -> Result<Result<Vec<u8>, Option<Vec<u8>>>, Error> {
        self.fetch_update(key, |value| (E::copy(value) == current).then(|| new.to_vec()))
    }

    /// Returns a copy of the key's value, which is made and stored first if the key is absent.
    /// `make` runs at most once. Its value is dropped if another thread stored one meanwhile.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// assert_eq!(map.get_or_insert_with(b"a", || b"1".to_vec())?, b"1");
    /// assert_eq!(map.get_or_insert_with(b"a", || b"2".to_vec())?, b"1");
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get_or_insert_with(
        &self,
        key: KeyRef<'_, E>,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Result<Vec<u8>, Error> {
        if let Some(present) = self.get(key) {
            return Ok(present);
        }
        let value = make();
        Ok(self.try_insert(key, &value)?.err().unwrap_or(value))
    }

    /// Moves an entry to another place if that frees memory and the key still has this entry; an
    /// error if memory is refused.
    pub(super) fn relocate(
        &self,
        guard: &GuardPin<'_>,
        (word, value_word): (u64, u64),
    ) -> Result<(), Error> {
        // SAFETY: read under the guard (R3).
        let (found, fresh) = unsafe {
            let Some(fresh) = self.entries.store_lower(value_word)? else { return Ok(()) };
            (self.entries.found(word, value_word), fresh)
        };
        if self.replace(guard, E::key(&found), value_word, Change::To(fresh.word())).is_ok() {
            fresh.published();
            self.retire(value_word);
        }
        Ok(())
    }
}

impl<E: Entries, D: Design> Drop for ByteMap<E, D> {
    fn drop(&mut self) {
        if E::ARE_SEPARATE {
            // SAFETY: the table holds words of these entries only, each once, and no other thread
            // has the map any more.
            self.table.for_each_left(|word| unsafe { self.entries.give_back(word) });
            self.entries.give_back_hidden();
        }
    }
}
