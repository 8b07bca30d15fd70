//! What the experiments measure: maps of this project in several modes, and peers whose
//! values are boxed.

use super::measure::check;
use crate::backing::back_free_memory;
use crate::keys::{KeySpace, value_of};
use crate::targets::Hasher;
use crate::threads::CheckFailed;
use nunatak::alloc::{Allocator, Global};
use nunatak::entry::{Frozen, KeyOf, Named, Naming, Plain, RecordFormat};
use nunatak::hash::Hashing;
use nunatak::{DlhtMap, DlhtRecordMap, DlhtSet, Namespace, RandomState};
use std::hint::black_box;

/// A map of keys that follow from 64-bit numbers. What has no batches does one after the other.
pub(crate) trait Subject: Sync {
    /// Whether the key is present; its value is found and not looked at.
    fn get(&self, key: u64) -> bool;

    /// 1 if the key is present, whose value is read then.
    fn access(&self, key: u64) -> usize;

    /// Stores the key's value; whether the key is new.
    fn insert(&self, key: u64) -> bool;

    /// Takes the key out; whether it was there.
    fn delete(&self, key: u64) -> bool;

    /// How many of the keys are present.
    fn get_many(&self, keys: &[u64], _: &mut Scratch) -> usize {
        keys.iter().filter(|&&key| self.get(key)).count()
    }

    /// How many of the keys are present, whose values are read.
    fn access_many(&self, keys: &[u64], _: &mut Scratch) -> usize {
        keys.iter().map(|&key| self.access(key)).sum()
    }

    /// How many of the keys are new.
    fn insert_many(&self, keys: &[u64], _: &mut Scratch) -> usize {
        keys.iter().filter(|&&key| self.insert(key)).count()
    }

    /// How many of the keys were there.
    fn delete_many(&self, keys: &[u64], _: &mut Scratch) -> usize {
        keys.iter().filter(|&&key| self.delete(key)).count()
    }
}

/// Buffers for a batch that are used again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    entries: Vec<(u64, u64)>,
    values: Vec<Option<u64>>,
    units: Vec<Option<()>>,
}

impl Scratch {
    /// For batches of at most so many operations.
    pub(crate) fn new(batch: usize) -> Self {
        Self {
            entries: Vec::with_capacity(batch),
            values: vec![None; batch],
            units: vec![None; batch],
        }
    }
}

/// How many keys are inserted at once before anything is measured.
const FILL: usize = 256;

/// A map of so many items.
pub(crate) fn filled<S: Subject>(
    items: u64,
    space: KeySpace,
    make: impl FnOnce() -> S,
) -> Result<S, CheckFailed> {
    back_free_memory(items);
    let (subject, mut scratch) = (make(), Scratch::new(FILL));
    let mut keys = Vec::new();
    for from in (0..items).step_by(FILL) {
        keys.clear();
        keys.extend((from..items.min(from + FILL as u64)).map(|index| space.key(index)));
        check(subject.insert_many(&keys, &mut scratch) == keys.len(), "a new key was there")?;
    }
    Ok(subject)
}

/// Reads every byte of a value.
#[inline(always)]
fn read(value: &[u8]) -> usize {
    black_box(value.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)));
    1
}

/// Values in the slots.
#[derive(Debug)]
pub(crate) struct Inline<S: Hashing = RandomState>(pub(crate) DlhtMap<u64, u64, S>);

impl<S: Hashing + Default> Inline<S> {
    pub(crate) fn with_capacity(items: u64) -> Self {
        Self(DlhtMap::with_capacity(items as usize))
    }
}

const ROOM: &str = "as many results as keys";

impl<S: Hashing> Subject for Inline<S> {
    #[inline(always)]
    fn get(&self, key: u64) -> bool {
        self.0.get(&key).is_some()
    }

    #[inline(always)]
    fn access(&self, key: u64) -> usize {
        self.0.get(&key).map_or(0, |value| read(&value.to_ne_bytes()))
    }

    #[inline(always)]
    fn insert(&self, key: u64) -> bool {
        self.0.insert(key, value_of(key)).is_none()
    }

