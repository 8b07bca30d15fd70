//! The maps that the experiments measure: maps of this project in several modes, and maps of others
//! with several kinds of keys and values.

mod blobs;
mod multi;
mod multi_strings;
mod peers;
mod records;
mod wide;

#[cfg(durable)]
pub(crate) use blobs::FiledBlobs;
pub(crate) use blobs::RamBlobs;
#[cfg(durable)]
pub(crate) use multi::FiledMulti;
pub(crate) use multi::{RamMulti, Vectors};
pub(crate) use multi_strings::{MultiStrings, StringVectors};
pub(crate) use peers::{Boxed, Peer};
pub(crate) use records::Records;
pub(crate) use wide::Wide;

use crate::backing::back_free_memory;
use crate::keys::{KeySpace, value_of};
use crate::threads::{CheckFailed, check};
use nunatak::hash::Hashing;
use nunatak::{DlhtMap, DlhtSet, Op, RandomState, Request, Stop};
use std::hint::black_box;

/// A map with keys and values of any type, made from 64-bit numbers. A map without batches runs the
/// operations of a batch in turn.
pub(crate) trait Subject: Sync + Sized {
    /// Whether the map has operations on many keys at once.
    const BATCHED: bool = false;

    /// Calls `look` with each value of the key.
    fn access(&self, key: u64, scratch: &mut Scratch, look: impl FnMut(&[u8]));

    /// Stores the value with the key, and returns whether it replaced no other value.
    fn insert(&self, key: u64, value: u64, scratch: &mut Scratch) -> bool;

    /// Removes the key and returns how many values it had.
    fn delete(&self, key: u64, scratch: &mut Scratch) -> usize;

    /// Returns whether the key is present, without reading its value.
    #[inline(always)]
    fn get(&self, key: u64, scratch: &mut Scratch) -> bool {
        let mut is_present = false;
        self.access(key, scratch, |_| is_present = true);
        is_present
    }

    /// Calls `look` with each value of each key.
    fn access_many(&self, keys: &[u64], scratch: &mut Scratch, mut look: impl FnMut(usize, &[u8])) {
        for (at, &key) in keys.iter().enumerate() {
            self.access(key, scratch, |value| look(at, value));
        }
    }

    /// Inserts entries and returns how many of the values replaced no other value.
    fn insert_many(&self, entries: &[(u64, u64)], scratch: &mut Scratch) -> usize {
        let insert = |&&(key, value): &&(u64, u64)| self.insert(key, value, scratch);
        entries.iter().filter(insert).count()
    }

    /// Deletes keys and returns how many values they had.
    fn delete_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        keys.iter().map(|&key| self.delete(key, scratch)).sum()
    }

    /// Inserts absent keys and deletes each directly after its insert, in one batch; returns how many
    /// of these operations succeeded. A map without mixed batches inserts all, then deletes all.
    fn insert_and_delete_many(&self, entries: &[(u64, u64)], scratch: &mut Scratch) -> usize {
        let inserted = self.insert_many(entries, scratch);
        let keys: Vec<u64> = entries.iter().map(|entry| entry.0).collect();
        inserted + self.delete_many(&keys, scratch)
    }

    /// Returns how many of the keys are present.
    fn get_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        keys.iter().filter(|&&key| self.get(key, scratch)).count()
    }

    /// Closes the map's file, if it has one, opens it again, and returns the milliseconds of the
    /// opening.
    fn reopen(self) -> (Self, Option<f64>) {
        (self, None)
    }
}

/// Buffers that operations reuse.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    values: Vec<Option<u64>>,
    units: Vec<Option<()>>,
    /// The values of one key or of several, and where the values of each key end.
    copied: Vec<u64>,
    ends: Vec<usize>,
    /// Byte strings of the keys and values of a batch, and of one operation.
    strings: Vec<[Vec<u8>; 2]>,
    key: Vec<u8>,
    value: Vec<u8>,
    /// The mixed batches of a map and of a set.
    operations: Vec<Op<u64, u64>>,
    operations_of_set: Vec<Op<u64, ()>>,
    /// What maps with values of 16 bytes get and return.
    wide: Vec<Option<(u64, u64)>>,
    wide_entries: Vec<(u64, (u64, u64))>,
    wide_operations: Vec<Op<u64, (u64, u64)>>,
}

/// Writes a batch into a buffer: for each entry an insert, then a delete.
fn write_pairs<V: Copy>(buffer: &mut Vec<Op<u64, V>>, entries: impl Iterator<Item = (u64, V)>) {
    buffer.clear();
    buffer.extend(entries.flat_map(|(key, value)| {
        [Request::TryInsert(key, value), Request::Remove(key)].map(Op::new)
    }));
}

/// Returns how many operations of a batch succeeded.
fn successes<V>(operations: &[Op<u64, V>]) -> usize {
    operations.iter().filter(|operation| operation.outcome.is_success()).count()
}

impl Scratch {
    /// Makes buffers for batches of at most `batch` operations.
    pub(crate) fn new(batch: usize) -> Self {
        Self {
            values: vec![None; batch],
            units: vec![None; batch],
            wide: vec![None; batch],
            ends: vec![0; batch],
            strings: vec![[const { Vec::new() }; 2]; batch],
            ..Self::default()
        }
    }
}

