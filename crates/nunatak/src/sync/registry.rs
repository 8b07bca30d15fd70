//! Who holds entries of a map, and how many entries each thread has added.
//!
//! A map has a record for each thread that ever changed it or held a guard.
//! Taking a guard is a plain store to a cache line of one's own.
//!
//! Invariants
//! 1. Only the thread whose number a record has writes to it, and a thread keeps its number
//!    for as long as it has a guard (see [`thread_index`]).
//! 2. The 14 lowest bits of a guard word are the number of the thread's guards, or as many
//!    as fit; the others are counted beside it, and the next bit says that there are any. If
//!    there are guards, the bits from the 17th on are the epoch at the time of the first. The
//!    16th bit is set if guards need a fence here.
//! 3. A guard sees everything that was unlinked before the epoch it announces began: the
//!    load of the epoch acquires, the increment releases.
//! 4. An entry is unlinked, and then tagged with the epoch of that moment. To free it a
//!    thread ends an epoch that is not before the tag, runs the heavy barrier, and looks at
//!    all guard words. The entry may go if the tag is not after the epoch that the thread
//!    itself has ended, and no word has guards of the tag's epoch or of an earlier one: a
//!    guard that the look missed reads slots after the barrier, so after the unlinking. What
//!    is tagged with a later epoch may have been unlinked after the look, whoever began that
//!    epoch.

use super::thread_index::{self, Hold};
use super::{AtomicPtr, AtomicU64, Mode, Ordering, barrier};
use crate::seeded::{Bug, seeded};
use core::ptr;

/// How many guards a word counts.
const NESTING: u64 = (1 << 14) - 1;
/// There are more guards than the word counts.
const DEEP: u64 = 1 << 14;
/// The processor needs a fence after an announcement ([`barrier`]).
const FENCED: u64 = 1 << 15;
const EPOCH: u64 = 1 << 16;
/// Records come in blocks of 8, 16, 32, …; no machine has 2^30 threads.
/// (Models have few threads, and look at each record.)
const FIRST_BLOCK: usize = if cfg!(any(loom, shuttle)) { 4 } else { 8 };
const BLOCKS: usize = 27;

/// What one thread says of itself to one map. Two cache lines apart from the
/// next, since processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Record {
    guard: AtomicU64,
    /// Guards that the word does not count.
    deep: AtomicU64,
    /// How many entries this thread's operations have added, less those that
    /// they took out, modulo 2^64.
    added: AtomicU64,
}

impl Record {
    fn new() -> Self {
        let rest = if barrier::is_asymmetric() { 0 } else { FENCED };
        Self { guard: AtomicU64::new(rest), deep: AtomicU64::new(0), added: AtomicU64::new(0) }
    }
}

/// All records of a map.
#[derive(Debug)]
pub struct Registry {
    /// As the word of one guard of this epoch, so that to announce one is to copy it.
    epoch: AtomicU64,
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

    /// Counts entries that this thread has added (or taken out), and returns
    /// its sum.
    #[inline(always)]
    pub(crate) fn count<Y: Mode>(&self, added: i64) -> u64 {
        let count = |thread| {
            let record = self.record(thread);
            // A plain addition: invariant 1.
            let sum = record.added.load(Ordering::Relaxed).wrapping_add_signed(added);
            record.added.store(sum, Ordering::Relaxed);
            sum
        };
        if Y::SHARED { thread_index::with(count) } else { count(0) }
    }

