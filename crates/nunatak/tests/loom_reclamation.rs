//! Reclamation under a model checker: guards, epochs, limbo, announced operations and the numbers
//! of threads, with the memory orders of the code. One model for each property.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p nunatak --test loom_reclamation
//! ```
//!
//! With `--cfg nunatak_seeded_bugs` as well, each comparison, barrier and order is left out in
//! turn, and a model must find it.
#![cfg(loom)]

mod models;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use models::{Model, check};
use nunatak::reclamation::{Operation, Reclaimer, end_thread};
use std::sync::Arc;

/// The number of a model's entries. A slot holds an entry's number plus one.
const ENTRIES: usize = 3;

/// Entries that loom watches: it is a data race to free one while another thread reads it, or may
/// have read it without an ordered announcement.
#[derive(Default)]
struct Entries([UnsafeCell<bool>; ENTRIES]);

// SAFETY: loom checks each access.
unsafe impl Sync for Entries {}
// SAFETY: as above.
unsafe impl Send for Entries {}

impl Entries {
    fn read(&self, entry: usize) {
        // SAFETY: loom checks that no thread writes meanwhile.
        let is_freed = self.0[entry].with(|freed| unsafe { *freed });
        assert!(!is_freed, "entry {entry} is read after it was freed");
    }

    fn free(&self, entry: usize) {
        // SAFETY: loom checks that no thread reads or writes meanwhile.
        let was_freed =
            self.0[entry].with_mut(|freed| unsafe { core::mem::replace(&mut *freed, true) });
        assert!(!was_freed, "entry {entry} is freed twice");
    }
}

/// An unlinked entry, which is freed when dropped.
struct Unlinked(Arc<Entries>, usize);

impl Drop for Unlinked {
    fn drop(&mut self) {
        self.0.free(self.1);
    }
}

/// Slots that name entries, and the parts that free them.
#[derive(Default)]
struct Slots {
    slots: [AtomicUsize; 2],
    entries: Arc<Entries>,
    reclaimer: Reclaimer<Unlinked>,
}

impl Slots {
    fn new() -> Arc<Self> {
        let slots = Self::default();
        slots.slots[0].store(1, Ordering::Relaxed);
        slots.slots[1].store(2, Ordering::Relaxed);
        Arc::new(slots)
    }

    /// Reads a slot's entry twice. The caller has a guard.
    fn read(&self, slot: usize) {
        if let Some(entry) = self.slots[slot].load(Ordering::Acquire).checked_sub(1) {
            self.entries.read(entry);
            self.entries.read(entry);
        }
    }

    /// Makes a slot name another entry or none, and returns the one before.
    fn unlink(&self, slot: usize, next: usize) -> Option<Unlinked> {
        let before = self.slots[slot].swap(next, Ordering::AcqRel).checked_sub(1)?;
        Some(Unlinked(Arc::clone(&self.entries), before))
    }

    fn replace(&self, slot: usize, next: usize) {
        let _guard = self.reclaimer.guard();
        self.unlink(slot, next).into_iter().for_each(|entry| self.reclaimer.retire(entry));
    }
}

fn what_a_guard_sees_is_not_freed() {
    check(5, || {
        let slots = Slots::new();
        let writer = models::spawn(&slots, |slots| {
            slots.replace(0, 3);
            slots.reclaimer.collect();
        });
        {
            let _guard = slots.reclaimer.guard();
            slots.read(0);
        }
        writer.join().unwrap();
    });
}

/// A collector looks at the guards, for an entry of its own. Then another thread reads, and a third
/// one unlinks what it reads, tags it, and begins a new epoch.
fn an_epoch_that_another_thread_ends_frees_nothing_early() {
    check(3, || {
        let slots = Slots::new();
        let collector = models::spawn(&slots, |slots| {
            slots.unlink(1, 0).into_iter().for_each(|entry| slots.reclaimer.retire(entry));
            slots.reclaimer.collect();
        });
        let writer = models::spawn(&slots, |slots| {
            slots.unlink(0, 3).into_iter().for_each(|entry| slots.reclaimer.retire(entry));
            slots.reclaimer.tag();
            slots.reclaimer.end_epoch();
        });
        {
            let _guard = slots.reclaimer.guard();
            slots.read(0);
        }
        collector.join().unwrap();
        writer.join().unwrap();
    });
}

/// A guard begins in an epoch that the unlinking thread does not know yet.
fn a_tag_is_not_before_a_guard_that_saw_the_entry() {
    check(3, || {
        let slots = Slots::new();
        let other = models::spawn(&slots, |slots| {
            slots.reclaimer.end_epoch();
        });
        let writer = models::spawn(&slots, |slots| {
            slots.unlink(0, 3).into_iter().for_each(|entry| slots.reclaimer.retire(entry));
            slots.reclaimer.collect();
        });
        {
            let _guard = slots.reclaimer.guard();
            slots.read(0);
        }
        other.join().unwrap();
        writer.join().unwrap();
    });
}

fn two_collectors_free_once() {
    check(2, || {
        let slots = Slots::new();
        let other = models::spawn(&slots, |slots| {
            slots.replace(0, 3);
            slots.reclaimer.collect();
        });
        slots.replace(1, 0);
        slots.reclaimer.collect();
        other.join().unwrap();
        slots.reclaimer.collect();
        slots.entries.0[..2].iter().for_each(|entry| {
            // SAFETY: no other thread exists.
            assert!(entry.with(|freed| unsafe { *freed }), "nobody holds it");
        });
    });
}

