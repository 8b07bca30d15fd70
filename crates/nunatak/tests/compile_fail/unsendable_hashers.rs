//! A map whose hasher can't be shared can't be shared.

use nunatak::{DlhtBoxedMap, DlhtMap, RandomState};
use std::cell::Cell;
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasher;

#[derive(Default)]
struct Counting(Cell<u64>);

impl BuildHasher for Counting {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        self.0.set(self.0.get() + 1);
        DefaultHasher::new()
    }
}

fn is_sync<T: Sync>() {}

fn main() {
    is_sync::<DlhtBoxedMap<u64, u64, RandomState>>();
    is_sync::<DlhtBoxedMap<u64, u64, Counting>>();
    is_sync::<DlhtMap<u64, u64, Counting>>();
}
