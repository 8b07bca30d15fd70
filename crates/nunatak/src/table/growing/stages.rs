//! The stages of a growing table: each asks the full table, or goes through the slots.

use super::{Full, Growing, SMALL};
use crate::error::Error;
use crate::memory::MemoryUsage;
use crate::sync::{GuardPin, Ordering, Registry};
use crate::table::stages::{
    Batches, Changes, Figures, Guards, Iteration, Lookups, Resizing, Snapshots,
};
use crate::table::{Change, KeyTest};
use std::vec;

impl<T: Full> Lookups for Growing<T> {
    #[inline(always)]
    fn find<K: KeyTest>(&self, word: u64, test: &K) -> Option<u64> {
        match self.full() {
            Some(full) => full.find(word, test),
            None => self.find_in_small(word, test),
        }
    }

    #[inline(always)]
    fn find_guarded<K: KeyTest + Copy>(
        &self,
        guard: &GuardPin<'_>,
        word: u64,
        test: K,
    ) -> Option<u64> {
        match self.full() {
            Some(full) => full.find_guarded(guard, word, test),
            None => self.find_in_small(word, &test),
        }
    }

    /// The slots need no fetching.
    #[inline(always)]
    fn prefetch(&self, word: u64) {
        if let Some(full) = self.full() {
            full.prefetch(word);
        }
    }
}

impl<T: Full> Changes for Growing<T> {
    #[inline(always)]
    fn apply<K: KeyTest>(
        &self,
        word: u64,
        test: &K,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64> {
        let full = match self.full() {
            Some(full) => full,
            None => match self.apply_in_small(word, test, fresh, &change) {
                Ok(before) => return before,
                Err(full) => full,
            },
        };
        full.apply(word, test, fresh, change)
    }
}

impl<T: Full> Batches for Growing<T> {
    #[inline(always)]
    fn find_many<K: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> K,
        found: impl FnMut(usize, Option<u64>),
    ) {
        match self.full() {
            Some(full) => full.find_many(count, word, test, found),
            None => self.find_each(count, word, test, found),
        }
    }

    /// Applies changes one by one until the table is full, and the others together.
    #[inline(always)]
    fn apply_many<K: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> K,
        fresh: impl Fn(usize) -> Option<u64>,
        change: impl Fn(usize, u64) -> Change,
        mut done: impl FnMut(usize, Option<u64>) -> bool,
    ) {
        let mut first = 0;
        let full = loop {
            if let Some(full) = self.full() {
                break full;
            }
            if first == count {
                return;
            }
            let change = |second| change(first, second);
            let (word, test, fresh) = (word(first), test(first), fresh(first));
            match self.apply_in_small(word, &test, fresh, &change) {
                Ok(before) if !done(first, before) => return,
                Ok(_) => first += 1,
                Err(full) => break full,
            }
        };
        full.apply_many(
            count - first,
            |at| word(first + at),
            |at| test(first + at),
            |at| fresh(first + at),
            |at, second| change(first + at, second),
            |at, before| done(first + at, before),
        );
    }
}

impl<T: Full> Growing<T> {
    /// Looks keys up one by one. The table may grow meanwhile: each lookup asks again.
    #[cold]
    #[inline(never)]
    fn find_each<K: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> K,
        mut found: impl FnMut(usize, Option<u64>),
    ) {
        (0..count).for_each(|at| found(at, self.find(word(at), &test(at))));
    }
}

/// Yields the pairs of a small table, which were copied at one moment, or those of a full one.
#[derive(Debug)]
pub enum Pairs<I> {
    Small(vec::IntoIter<(u64, u64)>),
    Full(I),
}

impl<I: Iterator<Item = (u64, u64)>> Iterator for Pairs<I> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        match self {
            Self::Small(pairs) => pairs.next(),
            Self::Full(pairs) => pairs.next(),
        }
    }
}

