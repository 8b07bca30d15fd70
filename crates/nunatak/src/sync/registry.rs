//! Which threads hold entries of a map, and how many entries each thread has added.
//!
//! A map has a record for each thread that ever changed it or held a guard. A guard costs a plain
//! store to the thread's own cache line.
//!
//! Invariants
//! 1. Only the thread with the record's number writes to a record, and a thread keeps its number
//!    for as long as it has a guard (see [`thread_index`]).
//! 2. The 14 lowest bits of a guard word count the thread's guards, as far as they fit. Further
//!    guards are counted beside the word, and the 15th bit says that there are some. The 16th bit
//!    is set if guards need a fence here. If there are guards, the bits from the 17th on are the
//!    epoch at the time of the first.
//! 3. A guard sees everything that was unlinked before its epoch began: the load of the epoch
//!    acquires, the increment releases.
//! 4. An entry is unlinked, and later tagged with the epoch of that moment. To free it, a thread
//!    ends an epoch that is not before the tag, runs the heavy barrier, and looks at all guard
//!    words. It may free the entry if the tag is not after the epoch that it has ended itself, and
//!    no word has guards of the tag's epoch or of an earlier one. A guard that the look missed
//!    reads slots after the barrier, so after the unlinking. An entry with a later tag may have
//!    been unlinked after the look, even if another thread began that later epoch.

use super::thread_index::{self, Hold};
use super::{AtomicPtr, AtomicU64, Mode, Ordering, barrier};
use crate::seeded::{Bug, seeded};
use core::ptr;

/// The number of guards that a word can count.
const NESTING: u64 = (1 << 14) - 1;
/// Set if there are more guards than the word counts.
const DEEP: u64 = 1 << 14;
/// Set if the processor needs a fence after an announcement ([`barrier`]).
const FENCED: u64 = 1 << 15;
/// The step from one epoch to the next.
pub(super) const EPOCH: u64 = 1 << 16;
/// Records come in blocks of 8, 16, 32, …; no machine has 2^30 threads.
/// (Models have few threads, and look at each record.)
const FIRST_BLOCK: usize = if cfg!(modelled) { 4 } else { 8 };
const BLOCKS: usize = 27;

/// A thread's state in one map. Two cache lines apart from the next record, since processors fetch
/// lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Record {
    guard: AtomicU64,
    /// The number of guards that the word does not count.
    deep: AtomicU64,
    /// Entries that this thread's operations have added, minus entries that they removed, modulo
    /// 2^64.
    added: AtomicU64,
    /// The same, of entries that are hidden.
    hidden: AtomicU64,
}

impl Record {
    fn new() -> Self {
        let rest = if barrier::is_asymmetric() { 0 } else { FENCED };
        Self {
            guard: AtomicU64::new(rest),
            deep: AtomicU64::new(0),
            added: AtomicU64::new(0),
            hidden: AtomicU64::new(0),
        }
    }
}

/// Where an operation counts the entries that it adds or removes.
pub(crate) trait EntryCounts {
    /// Counts entries that this thread has added or removed.
    fn count<Y: Mode>(&self, added: i64);
}

impl EntryCounts for Registry {
    #[inline(always)]
    fn count<Y: Mode>(&self, added: i64) {
        Registry::count::<Y>(self, added);
    }
}

/// Knows the thread's record already.
impl EntryCounts for GuardPin<'_> {
    #[inline(always)]
    fn count<Y: Mode>(&self, added: i64) {
        self.record.count(added);
    }
}

impl Record {
    #[inline(always)]
    fn count(&self, added: i64) -> u64 {
        // A plain addition: invariant 1.
        let sum = self.added.load(Ordering::Relaxed).wrapping_add_signed(added);
        self.added.store(sum, Ordering::Relaxed);
        sum
    }
}

/// All records of a map.
#[derive(Debug)]
pub struct Registry {
    /// The epoch, as the word of one guard: an announcement copies it.
    pub(super) epoch: AtomicU64,
    blocks: [AtomicPtr<Record>; BLOCKS],
}

