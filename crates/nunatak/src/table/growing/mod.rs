//! Tables in RAM that begin small: a few pairs in ordinary memory, until there are more.
//!
//! IcebergHT, Pea Hash and TurboHash reserve addresses for all that they may become, so each has
//! mappings of its own, and the system bounds the number of mappings of a process. A [`Growing`]
//! table keeps its first pairs in [slots](small) that a lookup goes through. It makes the *full*
//! table when there are more pairs than these slots hold, or when the caller names a capacity.
//!
//! # The protocol
//! - *Lookups* load the pointer to the full table. If it is null they go through the slots. The
//!   slots stay as they are once the full table is published; so a lookup that found the pointer
//!   null sees the key as it was at some instant of the lookup, whenever the table grows. A lookup
//!   writes nothing.
//! - *Changes* lock the slots, and load the pointer again under the lock: a change to the slots is
//!   good only if it is null.
//! - *Growth* copies the pairs under the lock, stores them in a new full table while nothing is held
//!   (the caller's hasher may run), and publishes the table under the lock, if there was no change
//!   since the copy. From the first failed insert on changes help to grow the table, instead of
//!   changing the slots. So the copy is out of date only if another thread was refused memory
//!   meanwhile, and went on in the slots.
//!
//! # Invariants
//! 1. The invariants of [`small`].
//! 2. The pointer to the full table is null, or came from a box and stays until the table is
//!    dropped. It changes once, under the lock of the slots.
//! 3. When the pointer is published, the full table holds the pairs of the slots. Slots change only
//!    under the lock while the pointer is null.
//! 4. The full table has the registry of the small one. So guards and counts stay.
//! 5. No code of the caller's runs under the lock, except for `change`, which is ours.

mod many;
mod small;
mod stages;

use crate::error::Error;
use crate::hash::HashCodec;
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicPtr, Mutex, Ordering, Registry, Shared, double_word_cas_is_lock_free};
use crate::table::shared::memoised_key_test::KeyTestAnswers;
use crate::table::stages::{Batches, Changes, Figures, Guards, Iteration, Lookups};
use crate::table::stages::{Resizing, Snapshots};
use crate::table::{ByEntry, Change, KeyTest};
use core::marker::PhantomData;
use core::ptr;
use small::{Changing, Small};
use std::sync::Arc;

/// The most pairs that a table is built small for.
pub(super) const SMALL: usize = if cfg!(modelled) { 1 } else { 32 };

/// A table that a [`Growing`] one grows to.
pub trait Full:
    Lookups + Changes + Batches + Iteration + Snapshots + Resizing + Figures + Guards + Send + Sized
{
    /// From a word to its place.
    type Codec: HashCodec + Clone;

    /// The constants that the paper varies.
    type Config: Clone + core::fmt::Debug;

    /// Returns an error if a constant is out of its range.
    fn check(config: &Self::Config) -> Result<(), Error>;

    /// Whether a table of these constants does not grow: then it is full from the start.
    fn is_fixed(config: &Self::Config) -> bool;

    /// Makes a table.
    fn make(codec: Self::Codec, config: Self::Config, capacity: usize) -> Result<Self, Error>;

    /// The table's registry.
    fn shared_registry(&mut self) -> &mut Arc<Registry>;

    /// Returns the figures of so many pairs in so many slots that are not of this table.
    fn small_stats(config: &Self::Config, len: usize, slots: usize) -> Self::Stats;
}

/// A table that begins small, and becomes a `T`.
#[derive(Debug)]
pub struct Growing<T: Full> {
    full: AtomicPtr<T>,
    registry: Arc<Registry>,
    small: Small,
    codec: T::Codec,
    config: T::Config,
    /// Stores a pair in a full table that no other thread knows.
    store: fn(&T, (u64, u64)),
    /// The thread that makes the full table holds this lock, if the caller's code can't run
    /// meanwhile. So other threads do not make tables in vain.
    making: Mutex<()>,
    owned: PhantomData<T>,
}

/// The table of a map in RAM. Models of the full tables begin with these.
#[cfg(not(modelled))]
pub(crate) type Grown<T> = Growing<T>;
#[cfg(modelled)]
pub(crate) type Grown<T> = T;

