//! The versions of pages that are copied before they change: see
//! [`shadow_pages`](super::shadow_pages).
//!
//! ```text
//! map      4 words a page: its last versions, in no order
//! version  63 … 28   27 … 0
//!          | epoch   | page of the file's part; 0: none, it reads as zero |
//! ```

use crate::memory::Part;
use crate::sync::AtomicU64;

pub(super) const PAGE_SHIFT: u32 = 12;
pub(super) const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
/// The number of versions of a page that a map has room for.
pub(super) const VERSIONS: usize = 4;
/// The bytes of a map for one page.
pub(super) const MAP_BYTES: usize = VERSIONS * 8;
pub(super) const NUMBER_BITS: u32 = 28;

/// A version of a page: its epoch and its place. As numbers, later versions are larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u64);

impl Version {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn new(epoch: u64, number: usize) -> Self {
        Self(epoch << NUMBER_BITS | number as u64)
    }

    #[inline(always)]
    pub(super) fn epoch(self) -> u64 {
        self.0 >> NUMBER_BITS
    }

    #[inline(always)]
    pub(super) fn number(self) -> usize {
        self.0 as usize & ((1 << NUMBER_BITS) - 1)
    }
}

/// The versions of a page in its part's map.
#[derive(Debug)]
#[repr(C, align(32))]
pub(super) struct Versions(pub(super) [AtomicU64; VERSIONS]);

/// Returns the latest version that is not later than an epoch.
pub(super) fn until(versions: [Version; VERSIONS], epoch: u64) -> Version {
    let of_then = versions.into_iter().filter(|version| version.epoch() <= epoch);
    of_then.max().unwrap_or(Version::NONE)
}

/// The addresses of a part's map and of its words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Map {
    pub(super) part: Part,
    pub(super) pages: usize,
    pub(super) versions: usize,
    pub(super) words: usize,
}

impl Map {
    /// Returns the versions of all pages, and the words of the versions that count.
    pub(super) fn all(&self) -> (&[Versions], &[AtomicU64]) {
        // SAFETY: of a live region, since a region that is dropped takes its map off the list; both
        // arrays have so many elements.
        unsafe {
            let versions = core::slice::from_raw_parts(self.versions as *const _, self.pages);
            (versions, core::slice::from_raw_parts(self.words as *const _, self.pages))
        }
    }

    /// Returns the page whose versions these are, if they are of this map.
    pub(super) fn page_of(&self, versions: &Versions) -> Option<usize> {
        let bytes = core::ptr::from_ref(versions).addr().checked_sub(self.versions)?;
        Some(bytes / MAP_BYTES).filter(|&page| page < self.pages)
    }
}