impl Registry {
    pub(crate) fn new() -> Self {
        let registry = Self {
            epoch: AtomicU64::new(EPOCH | 1),
            blocks: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        };
        registry.add_block(0);
        registry
    }

    /// Counts entries that this thread has added or removed, and returns its sum.
    #[inline(always)]
    pub(crate) fn count<Y: Mode>(&self, added: i64) -> u64 {
        let thread = if Y::SHARED { thread_index::current_if_any() } else { 0 };
        // A thread without a number has a larger one than any.
        if thread < FIRST_BLOCK {
            return self.first_record(thread).count(added);
        }
        self.count_in_later_record(added)
    }

    #[cold]
    #[inline(never)]
    fn count_in_later_record(&self, added: i64) -> u64 {
        thread_index::with(|thread| self.record(thread).count(added))
    }

    /// Counts entries that this thread has hidden, minus those that it has shown or removed.
    pub(crate) fn count_hidden<Y: Mode>(&self, added: i64) {
        let count = |thread| {
            let record = self.record(thread);
            // A plain addition: invariant 1.
            let sum = record.hidden.load(Ordering::Relaxed).wrapping_add_signed(added);
            record.hidden.store(sum, Ordering::Relaxed);
        };
        if Y::SHARED { thread_index::with(count) } else { count(0) }
    }

