//! Which pages of the file belong to which part of a table.
//!
//! A part grows by extents: pages that follow each other in the file, and that are mapped behind
//! the part's other pages. An entry is three words of one cache line, and the first word is stored
//! last. So a crash leaves all of an entry or nothing.
//!
//! ```text
//! first    63     60 59    52 51                                          0
//!          | 0      | part   | page of the file where the extent begins |
//! second   63          48 47                                              0
//!          | number      | pages                                         |
//! check    XXH3 of both, and of the entry's number
//! ```
//!
//! There are two copies of each entry. An entry is stored in the first copy, and then in the
//! second. So at most one of them is missing after a crash: an extent exists if a copy names it. A
//! copy that is damaged counts for nothing.

use super::PAGE;
use super::damage::Damages;
use crate::error::{Error, FileError};
use crate::memory::Part;
use crate::sync::{AtomicU64, Ordering};

/// The number of entries.
pub(super) const ENTRIES: usize = 512;
/// The bytes from one entry to the next.
pub(super) const ENTRY: usize = 32;

const PAGE_BITS: u32 = 52;
const COUNT_BITS: u32 = 48;

/// Where an entry is stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'p> {
    pub(super) first: &'p AtomicU64,
    pub(super) second: &'p AtomicU64,
    pub(super) check: &'p AtomicU64,
}

/// The contents of a copy of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Empty,
    Extent(Extent),
    Damaged,
}

impl Entry<'_> {
    fn content(&self, number: usize) -> Content {
        // Relaxed: before the pool is shared.
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let (first, second) = (load(self.first), load(self.second));
        match first {
            0 => Content::Empty,
            _ if load(self.check) != check(number, first, second) => Content::Damaged,
            _ => Content::Extent(Extent::decode(first, second)),
        }
    }
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

    /// Returns the words of an entry with this number: the first, the second, and the check.
    pub(super) fn encode(&self, entry: usize) -> [u64; 3] {
        let second = u64::from(self.number) << COUNT_BITS | self.pages;
        let first = u64::from(self.part) << PAGE_BITS | self.start;
        [first, second, check(entry, first, second)]
    }

    fn decode(first: u64, second: u64) -> Self {
        Self {
            part: (first >> PAGE_BITS) as u8,
            number: (second >> COUNT_BITS) as u16,
            start: first & ((1 << PAGE_BITS) - 1),
            pages: second & ((1 << COUNT_BITS) - 1),
        }
    }
}

