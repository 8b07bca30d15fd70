//! Loops that a map runs on its own side, in another language ([`Target::WHOLE_LOOPS`]). The workloads compute
//! the same keys in the same order as for other maps, a block at a time, and hand the blocks over.

use super::BLOCK;
use crate::targets::{Step, Target};

/// How many keys a block has. They stay in the first-level cache until the loop takes them.
const KEYS: usize = BLOCK as usize;

/// Does the same with all keys; returns how many operations went wrong.
pub(super) fn run_all<T: Target>(map: &T, step: Step, mut keys: impl Iterator<Item = u64>) -> u64 {
    let mut block = Vec::with_capacity(KEYS);
    let mut wrong = 0;
    loop {
        block.clear();
        block.extend(keys.by_ref().take(KEYS));
        if block.is_empty() {
            return wrong;
        }
        wrong += map.run(step, &block) as u64;
    }
}

/// A block of operations of several kinds.
#[derive(Debug)]
pub(super) struct Block {
    steps: Vec<Step>,
    keys: Vec<u64>,
    /// How many operations of earlier blocks went wrong.
    wrong: u64,
}

impl Block {
    pub(super) fn new() -> Self {
        Self { steps: Vec::with_capacity(KEYS), keys: Vec::with_capacity(KEYS), wrong: 0 }
    }

    /// Adds an operation. If the block is full then, runs all that it has, with values of this version.
    pub(super) fn add<T: Target>(&mut self, map: &T, step: Step, key: u64, version: u64) {
        self.steps.push(step);
        self.keys.push(key);
        if self.keys.len() == KEYS {
            self.run(map, version);
        }
    }

    /// Runs all operations that were added.
    pub(super) fn run<T: Target>(&mut self, map: &T, version: u64) {
        if self.keys.is_empty() {
            return;
        }
        self.wrong += map.run_each(&self.steps, &self.keys, version) as u64;
        self.steps.clear();
        self.keys.clear();
    }

    /// Returns how many of the operations that have run went wrong.
    pub(super) const fn wrong(&self) -> u64 {
        self.wrong
    }
}
