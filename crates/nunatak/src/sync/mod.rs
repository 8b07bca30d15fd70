//! Synchronisation that the tables share: words, pairs of words, announcements, and waiting. Under
//! `cfg(loom)` and `cfg(shuttle)` the types are the model checker's.

mod backoff;
mod barrier;
#[cfg(x86_64_assembly)]
mod compare;
mod counts;
mod kept;
mod limbo;
mod looks;
mod mode;
#[cfg(modelled)]
pub mod model;
mod operation;
mod pair;
mod registry;
mod seldom;
pub(crate) mod thread_index;
mod words;

pub(crate) use backoff::Backoff;
#[cfg(x86_64_assembly)]
pub(crate) use compare::first_of_pair_is;
pub(crate) use counts::Counts;
pub(crate) use kept::kept;
pub(crate) use limbo::Limbo;
pub(crate) use looks::Looks;
pub(crate) use mode::{Mode, Shadowing};
pub use mode::{Shared, SingleThread};
pub(crate) use operation::{FastPin, OpPin, operations_ended, retire_tag};
pub(crate) use pair::{AtomicPair, double_word_cas_is_lock_free, pairs_load_whole};
pub(crate) use registry::{EntryCounts, GuardPin, Registry};
pub(crate) use seldom::is_seldom;
pub(crate) use words::copy_words;

#[cfg(not(modelled))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence,
};

#[cfg(modelled)]
pub(crate) use locks::{Mutex, RwLock};
#[cfg(loom)]
pub(crate) use loom::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(modelled))]
pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// The order of a load whose value is validated or dereferenced after an acquire fence.
/// ThreadSanitizer does not see fences, so there the load itself must acquire.
pub(crate) const DATA: Ordering =
    if cfg!(nunatak_tsan) { Ordering::Acquire } else { Ordering::Relaxed };

#[cfg(modelled)]
mod locks {
    #[cfg(loom)]
    use loom::sync as checked;
    #[cfg(shuttle)]
    use shuttle::sync as checked;

    /// The checker's mutex with the interface of the real one.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(checked::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(checked::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> checked::MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }

        pub(crate) fn try_lock(&self) -> Option<checked::MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// The checker's readers-writer lock with the interface of the real one.
    #[derive(Debug, Default)]
    pub(crate) struct RwLock<T>(checked::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn read(&self) -> checked::RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner)
        }

        pub(crate) fn write(&self) -> checked::RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}
