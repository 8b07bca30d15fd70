//! Crashes of durable maps: at every instant, and whatever they may leave.
//!
//! A map in a [`Simulation`] goes through a history of operations. For every moment of
//! every operation the images that a crash may leave are opened, and what they hold is
//! compared with what was acknowledged; then they are operated on, so that a map that
//! only looks right is found out; and recovery is crashed, too.

use crate::crashable::Crashable;
use crate::random::Random;
use nunatak::durable::{Options, Persistency, Simulation, TurboBlobMap};
use std::collections::BTreeMap;

/// What a map should hold.
pub type Contents = BTreeMap<u64, u64>;

/// An operation of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are the map's own")]
pub enum Action {
    Insert(u64, u64),
    Update(u64, u64),
    Remove(u64),
    Sync,
    Shrink,
    Reserve(usize),
}

impl Action {
    /// What it makes of the contents.
    pub fn apply(self, contents: &mut Contents) {
        match self {
            Self::Insert(key, value) => {
                contents.insert(key, value);
            }
            Self::Update(key, value) => {
                if let Some(present) = contents.get_mut(&key) {
                    *present = value;
                }
            }
            Self::Remove(key) => {
                contents.remove(&key);
            }
            Self::Sync | Self::Shrink | Self::Reserve(_) => {}
        }
    }

    /// Does it.
    ///
    /// # Panics
    /// If the map refuses it.
    pub fn run<M: Crashable>(self, map: &M) {
        match self {
            Self::Insert(key, value) => {
                map.put(key, value).expect("an insert");
            }
            Self::Update(key, value) => {
                map.replace(key, value).expect("an update");
            }
            Self::Remove(key) => {
                map.take(key).expect("a removal");
            }
            Self::Sync => map.make_durable().expect("a sync"),
            Self::Shrink => map.shrink().expect("a shrink"),
            Self::Reserve(entries) => map.make_room(entries).expect("room"),
        }
    }
}

/// How maps that are crashed are created: of pieces so small that tens of keys make them grow.
pub fn small_options() -> Options {
    Options::new().threads(1).segment_buckets(2).shards(2)
}

/// How thoroughly crashes are looked at.
#[derive(Debug, Clone, Copy)]
pub struct Thoroughness {
    /// All images of a moment up to this many, or so many drawn at random.
    pub images: u64,
    /// Of how many images one is operated on and recovered again after crashes of its
    /// recovery.
    pub second: usize,
    /// Of how many moments one is looked at.
    pub moments: usize,
    /// How many bytes the journal has, if not none.
    pub journal: u64,
}

impl Thoroughness {
    /// How the map that is crashed is created.
    fn options(&self) -> Options {
        small_options().journal(self.journal)
    }
}

/// A history of a random choice of actions: inserts at first, then as many removals,
/// with syncs in between, and shrinks.
pub fn history(seed: u64, actions: usize, keys: u64) -> Vec<Action> {
    let mut random = Random::new(seed);
    (0..actions)
        .map(|at| {
            let (key, value) = (random.below(keys), random.below(1000));
            let inserts = if at < actions * 2 / 3 { 7 } else { 2 };
            match random.below(32) {
                0 => Action::Sync,
                1 if at > actions / 2 => Action::Shrink,
                choice if choice % 10 < inserts => Action::Insert(key, value),
                choice if choice % 10 == 7 => Action::Update(key, value),
                _ => Action::Remove(key),
            }
        })
        .collect()
}

/// A history of a few operations of each kind, so short that every image can be looked at.
pub fn short_operations() -> Vec<Action> {
    let inserts = (0..12).map(|key| Action::Insert(key, key * 3));
    let updates = (0..12).map(|key| Action::Update(key, key * 5));
    let removals = (0..6).map(Action::Remove);
    let again = (0..6).map(|key| Action::Insert(key, key));
    inserts.chain(updates).chain(removals).chain(again).collect()
}

/// A shorter one, with a sync.
pub fn short_operations_after_a_sync() -> Vec<Action> {
    let inserts = (0..5).map(|key| Action::Insert(key, key * 3));
    let updates = (0..3).map(|key| Action::Update(key, key * 5));
    let removals = (0..2).map(Action::Remove);
    let again = (0..2).map(|key| Action::Insert(key, key));
    inserts.chain([Action::Sync]).chain(updates).chain(removals).chain(again).collect()
}

