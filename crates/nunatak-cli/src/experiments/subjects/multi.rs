//! Maps of keys with many values, and vectors as values, which users of other maps write instead.

use super::{ROOM, Scratch, Subject};
use crate::targets::{Hasher, Shards};
use nunatak::PeaMultiMap;

/// A map in RAM.
pub(crate) type RamMulti = Multi<PeaMultiMap<u64, u64, Hasher>, ()>;
/// A map in a temporary file.
#[cfg(durable)]
pub(crate) type FiledMulti = Multi<nunatak::durable::PeaMultiMap<u64, u64>, tempfile::TempDir>;

/// A map, and the directory of its file.
pub(crate) struct Multi<M, D> {
    map: M,
    _directory: D,
}

impl RamMulti {
    pub(crate) fn new() -> Self {
        Self { map: PeaMultiMap::new(), _directory: () }
    }
}

#[cfg(durable)]
impl FiledMulti {
    pub(crate) fn new() -> Self {
        let medium = crate::medium::Medium::used();
        let directory = medium.folder().expect(super::WORKS);
        let path = directory.path().join("map");
        let map = nunatak::durable::PeaMultiMap::create_with(path, &medium.options());
        Self { map: map.expect(super::WORKS), _directory: directory }
    }
}

/// Calls `look` with each copied value.
pub(super) fn show(copied: &[u64], mut look: impl FnMut(&[u8])) {
    copied.iter().for_each(|value| look(&value.to_ne_bytes()));
}

/// Implements [`Subject`]; `$done` unwraps the result of a change.
macro_rules! impl_subject {
    ($map:ty, $done:expr $(, $($reopen:tt)+)?) => {
        impl Subject for $map {
            const BATCHED: bool = true;

            fn access(&self, key: u64, scratch: &mut Scratch, look: impl FnMut(&[u8])) {
                scratch.copied.clear();
                self.map.copy_all(&key, &mut scratch.copied);
                show(&scratch.copied, look);
            }

            fn insert(&self, key: u64, value: u64, _: &mut Scratch) -> bool {
                $done(self.map.insert(key, value));
                true
            }

            fn delete(&self, key: u64, _: &mut Scratch) -> usize {
                $done(self.map.remove_all(&key))
            }

            fn access_many(
                &self,
                keys: &[u64],
                scratch: &mut Scratch,
                mut look: impl FnMut(usize, &[u8]),
            ) {
                let Scratch { copied, ends, .. } = scratch;
                copied.clear();
                self.map.copy_all_many(keys, copied, ends).expect(ROOM);
                let mut start = 0;
                for (at, &end) in ends[..keys.len()].iter().enumerate() {
                    show(&copied[start..end], |value| look(at, value));
                    start = end;
                }
            }

            fn insert_many(&self, entries: &[(u64, u64)], _: &mut Scratch) -> usize {
                $done(self.map.insert_many(entries));
                entries.len()
            }

            fn delete_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
                self.map.remove_all_many(keys, &mut scratch.ends).expect(ROOM);
                scratch.ends[..keys.len()].iter().sum()
            }

            $($($reopen)+)?
        }
    };
}

impl_subject!(RamMulti, std::convert::identity);
#[cfg(durable)]
impl_subject!(
    FiledMulti,
    |change: Result<_, nunatak::Error>| change.expect(super::WORKS),
    fn reopen(self) -> (Self, Option<f64>) {
        let Self { map, _directory: directory } = self;
        map.close().expect(super::WORKS);
        let options = crate::medium::Medium::used().options();
        let begin = std::time::Instant::now();
        let map = nunatak::durable::PeaMultiMap::open_with(directory.path().join("map"), &options);
        let milliseconds = begin.elapsed().as_secs_f64() * 1e3;
        (Self { map: map.expect(super::WORKS), _directory: directory }, Some(milliseconds))
    }
);

/// A map from keys to vectors of values.
#[derive(Default)]
pub(crate) struct Vectors<M>(M);

macro_rules! vectors {
    (
        $map:ty, $new:expr,
        insert |$in:ident, $key:ident, $value:ident| $insert:expr,
        copy |$to:ident| $copy:expr,
        delete $delete:expr
    ) => {
        impl Vectors<$map> {
            pub(crate) fn new() -> Self {
                Self($new)
            }
        }

        impl Subject for Vectors<$map> {
            fn access(&self, $key: u64, scratch: &mut Scratch, look: impl FnMut(&[u8])) {
                let ($in, $to) = (&self.0, &mut scratch.copied);
                $to.clear();
                $copy;
                show($to, look);
            }

            fn insert(&self, $key: u64, $value: u64, _: &mut Scratch) -> bool {
                let $in = &self.0;
                $insert;
                true
            }

            fn delete(&self, $key: u64, _: &mut Scratch) -> usize {
                let $in = &self.0;
                let removed: Option<Vec<u64>> = $delete;
                removed.map_or(0, |values| values.len())
            }
        }
    };
}

vectors!(
    dashmap::DashMap<u64, Vec<u64>, Hasher>,
    dashmap::DashMap::with_hasher(Hasher::default()),
    insert |map, key, value| map.entry(key).or_default().push(value),
    copy |to| if let Some(found) = map.get(&key) { to.extend_from_slice(&found) },
    delete map.remove(&key).map(|(_, values)| values)
);
vectors!(
    scc::HashMap<u64, Vec<u64>, Hasher>,
    scc::HashMap::with_hasher(Hasher::default()),
    insert |map, key, value| map.entry_sync(key).or_default().get_mut().push(value),
    copy |to| map.read_sync(&key, |_, found| to.extend_from_slice(found)),
    delete map.remove_sync(&key).map(|(_, values)| values)
);
vectors!(
    Shards<u64, Vec<u64>>,
    Shards::with_capacity(0),
    insert |map, key, value| map.of(&key).write().entry(key).or_default().push(value),
    copy |to| if let Some(found) = map.of(&key).read().get(&key) { to.extend_from_slice(found) },
    delete map.of(&key).write().remove(&key)
);
