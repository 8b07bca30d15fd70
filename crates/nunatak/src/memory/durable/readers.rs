//! The lock between a sync and the readers that copy the file meanwhile.

use super::byte_lock::{self, Lock};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// The byte that readers lock.
const LOCKED: i64 = 1 << 62;

/// So long a sync waits for a reader. A reader that was stopped must not stop others for ever.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks for the lock until it is granted, or until the patience ends.
fn lock_patiently(file: BorrowedFd<'_>, lock: Lock) -> Result<(), Errno> {
    let begin = Instant::now();
    loop {
        match byte_lock::set(file, lock, LOCKED) {
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
        let _ = byte_lock::set(self.0, Lock::None, LOCKED);
    }
}

/// Keeps a sync from ending while a reader copies the file. Returns nothing if the system has no
/// such locks, or a sync takes too long.
pub(super) fn lock_to_read(file: BorrowedFd<'_>) -> Option<Locked<'_>> {
    lock_patiently(file, Lock::Shared).ok().map(|()| Locked(file))
}

/// Waits until no reader copies a file, and keeps readers from beginning.
pub(super) fn wait_for_readers(file: BorrowedFd<'_>) -> Locked<'_> {
    // If the system has no such locks, or a reader takes too long, its copy is refused by itself.
    let _ = lock_patiently(file, Lock::Exclusive);
    Locked(file)
}

#[cfg(test)]
mod tests {
    use super::super::{Backing, Kind, Media, Paged, Pool, Wanted};
    use super::*;
    use crate::memory::Medium;
    use rustix::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn a_sync_waits_for_a_reader() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        let mut backing = Backing::create(&path, Media::PageCache).unwrap();
        backing.unpublished().unwrap().publish().unwrap();
        let pool = Pool::create(backing, Kind::Pea, &[0; 12], Wanted::default()).unwrap();
        let medium = Paged::new(pool, 1 << 24).unwrap();
        medium.end_recovery().unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let locked = lock_to_read(file.as_fd()).unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                medium.sync(|run| run()).unwrap();
                is_done.store(true, Relaxed);
            });
            std::thread::sleep(Duration::from_millis(200));
            assert!(!is_done.load(Relaxed), "the reader has the lock");
            drop(locked);
        });
        assert!(is_done.load(Relaxed) && medium.settled() > 0);
    }
}
