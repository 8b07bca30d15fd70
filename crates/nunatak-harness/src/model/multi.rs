//! Maps of keys with any number of values, whose model is vectors in a tree.

use super::{Model, check_cases};
use crate::multi::{MultiMap, sorted};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// An operation.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Insert(u64, u64),
    /// Inserts one of the key's values, chosen by the index, or the given value.
    InsertUnique(u64, prop::sample::Index, u64),
    InsertUniqueMany(Vec<u64>, u64),
    InsertMany(Vec<u64>, u64),
    /// Removes one of the key's values, chosen by the index, or the given value.
    RemoveOne(u64, prop::sample::Index, u64),
    RemoveAll(u64),
    Drain(u64),
    ContainsPair(u64, u64),
    AllOfMany(Vec<u64>),
    Look(u64),
}

/// Draws a key. A few keys get most of the values.
fn key() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => 0..3_u64,
        1 => 10..40_u64,
        1 => 100..1600_u64,
        1 => (100..1600_u64).prop_map(|key| key << 40),
    ]
}

fn value() -> impl Strategy<Value = u64> {
    0..1_u64 << 20
}

fn keys() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(key(), 0..80)
}

/// The expected contents of a map.
#[derive(Debug, Default)]
pub(crate) struct Multi {
    model: BTreeMap<u64, Vec<u64>>,
}

impl Multi {
    fn all(&self, key: u64) -> Vec<u64> {
        self.model.get(&key).cloned().unwrap_or_default()
    }

    fn insert(&mut self, key: u64, value: u64) {
        self.model.entry(key).or_default().push(value);
    }

    fn agrees<M: MultiMap>(&self, map: &M) {
        let pairs =
            self.model.iter().flat_map(|(&key, values)| values.iter().map(move |&v| (key, v)));
        let mut expected: Vec<(u64, u64)> = pairs.collect();
        expected.sort_unstable();
        for mut found in [map.pairs(), map.cut()] {
            found.sort_unstable();
            assert_eq!(found, expected);
        }
        assert_eq!(map.len(), expected.len());
        let (mut with_values, mut with_counts) = (map.keys_with_values(), map.keys_with_counts());
        with_values.sort_unstable();
        with_counts.sort_unstable();
        let present = || self.model.iter().filter(|(_, values)| !values.is_empty());
        assert!(with_counts.into_iter().eq(present().map(|(&key, values)| (key, values.len()))));
        let with_values = with_values.into_iter().map(|(key, values)| (key, sorted(values)));
        assert!(with_values.eq(present().map(|(&key, values)| (key, sorted(values.clone())))));
        for (&key, values) in &self.model {
            assert_eq!(sorted(map.all(key)), sorted(values.clone()));
        }
    }
}

impl<M: MultiMap> Model<M> for Multi {
    type Step = Step;

    const COMPARED_EVERY: usize = 1500;

    fn step() -> impl Strategy<Value = Step> {
        let one = || (key(), any::<prop::sample::Index>(), value());
        prop_oneof![
            7 => one().prop_map(|(key, at, value)| Step::InsertUnique(key, at, value)),
            2 => (keys(), value()).prop_map(|(keys, value)| Step::InsertUniqueMany(keys, value)),
            24 => (key(), value()).prop_map(|(key, value)| Step::Insert(key, value)),
            4 => (keys(), value()).prop_map(|(keys, value)| Step::InsertMany(keys, value)),
            12 => one().prop_map(|(key, at, value)| Step::RemoveOne(key, at, value)),
            1 => prop_oneof![key().prop_map(Step::RemoveAll), key().prop_map(Step::Drain)],
            4 => (key(), value()).prop_map(|(key, value)| Step::ContainsPair(key, value)),
            4 => keys().prop_map(Step::AllOfMany),
            11 => key().prop_map(Step::Look),
        ]
    }

    fn apply(&mut self, map: &M, step: &Step) {
        match *step {
            Step::Insert(key, value) => {
                map.insert(key, value);
                self.insert(key, value);
            }
            Step::InsertUnique(key, at, value) => {
                let values = self.all(key);
                let value = values.get(at.index(values.len() + 1)).copied().unwrap_or(value);
                assert_eq!(map.insert_unique(key, value), !values.contains(&value));
                if !values.contains(&value) {
                    self.insert(key, value);
                }
            }
            Step::InsertUniqueMany(ref keys, first) => {
                // Few values, so that many pairs come again.
                let pairs: Vec<(u64, u64)> =
                    keys.iter().copied().zip((0..3).map(|n| first << 8 | n).cycle()).collect();
                let before = self.model.values().map(Vec::len).sum::<usize>();
                let added = map.insert_unique_many(&pairs);
                for &(key, value) in &pairs {
                    if !self.all(key).contains(&value) {
                        self.insert(key, value);
                    }
                }
                assert_eq!(before + added, self.model.values().map(Vec::len).sum::<usize>());
            }
            Step::InsertMany(ref keys, first) => {
                let pairs: Vec<(u64, u64)> = keys.iter().copied().zip(first << 8..).collect();
                map.insert_many(&pairs);
                pairs.iter().for_each(|&(key, value)| self.insert(key, value));
            }
            Step::RemoveOne(key, at, value) => {
                let values = self.model.entry(key).or_default();
                let value = values.get(at.index(values.len() + 1)).copied().unwrap_or(value);
                let at = values.iter().position(|&of| of == value);
                assert_eq!(map.remove_one(key, value), at.is_some());
                at.map(|at| values.swap_remove(at));
            }
            Step::RemoveAll(key) => {
                let values = self.model.remove(&key).unwrap_or_default();
                assert_eq!(map.remove_all(key), values.len());
            }
            Step::Drain(key) => {
                let values = self.model.remove(&key).unwrap_or_default();
                assert_eq!(sorted(map.drain(key)), sorted(values));
            }
            Step::ContainsPair(key, value) => {
                let values = self.all(key);
                assert_eq!(map.contains_pair(key, value), values.contains(&value));
                assert!(values.first().is_none_or(|&value| map.contains_pair(key, value)));
            }
            Step::AllOfMany(ref keys) => {
                for (&key, values) in keys.iter().zip(map.all_of_many(keys)) {
                    assert_eq!(sorted(values), sorted(self.all(key)));
                }
            }
            Step::Look(key) => {
                let values = self.all(key);
                assert_eq!(map.count(key), values.len());
                assert!(map.get(key).map_or(values.is_empty(), |value| values.contains(&value)));
                assert_eq!(sorted(map.all(key)), sorted(values));
            }
        }
    }

    /// Compares before and after a shrink.
    fn compare(&self, map: &M) {
        self.agrees(map);
        map.shrink();
        self.agrees(map);
    }
}

/// Checks that random operations do the same to the map as to vectors in a tree, on keys with no,
/// some, and very many values.
///
/// # Panics
/// If map and model disagree.
pub fn behaves_like_vectors<M: MultiMap>(build: impl Fn() -> M) {
    check_cases::<Multi, _>(24, 6000, |_| build());
}
