//! Random sequences of operations on a map and on a model of it. The model is so simple that it is
//! plainly correct. A `Model` defines the operations of one kind of map.

mod multi;
mod single;

pub use multi::behaves_like_vectors;
pub(crate) use single::Single;
pub use single::agrees_with_a_hash_map;

use crate::effort::scaled;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::fmt::Debug;

/// A model of one kind of maps, and the operations on map and model.
pub(crate) trait Model<M>: Default {
    /// An operation.
    type Step: Clone + Debug;

    /// After how many steps the whole map is compared with the model; it is also compared at the
    /// end.
    const COMPARED_EVERY: usize = usize::MAX;

    /// Draws an operation.
    fn step() -> impl Strategy<Value = Self::Step>;

    /// Runs the step on the map and on the model.
    ///
    /// # Panics
    /// If map and model disagree.
    fn apply(&mut self, map: &M, step: &Self::Step);

    /// Compares the contents of the map with the model.
    ///
    /// # Panics
    /// If map and model disagree.
    fn compare(&self, map: &M);
}

const CAPACITIES: [usize; 7] = [0, 1, 7, 64, 100, 1000, 10_000];

/// Runs random sequences. If one fails, it panics with the shortest failing sequence that it finds.
/// `build` gets the number of entries to make room for, or `None`.
pub(crate) fn check_cases<D: Model<M>, M>(
    cases: u32,
    steps: usize,
    build: impl Fn(Option<usize>) -> M,
) {
    let cases = u32::try_from(scaled(cases as usize)).unwrap_or(u32::MAX);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let capacity = prop::option::of(prop::sample::select(&CAPACITIES[..]));
    let sequences = (capacity, prop::collection::vec(D::step(), 1..steps));
    let outcome = TestRunner::new(config).run(&sequences, |(capacity, steps)| {
        let (map, mut model) = (build(capacity), D::default());
        for steps in steps.chunks(D::COMPARED_EVERY) {
            steps.iter().for_each(|step| model.apply(&map, step));
            model.compare(&map);
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
