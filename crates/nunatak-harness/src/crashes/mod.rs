//! Crashes of durable maps, at every instant, or at as many as a [`Thoroughness`] selects.
//!
//! A map in a [`Simulation`] goes through a history of operations. At each moment the checker opens
//! the images that a crash may leave, and compares their contents with the acknowledged operations.
//! It runs operations on some of the opened maps, to find damage that the contents do not show. It
//! crashes recovery, too.
//!
//! A [`Kind`] defines the operations on a map and the expected contents.

mod batches;
mod multi;
mod single;

pub use crate::crashable::Contents;
pub use batches::{
    BatchAction, Batched, Batches, apply_changes, batches, changes_of, short_batches,
};
pub use multi::{MultiAction, MultiContents, contents_of_multi, multi_history, one_of_each};
pub use single::{
    Action, a_failed_sync_is_marked, blobs_are_kept_for_power_cuts, colliding, extents, history,
    killed_again_and_again, reinserted, settled_by_others, short_operations,
    short_operations_after_a_sync, synced_while_moving,
};

use crate::effort::effort;
use crate::random::Random;
use nunatak::Error;
use nunatak::durable::{Options, Persistency, Simulation};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// The contents of a map: a value, or all values, for each key.
pub type Held<M> = BTreeMap<u64, <M as Kind>::Value>;

/// A kind of durable map to crash, with its actions and their effects on the contents.
pub trait Kind: Sync + Sized + Debug {
    /// An action of a history.
    type Action: Copy + PartialEq + Debug + Sync;
    /// The value, or all values, of a key.
    type Value: Clone + PartialEq + Debug;

    /// The action that makes all earlier actions survive a power cut.
    const SYNC: Self::Action;
    /// Whether a power cut leaves a map in the page cache as of the last sync. If not, each key has
    /// a value that it had at the last sync or since.
    const ONE_INSTANT: bool;
    /// The greatest number of images to check at one moment.
    const IMAGES: u64 = u64::MAX;
    /// A factor by which maps of this kind are checked less often: at fewer moments, if not at all
    /// of them, and with fewer images that are operated on.
    const SELDOMER: usize = 1;

    /// Creates an empty map.
    ///
    /// # Errors
    /// Errors of the map.
    fn create_in(simulation: &Simulation, options: &Options) -> Result<Self, Error>;

    /// Opens the map of an image.
    ///
    /// # Errors
    /// Errors of the map.
    fn open_in(simulation: &Simulation, options: &Options) -> Result<Self, Error>;

    /// Returns whether the map had been closed when it was opened.
    fn was_closed(&self) -> bool;

    /// Runs an action on the map.
    ///
    /// # Panics
    /// If the map refuses it.
    fn run(&self, action: Self::Action);

    /// Applies an action to the contents.
    fn apply(action: Self::Action, contents: &mut Held<Self>);

