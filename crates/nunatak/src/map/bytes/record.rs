//! [`RecordMap`]: byte strings, each entry in memory of the caller's allocator.

use crate::alloc::{Allocator, Global};
use crate::entry::{Entries, KeyRef};
use crate::entry::{Format, Named, Namespace, RecordFormat, Records};
use crate::error::Error;
use crate::hash::{Hashing, RandomState, RecordCodec};
use crate::map::bytes::ByteMap;
use crate::table::{Design, Dlht, HashesWith};
use core::ptr::NonNull;
use std::sync::Arc;

/// A concurrent map of byte strings by byte strings. Each value is in memory of the caller's
/// allocator, and so is each key of more than 8 bytes, beside its value (DLHT's Allocator mode,
/// sections 3.1 and 3.4).
///
/// A get touches what a get of the design's inline map touches, and the record if the value is read
/// or the key is longer than 8 bytes. `F` sets the sizes of keys and values, whether keys are in
/// one of 4096 namespaces, and whether values are changed in place: see
/// [`Format`](crate::entry::Format). `A` is an [allocator](crate::alloc), by default the program's.
/// `D` is the table's [design](crate::Design).
///
/// A removed or replaced record goes back to the allocator when no [guard](ByteMap::pin) can see it
/// any more. [`advance_epoch`](ByteMap::advance_epoch) gives such records back at once,
/// [`unreclaimed`](ByteMap::unreclaimed) returns how many bytes wait, and
/// [`detach`](ByteMap::detach) leaves a record to the caller.
///
/// ```
/// use nunatak::DlhtRecordMap;
/// let map: DlhtRecordMap = DlhtRecordMap::new();
/// map.put(b"short", &[7; 1000])?;
/// map.put(b"a key that does not fit a slot", b"")?;
/// let guard = map.pin();
/// assert_eq!(guard.get(b"short").unwrap()[999], 7);
/// # Ok::<(), nunatak::Error>(())
/// ```
pub type RecordMap<F = Format, A = Global, S = RandomState, D = Dlht> =
    ByteMap<Records<F, A, S>, D>;

/// A [`RecordMap`] of DLHT's table.
///
/// ```
/// use nunatak::{DlhtRecordMap, entry::Format};
/// let map: DlhtRecordMap<Format<8, 32>> = DlhtRecordMap::with_capacity(1000);
/// map.put(&7_u64.to_le_bytes(), &[1; 32])?;
/// assert_eq!(map.get(&7_u64.to_le_bytes()), Some(vec![1; 32]));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub type DlhtRecordMap<F = Format, A = Global, S = RandomState> = RecordMap<F, A, S, Dlht>;

impl<F, A, S, D> ByteMap<Records<F, A, S>, D>
where
    F: RecordFormat,
    A: Allocator + Send + Sync + 'static,
    S: Hashing,
    D: HashesWith<S>,
{
    /// Makes an empty map with room for `capacity` entries, which hashes with `hasher` and keeps
    /// its records in memory of `allocator`.
    ///
    /// # Errors
    /// If the capacity does not fit the address space, or memory is refused.
    ///
    /// ```
    /// use nunatak::{DlhtRecordMap, Modulo, alloc::Global, entry::Format};
    /// let map: DlhtRecordMap<Format<8, 16>, Global, Modulo> =
    ///     DlhtRecordMap::try_new_in(1000, Modulo, Global)?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn try_new_in(capacity: usize, hasher: S, allocator: A) -> Result<Self, Error> {
        let codec = RecordCodec::new(hasher.into_codec()?);
        Ok(Self::of(D::table(codec, capacity)?, Arc::new(Records::new(allocator))))
    }

    /// Makes an empty map whose records are in memory of `allocator`.
    ///
    /// # Panics
    /// If memory for the table is refused.
    ///
    /// ```
    /// use nunatak::{DlhtRecordMap, alloc::Global, entry::Format};
    /// let map: DlhtRecordMap<Format> = DlhtRecordMap::new_in(Global);
    /// # assert!(map.is_empty());
    /// ```
    pub fn new_in(allocator: A) -> Self
    where
        S: Default,
    {
        match Self::try_new_in(0, S::default(), allocator) {
            Ok(map) => map,
            Err(error) => panic!("{error}"),
        }
    }
}