/// Makes the table of a map in RAM.
pub(crate) fn build<T: Full>(
    codec: T::Codec,
    config: T::Config,
    capacity: usize,
) -> Result<Grown<T>, Error> {
    build_with(codec, config, capacity, store_unique)
}

/// Stores a pair. Keys of the same word are told apart already.
fn store_unique<T: Full>(table: &T, (word, second): (u64, u64)) {
    table.apply(word, &ByEntry(|_| false), Some(second), Change::keep);
}

/// Makes the table of a map in RAM, which stores its first pairs by `store` when it is full.
pub(crate) fn build_with<T: Full>(
    codec: T::Codec,
    config: T::Config,
    capacity: usize,
    store: fn(&T, (u64, u64)),
) -> Result<Grown<T>, Error> {
    #[cfg(modelled)]
    {
        let _ = store;
        T::make(codec, config, capacity)
    }
    #[cfg(not(modelled))]
    Growing::make(codec, config, capacity, store)
}

impl<T: Full> Growing<T> {
    /// Makes a table of unique keys.
    #[cfg(modelled)]
    pub(crate) fn with(codec: T::Codec, config: T::Config, capacity: usize) -> Result<Self, Error> {
        Self::make(codec, config, capacity, store_unique)
    }

    pub(crate) fn make(
        codec: T::Codec,
        config: T::Config,
        capacity: usize,
        store: fn(&T, (u64, u64)),
    ) -> Result<Self, Error> {
        if !double_word_cas_is_lock_free() {
            return Err(Error::NoDoubleWordCas);
        }
        T::check(&config)?;
        let mut full = ptr::null_mut();
        let mut registry = None;
        if capacity > SMALL || T::is_fixed(&config) {
            let mut table = T::make(codec.clone(), config.clone(), capacity)?;
            registry = Some(Arc::clone(table.shared_registry()));
            full = Box::into_raw(Box::new(table));
        }
        Ok(Self {
            full: AtomicPtr::new(full),
            registry: registry.unwrap_or_else(|| Arc::new(Registry::new())),
            small: Small::new(),
            codec,
            config,
            store,
            making: Mutex::new(()),
            owned: PhantomData,
        })
    }

    /// Returns the full table, if there is one.
    #[inline(always)]
    pub(crate) fn full(&self) -> Option<&T> {
        // Acquire: pairs with the release that publishes the table.
        let full = self.full.load(Ordering::Acquire);
        // SAFETY: invariant 2: null, or it came from a box and lives as long as `self`.
        unsafe { full.as_ref() }
    }

    /// Returns the number of a key's slot while the table is small.
    #[cfg(not(modelled))]
    pub(super) fn slot_in_small<K: KeyTest>(&self, word: u64, test: &K) -> Option<usize> {
        self.small.find(word, |second| test.accepts(second)).map(|(number, _)| number)
    }

    /// Returns the pair in a slot while the table is small.
    #[cfg(not(modelled))]
    pub(super) fn pair_in_small(&self, number: usize) -> Option<(u64, u64)> {
        self.small.pair(number)
    }

    /// Looks a key up in the slots. The pointer to the full table was null within the operation.
    #[inline(never)]
    pub(super) fn find_in_small<K: KeyTest>(&self, word: u64, test: &K) -> Option<u64> {
        self.small.find(word, |second| test.accepts(second)).map(|(_, second)| second)
    }

    /// Applies a change to a key while the table is small, or returns the full table.
    #[cold]
    #[inline(never)]
    pub(super) fn apply_in_small<K: KeyTest>(
        &self,
        word: u64,
        test: &K,
        fresh: Option<u64>,
        change: &impl Fn(u64) -> Change,
    ) -> Result<Option<u64>, &T> {
        let (mut known, mut is_refused) = (KeyTestAnswers::default(), false);
        loop {
            let mut held = self.small.lock();
            if let Some(full) = self.full()
                && !seeded(Bug::SmallChangedAfterGrowth)
            {
                return Err(full);
            }
            if !held.must_grow || is_refused {
                match self.attempt((word, test), &known, fresh, change, &mut held) {
                    Ok(Some((before, added))) => {
                        drop(held);
                        if added != 0 {
                            self.registry.count::<Shared>(added);
                        }
                        return Ok(before);
                    }
                    // As in a full table, memory that is refused fails no insert.
                    Ok(None) if is_refused || held.slots < SMALL => {
                        self.small.add_block(&mut held);
                        continue;
                    }
                    Ok(None) => {}
                    Err(unknown) => {
                        drop(held);
                        known.insert(unknown, test.accepts(unknown));
                        continue;
                    }
                }
            }
            drop(held);
            is_refused = self.grow().is_err();
        }
    }