    #[inline(always)]
    fn delete(&self, key: u64) -> bool {
        self.0.remove(&key).is_some()
    }

    #[inline(always)]
    fn get_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        self.0.get_many(keys, &mut scratch.values).expect(ROOM)
    }

    fn access_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        let present = self.get_many(keys, scratch);
        black_box(scratch.values.iter().flatten().fold(0, |sum, value| sum ^ value));
        present
    }

    #[inline(always)]
    fn insert_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        scratch.entries.clear();
        scratch.entries.extend(keys.iter().map(|&key| (key, value_of(key))));
        self.0.insert_many(&scratch.entries, &mut scratch.values).expect(ROOM)
    }

    #[inline(always)]
    fn delete_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        self.0.remove_many(keys, &mut scratch.values).expect(ROOM)
    }
}

/// Keys alone.
#[derive(Debug)]
pub(crate) struct Set(pub(crate) DlhtSet<u64>);

impl Subject for Set {
    #[inline(always)]
    fn get(&self, key: u64) -> bool {
        self.0.contains(&key)
    }

    fn access(&self, key: u64) -> usize {
        usize::from(self.get(key))
    }

    #[inline(always)]
    fn insert(&self, key: u64) -> bool {
        self.0.insert(key)
    }

    #[inline(always)]
    fn delete(&self, key: u64) -> bool {
        self.0.remove(&key)
    }

    fn get_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        self.0.contains_many(keys, &mut scratch.units).expect(ROOM)
    }

    fn insert_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        self.0.insert_many(keys, &mut scratch.units).expect(ROOM)
    }

    fn delete_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        self.0.remove_many(keys, &mut scratch.units).expect(ROOM)
    }
}

/// How a number becomes a key of `K` bytes.
pub(crate) trait MakeKey<const K: usize>: Naming + Sized {
    /// What it is taken from.
    type Source: KeyOf<Self> + Copy + Sync;

    fn make(number: u64) -> Self::Source;
}

#[inline(always)]
fn bytes<const K: usize>(number: u64) -> [u8; K] {
    let mut bytes = [b'.'; K];
    let word = number.to_le_bytes();
    let len = word.len().min(K);
    bytes[..len].copy_from_slice(&word[..len]);
    bytes
}

impl<const K: usize> MakeKey<K> for Plain {
    type Source = [u8; K];

    #[inline(always)]
    fn make(number: u64) -> [u8; K] {
        bytes(number)
    }
}

impl<const K: usize> MakeKey<K> for Named {
    type Source = (Namespace, [u8; K]);

    /// In any of the namespaces, by bits of the number that modulo hashing does not go by.
    #[inline(always)]
    fn make(number: u64) -> (Namespace, [u8; K]) {
        let namespace = Namespace::new((number >> 52) as u16);
        (namespace.unwrap_or_default(), bytes(number))
    }
}

/// Records of keys of `K` bytes.
#[derive(Debug)]
pub(crate) struct Records<F, const K: usize, A = Global, S = RandomState>
where
    F: RecordFormat,
    A: Allocator + Send + Sync + 'static,
    S: Hashing,
{
    map: DlhtRecordMap<F, A, S>,
    value: Vec<u8>,
}

impl<F, const K: usize, A, S> Records<F, K, A, S>
where
    F: RecordFormat,
    A: Allocator + Send + Sync + 'static,
    S: Hashing + Default,
{
    pub(crate) fn new(items: u64, value_bytes: usize, allocator: A) -> Self {
        let map = DlhtRecordMap::try_new_in(items as usize, S::default(), allocator);
        Self { map: map.expect("memory for the table"), value: vec![7; value_bytes] }
    }
}

