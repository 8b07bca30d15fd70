//! How stores to a pool survive a power cut where fences do not suffice: the barrier, and the
//! [journal](super::journal).
//!
//! Fields of the header change under the lock of the journal's end, or before the pool is shared.
//! The same holds for the flag that the journal was repeated.

use super::HEADER;
use super::PAGE;
use super::backing::error_of;
use super::extents::Extent;
use super::header::{self, Field};
use super::journal::{self, End, Journal, Record, Repeat, SECTOR};
use super::pool::Pool;
use crate::error::{Error, FileError};
use crate::memory::Part;
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicU64, MutexGuard, Ordering};
use rustix::mm::{MapFlags, ProtFlags};

impl Pool {
    /// Makes all earlier stores durable.
    pub(crate) fn barrier(&self) -> Result<(), Error> {
        let end = self.journal.get().map(|journal| journal.end.lock());
        self.barrier_with(end)
    }

    /// Runs a barrier. The caller makes sure that no transaction is written meanwhile.
    fn barrier_with(&self, end: Option<MutexGuard<'_, End>>) -> Result<(), Error> {
        self.check()?;
        if let Some(journal) = self.journal.get() {
            // Before the barrier: it may miss changes that are noted from here on.
            journal.forget();
        }
        let next = end.as_ref().map_or(self.repeat.lock().next, |end| end.sequence);
        if seeded(Bug::JournalEndsEarly) {
            self.end_journal(next)?;
        }
        if !seeded(Bug::SyncOmitted) {
            self.backing.barrier().map_err(|error| self.failed(error))?;
        }
        self.end_journal(next)?;
        if let Some(mut end) = end {
            end.at = 0;
        }
        Ok(())
    }

    /// Says durably that no earlier transaction than `next` counts.
    fn end_journal(&self, next: u64) -> Result<(), Error> {
        // Relaxed: changes only while the file is opened.
        let is_repeated = self.is_repeated.load(Ordering::Relaxed);
        let is_said = self.field(Field::Journal) == next;
        if is_said || !is_repeated || self.backing.is_read_only() || seeded(Bug::JournalNotEnded) {
            return Ok(());
        }
        let word = header::word_of(Field::Journal, next);
        (0..2).for_each(|copy| self.store(self.page.field(copy, Field::Journal), word));
        self.sync_header()
    }

    /// Makes all acknowledged changes survive a power cut.
    pub(crate) fn persist(&self) -> Result<(), Error> {
        let Some(journal) = self.journal.get() else { return self.barrier() };
        let mut end = journal.end.lock();
        self.check()?;
        let records = journal.drain(&self.regions.lock());
        match records {
            Some(records) if records.is_empty() => Ok(()),
            Some(records) if journal::bytes_of(records.len()) <= journal.bytes - end.at => {
                self.write_transaction(journal, &mut end, &records)
            }
            _ => self.barrier_with(Some(end)),
        }
    }

    fn write_transaction(
        &self,
        journal: &Journal,
        end: &mut End,
        records: &[Record],
    ) -> Result<(), Error> {
        let words = journal::encode(end.sequence, records);
        let from = journal.base.wrapping_add(end.at);
        for (at, &word) in words.iter().enumerate() {
            // SAFETY: within the journal's mapping, as the caller has checked, and aligned; other
            // code reads it only when the file is opened.
            self.store(unsafe { &*from.add(8 * at).cast::<AtomicU64>() }, word);
        }
        let bytes = journal::bytes_of(records.len());
        if !seeded(Bug::JournalUnsynced) {
            let offset = self.journal_extent().map_or(0, |extent| extent.offset());
            let synced = self.backing.sync_range(from, bytes, offset + end.at as u64);
            synced.map_err(|error| self.failed(error))?;
        }
        end.at += bytes;
        end.sequence += 1;
        Ok(())
    }

    /// Stores a word of the header or the journal. The caller makes it durable.
    fn store(&self, word: &AtomicU64, value: u64) {
        let address = core::ptr::from_ref(word).cast();
        // Release: in the order of the program, in which stores reach the line.
        self.backing.store(address, value, || word.store(value, Ordering::Release));
    }

