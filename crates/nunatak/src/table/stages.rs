//! The operations of a table, in stages. A table implements each stage in the file that has its
//! code.
//!
//! The maps use one trait, [`PairTable`], which every type with all stages implements.

use super::{ByWord, Change, KeyTest, PairTable, Shadowed};
use crate::error::Error;
use crate::memory::MemoryUsage;
use crate::sync::{GuardPin, Registry};

/// Finds single keys.
pub trait Lookups {
    /// Returns the value word of a key.
    fn find<T: KeyTest>(&self, word: u64, test: &T) -> Option<u64>;

    /// Returns the value word of a key, under a guard of the table's registry. The guard keeps the
    /// memory that the lookup reads, as an announcement does. (The test is taken by value: a lookup
    /// that ends in the first bucket then needs no memory for it.)
    #[inline(always)]
    fn find_guarded<T: KeyTest + Copy>(
        &self,
        _guard: &GuardPin<'_>,
        word: u64,
        test: T,
    ) -> Option<u64> {
        self.find(word, &test)
    }

    /// Prefetches the line that an operation on a word reads first.
    fn prefetch(&self, word: u64);
}

/// Changes single keys.
pub trait Changes {
    /// Changes a key by its value word, or inserts it. Returns the value word that was present when
    /// the operation took effect. `change` must depend on its argument only; it may be called more
    /// than once.
    fn apply<T: KeyTest>(
        &self,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64>;

    /// As [`apply`](Self::apply), in a table whose keys may be hidden. Fails only if the change
    /// would insert a key that is hidden.
    fn apply_unless_shadowed<T: KeyTest>(
        &self,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Result<Option<u64>, Shadowed> {
        Ok(self.apply(word, test, fresh, change))
    }

    /// As [`apply`](Self::apply), under a guard of the table's registry, which knows what a thread looks up for each
    /// change.
    #[inline(always)]
    fn apply_guarded<T: KeyTest>(
        &self,
        _guard: &GuardPin<'_>,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64> {
        self.apply(word, test, fresh, change)
    }

    /// Removes a key that is its word, whatever its value is. Returns the value word.
    #[inline(always)]
    fn remove(&self, word: u64) -> Option<u64> {
        self.apply(word, &ByWord, None, |_| Change::Remove)
    }

    /// As [`remove`](Self::remove), under a guard as [`apply_guarded`](Self::apply_guarded).
    #[inline(always)]
    fn remove_guarded(&self, _guard: &GuardPin<'_>, word: u64) -> Option<u64> {
        self.remove(word)
    }
}

/// Finds and changes many keys, whose cache misses overlap.
pub trait Batches {
    /// Looks up many keys, in order.
    fn find_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        found: impl FnMut(usize, Option<u64>),
    );

    /// Applies many changes, in order. Each operation has a value word to insert if its key is
    /// absent, and a change for a present key. `done` may end the batch by returning false.
    fn apply_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        fresh: impl Fn(usize) -> Option<u64>,
        change: impl Fn(usize, u64) -> Change,
        done: impl FnMut(usize, Option<u64>) -> bool,
    );

    /// Removes many keys that are their words, in order, whatever their values are.
    #[inline(always)]
    fn remove_many(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        mut removed: impl FnMut(usize, Option<u64>),
    ) {
        let done = |at, before| {
            removed(at, before);
            true
        };
        self.apply_many(count, word, |_| ByWord, |_| None, |_, _| Change::Remove, done);
    }
}

/// Yields all pairs while other threads change them.
pub trait Iteration: Sized {
    /// Yields every pair once that is present throughout, and other pairs at most once.
    type Iter<'t>: Iterator<Item = (u64, u64)>
    where
        Self: 't;

    /// Returns a weakly consistent iterator over all pairs.
    fn iter(&self) -> Self::Iter<'_>;

    /// Copies the pairs of one part of the table, and returns whether there are parts behind it. A
    /// key stays in its part. A table that has no parts is one.
    fn read_part(&self, part: usize, pairs: &mut Vec<(u64, u64)>) -> bool {
        if part == 0 {
            pairs.extend(self.iter());
        }
        false
    }

    /// Splits a part off from an iterator, which yields the rest then; `None` if it is too small.
    /// Both together yield what the iterator would have yielded. Only the first has pairs that were
    /// read already.
    #[cfg(feature = "rayon")]
    fn split<'t>(_iter: &mut Self::Iter<'t>) -> Option<Self::Iter<'t>>
    where
        Self: 't,
    {
        None
    }

    /// Passes every value word to `each`, in a table that no other thread uses any more. Runs the
    /// caller's hasher only where a table cannot avoid it.
    fn for_each_left(&mut self, each: impl FnMut(u64)) {
        self.iter().map(|(_, value_word)| value_word).for_each(each);
    }
}

/// Copies all pairs as of one moment.
pub trait Snapshots {
    /// Yields the pairs of a cut.
    type Snapshot: Iterator<Item = (u64, u64)> + 'static;

    /// Takes a consistent cut of all pairs.
    fn snapshot(&self) -> Result<Self::Snapshot, Error>;
}