impl<T: Full> Growing<T> {
    /// Copies the pairs of the slots as of one moment, or returns the full table.
    pub(crate) fn copy(&self) -> Result<vec::IntoIter<(u64, u64)>, &T> {
        let held = self.small.lock();
        match self.full() {
            Some(full) => Err(full),
            None => Ok(self.small.pairs(&held).into_iter()),
        }
    }
}

impl<T: Full> Iteration for Growing<T> {
    type Iter<'t>
        = Pairs<T::Iter<'t>>
    where
        Self: 't;

    /// The pairs of a small table are copied at once. So growth does not change what the iterator
    /// yields.
    fn iter(&self) -> Pairs<T::Iter<'_>> {
        match self.copy() {
            Ok(pairs) => Pairs::Small(pairs),
            Err(full) => Pairs::Full(full.iter()),
        }
    }

    /// A small table is one part.
    fn read_part(&self, part: usize, pairs: &mut Vec<(u64, u64)>) -> bool {
        match self.copy() {
            Ok(small) if part == 0 => pairs.extend(small),
            Ok(_) => {}
            Err(full) => return full.read_part(part, pairs),
        }
        false
    }

    #[cfg(feature = "rayon")]
    fn split<'t>(iter: &mut Pairs<T::Iter<'t>>) -> Option<Pairs<T::Iter<'t>>>
    where
        Self: 't,
    {
        match iter {
            Pairs::Small(_) => None,
            Pairs::Full(iter) => T::split(iter).map(Pairs::Full),
        }
    }

    fn for_each_left(&mut self, each: impl FnMut(u64)) {
        match self.copy() {
            Ok(pairs) => pairs.map(|(_, second)| second).for_each(each),
            Err(_) => {
                let full = self.full.load(Ordering::Relaxed);
                // SAFETY: invariant 2, and `&mut self` proves that no other thread uses it.
                if let Some(full) = unsafe { full.as_mut() } {
                    full.for_each_left(each);
                }
            }
        }
    }
}

impl<T: Full> Snapshots for Growing<T> {
    type Snapshot = Pairs<T::Snapshot>;

    fn snapshot(&self) -> Result<Pairs<T::Snapshot>, Error> {
        match self.copy() {
            Ok(pairs) => Ok(Pairs::Small(pairs)),
            Err(full) => full.snapshot().map(Pairs::Full),
        }
    }
}

impl<T: Full> Resizing for Growing<T> {
    fn reserve(&self, additional: usize) -> Result<(), Error> {
        if self.full().is_none() && self.len().saturating_add(additional) <= SMALL {
            return Ok(());
        }
        self.grow()?.reserve(additional)
    }

    /// A full table does not become small again.
    fn shrink_to_fit(&self) -> Result<(), Error> {
        self.full().map_or(Ok(()), Resizing::shrink_to_fit)
    }
}

impl<T: Full> Figures for Growing<T> {
    type Stats = T::Stats;

    fn len(&self) -> usize {
        // A concurrent count may include a removal without its insert.
        self.registry.added().cast_signed().max(0) as usize
    }

    fn load_factor(&self) -> f64 {
        let small = || self.len() as f64 / self.small.slot_count().max(1) as f64;
        self.full().map_or_else(small, Figures::load_factor)
    }

    fn memory_usage(&self) -> MemoryUsage {
        let own = MemoryUsage::allocated(self.small.bytes() + self.registry.bytes());
        self.full().map_or(own, |full| full.memory_usage() + own)
    }

    fn stats(&self) -> T::Stats {
        let small = || T::small_stats(&self.config, self.len(), self.small.slot_count());
        self.full().map_or_else(small, Figures::stats)
    }
}

impl<T: Full> Guards for Growing<T> {
    fn registry(&self) -> &Registry {
        &self.registry
    }

    fn free_retired(&self) {
        if let Some(full) = self.full() {
            full.free_retired();
        }
    }
}