/// A history in which blocks of a table that has just begun to double are settled by
/// operations that store nothing themselves, before their keys are removed.
pub fn settled_by_others(keys: u64) -> Vec<Action> {
    let inserts = (0..keys).map(|key| Action::Insert(key, key + 1));
    let absent = (0..16).map(|key| Action::Update(1000 + key, 0));
    inserts.chain(absent).chain((0..keys).map(Action::Remove)).collect()
}

/// A history in which keys get values, which are synced, while a table doubles, before
/// they are taken out: what a move has left of them is older than that. And what comes
/// before it: so many keys that the two places of a key are in different sectors.
pub fn synced_while_moving() -> (Vec<Action>, Vec<Action>) {
    const BEFORE: u64 = 560;
    let of_key = |key: u64| {
        let old = key * 7 % BEFORE;
        [
            Action::Insert(BEFORE + key, key),
            Action::Update(old, 1000 + key),
            Action::Sync,
            Action::Remove(old),
            Action::Insert(old, 2000 + key),
        ]
    };
    let inserts = (0..BEFORE).map(|key| Action::Insert(key, key));
    (inserts.collect(), (0..40).flat_map(of_key).collect())
}

/// A history in which keys that were in a later level are taken out and put into an
/// earlier one.
pub fn reinserted() -> Vec<Action> {
    let mut actions: Vec<Action> = (0..18).map(|key| Action::Insert(key, key + 1)).collect();
    actions.push(Action::Sync);
    actions.extend((0..6).map(Action::Remove));
    actions.extend((6..18).flat_map(|key| [Action::Remove(key), Action::Insert(key, key + 2)]));
    actions
}

/// A history in which the file grows and shrinks by extents.
pub fn extents() -> Vec<Action> {
    let mut actions: Vec<Action> = (0..40).map(|key| Action::Insert(key, key + 1)).collect();
    actions.push(Action::Reserve(12_000));
    actions.extend((0..8).map(|key| Action::Insert(key, key + 2)));
    actions.push(Action::Shrink);
    actions.extend((0..8).map(|key| Action::Update(key, key + 3)));
    actions
}

/// Crashes a history of a map at every moment.
///
/// # Panics
/// If a crash loses something that was acknowledged, or invents something.
pub fn crash_history<M: Crashable>(
    actions: &[Action],
    persistency: Persistency,
    thoroughness: Thoroughness,
) -> usize {
    crash_after::<M>(&[], actions, persistency, thoroughness)
}

/// As [`crash_history`], after actions that are not crashed.
///
/// # Panics
/// As it does.
pub fn crash_after<M: Crashable>(
    before: &[Action],
    actions: &[Action],
    persistency: Persistency,
    thoroughness: Thoroughness,
) -> usize {
    let simulation = Simulation::new(persistency);
    let map: M = M::create(&simulation, &thoroughness.options()).expect("a new map");
    let moments = match thoroughness.moments {
        1 => 1,
        moments => moments * M::SELDOMER,
    };
    let images = thoroughness.images.min(M::IMAGES);
    let second = thoroughness.second * M::SELDOMER;
    let thoroughness = Thoroughness { images, moments, second, ..thoroughness };
    let mut checker = Checker::new(simulation.clone(), thoroughness);
    for action in before {
        action.run(&map);
        action.apply(&mut checker.contents);
    }
    map.make_durable().expect("a sync");
    for &action in actions {
        let before = simulation.moment();
        // A thread of its own, so that no later fence makes up for one that is missing.
        std::thread::scope(|scope| scope.spawn(|| action.run(&map)).join()).expect("an action");
        checker.check::<M>(before, action);
    }
    let before = simulation.moment();
    drop(map);
    checker.check_close::<M>(before);
    checker.images
}

/// Kills process after process, each of which changes a map and syncs nothing, and then
/// cuts the power: of a map whose pages are copied what the first one synced is left.
///
/// # Panics
/// If it is not.
pub fn killed_again_and_again<M: Crashable>(kills: u64) {
    const KEYS: u64 = 40;
    let options = small_options();
    let mut simulation = Simulation::new(Persistency::Pages);
    let map: M = M::create(&simulation, &options).expect("a new map");
    (0..KEYS).for_each(|key| assert_eq!(map.put(key, 0), Ok(None)));
    map.make_durable().expect("a sync");
    drop(map);
    for kill in 0..kills {
        let image = simulation.crash(simulation.moment()).latest();
        let cut = Simulation::of(&image, Persistency::Pages);
        let map: M = M::open(&cut, &options).expect("the map after a power cut");
        assert_eq!(map.contents(), (0..KEYS).map(|key| (key, 0)).collect());
        simulation = Simulation::of(&image, Persistency::Pages).of_killed();
        let map: M = M::open(&simulation, &options).expect("the map");
        assert!((0..KEYS).all(|key| map.value(key) == Some(kill)));
        (0..KEYS).for_each(|key| assert_eq!(map.put(key, kill + 1), Ok(Some(kill))));
        // It is killed, some of them in the middle of a sync.
        simulation.fail_sync_after(0);
        assert!(kill % 2 == 0 || map.make_durable().is_err());
        simulation = simulation.again(&simulation.crash(simulation.moment()).latest());
        core::mem::forget(map);
    }
}

