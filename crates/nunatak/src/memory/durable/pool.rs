//! A mapped file: its header, and parts that grow by extents.
//!
//! Invariants
//! 1. The header's page stays mapped while the pool lives; a region holds the pool.
//! 2. The bytes of a region from its base to its committed end are the extents of its part, in
//!    order, each mapped once. If the file is only read, or is rehearsed, memory of this process
//!    follows, which is no part of the file: recovery may need room.
//! 3. An extent's pages exist on the disk before it is mapped. So a store fails only if another
//!    process has made the file shorter.
//! 4. An entry is stored when its pages are part of the file, and cleared before they are given
//!    back. Pages that are given back read as zero when a part gets them again, also after a crash:
//!    a barrier lies in between.
//! 5. Opening a file changes nothing in it before [`begin_session`](Pool::begin_session), which is
//!    called when the file has been validated.

use super::PAGE;
use super::backing::{Backing, error_of};
use super::damage::{Damages, Forced, is_damage};
use super::extents::Table;
use super::header::{self, Description, Field, Kind, Page};
use super::journal::{Journal, Repeat};
use super::owner::Owner;
use crate::Schema;
use crate::error::{Error, FileError};
use crate::memory::Part;
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicU64, Mutex, Ordering};
use core::ffi::c_void;
use core::ops::Range;
use core::sync::atomic::AtomicBool;
use rustix::mm::ProtFlags;
use std::sync::OnceLock;

/// Options of an open file, beside its contents.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// The size of the journal; zero: no journal.
    pub(crate) journal: u64,
    /// Whether the system is asked to map the file by huge pages.
    pub(crate) huge_pages: bool,
    /// Whether the power was cut, though the header may say otherwise: the file is a copy.
    pub(crate) after_power_cut: bool,
    /// Whether a new file keeps checksums of its pages.
    pub(crate) page_checksums: bool,
    /// Whether a damaged file is read.
    pub(crate) forced: Option<Forced>,
    /// The schema of a new file, and the one that an existing file must have.
    pub(crate) schema: Option<&'static Schema>,
}

/// An open file.
#[derive(Debug)]
pub struct Pool {
    pub(super) backing: Backing,
    pub(super) page: Page,
    mapping: *mut c_void,
    pub(super) extents: Mutex<Table>,
    kind: Kind,
    description: Description,
    was_closed: bool,
    was_cut: bool,
    pub(super) journal: OnceLock<Journal>,
    /// The addresses at which parts are mapped.
    pub(super) regions: Mutex<Vec<(Part, Range<usize>)>>,
    pub(super) repeat: Mutex<Repeat>,
    /// Whether the journal's transactions were repeated.
    pub(super) is_repeated: AtomicBool,
    pub(super) wanted: Wanted,
    is_poisoned: AtomicBool,
    /// What has poisoned the pool.
    failure: OnceLock<Error>,
    damages: Damages,
    owner: Owner,
    before_sync: OnceLock<BeforeSync>,
    /// The number of the last sync that is durable.
    pub(super) last_sync: AtomicU64,
}

/// What runs before the state of a sync is durable.
struct BeforeSync(Box<dyn Fn() -> Result<(), Error> + Send + Sync>);