impl<F, const K: usize, A, S> Subject for Records<F, K, A, S>
where
    F: RecordFormat<Access = Frozen>,
    F::Naming: MakeKey<K>,
    A: Allocator + Send + Sync + 'static,
    S: Hashing,
{
    #[inline(always)]
    fn get(&self, key: u64) -> bool {
        self.map.contains_key(<F::Naming as MakeKey<K>>::make(key).key())
    }

    #[inline(always)]
    fn access(&self, key: u64) -> usize {
        self.map.get_with(<F::Naming as MakeKey<K>>::make(key).key(), read).unwrap_or(0)
    }

    fn insert(&self, key: u64) -> bool {
        let key = <F::Naming as MakeKey<K>>::make(key);
        !self.map.put(key.key(), &self.value).expect("memory")
    }

    fn delete(&self, key: u64) -> bool {
        self.map.delete(<F::Naming as MakeKey<K>>::make(key).key())
    }

    fn get_many(&self, keys: &[u64], _: &mut Scratch) -> usize {
        let (keys, mut present) = (sources::<K, F::Naming>(keys), 0);
        self.map.pin().get_many(&keys, |_, value| present += usize::from(value.is_some()));
        present
    }

    fn access_many(&self, keys: &[u64], _: &mut Scratch) -> usize {
        let (keys, mut present) = (sources::<K, F::Naming>(keys), 0);
        self.map.pin().get_many(&keys, |_, value| present += value.map_or(0, read));
        present
    }

    fn insert_many(&self, keys: &[u64], _: &mut Scratch) -> usize {
        let make = |&key| (<F::Naming as MakeKey<K>>::make(key), &*self.value);
        self.map.put_many(&keys.iter().map(make).collect::<Vec<_>>()).expect("memory")
    }

    fn delete_many(&self, keys: &[u64], _: &mut Scratch) -> usize {
        self.map.delete_many(&sources::<K, F::Naming>(keys))
    }
}

fn sources<const K: usize, N: MakeKey<K>>(keys: &[u64]) -> Vec<N::Source> {
    keys.iter().map(|&key| N::make(key)).collect()
}

/// The peers of [`Records`]: 64-bit keys by boxed byte strings.
macro_rules! boxed_peer {
    ($name:ident, $map:ty, $get:expr, $insert:expr, $remove:expr) => {
        pub(crate) struct $name {
            map: $map,
            value: Vec<u8>,
        }

        impl $name {
            pub(crate) fn new(items: u64, value_bytes: usize) -> Self {
                let map = <$map>::with_capacity_and_hasher(items as usize, Hasher::default());
                Self { map, value: vec![7; value_bytes] }
            }
        }

        impl Subject for $name {
            #[inline(always)]
            fn get(&self, key: u64) -> bool {
                $get(&self.map, key, |_: &[u8]| 1) == 1
            }

            #[inline(always)]
            fn access(&self, key: u64) -> usize {
                $get(&self.map, key, read)
            }

            fn insert(&self, key: u64) -> bool {
                $insert(&self.map, key, Box::from(&*self.value))
            }

            fn delete(&self, key: u64) -> bool {
                $remove(&self.map, key)
            }
        }
    };
}

type Boxed = Box<[u8]>;
type DashmapMap = dashmap::DashMap<u64, Boxed, Hasher>;
type PapayaMap = papaya::HashMap<u64, Boxed, Hasher>;
type SccMap = scc::HashMap<u64, Boxed, Hasher>;

boxed_peer!(
    BoxedDashmap,
    DashmapMap,
    |map: &DashmapMap, key, f: fn(&[u8]) -> usize| map.get(&key).map_or(0, |value| f(&value)),
    |map: &DashmapMap, key, value: Boxed| map.insert(key, value).is_none(),
    |map: &DashmapMap, key| map.remove(&key).is_some()
);
boxed_peer!(
    BoxedPapaya,
    PapayaMap,
    |map: &PapayaMap, key, f: fn(&[u8]) -> usize| map.pin().get(&key).map_or(0, |value| f(value)),
    |map: &PapayaMap, key, value: Boxed| map.pin().insert(key, value).is_none(),
    |map: &PapayaMap, key| map.pin().remove(&key).is_some()
);
boxed_peer!(
    BoxedScc,
    SccMap,
    |map: &SccMap, key, f: fn(&[u8]) -> usize| map
        .read_sync(&key, |_, value| f(value))
        .unwrap_or(0),
    |map: &SccMap, key, value: Boxed| map.insert_sync(key, value).is_ok(),
    |map: &SccMap, key| map.remove_sync(&key).is_some()
);