impl<F, A, S, D> ByteMap<Records<F, A, S>, D>
where
    F: RecordFormat,
    A: Allocator + Default + Send + Sync + 'static,
    S: Hashing + Default,
    D: HashesWith<S>,
{
    /// Makes an empty map, which takes memory as it gets entries: with one entry 5 KiB of the
    /// allocator's memory and no mapping.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// use nunatak::{DlhtRecordMap, entry::Format};
    /// assert!(DlhtRecordMap::<Format>::new().is_empty());
    /// ```
    pub fn new() -> Self {
        Self::new_in(A::default())
    }

    /// Makes an empty map with room for `capacity` entries.
    ///
    /// # Panics
    /// If memory for it is refused; see [`try_with_capacity`](Self::try_with_capacity).
    ///
    /// ```
    /// use nunatak::{DlhtRecordMap, entry::Format};
    /// assert!(DlhtRecordMap::<Format>::with_capacity(1000).is_empty());
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        match Self::try_with_capacity(capacity) {
            Ok(map) => map,
            Err(error) => panic!("{error}"),
        }
    }

    /// Makes an empty map with room for `capacity` entries.
    ///
    /// # Errors
    /// If the capacity does not fit the address space, or memory is refused.
    ///
    /// ```
    /// use nunatak::{DlhtRecordMap, entry::Format};
    /// assert!(DlhtRecordMap::<Format>::try_with_capacity(1 << 60).is_err());
    /// ```
    pub fn try_with_capacity(capacity: usize) -> Result<Self, Error> {
        Self::try_new_in(capacity, S::default(), A::default())
    }
}

impl<F, A, S, D> ByteMap<Records<F, A, S>, D>
where
    F: RecordFormat,
    A: Allocator + Default + Send + Sync + 'static,
    S: Hashing,
    D: HashesWith<S>,
{
    /// Makes an empty map that hashes with `hasher`.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// use nunatak::{DlhtRecordMap, Modulo, alloc::Global, entry::Format};
    /// let map: DlhtRecordMap<Format<8, 32>, Global, Modulo> = DlhtRecordMap::with_hasher(Modulo);
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_hasher(hasher: S) -> Self {
        Self::with_capacity_and_hasher(0, hasher)
    }

    /// Makes an empty map with room for `capacity` entries that hashes with `hasher`.
    ///
    /// # Panics
    /// If memory is refused; see [`try_new_in`](Self::try_new_in).
    ///
    /// ```
    /// use nunatak::{DlhtRecordMap, Modulo, alloc::Global, entry::Format};
    /// let map: DlhtRecordMap<Format<8, 32>, Global, Modulo> =
    ///     DlhtRecordMap::with_capacity_and_hasher(1000, Modulo);
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        match Self::try_new_in(capacity, hasher, A::default()) {
            Ok(map) => map,
            Err(error) => panic!("{error}"),
        }
    }
}

impl<F, A, S, D> Default for ByteMap<Records<F, A, S>, D>
where
    F: RecordFormat,
    A: Allocator + Default + Send + Sync + 'static,
    S: Hashing + Default,
    D: HashesWith<S>,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<F, A, S, D> ByteMap<Records<F, A, S>, D>
where
    F: RecordFormat,
    A: Allocator + Send + Sync + 'static,
    S: Hashing,
    D: Design,
{
    /// Begins another epoch, and gives records that were removed or replaced before it, and that no
    /// guard can see, back to the allocator. Returns how many bytes wait for guards, as
    /// [`reclaim`](Self::reclaim). Calling it is optional, and one thread suffices; in the paper
    /// all threads must take part (section 3.2.3).
    ///
    /// ```
    /// use nunatak::{DlhtRecordMap, entry::Format};
    /// let map: DlhtRecordMap<Format> = DlhtRecordMap::new();
    /// map.put(b"a", b"1")?;
    /// let guard = map.pin();
    /// map.delete(b"a");
    /// assert!(map.advance_epoch() > 0);
    /// drop(guard);
    /// assert_eq!(map.advance_epoch(), 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn advance_epoch(&self) -> usize {
        self.reclaim()
    }
}

impl<F, A, S, D> crate::ByteGuard<'_, Records<F, A, S>, D>
where
    F: RecordFormat,
    A: Allocator + Send + Sync + 'static,
    S: Hashing,
    D: Design,
{
    /// Returns a pointer to the key's value (DLHT, section 3.2.1: the pointer interface). It is
    /// aligned to 8 bytes, and padding fills up the value's last word.
    ///
    /// The bytes may be read through the pointer while the guard lives. They may be written only if
    /// no thread reads or writes them in another way meanwhile: no slice from a [`get`](Self::get)
    /// is in use, no copy is being made, and writers exclude each other, by a lock in the value,
    /// for instance. [`InPlace`](crate::entry::InPlace) lets threads access values at the same time
    /// without these conditions.
    ///
    /// ```
    /// use nunatak::{DlhtRecordMap, entry::Format};
    /// let map: DlhtRecordMap<Format<8, 16>> = DlhtRecordMap::new();
    /// map.put(b"some key", &[0; 16])?;
    /// {
    ///     let guard = map.pin();
    ///     let value = guard.pointer(b"some key").unwrap();
    ///     // SAFETY: there is one thread, and it has no slice of the value.
    ///     unsafe { value.cast::<u8>().add(3).write(7) };
    /// }
    /// assert_eq!(map.get(b"some key").unwrap()[3], 7);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn pointer(&self, key: KeyRef<'_, Records<F, A, S>>) -> Option<NonNull<[u8]>> {
        let word = self.map.find_word(self.pin(), key)?;
        // SAFETY: read under the guard, which outlives the borrow.
        Some(unsafe { self.map.entries.pointer(word) })
    }
}