    /// Announces that this thread will hold references to entries, and to other memory of its table
    /// where the table says so.
    ///
    /// Many gets take a guard. So the usual one, the thread's only guard, takes ten instructions to
    /// begin and five to end.
    #[inline(always)]
    pub(crate) fn guard(&self) -> GuardPin<'_> {
        let thread = thread_index::current_if_any();
        if thread < FIRST_BLOCK {
            let record = self.first_record(thread);
            // Relaxed: this thread's own word (invariant 1); so are all its loads of the word.
            if record.guard.load(Ordering::Relaxed) & (NESTING | FENCED) == 0 {
                // Acquire: invariant 3. Relaxed: the barrier orders it before later loads.
                record.guard.store(self.epoch.load(Ordering::Acquire), Ordering::Relaxed);
                barrier::light_asymmetric();
                return GuardPin { record, _number: Hold::new() };
            }
        }
        self.guard_slowly()
    }

    #[cold]
    #[inline(never)]
    fn guard_slowly(&self) -> GuardPin<'_> {
        let number = Hold::new();
        let record = self.record(thread_index::current_if_any());
        let inside = record.guard.load(Ordering::Relaxed);
        if inside & NESTING == 0 {
            // Acquire: invariant 3. (Where the barrier is a fence on this side, as in models, the
            // fence acquires, too.) Relaxed: the barrier orders it before later loads.
            let first = self.epoch.load(Ordering::Acquire);
            record.guard.store(first | inside & FENCED, Ordering::Relaxed);
            if !seeded(Bug::AnnouncedWithoutBarrier) {
                barrier::light();
            }
        } else if inside & NESTING == NESTING {
            // Relaxed: this thread's own.
            record.deep.store(record.deep.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            record.guard.store(inside | DEEP, Ordering::Relaxed);
        } else {
            // Relaxed: the first guard is announced already.
            record.guard.store(inside + 1, Ordering::Relaxed);
        }
        GuardPin { record, _number: number }
    }

    #[inline(always)]
    fn first_record(&self, thread: usize) -> &Record {
        debug_assert!(thread < FIRST_BLOCK);
        // Relaxed: set before the registry could be shared.
        let block = self.blocks[0].load(Ordering::Relaxed);
        // SAFETY: the first block exists from the start, is freed only with the registry, and has
        // this many records.
        unsafe { &*block.add(thread) }
    }

    #[inline(always)]
    fn record(&self, thread: usize) -> &Record {
        if thread < FIRST_BLOCK { self.first_record(thread) } else { self.later_record(thread) }
    }

    #[cold]
    fn later_record(&self, thread: usize) -> &Record {
        let block = (thread / FIRST_BLOCK + 1).ilog2() as usize;
        let offset = thread - ((1 << block) - 1) * FIRST_BLOCK;
        // Acquire: pairs with the release that publishes the block.
        let mut records = self.blocks[block].load(Ordering::Acquire);
        if records.is_null() {
            records = self.add_block(block);
        }
        // SAFETY: block `b` has `FIRST_BLOCK << b` records, and `offset` is
        // below that; blocks live as long as the registry.
        unsafe { &*records.add(offset) }
    }

    fn add_block(&self, block: usize) -> *mut Record {
        let records: Box<[Record]> = (0..FIRST_BLOCK << block).map(|_| Record::new()).collect();
        let records = Box::into_raw(records).cast::<Record>();
        let published = self.blocks[block].compare_exchange(
            ptr::null_mut(),
            records,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match published {
            Ok(_) => records,
            Err(other) => {
                free_block(records, block);
                other
            }
        }
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.blocks.iter().enumerate().flat_map(|(block, records)| {
            // Acquire: pairs with the release that publishes the block.
            let records = records.load(Ordering::Acquire);
            let count = if records.is_null() { 0 } else { FIRST_BLOCK << block };
            // SAFETY: as in `later_record`.
            (0..count).map(move |offset| unsafe { &*records.add(offset) })
        })
    }

    /// Returns how many entries all threads have added, minus those removed.
    pub(crate) fn added(&self) -> u64 {
        // Relaxed: a count during concurrent operations is approximate anyway. When no operation
        // runs, the synchronisation that ended them orders the counts.
        self.records().fold(0, |sum, record| sum.wrapping_add(record.added.load(Ordering::Relaxed)))
    }

    /// Returns how many entries are hidden, never below zero. As [`added`](Self::added).
    pub(crate) fn hidden(&self) -> usize {
        let sum =
            |sum: u64, record: &Record| sum.wrapping_add(record.hidden.load(Ordering::Relaxed));
        self.records().fold(0, sum).cast_signed().max(0) as usize
    }

    /// Returns the number of threads for which there are records.
    pub(crate) fn threads(&self) -> usize {
        self.records().count()
    }

    /// Returns the bytes of the registry's records.
    pub(crate) fn bytes(&self) -> usize {
        self.threads() * size_of::<Record>()
    }

    /// Starts a new epoch and returns the one before: the tag of everything unlinked until now.
    pub(crate) fn retire_tag(&self) -> u64 {
        // Release: invariant 3.
        self.epoch.fetch_add(EPOCH, Ordering::AcqRel)
    }

    /// Returns the earliest epoch of an announced guard, except for guards of one thread;
    /// [`u64::MAX`] if there is none.
    fn oldest_announced(&self, but: Option<&Record>) -> u64 {
        self.records()
            .filter(|&record| !but.is_some_and(|but| ptr::eq(record, but)))
            // Acquire: pairs with the release at the end of a guard, so that entries are freed
            // after the guard's last read.
            .map(|record| record.guard.load(Ordering::Acquire))
            .filter(|&word| word & NESTING != 0)
            .map(epoch_of)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Returns the oldest epoch of a guard that may hold entries, [`u64::MAX`] if there is none.
    pub(super) fn oldest_guard(&self) -> u64 {
        if !seeded(Bug::LookWithoutBarrier) {
            barrier::heavy();
        }
        self.oldest_announced(None)
    }

    /// Whether another thread has a guard of the epoch `tag` or of an earlier one. Without a
    /// barrier the look may miss guards.
    pub(crate) fn is_held_by_others(&self, tag: u64) -> bool {
        let thread = thread_index::current_if_any();
        // A thread without a number has no guards.
        let own = (thread != usize::MAX).then(|| self.record(thread));
        self.oldest_announced(own) <= tag
    }

    /// Whether all guards of other threads have ended that may have begun in the epoch `tag` or
    /// before.
    pub(crate) fn others_ended(&self, tag: u64) -> bool {
        // First without the barrier, which costs every processor time: a guard that is announced
        // will be announced after it, too, or be gone the next time.
        if self.is_held_by_others(tag) {
            return false;
        }
        if !seeded(Bug::LookWithoutBarrier) {
            barrier::heavy();
        }
        !self.is_held_by_others(tag)
    }

    /// Whether no guard can have seen what was unlinked before the call.
    pub(crate) fn is_unseen(&self) -> bool {
        // Invariant 4: what was unlinked before is tagged with this epoch at the latest.
        let ended = self.retire_tag();
        self.oldest_guard() > ended || seeded(Bug::SeenTakenForUnseen)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        for (block, records) in self.blocks.iter_mut().enumerate() {
            #[cfg(not(modelled))]
            let records = *records.get_mut();
            #[cfg(modelled)]
            let records = records.load(Ordering::Relaxed);
            if !records.is_null() {
                free_block(records, block);
            }
        }
    }
}

fn free_block(records: *mut Record, block: usize) {
    let records = ptr::slice_from_raw_parts_mut(records, FIRST_BLOCK << block);
    // SAFETY: it came from a box of that many records in `add_block`. Either it was never
    // published, or its registry is being dropped.
    drop(unsafe { Box::from_raw(records) });
}

/// Returns the epoch of a guard word, in the form of the registry's epoch.
fn epoch_of(word: u64) -> u64 {
    word & !(EPOCH - 1) | 1
}

/// While this guard lives, no entry that its thread can reach is freed.
#[derive(Debug)]
pub struct GuardPin<'r> {
    record: &'r Record,
    /// The record stays this thread's while the guard lives (invariant 1). Makes the guard not
    /// `Send`.
    _number: Hold,
}

