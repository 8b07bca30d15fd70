//! The models of Pea Hash's smaller entries, whose two words are not loaded at once.

use super::models::{Model, check, spawn};
use nunatak::{Entry8, Entry12, EntrySize, InlineMap, Pea, PeaMap, Strategy};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

/// Keys choose their hashes.
#[derive(Debug, Clone, Copy, Default)]
struct Chosen(u64);

impl BuildHasher for Chosen {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Chosen {
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are words");
    }

    fn write_u64(&mut self, key: u64) {
        // The lowest bit is the half, so words from zero on lie in both halves.
        self.0 = key << 63 | key >> 1;
    }

    fn finish(&self) -> u64 {
        // The map multiplies by the golden ratio, so multiply by its inverse first.
        self.0.wrapping_mul(0xF1DE_83E1_9937_733D)
    }
}

/// Returns the `n`th key of the first bucket with this fingerprint.
fn key(fingerprint: u32, n: u32) -> u32 {
    (fingerprint << 10 | n) << 1
}

type Map<E> = InlineMap<u32, u32, Chosen, Pea<E>>;

fn map<E: EntrySize>(entries: &[(u32, u32)]) -> Arc<Map<E>> {
    let builder = PeaMap::<u64, u64>::builder().hasher(Chosen(0)).segment_buckets(2);
    let map: Map<E> = builder.strategies(&[Strategy::Single]).split_into(2).build().unwrap();
    for &(key, value) in entries {
        map.insert(key, value);
    }
    Arc::new(map)
}

/// A slot changes from one key to another with the same fingerprint, and back.
fn a_value_is_its_keys<E: EntrySize>() {
    check(3, || {
        let [goes, comes] = [0, 1].map(|n| key(5, n));
        let map = map::<E>(&[(goes, 40)]);
        let writer = spawn(&map, move |map| {
            map.remove(&goes);
            map.insert(comes, 60);
            map.remove(&comes);
            map.insert(goes, 41);
        });
        assert!(matches!(map.get(&goes), None | Some(40 | 41)));
        writer.join().unwrap();
        assert_eq!((map.get(&goes), map.get(&comes)), (Some(41), None));
    });
}

fn a_visible_key_stays_visible<E: EntrySize>() {
    check(3, || {
        let [stays, goes, comes] = [0, 1, 2].map(|n| key(5, n));
        let map = map::<E>(&[(stays, 20), (goes, 40)]);
        let writer = spawn(&map, move |map| {
            map.remove(&goes);
            map.insert(comes, 60);
        });
        assert_eq!(map.get(&stays), Some(20));
        let first = map.get(&comes);
        let second = map.get(&comes);
        assert!(matches!(first, None | Some(60)));
        assert!(first.is_none() || second == Some(60), "it was there before");
        writer.join().unwrap();
    });
}

pub(crate) const MODELS: &[Model] = &[
    ("of 12 bytes, a value is its key's", a_value_is_its_keys::<Entry12>),
    ("of 8 bytes, a value is its key's", a_value_is_its_keys::<Entry8>),
    ("of 12 bytes, a visible key stays visible", a_visible_key_stays_visible::<Entry12>),
    ("of 8 bytes, a visible key stays visible", a_visible_key_stays_visible::<Entry8>),
];