impl<E: Entries<Naming = Named>, D: Design> ByteMap<E, D> {
    /// Iterates over copies of all entries of a namespace, weakly consistent. Goes through the
    /// whole map.
    ///
    /// ```
    /// use nunatak::{DlhtRecordMap, Namespace, entry::{Format, Named, VARIABLE}};
    /// let map: DlhtRecordMap<Format<VARIABLE, VARIABLE, Named>> = DlhtRecordMap::new();
    /// let [orders, items] = [Namespace::new(0)?, Namespace::new(1)?];
    /// map.put_many(&[((orders, "7"), "an order"), ((items, "7"), "an item")])?;
    /// let found: Vec<_> = map.iter_in(items).collect();
    /// assert_eq!(found, [(b"7".to_vec(), b"an item".to_vec())]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn iter_in(&self, namespace: Namespace) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        self.iter()
            .filter(move |((of, _), _)| *of == namespace)
            .map(|((_, key), value)| (key, value))
    }

    /// Counts the entries of a namespace. Goes through the whole map.
    ///
    /// ```
    /// use nunatak::{DlhtRecordMap, Namespace, entry::{Format, Named, VARIABLE}};
    /// let map: DlhtRecordMap<Format<VARIABLE, VARIABLE, Named>> = DlhtRecordMap::new();
    /// map.put((Namespace::new(1)?, b"a"), b"")?;
    /// assert_eq!((map.len_of(Namespace::new(0)?), map.len_of(Namespace::new(1)?)), (0, 1));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn len_of(&self, namespace: Namespace) -> usize {
        let guard = self.pin();
        guard.iter().filter(|(found, _)| E::key(found).0 == namespace).count()
    }

    /// Removes every entry of a namespace that the walk reaches. Goes through the whole map.
    ///
    /// ```
    /// use nunatak::{DlhtRecordMap, Namespace, entry::{Format, Named, VARIABLE}};
    /// let map: DlhtRecordMap<Format<VARIABLE, VARIABLE, Named>> = DlhtRecordMap::new();
    /// for number in 0..3 {
    ///     map.put((Namespace::new(number)?, b"a"), b"")?;
    /// }
    /// map.clear_namespace(Namespace::new(1)?);
    /// assert_eq!((map.len(), map.len_of(Namespace::new(1)?)), (2, 0));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn clear_namespace(&self, namespace: Namespace) {
        self.retain(|(of, _), _| of != namespace);
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    /// Keys of several namespaces may have one word: in the first bucket of a bin, in a link, or
    /// delegated.
    #[test]
    fn keys_of_one_word_are_told_apart() {
        for count in 1..40 {
            let map: DlhtRecordMap<Format<8, 8, Named>> = DlhtRecordMap::new();
            let word = map.entries.word((Namespace::default(), &[7; 8]));
            let key = |number| {
                let namespace = Namespace::new(number).unwrap();
                // The word of zeros is what a namespace adds.
                let added = map.entries.word((namespace, &[0; 8]));
                (namespace, (word ^ added).to_le_bytes())
            };
            let keys: Vec<_> = (0..count).map(key).collect();
            assert_eq!(keys[0].1, [7; 8]);
            for (number, (namespace, key)) in (0_u64..).zip(&keys) {
                assert_eq!(map.entries.word((*namespace, key)), word);
                assert_eq!(map.put((*namespace, key), &number.to_le_bytes()), Ok(false));
            }
            let value = |number: u64| Some(number.to_le_bytes().to_vec());
            for (number, (namespace, key)) in (0..).zip(&keys) {
                assert_eq!(map.get((*namespace, key)), value(number));
            }
            let guard = map.pin();
            guard.get_many(&keys, |at, found| {
                assert_eq!(found.map(<[u8]>::to_vec), value(at as u64));
            });
            let (absent, of_the_word) = key(count);
            assert_eq!(map.get((absent, &of_the_word)), None);
        }
    }
}
