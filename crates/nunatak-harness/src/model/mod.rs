//! Random sequences of operations, done to a map and to a model of it, whose correctness is
//! plain to see. What the operations are, and what they do, is the [`Model`]'s.

mod multi;
mod single;

pub(crate) use multi::Multi;
pub(crate) use single::Single;

use crate::effort::scaled;
use crate::sample::Sample;
use crate::subject::Subject;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::fmt::Debug;

/// A model of maps of one kind, and what is done to both.
pub(crate) trait Model<M>: Default {
    /// An operation.
    type Step: Clone + Debug;

    /// After how many steps the whole map is compared with the model: at the end, if never
    /// before.
    const COMPARED_EVERY: usize = usize::MAX;

    /// Draws an operation.
    fn step() -> impl Strategy<Value = Self::Step>;

    /// Does the step to both.
    ///
    /// # Panics
    /// If they disagree.
    fn apply(&mut self, map: &M, step: &Self::Step);

    /// Compares all that they hold.
    ///
    /// # Panics
    /// If they disagree.
    fn compare(&self, map: &M);
}

const CAPACITIES: [usize; 7] = [0, 1, 7, 64, 100, 1000, 10_000];

/// Fails with the shortest sequence of steps that it finds to fail. A map is built with room
/// for so many entries, if it is told.
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

/// Every operation, in any order, does to the map what it does to the model.
///
/// # Panics
/// If not.
pub fn agrees_with_a_hash_map<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S) {
    check_cases::<Single<K, V>, _>(400, 120, |capacity| match capacity {
        Some(capacity) => subject.build(capacity),
        None => subject.adversarial(),
    });
}
