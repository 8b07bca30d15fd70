//! Where a pool's file is, and how stores to it become durable.

use super::PAGE;
use super::readers::{self, Locked};
use super::recorder::Recorder;
use super::{flush, header, schema_block};
use crate::Schema;
use crate::error::{Error, FileError};
use crate::sync::Mutex;
use crate::unfinished::{hidden_path, sync_name};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, RenameFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::Resource;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After a refusal for want of room the disk is not asked for as long as this.
const PATIENCE: Duration = Duration::from_millis(10);

/// What a file is on, and how its stores become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    /// A disk, behind the page cache: by syncs.
    PageCache,
    /// Persistent memory: by write-backs of lines, and fences.
    PersistentMemory,
    /// A disk that is used like persistent memory, to measure that. A line takes so much longer.
    Emulated(Duration),
}

/// A file, and how its stores become durable.
#[derive(Debug)]
pub struct Backing {
    file: OwnedFd,
    is_read_only: bool,
    /// Whether no other process relies on this backing. So it locks nothing, and makes nothing
    /// durable.
    is_private: bool,
    /// Whether the file is on persistent memory, and is used as such.
    is_persistent_memory: bool,
    /// Whether the file is used as such though it may be on a disk: then how much longer a line takes
    /// that is written back.
    emulated: Option<Duration>,
    /// In a simulation: it is told of every event.
    recorder: Option<Arc<Recorder>>,
    /// A number for this file since the machine was started, if it is known.
    since: Option<u64>,
    /// While the file is made: its temporary path, and its final one.
    temporary: Option<Unpublished>,
    /// How many bytes the disk had no room for last, and when.
    full: Mutex<Option<(u64, Instant)>>,
}

/// A file that has only a temporary name yet.
#[derive(Debug)]
pub(crate) struct Unpublished {
    temporary: PathBuf,
    path: PathBuf,
    is_published: bool,
}

impl Media {
    fn emulated(self) -> Option<Duration> {
        match self {
            Self::Emulated(latency) => Some(latency),
            Self::PageCache | Self::PersistentMemory => None,
        }
    }
}

impl Backing {
    /// Creates a file that appears at `path` when it is [published](Self::publish), and not before:
    /// no process finds a half-made file.
    pub(crate) fn create(path: &Path, media: Media) -> Result<Self, Error> {
        let unpublished = Unpublished::new(path, "new")?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::open(&unpublished.temporary, flags, Mode::from_raw_mode(0o644))
            .map_err(|error| error_of("create the file", error))?;
        let temporary = Some(unpublished);
        let backing = Self {
            since: since(&file),
            file,
            is_read_only: false,
            is_private: false,
            is_persistent_memory: media != Media::PageCache,
            emulated: media.emulated(),
            recorder: None,
            temporary,
            full: Mutex::default(),
        };
        backing.lock(FlockOperation::NonBlockingLockExclusive)?;
        backing.extend(0, PAGE as u64)?;
        backing.check_persistent_memory()?;
        Ok(backing)
    }

