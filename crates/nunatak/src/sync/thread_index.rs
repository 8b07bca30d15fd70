//! A small number for each thread that uses a map. When the thread needs it no longer, another
//! thread gets it.
//!
//! Thread-locals are destroyed one after the other, in an order that the caller's code decides. A
//! guard in one of them may outlive ours, and a destructor may use a map after ours is gone. So
//! references to a number are counted: the thread itself has one until our thread-local is
//! destroyed, and each guard has one.
//!
//! Invariants
//! 1. A number belongs to one thread at a time: from when the thread takes it until the last of its
//!    references ends. The lock of the list hands the number over, so the next owner sees the
//!    stores of the last one.
//! 2. A thread has a number exactly while it has a reference.
//! 3. A thread whose own thread-local is gone takes a number for as long as a guard, or a single
//!    operation, needs it. So numbers are bounded by the threads that are alive, and by guards that
//!    were forgotten.

use crate::seeded::{Bug, seeded};
use core::marker::PhantomData;

/// Larger than any number.
const NONE: usize = usize::MAX;

#[cfg(not(modelled))]
mod local {
    use super::{NONE, thread_ends};
    use core::cell::Cell;
    use core::cmp::Reverse;
    use parking_lot::Mutex;
    use std::collections::BinaryHeap;

    thread_local! {
        // Constant and without destructors: reading one is one load, also in other destructors.
        static NUMBER: Cell<usize> = const { Cell::new(NONE) };
        static REFERENCES: Cell<usize> = const { Cell::new(0) };
        static OWN: Own = const { Own };
    }

    /// The numbers that no thread has.
    struct Numbers {
        next: usize,
        /// Reversed, so that the smallest comes first.
        free: BinaryHeap<Reverse<usize>>,
    }

    static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { next: 0, free: BinaryHeap::new() });

    struct Own;

    impl Drop for Own {
        fn drop(&mut self) {
            thread_ends();
        }
    }

    #[inline(always)]
    pub(super) fn number() -> usize {
        NUMBER.get()
    }

    pub(super) fn set_number(number: usize) {
        NUMBER.set(number);
    }

    #[inline(always)]
    pub(super) fn references() -> usize {
        REFERENCES.get()
    }

    #[inline(always)]
    pub(super) fn set_references(count: usize) {
        REFERENCES.set(count);
    }

    /// Whether this thread will report when its thread-locals are destroyed.
    pub(super) fn announces_its_end() -> bool {
        OWN.try_with(|_| ()).is_ok()
    }

    pub(super) fn take_number() -> usize {
        let mut numbers = NUMBERS.lock();
        match numbers.free.pop() {
            Some(Reverse(number)) => number,
            None => {
                numbers.next += 1;
                numbers.next - 1
            }
        }
    }

    pub(super) fn give_back_number(number: usize) {
        NUMBERS.lock().free.push(Reverse(number));
    }

    /// Returns how many numbers exist.
    #[cfg(test)]
    pub(super) fn count() -> usize {
        NUMBERS.lock().next
    }
}

/// For model checkers, in which the model ends a thread.
#[cfg(modelled)]
mod local {
    use super::NONE;
    use crate::sync::{AtomicUsize, Ordering};
    use core::cell::Cell;
    #[cfg(loom)]
    use loom::{lazy_static, thread_local};
    #[cfg(shuttle)]
    use shuttle::{lazy_static, thread_local};
    use std::sync::{Mutex, PoisonError};

    lazy_static! {
        /// Changed before the numbers: the checker tries all orders of these steps, and one thread
        /// hands numbers over to the next. The real lock does the same, and needs no steps of its
        /// own in a model.
        static ref TURN: AtomicUsize = AtomicUsize::new(0);
        /// The next number, and the numbers that were given back.
        static ref NUMBERS: Mutex<(usize, Vec<usize>)> = Mutex::new((0, Vec::new()));
    }

    thread_local! {
        static NUMBER: Cell<usize> = Cell::new(NONE);
        static REFERENCES: Cell<usize> = Cell::new(0);
        static HAS_ENDED: Cell<bool> = Cell::new(false);
    }

