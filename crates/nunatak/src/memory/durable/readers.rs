//! The lock between a sync and the readers that copy the file meanwhile.
//!
//! The lock is on a byte far behind the end of the file, and belongs to the open file (`F_OFD_*`),
//! not to the process. It has nothing to do with the lock that keeps other maps out.

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// The byte that readers lock.
const LOCKED: i64 = 1 << 62;

/// So long a sync waits for a reader. A reader that was stopped must not stop others for ever.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks for the lock, or gives it up. Does not wait.
fn lock(file: BorrowedFd<'_>, kind: libc::c_int) -> Result<(), Errno> {
    // SAFETY: zeros are valid for this structure of numbers.
    let mut wanted: libc::flock = unsafe { core::mem::zeroed() };
    wanted.l_type = kind as libc::c_short;
    wanted.l_whence = libc::SEEK_SET as libc::c_short;
    wanted.l_start = LOCKED;
    wanted.l_len = 1;
    // SAFETY: the structure lives through the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const wanted) } {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(()),
    }
}

/// Asks for the lock until it is granted, or until the patience ends.
fn lock_patiently(file: BorrowedFd<'_>, kind: libc::c_int) -> Result<(), Errno> {
    let begin = Instant::now();
    loop {
        match lock(file, kind) {
            Err(Errno::AGAIN | Errno::ACCESS) if begin.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_micros(20));
            }
            other => return other,
        }
    }
}

/// The lock on a file. It is given up when this is dropped.
#[derive(Debug)]
pub(super) struct Locked<'f>(BorrowedFd<'f>);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let _ = lock(self.0, libc::F_UNLCK);
    }
}

/// Keeps a sync from ending while a reader copies the file. Returns nothing if the system has no
/// such locks, or a sync takes too long.
pub(super) fn lock_to_read(file: BorrowedFd<'_>) -> Option<Locked<'_>> {
    lock_patiently(file, libc::F_RDLCK).ok().map(|()| Locked(file))
}

/// Waits until no reader copies a file, and keeps readers from beginning.
pub(super) fn wait_for_readers(file: BorrowedFd<'_>) -> Locked<'_> {
    // If the system has no such locks, or a reader takes too long, its copy is refused by itself.
    let _ = lock_patiently(file, libc::F_WRLCK);
    Locked(file)
}
