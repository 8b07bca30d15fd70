//! Crashes of durable maps: at every instant, and whatever they may leave.
//!
//! A map in a [`Simulation`] goes through a history of operations. For every moment of
//! every operation the images that a crash may leave are opened, and what they hold is
//! compared with what was acknowledged; then they are operated on, so that a map that
//! only looks right is found out; and recovery is crashed, too.
//!
//! What is done to a map, and what it should hold then, is the [`Kind`]'s.

mod multi;
mod single;

pub use multi::{MultiAction, MultiContents, contents_of_multi, multi_history, one_of_each};
pub use single::{
    Action, Contents, blobs_are_kept_for_power_cuts, extents, history, killed_again_and_again,
    reinserted, settled_by_others, short_operations, short_operations_after_a_sync,
    synced_while_moving,
};

use crate::random::Random;
use nunatak::Error;
use nunatak::durable::{Options, Persistency, Simulation};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// What a map holds, or should hold, of each key.
pub type Held<M> = BTreeMap<u64, <M as Kind>::Value>;

/// A kind of durable map to crash: its actions, and the contents that they lead to.
pub trait Kind: Sync + Sized + Debug {
    /// An action of a history.
    type Action: Copy + PartialEq + Debug + Sync;
    /// The value, or all values, of a key.
    type Value: Clone + PartialEq + Debug;

    /// The action that makes all earlier actions survive a power cut.
    const SYNC: Self::Action;
    /// Whether a power cut leaves a map in the page cache as the last sync left it. If not,
    /// each key has a value that it had at the last sync or since.
    const ONE_INSTANT: bool;
    /// How many images of a moment are looked at, at most.
    const IMAGES: u64 = u64::MAX;
    /// How many times seldomer than others it is looked at: at moments, of histories that are
    /// not looked at everywhere, and at what becomes of images that are used.
    const SELDOMER: usize = 1;

    /// Creates an empty map.
    ///
    /// # Errors
    /// Those of the map.
    fn create_in(simulation: &Simulation, options: &Options) -> Result<Self, Error>;

    /// Opens the map of an image.
    ///
    /// # Errors
    /// Those of the map.
    fn open_in(simulation: &Simulation, options: &Options) -> Result<Self, Error>;

    /// Whether the map had been closed when it was opened.
    fn was_closed(&self) -> bool;

    /// Runs an action on the map.
    ///
    /// # Panics
    /// If the map refuses it.
    fn run(&self, action: Self::Action);

    /// Applies an action to the contents.
    fn apply(action: Self::Action, contents: &mut Held<Self>);

    /// Whether all earlier actions survive a power cut when this one has returned.
    fn syncs(action: Self::Action) -> bool;

    /// Returns the contents of the map, read in every way that the map has.
    ///
    /// # Panics
    /// If two ways differ.
    fn held(&self) -> Held<Self>;

    /// Draws a history of random actions.
    fn random_history(seed: u64, actions: usize) -> Vec<Self::Action>;

    /// Removes all entries of the map, which must hold these contents.
    ///
    /// # Panics
    /// If the map holds something else, or an entry comes back.
    fn take_out(&self, contents: Held<Self>);
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

/// Crashes a history of a map at every moment.
///
/// # Panics
/// If a crash loses something that was acknowledged, or invents something, or leaves half
/// of an operation.
pub fn crash_history<M: Kind>(
    actions: &[M::Action],
    persistency: Persistency,
    thoroughness: Thoroughness,
) -> usize {
    crash_after::<M>(&[], actions, persistency, thoroughness)
}

/// As [`crash_history`], after actions that are not crashed.
///
/// # Panics
/// As it does.
pub fn crash_after<M: Kind>(
    before: &[M::Action],
    actions: &[M::Action],
    persistency: Persistency,
    thoroughness: Thoroughness,
) -> usize {
    let simulation = Simulation::new(persistency);
    let map = M::create_in(&simulation, &thoroughness.options()).expect("a new map");
    let moments = match thoroughness.moments {
        1 => 1,
        moments => moments * M::SELDOMER,
    };
    let images = thoroughness.images.min(M::IMAGES);
    let second = thoroughness.second * M::SELDOMER;
    let thoroughness = Thoroughness { images, moments, second, ..thoroughness };
    let mut contents = Held::<M>::new();
    for &action in before {
        map.run(action);
        M::apply(action, &mut contents);
    }
    map.run(M::SYNC);
    let mut checker = Checker::<M> {
        simulation: simulation.clone(),
        persistency,
        thoroughness,
        action: M::SYNC,
        synced: contents.clone(),
        contents,
        since: BTreeMap::new(),
        images: 0,
    };
    for &action in actions {
        let before = simulation.moment();
        // A thread of its own, so that no later fence makes up for one that is missing.
        std::thread::scope(|scope| scope.spawn(|| map.run(action)).join()).expect("an action");
        checker.check(before, action);
    }
    let before = simulation.moment();
    drop(map);
    checker.check_close(before);
    checker.images
}

struct Checker<M: Kind> {
    simulation: Simulation,
    persistency: Persistency,
    thoroughness: Thoroughness,
    /// The action that was done last.
    action: M::Action,
    /// What the map held before it.
    contents: Held<M>,
    /// What the map held at the last sync.
    synced: Held<M>,
    /// What keys that were changed since had at that sync, and have had since.
    since: BTreeMap<u64, Vec<Option<M::Value>>>,
    images: usize,
}

impl<M: Kind> Checker<M> {
    /// Looks at all crashes of an action that has been done.
    fn check(&mut self, before: usize, action: M::Action) {
        let after = self.simulation.moment();
        let mut next = self.contents.clone();
        M::apply(action, &mut next);
        for key in self.contents.keys().chain(next.keys()).collect::<BTreeSet<_>>() {
            let (had, has) = (self.contents.get(key), next.get(key));
            if had != has {
                let values = self.since.entry(*key).or_insert_with(|| vec![had.cloned()]);
                values.push(has.cloned());
            }
        }
        self.action = action;
        for moment in (before..=after).step_by(self.thoroughness.moments).chain([after]) {
            let crash = self.simulation.crash(moment);
            let is_done = moment == after;
            let is_either = |found: &Held<M>| *found == next || !is_done && *found == self.contents;
            let killed = Simulation::of(&crash.latest(), self.persistency).of_killed();
            self.examine(&killed, is_either);
            let images = crash.images(self.thoroughness.images, moment as u64);
            for image in images {
                let image = Simulation::of(&image, self.persistency);
                match self.persistency {
                    Persistency::Lines => self.examine(&image, is_either),
                    // In the middle of a sync, as before it.
                    Persistency::Pages => self.examine(&image, |found| self.may_be(found, &next)),
                }
                self.images += 1;
            }
        }
        if M::syncs(action) {
            self.since.clear();
            self.synced.clone_from(&next);
            let image = self.simulation.crash(after).earliest();
            let image = Simulation::of(&image, self.persistency);
            self.examine(&image, |found| *found == next);
        }
        self.contents = next;
    }