/// Grows and shrinks the table at the caller's request.
pub trait Resizing {
    fn reserve(&self, additional: usize) -> Result<(), Error>;

    fn shrink_to_fit(&self) -> Result<(), Error>;
}

/// Reports how large and how full the table is.
pub trait Figures {
    /// The quantities that the table's paper reports.
    type Stats: core::fmt::Debug + Clone;

    fn len(&self) -> usize;

    /// Returns the share of the slots that hold a pair.
    fn load_factor(&self) -> f64;

    fn memory_usage(&self) -> MemoryUsage;

    fn stats(&self) -> Self::Stats;
}

/// Keeps memory that a reader may still use.
pub trait Guards {
    /// Returns the registry of the guards that protect the entries behind value words.
    fn registry(&self) -> &Registry;

    /// Frees the table's own memory that no thread can reach any more.
    fn free_retired(&self) {}
}

/// Forwards to the stages, so that callers need one trait in scope.
impl<T> PairTable for T
where
    T: Lookups + Changes + Batches + Iteration + Snapshots + Resizing + Figures + Guards + Send,
{
    type Stats = <T as Figures>::Stats;
    type Iter<'t>
        = <T as Iteration>::Iter<'t>
    where
        Self: 't;
    type Snapshot = <T as Snapshots>::Snapshot;

    #[inline(always)]
    fn find<K: KeyTest>(&self, word: u64, test: &K) -> Option<u64> {
        Lookups::find(self, word, test)
    }

    #[inline(always)]
    fn find_guarded<K: KeyTest + Copy>(
        &self,
        guard: &GuardPin<'_>,
        word: u64,
        test: K,
    ) -> Option<u64> {
        Lookups::find_guarded(self, guard, word, test)
    }

    #[inline(always)]
    fn apply<K: KeyTest>(
        &self,
        word: u64,
        test: &K,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64> {
        Changes::apply(self, word, test, fresh, change)
    }

    #[inline(always)]
    fn apply_unless_shadowed<K: KeyTest>(
        &self,
        word: u64,
        test: &K,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Result<Option<u64>, Shadowed> {
        Changes::apply_unless_shadowed(self, word, test, fresh, change)
    }

    #[inline(always)]
    fn apply_guarded<K: KeyTest>(
        &self,
        guard: &GuardPin<'_>,
        word: u64,
        test: &K,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64> {
        Changes::apply_guarded(self, guard, word, test, fresh, change)
    }

    #[inline(always)]
    fn remove(&self, word: u64) -> Option<u64> {
        Changes::remove(self, word)
    }

    #[inline(always)]
    fn remove_guarded(&self, guard: &GuardPin<'_>, word: u64) -> Option<u64> {
        Changes::remove_guarded(self, guard, word)
    }

    #[inline(always)]
    fn find_many<K: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> K,
        found: impl FnMut(usize, Option<u64>),
    ) {
        Batches::find_many(self, count, word, test, found);
    }

    #[inline(always)]
    fn apply_many<K: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> K,
        fresh: impl Fn(usize) -> Option<u64>,
        change: impl Fn(usize, u64) -> Change,
        done: impl FnMut(usize, Option<u64>) -> bool,
    ) {
        Batches::apply_many(self, count, word, test, fresh, change, done);
    }

    #[inline(always)]
    fn remove_many(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        removed: impl FnMut(usize, Option<u64>),
    ) {
        Batches::remove_many(self, count, word, removed);
    }

    #[inline(always)]
    fn prefetch(&self, word: u64) {
        Lookups::prefetch(self, word);
    }

    fn iter(&self) -> <T as Iteration>::Iter<'_> {
        Iteration::iter(self)
    }

    fn read_part(&self, part: usize, pairs: &mut Vec<(u64, u64)>) -> bool {
        Iteration::read_part(self, part, pairs)
    }

    #[cfg(feature = "rayon")]
    fn split<'t>(iter: &mut <T as Iteration>::Iter<'t>) -> Option<<T as Iteration>::Iter<'t>>
    where
        Self: 't,
    {
        <T as Iteration>::split(iter)
    }

    fn for_each_left(&mut self, each: impl FnMut(u64)) {
        Iteration::for_each_left(self, each);
    }

    fn snapshot(&self) -> Result<<T as Snapshots>::Snapshot, Error> {
        Snapshots::snapshot(self)
    }

    fn registry(&self) -> &Registry {
        Guards::registry(self)
    }

    fn free_retired(&self) {
        Guards::free_retired(self);
    }

    fn len(&self) -> usize {
        Figures::len(self)
    }

    fn reserve(&self, additional: usize) -> Result<(), Error> {
        Resizing::reserve(self, additional)
    }

    fn shrink_to_fit(&self) -> Result<(), Error> {
        Resizing::shrink_to_fit(self)
    }

    fn load_factor(&self) -> f64 {
        Figures::load_factor(self)
    }

    fn memory_usage(&self) -> MemoryUsage {
        Figures::memory_usage(self)
    }

    fn stats(&self) -> <T as Figures>::Stats {
        Figures::stats(self)
    }
}
