//! [`Owner`]: which process has opened a file.
//!
//! A process that forks shares its file with its child, mapped and open. But threads, locks and
//! everything that is in RAM are two different things from then on. So only the process that has
//! opened the file may change it. Its flags are in a page that the system clears in a fork, so
//! that a change looks at one flag, and asks the system nothing.

use crate::error::Error;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::Pid;

#[repr(C)]
#[derive(Debug)]
struct Flags {
    is_owner: AtomicBool,
    is_open_to_changes: AtomicBool,
}

/// The flags of the process that has opened a file.
#[derive(Debug)]
pub(super) struct Owner {
    page: *mut c_void,
    process: Pid,
}

// SAFETY: the page is mapped while this lives, and holds atomic flags.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Owner {
    /// Makes the present process the owner.
    pub(super) fn new(is_open_to_changes: bool) -> Result<Self, Error> {
        let bytes = size_of::<Flags>();
        // SAFETY: a new mapping at an address of the kernel's choice.
        let page = unsafe {
            rustix::mm::mmap_anonymous(
                core::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        let owner = Self {
            page: page.map_err(|_| Error::OutOfMemory { bytes })?,
            process: rustix::process::getpid(),
        };
        // Systems before Linux 4.14 do not know this advice. There `is_forked` still tells.
        // SAFETY: just mapped, and nothing was stored yet.
        let _ = unsafe { rustix::mm::madvise(owner.page, bytes, Advice::LinuxWipeOnFork) };
        // Relaxed: before the owner is shared.
        owner.flags().is_owner.store(true, Relaxed);
        owner.flags().is_open_to_changes.store(is_open_to_changes, Relaxed);
        Ok(owner)
    }

    #[inline(always)]
    fn flags(&self) -> &Flags {
        // SAFETY: mapped in `new`, aligned to a page; zeros are valid flags.
        unsafe { &*self.page.cast() }
    }

    /// Whether the file may be changed.
    #[inline(always)]
    pub(super) fn is_open_to_changes(&self) -> bool {
        // Relaxed: a hint; it only ever changes to no.
        self.flags().is_open_to_changes.load(Relaxed)
    }

    pub(super) fn close_to_changes(&self) {
        // Relaxed: as above.
        self.flags().is_open_to_changes.store(false, Relaxed);
    }

    /// Whether the present process is a fork of the one that has opened the file.
    pub(super) fn is_forked(&self) -> bool {
        // Relaxed: in this process it never changes.
        !self.flags().is_owner.load(Relaxed) || rustix::process::getpid() != self.process
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.page, size_of::<Flags>()) };
    }
}
