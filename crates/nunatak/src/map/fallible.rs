//! [`TryConcurrentMap`]: the interface of maps in RAM and of maps in files.

use crate::entry::{Entries, Inline, InlineKey, Plain};
use crate::error::Error;
use crate::hash::Hashing;
use crate::map::boxed::BoxedMap;
use crate::map::bytes::ByteMap;
use crate::map::inline::InlineMap;
use crate::map::{Compute, ConcurrentMap};
use crate::table::{Design, HashesWith, Unshadowed};
use core::convert::Infallible;
use core::hash::{BuildHasher, Hash};

/// A concurrent map whose changes may fail: because the disk is full, a file is read-only, or
/// memory is refused. Generic code that also serves maps in files uses this instead of
/// [`ConcurrentMap`]. Consistency and progress are the same.
///
/// Maps in RAM of numbers and of any types implement it with [`Infallible`] as their error, byte
/// strings and maps in files with [`Error`]. (A `durable::TypedMap` takes keys by their borrowed
/// forms, so it is not one of them.)
///
/// ```
/// use nunatak::{DlhtMap, TryConcurrentMap, durable};
///
/// fn transfer<M: TryConcurrentMap<u64, u64>>(map: &M, to: u64) -> Result<(), M::Error> {
///     if let Some(value) = map.remove(&1)? {
///         map.insert(to, value)?;
///     }
///     Ok(())
/// }
/// let in_ram: DlhtMap<u64, u64> = [(1, 10)].into();
/// transfer(&in_ram, 2).unwrap();
///
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let in_a_file: durable::PeaMap<u64, u64> = durable::PeaMap::create(&path)?;
/// in_a_file.insert(1, 10)?;
/// transfer(&in_a_file, 2)?;
/// assert_eq!(in_a_file.get(&2), in_ram.get(&2));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub trait TryConcurrentMap<K: Clone, V: Clone> {
    /// Why an operation failed. The map is as it was before the operation.
    type Error: core::error::Error;

    /// As [`ConcurrentMap::get`].
    ///
    /// # Errors
    /// If the value can't be read. So for all methods that read.
    fn get(&self, key: &K) -> Result<Option<V>, Self::Error>;

    /// As [`ConcurrentMap::contains_key`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn contains_key(&self, key: &K) -> Result<bool, Self::Error> {
        Ok(self.get(key)?.is_some())
    }

    /// As [`ConcurrentMap::insert`].
    ///
    /// # Errors
    /// If the value can't be stored. So for all methods that change the map.
    fn insert(&self, key: K, value: V) -> Result<Option<V>, Self::Error>;

    /// As [`ConcurrentMap::try_insert`]: the inner error is the value that is present.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    fn try_insert(&self, key: K, value: V) -> Result<Result<(), V>, Self::Error>;

    /// As [`ConcurrentMap::update`].
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    fn update(&self, key: &K, value: V) -> Result<Option<V>, Self::Error>;

    /// As [`ConcurrentMap::compare_exchange`]: the inner error is the value that is present
    /// instead.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    fn compare_exchange(
        &self,
        key: &K,
        current: &V,
        new: V,
    ) -> Result<Result<V, Option<V>>, Self::Error>
    where
        V: PartialEq;

    /// As [`ConcurrentMap::fetch_update`]: the inner error is the present value if `f` returned
    /// `None` for it.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    fn fetch_update<F>(&self, key: &K, f: F) -> Result<Result<V, Option<V>>, Self::Error>
    where
        F: FnMut(&V) -> Option<V>;

    /// As [`ConcurrentMap::compute`].
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    fn compute<F>(&self, key: K, f: F) -> Result<Option<V>, Self::Error>
    where
        F: FnMut(Option<&V>) -> Compute<V>;

    /// As [`ConcurrentMap::get_or_insert_with`].
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    fn get_or_insert_with<F>(&self, key: K, make: F) -> Result<V, Self::Error>
    where
        F: FnOnce() -> V;

    /// As [`ConcurrentMap::remove`].
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    fn remove(&self, key: &K) -> Result<Option<V>, Self::Error>;

    /// As [`ConcurrentMap::remove_if`].
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    fn remove_if<F>(&self, key: &K, condition: F) -> Result<Option<V>, Self::Error>
    where
        F: FnMut(&V) -> bool;

    /// As [`ConcurrentMap::iter`].
    fn iter(&self) -> impl Iterator<Item = (K, V)>;

    /// As [`ConcurrentMap::retain`].
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    fn retain<F>(&self, keep: F) -> Result<(), Self::Error>
    where
        F: FnMut(&K, &V) -> bool;

    /// As [`ConcurrentMap::clear`].
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    fn clear(&self) -> Result<(), Self::Error> {
        self.retain(|_, _| false)
    }

    /// As [`ConcurrentMap::len`].
    fn len(&self) -> usize;

    /// As [`ConcurrentMap::is_empty`].
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`ConcurrentMap::reserve`].
    ///
    /// # Errors
    /// If memory, or room in the file, is refused.
    fn reserve(&self, additional: usize) -> Result<(), Error>;

    /// As [`ConcurrentMap::shrink_to_fit`].
    ///
    /// # Errors
    /// If memory, or room in the file, for the smaller table is refused.
    fn shrink_to_fit(&self) -> Result<(), Error>;
}