    /// Announces that this thread will hold references to entries, and to what memory of its
    /// table a table says.
    ///
    /// A get that takes a guard for itself is as fast as it is short, so that the usual one, the
    /// thread's only, takes ten instructions and five to end.
    #[inline(always)]
    pub(crate) fn guard(&self) -> GuardPin<'_> {
        let thread = thread_index::current_if_any();
        if thread < FIRST_BLOCK {
            let record = self.first_record(thread);
            // Relaxed: this thread's own (invariant 1); so of all its loads of the word.
            if record.guard.load(Ordering::Relaxed) & (NESTING | FENCED) == 0 {
                // Acquire: invariant 3. Relaxed: before what follows by the barrier.
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
            // Acquire: invariant 3. (Where the barrier is a fence of this side, as in models,
            // that acquires, too.) Relaxed: before what follows by the barrier.
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
        // SAFETY: the first block exists from the start, is freed with the
        // registry only, and has this many records.
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

    /// How many entries all threads have added, less those taken out.
    pub(crate) fn added(&self) -> u64 {
        // Relaxed: a count of concurrent operations is approximate anyway, and
        // at rest everything is ordered by what made it rest.
        self.records().fold(0, |sum, record| sum.wrapping_add(record.added.load(Ordering::Relaxed)))
    }

    /// Starts a new epoch and returns the one before, as the tag of all that
    /// was unlinked until now.
    pub(crate) fn retire_tag(&self) -> u64 {
        // Release: invariant 3.
        self.epoch.fetch_add(EPOCH, Ordering::AcqRel)
    }

    /// The first epoch of which a guard is announced, but for those of one thread;
    /// [`u64::MAX`] if there is none.
    fn oldest_announced(&self, but: Option<&Record>) -> u64 {
        self.records()
            .filter(|&record| !but.is_some_and(|but| ptr::eq(record, but)))
            // Acquire: pairs with the release at the end of a guard, so that what
            // it saw is freed after it was seen.
            .map(|record| record.guard.load(Ordering::Acquire))
            .filter(|&word| word & NESTING != 0)
            .map(epoch_of)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// The oldest epoch of which a guard may hold something, [`u64::MAX`] if
    /// there is none.
    fn oldest_guard(&self) -> u64 {
        if !seeded(Bug::LookWithoutBarrier) {
            barrier::heavy();
        }
        self.oldest_announced(None)
    }

    /// Whether another thread has a guard of the epoch `tag` or of an earlier one. Without a
    /// barrier it may miss some.
    pub(crate) fn is_held_by_others(&self, tag: u64) -> bool {
        let thread = thread_index::current_if_any();
        // A thread without a number has no guards.
        let own = (thread != usize::MAX).then(|| self.record(thread));
        self.oldest_announced(own) <= tag
    }

    /// Whether every guard of another thread that may have begun in the epoch `tag` or before
    /// is gone.
    pub(crate) fn others_ended(&self, tag: u64) -> bool {
        // First without the barrier, which costs all processors something: a guard that is
        // announced will be so after it, too, or be gone the next time.
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
            #[cfg(not(any(loom, shuttle)))]
            let records = *records.get_mut();
            #[cfg(any(loom, shuttle))]
            let records = records.load(Ordering::Relaxed);
            if !records.is_null() {
                free_block(records, block);
            }
        }
    }
}

fn free_block(records: *mut Record, block: usize) {
    let records = ptr::slice_from_raw_parts_mut(records, FIRST_BLOCK << block);
    // SAFETY: it came from a box of that many records in `add_block`, and
    // either was never published or its registry is being dropped.
    drop(unsafe { Box::from_raw(records) });
}

/// The epoch of a guard word, as the registry has it.
fn epoch_of(word: u64) -> u64 {
    word & !(EPOCH - 1) | 1
}

/// While it lives, no entry that its thread can reach is freed.
#[derive(Debug)]
pub struct GuardPin<'r> {
    record: &'r Record,
    /// The record is this thread's for as long (invariant 1). It makes the guard not `Send`.
    _number: Hold,
}

impl GuardPin<'_> {
    #[cold]
    #[inline(never)]
    fn drop_deep(&self, inside: u64) {
        // Relaxed: this thread's own; others are counted still.
        let left = self.record.deep.load(Ordering::Relaxed) - 1;
        self.record.deep.store(left, Ordering::Relaxed);
        if left == 0 {
            self.record.guard.store(inside & !DEEP, Ordering::Relaxed);
        }
    }

