//! Crashes of durable maps of keys with many values: at every instant, and whatever they
//! may leave.
//!
//! As [`crashes`](crate::crashes), but more is asked: after a power cut a map in the page
//! cache is as it was at one instant, that of the last sync.

use crate::crashes::Thoroughness;
use crate::random::Random;
use nunatak::durable::{Options, PeaMultiMap, Persistency, Simulation};
use std::collections::BTreeMap;

/// What a map should hold: of each key its values, sorted.
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
    /// What it makes of the contents.
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

    /// Does it.
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

/// A history in which each kind of change is made to each kind of place: values in slots,
/// buffers that are made, grow, are chained, shrink, and become slots again.
pub fn one_of_each() -> Vec<MultiAction> {
    use MultiAction::{Insert, RemoveAll, RemoveOne, Sync};
    let few = (0..5).flat_map(|key| (0..4).map(move |n| Insert(key, key * 10 + n)));
    let many = (0..70).map(|n| Insert(7, n));
    // Of those the last one, the first, and others.
    let less = [69, 0, 33, 62, 5, 64].map(|n| RemoveOne(7, n));
    let fewer = (1..62).filter(|&n| n != 33 && n != 5).map(|n| RemoveOne(7, n));
    let again = (0..3).map(|n| Insert(7, n)).chain([RemoveOne(7, 1)]);
    let without = [0, 7, 3].map(RemoveAll);
    let others = (0..4).map(|n| Insert(9, n)).chain([Sync, Insert(9, 5), RemoveAll(9)]);
    few.chain(many).chain(less).chain(fewer).chain(again).chain(without).chain(others).collect()
}

/// A history of a random choice of actions on keys of which a few have many values.
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

/// Crashes a history of a map at every moment.
///
/// # Panics
/// If a crash loses something that was acknowledged, or invents something, or leaves half
/// of an operation.
pub fn crash_multi(
    actions: &[MultiAction],
    persistency: Persistency,
    thoroughness: Thoroughness,
) -> usize {
    let simulation = Simulation::new(persistency);
    let map: Map = simulation.create(&options()).expect("a new map");
    let mut checker = Checker { simulation: simulation.clone(), thoroughness, images: 0 };
    let (mut contents, mut synced) = (MultiContents::new(), MultiContents::new());
    for &action in actions {
        let before = simulation.moment();
        // A thread of its own, so that no later fence makes up for one that is missing.
        std::thread::scope(|scope| scope.spawn(|| action.run(&map)).join()).expect("an action");
        let mut next = contents.clone();
        action.apply(&mut next);
        let syncs = matches!(action, MultiAction::Sync | MultiAction::Shrink);
        let last = if syncs { vec![&synced, &next] } else { vec![&synced] };
        checker.check(before, action, [&contents, &next], &last);
        contents = next;
        if syncs {
            synced.clone_from(&contents);
        }
    }
    let before = simulation.moment();
    drop(map);
    checker.check_close(before, &contents, &synced);
    checker.images
}

/// Segments so small that tens of values split them, and chain their buffers.
fn options() -> Options {
    Options::new().threads(1).segment_buckets(2)
}

struct Checker {
    simulation: Simulation,
    thoroughness: Thoroughness,
    images: usize,
}

impl Checker {
    /// Looks at all crashes of an action: what the map held before it and after it, and
    /// what it may hold after a power cut if it is in the page cache.
    fn check(
        &mut self,
        from: usize,
        action: MultiAction,
        [before, next]: [&MultiContents; 2],
        synced: &[&MultiContents],
    ) {
        let to = self.simulation.moment();
        let persistency = self.simulation.persistency();
        for moment in (from..=to).step_by(self.thoroughness.moments).chain([to]) {
            let crash = self.simulation.crash(moment);
            let is_done = moment == to;
            let is_either = |found: &MultiContents| found == next || !is_done && found == before;
            let killed = Simulation::of(&crash.latest(), persistency).of_killed();
            self.examine(&killed, action, &is_either);
            for image in crash.images(self.thoroughness.images, moment as u64) {
                let image = Simulation::of(&image, persistency);
                match persistency {
                    Persistency::Lines => self.examine(&image, action, &is_either),
                    Persistency::Pages => {
                        self.examine(&image, action, &|found| synced.contains(&found));
                    }
                }
                self.images += 1;
            }
        }
    }

    /// Looks at all crashes of the closing of the map.
    fn check_close(&mut self, from: usize, contents: &MultiContents, synced: &MultiContents) {
        let to = self.simulation.moment();
        for moment in from..=to {
            let crash = self.simulation.crash(moment);
            for image in crash.images(self.thoroughness.images, moment as u64) {
                let image = Simulation::of(&image, self.simulation.persistency());
                let is_either = |found: &MultiContents| found == contents || found == synced;
                self.examine(&image, MultiAction::Sync, &is_either);
                self.images += 1;
            }
        }
        let closed = self.simulation.again(&self.simulation.crash(to).earliest());
        let map: Map = closed.open(&options()).expect("a closed map");
        assert!(map.recovery().was_closed);
        assert_eq!(contents_of(&map), *contents);
    }

    /// Opens an image, and looks whether it holds what it may; sometimes it is used then,
    /// and its recovery is crashed.
    fn examine(
        &self,
        image: &Simulation,
        action: MultiAction,
        may_be: &impl Fn(&MultiContents) -> bool,
    ) {
        let open = |image: &Simulation| -> Map {
            match image.open(&options()) {
                Ok(map) => map,
                Err(error) => panic!("{action:?} has left what can't be opened: {error}"),
            }
        };
        let map = open(image);
        let found = contents_of(&map);
        assert!(may_be(&found), "{action:?} has left {found:?}");
        if !self.images.is_multiple_of(self.thoroughness.second) {
            return;
        }
        let recovered = image.moment();
        operate(&map, found, self.images as u64);
        drop(map);
        let mut random = Random::new(self.images as u64);
        for _ in 0..4.min(recovered) {
            let moment = random.below(recovered as u64 + 1) as usize;
            for again in image.crash(moment).images(4, moment as u64) {
                let map = open(&image.again(&again));
                let found = contents_of(&map);
                assert!(may_be(&found), "{action:?}, recovered twice, has left {found:?}");
                operate(&map, found, moment as u64);
            }
        }
    }
}

/// What a map holds, by all ways to ask.
///
/// # Panics
/// If they differ.
pub fn contents_of(map: &Map) -> MultiContents {
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

/// Uses a map for a while, and empties it.
fn operate(map: &Map, mut contents: MultiContents, seed: u64) {
    for action in multi_history(seed, 60) {
        action.run(map);
        action.apply(&mut contents);
    }
    let pairs = contents.values().map(Vec::len).sum();
    assert_eq!(map.verify(), Ok(pairs));
    for (key, values) in contents {
        assert_eq!(map.remove_all(&key), Ok(values.len()), "of key {key}");
    }
    assert_eq!((map.len(), map.verify()), (0, Ok(0)));
    assert_eq!(map.stats().buffers.iter().sum::<usize>(), 0, "buffers are nobody's");
}