    /// Looks at all crashes of the closing of the map.
    fn check_close(&mut self, before: usize) {
        let after = self.simulation.moment();
        self.action = M::SYNC;
        for moment in before..=after {
            let crash = self.simulation.crash(moment);
            for image in crash.images(self.thoroughness.images, moment as u64) {
                let image = Simulation::of(&image, self.persistency);
                self.examine(&image, |found| match self.persistency {
                    Persistency::Pages if moment < after => self.may_be(found, &self.contents),
                    _ => *found == self.contents,
                });
                self.images += 1;
            }
        }
        let closed = Simulation::of(&self.simulation.crash(after).earliest(), self.persistency);
        let map = self.open(&closed);
        assert!(map.was_closed());
        assert_eq!(map.held(), self.contents);
    }

    /// Whether a power cut may leave this of a map in the page cache, which holds `next` when
    /// the action is done.
    fn may_be(&self, found: &Held<M>, next: &Held<M>) -> bool {
        if M::ONE_INSTANT {
            return *found == self.synced || M::syncs(self.action) && found == next;
        }
        let keys = found.keys().chain(self.contents.keys());
        keys.chain(self.since.keys()).all(|key| {
            let value = found.get(key);
            match self.since.get(key) {
                Some(values) => values.iter().any(|of| of.as_ref() == value),
                None => value == self.contents.get(key),
            }
        })
    }

    /// Opens an image, and looks whether it holds what it may.
    fn examine(&self, simulation: &Simulation, may_be: impl Fn(&Held<M>) -> bool) {
        let map = self.open(simulation);
        let found = map.held();
        assert!(may_be(&found), "{}", self.difference(&found));
        if self.images.is_multiple_of(self.thoroughness.second) {
            let recovered = simulation.moment();
            operate(&map, found, self.images as u64);
            drop(map);
            self.crash_recovery(simulation, recovered, &may_be);
        }
    }

    /// Crashes the recovery of an image at some moments.
    fn crash_recovery(
        &self,
        simulation: &Simulation,
        recovered: usize,
        may_be: &impl Fn(&Held<M>) -> bool,
    ) {
        let mut random = Random::new(self.images as u64);
        for _ in 0..4.min(recovered) {
            let moment = random.below(recovered as u64 + 1) as usize;
            for image in simulation.crash(moment).images(4, moment as u64) {
                // Of what a killed process has left, recovery is killed again: that its
                // contents survive a power cut was never said.
                let map = self.open(&simulation.again(&image));
                let found = map.held();
                assert!(may_be(&found), "recovered twice: {}", self.difference(&found));
                operate(&map, found, moment as u64);
            }
        }
    }

    /// Opens an image, with the journal and, as often, without.
    fn open(&self, simulation: &Simulation) -> M {
        let options = match self.images.is_multiple_of(2) {
            true => self.thoroughness.options(),
            false => Options::new().threads(1),
        };
        match M::open_in(simulation, &options) {
            Ok(map) => map,
            Err(error) => panic!("{:?} has left what can't be opened: {error}", self.action),
        }
    }

    fn difference(&self, found: &Held<M>) -> String {
        let keys = found.keys().chain(self.contents.keys()).chain(self.since.keys());
        let different = keys.filter_map(|key| {
            let (found, expected) = (found.get(key), self.contents.get(key));
            let since = self.since.get(key);
            (found != expected).then(|| format!("{key}: {found:?}, {expected:?}, {since:?}"))
        });
        let different: BTreeSet<String> = different.collect();
        format!(
            "{:?} has left keys, with what they have, had before, and may have: {different:#?}",
            self.action
        )
    }
}

/// Uses a map for a while, and empties it.
fn operate<M: Kind>(map: &M, mut contents: Held<M>, seed: u64) {
    for action in M::random_history(seed, 60) {
        map.run(action);
        M::apply(action, &mut contents);
    }
    map.take_out(contents);
}