impl core::fmt::Debug for BeforeSync {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("BeforeSync")
    }
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
        backing.write_header(&header::encode(kind, description, wanted.schema))?;
        let pool = Self::open(backing, kind, wanted)?;
        pool.begin_session()?;
        pool.end_repeat();
        Ok(pool)
    }

    /// Opens the pool of a file with this kind of table. Changes nothing in the file.
    pub(crate) fn open(backing: Backing, kind: Kind, wanted: Wanted) -> Result<Self, Error> {
        let read = |error| error_of("read the header", error);
        let stat = rustix::fs::fstat(backing.file()).map_err(read)?;
        let bytes = stat.st_size as u64;
        let mut page = [0; 2 * super::HEADER];
        let mut filled = 0;
        while filled < page.len() {
            let rest = &mut page[filled..];
            match rustix::io::pread(backing.file(), rest, filled as u64).map_err(read)? {
                0 => break,
                more => filled += more,
            }
        }
        let description = header::decode_page(&page, kind)?;
        let has_failed = header::has_failed(&page);
        if has_failed {
            backing.forget_unwritten()?;
        }
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
        let mut pool = Self {
            backing,
            page,
            mapping,
            extents: Mutex::new(Table::default()),
            kind,
            description,
            was_closed: false,
            was_cut: false,
            journal: OnceLock::new(),
            regions: Mutex::default(),
            repeat: Mutex::new(Repeat::default()),
            is_repeated: AtomicBool::new(false),
            wanted,
            is_poisoned: AtomicBool::new(false),
            failure: OnceLock::new(),
            damages: Damages::default(),
            owner: Owner::new(!is_read_only)?,
            before_sync: OnceLock::new(),
            last_sync: AtomicU64::new(page.load(Field::Root).unwrap_or(0)),
        };
        pool.tolerate(page.check(), || ())?;
        pool.tolerate(pool.check_schema(), || ())?;
        let session = match page.load(Field::Session) {
            Ok(header::CLOSED) => Ok(true),
            Ok(header::OPEN) => Ok(false),
            Ok(_) => Err(header::no_session()),
            Err(error) => Err(error),
        };
        let was_closed = pool.tolerate(session, || false)?;
        // What a damaged file says about its end counts no more than what is there.
        pool.was_closed = was_closed && wanted.forced.is_none();
        let since = pool.tolerate(page.load(Field::Since), || 0)?;
        // A new file has been open since no start of the machine.
        let was_open = !was_closed && since != 0;
        let is_other = has_failed || pool.backing.since() != Some(since);
        pool.was_cut = was_open && (wanted.after_power_cut || is_other);
        let entry = |copy, number| page.entry(copy, number);
        let forced = wanted.forced.map(|_| &pool.damages);
        pool.extents = Mutex::new(Table::read(entry, bytes, forced)?);
        if !pool.was_cut || pool.backing.is_ordered() {
            pool.tolerate(pool.check_extents(), || ())?;
        }
        let repeat = pool.tolerate(pool.read_journal(), Repeat::default)?;
        pool.repeat = Mutex::new(repeat);
        pool.start_journal()?;
        Ok(pool)
    }

    /// Returns an error if extents lie beyond the end of the file. The caller knows that no power
    /// cut is the reason.
    fn check_extents(&self) -> Result<(), Error> {
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

    /// Whether the file was closed after its last use.
    pub(crate) fn was_closed(&self) -> bool {
        self.was_closed
    }

    /// Whether the machine was started again since the file was open last, and the file was not
    /// closed; whether a sync has failed since; or whether the file is a copy that was made while it was open.
    pub(crate) fn was_cut(&self) -> bool {
        self.was_cut
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.is_poisoned.load(Ordering::Relaxed)
    }

    pub(crate) fn poison(&self) {
        self.is_poisoned.store(true, Ordering::Relaxed);
        self.owner.close_to_changes();
    }

    /// Poisons the pool because of an error, which it keeps and returns.
    pub(super) fn poison_after(&self, error: Error) -> Error {
        let _ = self.failure.set(error);
        self.poison();
        error
    }

    /// Sets what every later sync runs between the moment whose state it makes durable and the one
    /// from which on this state is durable. Returns whether there was nothing before.
    pub(crate) fn set_before_sync(
        &self,
        run: impl Fn() -> Result<(), Error> + Send + Sync + 'static,
    ) -> bool {
        self.before_sync.set(BeforeSync(Box::new(run))).is_ok()
    }

    /// Runs what was set. The state of the sync was fixed before. If it fails, the pool is poisoned:
    /// the sync is not made, and a later one would make durable what the program has not written
    /// elsewhere.
    pub(super) fn run_before_sync(&self) -> Result<(), Error> {
        match self.before_sync.get() {
            Some(BeforeSync(run)) => run().map_err(|error| self.poison_by_failure(error)),
            None => Ok(()),
        }
    }

    /// Returns the number of the last sync that is durable.
    pub(crate) fn last_sync(&self) -> u64 {
        // Acquire: what the caller does next comes after that sync.
        self.last_sync.load(Ordering::Acquire)
    }

    /// Returns the error because of which the pool was poisoned, unless it was damage.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.get().copied()
    }

    /// Notes that a part of the file is damaged. From here on nothing is changed any more, so that
    /// the file stays as it was at the last sync.
    pub(crate) fn note_damage(&self, error: Error) {
        self.damages.note(error);
        if !self.backing.is_read_only() {
            self.poison();
        }
    }

    /// Whether slots change where they are, so that nothing but a snapshot can be read beside this
    /// pool.
    pub(crate) fn changes_in_place(&self) -> bool {
        self.kind == Kind::Iceberg || self.backing.is_ordered()
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the first damage that was noticed since the file was opened.
    pub(crate) fn damage(&self) -> Option<Error> {
        self.damages.first()
    }

    /// Returns all damage that was noticed since the file was opened.
    pub(crate) fn damages(&self) -> Vec<Error> {
        self.damages.all()
    }

    /// How a damaged file is read, if this one is.
    pub(crate) fn forced(&self) -> Option<Forced> {
        self.wanted.forced
    }

    /// Returns the result, or something else and notes the damage if the file is read in spite of
    /// it.
    pub(crate) fn tolerate<R>(
        &self,
        result: Result<R, Error>,
        otherwise: impl FnOnce() -> R,
    ) -> Result<R, Error> {
        match result {
            Err(error) if self.forced().is_some() && is_damage(&error) => {
                self.note_damage(error);
                Ok(otherwise())
            }
            other => other,
        }
    }

    /// Returns the error of changes if the pool is poisoned.
    pub(crate) fn poison_error(&self) -> Error {
        self.damage().unwrap_or(FileError::Poisoned.into())
    }

    /// Poisons the pool after the system could not write something, says so in the file, and
    /// returns the error. The system takes what it could not write for written, so the page cache
    /// is no witness any more: the file counts as one of a power cut, though this process opens it
    /// again.
    pub(super) fn poison_by_failure(&self, error: Error) -> Error {
        self.poison_after(error);
        if !self.backing.is_ordered() && !seeded(Bug::FailureUnmarked) {
            self.store_field(Field::Since, header::UNKNOWN);
        }
        error
    }

    /// Whether the file may be changed: it is not poisoned, was not opened to be read, and not by
    /// another process.
    #[inline(always)]
    pub(crate) fn is_open_to_changes(&self) -> bool {
        self.owner.is_open_to_changes()
    }

    /// Whether the present process is a fork of the one that has opened the file.
    pub(crate) fn is_forked(&self) -> bool {
        self.owner.is_forked()
    }

    /// Whether the file says that it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.field(Field::Session) == header::CLOSED
    }

    /// Returns the value of a field of the header.
    pub(super) fn field(&self, field: Field) -> u64 {
        // Checked when the file was opened.
        self.page.load(field).unwrap_or(0)
    }

    /// Returns how many items the table had when the file was closed, or (byte strings) how many
    /// bytes they took when that was known last.
    pub(crate) fn items(&self) -> u64 {
        self.field(Field::Items)
    }

    /// Says that number. Durable when the file is closed.
    pub(crate) fn set_items(&self, items: usize) {
        self.store_field(Field::Items, (items as u64).min(header::MOST));
        self.flush_field(Field::Items);
    }

    /// Returns the schema, if the file has one.
    pub(crate) fn schema(&self) -> Option<&'static Schema> {
        // Checked when the file was opened.
        self.page.schema().ok().flatten()
    }

    /// Checks that the schema is the one that was asked for. If none was, the file can be read.
    fn check_schema(&self) -> Result<(), Error> {
        let other = |what| Err(FileError::OtherKind { what }.into());
        match (self.page.schema()?, self.wanted.schema) {
            (Some(found), Some(expected))
                if found != expected && !seeded(Bug::SchemaNotCompared) =>
            {
                Err(FileError::OtherSchema { found, expected }.into())
            }
            (Some(_), None) if !self.backing.is_read_only() => {
                other("kind: it has a schema, so only a typed map changes it")
            }
            (None, Some(_)) => other("kind: it has no schema, so it is not one of a typed map"),
            _ => Ok(()),
        }
    }

    /// Returns the word that a table has stored with [`Medium::set_root`].
    pub(crate) fn root(&self) -> u64 {
        self.field(Field::Root)
    }

    /// Returns the same word, or an error if a damaged file that is read has lost it.
    pub(crate) fn checked_root(&self) -> Result<u64, Error> {
        self.page.load(Field::Root)
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

    /// Gives back what a crash has left behind the last extent, clears entries of extents that do
    /// not exist, and mends damaged copies of the header and of entries. Returns whether anything
    /// has changed. Must come before any growth.
    fn mend(&self) -> Result<bool, Error> {
        let table = self.extents.lock();
        let mut has_changed = false;
        for (word, right) in self.page.differences() {
            self.store_word(word, right);
            self.flush_word(word);
            has_changed = true;
        }
        let used = table.extents.iter().map(|&(number, extent)| (number, extent.encode(number)));
        let unused = table.unused.iter().map(|&number| (number, [0; 3]));
        for (number, words) in used.chain(unused) {
            has_changed |= self.store_entry(number, words);
        }
        let (end, actual) = (table.end(), self.actual_bytes()?);
        if actual > end {
            let given = self.backing.give_back(end, actual, true);
            given.map_err(|error| error_of("shorten the file", error))?;
        }
        Ok(has_changed || actual > end)
    }

    /// Makes the file ready for changes, and marks it as open. The caller has validated it.
    pub(crate) fn begin_session(&self) -> Result<(), Error> {
        if self.backing.is_read_only() {
            return Ok(());
        }
        if self.mend()? {
            // What was cut off must not be there when the file grows again.
            self.barrier()?;
        }
        self.create_journal()?;
        let since = self.backing.since().unwrap_or(header::UNKNOWN);
        if self.field(Field::Session) == header::OPEN && self.field(Field::Since) == since {
            return Ok(());
        }
        // Both words are in one sector, and stored in this order: a file that is open names the
        // start of the machine since which it is.
        self.store_field(Field::Since, since);
        self.flush_field(Field::Since);
        self.set_session(true);
        self.sync_header()
    }

    /// Marks the file as open, or as closed with all of it durable.
    pub(crate) fn set_session(&self, is_open: bool) {
        let session = if is_open { header::OPEN } else { header::CLOSED };
        self.store_field(Field::Session, session);
        self.flush_field(Field::Session);
        self.backing.fence();
    }

    /// Stores a field in both copies.
    pub(super) fn store_field(&self, field: Field, value: u64) {
        let word = header::word_of(field, value);
        (0..2).for_each(|copy| self.store_word(self.page.field(copy, field), word));
    }

    pub(super) fn flush_field(&self, field: Field) {
        (0..2).for_each(|copy| self.flush_word(self.page.field(copy, field)));
    }

    pub(super) fn store_word(&self, word: &AtomicU64, value: u64) {
        // Release: in the order of the program, in which stores reach the line.
        self.store_table_word(word, value, Ordering::Release);
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
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.is_forked() {
            // Forks may still have the file open.
            self.backing.unlock();
        }
        // SAFETY: mapped in `open`; regions hold the pool, so no region uses it any more.
        let _ = unsafe { rustix::mm::munmap(self.mapping, PAGE) };
        if let Some(journal) = self.journal.get() {
            // SAFETY: the journal's own mapping, which ends with the journal.
            let _ = unsafe { rustix::mm::munmap(journal.base.cast(), journal.bytes) };
        }
    }
}