    /// Opens a file that exists.
    pub(crate) fn open(path: &Path, is_read_only: bool, media: Media) -> Result<Self, Error> {
        let access = if is_read_only { OFlags::RDONLY } else { OFlags::RDWR };
        // Does not wait for the other end of a pipe.
        let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| error_of("open the file", error))?;
        let backing = Self {
            since: since(&file),
            file,
            is_read_only,
            is_private: false,
            is_persistent_memory: media != Media::PageCache && !is_read_only,
            emulated: media.emulated(),
            recorder: None,
            temporary: None,
            full: Mutex::default(),
        };
        let stat =
            rustix::fs::fstat(&backing.file).map_err(|error| error_of("open the file", error))?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
            return Err(FileError::NotAMap.into());
        }
        backing.lock(match is_read_only {
            true => FlockOperation::NonBlockingLockShared,
            false => FlockOperation::NonBlockingLockExclusive,
        })?;
        if stat.st_size >= PAGE as i64 {
            backing.check_persistent_memory()?;
        }
        Ok(backing)
    }

    /// Returns the same file, to be read. Changes stay in this process.
    pub(crate) fn rehearsal(&self) -> Result<Self, Error> {
        let file = rustix::io::fcntl_dupfd_cloexec(&self.file, 0);
        Ok(Self {
            file: file.map_err(|error| error_of("open the file", error))?,
            is_read_only: true,
            is_private: true,
            is_persistent_memory: false,
            emulated: None,
            recorder: None,
            since: self.since,
            temporary: None,
            full: Mutex::default(),
        })
    }

    /// Returns a copy of a file, to be read. No other process changes the copy.
    pub(super) fn of_copy(file: OwnedFd) -> Self {
        Self { is_read_only: true, ..Self::of_nameless(file) }
    }

    /// Returns a file that has no name, and that is gone with its last descriptor.
    pub(super) fn of_nameless(file: OwnedFd) -> Self {
        Self {
            file,
            is_read_only: false,
            is_private: true,
            is_persistent_memory: false,
            emulated: None,
            recorder: None,
            since: None,
            temporary: None,
            full: Mutex::default(),
        }
    }

    /// Waits until no process copies the file as of its last sync.
    pub(super) fn wait_for_readers(&self) -> Option<Locked<'_>> {
        (!self.is_simulated()).then(|| readers::wait_for_readers(self.file()))
    }

    /// Makes a file in memory with these contents, and tells a recorder of every event. The caller
    /// says whether the machine was started again since the contents were stored.
    pub(crate) fn simulated(
        contents: &[u8],
        is_persistent_memory: bool,
        was_started_again: bool,
        recorder: Arc<Recorder>,
    ) -> Result<Self, Error> {
        let simulate = |error| error_of("simulate a file", error);
        let file = rustix::fs::memfd_create("nunatak", rustix::fs::MemfdFlags::CLOEXEC);
        let file = file.map_err(simulate)?;
        rustix::fs::ftruncate(&file, (contents.len() as u64).max(PAGE as u64)).map_err(simulate)?;
        // Most of a small map's image is zero, and writing it took a fifth of the time of crash tests.
        for (number, page) in contents.chunks(4096).enumerate() {
            let (mut at, mut rest) = (number as u64 * 4096, page);
            while !rest.is_empty() && page != &ZEROS[..page.len()] {
                let written = rustix::io::pwrite(&file, rest, at).map_err(simulate)?;
                at += written as u64;
                rest = &rest[written..];
            }
        }
        let before = header::since_of(contents).max(FIRST_START);
        Ok(Self {
            file,
            is_read_only: false,
            is_private: false,
            is_persistent_memory,
            emulated: None,
            recorder: Some(recorder),
            since: Some(before + u64::from(was_started_again)),
            temporary: None,
            full: Mutex::default(),
        })
    }

    fn lock(&self, operation: FlockOperation) -> Result<(), Error> {
        rustix::fs::flock(&self.file, operation).map_err(|error| error_of("lock the file", error))
    }

    /// Lets others open the file, though forks of this process have it open.
    pub(super) fn unlock(&self) {
        if !self.is_private {
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
    }

    /// Checks that a synchronous mapping is possible, if one is wanted.
    fn check_persistent_memory(&self) -> Result<(), Error> {
        if !self.is_persistent_memory {
            return Ok(());
        }
        if !flush::is_supported() {
            return Err(FileError::NotPersistentMemory.into());
        }
        // SAFETY: a new mapping at an address of the kernel's choice; nothing refers to it.
        unsafe {
            let flags = self.map_flags();
            let page = rustix::mm::mmap(
                core::ptr::null_mut(),
                PAGE,
                ProtFlags::READ,
                flags,
                &self.file,
                0,
            );
            let page = page.map_err(|_| FileError::NotPersistentMemory)?;
            let _ = rustix::mm::munmap(page, PAGE);
        }
        Ok(())
    }

    /// Takes the part that gives a created file its name, when the file is complete.
    pub(crate) fn unpublished(&mut self) -> Option<Unpublished> {
        self.temporary.take()
    }
}