/// What a power cut brings back of byte strings is there, whatever was stored since: in this
/// session, and in one after the process was killed.
///
/// # Panics
/// If it is not.
pub fn blobs_are_kept_for_power_cuts() {
    let options = small_options();
    let simulation = Simulation::new(Persistency::Pages);
    let map: TurboBlobMap = simulation.create(&options).expect("a new map");
    map.put(b"a", &[1; 100]).expect("room");
    map.sync().expect("a sync");
    let look = |simulation: &Simulation| {
        let image = simulation.crash(simulation.moment()).latest();
        let cut = Simulation::of(&image, Persistency::Pages);
        let map: TurboBlobMap = cut.open(&options).expect("the map after a power cut");
        assert_eq!((map.get(b"a"), map.verify()), (Some(vec![1; 100]), Ok(1)));
    };
    let overwrite = |map: &TurboBlobMap| {
        for round in 2..200_u8 {
            map.put(b"a", &[round; 100]).expect("room");
            map.put(&[round, 0], &[round; 100]).expect("room");
            assert_eq!(map.reclaim(), 0);
        }
    };
    overwrite(&map);
    look(&simulation);
    let killed = simulation.crash(simulation.moment()).latest();
    core::mem::forget(map);
    // The next session learns of all places, which are not free before a sync.
    let simulation = Simulation::of(&killed, Persistency::Pages).of_killed();
    let map: TurboBlobMap = simulation.open(&options).expect("the map");
    assert_eq!(map.get(b"a"), Some(vec![199; 100]));
    simulation.fail_sync_after(0);
    map.delete(b"a").expect("no room");
    assert_eq!(map.verify(), Ok(198));
    let _ = map.put(b"b", &[7; 100]);
    let _ = map.put(b"c", &[8; 100]);
    look(&simulation);
}

struct Checker {
    simulation: Simulation,
    persistency: Persistency,
    thoroughness: Thoroughness,
    /// What the map holds.
    contents: Contents,
    /// What keys may have after a power cut, if not that: what they had at the last
    /// sync and since.
    since: BTreeMap<u64, Vec<Option<u64>>>,
    images: usize,
}

impl Checker {
    fn new(simulation: Simulation, thoroughness: Thoroughness) -> Self {
        let persistency = simulation.persistency();
        Self {
            simulation,
            persistency,
            thoroughness,
            contents: Contents::new(),
            since: BTreeMap::new(),
            images: 0,
        }
    }

    /// Looks at all crashes of an action that has been done.
    fn check<M: Crashable>(&mut self, before: usize, action: Action) {
        let after = self.simulation.moment();
        let mut next = self.contents.clone();
        action.apply(&mut next);
        if let Action::Insert(key, _) | Action::Update(key, _) | Action::Remove(key) = action {
            let had = self.contents.get(&key).copied();
            let values = self.since.entry(key).or_insert_with(|| vec![had]);
            values.push(next.get(&key).copied());
        }
        for moment in (before..=after).step_by(self.thoroughness.moments).chain([after]) {
            let crash = self.simulation.crash(moment);
            let is_done = moment == after;
            let killed = crash.latest();
            let killed = Simulation::of(&killed, self.persistency).of_killed();
            self.examine::<M>(&killed, |found| {
                *found == next || !is_done && *found == self.contents
            });
            for image in crash.images(self.thoroughness.images, moment as u64) {
                let image = Simulation::of(&image, self.persistency);
                match self.persistency {
                    Persistency::Lines => self.examine::<M>(&image, |found| {
                        *found == next || !is_done && *found == self.contents
                    }),
                    Persistency::Pages => {
                        // In the middle of a sync, as before it.
                        self.examine::<M>(&image, |found| self.may_be(found));
                    }
                }
                self.images += 1;
            }
        }
        if action == Action::Sync {
            self.since.clear();
            let image = self.simulation.crash(after).earliest();
            let image = Simulation::of(&image, self.persistency);
            self.examine::<M>(&image, |found| *found == next);
        }
        self.contents = next;
    }

