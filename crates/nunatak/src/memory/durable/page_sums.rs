//! Checksums of the pages that are copied before they change.
//!
//! A page changes in the epoch of its version, and in no later one. When a sync has begun a new
//! epoch, the pages of the old one are final. The sync computes their checksums, before its barrier.
//! So a change costs nothing more, and a sync reads once what it is about to write.
//!
//! ```text
//! part Sums   a word for each page of the part Pages: XXH3 of the page. Zero: none
//! ```
//!
//! The hash is seeded by the page's part, its place in the part, and its epoch. So a page that is
//! somewhere else than its map says, or an old one in place of a new one, is damage, too. It leaves
//! out the headers of buckets, if the table has buckets: recovery builds these again where they are, in pages of any epoch.
//!
//! Invariants
//! 1. Each version of a page that counts, and that is of an epoch that the header names as durable,
//!    has its checksum. The checksum is durable before the header names the epoch.
//! 2. A version of a later epoch may have none.

use super::page_versions::{PAGE_BYTES, Version};
use super::pool::Pool;
use super::region::{PoolRegion, grown};

use crate::error::Error;
use crate::memory::{Part, Region};
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicU64, Mutex, Ordering::Relaxed};
use core::sync::atomic::AtomicBool;
use std::collections::BTreeSet;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const WORDS: usize = PAGE_BYTES / 8;
const SUM: usize = size_of::<AtomicU64>();

/// A version of a page, and where in its part the page is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) part: Part,
    pub(super) page: usize,
    pub(super) version: Version,
}

/// The checksums of a file's pages.
#[derive(Debug)]
pub(super) struct PageSums {
    pool: Arc<Pool>,
    region: PoolRegion,
    /// The last epoch that was durable when the file was opened.
    found: u64,
    /// Pages that got versions since the last sync began, by their epochs.
    changed: Mutex<Vec<Placed>>,
    /// Whether the file was not closed: pages of epochs after `found` have no checksum.
    lacks_some: AtomicBool,
    /// Pages that recovery has changed in this process alone, since the file is only read.
    private: Mutex<BTreeSet<usize>>,
}

impl PageSums {
    /// Returns the checksums of a file that has them, or of a new file that is to have them.
    pub(super) fn new(pool: &Arc<Pool>, pages: usize, is_new: bool) -> Result<Option<Self>, Error> {
        let is_wanted = is_new && pool.wanted.page_checksums;
        if pool.bytes_of(Part::Sums) == 0 && !is_wanted {
            return Ok(None);
        }
        let region = PoolRegion::reserve(pool, Part::Sums, pages * SUM)?;
        Ok(Some(Self {
            pool: Arc::clone(pool),
            region,
            found: pool.root(),
            changed: Mutex::default(),
            lacks_some: AtomicBool::new(!pool.was_closed() && !pool.was_cut()),
            private: Mutex::default(),
        }))
    }

    /// Makes room for the checksums of so many pages.
    pub(super) fn grow(&self, pages: usize) -> Result<(), Error> {
        grown(&self.region, (pages * SUM).max(self.region.committed()))
    }

    /// Gives back the room for pages behind the first ones.
    pub(super) fn shrink(&self, pages: usize) {
        self.region.release(pages * SUM);
    }

    fn sum_of(&self, placed: Placed, words: &[AtomicU64]) -> u64 {
        sum_of(placed, &self.summed(placed.part, words))
    }

    /// Returns the bytes of a page that its checksum is of.
    pub(super) fn summed(&self, part: Part, words: &[AtomicU64]) -> [u8; PAGE_BYTES] {
        let has_headers =
            matches!(part, Part::Front | Part::Back) && self.pool.kind().has_buckets();
        summed(has_headers, words)
    }

    /// Returns the checksum of a page of the file, whatever it is of; zero if there is none.
    pub(super) fn stored(&self, number: usize) -> u64 {
        // Relaxed: stored before the epoch was durable.
        self.word(number).map_or(0, |word| word.load(Relaxed))
    }

    fn word(&self, number: usize) -> Option<&AtomicU64> {
        let is_there = (number + 1) * SUM <= self.region.committed();
        // SAFETY: the region is mapped so far, and holds atomic words only.
        is_there.then(|| unsafe { &*self.region.base().as_ptr().cast::<AtomicU64>().add(number) })
    }

    /// The last epoch whose pages had checksums when the file was opened.
    pub(super) fn found(&self) -> u64 {
        self.found
    }

    /// Notes a new version of a page. The next sync computes its checksum.
    pub(super) fn note(&self, placed: Placed) {
        self.changed.lock().push(placed);
    }

    /// Takes the noted versions of the epochs until this one.
    pub(super) fn take_until(&self, epoch: u64) -> Vec<Placed> {
        let mut changed = self.changed.lock();
        let ended = changed.partition_point(|one| one.version.epoch() <= epoch);
        let later = changed.split_off(ended);
        core::mem::replace(&mut changed, later)
    }

    /// Whether the file was not closed, and no sync has run since. Says so once.
    pub(super) fn take_lack(&self) -> bool {
        // Relaxed: one sync runs at a time.
        self.lacks_some.swap(false, Relaxed) && !seeded(Bug::FoundPagesNotSummed)
    }

    /// Stores the checksum of a page, which is in these words.
    pub(super) fn store(&self, placed: Placed, words: &[AtomicU64]) {
        let Some(word) = self.word(placed.version.number()) else { return };
        // Relaxed: read when the file is opened again, or by `verify` after the sync.
        self.pool.store_table_word(word, self.sum_of(placed, words), Relaxed);
    }

    /// Whether a page is as its checksum says. The caller knows that it has one.
    pub(super) fn is_right(&self, placed: Placed, words: &[AtomicU64]) -> bool {
        let number = placed.version.number();
        let is_right = self.word(number).is_some_and(|word| {
            // Relaxed: stored before the epoch was durable.
            word.load(Relaxed) == self.sum_of(placed, words)
        });
        is_right || self.private.lock().contains(&number)
    }

    /// Notes that a page is changed in this process alone.
    pub(super) fn note_private(&self, number: usize) {
        self.private.lock().insert(number);
    }
}

/// A bucket, and its header: the words that are not durable by themselves.
const HEADER_WORDS: usize = 2;
const BUCKET_WORDS: usize = 32;

fn summed(has_headers: bool, words: &[AtomicU64]) -> [u8; PAGE_BYTES] {
    let mut bytes = [0; PAGE_BYTES];
    for (at, (word, bytes)) in words.iter().zip(bytes.as_chunks_mut().0).enumerate() {
        if !(has_headers && at % BUCKET_WORDS < HEADER_WORDS) {
            // Relaxed: no thread changes the word, or the caller finds out that one may have.
            *bytes = word.load(Relaxed).to_ne_bytes();
        }
    }
    debug_assert_eq!(words.len(), WORDS);
    bytes
}

/// Returns the checksum of a version of a page, of these bytes.
pub(super) fn sum_of(placed: Placed, bytes: &[u8; PAGE_BYTES]) -> u64 {
    let place = (placed.part as u64) << 56 | placed.page as u64;
    let seed = place ^ placed.version.epoch().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // Zero stands for no checksum.
    xxh3_64_with_seed(bytes, seed).max(1)
}
