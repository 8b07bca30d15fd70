//! A small number for each running thread, reused when the thread is gone.

#[cfg(not(any(loom, shuttle)))]
mod real {
    use core::cell::Cell;
    use parking_lot::Mutex;
    use std::collections::BinaryHeap;

    /// Larger than any number.
    const NONE: usize = usize::MAX;

    thread_local! {
        // Constant and without a destructor: reading it is one load.
        static INDEX: Cell<usize> = const { Cell::new(NONE) };
        static RELEASE: Release = const { Release };
    }

    struct Indices {
        next: usize,
        /// Negated, so that the smallest comes first.
        free: BinaryHeap<core::cmp::Reverse<usize>>,
    }

    static INDICES: Mutex<Indices> = Mutex::new(Indices { next: 0, free: BinaryHeap::new() });

    struct Release;

    impl Drop for Release {
        fn drop(&mut self) {
            let index = INDEX.replace(NONE);
            if index != NONE {
                INDICES.lock().free.push(core::cmp::Reverse(index));
            }
        }
    }

    /// The number of this thread.
    #[inline(always)]
    pub(crate) fn current() -> usize {
        let index = INDEX.get();
        if index == NONE { acquire() } else { index }
    }

    /// The same, [`usize::MAX`] if it has none yet.
    #[inline(always)]
    pub(crate) fn current_if_any() -> usize {
        INDEX.get()
    }

    #[cold]
    fn acquire() -> usize {
        let index = {
            let mut indices = INDICES.lock();
            match indices.free.pop() {
                Some(core::cmp::Reverse(index)) => index,
                None => {
                    indices.next += 1;
                    indices.next - 1
                }
            }
        };
        INDEX.set(index);
        // In a destructor that runs after ours the number is not given back,
        // which costs one number.
        let _ = RELEASE.try_with(|_| ());
        index
    }
}

#[cfg(any(loom, shuttle))]
mod checked {
    #[cfg(loom)]
    use loom::{
        lazy_static,
        sync::atomic::{AtomicUsize, Ordering},
        thread_local,
    };
    #[cfg(shuttle)]
    use shuttle::{
        lazy_static,
        sync::atomic::{AtomicUsize, Ordering},
        thread_local,
    };

    lazy_static! {
        static ref NEXT: AtomicUsize = AtomicUsize::new(0);
    }

    thread_local! {
        static INDEX: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn current() -> usize {
        INDEX.with(|index| *index)
    }

    pub(crate) fn current_if_any() -> usize {
        current()
    }
}

#[cfg(any(loom, shuttle))]
pub(crate) use checked::{current, current_if_any};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use real::{current, current_if_any};