    /// Returns whether all earlier actions survive a power cut after this one has returned.
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

/// Returns options for maps to crash: with parts so small that tens of keys make them grow.
pub fn small_options() -> Options {
    Options::new().threads(1).segment_buckets(2).shards(2)
}

/// How thoroughly crashes are checked.
#[derive(Debug, Clone, Copy)]
pub struct Thoroughness {
    /// The greatest number of images at one moment. If there are more, this many are drawn at
    /// random.
    pub images: u64,
    /// One of this many images is operated on, and recovered again after crashes of its recovery.
    pub second: usize,
    /// One of this many moments is checked.
    pub moments: usize,
    /// The bytes of the journal; zero means no journal.
    pub journal: u64,
}

impl Thoroughness {
    /// Returns the options to create the map with.
    fn options(&self) -> Options {
        small_options().journal(self.journal)
    }
}

/// Crashes a history of a map at the moments that `thoroughness` selects. Returns the number of
/// images checked. With an [effort](crate::effort) below 1, crashes some actions only or, if every moment
/// is selected, fewer images of each, and below a quarter fewer moments; and operates on fewer images.
///
/// # Panics
/// If a crash loses an acknowledged operation, invents one, or leaves half of one.
pub fn crash_history<M: Kind>(
    actions: &[M::Action],
    persistency: Persistency,
    thoroughness: Thoroughness,
) -> usize {
    crash_after::<M>(&[], actions, persistency, thoroughness)
}

/// Does the same as [`crash_history`] with every action, whatever the effort.
///
/// # Panics
/// If [`crash_history`] would panic.
pub fn crash_each_action<M: Kind>(
    actions: &[M::Action],
    persistency: Persistency,
    thoroughness: Thoroughness,
) -> usize {
    let moments = seldomer::<M>(thoroughness.moments);
    crash::<M>(&[], (actions, 1), persistency, Thoroughness { moments, ..thoroughness })
}

/// Does the same as [`crash_history`], after actions that are not crashed.
///
/// # Panics
/// If [`crash_history`] would panic.
pub fn crash_after<M: Kind>(
    before: &[M::Action],
    actions: &[M::Action],
    persistency: Persistency,
    thoroughness: Thoroughness,
) -> usize {
    let fewer = (1.0 / effort()).ceil().max(1.0) as usize;
    let Thoroughness { images, second, moments, journal } = thoroughness;
    let (every, images, moments) = match moments {
        1 => (1, images.div_ceil(fewer as u64), (fewer / 4).max(1)),
        _ => (fewer, images, seldomer::<M>(moments)),
    };
    let thoroughness = Thoroughness { images, second: second * fewer, moments, journal };
    crash::<M>(before, (actions, every), persistency, thoroughness)
}

/// Returns one in how many moments is checked of a kind whose operations have many.
fn seldomer<M: Kind>(moments: usize) -> usize {
    if moments == 1 { 1 } else { moments * M::SELDOMER }
}

/// Crashes one of so many actions.
fn crash<M: Kind>(
    before: &[M::Action],
    (actions, every): (&[M::Action], usize),
    persistency: Persistency,
    thoroughness: Thoroughness,
) -> usize {
    let simulation = Simulation::new(persistency);
    let map = M::create_in(&simulation, &thoroughness.options()).expect("a new map");
    let images = thoroughness.images.min(M::IMAGES);
    let second = thoroughness.second * M::SELDOMER;
    let thoroughness = Thoroughness { images, second, ..thoroughness };
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
    for (number, &action) in actions.iter().enumerate() {
        let before = simulation.moment();
        // The action runs in a thread of its own, so that no later fence makes up for a missing
        // one.
        std::thread::scope(|scope| scope.spawn(|| map.run(action)).join()).expect("an action");
        checker.check(before, action, number.is_multiple_of(every));
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
    /// The last action.
    action: M::Action,
    /// The map's contents before the last action.
    contents: Held<M>,
    /// The map's contents at the last sync.
    synced: Held<M>,
    /// For each key changed since the last sync: its state at that sync, and its states since.
    since: BTreeMap<u64, Vec<Option<M::Value>>>,
    images: usize,
}

impl<M: Kind> Checker<M> {
    /// Checks crashes of an action that has run, if it `is_chosen`.
    fn check(&mut self, before: usize, action: M::Action, is_chosen: bool) {
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
        let moments = (before..=after).step_by(self.thoroughness.moments).chain([after]);
        for moment in moments.filter(|_| is_chosen) {
            let crash = self.simulation.crash(moment);
            let is_done = moment == after;
            let is_either = |found: &Held<M>| *found == next || !is_done && *found == self.contents;
            let killed = Simulation::of(&crash.latest(), self.persistency).of_killed();
            self.examine(&killed, true, is_either);
            let images = crash.images(self.thoroughness.images, moment as u64);
            for image in images {
                let image = Simulation::of(&image, self.persistency);
                match self.persistency {
                    Persistency::Lines => self.examine(&image, false, is_either),
                    // A power cut in the middle of a sync leaves the same as one before it.
                    Persistency::Pages => {
                        self.examine(&image, false, |found| self.may_be(found, &next));
                    }
                }
                self.images += 1;
            }
        }
        if M::syncs(action) {
            self.since.clear();
            self.synced.clone_from(&next);
            let image = self.simulation.crash(after).earliest();
            let image = Simulation::of(&image, self.persistency);
            self.examine(&image, false, |found| *found == next);
        }
        self.contents = next;
    }

    /// Checks all crashes of closing the map.
    fn check_close(&mut self, before: usize) {
        let after = self.simulation.moment();
        self.action = M::SYNC;
        for moment in before..=after {
            let crash = self.simulation.crash(moment);
            for image in crash.images(self.thoroughness.images, moment as u64) {
                let image = Simulation::of(&image, self.persistency);
                self.examine(&image, false, |found| match self.persistency {
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

    /// Returns whether a power cut may leave these contents of a map in the page cache. After the
    /// action the map holds `next`.
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

    /// Opens an image, and checks its contents.
    fn examine(&self, simulation: &Simulation, is_killed: bool, may_be: impl Fn(&Held<M>) -> bool) {
        let map = self.open(simulation);
        let found = map.held();
        assert!(may_be(&found), "{}", self.difference(&found));
        if self.images.is_multiple_of(self.thoroughness.second) {
            let recovered = simulation.moment();
            operate(&map, found, self.images as u64);
            drop(map);
            self.crash_recovery(simulation, recovered, is_killed, &may_be);
        }
    }

    /// Crashes the recovery of an image at some moments.
    fn crash_recovery(
        &self,
        simulation: &Simulation,
        recovered: usize,
        is_killed: bool,
        may_be: &impl Fn(&Held<M>) -> bool,
    ) {
        let mut random = Random::new(self.images as u64);
        for _ in 0..4.min(recovered) {
            let moment = random.below(recovered as u64 + 1) as usize;
            let crash = simulation.crash(moment);
            // If the image is of a killed process, recovery is killed again: no sync has made its
            // contents survive a power cut. In the page cache all that it stored is there.
            let images = match is_killed && self.persistency == Persistency::Pages {
                true => vec![crash.latest()],
                false => crash.images(4, moment as u64).collect(),
            };
            for image in images {
                let map = self.open(&simulation.again(&image));
                let found = map.held();
                assert!(may_be(&found), "recovered twice: {}", self.difference(&found));
                operate(&map, found, moment as u64);
            }
        }
    }

    /// Opens an image: half of the images with the journal, the others without.
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

/// Runs actions on a map, then empties it.
fn operate<M: Kind>(map: &M, mut contents: Held<M>, seed: u64) {
    for action in M::random_history(seed, 60) {
        map.run(action);
        M::apply(action, &mut contents);
    }
    map.take_out(contents);
}