/// Writes the byte string of a number into a buffer: its eight bytes, then dots.
#[inline]
fn string(buffer: &mut Vec<u8>, number: u64, length: usize) -> &[u8] {
    buffer.resize(length, b'.');
    buffer[..8].copy_from_slice(&number.to_le_bytes());
    buffer
}

/// Returns whether `bytes` is the byte string of a number; reads all bytes.
#[inline]
pub(crate) fn is_string(bytes: &[u8], number: u64) -> bool {
    bytes.split_first_chunk().is_some_and(|(word, rest)| {
        *word == number.to_le_bytes() && rest.iter().all(|&byte| byte == b'.')
    })
}

/// How many keys a batch has while the map is filled.
const FILL: usize = 256;

/// Makes a map and fills it with `items` items.
pub(crate) fn filled<S: Subject>(
    items: u64,
    space: KeySpace,
    make: impl FnOnce() -> S,
) -> Result<S, CheckFailed> {
    back_free_memory(items);
    let (subject, mut scratch) = (make(), Scratch::new(FILL));
    let mut entries = Vec::new();
    for from in (0..items).step_by(FILL) {
        entries.clear();
        let indices = from..items.min(from + FILL as u64);
        entries.extend(indices.map(|index| space.key(index)).map(|key| (key, value_of(key))));
        let new = subject.insert_many(&entries, &mut scratch);
        check(new == entries.len(), "a new key was there")?;
    }
    Ok(subject)
}

/// Reads every byte of a value.
#[inline(always)]
pub(crate) fn read(value: &[u8]) -> usize {
    black_box(value.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)));
    1
}

/// A map with values in its slots.
#[derive(Debug)]
pub(crate) struct Inline<S: Hashing = RandomState>(pub(crate) DlhtMap<u64, u64, S>);

impl<S: Hashing + Default> Inline<S> {
    pub(crate) fn with_capacity(items: u64) -> Self {
        Self(DlhtMap::with_capacity_and_hasher(items as usize, S::default()))
    }
}

const ROOM: &str = "as many results as keys";
const WORKS: &str = "memory, or room on the disk";

impl<S: Hashing> Subject for Inline<S> {
    const BATCHED: bool = true;

    #[inline(always)]
    fn access(&self, key: u64, _: &mut Scratch, mut look: impl FnMut(&[u8])) {
        if let Some(value) = self.0.get(&key) {
            look(&value.to_ne_bytes());
        }
    }

    #[inline(always)]
    fn insert(&self, key: u64, value: u64, _: &mut Scratch) -> bool {
        self.0.insert(key, value).is_none()
    }

    #[inline(always)]
    fn delete(&self, key: u64, _: &mut Scratch) -> usize {
        usize::from(self.0.remove(&key).is_some())
    }

    fn access_many(&self, keys: &[u64], scratch: &mut Scratch, mut look: impl FnMut(usize, &[u8])) {
        self.0.get_many(keys, &mut scratch.values).expect(ROOM);
        for (at, value) in scratch.values[..keys.len()].iter().enumerate() {
            if let Some(value) = value {
                look(at, &value.to_ne_bytes());
            }
        }
    }

    #[inline(always)]
    fn insert_many(&self, entries: &[(u64, u64)], scratch: &mut Scratch) -> usize {
        self.0.insert_many(entries, &mut scratch.values).expect(ROOM)
    }

    #[inline(always)]
    fn delete_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        self.0.remove_many(keys, &mut scratch.values).expect(ROOM)
    }

    #[inline(always)]
    fn insert_and_delete_many(&self, entries: &[(u64, u64)], scratch: &mut Scratch) -> usize {
        write_pairs(&mut scratch.operations, entries.iter().copied());
        self.0.execute(&mut scratch.operations, Stop::Never);
        successes(&scratch.operations)
    }

    #[inline(always)]
    fn get_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        self.0.get_many(keys, &mut scratch.values).expect(ROOM)
    }
}

/// A set.
#[derive(Debug)]
pub(crate) struct Set(pub(crate) DlhtSet<u64>);

impl Subject for Set {
    const BATCHED: bool = true;

    #[inline(always)]
    fn access(&self, key: u64, _: &mut Scratch, mut look: impl FnMut(&[u8])) {
        if self.0.contains(&key) {
            look(&[]);
        }
    }

    #[inline(always)]
    fn insert(&self, key: u64, _: u64, _: &mut Scratch) -> bool {
        self.0.insert(key)
    }

    #[inline(always)]
    fn delete(&self, key: u64, _: &mut Scratch) -> usize {
        usize::from(self.0.remove(&key))
    }

    fn insert_many(&self, entries: &[(u64, u64)], scratch: &mut Scratch) -> usize {
        scratch.copied.clear();
        scratch.copied.extend(entries.iter().map(|entry| entry.0));
        self.0.insert_many(&scratch.copied, &mut scratch.units).expect(ROOM)
    }

    fn delete_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        self.0.remove_many(keys, &mut scratch.units).expect(ROOM)
    }

    fn insert_and_delete_many(&self, entries: &[(u64, u64)], scratch: &mut Scratch) -> usize {
        write_pairs(&mut scratch.operations_of_set, entries.iter().map(|entry| (entry.0, ())));
        self.0.execute(&mut scratch.operations_of_set, Stop::Never);
        successes(&scratch.operations_of_set)
    }

    fn get_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        self.0.contains_many(keys, &mut scratch.units).expect(ROOM)
    }
}