impl Unpublished {
    /// Chooses a temporary name for a file that is to appear at `path`. The name is drawn: others
    /// may create a file of this name at the same time.
    pub(crate) fn new(path: &Path, purpose: &str) -> Result<Self, Error> {
        if path.symlink_metadata().is_ok() {
            return Err(FileError::Exists.into());
        }
        let temporary =
            hidden_path(path, purpose).ok_or_else(|| error_of("create the file", Errno::ISDIR))?;
        Ok(Self { temporary, path: path.to_owned(), is_published: false })
    }

    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Gives the file its name, durably.
    pub(crate) fn publish(mut self) -> Result<(), Error> {
        let renamed = rename(&self.temporary, &self.path);
        renamed.map_err(|error| error_of("name the file", error))?;
        self.is_published = true;
        sync_name(&self.path).map_err(|error| {
            let error = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            error_of("make the file's name durable", error)
        })
    }
}

impl Drop for Unpublished {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Reads both copies of the header without opening a file as a map, or as much as there is.
fn read_headers(path: &Path) -> Result<Vec<u8>, Error> {
    // Does not wait for the other end of a pipe.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut page = vec![0; 2 * super::HEADER];
    let file = rustix::fs::open(path, flags, Mode::empty());
    let read = file.and_then(|file| rustix::io::pread(file, &mut page, 0));
    page.truncate(read.map_err(|error| error_of("open the file", error))?);
    Ok(page)
}

/// Returns the schema of a file without opening it as a map.
pub(crate) fn schema_of(path: &Path) -> Result<Option<&'static Schema>, Error> {
    let page = read_headers(path)?;
    header::kind_of(&page)?;
    match header::has_schema(&page) {
        true => schema_block::read(&page).map(Some),
        false => Ok(None),
    }
}

/// Returns the kind of a file without opening it as a map; nothing if this version does not know
/// the kind.
pub(crate) fn kind_of(path: &Path) -> Result<Option<header::Kind>, Error> {
    let number = header::kind_of(&read_headers(path)?)?;
    let known = [
        header::Kind::Iceberg,
        header::Kind::Pea,
        header::Kind::PeaMulti,
        header::Kind::Turbo,
        header::Kind::TurboBlobs,
        header::Kind::PeaBlobs,
        header::Kind::IcebergBlobs,
    ];
    Ok(known.into_iter().find(|&kind| kind as u64 == number))
}

/// The least number of a start of the machine.
const FIRST_START: u64 = header::UNKNOWN + 1;

/// Returns a number that differs after each start of the machine, and for each copy of a file. (The
/// number of a deleted file's inode is given to another file, so the time of its birth counts, too.)
fn since(file: &OwnedFd) -> Option<u64> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let flags = StatxFlags::INO | StatxFlags::BTIME;
    let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, flags).ok()?;
    let born = (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec);
    let device = (stat.stx_dev_major, stat.stx_dev_minor);
    let name = format!("{} {device:?} {} {born:?}", boot.trim(), stat.stx_ino);
    Some((xxhash_rust::xxh3::xxh3_64(name.as_bytes()) & header::MOST).max(FIRST_START))
}

/// Renames a file to a name that is not taken.
fn rename(from: &Path, to: &Path) -> Result<(), Errno> {
    let here = rustix::fs::CWD;
    match rustix::fs::renameat_with(here, from, here, to, RenameFlags::NOREPLACE) {
        // Not every file system can do that at once; a link can't replace anything.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::link(from, to).and_then(|()| rustix::fs::unlink(from))
        }
        other => other,
    }
}

impl Backing {
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(crate) fn is_simulated(&self) -> bool {
        self.recorder.is_some()
    }

