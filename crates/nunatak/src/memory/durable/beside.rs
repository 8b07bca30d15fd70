//! Copies of files that another process has open and changes: their last sync.
//!
//! A file whose pages are copied before they change holds the state of its last sync at any time,
//! until the next sync has ended: only then its pages are used again. So a copy that was read
//! between two such moments is what a power cut leaves. A reader keeps the next one away by a lock,
//! for which the process that syncs waits, within bounds. Afterwards the reader looks whether
//! something has happened all the same.
//!
//! Other files change where their slots are. Their process makes a snapshot, in a file without a
//! name, for readers that [ask](super::request) for it.

use super::PAGE;
use super::backing::{Backing, error_of};
use super::extents::{Extent, Table};
use super::header::{self, Field, Kind, Page};
use super::pool::Pool;
use super::readers::lock_to_read;
use crate::error::{Error, FileError};
use crate::memory::Part;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// How often a copy is tried: a file may grow or shrink meanwhile.
const ATTEMPTS: usize = 8;

/// What must not change while a file is copied.
#[derive(Debug)]
struct State {
    /// The last durable epoch, the session and its start of the machine.
    fields: [u64; 3],
    extents: Vec<(usize, Extent)>,
    /// Whether all extents were within the file when its size was asked.
    is_whole: bool,
}

impl State {
    /// Whether what the last durable epoch names is still there. (Extents that were added since hold
    /// nothing of it.)
    fn is_kept(&self, after: &Self) -> bool {
        let is_there = |extent| after.extents.contains(extent);
        self.is_whole && self.fields == after.fields && self.extents.iter().all(is_there)
    }
}

/// Reads the first page of a file. Returns an error unless the file can be copied while it is
/// changed.
fn first_page(file: BorrowedFd<'_>) -> Result<(Vec<u64>, State), Error> {
    let read = |error| error_of("read the header", error);
    let mut bytes = vec![0; PAGE];
    let mut filled = 0;
    while filled < PAGE {
        match rustix::io::pread(file, &mut bytes[filled..], filled as u64).map_err(read)? {
            0 => return Err(FileError::NotAMap.into()),
            more => filled += more,
        }
    }
    if header::kind_of(&bytes[..2 * super::HEADER])? == Kind::Iceberg as u64 {
        return Err(FileError::InUse.into());
    }
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
        .collect();
    // SAFETY: the words live longer than the page, which is read only.
    let page = unsafe { Page::new(words.as_ptr().cast()) };
    page.check()?;
    let fields = [Field::Root, Field::Session, Field::Since].map(|field| page.load(field));
    let [root, session, since] = fields;
    // Not before: the file may have grown.
    let size = rustix::fs::fstat(file).map_err(read)?.st_size as u64;
    let extents = Table::read(|copy, number| page.entry(copy, number), size, None)?;
    if extents.of(Part::Pages).next().is_none() {
        // A file on persistent memory: its slots change where they are.
        return Err(FileError::InUse.into());
    }
    let (fields, is_whole) = ([root?, session?, since?], extents.missing.is_none());
    Ok((words, State { fields, extents: extents.extents, is_whole }))
}

/// Copies the last sync of a file that another process may have open, to a file without a name.
///
/// # Errors
/// [`FileError::InUse`] if the file is of another kind, or changes all the time.
pub(crate) fn copy_beside(path: &Path) -> Result<Backing, Error> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = |error| error_of("open the file", error);
    let source = rustix::fs::open(path, flags, Mode::empty()).map_err(open)?;
    for _ in 0..ATTEMPTS {
        let locked = lock_to_read(source.as_fd());
        let (page, before) = first_page(source.as_fd())?;
        let copy = copy_all(path, &source)?;
        let (_, after) = first_page(source.as_fd())?;
        drop(locked);
        if before.is_kept(&after) {
            let bytes: Vec<u8> = page.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let mut at = 0;
            while at < bytes.len() {
                let written = rustix::io::pwrite(&copy, &bytes[at..], at as u64);
                at += written.map_err(|error| error_of("copy the file", error))?;
            }
            return Ok(Backing::of_copy(copy));
        }
    }
    Err(FileError::InUse.into())
}

/// Copies all bytes of a file.
fn copy_all(path: &Path, source: &OwnedFd) -> Result<OwnedFd, Error> {
    let failed = |error| error_of("copy the file", error);
    let copy = nameless(path).map_err(failed)?;
    // Where the file system shares blocks, this takes no time and no room.
    if rustix::fs::ioctl_ficlone(&copy, source).is_ok() {
        return Ok(copy);
    }
    let copied = (|| {
        let (mut from, mut to) = (File::from(source.try_clone()?), File::from(copy.try_clone()?));
        std::io::Seek::rewind(&mut from)?;
        std::io::copy(&mut from, &mut to)
    })();
    let errno = |error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    copied.map_err(errno).map_err(failed)?;
    Ok(copy)
}

/// Makes a file for a snapshot of an open file: without a name, beside that file or in RAM. Returns
/// it, and a descriptor by which it can only be read.
pub(crate) fn file_for_snapshot(pool: &Pool) -> Result<(Backing, OwnedFd), Error> {
    let failed = |error| error_of("create the file", error);
    let of_descriptor = |file: BorrowedFd<'_>| format!("/proc/self/fd/{}", file.as_raw_fd());
    let open = pool.backing().file();
    // Where the file is now: it may have been renamed, and the process may be elsewhere. A file that
    // was removed is nowhere.
    let is_removed = rustix::fs::fstat(open).map_err(failed)?.st_nlink == 0;
    let path = std::fs::read_link(of_descriptor(open)).ok().filter(|_| !is_removed);
    let snapshot = path.map_or_else(in_memory, |path| nameless(&path)).map_err(failed)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let to_read = rustix::fs::open(of_descriptor(snapshot.as_fd()), flags, Mode::empty());
    let to_read = to_read.map_err(failed)?;
    let backing = Backing::of_nameless(snapshot);
    backing.extend(0, PAGE as u64)?;
    Ok((backing, to_read))
}

/// Makes a file that is gone when it is closed: beside the other one, or in RAM if the directory
/// can't be written to.
fn nameless(path: &Path) -> Result<OwnedFd, Errno> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let beside = directory.unwrap_or(Path::new("."));
    rustix::fs::open(beside, flags, Mode::from_raw_mode(0o600)).or_else(|_| in_memory())
}

fn in_memory() -> Result<OwnedFd, Errno> {
    rustix::fs::memfd_create("nunatak", MemfdFlags::CLOEXEC)
}
