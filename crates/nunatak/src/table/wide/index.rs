//! An index of wide entries: the bins of one generation, and the bins behind their links.
//!
//! Invariants
//! 1. The migration pointer is null, [`STARTING`], or came from a box. Only the thread that claimed the
//!    migration replaces `STARTING`. A published migration stays until the index is dropped.
//! 2. A link is set once, by the thread that holds the bin, to a bin that no other link leads to. It stays
//!    until the index is dropped. So a chain has an end, whatever a reader sees of it.
//! 3. A piece of the memory behind links is published once and stays until the index is dropped.

use super::Config;
use super::layout::{Bin, LINE_WORDS, Matcher, Shape, Sought, Word, Words};
use crate::error::Error;
use crate::memory::{MemoryUsage, Slab};
use crate::sync::{AtomicPtr, AtomicUsize, Looks, Mutex, Ordering};
use crate::table::dlht::migration::Migration;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr;
use std::sync::Arc;

/// Pieces of the memory behind links: each is as large as all before it.
const PIECES: usize = 40;

/// The migration pointer while a thread prepares the migration, or takes a cut.
const STARTING: *mut () = ptr::without_provenance_mut(1);

#[derive(Debug)]
pub(super) struct Index<S: Shape> {
    words: Slab<Word>,
    bins: usize,
    pub(super) matcher: Matcher,
    /// How often threads look whether a table that grows by its load is full.
    pub(super) looks: Looks,
    /// The numbers of bins behind links that are taken, a power of two of them.
    linked: Box<[Linked]>,
    /// The number that there are.
    linkable: AtomicUsize,
    /// The number that was taken when this index became the root.
    linked_at_birth: AtomicUsize,
    first_piece: usize,
    pieces: [AtomicPtr<Slab<Word>>; PIECES],
    adding: Mutex<()>,
    migration: AtomicPtr<()>,
    shape: PhantomData<(S, Migration<Index<S>>)>,
}

/// How many bins behind links are taken of those whose numbers have the same remainder. Inserts store to this, one of five
/// in a full index; what all operations load is in other lines. (Processors fetch lines in pairs.)
#[derive(Debug, Default)]
#[repr(align(128))]
struct Linked(AtomicUsize);

/// From twice so many bins behind links on there are several numbers of those that are taken.
const LINKS_OF_NUMBER: usize = 256;
const MOST_NUMBERS: usize = 16;

/// The state of an index's migration.
pub(super) enum Migrating<'i, S: Shape> {
    No,
    Starting,
    To(&'i Migration<Index<S>>),
}

impl<S: Shape> Index<S> {
    /// Makes an index of so many bins.
    pub(super) fn new(bins: usize, config: &Config) -> Result<Self, Error> {
        let words = bins.checked_mul(S::FIRST.stride).ok_or(Error::CapacityOverflow)?;
        let links = ((bins as f64 * config.links) as usize).max(2);
        // Links that say when the index grows have a number that varies little with the bins' own.
        let first_piece = if S::GROWS_BY_LOAD { links } else { links.next_power_of_two() };
        let numbers = (first_piece / LINKS_OF_NUMBER).clamp(1, MOST_NUMBERS);
        let numbers = 1 << numbers.ilog2();
        let index = Self {
            words: Slab::new(words)?,
            bins,
            matcher: Matcher::detect(),
            looks: Looks::new(32),
            linked: (0..numbers).map(|_| Linked::default()).collect(),
            linkable: AtomicUsize::new(0),
            linked_at_birth: AtomicUsize::new(0),
            first_piece,
            pieces: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            adding: Mutex::new(()),
            migration: AtomicPtr::new(ptr::null_mut()),
            shape: PhantomData,
        };
        index.add_piece(0)?;
        Ok(index)
    }

    pub(super) fn bins(&self) -> usize {
        self.bins
    }