    /// Looks at all crashes of the closing of the map.
    fn check_close<M: Crashable>(&mut self, before: usize) {
        let after = self.simulation.moment();
        for moment in before..=after {
            let crash = self.simulation.crash(moment);
            for image in crash.images(self.thoroughness.images, moment as u64) {
                let image = Simulation::of(&image, self.persistency);
                self.examine::<M>(&image, |found| match self.persistency {
                    Persistency::Pages if moment < after => self.may_be(found),
                    _ => *found == self.contents,
                });
                self.images += 1;
            }
        }
        let closed = Simulation::of(&self.simulation.crash(after).earliest(), self.persistency);
        assert!(self.open::<M>(&closed).found().was_closed);
    }

    /// Whether a power cut may leave this.
    fn may_be(&self, found: &Contents) -> bool {
        let keys = found.keys().chain(self.contents.keys());
        keys.chain(self.since.keys()).all(|key| {
            let value = found.get(key).copied();
            match self.since.get(key) {
                Some(values) => values.contains(&value),
                None => value == self.contents.get(key).copied(),
            }
        })
    }

    /// Opens an image, and looks whether it holds what it may.
    fn examine<M: Crashable>(&self, simulation: &Simulation, may_be: impl Fn(&Contents) -> bool) {
        let map: M = self.open(simulation);
        let found = contents_of(&map);
        assert!(may_be(&found), "{}", self.difference(&found));
        if self.images.is_multiple_of(self.thoroughness.second) {
            let recovered = simulation.moment();
            operate(&map, &found, self.images as u64);
            drop(map);
            self.crash_recovery::<M>(simulation, recovered, &may_be);
        }
    }

    /// Crashes the recovery of an image at some moments.
    fn crash_recovery<M: Crashable>(
        &self,
        simulation: &Simulation,
        recovered: usize,
        may_be: &impl Fn(&Contents) -> bool,
    ) {
        let mut random = Random::new(self.images as u64);
        for _ in 0..4.min(recovered) {
            let moment = random.below(recovered as u64 + 1) as usize;
            for image in simulation.crash(moment).images(4, moment as u64) {
                // Of what a killed process has left, recovery is killed again: that its
                // contents survive a power cut was never said.
                let again = simulation.again(&image);
                let map: M = self.open(&again);
                let found = contents_of(&map);
                assert!(may_be(&found), "recovered twice: {}", self.difference(&found));
                operate(&map, &found, moment as u64);
            }
        }
    }

    /// Opens an image, with the journal and, as often, without.
    fn open<M: Crashable>(&self, simulation: &Simulation) -> M {
        let options = match self.images.is_multiple_of(2) {
            true => self.thoroughness.options(),
            false => Options::new().threads(1),
        };
        match M::open(simulation, &options) {
            Ok(map) => map,
            Err(error) => panic!("a crash has left a file that can't be opened: {error}"),
        }
    }

    fn difference(&self, found: &Contents) -> String {
        let keys = found.keys().chain(self.contents.keys()).chain(self.since.keys());
        let different = keys.filter_map(|key| {
            let (found, expected) = (found.get(key), self.contents.get(key));
            let since = self.since.get(key);
            (found != expected).then(|| format!("{key}: {found:?}, {expected:?}, {since:?}"))
        });
        let different: std::collections::BTreeSet<String> = different.collect();
        format!("keys, with what they have, had before, and may have: {different:#?}")
    }
}

/// What a map holds, by all ways to ask.
fn contents_of<M: Crashable>(map: &M) -> Contents {
    let found = map.contents();
    let all = || format!("{:?} {:?} {}", map.check(), map.found(), map.inside());
    assert_eq!(map.count(), found.len(), "the number of entries: {}", all());
    assert_eq!(map.check(), Ok(found.len()));
    assert_eq!(map.found().items, found.len());
    found.iter().for_each(|(key, value)| assert_eq!(map.value(*key), Some(*value)));
    found
}

/// Uses a map for a while.
fn operate<M: Crashable>(map: &M, found: &Contents, seed: u64) {
    let mut contents = found.clone();
    for action in history(seed, 60, 80) {
        action.run(map);
        action.apply(&mut contents);
    }
    assert_eq!(map.contents(), contents);
    assert_eq!(map.check(), Ok(contents.len()));
    // Whatever is removed stays away.
    let keys: Vec<u64> = contents.keys().copied().collect();
    for key in keys {
        assert_eq!(map.take(key), Ok(contents.remove(&key)));
        assert_eq!(map.take(key), Ok(None), "key {key} was there twice");
    }
}
