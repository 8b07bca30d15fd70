//! Crashes of batches that are atomic.

use super::single::{Action, history};
use super::{Held, Kind};
use crate::crashable::{Contents, Crashable, bytes_of_key, bytes_of_value};
use crate::random::Random;
use nunatak::Error;
use nunatak::durable::{AtomicBatches, BlobDesign, BlobsInFile, FileMap, Map, Options, Simulation};

/// A durable map with atomic batches.
pub trait Batches: Crashable {
    /// Changes several keys as a whole.
    ///
    /// # Errors
    /// Errors of the map.
    fn change_together(&self, changes: &[(u64, Option<u64>)]) -> Result<(), Error>;
}

impl<D: AtomicBatches> Batches for Map<u64, u64, D>
where
    Self: Sync,
{
    fn change_together(&self, changes: &[(u64, Option<u64>)]) -> Result<(), Error> {
        self.write_batch(changes)
    }
}

impl<D: BlobDesign> Batches for FileMap<BlobsInFile<D>> {
    fn change_together(&self, changes: &[(u64, Option<u64>)]) -> Result<(), Error> {
        let bytes =
            |&(key, value): &(u64, Option<u64>)| (bytes_of_key(key), value.map(bytes_of_value));
        self.write_batch(&changes.iter().map(bytes).collect::<Vec<_>>())
    }
}

/// An action of a history with batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchAction {
    /// A single operation.
    Single(Action),
    /// A batch: the seed of its changes, and their greatest number.
    Batch(u64, u64),
}

/// Returns the changes of a batch. Some keys are changed more than once, and some present keys are
/// removed.
pub fn changes_of(seed: u64, most: u64) -> Vec<(u64, Option<u64>)> {
    let mut random = Random::new(seed);
    let count = 1 + random.below(most);
    (0..count)
        .map(|_| {
            let value = random.below(1000);
            (random.below(40), (!value.is_multiple_of(3)).then_some(value))
        })
        .collect()
}

/// Applies the changes of a batch to the contents.
pub fn apply_changes(changes: &[(u64, Option<u64>)], contents: &mut Contents) {
    for &(key, value) in changes {
        match value {
            Some(value) => contents.insert(key, value),
            None => contents.remove(&key),
        };
    }
}

/// A map whose histories have batches.
#[derive(Debug)]
pub struct Batched<M>(M);

impl<M: Batches> Kind for Batched<M> {
    type Action = BatchAction;
    type Value = u64;

    const SYNC: BatchAction = BatchAction::Single(Action::Sync);
    const ONE_INSTANT: bool = true;
    const IMAGES: u64 = <M as Crashable>::IMAGES;
    const SELDOMER: usize = <M as Crashable>::SELDOMER;

    fn create_in(simulation: &Simulation, options: &Options) -> Result<Self, Error> {
        Crashable::create(simulation, options).map(Self)
    }

    fn open_in(simulation: &Simulation, options: &Options) -> Result<Self, Error> {
        Crashable::open(simulation, options).map(Self)
    }

    fn was_closed(&self) -> bool {
        Kind::was_closed(&self.0)
    }

    fn run(&self, action: BatchAction) {
        match action {
            BatchAction::Single(action) => action.run(&self.0),
            BatchAction::Batch(seed, most) => {
                self.0.change_together(&changes_of(seed, most)).expect("a batch");
            }
        }
    }

    fn apply(action: BatchAction, contents: &mut Held<Self>) {
        match action {
            BatchAction::Single(action) => action.apply(contents),
            BatchAction::Batch(seed, most) => apply_changes(&changes_of(seed, most), contents),
        }
    }

    fn syncs(action: BatchAction) -> bool {
        // A shrink ends with a sync.
        matches!(action, BatchAction::Single(Action::Sync | Action::Shrink))
    }

    fn held(&self) -> Contents {
        Kind::held(&self.0)
    }

    fn random_history(seed: u64, actions: usize) -> Vec<BatchAction> {
        batches(seed, actions)
    }

    fn take_out(&self, contents: Contents) {
        Kind::take_out(&self.0, contents);
    }
}

/// Returns a history of random actions, of which every fourth is a batch.
pub fn batches(seed: u64, actions: usize) -> Vec<BatchAction> {
    let singles = history(seed, actions, 60).into_iter().enumerate();
    let action = |(at, action): (usize, Action)| match at % 4 {
        1 => BatchAction::Batch(seed * 1000 + at as u64, 12),
        _ => BatchAction::Single(action),
    };
    singles.map(action).collect()
}

/// Returns a history of short batches with their effects of each kind.
pub fn short_batches() -> Vec<BatchAction> {
    let inserts = (0..6).map(|key| BatchAction::Single(Action::Insert(key * 5, key)));
    inserts.chain((0..10).map(|seed| BatchAction::Batch(seed, 5))).collect()
}
