//! How the parts of a pool grow, and give pages back: see invariants 2 to 4 of the
//! [pool](super::pool).

use super::backing::error_of;
use super::extents::Extent;
use super::pool::Pool;
use super::{ALIGNMENT, PAGE};
use crate::error::{Error, FileError};
use crate::memory::Part;
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicU64, Ordering};

/// Extents from this size on begin where huge pages can, even if that leaves a hole in the file.
const HUGE_FROM: usize = 16 * ALIGNMENT;

impl Pool {
    /// Stores both copies of an entry durably; zeros clear it. Returns whether they have changed.
    pub(super) fn store_entry(&self, number: usize, [first, second, check]: [u64; 3]) -> bool {
        let mut has_changed = false;
        for copy in 0..2 {
            let entry = self.page.entry(copy, number);
            // Relaxed: entries change under the lock of the extents.
            let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
            let is_same = load(entry.first) == first
                && (first == 0 || load(entry.second) == second && load(entry.check) == check);
            if is_same {
                continue;
            }
            has_changed = true;
            if load(entry.first) != 0 {
                self.store_word(entry.first, 0);
            }
            if first != 0 {
                self.store_word(entry.second, second);
                self.store_word(entry.check, check);
                self.store_word(entry.first, first);
            }
            if !seeded(Bug::ExtentUnflushed) {
                self.flush_word(entry.first);
            }
        }
        self.backing.fence();
        has_changed
    }

    /// Adds pages to a part, mapped at an address. If the file is only read, the pages are in this
    /// process alone.
    pub(super) fn extend(&self, part: Part, address: *mut u8, bytes: usize) -> Result<(), Error> {
        if self.backing.is_read_only() {
            return self.map_private(address, bytes);
        }
        let extent = self.add_extent(part, address.addr(), bytes)?;
        self.map(address, &extent)
    }

    /// Adds pages to a part, which the caller maps at an address. Returns the new pages.
    pub(super) fn add_extent(
        &self,
        part: Part,
        address: usize,
        bytes: usize,
    ) -> Result<Extent, Error> {
        if self.backing.is_read_only() {
            return Err(FileError::ReadOnly.into());
        }
        if self.is_forked() {
            return Err(FileError::Forked.into());
        }
        if self.is_poisoned() {
            return Err(self.poison_error());
        }
        let mut table = self.extents.lock();
        let end = table.end();
        let actual = self.actual_bytes()?;
        if actual < end {
            let error = FileError::Truncated { bytes: actual, expected: end };
            return Err(self.poison_after(error.into()));
        }
        let mut start = end;
        if bytes >= HUGE_FROM {
            // Huge pages of persistent memory need such a start both in the file and in the
            // addresses.
            let ahead = (address as u64).wrapping_sub(end) % ALIGNMENT as u64;
            start += ahead;
        }
        let (start, pages) = (start / PAGE as u64, (bytes / PAGE) as u64);
        let number = table.last_of(part).map_or(0, |(_, extent)| extent.number + 1);
        let added = Extent { part: part as u8, number, start, pages };
        let entry = *table.unused.last().ok_or(FileError::TooManyExtents)?;
        self.backing.extend(added.offset(), added.end())?;
        if self.backing.is_ordered() {
            // The entry relies on the size.
            self.backing.barrier().map_err(|error| error_of("extend the file", error))?;
        }
        table.unused.pop();
        self.store_entry(entry, added.encode(entry));
        table.extents.push((entry, added));
        table.extents.sort_by_key(|(_, extent)| (extent.part, extent.number));
        Ok(added)
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
            // The file keeps its pages; those behind them are in this process alone.
            return Ok(self.bytes_of(part).max(bytes.next_multiple_of(PAGE)));
        }
        if self.is_forked() {
            return Ok(self.bytes_of(part));
        }
        let mut table = self.extents.lock();
        let mut committed: usize = table.of(part).map(|extent| extent.bytes()).sum();
        // Free after the barrier: until then a power cut may bring a copy of them back.
        let mut cleared = Vec::new();
        while let Some((at, extent)) = table.last_of(part) {
            if committed - extent.bytes() < bytes {
                break;
            }
            let is_last = extent.end() == table.end();
            let (entry, gone) = table.extents.remove(at);
            self.store_entry(entry, [0; 3]);
            cleared.push(entry);
            committed -= gone.bytes();
            self.map_private(base.wrapping_add(committed), gone.bytes())?;
            // If nothing lies behind it, free pages in front of it go as well.
            let from = if is_last { table.end() } else { gone.offset() };
            let given = self.backing.give_back(from, gone.end(), is_last);
            given.map_err(|error| error_of("give pages of the file back", error))?;
        }
        drop(table);
        if !cleared.is_empty() {
            self.barrier()?;
            self.extents.lock().unused.append(&mut cleared);
        }
        Ok(committed)
    }
}
