//! [`BoxedMap`]: any key, any value.

mod batches;
mod collection;
pub(crate) mod entry;
mod get_or_insert;
pub(super) mod guard;
pub(crate) mod iterate;
pub(crate) mod reference;
mod removal;
pub(super) mod sealable;
mod sealed_changes;
pub(super) mod set;
mod set_algebra;

use crate::entry::{Entry, EntryPtr, Retired, Unpublished};
use crate::error::Error;
use crate::hash::{IdentityCodec, RandomState, post_mix};
use crate::map::Compute;
#[cfg(doc)]
use crate::map::{ConcurrentMap, Removed};
use crate::sync::{GuardPin, Limbo};
use crate::table::{ByCaller, Change, Design, Dlht, PairTable};
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use equivalent::Equivalent;

pub(super) type Pointer<K, V> = EntryPtr<K, V>;

/// A concurrent map of any `K: Hash + Eq` to any value.
///
/// A slot holds the key's hash and a pointer to an entry on the heap. A get touches what a get of
/// the design's inline map touches (such as [`DlhtMap`](crate::DlhtMap) or
/// [`PeaMap`](crate::PeaMap)), one cache line of the entry, and what the key and the value point
/// to. Consistency and progress are those of that map. Keys are looked up by any borrowed form.
///
/// `Eq` tells keys apart whose `Hash` collides in all 64 bits. If very many keys collide they share
/// a lock.
///
/// ```
/// use nunatak::DlhtBoxedMap;
///
/// let ages: DlhtBoxedMap<String, u32> = DlhtBoxedMap::new();
/// ages.insert("Ada".into(), 36);
/// assert_eq!(ages.get("Ada"), Some(36));
/// let guard = ages.pin();
/// let age: &u32 = guard.get("Ada").unwrap();
/// ages.remove("Ada");
/// assert_eq!(*age, 36); // still there, until the guard goes
/// ```
///
/// A guard borrows its map, so the map can't go first:
///
/// ```compile_fail
/// # use nunatak::DlhtBoxedMap;
/// let map: DlhtBoxedMap<String, u32> = DlhtBoxedMap::new();
/// let guard = map.pin();
/// drop(map);
/// guard.get("Ada");
/// ```
///
/// # When entries are dropped
///
/// An entry that was replaced or removed waits until no guard lives that may see it: `Drop` of its
/// key and its value never runs before. Afterwards it runs when
///
/// - this thread, or other threads of the same eighth of all threads, retire 128 more entries;
/// - [`reclaim`](Self::reclaim), [`clear`](Self::clear) or [`retain`](Self::retain) is called;
/// - the caller drops an entry that [`Removed::into_owned`] returned;
/// - the map is dropped.
///
/// `Drop` runs on the thread that does this, which holds no lock of the map meanwhile, so `Drop`
/// may use the map. For values that hold scarce resources (files, locks, permits), use
/// [`remove_entry`](Self::remove_entry) and `into_owned`, or call `reclaim` after removals.
///
/// The thread keeps the memory of entries of at most 128 bytes for the entries that it makes next, in any boxed map: that of at
/// most 256 entries of a size, and so never more than 272 KiB. When the thread ends the allocator gets it back.
///
/// ```
/// # use nunatak::DlhtBoxedMap;
/// # use std::sync::Arc;
/// let (map, value) = (DlhtBoxedMap::<String, Arc<()>>::new(), Arc::new(()));
/// map.insert("a".into(), value.clone());
/// map.remove("a");
/// assert_eq!(Arc::strong_count(&value), 2); // it waits
/// map.reclaim();
/// assert_eq!(Arc::strong_count(&value), 1);
/// ```
///
/// # Values changed in place
///
/// A value that is `Sync`, such as an `AtomicU64`, can be changed in place. If other threads remove
/// entries meanwhile, such changes may be lost with the entry; [the
/// guide](crate::guide::values_in_place) says when, and how to keep them.
pub struct BoxedMap<K, V, S = RandomState, D: Design = Dlht> {
    pub(super) table: D::Table<IdentityCodec>,
    hasher: S,
    pub(super) limbo: Limbo<Retired<K, V>>,
    entries: PhantomData<Box<(K, V)>>,
}

