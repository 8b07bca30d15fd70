//! Locks on single bytes of a file, far behind its end.
//!
//! Such a lock belongs to the open file (`F_OFD_*`), not to the process: it ends when the last
//! descriptor of that open file is closed. It has nothing to do with the lock that keeps other maps
//! out.

use core::ops::Range;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Lock {
    Shared = libc::F_RDLCK,
    Exclusive = libc::F_WRLCK,
    None = libc::F_UNLCK,
}

fn call(
    file: BorrowedFd<'_>,
    command: libc::c_int,
    lock: Lock,
    bytes: &Range<i64>,
) -> Result<libc::flock, Errno> {
    // SAFETY: zeros are valid for this structure of numbers.
    let mut wanted: libc::flock = unsafe { core::mem::zeroed() };
    wanted.l_type = lock as libc::c_short;
    wanted.l_whence = libc::SEEK_SET as libc::c_short;
    wanted.l_start = bytes.start;
    wanted.l_len = bytes.end - bytes.start;
    // SAFETY: the structure lives through the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut wanted) } {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(wanted),
    }
}

/// Asks for a lock on a byte, or gives it up. Does not wait. An exclusive lock needs a file that was
/// opened to be written.
pub(super) fn set(file: BorrowedFd<'_>, lock: Lock, byte: i64) -> Result<(), Errno> {
    call(file, libc::F_OFD_SETLK, lock, &(byte..byte + 1)).map(drop)
}

/// Returns a byte of a range on which another open file has an exclusive lock.
pub(super) fn find(file: BorrowedFd<'_>, bytes: Range<i64>) -> Result<Option<i64>, Errno> {
    // A shared lock is what an exclusive one is in the way of.
    let found = call(file, libc::F_OFD_GETLK, Lock::Shared, &bytes)?;
    let is_locked = i32::from(found.l_type) != Lock::None as i32;
    Ok((is_locked && bytes.contains(&found.l_start)).then_some(found.l_start))
}