/// The trait for maps of which no operation fails.
macro_rules! never_fails {
    () => {
        type Error = Infallible;

        fn get(&self, key: &K) -> Result<Option<V>, Infallible> {
            Ok(ConcurrentMap::get(self, key))
        }

        fn contains_key(&self, key: &K) -> Result<bool, Infallible> {
            Ok(ConcurrentMap::contains_key(self, key))
        }

        fn insert(&self, key: K, value: V) -> Result<Option<V>, Infallible> {
            Ok(ConcurrentMap::insert(self, key, value))
        }

        fn try_insert(&self, key: K, value: V) -> Result<Result<(), V>, Infallible> {
            Ok(ConcurrentMap::try_insert(self, key, value))
        }

        fn update(&self, key: &K, value: V) -> Result<Option<V>, Infallible> {
            Ok(ConcurrentMap::update(self, key, value))
        }

        fn compare_exchange(
            &self,
            key: &K,
            current: &V,
            new: V,
        ) -> Result<Result<V, Option<V>>, Infallible>
        where
            V: PartialEq,
        {
            Ok(ConcurrentMap::compare_exchange(self, key, current, new))
        }

        fn fetch_update<F>(&self, key: &K, f: F) -> Result<Result<V, Option<V>>, Infallible>
        where
            F: FnMut(&V) -> Option<V>,
        {
            Ok(ConcurrentMap::fetch_update(self, key, f))
        }

        fn compute<F>(&self, key: K, f: F) -> Result<Option<V>, Infallible>
        where
            F: FnMut(Option<&V>) -> Compute<V>,
        {
            Ok(ConcurrentMap::compute(self, key, f))
        }

        fn get_or_insert_with<F: FnOnce() -> V>(&self, key: K, make: F) -> Result<V, Infallible> {
            Ok(ConcurrentMap::get_or_insert_with(self, key, make))
        }

        fn remove(&self, key: &K) -> Result<Option<V>, Infallible> {
            Ok(ConcurrentMap::remove(self, key))
        }

        fn remove_if<F>(&self, key: &K, condition: F) -> Result<Option<V>, Infallible>
        where
            F: FnMut(&V) -> bool,
        {
            Ok(ConcurrentMap::remove_if(self, key, condition))
        }

        fn iter(&self) -> impl Iterator<Item = (K, V)> {
            ConcurrentMap::iter(self)
        }

        fn retain<F: FnMut(&K, &V) -> bool>(&self, keep: F) -> Result<(), Infallible> {
            ConcurrentMap::retain(self, keep);
            Ok(())
        }

        fn clear(&self) -> Result<(), Infallible> {
            ConcurrentMap::clear(self);
            Ok(())
        }

        fn len(&self) -> usize {
            ConcurrentMap::len(self)
        }

        fn reserve(&self, additional: usize) -> Result<(), Error> {
            ConcurrentMap::reserve(self, additional)
        }

        fn shrink_to_fit(&self) -> Result<(), Error> {
            ConcurrentMap::shrink_to_fit(self)
        }
    };
}