impl<K, V, S, D: Design> BoxedMap<K, V, S, D> {
    /// Wraps a table that is built already.
    pub(super) fn of(table: D::Table<IdentityCodec>, hasher: S) -> Self {
        const {
            assert!(
                matches!(D::WORD_BITS, (64, 64)),
                "the design's entries are smaller than a hash and a pointer"
            );
        }
        Self { table, hasher, limbo: Limbo::new(), entries: PhantomData }
    }
}

// SAFETY: the map owns its entries, and dropping it drops them here.
unsafe impl<K: Send, V: Send, S: Send, D: Design> Send for BoxedMap<K, V, S, D> {}
// SAFETY: threads that share the map get references to keys and values, and drop what other threads
// stored.
unsafe impl<K: Send + Sync, V: Send + Sync, S: Sync, D: Design> Sync for BoxedMap<K, V, S, D> where
    D::Table<IdentityCodec>: Sync
{
}

impl<K, V, D: Design> BoxedMap<K, V, RandomState, D> {
    /// Makes an empty map, which takes memory as it gets entries: with one entry 2 to 3 KiB of the
    /// allocator's memory, the entry's own besides, and no mapping. See
    /// [`InlineMap::new`](crate::InlineMap::new).
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// assert!(DlhtBoxedMap::<String, String>::new().is_empty());
    /// ```
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Makes an empty map with room for `capacity` entries.
    ///
    /// # Panics
    /// If memory for it is refused; the builder returns the error.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// assert!(DlhtBoxedMap::<String, String>::with_capacity(1000).is_empty());
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_capacity_and_hasher(capacity, RandomState::default())
    }

    /// Makes an empty map with room for `capacity` entries.
    ///
    /// # Errors
    /// If the capacity does not fit the address space, or memory is refused.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// assert!(DlhtBoxedMap::<String, String>::try_with_capacity(1 << 60).is_err());
    /// ```
    pub fn try_with_capacity(capacity: usize) -> Result<Self, Error> {
        Ok(Self::of(D::table(IdentityCodec, capacity)?, RandomState::default()))
    }
}

impl<K, V, S, D: Design> BoxedMap<K, V, S, D> {
    /// Makes an empty map that hashes with `hasher`.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// # use std::hash::RandomState;
    /// let map: DlhtBoxedMap<String, u64, RandomState> =
    ///     DlhtBoxedMap::with_hasher(RandomState::new());
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_hasher(hasher: S) -> Self {
        Self::with_capacity_and_hasher(0, hasher)
    }