    /// Whether it was taken from this registry.
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
        // The epoch stays, and says nothing if this was the last guard.
        // Release: pairs with the looks of whoever reclaims.
        let order = match seeded(Bug::GuardEndsRelaxed) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.record.guard.store(inside - 1, order);
    }
}

/// So that threads seldom wait for each other to retire.
const SHARDS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 8 };

/// Entries that were unlinked and may still be read under guards.
#[derive(Debug)]
pub(crate) struct Limbo<T> {
    shards: [super::Mutex<Vec<(u64, T)>>; SHARDS],
}

impl<T> Limbo<T> {
    /// A heavy barrier interrupts every processor, so it must pay for many.
    const COLLECT_AT: usize = 128;

    pub(crate) fn new() -> Self {
        Self { shards: core::array::from_fn(|_| super::Mutex::new(Vec::new())) }
    }

    /// Takes over what was unlinked before the call; drops some of what no
    /// guard can see any more.
    pub(crate) fn retire(&self, registry: &Registry, item: T) {
        let shard = &self.shards[thread_index::current_if_any() % SHARDS];
        // Not a load: a read-modify-write has a place in the order of the epochs, so whoever
        // ends this epoch, or begins in a later one, sees the unlinking (release), and the
        // tag is not before the epoch of a guard that saw the entry.
        let tag = if seeded(Bug::TagByLoad) {
            registry.epoch.load(Ordering::Relaxed)
        } else {
            registry.epoch.fetch_add(0, Ordering::AcqRel)
        };
        let full = {
            let mut items = shard.lock();
            items.push((tag, item));
            items.len().is_multiple_of(Self::COLLECT_AT)
        };
        if full {
            self.collect_shard(registry, shard);
        }
    }

    /// Drops everything that no guard can see.
    pub(crate) fn collect(&self, registry: &Registry) {
        for shard in &self.shards {
            self.collect_shard(registry, shard);
        }
    }

    fn collect_shard(&self, registry: &Registry, shard: &super::Mutex<Vec<(u64, T)>>) {
        // The new epoch lets guards that start from here on go free.
        let ended = registry.retire_tag();
        let oldest = registry.oldest_guard();
        let ended = match seeded(Bug::EpochReadAfterLook) {
            true => registry.epoch.load(Ordering::Acquire) - EPOCH,
            false => ended,
        };
        let is_unseen = |tag: u64| {
            // Invariant 4: later tags may be of what was unlinked after the look.
            let is_before = tag <= ended || seeded(Bug::LateTagsFreed);
            (tag < oldest || seeded(Bug::SameEpochFreed) && tag == oldest) && is_before
        };
        let unseen: Vec<(u64, T)> = {
            let mut items = shard.lock();
            items.extract_if(.., |(tag, _)| is_unseen(*tag)).collect()
        };
        // Outside of the lock: dropping runs the caller's code, which may use
        // the map.
        drop(unseen);
    }

    /// How many items wait.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::Shared;
    use std::sync::Arc;

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
    fn limbo_keeps_what_a_guard_may_see() {
        let (registry, limbo) = (Registry::new(), Limbo::new());
        let item = Arc::new(());
        let guard = registry.guard();
        limbo.retire(&registry, item.clone());
        limbo.collect(&registry);
        assert_eq!((limbo.len(), Arc::strong_count(&item)), (1, 2));
        drop(guard);
        let _later = registry.guard();
        limbo.collect(&registry);
        assert_eq!((limbo.len(), Arc::strong_count(&item)), (0, 1));
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

    #[test]
    fn limbo_is_bounded_without_guards() {
        let (registry, limbo) = (Registry::new(), Limbo::new());
        for i in 0..10_000 {
            limbo.retire(&registry, Box::new(i));
        }
        assert!(limbo.len() <= 2 * Limbo::<Box<i32>>::COLLECT_AT);
    }
}
