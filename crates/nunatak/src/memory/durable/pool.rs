//! A mapped file: its header, and parts that grow by extents.
//!
//! Invariants
//! 1. The header's page stays mapped while the pool lives; a region holds the pool.
//! 2. The bytes of a region from its base to its committed end are the extents of its part, in
//!    order, each mapped once.
//! 3. An extent's pages exist on the disk before it is mapped. So a store fails only if another
//!    process has made the file shorter.
//! 4. An entry is stored when its pages are part of the file, and cleared before they are given
//!    back. Pages that are given back read as zero when a part gets them again, also after a crash:
//!    a barrier lies in between.

use super::backing::{Backing, error_of};
use super::extents::{Extent, Table};
use super::header::{self, Description, Kind, Page};
use super::journal::{Journal, Repeat};
use super::{ALIGNMENT, PAGE};
use crate::error::{Error, FileError};
use crate::memory::Part;
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicU64, Mutex, Ordering};
use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use rustix::mm::{MapFlags, ProtFlags};
use std::sync::OnceLock;

/// Extents from this size on begin where huge pages can, even if that leaves a hole in the file.
const HUGE_FROM: usize = 16 * ALIGNMENT;

/// Options of an open file, beside its contents.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// The size of the journal; zero: no journal.
    pub(crate) journal: u64,
    /// Whether the system is asked to map the file by huge pages.
    pub(crate) huge_pages: bool,
}

/// An open file.
#[derive(Debug)]
pub struct Pool {
    pub(super) backing: Backing,
    pub(super) page: Page,
    mapping: *mut c_void,
    pub(super) extents: Mutex<Table>,
    description: Description,
    was_closed: bool,
    pub(super) journal: OnceLock<Journal>,
    pub(super) repeat: Mutex<Repeat>,
    /// Whether the journal's transactions were repeated.
    pub(super) is_repeated: AtomicBool,
    wanted: Wanted,
    is_poisoned: AtomicBool,
    /// Whether the pool is neither poisoned nor read-only.
    is_open_to_changes: AtomicBool,
}

