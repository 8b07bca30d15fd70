//! Crashes of durable maps with one value a key: their operations, and histories that have shown
//! bugs.

use super::{Kind, small_options};
use crate::crashable::{COLLIDING, Contents, Crashable};
use crate::random::Random;
use nunatak::Error;
use nunatak::durable::{BlobDesign, BlobsInFile, FileMap, Options, Persistency, Simulation};

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
    /// Applies the operation to the contents.
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

    /// Runs the operation on the map.
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

impl<M: Crashable> Kind for M {
    type Action = Action;
    type Value = u64;

    const SYNC: Action = Action::Sync;
    // Not all of these maps keep one instant; those that do have a test of their own.
    const ONE_INSTANT: bool = false;
    const IMAGES: u64 = <M as Crashable>::IMAGES;
    const SELDOMER: usize = <M as Crashable>::SELDOMER;

    fn create_in(simulation: &Simulation, options: &Options) -> Result<Self, Error> {
        Crashable::create(simulation, options)
    }

    fn open_in(simulation: &Simulation, options: &Options) -> Result<Self, Error> {
        Crashable::open(simulation, options)
    }

    fn was_closed(&self) -> bool {
        self.found().was_closed
    }

    fn run(&self, action: Action) {
        action.run(self);
    }

    fn apply(action: Action, contents: &mut Contents) {
        action.apply(contents);
    }

    fn syncs(action: Action) -> bool {
        action == Action::Sync
    }

    fn held(&self) -> Contents {
        let held = self.contents();
        let all = || format!("{:?} {:?} {}", self.check(), self.found(), self.inside());
        assert_eq!(self.count(), held.len(), "the number of entries: {}", all());
        assert_eq!(self.check(), Ok(held.len()));
        assert_eq!(self.found().items, held.len());
        held.iter().for_each(|(key, value)| assert_eq!(self.value(*key), Some(*value)));
        held
    }

    fn random_history(seed: u64, actions: usize) -> Vec<Action> {
        history(seed, actions, 80)
    }

    fn take_out(&self, contents: Contents) {
        assert_eq!(self.contents(), contents);
        assert_eq!(self.check(), Ok(contents.len()));
        for (key, value) in contents {
            assert_eq!(self.take(key), Ok(Some(value)));
            assert_eq!(self.take(key), Ok(None), "key {key} was there twice");
        }
    }
}

/// Returns a history of random actions: first mostly inserts, then mostly removals, with syncs and
/// shrinks in between.
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

/// Returns a history of a few operations of each kind, so short that every image can be checked.
pub fn short_operations() -> Vec<Action> {
    let inserts = (0..12).map(|key| Action::Insert(key, key * 3));
    let updates = (0..12).map(|key| Action::Update(key, key * 5));
    let removals = (0..6).map(Action::Remove);
    let again = (0..6).map(|key| Action::Insert(key, key));
    inserts.chain(updates).chain(removals).chain(again).collect()
}

/// Returns a shorter history, with a sync.
pub fn short_operations_after_a_sync() -> Vec<Action> {
    let inserts = (0..5).map(|key| Action::Insert(key, key * 3));
    let updates = (0..3).map(|key| Action::Update(key, key * 5));
    let removals = (0..2).map(Action::Remove);
    let again = (0..2).map(|key| Action::Insert(key, key));
    inserts.chain([Action::Sync]).chain(updates).chain(removals).chain(again).collect()
}

/// Returns a history in which a table begins to double, operations that store nothing settle
/// blocks, and then the blocks' keys are removed.
pub fn settled_by_others(keys: u64) -> Vec<Action> {
    let inserts = (0..keys).map(|key| Action::Insert(key, key + 1));
    let absent = (0..16).map(|key| Action::Update(1000 + key, 0));
    inserts.chain(absent).chain((0..keys).map(Action::Remove)).collect()
}

/// Returns two histories. The first inserts so many keys that the two places of a key are in
/// different sectors. In the second the table doubles while keys get values, which are synced
/// before the keys are removed. So a move's leftovers are older than the synced values.
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

/// Returns a history that removes keys from a later level and inserts them into an earlier one.
pub fn reinserted() -> Vec<Action> {
    let mut actions: Vec<Action> = (0..18).map(|key| Action::Insert(key, key + 1)).collect();
    actions.push(Action::Sync);
    actions.extend((0..6).map(Action::Remove));
    actions.extend((6..18).flat_map(|key| [Action::Remove(key), Action::Insert(key, key + 2)]));
    actions
}