    /// Whether stores stay in this process.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Whether fences order what becomes durable.
    #[inline(always)]
    pub(crate) fn is_ordered(&self) -> bool {
        self.is_persistent_memory
    }

    /// Returns a number for this file since the machine was started, if it is known. Stores since
    /// then are still in the page cache.
    pub(super) fn since(&self) -> Option<u64> {
        self.since
    }

    pub(super) fn map_flags(&self) -> MapFlags {
        if self.is_read_only {
            // Changes by recovery stay in this process.
            MapFlags::PRIVATE
        } else if self.is_persistent_memory && self.emulated.is_none() && self.recorder.is_none() {
            MapFlags::SHARED_VALIDATE | MapFlags::SYNC
        } else {
            MapFlags::SHARED
        }
    }

    /// Learns that so many bytes from an offset of the file are mapped at an address.
    pub(super) fn mapped(&self, address: usize, bytes: usize, offset: u64) {
        if let Some(recorder) = &self.recorder {
            recorder.mapped(address, bytes, offset);
        }
    }

    /// Writes the beginning of a new file.
    pub(super) fn write_header(&self, header: &[u8]) -> Result<(), Error> {
        let written = rustix::io::pwrite(&self.file, header, 0);
        if written.map_err(|error| error_of("write the header", error))? != header.len() {
            return Err(FileError::Full.into());
        }
        if let Some(recorder) = &self.recorder {
            recorder.wrote(header);
        }
        Ok(())
    }

    /// Records that `store` stores a word.
    #[inline(always)]
    pub(super) fn store(&self, address: *const u8, word: u64, store: impl FnOnce()) {
        match &self.recorder {
            None => store(),
            Some(_) => self.store_if(address, word, || {
                store();
                true
            }),
        }
    }

    /// Records a word if `store` returns that it has stored it.
    pub(super) fn store_if(&self, address: *const u8, word: u64, store: impl FnOnce() -> bool) {
        match &self.recorder {
            None => {
                store();
            }
            Some(recorder) => recorder.store(address, word, store),
        }
    }

    /// Records that `store` stores many neighbouring words.
    pub(super) fn store_page(&self, address: *const u8, words: &[u64], store: impl FnOnce()) {
        match &self.recorder {
            None => store(),
            Some(recorder) => recorder.store_page(address, words.to_vec(), store),
        }
    }

    /// Records that `store` stores byte strings one behind the other, from a multiple of eight on.
    #[inline(always)]
    pub(super) fn write(&self, address: *const u8, parts: &[&[u8]], store: impl FnOnce()) {
        match &self.recorder {
            None => store(),
            Some(recorder) => {
                let mut bytes = parts.concat();
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                let words = bytes.chunks_exact(8).map(|word| word.try_into().unwrap_or_default());
                recorder.store_page(address, words.map(u64::from_ne_bytes).collect(), store);
            }
        }
    }

    /// Starts to make the lines of a range durable.
    #[inline(always)]
    pub(super) fn flush(&self, address: *const u8, bytes: usize) {
        if self.is_persistent_memory {
            match &self.recorder {
                None => flush::flush(address, bytes, self.emulated),
                Some(recorder) => recorder.flush(address, bytes),
            }
        }
    }

    /// Makes this thread's flushed stores durable.
    #[inline(always)]
    pub(super) fn fence(&self) {
        if self.is_persistent_memory {
            match &self.recorder {
                None => flush::fence(),
                Some(recorder) => recorder.fence(),
            }
        }
    }

    /// Makes all of the file and its size durable.
    pub(super) fn barrier(&self) -> Result<(), Errno> {
        match &self.recorder {
            _ if self.is_read_only || self.is_private => Ok(()),
            None => rustix::fs::fdatasync(&self.file),
            Some(recorder) => recorder.barrier(),
        }
    }

