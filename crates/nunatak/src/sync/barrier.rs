//! A store-load barrier whose cost is on one side.
//!
//! An operation announces itself with a plain store before it reads the root; a collector unlinks
//! first and looks at the announcements afterwards. Each side needs its store before its load. On
//! Linux the collector asks the kernel to run a barrier on every processor that runs this process,
//! so the operation needs none. Elsewhere both sides pay a full fence.

use super::{Ordering, fence};

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri, nunatak_tsan))))]
mod system {
    use core::sync::atomic::{AtomicU8, Ordering};
    use rustix::thread::{MembarrierCommand, membarrier};

    static SUPPORT: AtomicU8 = AtomicU8::new(0);

    /// Registers the process once. The state 1 is no, 2 is yes.
    #[inline(always)]
    pub(super) fn is_asymmetric() -> bool {
        // Relaxed: it tells of itself alone.
        let support = SUPPORT.load(Ordering::Relaxed);
        support == 2 || support == 0 && register()
    }

    #[cold]
    fn register() -> bool {
        let registered = membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
        // Relaxed: as above; threads that register at once store the same.
        SUPPORT.store(1 + u8::from(registered), Ordering::Relaxed);
        registered
    }

    pub(super) fn on_all_processors() -> bool {
        membarrier(MembarrierCommand::PrivateExpedited).is_ok()
    }
}

#[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri, nunatak_tsan)))))]
mod system {
    pub(super) fn is_asymmetric() -> bool {
        false
    }

    pub(super) fn on_all_processors() -> bool {
        false
    }
}

/// Whether [`light`] may leave the work to [`heavy`]. Constant in a process.
#[inline(always)]
pub(super) fn is_asymmetric() -> bool {
    system::is_asymmetric()
}

/// The frequent side, where the barrier is asymmetric: only the compiler must keep the order.
#[inline(always)]
pub(super) fn light_asymmetric() {
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

/// The frequent side, on every system.
#[inline(always)]
pub(super) fn light() {
    if is_asymmetric() {
        light_asymmetric();
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The rare side.
pub(super) fn heavy() {
    fence(Ordering::SeqCst);
    if is_asymmetric() {
        // Once registered, the call fails only if the kernel lost the feature under a running
        // process.
        assert!(system::on_all_processors(), "membarrier was registered and is refused");
    }
}
