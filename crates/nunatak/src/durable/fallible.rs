//! [`TryConcurrentMap`] for maps in files.

use super::blob_designs::BlobDesign;
use super::blobs::BlobsInFile;
use super::designs::DurableDesign;
use super::handle::FileMap;
use crate::entry::{Inline, InlineKey};
use crate::error::Error;
use crate::hash::StableHash;
use crate::map::{Compute, InlineMap, TryConcurrentMap, of_byte_strings};

impl<K: InlineKey, V: Inline, D: DurableDesign> TryConcurrentMap<K, V>
    for FileMap<InlineMap<K, V, StableHash, D>>
{
    type Error = Error;

    fn get(&self, key: &K) -> Result<Option<V>, Error> {
        Ok(self.get(key))
    }

    fn contains_key(&self, key: &K) -> Result<bool, Error> {
        Ok(self.contains_key(key))
    }

    fn insert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        self.insert(key, value)
    }

    fn try_insert(&self, key: K, value: V) -> Result<Result<(), V>, Error> {
        self.try_insert(key, value)
    }

    fn update(&self, key: &K, value: V) -> Result<Option<V>, Error> {
        self.update(key, value)
    }

    fn compare_exchange(&self, key: &K, current: &V, new: V) -> Result<Result<V, Option<V>>, Error>
    where
        V: PartialEq,
    {
        self.compare_exchange(key, current, new)
    }

    fn fetch_update<F>(&self, key: &K, f: F) -> Result<Result<V, Option<V>>, Error>
    where
        F: FnMut(&V) -> Option<V>,
    {
        self.fetch_update(key, f)
    }

    fn compute<F>(&self, key: K, f: F) -> Result<Option<V>, Error>
    where
        F: FnMut(Option<&V>) -> Compute<V>,
    {
        self.compute(key, f)
    }

    fn get_or_insert_with<F: FnOnce() -> V>(&self, key: K, make: F) -> Result<V, Error> {
        self.get_or_insert_with(key, make)
    }

    fn remove(&self, key: &K) -> Result<Option<V>, Error> {
        self.remove(key)
    }

    fn remove_if<F: FnMut(&V) -> bool>(&self, key: &K, condition: F) -> Result<Option<V>, Error> {
        self.remove_if(key, condition)
    }

    fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.iter()
    }

    fn retain<F: FnMut(&K, &V) -> bool>(&self, keep: F) -> Result<(), Error> {
        self.retain(keep)
    }

    fn clear(&self) -> Result<(), Error> {
        self.clear()
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
}

fn as_it_is<T>(result: Result<T, Error>) -> Result<T, Error> {
    result
}

impl<D: BlobDesign> TryConcurrentMap<Vec<u8>, Vec<u8>> for FileMap<BlobsInFile<D>> {
    of_byte_strings!(Ok, as_it_is, <[u8]>::to_vec);
}