    /// Forgets what the system holds of the file and could not write to the disk, after a sync has
    /// failed: it takes such pages for written. What it can write it writes first.
    pub(super) fn forget_unwritten(&self) -> Result<(), Error> {
        if self.is_simulated() || self.is_ordered() {
            return Ok(());
        }
        let failed = |error| error_of("write the file", error);
        rustix::fs::fdatasync(&self.file).map_err(failed)?;
        rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed).map_err(failed)
    }

    /// Makes so many bytes durable that are mapped at an address, from an offset of the file. The
    /// file's size may not be durable.
    pub(super) fn sync_range(
        &self,
        address: *const u8,
        bytes: usize,
        offset: u64,
    ) -> Result<(), Errno> {
        if let Some(recorder) = &self.recorder {
            return recorder.sync_range(offset, offset + bytes as u64);
        }
        let page = rustix::param::page_size();
        let first = address.addr() / page * page;
        // SAFETY: the pages are mapped; their contents do not change.
        unsafe {
            let start = address.with_addr(first).cast_mut().cast();
            let bytes = address.addr() + bytes - first;
            rustix::mm::msync(start, bytes, rustix::mm::MsyncFlags::SYNC)
        }
    }

    /// Extends the file to `to` bytes. The bytes from `from` on are new, and get blocks on the
    /// disk.
    pub(super) fn extend(&self, from: u64, to: u64) -> Result<(), Error> {
        let file = self.file();
        // Beyond its limit the system would end the process by a signal.
        let limit = rustix::process::getrlimit(Resource::Fsize).current;
        if self.was_full_just_now(to - from) || limit.is_some_and(|most| to > most) {
            return Err(FileError::Full.into());
        }
        if let Some(recorder) = &self.recorder {
            recorder.resized(to)?;
        }
        let extended = match rustix::fs::fallocate(file, FallocateFlags::empty(), from, to - from) {
            // Not every file system can reserve blocks; all can be written to.
            Err(Errno::OPNOTSUPP) => write_zeros(file, from, to),
            other => other,
        };
        extended.map_err(|error| {
            // Undoes a partial extension. If that fails, too, the file is trimmed when it is opened
            // next.
            let _ = rustix::fs::ftruncate(file, from);
            let error = error_of("extend the file", error);
            if error == FileError::Full.into() {
                *self.full.lock() = Some((to - from, Instant::now()));
            }
            error
        })
    }

    /// Whether the disk had no room for as many bytes a moment ago. On a full disk every insert
    /// asks for room; this saves most of the system calls.
    fn was_full_just_now(&self, bytes: u64) -> bool {
        let full = *self.full.lock();
        full.is_some_and(|(refused, when)| bytes >= refused && when.elapsed() < PATIENCE)
    }

    /// Gives bytes of the file back; shortens the file if they are the last.
    pub(super) fn give_back(&self, from: u64, to: u64, is_last: bool) -> Result<(), Errno> {
        if let Some(recorder) = &self.recorder {
            recorder.given_back(from, to, is_last);
        }
        *self.full.lock() = None;
        if is_last {
            return rustix::fs::ftruncate(self.file(), from);
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(self.file(), flags, from, to - from) {
            // The blocks stay allocated.
            Err(Errno::OPNOTSUPP) => Ok(()),
            other => other,
        }
    }
}

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

fn write_zeros(file: BorrowedFd<'_>, from: u64, to: u64) -> Result<(), Errno> {
    let mut at = from;
    while at < to {
        let bytes = (to - at).min(ZEROS.len() as u64) as usize;
        at += rustix::io::pwrite(file, &ZEROS[..bytes], at)? as u64;
    }
    Ok(())
}

/// Turns an error of the system into one for the caller.
pub(super) fn error_of(action: &'static str, error: Errno) -> Error {
    match error {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => FileError::Full,
        Errno::EXIST => FileError::Exists,
        Errno::WOULDBLOCK => FileError::InUse,
        other => FileError::Io { action, code: other.raw_os_error() },
    }
    .into()
}
