//! Byte strings with many values, and vectors as values, which users of other maps write instead.

use super::multi::show;
use super::{ROOM, Scratch, Subject, WORKS, string};
use crate::targets::{Hasher, Shards};
use nunatak::PeaBlobMultiMap;

/// A map in RAM, and the length of its keys.
pub(crate) struct MultiStrings {
    map: PeaBlobMultiMap<u64, Hasher>,
    key_bytes: usize,
}

impl MultiStrings {
    pub(crate) fn new(key_bytes: usize) -> Self {
        Self { map: PeaBlobMultiMap::with_hasher(Hasher::default()), key_bytes }
    }
}

impl Subject for MultiStrings {
    const BATCHED: bool = true;

    fn access(&self, key: u64, scratch: &mut Scratch, look: impl FnMut(&[u8])) {
        scratch.copied.clear();
        self.map.copy_all(string(&mut scratch.key, key, self.key_bytes), &mut scratch.copied);
        show(&scratch.copied, look);
    }

    fn insert(&self, key: u64, value: u64, scratch: &mut Scratch) -> bool {
        self.map.insert(string(&mut scratch.key, key, self.key_bytes), value).expect(WORKS);
        true
    }

    fn delete(&self, key: u64, scratch: &mut Scratch) -> usize {
        self.map.remove_all(string(&mut scratch.key, key, self.key_bytes))
    }

    fn access_many(&self, keys: &[u64], scratch: &mut Scratch, mut look: impl FnMut(usize, &[u8])) {
        let Scratch { copied, ends, strings, .. } = scratch;
        copied.clear();
        let buffers = keys.iter().zip(strings);
        let of_keys: Vec<&[u8]> =
            buffers.map(|(&key, [buffer, _])| string(buffer, key, self.key_bytes)).collect();
        self.map.copy_all_many(&of_keys, copied, ends).expect(ROOM);
        let mut start = 0;
        for (at, &end) in ends[..keys.len()].iter().enumerate() {
            show(&copied[start..end], |value| look(at, value));
            start = end;
        }
    }

    fn insert_many(&self, entries: &[(u64, u64)], scratch: &mut Scratch) -> usize {
        let buffers = entries.iter().zip(&mut scratch.strings);
        let pairs: Vec<(&[u8], u64)> = buffers
            .map(|(&(key, value), [buffer, _])| (string(buffer, key, self.key_bytes), value))
            .collect();
        self.map.insert_many(&pairs).expect(WORKS);
        entries.len()
    }

    fn delete_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        let Scratch { ends, strings, .. } = scratch;
        let buffers = keys.iter().zip(strings);
        let of_keys: Vec<&[u8]> =
            buffers.map(|(&key, [buffer, _])| string(buffer, key, self.key_bytes)).collect();
        self.map.remove_all_many(&of_keys, ends).expect(ROOM);
        ends[..keys.len()].iter().sum()
    }
}

/// A map from byte strings to vectors of values, and the length of its keys. The caller's keys are
/// copied when they are new.
pub(crate) struct StringVectors<M> {
    map: M,
    key_bytes: usize,
}

macro_rules! vectors {
    (
        $map:ty, $new:expr,
        insert |$in:ident, $key:ident, $value:ident| $insert:expr,
        copy |$to:ident| $copy:expr,
        delete $delete:expr
    ) => {
        impl StringVectors<$map> {
            pub(crate) fn new(key_bytes: usize) -> Self {
                Self { map: $new, key_bytes }
            }
        }

        impl Subject for StringVectors<$map> {
            fn access(&self, key: u64, scratch: &mut Scratch, look: impl FnMut(&[u8])) {
                let ($in, $to) = (&self.map, &mut scratch.copied);
                let $key = string(&mut scratch.key, key, self.key_bytes);
                $to.clear();
                $copy;
                show($to, look);
            }

            fn insert(&self, key: u64, $value: u64, scratch: &mut Scratch) -> bool {
                let ($in, $key) = (&self.map, string(&mut scratch.key, key, self.key_bytes));
                $insert;
                true
            }

            fn delete(&self, key: u64, scratch: &mut Scratch) -> usize {
                let ($in, $key) = (&self.map, string(&mut scratch.key, key, self.key_bytes));
                let removed: Option<Vec<u64>> = $delete;
                removed.map_or(0, |values| values.len())
            }
        }
    };
}

vectors!(
    dashmap::DashMap<Box<[u8]>, Vec<u64>, Hasher>,
    dashmap::DashMap::with_hasher(Hasher::default()),
    insert |map, key, value| match map.get_mut(key) {
        Some(mut values) => values.push(value),
        None => map.entry(key.into()).or_default().push(value),
    },
    copy |to| if let Some(found) = map.get(key) { to.extend_from_slice(&found) },
    delete map.remove(key).map(|(_, values)| values)
);
vectors!(
    scc::HashMap<Box<[u8]>, Vec<u64>, Hasher>,
    scc::HashMap::with_hasher(Hasher::default()),
    insert |map, key, value| {
        if map.update_sync(key, |_, values| values.push(value)).is_none() {
            map.entry_sync(key.into()).or_default().get_mut().push(value);
        }
    },
    copy |to| map.read_sync(key, |_, found| to.extend_from_slice(found)),
    delete map.remove_sync(key).map(|(_, values)| values)
);
vectors!(
    Shards<Box<[u8]>, Vec<u64>>,
    Shards::with_capacity(0),
    insert |map, key, value| {
        let mut shard = map.of(key).write();
        match shard.get_mut(key) {
            Some(values) => values.push(value),
            None => _ = shard.insert(key.into(), vec![value]),
        }
    },
    copy |to| if let Some(found) = map.of(key).read().get(key) { to.extend_from_slice(found) },
    delete map.of(key).write().remove(key)
);
