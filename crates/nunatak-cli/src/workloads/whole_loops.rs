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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::keys::Popularity;
    use crate::settings::Bench;
    use crate::targets::{Cpp, MapName};
    use crate::workloads::mixed::{Mix, mixed};
    use crate::workloads::{delete, insdel, inserting, latest, lookup, populate};
    use clap::{Parser as _, ValueEnum as _};

    /// Every loop fails if the map has not what it must have, and only then.
    #[test]
    fn what_a_loop_finds_wrong_fails_the_measurement() {
        let line = ["nunatak", "bench", "--items", "3000", "--milliseconds", "1"];
        let Some(Command::Bench(args)) = Cli::parse_from(line).command else {
            unreachable!("it is the subcommand that is named");
        };
        let settings = args.settings();
        let bench = &Bench::new(&settings);
        let built = |name: &&MapName| name.library().is_some_and(|library| library.check().is_ok());
        for &name in MapName::value_variants().iter().filter(built) {
            let made = || Cpp::empty(name);
            let filled = || {
                let map = made();
                populate::fill(&map, bench, 2, false).expect("new keys");
                map
            };
            let half = |modify| Mix { percent_gets: 50, modify };
            let mix =
                |map: &Cpp, modify| mixed(map, bench, 2, false, Popularity::Zipf, half(modify));
            let full = filled();
            assert!(populate::fill(&full, bench, 2, false).is_err(), "{name}");
            assert!(lookup::hits(&full, bench, 2, false).is_ok(), "{name}");
            assert!(lookup::hits(&made(), bench, 2, false).is_err(), "{name}");
            assert!(lookup::misses(&full, bench, 2, false).is_ok(), "{name}");
            if full.gets_batches() {
                assert!(lookup::hits(&full, bench, 2, true).is_ok(), "{name}");
                assert!(lookup::hits(&made(), bench, 2, true).is_err(), "{name}");
            }
            for modify in [false, true] {
                assert!(mix(&full, modify).is_ok() && mix(&made(), modify).is_err(), "{name}");
            }
            assert!(insdel::insert_and_delete(&full, bench, 2, false).is_ok(), "{name}");
            assert!(latest::reads(&filled(), bench, 2, false).is_ok(), "{name}");
            assert!(latest::reads(&made(), bench, 2, false).is_err(), "{name}");
            assert!(inserting::with_gets(&filled(), bench, 2, 50).is_ok(), "{name}");
            assert!(inserting::with_gets(&made(), bench, 2, 50).is_err(), "{name}");
            assert!(inserting::from_a_few(&made(), bench, 2, 20).is_ok(), "{name}");
            assert!(inserting::from_a_few(&full, bench, 2, 20).is_err(), "{name}");
            // What went wrong in one block is not forgotten in the next.
            let mut block = Block::new();
            for step in [Step::Miss, Step::Get] {
                block.add(&full, step, bench.keys.key(0), 0);
                block.run(&full, 0);
            }
            assert_eq!(block.wrong(), 1, "{name}");
            let map = filled();
            assert!(delete::empty(&map, bench, 2, false).is_ok(), "{name}");
            assert!(delete::empty(&map, bench, 2, false).is_err(), "{name}");
        }
    }
}