impl GuardPin<'_> {
    #[cold]
    #[inline(never)]
    fn drop_deep(&self, inside: u64) {
        // Relaxed: this thread's own; other guards are still counted.
        let left = self.record.deep.load(Ordering::Relaxed) - 1;
        self.record.deep.store(left, Ordering::Relaxed);
        if left == 0 {
            self.record.guard.store(inside & !DEEP, Ordering::Relaxed);
        }
    }

    /// Whether this registry made the guard.
    pub(crate) fn is_of(&self, registry: &Registry) -> bool {
        registry.records().any(|record| ptr::eq(record, self.record))
    }
}

impl Drop for GuardPin<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Relaxed: this thread's own (invariant 1).
        let inside = self.record.guard.load(Ordering::Relaxed);
        if inside & DEEP != 0 {
            return self.drop_deep(inside);
        }
        // The epoch stays, and means nothing if this was the last guard. Release: pairs with a
        // collector's look.
        let order = match seeded(Bug::GuardEndsRelaxed) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.record.guard.store(inside - 1, order);
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::sync::Shared;

    #[test]
    fn records_of_many_threads_are_counted() {
        let registry = Registry::new();
        let barrier = std::sync::Barrier::new(50);
        std::thread::scope(|scope| {
            let registry = &registry;
            let barrier = &barrier;
            for i in 0..50 {
                scope.spawn(move || {
                    barrier.wait();
                    registry.count::<Shared>(i);
                    barrier.wait();
                });
            }
        });
        assert_eq!(registry.added(), 49 * 50 / 2);
    }

    #[test]
    fn guards_of_a_thread_are_counted_beyond_what_a_word_can() {
        let registry = Registry::new();
        let mut guards: Vec<_> = (0..3 * NESTING).map(|_| registry.guard()).collect();
        for left in [2 * NESTING, NESTING, 1] {
            drop(registry.guard());
            guards.truncate(left as usize);
            assert!(!registry.is_unseen());
        }
        guards.clear();
        assert!(registry.is_unseen());
    }
}
