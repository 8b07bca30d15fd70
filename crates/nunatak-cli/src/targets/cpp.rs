//! Maps of C++, each behind the functions of its library. Unlike the other adapters, this one is a single type
//! for all of them: what is measured is their loops.

use super::{MapName, Target};
use nunatak_cpp_peers::{Map, Step};

pub(crate) struct Cpp(Map);

impl Target for Cpp {
    const WHOLE_LOOPS: bool = true;

    fn with_capacity(name: MapName, items: usize) -> Self {
        let library = name.library().expect("it is a map of C++");
        Self(
            library
                .map(items)
                .expect("the command line takes the maps of this build; memory for all items"),
        )
    }

    fn empty(name: MapName) -> Self {
        Self::with_capacity(name, 0)
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(key)
    }

    fn insert(&self, key: u64, value: u64) -> Option<u64> {
        self.0.insert(key, value)
    }

    fn update(&self, key: u64, value: u64) -> bool {
        self.modify(key, |_| value)
    }

    fn modify(&self, key: u64, change: impl Fn(u64) -> u64) -> bool {
        self.0.modify(key, change)
    }

    fn remove(&self, key: u64) -> Option<u64> {
        self.0.remove(key)
    }

    fn run(&self, step: Step, keys: &[u64]) -> usize {
        self.0.run(step, keys, 0)
    }

    fn run_each(&self, steps: &[Step], keys: &[u64], version: u64) -> usize {
        self.0.run_each(steps, keys, version)
    }

    fn run_batch(&self, step: Step, keys: &[u64]) -> usize {
        self.0.get_many(keys, step == Step::Get)
    }

    fn gets_batches(&self) -> bool {
        self.0.has_batches()
    }
}
