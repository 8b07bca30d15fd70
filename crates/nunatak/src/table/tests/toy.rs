//! A fifth table, correct and slow: a list of pairs under a lock.
//!
//! It shows what a new table needs: a folder with its stages and its design. The maps take any
//! [`Design`], so no other file of the library knows this table; `tests/mod.rs` names it. A public
//! table takes four lines elsewhere: a `mod` and a `pub use` in `table/mod.rs`, its alias in
//! `map/`, and their names in `lib.rs`.

use crate::error::Error;
use crate::hash::{HashCodec, Hashing};
use crate::memory::{Heap, MemoryUsage};
use crate::sync::{Mutex, Registry};
use crate::table::shared::memoised_key_test::{KeyTestAnswers, MemoisedKeyTest};
use crate::table::stages::*;
use crate::table::{Change, Design, HashesWith, KeyTest, Unshadowed};
use core::marker::PhantomData;
use std::vec;

/// The design of the toy.
#[derive(Debug)]
pub(super) struct Toy(());

impl Design for Toy {
    type Stats = usize;
    type Table<P: HashCodec> = Table<P>;
    type Medium = Heap;

    fn table<P: HashCodec>(_codec: P, capacity: usize) -> Result<Table<P>, Error> {
        let table = Table { pairs: Mutex::default(), registry: Registry::new(), _p: PhantomData };
        table.reserve(capacity)?;
        Ok(table)
    }
}

impl Unshadowed for Toy {}
impl<S: Hashing> HashesWith<S> for Toy {}

type Pairs = Vec<(u64, u64)>;

pub(super) struct Table<P> {
    pairs: Mutex<Pairs>,
    registry: Registry,
    _p: PhantomData<fn(P)>,
}

impl<P> Table<P> {
    /// Acts on the pairs and the position of a key among them, under the lock. A test that runs the
    /// caller's code runs outside of the lock.
    fn with_place<T: KeyTest, R>(
        &self,
        word: u64,
        test: &T,
        act: impl Fn(&mut Pairs, Option<usize>) -> R,
    ) -> R {
        let mut known = KeyTestAnswers::default();
        loop {
            let answering = MemoisedKeyTest::new(test, &known);
            let mut pairs = self.pairs.lock();
            let is_key = |&(first, second): &_| first == word && answering.accepts(second);
            let place = pairs.iter().position(is_key);
            match answering.unknown() {
                None => return act(&mut pairs, place),
                Some(second) => {
                    drop(pairs);
                    known.insert(second, test.accepts(second));
                }
            }
        }
    }
}

impl<P: HashCodec> Lookups for Table<P> {
    fn find<T: KeyTest>(&self, word: u64, test: &T) -> Option<u64> {
        self.with_place(word, test, |pairs, place| place.map(|at| pairs[at].1))
    }

    fn prefetch(&self, _word: u64) {}
}

impl<P: HashCodec> Changes for Table<P> {
    fn apply<T: KeyTest>(
        &self,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64> {
        self.with_place(word, test, |pairs, place| {
            let Some(at) = place else {
                pairs.extend(fresh.map(|second| (word, second)));
                return None;
            };
            let before = pairs[at].1;
            match change(before) {
                Change::Keep => {}
                Change::To(second) => pairs[at].1 = second,
                Change::Remove => drop(pairs.swap_remove(at)),
            }
            Some(before)
        })
    }
}

impl<P: HashCodec> Batches for Table<P> {
    fn find_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        mut found: impl FnMut(usize, Option<u64>),
    ) {
        (0..count).for_each(|at| found(at, self.find(word(at), &test(at))));
    }

    fn apply_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        fresh: impl Fn(usize) -> Option<u64>,
        change: impl Fn(usize, u64) -> Change,
        mut done: impl FnMut(usize, Option<u64>) -> bool,
    ) {
        for at in 0..count {
            let before = self.apply(word(at), &test(at), fresh(at), |second| change(at, second));
            if !done(at, before) {
                return;
            }
        }
    }
}

impl<P: HashCodec> Iteration for Table<P> {
    type Iter<'t> = vec::IntoIter<(u64, u64)>;

    fn iter(&self) -> vec::IntoIter<(u64, u64)> {
        self.pairs.lock().clone().into_iter()
    }
}

impl<P: HashCodec> Snapshots for Table<P> {
    type Snapshot = vec::IntoIter<(u64, u64)>;

    fn snapshot(&self) -> Result<Self::Snapshot, Error> {
        Ok(self.iter())
    }
}

impl<P: HashCodec> Resizing for Table<P> {
    fn reserve(&self, additional: usize) -> Result<(), Error> {
        let bytes = additional.saturating_mul(size_of::<(u64, u64)>());
        self.pairs.lock().try_reserve(additional).map_err(|_| Error::OutOfMemory { bytes })
    }

    fn shrink_to_fit(&self) -> Result<(), Error> {
        self.pairs.lock().shrink_to_fit();
        Ok(())
    }
}

impl<P: HashCodec> Figures for Table<P> {
    type Stats = usize;

    fn len(&self) -> usize {
        self.pairs.lock().len()
    }

    fn load_factor(&self) -> f64 {
        let pairs = self.pairs.lock();
        pairs.len() as f64 / pairs.capacity().max(1) as f64
    }

    fn memory_usage(&self) -> MemoryUsage {
        let bytes = self.pairs.lock().capacity() * size_of::<(u64, u64)>();
        MemoryUsage { mapped: bytes, resident: bytes }
    }

    fn stats(&self) -> usize {
        self.len()
    }
}

impl<P: HashCodec> Guards for Table<P> {
    fn registry(&self) -> &Registry {
        &self.registry
    }
}
