//! Records of keys and values whose sizes the compiler may know.

use super::{Scratch, Subject, WORKS, string};
use nunatak::alloc::{Allocator, Global};
use nunatak::entry::{Frozen, KeyOf, Named, Naming, Plain, RecordFormat};
use nunatak::hash::Hashing;
use nunatak::{DlhtMap, DlhtRecordMap, Namespace, RandomState, Request, Stop};

/// Makes a key of `K` bytes from a number.
pub(crate) trait MakeKey<const K: usize>: Naming + Sized {
    /// The type that the key is made from.
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

    /// Makes a key in any of the namespaces. Modulo hashing does not use these bits of the number.
    #[inline(always)]
    fn make(number: u64) -> (Namespace, [u8; K]) {
        let namespace = Namespace::new((number >> 52) as u16);
        (namespace.unwrap_or_default(), bytes(number))
    }
}

/// A map of records with keys of `K` bytes.
#[derive(Debug)]
pub(crate) struct Records<F, const K: usize, A = Global, S = RandomState>
where
    F: RecordFormat,
    A: Allocator + Send + Sync + 'static,
    S: Hashing,
{
    map: DlhtRecordMap<F, A, S>,
    value_bytes: usize,
}

impl<F, const K: usize, A, S> Records<F, K, A, S>
where
    F: RecordFormat,
    A: Allocator + Send + Sync + 'static,
    S: Hashing + Default,
{
    pub(crate) fn new(items: u64, value_bytes: usize, allocator: A) -> Self {
        let map = DlhtRecordMap::try_new_in(items as usize, S::default(), allocator);
        Self { map: map.expect(WORKS), value_bytes }
    }

    /// Makes a map that does not grow.
    pub(crate) fn fixed(items: u64, value_bytes: usize, allocator: A) -> Self {
        let builder = DlhtMap::<u64, u64>::builder().capacity(items as usize).grows(false);
        let map = builder.hasher(S::default()).build_records(allocator);
        Self { map: map.expect(WORKS), value_bytes }
    }
}

impl<F, const K: usize, A, S> Subject for Records<F, K, A, S>
where
    F: RecordFormat<Access = Frozen>,
    F::Naming: MakeKey<K>,
    A: Allocator + Send + Sync + 'static,
    S: Hashing,
{
    const BATCHED: bool = true;

    #[inline(always)]
    fn access(&self, key: u64, _: &mut Scratch, look: impl FnMut(&[u8])) {
        self.map.get_with(<F::Naming as MakeKey<K>>::make(key).key(), look);
    }

    fn insert(&self, key: u64, value: u64, scratch: &mut Scratch) -> bool {
        let key = <F::Naming as MakeKey<K>>::make(key);
        let value = string(&mut scratch.value, value, self.value_bytes);
        !self.map.put(key.key(), value).expect(WORKS)
    }

    fn delete(&self, key: u64, _: &mut Scratch) -> usize {
        usize::from(self.map.delete(<F::Naming as MakeKey<K>>::make(key).key()))
    }

    #[inline(always)]
    fn get(&self, key: u64, _: &mut Scratch) -> bool {
        self.map.contains_key(<F::Naming as MakeKey<K>>::make(key).key())
    }

    fn access_many(&self, keys: &[u64], _: &mut Scratch, mut look: impl FnMut(usize, &[u8])) {
        let keys = sources::<K, F::Naming>(keys);
        self.map.pin().get_many(&keys, |at, value| {
            if let Some(value) = value {
                look(at, value);
            }
        });
    }

    fn insert_many(&self, entries: &[(u64, u64)], scratch: &mut Scratch) -> usize {
        let mut entries_of_bytes = Vec::with_capacity(entries.len());
        for (&(key, value), [_, buffer]) in entries.iter().zip(&mut scratch.strings) {
            let value = string(buffer, value, self.value_bytes);
            entries_of_bytes.push((<F::Naming as MakeKey<K>>::make(key), value));
        }
        self.map.put_many(&entries_of_bytes).expect(WORKS)
    }

    fn delete_many(&self, keys: &[u64], _: &mut Scratch) -> usize {
        self.map.delete_many(&sources::<K, F::Naming>(keys))
    }

    fn insert_and_delete_many(&self, entries: &[(u64, u64)], scratch: &mut Scratch) -> usize {
        let mut requests = Vec::with_capacity(2 * entries.len());
        for (&(key, value), [_, buffer]) in entries.iter().zip(&mut scratch.strings) {
            let key = <F::Naming as MakeKey<K>>::make(key);
            let value = string(buffer, value, self.value_bytes);
            requests.extend([Request::TryInsert(key, value), Request::Remove(key)]);
        }
        let mut successes = 0;
        let executed = self.map.execute(&requests, Stop::Never, |_, outcome| {
            successes += usize::from(outcome.is_success());
        });
        executed.expect("memory for the values");
        successes
    }

    fn get_many(&self, keys: &[u64], _: &mut Scratch) -> usize {
        let (keys, mut present) = (sources::<K, F::Naming>(keys), 0);
        self.map.pin().get_many(&keys, |_, value| present += usize::from(value.is_some()));
        present
    }
}

fn sources<const K: usize, N: MakeKey<K>>(keys: &[u64]) -> Vec<N::Source> {
    keys.iter().map(|&key| N::make(key)).collect()
}