    /// Makes an empty map with room for `capacity` entries, which hashes with `hasher`.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// # use std::hash::RandomState;
    /// let map: DlhtBoxedMap<String, u64, RandomState> =
    ///     DlhtBoxedMap::with_capacity_and_hasher(1000, RandomState::new());
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        match D::table(IdentityCodec, capacity) {
            Ok(table) => Self::of(table, hasher),
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the hasher.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// # use std::hash::BuildHasher;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// assert_eq!(map.hasher().hash_one("a"), map.hasher().hash_one("a"));
    /// ```
    pub fn hasher(&self) -> &S {
        &self.hasher
    }
}

/// Returns the key test of a borrowed key.
pub(super) fn is<'k, K, V, Q>(key: &'k Q) -> ByCaller<impl Fn(u64) -> bool + Copy + 'k>
where
    K: 'k,
    V: 'k,
    Q: Equivalent<K> + ?Sized,
{
    // SAFETY: a table of this map holds addresses of its entries only, and every operation runs
    // under a guard that was taken before.
    ByCaller(move |word| key.equivalent(&unsafe { Pointer::<K, V>::from_word(word).entry() }.key))
}

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> BoxedMap<K, V, S, D> {
    pub(super) fn word<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        post_mix(self.hasher.hash_one(key))
    }

    pub(super) fn guard(&self) -> GuardPin<'_> {
        self.table.registry().guard()
    }

    /// Finds the entry of a key.
    #[inline(always)]
    pub(super) fn find<'g, Q>(&'g self, guard: &'g GuardPin<'_>, key: &Q) -> Option<Pointer<K, V>>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let found = self.table.find_guarded(guard, self.word(key), is::<K, V, Q>(key));
        // SAFETY: the table holds addresses of entries only.
        found.map(|word| unsafe { Pointer::from_word(word) })
    }

    #[inline(always)]
    pub(super) fn find_entry<'g, Q>(
        &'g self,
        guard: &'g GuardPin<'_>,
        key: &Q,
    ) -> Option<&'g Entry<K, V>>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        // SAFETY: found under the guard, which outlives the reference (R3).
        self.find(guard, key).map(|found| unsafe { found.entry() })
    }

    /// Applies a change to the key's slot, and returns the entry that was there.
    pub(super) fn apply<'g, Q>(
        &'g self,
        _guard: &'g GuardPin<'_>,
        key: &Q,
        fresh: Option<Pointer<K, V>>,
        change: impl Fn(u64) -> Change,
    ) -> Option<Pointer<K, V>>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let fresh = fresh.map(Pointer::to_word);
        let before = self.table.apply(self.word(key), &is::<K, V, Q>(key), fresh, change);
        // SAFETY: the table holds addresses of entries only.
        before.map(|word| unsafe { Pointer::from_word(word) })
    }

    /// Frees an entry that a change took out of its slot, once no thread can see it any more.
    pub(super) fn retire(&self, taken_out: Pointer<K, V>) {
        // SAFETY: the caller's change took it out, and limbo keeps it from every guard that may
        // have seen it (R3, R4).
        self.limbo.retire(self.table.registry(), unsafe { Retired::new(taken_out) }, 0);
    }

    /// Replaces the very entry `current` by a new one, or removes it. The error is the entry that
    /// is there instead, if any.
    pub(super) fn replace_entry<'g, Q>(
        &'g self,
        guard: &'g GuardPin<'_>,
        key: &Q,
        current: Pointer<K, V>,
        change: Change,
    ) -> Result<(), Option<Pointer<K, V>>>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        match self.apply(guard, key, None, change.of_exactly(current.to_word())) {
            Some(before) if before == current => Ok(()),
            other => Err(other),
        }
    }

    /// Runs `f` on the key's value, in place, under a guard.
    ///
    /// `f` may change a value that is `Sync`, such as an atomic counter. The entry may be removed
    /// or replaced before `f` ends, or between the lookup and `f`. Then `f` changes an entry that
    /// is not in the map any more, and the change is lost. If entries are removed while others
    /// change them, use [`modify`](Self::modify); see [the guide](crate::guide::values_in_place).
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// # use std::sync::atomic::{AtomicU64, Ordering};
    /// let counts: DlhtBoxedMap<String, AtomicU64> = DlhtBoxedMap::new();
    /// counts.try_put("ice".into(), AtomicU64::new(1)).unwrap();
    /// assert_eq!(counts.get_with("ice", |count| count.fetch_add(1, Ordering::Relaxed)), Some(1));
    /// ```
    pub fn get_with<Q, R>(&self, key: &Q, f: impl FnOnce(&V) -> R) -> Option<R>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let guard = self.guard();
        self.find_entry(&guard, key).map(|entry| f(&entry.value))
    }

    /// Returns a copy of the key's value.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, Vec<u8>> = DlhtBoxedMap::new();
    /// map.insert("a".into(), vec![1]);
    /// assert_eq!(map.get("a"), Some(vec![1]));
    /// ```
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        self.get_with(key, V::clone)
    }

    /// Returns whether the key is present.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// assert!(!DlhtBoxedMap::<String, ()>::new().contains_key("a"));
    /// ```
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let guard = self.guard();
        self.find(&guard, key).is_some()
    }

    /// Stores the value and returns a copy of the value that it replaced. (The key is replaced
    /// too.) [`put`](Self::put) makes no copy.
    ///
    /// The replaced entry is dropped later: see [when entries are
    /// dropped](Self#when-entries-are-dropped).
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// assert_eq!(map.insert("a".into(), 1), None);
    /// assert_eq!(map.insert("a".into(), 2), Some(1));
    /// ```
    pub fn insert(&self, key: K, value: V) -> Option<V>
    where
        V: Clone,
    {
        self.put(key, value).map(|replaced| replaced.value().clone())
    }

    /// Stores the value if the key is absent.
    ///
    /// # Errors
    /// A copy of the value that is present. [`try_put`](Self::try_put) makes no copy, and returns
    /// what was not stored.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// assert_eq!(map.try_insert("a".into(), 1), Ok(()));
    /// assert_eq!(map.try_insert("a".into(), 2), Err(1));
    /// ```
    pub fn try_insert(&self, key: K, value: V) -> Result<(), V>
    where
        V: Clone,
    {
        let entry = Unpublished::new(key, value);
        let guard = self.guard();
        match self.apply(&guard, entry.key(), Some(entry.ptr()), Change::keep) {
            None => {
                entry.published();
                Ok(())
            }
            // SAFETY: found under the guard (R3).
            Some(present) => Err(unsafe { present.entry() }.value.clone()),
        }
    }

    /// Stores the value if the key is absent, without copies.
    ///
    /// # Errors
    /// The key and the value, which were not stored.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// assert_eq!(map.try_put("a".into(), 1), Ok(()));
    /// assert_eq!(map.try_put("a".into(), 2), Err(("a".into(), 2)));
    /// ```
    pub fn try_put(&self, key: K, value: V) -> Result<(), (K, V)> {
        let entry = Unpublished::new(key, value);
        let guard = self.guard();
        match self.apply(&guard, entry.key(), Some(entry.ptr()), Change::keep) {
            None => {
                entry.published();
                Ok(())
            }
            Some(_) => {
                let Entry { key, value } = entry.into_entry();
                Err((key, value))
            }
        }
    }

    /// Replaces the value if the key is present, and returns a copy of the value that it replaced.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// assert_eq!(map.update("a", 1), None);
    /// ```
    pub fn update<Q>(&self, key: &Q, value: V) -> Option<V>
    where
        K: Clone,
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        let value = core::cell::Cell::new(Some(value));
        // Made when it is first needed, and kept for the next attempts.
        let mut entry: Option<Unpublished<K, V>> = None;
        let guard = self.guard();
        let mut present = self.find(&guard, key);
        loop {
            let current = present?;
            // SAFETY: found under the guard (R3).
            let Entry { key: stored, value: before } = unsafe { current.entry() };
            let entry_ptr = match &entry {
                Some(entry) => entry.ptr(),
                None => {
                    let value = value.take().expect("the value is taken once");
                    entry.insert(Unpublished::new(stored.clone(), value)).ptr()
                }
            };
            match self.replace_entry(&guard, key, current, Change::To(entry_ptr.to_word())) {
                Ok(()) => {
                    entry.into_iter().for_each(Unpublished::published);
                    self.retire(current);
                    return Some(before.clone());
                }
                Err(newer) => present = newer,
            }
        }
    }

    /// Replaces the value by the result of `f`, and returns a copy of the value before. `f` may run
    /// more than once.
    ///
    /// # Errors
    /// A copy of the value for which `f` returned `None`, or `None` if the key is absent.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// assert_eq!(map.fetch_update("a", |value| Some(value + 1)), Ok(1));
    /// assert_eq!(map.fetch_update("b", |value| Some(value + 1)), Err(None));
    /// ```
    pub fn fetch_update<Q, F>(&self, key: &Q, mut f: F) -> Result<V, Option<V>>
    where
        K: Clone,
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
        F: FnMut(&V) -> Option<V>,
    {
        let guard = self.guard();
        let mut present = self.find(&guard, key);
        loop {
            let Some(current) = present else { return Err(None) };
            // SAFETY: found under the guard (R3).
            let Entry { key: stored, value } = unsafe { current.entry() };
            let Some(new) = f(value) else { return Err(Some(value.clone())) };
            let entry = Unpublished::new(stored.clone(), new);
            match self.replace_entry(&guard, key, current, Change::To(entry.ptr().to_word())) {
                Ok(()) => {
                    entry.published();
                    self.retire(current);
                    return Ok(value.clone());
                }
                Err(newer) => present = newer,
            }
        }
    }

    /// [`ConcurrentMap::compare_exchange`]: replaces a value that is equal to `current`, and
    /// returns a copy of it.
    ///
    /// # Errors
    /// A copy of the value that is present instead, or `None` if the key is absent.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// assert_eq!(map.compare_exchange("a", &1, 2), Ok(1));
    /// assert_eq!(map.compare_exchange("a", &1, 3), Err(Some(2)));
    /// ```
    pub fn compare_exchange<Q>(&self, key: &Q, current: &V, new: V) -> Result<V, Option<V>>
    where
        K: Clone,
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone + PartialEq,
    {
        self.fetch_update(key, |present| (present == current).then(|| new.clone()))
    }

    /// Keeps, replaces or removes the key's value as `f` decides, atomically, and returns a copy of
    /// the value before. `f` may run more than once.
    ///
    /// ```
    /// # use nunatak::{Compute, DlhtBoxedMap};
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.compute("a".into(), |count| Compute::Put(count.map_or(1, |count| count + 1)));
    /// assert_eq!(map.get("a"), Some(1));
    /// ```
    pub fn compute<F>(&self, key: K, mut f: F) -> Option<V>
    where
        K: Clone,
        V: Clone,
        F: FnMut(Option<&V>) -> Compute<V>,
    {
        let guard = self.guard();
        let mut present = self.find(&guard, &key);
        loop {
            // SAFETY: found under the guard (R3).
            let value = present.map(|current| unsafe { &current.entry().value });
            let attempt = match (f(value), present) {
                (Compute::Keep, _) | (Compute::Remove, None) => return value.cloned(),
                (Compute::Remove, Some(current)) => {
                    self.replace_entry(&guard, &key, current, Change::Remove)
                }
                (Compute::Put(new), Some(current)) => {
                    let entry = Unpublished::new(key.clone(), new);
                    let change = Change::To(entry.ptr().to_word());
                    let replaced = self.replace_entry(&guard, &key, current, change);
                    if replaced.is_ok() {
                        entry.published();
                    }
                    replaced
                }
                (Compute::Put(new), None) => {
                    let entry = Unpublished::new(key.clone(), new);
                    match self.apply(&guard, &key, Some(entry.ptr()), Change::keep) {
                        None => {
                            entry.published();
                            Ok(())
                        }
                        newer => Err(newer),
                    }
                }
            };
            match attempt {
                Ok(()) => {
                    present.into_iter().for_each(|current| self.retire(current));
                    return value.cloned();
                }
                Err(newer) => present = newer,
            }
        }
    }
}

impl<K, V, S, D: Design> Drop for BoxedMap<K, V, S, D> {
    fn drop(&mut self) {
        for (_, word) in self.table.iter() {
            // SAFETY: the table holds addresses of entries only, each once, and no other thread has
            // the map any more.
            drop(unsafe { Retired::<K, V>::new(Pointer::from_word(word)) });
        }
    }
}
