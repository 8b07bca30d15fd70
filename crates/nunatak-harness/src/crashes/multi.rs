//! Crashes of durable maps of keys with many values: their operations and histories.

use super::Kind;
use crate::random::Random;
use nunatak::Error;
use nunatak::durable::{Options, PeaMultiMap, Simulation};
use std::collections::BTreeMap;

/// The expected contents of a map: the sorted values of each key.
pub type MultiContents = BTreeMap<u64, Vec<u64>>;

type Map = PeaMultiMap<u64, u64>;

/// An operation of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are the map's own")]
pub enum MultiAction {
    Insert(u64, u64),
    RemoveOne(u64, u64),
    RemoveAll(u64),
    Sync,
    Shrink,
}

impl MultiAction {
    /// Applies the operation to the contents.
    pub fn apply(self, contents: &mut MultiContents) {
        match self {
            Self::Insert(key, value) => {
                let values = contents.entry(key).or_default();
                values.insert(values.partition_point(|of| *of < value), value);
            }
            Self::RemoveOne(key, value) => {
                if let Some(values) = contents.get_mut(&key)
                    && let Ok(at) = values.binary_search(&value)
                {
                    values.remove(at);
                }
            }
            Self::RemoveAll(key) => {
                contents.remove(&key);
            }
            Self::Sync | Self::Shrink => {}
        }
        contents.retain(|_, values| !values.is_empty());
    }

    /// Runs the operation on the map.
    ///
    /// # Panics
    /// If the map refuses it.
    pub fn run(self, map: &Map) {
        match self {
            Self::Insert(key, value) => map.insert(key, value).expect("an insert"),
            Self::RemoveOne(key, value) => {
                map.remove_one(&key, &value).expect("a removal");
            }
            Self::RemoveAll(key) => {
                map.remove_all(&key).expect("a removal");
            }
            Self::Sync => map.sync().expect("a sync"),
            Self::Shrink => map.shrink_to_fit().expect("a shrink"),
        }
    }
}

impl Kind for Map {
    type Action = MultiAction;
    /// The key's values, sorted.
    type Value = Vec<u64>;

    const SYNC: MultiAction = MultiAction::Sync;
    const ONE_INSTANT: bool = true;

    fn create_in(simulation: &Simulation, options: &Options) -> Result<Self, Error> {
        simulation.create(options)
    }

    fn open_in(simulation: &Simulation, options: &Options) -> Result<Self, Error> {
        simulation.open(options)
    }

    fn was_closed(&self) -> bool {
        self.recovery().was_closed
    }

    fn run(&self, action: MultiAction) {
        action.run(self);
    }

    fn apply(action: MultiAction, contents: &mut MultiContents) {
        action.apply(contents);
    }

    fn syncs(action: MultiAction) -> bool {
        matches!(action, MultiAction::Sync | MultiAction::Shrink)
    }

    fn held(&self) -> MultiContents {
        contents_of_multi(self)
    }

    fn random_history(seed: u64, actions: usize) -> Vec<MultiAction> {
        multi_history(seed, actions)
    }

    fn take_out(&self, contents: MultiContents) {
        let pairs = contents.values().map(Vec::len).sum();
        assert_eq!(self.verify(), Ok(pairs));
        for (key, values) in contents {
            assert_eq!(self.remove_all(&key), Ok(values.len()), "of key {key}");
        }
        assert_eq!((self.len(), self.verify()), (0, Ok(0)));
        assert_eq!(self.stats().buffers.iter().sum::<usize>(), 0, "buffers are nobody's");
    }
}

/// Returns a history with each kind of change to each kind of place: to values in slots, and to
/// value buffers that are made, grow, are chained, shrink, and become slots again.
pub fn one_of_each() -> Vec<MultiAction> {
    use MultiAction::{Insert, RemoveAll, RemoveOne, Sync};
    let few = (0..5).flat_map(|key| (0..4).map(move |n| Insert(key, key * 10 + n)));
    let many = (0..70).map(|n| Insert(7, n));
    // Removes the last value, the first, and others.
    let less = [69, 0, 33, 62, 5, 64].map(|n| RemoveOne(7, n));
    let fewer = (1..62).filter(|&n| n != 33 && n != 5).map(|n| RemoveOne(7, n));
    let again = (0..3).map(|n| Insert(7, n)).chain([RemoveOne(7, 1)]);
    let without = [0, 7, 3].map(RemoveAll);
    let others = (0..4).map(|n| Insert(9, n)).chain([Sync, Insert(9, 5), RemoveAll(9)]);
    few.chain(many).chain(less).chain(fewer).chain(again).chain(without).chain(others).collect()
}

/// Returns a history of random actions on keys, of which a few have many values.
pub fn multi_history(seed: u64, actions: usize) -> Vec<MultiAction> {
    let mut random = Random::new(seed);
    (0..actions)
        .map(|at| {
            let key = match random.below(3) {
                0 => random.below(2),
                _ => 2 + random.below(24),
            };
            let value = random.below(6);
            let inserts = if at < actions * 2 / 3 { 7 } else { 3 };
            match random.below(40) {
                0 | 1 => MultiAction::Sync,
                2 if at > actions / 2 => MultiAction::Shrink,
                3 => MultiAction::RemoveAll(key),
                choice if choice % 10 < inserts => MultiAction::Insert(key, value),
                _ => MultiAction::RemoveOne(key, value),
            }
        })
        .collect()
}

/// Returns the contents of a map, read in every way.
///
/// # Panics
/// If two ways differ.
pub fn contents_of_multi(map: &Map) -> MultiContents {
    let mut found = MultiContents::new();
    for (key, value) in map.iter() {
        found.entry(key).or_default().push(value);
    }
    for (key, values) in &mut found {
        values.sort_unstable();
        let mut all: Vec<u64> = map.get_all(key).collect();
        all.sort_unstable();
        assert_eq!((map.count(key), all), (values.len(), values.clone()));
    }
    let pairs = found.values().map(Vec::len).sum();
    assert_eq!((map.len(), map.verify()), (pairs, Ok(pairs)), "{:?}", map.stats());
    assert_eq!(map.recovery().items, pairs);
    found
}