    #[inline(always)]
    pub(super) fn bin(&self, number: usize) -> Bin<'_, S> {
        Bin::first(&self.words, number)
    }

    /// Makes bins resident, if the system can.
    pub(super) fn populate(&self, bins: Range<usize>) {
        let stride = S::FIRST.stride;
        self.words.populate(bins.start * stride..bins.end * stride);
    }

    #[inline(always)]
    pub(super) fn sought<'k>(&self, hash: u64, key: &'k Words) -> Sought<'k> {
        Sought { key, hash, matcher: self.matcher }
    }

    /// Returns the number of a hash's bin.
    #[inline(always)]
    pub(super) fn place(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.bins as u128) >> 64) as usize
    }

    /// Returns the bin behind a link, if there is one.
    #[inline(always)]
    pub(super) fn behind(&self, bin: Bin<'_, S>) -> Option<Bin<'_, S>> {
        let number = S::link(bin).checked_sub(1)?;
        let (piece, within) = self.piece_of(number);
        // Acquire: pairs with the release in `add_piece`.
        let words = self.pieces[piece].load(Ordering::Acquire);
        // SAFETY: invariant 3: a number below the number of taken bins lies in a published piece.
        Some(Bin::behind(unsafe { &*words }, within))
    }

    /// Returns the piece of a bin behind a link, and the bin's place in it.
    fn piece_of(&self, number: usize) -> (usize, usize) {
        let Some(times) = (number / self.first_piece).checked_ilog2() else { return (0, number) };
        (times as usize + 1, number - (self.first_piece << times))
    }

    fn add_piece(&self, piece: usize) -> Result<(), Error> {
        let bins = match piece {
            0 => self.first_piece,
            _ => self.first_piece.checked_shl(piece as u32 - 1).ok_or(Error::CapacityOverflow)?,
        };
        // Relaxed: additions come one after the other.
        if bins > S::MOST_LINKS - self.linkable.load(Ordering::Relaxed) {
            return Err(Error::CapacityOverflow);
        }
        let words = bins.checked_mul(S::BEHIND.stride).ok_or(Error::CapacityOverflow)?;
        let slab = Box::into_raw(Box::new(Slab::new(words)?));
        // Release: whoever finds the pointer finds the piece.
        self.pieces[piece].store(slab, Ordering::Release);
        // Release: whoever finds the number finds the pointer.
        self.linkable.fetch_add(bins, Ordering::Release);
        Ok(())
    }

    /// Sets the link of a bin that this thread holds to a new bin; `None` if none is left.
    pub(super) fn link(&self, bin: Bin<'_, S>) -> Option<Bin<'_, S>> {
        // Each bin begins at a remainder of its own, so threads seldom meet.
        let mask = self.linked.len() - 1;
        let own = (bin.address().addr() / size_of::<[Word; LINE_WORDS]>()) & mask;
        let other = || (1..=mask).find_map(|i| self.take((own + i) & mask));
        let number = self.take(own).or_else(other)?;
        S::set_link(bin, number + 1);
        self.behind(bin)
    }

    /// Takes a bin whose number has this remainder.
    #[inline]
    fn take(&self, remainder: usize) -> Option<usize> {
        let linked = &self.linked[remainder].0;
        let mut taken = linked.load(Ordering::Relaxed);
        loop {
            let number = taken * self.linked.len() + remainder;
            // Acquire: pairs with the release in `add_piece`.
            if number >= self.linkable.load(Ordering::Acquire) {
                return None;
            }
            // Relaxed: the number only divides the bins among threads.
            match linked.compare_exchange_weak(
                taken,
                taken + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(number),
                Err(newer) => taken = newer,
            }
        }
    }

    /// Makes as many bins for links again as there are.
    #[cold]
    pub(super) fn add_links(&self) -> Result<(), Error> {
        let _adding = self.adding.lock();
        // Relaxed, here and below: the lock orders additions; a link that is taken meanwhile is asked for again.
        if self.linked() < self.linkable.load(Ordering::Relaxed) {
            return Ok(());
        }
        let added = self.pieces.iter().position(|piece| piece.load(Ordering::Relaxed).is_null());
        self.add_piece(added.ok_or(Error::CapacityOverflow)?)
    }

    /// Notes how many bins for links the transfer to this index has taken.
    pub(super) fn note_birth(&self) {
        // Relaxed, here and below: it only decides between ways to make room.
        self.linked_at_birth.store(self.linked(), Ordering::Relaxed);
    }

    /// Whether a copy has free bins for links: at most half of them were taken at birth.
    pub(super) fn links_suffice_after_copy(&self) -> bool {
        let linkable = self.linkable.load(Ordering::Relaxed);
        2 * self.linked_at_birth.load(Ordering::Relaxed) <= linkable
    }

    pub(super) fn slots(&self) -> usize {
        self.bins * S::FIRST.slots + self.linkable.load(Ordering::Relaxed) * S::BEHIND.slots
    }

    /// Returns how many bins behind links are taken.
    pub(super) fn linked(&self) -> usize {
        self.linked.iter().map(|linked| linked.0.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        let pieces = self.pieces.iter().map(|piece| piece.load(Ordering::Acquire));
        pieces
            .filter(|piece| !piece.is_null())
            // SAFETY: invariant 3.
            .map(|piece| unsafe { &*piece }.usage())
            .fold(self.words.usage(), |sum, usage| sum + usage)
    }

    pub(super) fn migration(&self) -> Migrating<'_, S> {
        // Acquire: pairs with the release in `set_migration`.
        let migration = self.migration.load(Ordering::Acquire);
        if migration.is_null() {
            Migrating::No
        } else if migration == STARTING {
            Migrating::Starting
        } else {
            // SAFETY: invariant 1: the pointer came from a box of this type, and lives as long as this index.
            Migrating::To(unsafe { &*migration.cast::<Migration<Self>>() })
        }
    }

    /// Claims the right to start the migration. Returns false if another thread has it.
    pub(super) fn claim_migration(&self) -> bool {
        // Acquire: a cut begins behind the one before.
        self.migration
            .compare_exchange(ptr::null_mut(), STARTING, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Publishes the migration, or takes the claim back.
    pub(super) fn set_migration(&self, migration: Option<Migration<Self>>) {
        let migration =
            migration.map_or(ptr::null_mut(), |migration| Box::into_raw(Box::new(migration)));
        // Release: a thread that finds the migration finds the new index initialised.
        self.migration.store(migration.cast(), Ordering::Release);
    }

    /// Returns the index that this one migrates to.
    pub(super) fn target(&self) -> Option<&Arc<Self>> {
        match self.migration() {
            Migrating::To(migration) => Some(&migration.target),
            _ => None,
        }
    }
}

impl<S: Shape> Drop for Index<S> {
    fn drop(&mut self) {
        for piece in &self.pieces {
            // Relaxed, here and below: `&mut self`.
            let piece = piece.load(Ordering::Relaxed);
            if !piece.is_null() {
                // SAFETY: invariant 3: it came from a box. `&mut self` proves that no other thread uses it.
                drop(unsafe { Box::from_raw(piece) });
            }
        }
        let migration = self.migration.load(Ordering::Relaxed);
        if !migration.is_null() && migration != STARTING {
            // SAFETY: invariant 1; `&mut self` as above.
            drop(unsafe { Box::from_raw(migration.cast::<Migration<Self>>()) });
        }
    }
}