// SAFETY: the pool owns its mapping, whose words are atomic.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Creates a pool in a file of one page.
    pub(crate) fn create(
        backing: Backing,
        kind: Kind,
        description: &Description,
        wanted: Wanted,
    ) -> Result<Self, Error> {
        let header = header::encode(kind, description);
        backing.write_header(&header)?;
        let pool = Self::open(backing, kind, wanted)?;
        pool.start_journal(wanted.journal)?;
        pool.end_repeat();
        Ok(pool)
    }

    /// Opens the pool of a file with this kind of table.
    pub(crate) fn open(backing: Backing, kind: Kind, wanted: Wanted) -> Result<Self, Error> {
        let read = |error| error_of("read the header", error);
        let stat = rustix::fs::fstat(backing.file()).map_err(read)?;
        let bytes = stat.st_size as u64;
        let mut page = [0; header::HEADER];
        let mut filled = 0;
        while filled < page.len() {
            let rest = &mut page[filled..];
            match rustix::io::pread(backing.file(), rest, filled as u64).map_err(read)? {
                0 => break,
                more => filled += more,
            }
        }
        let description = header::decode(&page, kind)?;
        if bytes < PAGE as u64 {
            return Err(FileError::Truncated { bytes, expected: PAGE as u64 }.into());
        }
        // SAFETY: a new mapping at an address of the kernel's choice.
        let mapping = unsafe {
            rustix::mm::mmap(
                core::ptr::null_mut(),
                PAGE,
                ProtFlags::READ | ProtFlags::WRITE,
                backing.map_flags(),
                backing.file(),
                0,
            )
        };
        let mapping = mapping.map_err(|error| error_of("map the file", error))?;
        backing.mapped(mapping.addr(), PAGE, 0);
        // SAFETY: just mapped, and until the pool is dropped.
        let page = unsafe { Page::new(mapping.cast_const().cast()) };
        let is_read_only = backing.is_read_only();
        let was_closed = page.session().load(Ordering::Relaxed) == header::session(false);
        let mut pool = Self {
            backing,
            page,
            mapping,
            extents: Mutex::new(Table::default()),
            description,
            was_closed,
            journal: OnceLock::new(),
            repeat: Mutex::new(Repeat::default()),
            is_repeated: AtomicBool::new(false),
            wanted,
            is_poisoned: AtomicBool::new(false),
            is_open_to_changes: AtomicBool::new(!is_read_only),
        };
        pool.extents = Mutex::new(Table::read(|number| page.entry(number), bytes)?);
        if was_closed {
            pool.check_extents()?;
        }
        pool.repeat = Mutex::new(pool.read_journal()?);
        Ok(pool)
    }

    /// Returns an error if extents lie beyond the end of the file. The caller knows that no power
    /// cut is the reason.
    pub(super) fn check_extents(&self) -> Result<(), Error> {
        match self.extents.lock().missing {
            None => Ok(()),
            Some(expected) => {
                let bytes = self.actual_bytes()?;
                Err(FileError::Truncated { bytes, expected }.into())
            }
        }
    }

    pub(crate) fn description(&self) -> &Description {
        &self.description
    }

    pub(crate) fn backing(&self) -> &Backing {
        &self.backing
    }

    pub(crate) fn backing_mut(&mut self) -> &mut Backing {
        &mut self.backing
    }

    /// Reads a mapped range from the disk if need be, and maps its pages at once.
    pub(crate) fn populate(&self, address: *const u8, bytes: usize) {
        let page = rustix::param::page_size();
        let first = address.addr() / page * page;
        // SAFETY: the range is mapped; the advice changes no content. A kernel that
        // does not know it refuses it.
        let _ = unsafe {
            let start = address.with_addr(first).cast_mut().cast();
            let bytes = address.addr() + bytes - first;
            rustix::mm::madvise(start, bytes, rustix::mm::Advice::LinuxPopulateRead)
        };
    }

    /// Whether the file was closed after its last use.
    pub(crate) fn was_closed(&self) -> bool {
        self.was_closed
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.is_poisoned.load(Ordering::Relaxed)
    }

    pub(super) fn poison(&self) {
        self.is_poisoned.store(true, Ordering::Relaxed);
        self.is_open_to_changes.store(false, Ordering::Relaxed);
    }

    /// Whether the file may be changed.
    #[inline(always)]
    pub(crate) fn is_open_to_changes(&self) -> bool {
        self.is_open_to_changes.load(Ordering::Relaxed)
    }

    /// Whether the file says that it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.page.session().load(Ordering::Relaxed) == header::session(false)
    }

    /// Returns the word that a table has stored with [`Medium::set_root`].
    pub(crate) fn root(&self) -> u64 {
        self.page.root().load(Ordering::Relaxed)
    }

    /// Returns the size of a part in bytes.
    pub(crate) fn bytes_of(&self, part: Part) -> usize {
        self.extents.lock().of(part).map(|extent| extent.bytes()).sum()
    }

    /// Returns the bytes of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.extents.lock().end()
    }

    /// Returns the file's actual size, which another process may have changed.
    pub(super) fn actual_bytes(&self) -> Result<u64, Error> {
        let stat = rustix::fs::fstat(self.backing.file());
        Ok(stat.map_err(|error| error_of("ask for the file's size", error))?.st_size as u64)
    }

    /// Gives back what a crash has left behind the last extent, and clears entries of extents that
    /// do not exist. Returns whether the file was longer. Must come before any growth.
    pub(crate) fn trim(&self) -> Result<bool, Error> {
        if self.backing.is_read_only() {
            return Ok(false);
        }
        let table = self.extents.lock();
        for &number in &table.unused {
            self.store_entry(number, (0, 0));
        }
        let (end, actual) = (table.end(), self.actual_bytes()?);
        if actual > end {
            let given = self.backing.give_back(end, actual, true);
            given.map_err(|error| error_of("shorten the file", error))?;
        }
        Ok(actual > end)
    }

    /// Does the same as [`trim`](Self::trim), and marks the file as open.
    pub(crate) fn trim_and_open(&self) -> Result<(), Error> {
        if self.backing.is_read_only() {
            return Ok(());
        }
        self.trim()?;
        self.set_session(true);
        self.start_journal(self.wanted.journal)?;
        self.barrier()
    }

    /// Marks the file as open, or as closed with all of it durable.
    pub(crate) fn set_session(&self, is_open: bool) {
        self.store_word(self.page.session(), header::session(is_open));
        self.flush_word(self.page.session());
        self.backing.fence();
    }

    pub(super) fn store_word(&self, word: &AtomicU64, value: u64) {
        let address = core::ptr::from_ref(word).cast();
        // Release: in the order of the program, in which stores reach the line.
        self.backing.store(address, value, || word.store(value, Ordering::Release));
        if let Some(journal) = self.journal.get() {
            journal.note_unknown();
        }
    }

    /// Stores a word of a table.
    #[inline(always)]
    pub(crate) fn store_table_word(&self, word: &AtomicU64, value: u64, order: Ordering) {
        let address = core::ptr::from_ref(word).cast();
        self.backing.store(address, value, || word.store(value, order));
    }

    pub(super) fn flush_word(&self, word: &AtomicU64) {
        self.backing.flush(core::ptr::from_ref(word).cast(), 8);
    }

    fn store_entry(&self, number: usize, (first, second): (u64, u64)) {
        let entry = self.page.entry(number);
        self.store_word(entry.second, second);
        self.store_word(entry.first, first);
        if !seeded(Bug::ExtentUnflushed) {
            self.flush_word(entry.first);
        }
        self.backing.fence();
    }

    fn clear_entry(&self, number: usize) {
        let entry = self.page.entry(number);
        self.store_word(entry.first, 0);
        self.flush_word(entry.first);
        self.backing.fence();
    }

    /// Maps an extent at an address that a region has reserved.
    pub(super) fn map(&self, address: *mut u8, extent: &Extent) -> Result<(), Error> {
        let flags = self.backing.map_flags() | MapFlags::FIXED;
        // SAFETY: the addresses are a region's own, and nothing is mapped there yet.
        let mapped = unsafe {
            rustix::mm::mmap(
                address.cast(),
                extent.bytes(),
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
                self.backing.file(),
                extent.offset(),
            )
        };
        mapped.map_err(|error| error_of("map the file", error))?;
        if self.wanted.huge_pages {
            // SAFETY: just mapped; the advice changes no content. A kernel or file system without
            // huge pages refuses it, which changes nothing.
            let _ = unsafe {
                let advice = rustix::mm::Advice::LinuxHugepage;
                rustix::mm::madvise(address.cast(), extent.bytes(), advice)
            };
        }
        self.backing.mapped(address.addr(), extent.bytes(), extent.offset());
        Ok(())
    }

    /// Adds pages to a part, mapped at an address.
    pub(super) fn extend(&self, part: Part, address: *mut u8, bytes: usize) -> Result<(), Error> {
        let extent = self.add_extent(part, address.addr(), bytes)?;
        self.map(address, &extent)
    }

    /// Adds pages to a part, which the caller maps at an address.
    pub(super) fn add_extent(
        &self,
        part: Part,
        address: usize,
        bytes: usize,
    ) -> Result<Extent, Error> {
        if self.backing.is_read_only() {
            return Err(FileError::ReadOnly.into());
        }
        if self.is_poisoned() {
            return Err(FileError::Poisoned.into());
        }
        let mut table = self.extents.lock();
        let Some(&entry) = table.unused.last() else { return Err(Error::CapacityOverflow) };
        let end = table.end();
        let actual = self.actual_bytes()?;
        if actual < end {
            self.poison();
            return Err(FileError::Truncated { bytes: actual, expected: end }.into());
        }
        let number = table.of(part).count() as u16;
        let mut start = end;
        if bytes >= HUGE_FROM {
            // Huge pages of persistent memory need such a start both in the file and in the
            // addresses.
            let ahead = (address as u64).wrapping_sub(end) % ALIGNMENT as u64;
            start += ahead;
        }
        let (start, pages) = (start / PAGE as u64, (bytes / PAGE) as u64);
        let extent = Extent { part: part as u8, number, start, pages };
        self.backing.extend(extent.offset(), extent.end())?;
        if self.backing.is_ordered() {
            // The entry relies on the size.
            self.backing.barrier().map_err(|error| error_of("extend the file", error))?;
        }
        self.store_entry(entry, extent.encode());
        table.unused.pop();
        table.extents.push((entry, extent));
        table.extents.sort_by_key(|(_, extent)| (extent.part, extent.number));
        Ok(extent)
    }

    /// Takes away the last extents of a part that are not needed for its first `bytes` bytes. The
    /// bytes beyond then read as zero, or as what was stored there since, and belong to no other
    /// part.
    pub(super) fn give_back(
        &self,
        part: Part,
        base: *mut u8,
        bytes: usize,
    ) -> Result<usize, Error> {
        if self.backing.is_read_only() {
            return Ok(self.bytes_of(part));
        }
        let mut table = self.extents.lock();
        let mut committed: usize = table.of(part).map(|extent| extent.bytes()).sum();
        let mut has_changed = false;
        while let Some(at) = table.extents.iter().rposition(|(_, e)| e.part == part as u8)
            && committed - table.extents[at].1.bytes() >= bytes
        {
            let (entry, extent) = table.extents[at];
            committed -= extent.bytes();
            self.clear_entry(entry);
            // SAFETY: the range is the region's own, and its contents were given up.
            let forgotten = unsafe {
                rustix::mm::mmap_anonymous(
                    base.add(committed).cast(),
                    extent.bytes(),
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED,
                )
            };
            let is_last = extent.end() == table.end();
            table.extents.remove(at);
            table.unused.push(entry);
            // If nothing lies behind it, free pages in front of it go as well.
            let from = if is_last { table.end() } else { extent.offset() };
            let given = forgotten.and_then(|_| self.backing.give_back(from, extent.end(), is_last));
            given.map_err(|error| error_of("give pages of the file back", error))?;
            has_changed = true;
        }
        drop(table);
        if has_changed {
            self.barrier()?;
        }
        Ok(committed)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: mapped in `open`; regions hold the pool, so no region uses it any more.
        let _ = unsafe { rustix::mm::munmap(self.mapping, PAGE) };
        if let Some(journal) = self.journal.get() {
            // SAFETY: the journal's own mapping, which ends with the journal.
            let _ = unsafe { rustix::mm::munmap(journal.base.cast(), journal.bytes) };
        }
    }
}