    /// Checks that the file can still be written to.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.is_forked() {
            return Err(FileError::Forked.into());
        }
        if self.is_poisoned() {
            return Err(self.poison_error());
        }
        // Both while nothing here makes the file longer or shorter.
        let extents = self.extents.lock();
        let (bytes, expected) = (self.actual_bytes()?, extents.end());
        drop(extents);
        if bytes < expected {
            // Another process has made the file shorter: the data there is lost.
            return Err(self.poison_after(FileError::Truncated { bytes, expected }.into()));
        }
        Ok(())
    }

    /// Poisons the pool: the system forgets what it could not write, so a second attempt would
    /// succeed and mean nothing.
    fn failed(&self, error: rustix::io::Errno) -> Error {
        self.poison_by_failure(error_of("write the file", error))
    }

    fn journal_extent(&self) -> Option<Extent> {
        self.extents.lock().of(Part::Journal).next()
    }

    /// Reads the journal, before anything is mapped.
    pub(super) fn read_journal(&self) -> Result<Repeat, Error> {
        let first = self.field(Field::Journal);
        let none = Repeat { records: Vec::new(), next: first };
        let Some(extent) = self.journal_extent().filter(|_| first != 0) else { return Ok(none) };
        let read = |bytes: usize| -> Result<Vec<u64>, Error> {
            let mut buffer = vec![0; bytes];
            let mut at = 0;
            while at < bytes {
                let offset = extent.offset() + at as u64;
                let more = rustix::io::pread(self.backing.file(), &mut buffer[at..], offset);
                match more.map_err(|error| error_of("read the journal", error))? {
                    0 => break,
                    more => at += more,
                }
            }
            let words = buffer.chunks_exact(8).map(|word| word.try_into().unwrap_or_default());
            Ok(words.map(u64::from_ne_bytes).collect())
        };
        // In a file that was closed no transaction counts, and this sector is all there is to read.
        if read(SECTOR)?.first() != Some(&first) {
            return Ok(none);
        }
        let (records, transactions) = journal::read(&read(extent.bytes())?, first);
        let next = first.saturating_add(transactions);
        // If only the process has ended, all its stores are there, and newer.
        let is_there = !self.was_cut() && !seeded(Bug::JournalAlwaysRepeated);
        Ok(Repeat { records: if is_there { Vec::new() } else { records }, next })
    }

    /// Repeats the journal's changes: all parts are mapped, and no other thread has them yet.
    pub(crate) fn repeat(&self) {
        let repeat = self.repeat.lock();
        for (part, addresses) in self.regions.lock().iter() {
            let bytes = self.bytes_of(*part);
            let base = core::ptr::with_exposed_provenance::<u8>(addresses.start);
            for record in repeat.records.iter().filter(|record| record.part == *part as u8) {
                let offset = (record.granule as usize).checked_mul(journal::GRANULE);
                // Otherwise the granule was given back since.
                let Some(offset) = offset.filter(|&offset| offset < bytes) else { continue };
                for (at, &word) in record.words.iter().enumerate() {
                    // SAFETY: both words are within what is mapped, whole pages.
                    self.store(unsafe { &*base.add(offset + 8 * at).cast::<AtomicU64>() }, word);
                }
            }
        }
    }

    /// Ends the repetition. From here on a barrier ends the earlier transactions. Returns whether
    /// there were any to repeat.
    pub(crate) fn end_repeat(&self) -> bool {
        // Relaxed: before other threads have the pool; they get it from this one.
        self.is_repeated.store(true, Ordering::Relaxed);
        if let Some(journal) = self.journal.get() {
            // The header still names the earlier transactions, whose place the next one would take:
            // a barrier comes first.
            journal.note_unknown();
        }
        let records = core::mem::take(&mut self.repeat.lock().records);
        !records.is_empty()
    }

    /// Adds a journal to a file that has none, if one is wanted.
    pub(super) fn create_journal(&self) -> Result<(), Error> {
        if self.journal_extent().is_none() && self.wants_journal() {
            let bytes = usize::try_from(self.wanted.journal).ok();
            let bytes = bytes.and_then(|bytes| bytes.checked_next_multiple_of(PAGE));
            self.add_extent(Part::Journal, 0, bytes.ok_or(Error::CapacityOverflow)?)?;
        }
        self.start_journal()
    }

    fn wants_journal(&self) -> bool {
        self.wanted.journal > 0
            && !self.backing.is_ordered()
            && !self.backing.is_read_only()
            && self.backing.since().is_some()
    }

    /// Maps the file's journal, if it has one and one is wanted.
    pub(super) fn start_journal(&self) -> Result<(), Error> {
        let extent = self.journal_extent().filter(|_| self.wants_journal());
        let Some(extent) = extent.filter(|_| self.journal.get().is_none()) else { return Ok(()) };
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            rustix::mm::mmap(
                core::ptr::null_mut(),
                extent.bytes(),
                protection,
                flags,
                self.backing.file(),
                extent.offset(),
            )
        };
        let base = base.map_err(|error| error_of("map the file", error))?.cast::<u8>();
        self.backing.mapped(base.addr(), extent.bytes(), extent.offset());
        // The first transaction of all has number one.
        let next = self.repeat.lock().next.max(1);
        self.repeat.lock().next = next;
        let journal = Journal::new(base, extent.bytes(), next);
        // Changes so far, among them the journal's extent, need a barrier.
        journal.note_unknown();
        let _ = self.journal.set(journal);
        Ok(())
    }
}

/// The header.
impl Pool {
    /// Says durably that an epoch is durable.
    pub(super) fn set_epoch(&self, epoch: u64) -> Result<(), Error> {
        self.store_field(Field::Root, epoch);
        if seeded(Bug::EpochBeforeBarrier) {
            self.sync_header()?;
            return self.barrier();
        }
        if !seeded(Bug::EpochUnsynced) {
            self.sync_header()?;
        }
        // Release: pairs with `last_sync`.
        self.last_sync.store(epoch, Ordering::Release);
        Ok(())
    }

    /// Makes both copies of the header durable.
    pub(super) fn sync_header(&self) -> Result<(), Error> {
        if self.backing.is_read_only() {
            return Ok(());
        }
        let synced = self.backing.sync_range(self.page.address(), HEADER + SECTOR, 0);
        synced.map_err(|error| self.failed(error))
    }
}