    pub(super) fn number() -> usize {
        NUMBER.with(Cell::get)
    }

    pub(super) fn set_number(number: usize) {
        NUMBER.with(|cell| cell.set(number));
    }

    pub(super) fn references() -> usize {
        REFERENCES.with(Cell::get)
    }

    pub(super) fn set_references(count: usize) {
        REFERENCES.with(|cell| cell.set(count));
    }

    pub(super) fn announces_its_end() -> bool {
        !HAS_ENDED.with(Cell::get)
    }

    pub(super) fn take_number() -> usize {
        TURN.fetch_add(1, Ordering::AcqRel);
        let (next, free) = &mut *NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        free.pop().unwrap_or_else(|| {
            *next += 1;
            *next - 1
        })
    }

    pub(super) fn give_back_number(number: usize) {
        TURN.fetch_add(1, Ordering::AcqRel);
        NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).1.push(number);
    }

    /// Does what the destruction of a thread's own thread-local does.
    pub(super) fn set_ended() {
        HAS_ENDED.with(|cell| cell.set(true));
    }
}

/// Returns the number of this thread, [`usize::MAX`] if it has none: good enough to spread threads
/// over shards.
#[inline(always)]
pub(crate) fn current_if_any() -> usize {
    local::number()
}

/// Runs a function with this thread's number, which the thread keeps meanwhile.
#[inline(always)]
pub(crate) fn with<R>(run: impl FnOnce(usize) -> R) -> R {
    let number = local::number();
    if number != NONE { run(number) } else { with_new(run) }
}

#[cold]
#[inline(never)]
fn with_new<R>(run: impl FnOnce(usize) -> R) -> R {
    let _hold = Hold::new();
    run(local::number())
}

/// A reference of this thread to its number.
#[derive(Debug)]
pub(crate) struct Hold {
    /// Not `Send`: the number is this thread's.
    this_thread: PhantomData<*mut ()>,
}

impl Hold {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        if local::number() == NONE {
            take_number();
        }
        local::set_references(local::references().wrapping_add(1));
        Self { this_thread: PhantomData }
    }
}

impl Drop for Hold {
    #[inline(always)]
    fn drop(&mut self) {
        let left = local::references().wrapping_sub(1);
        local::set_references(left);
        if left == 0 {
            give_back();
        }
    }
}

/// Takes a number, with the thread's own reference unless it has ended.
#[cold]
#[inline(never)]
fn take_number() {
    local::set_number(local::take_number());
    local::set_references(usize::from(local::announces_its_end()));
}

#[cold]
#[inline(never)]
fn give_back() {
    let number = local::number();
    local::set_number(NONE);
    local::give_back_number(number);
}

/// Ends the thread's own reference.
fn thread_ends() {
    if local::number() == NONE {
        return;
    }
    if seeded(Bug::NumberOutlivedByGuard) {
        local::set_references(0);
        return give_back();
    }
    // Ends the reference that `take` has counted.
    drop(Hold { this_thread: PhantomData });
}

/// For models: does what the destruction of a thread's thread-locals does.
#[cfg(modelled)]
pub(crate) fn end_thread() {
    local::set_ended();
    thread_ends();
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_number_and_gives_it_back() {
        std::thread::spawn(|| {
            let number = with(|number| number);
            drop(Hold::new());
            assert_eq!((with(|number| number), current_if_any()), (number, number));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn numbers_are_bounded_by_threads_that_are_alive() {
        /// Uses a number after those of its thread are gone.
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                assert!(with(|number| number) < 1 << 12);
                let hold = Hold::new();
                let number = current_if_any();
                drop(Hold::new());
                assert_eq!(current_if_any(), number);
                drop(hold);
                assert_eq!(current_if_any(), NONE);
            }
        }
        thread_local!(static LATE: Late = const { Late });
        for _ in 0..3000 {
            std::thread::spawn(|| {
                LATE.with(|_| ());
                with(|_| ());
            })
            .join()
            .unwrap();
        }
        // Other tests run at the same time, but without thousands of threads.
        assert!(local::count() < 1000);
    }
}