    /// Tries to apply a change to the slots. Returns nothing if there is no room, and fails with a
    /// value word of which it is unknown whether it is the key's.
    #[allow(clippy::type_complexity, reason = "what was there, and how many pairs were added")]
    fn attempt<K: KeyTest>(
        &self,
        (word, test): (u64, &K),
        known: &KeyTestAnswers,
        fresh: Option<u64>,
        change: &impl Fn(u64) -> Change,
        held: &mut Changing,
    ) -> Result<Option<(Option<u64>, i64)>, u64> {
        let is = |second| match K::RUNS_CALLERS_CODE {
            true => known.is::<K>(second),
            false => Some(test.accepts(second)),
        };
        // An unknown value word ends the search, too.
        match self.small.find(word, |second| is(second) != Some(false)) {
            Some((_, second)) if is(second).is_none() => Err(second),
            Some((number, second)) => {
                let added = match change(second) {
                    Change::Keep => 0,
                    Change::To(new) => {
                        self.small.replace(held, number, new);
                        0
                    }
                    Change::Remove => {
                        self.small.remove(held, number);
                        -1
                    }
                };
                Ok(Some((Some(second), added)))
            }
            None => match fresh {
                None => Ok(Some((None, 0))),
                Some(fresh) if self.small.insert(held, (word, fresh)) => Ok(Some((None, 1))),
                Some(_) => Ok(None),
            },
        }
    }

    /// Returns the full table, and makes it first if there is none.
    ///
    /// # Errors
    /// If the system refuses memory.
    #[cold]
    fn grow(&self) -> Result<&T, Error> {
        let _making = (!T::Codec::runs_callers_code()).then(|| self.making.lock());
        loop {
            let (pairs, changes) = {
                let mut held = self.small.lock();
                if let Some(full) = self.full() {
                    return Ok(full);
                }
                held.must_grow = true;
                (self.small.pairs(&held), self.small.changes(&held))
            };
            let made = self.make_full(&pairs);
            let mut held = self.small.lock();
            if let Some(full) = self.full() {
                // Not under the lock: dropping a table gives memory back to the system.
                drop(held);
                drop(made);
                return Ok(full);
            }
            let is_copy = self.small.changes(&held) == changes || seeded(Bug::GrownFromStaleCopy);
            match made {
                Ok(table) if is_copy => {
                    let full = Box::into_raw(table);
                    let order = match seeded(Bug::GrownTablePublishedRelaxed) {
                        true => Ordering::Relaxed,
                        false => Ordering::Release,
                    };
                    // Release: a thread that finds the table finds it whole.
                    self.full.store(full, order);
                    // SAFETY: invariant 2: it is not freed before `self`.
                    return Ok(unsafe { &*full });
                }
                Ok(table) => {
                    drop(held);
                    drop(table);
                }
                Err(error) => {
                    held.must_grow = false;
                    return Err(error);
                }
            }
        }
    }

    /// Makes a full table of these pairs. Runs the caller's hasher.
    fn make_full(&self, pairs: &[(u64, u64)]) -> Result<Box<T>, Error> {
        let mut table = Box::new(T::make(self.codec.clone(), self.config.clone(), 0)?);
        pairs.iter().for_each(|&pair| (self.store)(&table, pair));
        // The pairs were counted when they were inserted; the table has counted them in its own
        // registry, which goes.
        *table.shared_registry() = Arc::clone(&self.registry);
        Ok(table)
    }
}

impl<T: Full> Drop for Growing<T> {
    fn drop(&mut self) {
        let full = self.full.load(Ordering::Relaxed);
        if !full.is_null() {
            // SAFETY: invariant 2: it came from a box, and `&mut self` proves that no thread uses
            // it.
            drop(unsafe { Box::from_raw(full) });
        }
    }
}