impl<K, V, S: Hashing, D: HashesWith<S> + Unshadowed> TryConcurrentMap<K, V>
    for InlineMap<K, V, S, D>
where
    K: InlineKey,
    V: Inline,
{
    never_fails!();
}

impl<K, V, S, D: Design> TryConcurrentMap<K, V> for BoxedMap<K, V, S, D>
where
    K: Hash + Eq + Clone,
    V: Clone,
    S: BuildHasher,
{
    never_fails!();
}

/// The methods of a map of byte strings by its own methods, which take references: whether reads
/// fail, whether removals do, and how a value is copied for a closure.
macro_rules! of_byte_strings {
    ($read:ident, $change:ident, $copy:expr) => {
        type Error = Error;

        fn get(&self, key: &Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
            $read(self.get(key))
        }

        fn contains_key(&self, key: &Vec<u8>) -> Result<bool, Error> {
            $read(self.contains_key(key))
        }

        fn insert(&self, key: Vec<u8>, value: Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
            self.insert(&key, &value)
        }

        fn try_insert(&self, key: Vec<u8>, value: Vec<u8>) -> Result<Result<(), Vec<u8>>, Error> {
            self.try_insert(&key, &value)
        }

        fn update(&self, key: &Vec<u8>, value: Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
            self.update(key, &value)
        }

        fn compare_exchange(
            &self,
            key: &Vec<u8>,
            current: &Vec<u8>,
            new: Vec<u8>,
        ) -> Result<Result<Vec<u8>, Option<Vec<u8>>>, Error> {
            self.compare_exchange(key, current, &new)
        }

        fn fetch_update<F>(
            &self,
            key: &Vec<u8>,
            mut f: F,
        ) -> Result<Result<Vec<u8>, Option<Vec<u8>>>, Error>
        where
            F: FnMut(&Vec<u8>) -> Option<Vec<u8>>,
        {
            self.fetch_update(key, |value| f(&$copy(value)))
        }

        fn compute<F>(&self, key: Vec<u8>, mut f: F) -> Result<Option<Vec<u8>>, Error>
        where
            F: FnMut(Option<&Vec<u8>>) -> Compute<Vec<u8>>,
        {
            self.compute(&key, |value| f(value.map($copy).as_ref()))
        }

        fn get_or_insert_with<F>(&self, key: Vec<u8>, make: F) -> Result<Vec<u8>, Error>
        where
            F: FnOnce() -> Vec<u8>,
        {
            self.get_or_insert_with(&key, make)
        }

        fn remove(&self, key: &Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
            $change(self.remove(key))
        }

        fn remove_if<F>(&self, key: &Vec<u8>, mut condition: F) -> Result<Option<Vec<u8>>, Error>
        where
            F: FnMut(&Vec<u8>) -> bool,
        {
            $change(self.remove_if(key, |value| condition(&$copy(value))))
        }

        fn iter(&self) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
            self.iter()
        }

        fn retain<F: FnMut(&Vec<u8>, &Vec<u8>) -> bool>(&self, mut keep: F) -> Result<(), Error> {
            $change(self.retain(|key, value| keep(&key.to_vec(), &$copy(value))))
        }

        fn clear(&self) -> Result<(), Error> {
            $change(self.clear())
        }

        fn len(&self) -> usize {
            self.len()
        }

        fn reserve(&self, additional: usize) -> Result<(), Error> {
            self.reserve(additional)
        }

        fn shrink_to_fit(&self) -> Result<(), Error> {
            self.shrink_to_fit()
        }
    };
}

#[cfg(durable)]
pub(crate) use of_byte_strings;

impl<E, D> TryConcurrentMap<Vec<u8>, Vec<u8>> for ByteMap<E, D>
where
    E: Entries<Naming = Plain>,
    D: Design + Unshadowed,
{
    of_byte_strings!(Ok, Ok, E::copy);
}
