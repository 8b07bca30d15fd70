//! Maps of this project whose keys and values are byte strings.

use super::{Scratch, Subject, WORKS, string};
use crate::targets::Hasher;
use nunatak::TurboBlobMap;

/// A map in RAM.
pub(crate) type RamBlobs = Blobs<TurboBlobMap<Hasher>, ()>;
/// A map in a file, which is never synced.
#[cfg(durable)]
pub(crate) type FiledBlobs = Blobs<nunatak::durable::TurboBlobMap, tempfile::TempDir>;

/// A map, and the directory of its file.
pub(crate) struct Blobs<M, D> {
    map: M,
    key_bytes: usize,
    value_bytes: usize,
    _directory: D,
}

impl RamBlobs {
    pub(crate) fn new(key_bytes: usize, value_bytes: usize) -> Self {
        let map = TurboBlobMap::with_hasher(Hasher::default());
        Self { map, key_bytes, value_bytes, _directory: () }
    }
}

#[cfg(durable)]
impl FiledBlobs {
    pub(crate) fn new(key_bytes: usize, value_bytes: usize) -> Self {
        let medium = crate::medium::Medium::used();
        let directory = medium.folder().expect(WORKS);
        let path = directory.path().join("map");
        let map = nunatak::durable::TurboBlobMap::create_with(path, &medium.options());
        Self { map: map.expect(WORKS), key_bytes, value_bytes, _directory: directory }
    }
}

/// Implements [`Subject`]; `$done` unwraps the result of a removal.
macro_rules! impl_subject {
    ($map:ty, $done:expr) => {
        impl Subject for $map {
            const BATCHED: bool = true;

            fn access(&self, key: u64, scratch: &mut Scratch, look: impl FnMut(&[u8])) {
                self.map.get_with(string(&mut scratch.key, key, self.key_bytes), look);
            }

            fn insert(&self, key: u64, value: u64, scratch: &mut Scratch) -> bool {
                let key = string(&mut scratch.key, key, self.key_bytes);
                let value = string(&mut scratch.value, value, self.value_bytes);
                !self.map.put(key, value).expect(WORKS)
            }

            fn delete(&self, key: u64, scratch: &mut Scratch) -> usize {
                let key = string(&mut scratch.key, key, self.key_bytes);
                usize::from($done(self.map.delete(key)))
            }

            fn access_many(
                &self,
                keys: &[u64],
                scratch: &mut Scratch,
                mut look: impl FnMut(usize, &[u8]),
            ) {
                self.map.pin().get_many(&self.keys(keys, scratch), |at, value| {
                    if let Some(value) = value {
                        look(at, value);
                    }
                });
            }

            fn insert_many(&self, entries: &[(u64, u64)], scratch: &mut Scratch) -> usize {
                let both = |(&(key, value), [of_key, of_value]): (_, &'_ mut [Vec<u8>; 2])| {
                    string(of_key, key, self.key_bytes);
                    string(of_value, value, self.value_bytes);
                };
                entries.iter().zip(&mut scratch.strings).for_each(both);
                let strings = scratch.strings[..entries.len()].iter();
                let entries: Vec<_> = strings.map(|[key, value]| (&**key, &**value)).collect();
                self.map.put_many(&entries).expect(WORKS)
            }

            fn delete_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
                $done(self.map.delete_many(&self.keys(keys, scratch)))
            }
        }
    };
}

impl<M, D> Blobs<M, D> {
    /// Makes the byte strings of many keys.
    fn keys<'s>(&self, keys: &[u64], scratch: &'s mut Scratch) -> Vec<&'s [u8]> {
        let buffers = scratch.strings.iter_mut();
        keys.iter()
            .zip(buffers)
            .map(|(&key, [of_key, _])| string(of_key, key, self.key_bytes))
            .collect()
    }
}

impl_subject!(RamBlobs, std::convert::identity);
#[cfg(durable)]
impl_subject!(FiledBlobs, |removed: Result<_, nunatak::Error>| removed.expect(WORKS));