/// Returns a history of byte strings of one hash, so many that some are in chains. They are changed
/// and removed there, and keys of the earlier places make room.
pub fn colliding() -> Vec<Action> {
    const KEYS: u64 = 150;
    let insert = |key| Action::Insert(COLLIDING + key, key + 1);
    let mut actions: Vec<Action> = (0..KEYS).map(insert).collect();
    actions.push(Action::Sync);
    let update = |key| Action::Update(COLLIDING + key, key + 2);
    actions.extend((KEYS - 20..KEYS).map(update));
    actions.extend((0..20).chain(KEYS - 30..KEYS - 10).map(|key| Action::Remove(COLLIDING + key)));
    actions.extend((0..8).chain(KEYS..KEYS + 8).map(insert));
    actions.push(Action::Sync);
    actions.extend((60..KEYS - 30).map(|key| Action::Remove(COLLIDING + key)));
    actions.extend([Action::Shrink, insert(KEYS + 8)]);
    actions
}

/// Returns a history in which the file grows and shrinks by extents.
pub fn extents() -> Vec<Action> {
    let mut actions: Vec<Action> = (0..40).map(|key| Action::Insert(key, key + 1)).collect();
    actions.push(Action::Reserve(12_000));
    actions.extend((0..8).map(|key| Action::Insert(key, key + 2)));
    actions.push(Action::Shrink);
    actions.extend((0..8).map(|key| Action::Update(key, key + 3)));
    actions
}

/// Kills several processes in turn. Each changes the map and completes no sync. A power cut after
/// each kill must leave what the first process synced, in a map whose pages are copied.
///
/// # Panics
/// If the map holds something else.
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
        // The process is killed, in every second round in the middle of a sync.
        simulation.fail_sync_after(0);
        assert!(kill % 2 == 0 || map.make_durable().is_err());
        // Without the two stores by which a map says that a sync has failed: a process that is killed
        // does not make them.
        let moment = simulation.moment() - 2 * usize::from(kill % 2 == 1);
        simulation = simulation.again(&simulation.crash(moment).latest());
        core::mem::forget(map);
    }
    // Pages of all these processes become durable together.
    let map: M = M::open(&simulation, &options).expect("the map");
    map.make_durable().expect("a sync");
    assert_eq!(map.check(), Ok(KEYS as usize));
    let image = simulation.crash(simulation.moment()).latest();
    let map: M = M::open(&Simulation::of(&image, Persistency::Pages), &options).expect("the map");
    assert_eq!((map.check(), map.value(0)), (Ok(KEYS as usize), Some(kills)));
}

/// Checks that the next handle opens a file whose sync has failed as after a power cut, in a map
/// whose pages are copied: the page cache holds what the disk has not got.
///
/// # Panics
/// If it takes the file for one of a killed process.
pub fn a_failed_sync_is_marked<M: Crashable>() {
    let options = small_options();
    let simulation = Simulation::new(Persistency::Pages);
    let map: M = M::create(&simulation, &options).expect("a new map");
    assert_eq!(map.put(1, 1), Ok(None));
    map.make_durable().expect("a sync");
    assert_eq!(map.put(2, 2), Ok(None));
    simulation.fail_sync_after(0);
    assert!(map.make_durable().is_err());
    let image = simulation.crash(simulation.moment()).latest();
    let again = Simulation::of(&image, Persistency::Pages).of_killed();
    let map: M = M::open(&again, &options).expect("the map");
    assert_eq!(map.contents(), Contents::from([(1, 1)]));
}

/// Checks that byte strings that a power cut may restore are kept, whatever a map stores later: in
/// the same session, and in one after the process was killed.
///
/// # Panics
/// If a byte string is lost.
pub fn blobs_are_kept_for_power_cuts<D: BlobDesign>() {
    type Of<D> = FileMap<BlobsInFile<D>>;
    let options = small_options();
    let simulation = Simulation::new(Persistency::Pages);
    let map: Of<D> = simulation.create(&options).expect("a new map");
    map.put(b"a", &[1; 100]).expect("room");
    map.sync().expect("a sync");
    let look = |simulation: &Simulation| {
        let image = simulation.crash(simulation.moment()).latest();
        let cut = Simulation::of(&image, Persistency::Pages);
        let map: Of<D> = cut.open(&options).expect("the map after a power cut");
        assert_eq!((map.get(b"a"), map.verify()), (Some(vec![1; 100]), Ok(1)));
    };
    let overwrite = |map: &Of<D>| {
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
    // The next session finds all places, which stay in use until a sync.
    let simulation = Simulation::of(&killed, Persistency::Pages).of_killed();
    let map: Of<D> = simulation.open(&options).expect("the map");
    assert_eq!(map.get(b"a"), Some(vec![199; 100]));
    simulation.fail_sync_after(0);
    map.delete(b"a").expect("no room");
    assert_eq!(map.verify(), Ok(198));
    let _ = map.put(b"b", &[7; 100]);
    let _ = map.put(b"c", &[8; 100]);
    look(&simulation);
}
