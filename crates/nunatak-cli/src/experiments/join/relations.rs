//! The two relations of a join, and the check that every match was found once.

use crate::keys::{KeySpace, Random, value_of};
use crate::threads::{CheckFailed, check, share};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many tuples of the probe relation there are for each tuple of the build relation.
pub(super) const PROBES: u64 = 16;

/// A key and a payload.
pub(super) type Tuple = (u64, u64);

/// The two relations, and what their join must be.
pub(super) struct Relations {
    /// Each key once.
    pub(super) build: Vec<Tuple>,
    /// Keys of the build relation, drawn uniformly.
    pub(super) probe: Vec<Tuple>,
    expected: Joined,
}

impl Relations {
    pub(super) fn new(items: u64, seed: u64) -> Self {
        let (space, mut random) = (KeySpace::new(seed, false), Random::new(seed));
        let build: Vec<Tuple> =
            (0..items).map(|at| space.key(at)).map(|key| (key, value_of(key))).collect();
        let probe: Vec<Tuple> =
            (0..PROBES * items).map(|at| (space.key(random.below(items)), at)).collect();
        let mut expected = Joined::default();
        probe.iter().for_each(|&(key, payload)| expected.add(payload, value_of(key)));
        Self { build, probe, expected }
    }

    /// Returns the parts of both relations that belong to a thread.
    pub(super) fn of_thread(&self, number: usize, threads: usize) -> [&[Tuple]; 2] {
        [&self.build, &self.probe].map(|relation| {
            let part = share(relation.len() as u64, number, threads);
            &relation[part.start as usize..part.end as usize]
        })
    }

    /// Checks the sum of what the threads have joined.
    pub(super) fn check(&self, all: &Together) -> Result<(), CheckFailed> {
        let (tuples, sum) = (all.tuples.load(Relaxed), all.sum.load(Relaxed));
        check(tuples == self.expected.tuples, "a tuple was not joined, or joined twice")?;
        check(sum == self.expected.sum, "a tuple was joined with another one's")
    }
}

/// The number of joined tuples, and a sum that depends on the two payloads of each.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Joined {
    tuples: u64,
    sum: u64,
}

impl Joined {
    #[inline]
    pub(super) fn add(&mut self, probed: u64, built: u64) {
        self.tuples += 1;
        self.sum = self.sum.wrapping_add(probed.rotate_left(17) ^ built);
    }
}

/// What all threads have joined. Relaxed: it is read after the threads have ended.
#[derive(Debug, Default)]
pub(super) struct Together {
    tuples: AtomicU64,
    sum: AtomicU64,
}

impl Together {
    pub(super) fn add(&self, joined: Joined) {
        self.tuples.fetch_add(joined.tuples, Relaxed);
        self.sum.fetch_add(joined.sum, Relaxed);
    }
}
