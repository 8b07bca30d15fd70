//! Which pages of the file belong to which part of a table.
//!
//! A part grows by extents: pages that follow each other in the file, and that are mapped behind
//! the part's other pages. An entry is two words of one cache line, and the second word is stored
//! first. So a crash leaves all of an entry or nothing.
//!
//! ```text
//! first    63          56 55    52 51                                          0
//!          | checksum     | part   | page of the file where the extent begins |
//! second   63          48 47                                                   0
//!          | number       | pages                                             |
//! ```

use super::PAGE;
use crate::error::{Error, FileError};
use crate::memory::Part;
use crate::sync::{AtomicU64, Ordering};

/// The number of entries: parts double, so twenty extents of each part would be enough.
pub(super) const ENTRIES: usize = 224;

const PAGE_BITS: u32 = 52;
const COUNT_BITS: u32 = 48;

/// Where an entry is stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'p> {
    pub(super) first: &'p AtomicU64,
    pub(super) second: &'p AtomicU64,
}

/// Pages of the file, and the part that they belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) part: u8,
    /// The extent's index within its part.
    pub(super) number: u16,
    /// In pages.
    pub(super) start: u64,
    pub(super) pages: u64,
}

impl Extent {
    pub(super) fn bytes(&self) -> usize {
        self.pages as usize * PAGE
    }

    /// Returns the offset in the file, in bytes.
    pub(super) fn offset(&self) -> u64 {
        self.start * PAGE as u64
    }

    pub(super) fn end(&self) -> u64 {
        (self.start + self.pages) * PAGE as u64
    }

    pub(super) fn encode(&self) -> (u64, u64) {
        let second = u64::from(self.number) << COUNT_BITS | self.pages;
        let first = u64::from(self.part & 15) << PAGE_BITS | self.start;
        (checksum(first, second) << 56 | first, second)
    }

    /// Returns nothing if the entry is empty, or if it was not written in full.
    pub(super) fn decode(first: u64, second: u64) -> Option<Self> {
        let extent = Self {
            part: (first >> PAGE_BITS & 15) as u8,
            number: (second >> COUNT_BITS) as u16,
            start: first & ((1 << PAGE_BITS) - 1),
            pages: second & ((1 << COUNT_BITS) - 1),
        };
        (first != 0 && extent.encode() == (first, second)).then_some(extent)
    }
}

fn checksum(first: u64, second: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    u64::from(crc32fast::hash(&bytes) & 0xFF)
}

/// The extents of a file, each with its entry.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) extents: Vec<(usize, Extent)>,
    /// Free entries.
    pub(super) unused: Vec<usize>,
    /// The last end of the extents that lie beyond the end of the file, if there are any.
    pub(super) missing: Option<u64>,
}

impl Table {
    /// Reads the entries of a file of so many bytes. Leaves out entries that were not written in
    /// full or lie beyond the end of the file: the table that needs such an extent reports an
    /// error.
    pub(super) fn read<'p>(entry: impl Fn(usize) -> Entry<'p>, bytes: u64) -> Result<Self, Error> {
        let mut table = Self::default();
        for number in 0..ENTRIES {
            let Entry { first, second } = entry(number);
            let (first, second) = (first.load(Ordering::Relaxed), second.load(Ordering::Relaxed));
            match Extent::decode(first, second) {
                Some(extent) if extent.end() <= bytes => table.extents.push((number, extent)),
                Some(extent) => {
                    table.missing = table.missing.max(Some(extent.end()));
                    table.unused.push(number);
                }
                None => table.unused.push(number),
            }
        }
        table.unused.reverse();
        table.extents.sort_by_key(|(_, extent)| (extent.part, extent.number));
        table.drop_gaps();
        let mut ranges: Vec<_> = table.extents.iter().map(|(_, e)| (e.start, e.pages)).collect();
        ranges.sort_unstable();
        let overlap = ranges.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0);
        let is_sound = !overlap && ranges.iter().all(|&(start, pages)| start > 0 && pages > 0);
        if !is_sound {
            return Err(FileError::Corrupt { what: "extents overlap" }.into());
        }
        Ok(table)
    }

    /// Leaves out the extents behind a missing one.
    fn drop_gaps(&mut self) {
        let mut next = [0; 16];
        let mut kept = Vec::with_capacity(self.extents.len());
        for &(number, extent) in &self.extents {
            let next = &mut next[usize::from(extent.part)];
            if *next == usize::from(extent.number) {
                *next += 1;
                kept.push((number, extent));
            } else {
                self.unused.push(number);
            }
        }
        self.extents = kept;
    }

    pub(super) fn of(&self, part: Part) -> impl Iterator<Item = Extent> {
        let extents = self.extents.iter().map(|&(_, extent)| extent);
        extents.filter(move |extent| extent.part == part as u8)
    }

    /// Returns the end of the last extent: the bytes that the file needs.
    pub(super) fn end(&self) -> u64 {
        let ends = self.extents.iter().map(|(_, extent)| extent.end());
        ends.max().unwrap_or(0).max(PAGE as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_read_as_they_were_written() {
        let extent = Extent { part: 3, number: 9, start: 1 << 30, pages: 5 };
        let (first, second) = extent.encode();
        assert_eq!(Extent::decode(first, second), Some(extent));
        assert_eq!(Extent::decode(0, second), None);
        assert_eq!(Extent::decode(first, 0), None);
    }

    #[test]
    fn what_is_torn_or_beyond_the_end_is_left_out() {
        let words: Vec<(AtomicU64, AtomicU64)> = (0..ENTRIES).map(|_| Default::default()).collect();
        let entry = |number: usize| Entry { first: &words[number].0, second: &words[number].1 };
        let write = |at: usize, extent: Extent| {
            let (first, second) = extent.encode();
            words[at].0.store(first, Ordering::Relaxed);
            words[at].1.store(second, Ordering::Relaxed);
        };
        let extent = |number, start| Extent { part: 1, number, start, pages: 2 };
        (0..3).for_each(|number| write(number, extent(number as u16, 1 + 2 * number as u64)));
        let count = |bytes| Table::read(entry, bytes).map(|table| table.extents.len());
        assert_eq!(count(7 * PAGE as u64), Ok(3));
        assert_eq!(count(6 * PAGE as u64), Ok(2));
        words[1].1.store(0, Ordering::Relaxed);
        assert_eq!(count(7 * PAGE as u64), Ok(1), "the third has no place without the second");
        write(1, extent(1, 2));
        assert!(count(7 * PAGE as u64).is_err());
    }

    #[test]
    fn the_page_of_the_header_belongs_to_no_part() {
        let words: Vec<(AtomicU64, AtomicU64)> = (0..ENTRIES).map(|_| Default::default()).collect();
        let entry = |number: usize| Entry { first: &words[number].0, second: &words[number].1 };
        let read = |start, pages| {
            let (first, second) = Extent { part: 1, number: 0, start, pages }.encode();
            words[0].0.store(first, Ordering::Relaxed);
            words[0].1.store(second, Ordering::Relaxed);
            Table::read(entry, 9 * PAGE as u64).is_ok()
        };
        assert!(read(1, 1) && read(8, 1) && !read(0, 1) && !read(1, 0));
    }
}