/// The first guard ends before a second one that began under it.
fn the_last_of_nested_guards_counts() {
    check(3, || {
        let slots = Slots::new();
        let writer = models::spawn(&slots, |slots| {
            slots.replace(0, 3);
            slots.reclaimer.collect();
        });
        let outer = slots.reclaimer.guard();
        let entry = slots.slots[0].load(Ordering::Acquire) - 1;
        let inner = slots.reclaimer.guard();
        drop(outer);
        slots.entries.read(entry);
        drop(inner);
        writer.join().unwrap();
    });
}

/// An entry that no guard can have seen is taken by value, without limbo.
fn what_is_unseen_is_the_callers() {
    check(3, || {
        let slots = Slots::new();
        let writer = models::spawn(&slots, |slots| {
            let unlinked = slots.unlink(0, 3).unwrap();
            if slots.reclaimer.is_unseen() {
                drop(unlinked);
            } else {
                slots.reclaimer.retire(unlinked);
            }
        });
        {
            let _guard = slots.reclaimer.guard();
            slots.read(0);
        }
        writer.join().unwrap();
    });
}

/// A table frees memory (old indexes) when the guards of other threads have ended.
fn what_others_may_see_is_not_freed() {
    check(3, || {
        let slots = Slots::new();
        let writer = models::spawn(&slots, |slots| {
            let unlinked = slots.unlink(0, 3).unwrap();
            let ended = slots.reclaimer.end_epoch();
            if slots.reclaimer.others_ended(ended) {
                drop(unlinked);
            } else {
                core::mem::forget(unlinked);
            }
        });
        {
            let _guard = slots.reclaimer.guard();
            slots.read(0);
        }
        writer.join().unwrap();
    });
}

fn what_an_operation_reads_is_not_freed() {
    check(5, || {
        let slots = Slots::new();
        let writer = models::spawn(&slots, |slots| {
            let unlinked = slots.unlink(0, 3).unwrap();
            let ended = Operation::end_epoch();
            if Operation::all_ended(ended) {
                drop(unlinked);
            } else {
                core::mem::forget(unlinked);
            }
        });
        {
            let _operation = Operation::announce();
            slots.read(0);
            // An operation within another one, which continues.
            drop(Operation::announce());
            slots.read(0);
        }
        writer.join().unwrap();
    });
}

/// A thread's own thread-local is destroyed before a thread-local of the caller that holds a guard.
fn a_guard_outlives_its_threads_end() {
    check(2, || {
        let slots = Slots::new();
        let ending = models::spawn(&slots, |slots| {
            let guard = slots.reclaimer.guard();
            let entry = slots.slots[0].load(Ordering::Acquire) - 1;
            end_thread();
            slots.entries.read(entry);
            drop(guard);
        });
        // This thread may get the number when it was given back.
        let guard = slots.reclaimer.guard();
        let entry = slots.slots[0].load(Ordering::Acquire) - 1;
        slots.unlink(0, 3).into_iter().for_each(|entry| slots.reclaimer.retire(entry));
        slots.reclaimer.collect();
        slots.entries.read(entry);
        drop(guard);
        ending.join().unwrap();
    });
}

/// Threads that end hand their numbers over: no count and no guard is lost.
fn numbers_are_handed_over() {
    check(2, || {
        let slots = Slots::new();
        let use_once = |slots: &Slots| {
            slots.reclaimer.count(1);
            end_thread();
            // As in a destructor that runs later.
            slots.reclaimer.count(1);
            drop(slots.reclaimer.guard());
            slots.reclaimer.count(1);
        };
        let first = models::spawn(&slots, use_once);
        let second = models::spawn(&slots, use_once);
        first.join().unwrap();
        second.join().unwrap();
        assert_eq!(slots.reclaimer.added(), 6);
        assert!(slots.reclaimer.is_unseen());
    });
}

const MODELS: &[Model] = &[
    ("what a guard sees is not freed", what_a_guard_sees_is_not_freed),
    (
        "an epoch that another thread ends frees nothing early",
        an_epoch_that_another_thread_ends_frees_nothing_early,
    ),
    (
        "a tag is not before a guard that saw the entry",
        a_tag_is_not_before_a_guard_that_saw_the_entry,
    ),
    ("two collectors free once", two_collectors_free_once),
    ("the last of nested guards counts", the_last_of_nested_guards_counts),
    ("what is unseen is the caller's", what_is_unseen_is_the_callers),
    ("what others may see is not freed", what_others_may_see_is_not_freed),
    ("what an operation reads is not freed", what_an_operation_reads_is_not_freed),
    ("a guard outlives its thread's end", a_guard_outlives_its_threads_end),
    ("numbers are handed over", numbers_are_handed_over),
];

#[test]
fn every_property_holds() {
    models::every_property_holds(MODELS);
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn every_seeded_bug_is_found() {
    use nunatak::seeded::Bug;
    models::every_seeded_bug_is_found(
        &[
            (Bug::EpochReadAfterLook, "an epoch that another thread ends frees nothing early"),
            (Bug::LateTagsFreed, "an epoch that another thread ends frees nothing early"),
            (Bug::SameEpochFreed, "what a guard sees is not freed"),
            (Bug::TagByLoad, "a tag is not before a guard that saw the entry"),
            (Bug::LookWithoutBarrier, "what a guard sees is not freed"),
            (Bug::LookWithoutBarrier, "what is unseen is the caller's"),
            (Bug::LookWithoutBarrier, "what others may see is not freed"),
            (Bug::LookWithoutBarrier, "what an operation reads is not freed"),
            (Bug::AnnouncedWithoutBarrier, "what a guard sees is not freed"),
            (Bug::AnnouncedWithoutBarrier, "what an operation reads is not freed"),
            (Bug::GuardEndsRelaxed, "what a guard sees is not freed"),
            (Bug::SeenTakenForUnseen, "what is unseen is the caller's"),
            (Bug::NumberOutlivedByGuard, "a guard outlives its thread's end"),
        ],
        MODELS,
    );
}
