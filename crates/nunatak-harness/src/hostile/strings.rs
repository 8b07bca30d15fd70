//! The victim whose keys are byte strings with any number of values.

use super::hooks::{Event, fire, hashes_were_wrong};
use super::victim::{Victim, belongs};
use crate::blob_multi::{number, text};
use crate::multi::MultiMap;
use nunatak::PeaBlobMultiMap;
use std::hash::BuildHasher;

/// A map of byte strings with any number of values each; here one to three.
#[derive(Debug)]
pub struct ManyOfStrings<S: BuildHasher + Send + Sync + 'static>(pub PeaBlobMultiMap<u64, S>);

impl<S: BuildHasher + Send + Sync + 'static> ManyOfStrings<S> {
    fn keys(pairs: impl Iterator<Item = (Vec<u8>, u64)>) -> Vec<u64> {
        let mut keys: Vec<u64> = pairs
            .map(|(key, value)| {
                belongs(number(&key), value);
                value
            })
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

impl<S: BuildHasher + Send + Sync + 'static> Victim for ManyOfStrings<S> {
    fn put(&self, key: u64) {
        self.0.remove_all(&text(key));
        (0..1 + key % 3).for_each(|_| self.0.insert(&text(key), key).expect("memory for a key"));
    }

    fn try_put(&self, key: u64) {
        if !self.0.contains_key(&text(key)) {
            self.put(key);
        }
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.0.get_all(&text(key)).for_each(|value| belongs(key, value));
        self.0.get(&text(key))
    }

    fn remove(&self, key: u64) {
        self.0.remove_one(&text(key), &key);
        self.0.drain(&text(key)).for_each(|value| belongs(key, value));
    }

    fn decide(&self, key: u64) {
        self.put(key);
    }

    fn batch(&self, keys: &[u64]) {
        let texts: Vec<Vec<u8>> = keys.iter().copied().map(text).collect();
        let mut counts = vec![0; keys.len()];
        self.0.count_many(&texts, &mut counts).expect("room");
        self.0.remove_all_many(&texts, &mut counts).expect("room");
        MultiMap::insert_many(&self.0, &keys.iter().map(|&key| (key, key)).collect::<Vec<_>>());
        keys.iter().for_each(|&key| self.put(key));
    }

    fn iterate(&self) -> Vec<u64> {
        Self::keys(self.0.iter())
    }

    fn cut(&self) -> Vec<u64> {
        self.0.snapshot().map(Self::keys).unwrap_or_default()
    }

    fn retain(&self, keep: &mut dyn FnMut(u64) -> bool) {
        self.0.retain(|key, value| {
            fire(Event::Closure);
            belongs(number(key), *value);
            keep(*value)
        });
    }

    fn clear(&self) {
        self.0.clear();
    }

    fn len(&self) -> usize {
        // The map's own count is of values.
        let (values, keys) = (self.0.len(), self.iterate().len());
        assert!(values == 0 || keys > 0 || hashes_were_wrong(), "{values} values of no keys");
        keys
    }

    fn reserve(&self, additional: usize) {
        let _ = self.0.reserve(additional, additional);
    }

    fn shrink(&self) {
        let _ = self.0.shrink_to_fit();
    }

    fn reclaim(&self, _key: u64) {
        self.0.reclaim();
    }

    fn look(&self) {
        let _ = format!("{:?} {:?}", self.0.memory_usage(), self.0.stats());
    }
}