fn check(entry: usize, first: u64, second: u64) -> u64 {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..16].copy_from_slice(&second.to_le_bytes());
    bytes[16..].copy_from_slice(&(entry as u64).to_le_bytes());
    xxhash_rust::xxh3::xxh3_64(&bytes)
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
    /// Reads both copies of the entries of a file of so many bytes. Leaves out extents that lie
    /// beyond the end of the file, and those of the same part behind them: a power cut may have
    /// kept the entry and lost the growth.
    ///
    /// If the file is read in spite of damage, notes the damage, and keeps all entries that say
    /// something.
    ///
    /// # Errors
    /// If no power cut can leave such entries.
    pub(super) fn read<'p>(
        entry: impl Fn(usize, usize) -> Entry<'p>,
        bytes: u64,
        forced: Option<&Damages>,
    ) -> Result<Self, Error> {
        let corrupt = |what| {
            let error = FileError::corrupt(what).into();
            forced.map_or(Err(error), |damages| {
                damages.note(error);
                Ok(())
            })
        };
        let mut table = Self::default();
        for number in 0..ENTRIES {
            let copies = [0, 1].map(|copy| entry(copy, number).content(number));
            if let [Content::Extent(first), Content::Extent(second)] = copies
                && first != second
            {
                corrupt("the copies of an extent differ")?;
            }
            let extent = match copies {
                [Content::Extent(extent), _] | [_, Content::Extent(extent)] => extent,
                [Content::Damaged, Content::Damaged] => {
                    corrupt("both copies of an extent")?;
                    table.unused.push(number);
                    continue;
                }
                _ => {
                    table.unused.push(number);
                    continue;
                }
            };
            let is_there = extent.end() <= bytes;
            if !is_there {
                table.missing = table.missing.max(Some(extent.end()));
            }
            if is_there || forced.is_some() && extent.start > 0 && extent.pages > 0 {
                table.extents.push((number, extent));
            } else {
                table.unused.push(number);
            }
        }
        // The first entries are taken first.
        table.unused.reverse();
        table.extents.sort_by_key(|(_, extent)| (extent.part, extent.number));
        table.drop_gaps();
        let mut ranges: Vec<_> = table.extents.iter().map(|(_, e)| (e.start, e.pages)).collect();
        ranges.sort_unstable();
        let overlap = ranges.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0);
        let is_sound = !overlap && ranges.iter().all(|&(start, pages)| start > 0 && pages > 0);
        if !is_sound {
            corrupt("extents overlap")?;
        }
        Ok(table)
    }

    /// Leaves out the extents behind a missing one.
    fn drop_gaps(&mut self) {
        let mut next = [0; 256];
        let mut kept = Vec::with_capacity(self.extents.len());
        for &(number, extent) in &self.extents {
            let next = &mut next[usize::from(extent.part)];
            if *next == usize::from(extent.number) {
                *next += 1;
                kept.push((number, extent));
            } else {
                self.missing = self.missing.max(Some(extent.end()));
                self.unused.push(number);
            }
        }
        self.extents = kept;
    }

    /// Returns the last extent of a part, and its place in the list.
    pub(super) fn last_of(&self, part: Part) -> Option<(usize, Extent)> {
        let at = self.extents.iter().rposition(|(_, extent)| extent.part == part as u8)?;
        Some((at, self.extents[at].1))
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

    /// Both copies of the entries of a file.
    struct Words([Vec<[AtomicU64; 3]>; 2]);

    impl Words {
        fn new() -> Self {
            Self([0, 1].map(|_| (0..ENTRIES).map(|_| Default::default()).collect()))
        }

        fn write(&self, at: usize, extent: Extent) {
            (0..2).for_each(|copy| self.write_copy(copy, at, extent));
        }

        fn write_copy(&self, copy: usize, at: usize, extent: Extent) {
            let words = self.0[copy][at].iter().zip(extent.encode(at));
            words.for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        }

        fn clear_copy(&self, copy: usize, at: usize) {
            self.0[copy][at][0].store(0, Ordering::Relaxed);
        }

        fn read(&self, pages: u64) -> Result<Vec<Extent>, Error> {
            self.read_forced(pages, None)
        }

        fn read_forced(&self, pages: u64, damages: Option<&Damages>) -> Result<Vec<Extent>, Error> {
            let entry = |copy: usize, number: usize| {
                let [first, second, check] = &self.0[copy][number];
                Entry { first, second, check }
            };
            let table = Table::read(entry, pages * PAGE as u64, damages)?;
            assert_eq!(table.extents.len() + table.unused.len(), ENTRIES);
            Ok(table.extents.into_iter().map(|(_, extent)| extent).collect())
        }
    }

    fn extent(number: u16, start: u64) -> Extent {
        Extent { part: 1, number, start, pages: 2 }
    }

    #[test]
    fn what_is_beyond_the_end_is_left_out() {
        let words = Words::new();
        (0..3).for_each(|number| words.write(number, extent(number as u16, 1 + 2 * number as u64)));
        assert_eq!(words.read(7), Ok((0..3).map(|n| extent(n, 1 + 2 * u64::from(n))).collect()));
        assert_eq!(words.read(6).unwrap().len(), 2);
        (0..2).for_each(|copy| words.clear_copy(copy, 1));
        assert_eq!(words.read(7).unwrap().len(), 1, "the third has no place without the second");
        words.write(1, extent(1, 2));
        assert!(words.read(7).is_err(), "extents overlap");
    }

    #[test]
    fn one_copy_of_an_entry_is_enough() {
        let words = Words::new();
        let whole: Vec<Extent> = (0..2).map(|n| extent(n, 1 + 2 * u64::from(n))).collect();
        whole.iter().enumerate().for_each(|(at, &one)| words.write(5 * at, one));
        for (copy, at) in [(0, 0), (1, 0), (0, 5), (1, 5)] {
            for bit in 0..3 * 64 {
                let word = &words.0[copy][at][bit / 64];
                let before = word.fetch_xor(1 << (bit % 64), Ordering::Relaxed);
                assert_eq!(words.read(5).as_ref(), Ok(&whole), "bit {bit}");
                word.store(before, Ordering::Relaxed);
            }
            words.clear_copy(copy, at);
            assert_eq!(words.read(5).as_ref(), Ok(&whole));
            words.write(at, whole[at / 5]);
        }
        // Damage to an entry that is not used.
        words.0[1][9][0].store(1 << 40, Ordering::Relaxed);
        assert_eq!(words.read(5).as_ref(), Ok(&whole));
        for copy in 0..2 {
            words.0[copy][0][1].fetch_xor(2, Ordering::Relaxed);
        }
        assert!(words.read(5).is_err(), "both copies are damaged");
        words.write_copy(0, 0, whole[0]);
        words.write_copy(1, 0, extent(0, 9));
        assert!(words.read(20).is_err(), "the copies differ");
    }

    #[test]
    fn the_page_of_the_header_belongs_to_no_part() {
        let words = Words::new();
        let read = |start, pages| {
            words.write(0, Extent { part: 1, number: 0, start, pages });
            words.read(9).is_ok()
        };
        assert!(read(1, 1) && read(8, 1) && !read(0, 1) && !read(1, 0));
    }

    #[test]
    fn a_damaged_file_keeps_extents_beyond_its_end_that_can_be() {
        let words = Words::new();
        for (start, pages, is_kept) in [(3, 2, true), (1, 9, true), (0, 9, false), (9, 0, false)] {
            let extent = Extent { part: 1, number: 0, start, pages };
            words.write(0, extent);
            assert_eq!(words.read(4), Ok(vec![]));
            let damages = Damages::default();
            let found = words.read_forced(4, Some(&damages));
            assert_eq!((found, damages.all()), (Ok(vec![extent; is_kept.into()]), vec![]));
        }
    }
}
