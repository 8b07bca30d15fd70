//! How a file in the page cache gets an order: pages are copied before they are changed.
//!
//! The system writes changed pages back when it likes, so what a power cut leaves of a
//! file is, sector by sector, of any moment since the last barrier. A table that rests on
//! the order of its stores would be torn. Here the bytes of a table's parts are *pages* of
//! 4 KiB somewhere in one part of the file, and a map says where. Time is divided into
//! *epochs*, which syncs end. Who changes a page for the first time in an epoch copies it,
//! changes the copy, and adds it to the map as the page's version of that epoch; so what
//! a power cut may tear is of the epochs since the last sync, and its versions of the
//! pages are still there. When all of an epoch is durable, the header says so, and what
//! it has replaced is free.
//!
//! ```text
//! map      4 words a page: its last versions, in no order
//! version  63 … 28   27 … 0
//!          | epoch   | page of the file's part; 0: none, it reads as zero |
//! ```
//!
//! - **After a power cut** (the machine was started again since) versions of epochs that
//!   the header does not say are dropped: what is left is all of the table as it was at
//!   one instant between changes.
//! - **After the end of the process** all that it stored is there, in the order of the
//!   program, and the latest versions count.
//!
//! The cost is a copy of 4 KiB for the first change of a page after a sync, and a word of
//! RAM that is read on the way to a page. A table that is never synced copies nothing.
//!
//! Invariants
//! 1. An epoch begins when nobody changes anything: who does has announced itself to the
//!    table, which waits. So a page that was found to be of the present epoch stays where
//!    it is for the rest of the operation.
//! 2. A page's versions of the last epoch that the header says, of the one that a sync is
//!    making durable, and of the present one are in its map, if it has any: three of four
//!    words. A new version takes the place of none of these.
//! 3. A page of the file's part is given out again when no version that is needed names
//!    it, and all operations that may have known it have ended. Readers that announce
//!    nothing ask [`recycled`](ShadowPages::recycled) before and afterwards.
//! 4. Page 0 of the part holds zeros.

use super::PAGE as EXTENT;
use super::backing::error_of;
use super::journal::SECTOR;
use super::pool::Pool;
use super::region::PoolRegion;
use crate::error::{Error, FileError};
use crate::memory::{MemoryUsage, Part, Region};
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicU64, Mutex, Ordering, fence};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

pub(super) const PAGE_SHIFT: u32 = 12;
pub(super) const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
const WORDS: usize = PAGE_BYTES / 8;
/// How many versions of a page a map has room for.
const VERSIONS: usize = 4;
/// The bytes of a map for a page.
pub(super) const MAP_BYTES: usize = VERSIONS * 8;
const NUMBER_BITS: u32 = 28;

/// What is kept free for changes of what is there.
const MARGIN: usize = 64;

/// A version of a page: of which epoch, and where; as numbers, later ones are larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u64);

impl Version {
    const NONE: Self = Self(0);

    fn new(epoch: u64, number: usize) -> Self {
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
pub(super) struct Versions([AtomicU64; VERSIONS]);

/// The latest of some versions that is not later than an epoch.
fn until(versions: [Version; VERSIONS], epoch: u64) -> Version {
    let of_then = versions.into_iter().filter(|version| version.epoch() <= epoch);
    of_then.max().unwrap_or(Version::NONE)
}

#[derive(Debug)]
struct State {
    /// Pages that nobody needs; of a file that was opened not before they are looked for.
    free: Option<Vec<u32>>,
    /// Pages with the epochs in which others have taken their places.
    replaced: Vec<(u64, u32)>,
    /// The epoch that the header says.
    durable: u64,
    /// The epoch that a sync is making durable, or that it has.
    syncing: u64,
    maps: Vec<Map>,
}

/// Where the map of a part is, and what is known of it, by their addresses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Map {
    pub(super) part: Part,
    pub(super) pages: usize,
    pub(super) versions: usize,
    pub(super) words: usize,
}

impl Map {
    /// The versions of all pages, and the words of those that count.
    fn all(&self) -> (&[Versions], &[AtomicU64]) {
        // SAFETY: of a region that lives, since one that goes takes its map off the list;
        // both of its stretches have so many elements.
        unsafe {
            let versions = core::slice::from_raw_parts(self.versions as *const _, self.pages);
            (versions, core::slice::from_raw_parts(self.words as *const _, self.pages))
        }
    }
}

/// The pages of a file, and what is known of them.
#[derive(Debug)]
pub(super) struct ShadowPages {
    pool: Arc<Pool>,
    pages: PoolRegion,
    /// How many pages there were when the file was opened, and the first epoch since.
    found: usize,
    first: u64,
    /// The present one.
    epoch: AtomicU64,
    recycled: AtomicU64,
    state: Mutex<State>,
    syncing: Mutex<()>,
    /// Whether fewer pages are free than should be, and no more could be had.
    is_tight: AtomicBool,
    /// Whether the file was cut off from its power.
    pub(super) was_cut: bool,
}

impl ShadowPages {
    /// The pages of a pool, in so many bytes of addresses.
    pub(super) fn new(pool: &Arc<Pool>, bytes: usize) -> Result<Self, Error> {
        if !pool.was_cut() {
            // All that a killed process has stored is there.
            pool.check_extents()?;
        }
        let bytes = bytes.min(PAGE_BYTES << NUMBER_BITS);
        let pages = PoolRegion::reserve(pool, Part::Pages, bytes)?;
        let found = pages.committed() / PAGE_BYTES;
        if pages.committed() == 0 {
            // Of a new file: what reads as zero.
            pages.resize(EXTENT)?;
        }
        let durable = pool.root();
        // A number that no version has.
        let epoch = durable.max(pool.page.begun().load(Relaxed)).saturating_add(1);
        if epoch >> (63 - NUMBER_BITS) != 0 {
            return Err(FileError::Corrupt { what: "there are no epochs left" }.into());
        }
        let state =
            State { free: None, replaced: Vec::new(), durable, syncing: durable, maps: Vec::new() };
        Ok(Self {
            was_cut: pool.was_cut(),
            pool: Arc::clone(pool),
            pages,
            found,
            first: epoch,
            epoch: AtomicU64::new(epoch),
            recycled: AtomicU64::new(0),
            state: Mutex::new(state),
            syncing: Mutex::new(()),
            is_tight: AtomicBool::new(false),
        })
    }

    /// Begins an epoch, when nobody changes anything.
    pub(super) fn begin(&self, epoch: u64) {
        // Before a version names it. After a power cut it does not matter.
        self.pool.store_word(self.pool.page.begun(), epoch);
        // Relaxed: who is waiting to change something is let go on by a release.
        self.epoch.store(epoch, Relaxed);
    }

    /// The present epoch.
    #[inline(always)]
    pub(super) fn epoch(&self) -> u64 {
        // Relaxed: it changes when nobody changes anything, and who begins to acquires
        // that; or under the lock of the state.
        self.epoch.load(Relaxed)
    }

    /// The last epoch that is durable.
    pub(super) fn durable(&self) -> u64 {
        self.state.lock().durable
    }

    #[inline(always)]
    pub(super) fn recycled(&self) -> u64 {
        // Acquire: what is read of pages is read after it.
        self.recycled.load(Ordering::Acquire)
    }

    pub(super) fn base(&self) -> *const u8 {
        self.pages.base().as_ptr()
    }

    /// Drops what a part's map says of epochs that a power cut has ended.
    pub(super) fn drop_torn(&self, map: &[Versions]) {
        let durable = self.state.lock().durable;
        for word in map.iter().flat_map(|versions| &versions.0) {
            // Relaxed: no table has the map yet.
            let version = Version(word.load(Relaxed));
            if version.epoch() > durable && !seeded(Bug::TornVersionsKept) {
                self.store(word, Version::NONE);
            }
        }
    }

    /// Learns of a part's map.
    pub(super) fn set_map(&self, map: Map) {
        let mut state = self.state.lock();
        state.maps.retain(|other| other.part != map.part);
        state.maps.push(map);
    }

    /// Forgets a map whose region goes.
    pub(super) fn remove_map(&self, versions: usize) {
        self.state.lock().maps.retain(|map| map.versions != versions);
    }

    /// Whether a version may be one: of an epoch that was, and of a page that there is, and was
    /// when the file was opened if the version is older. (What is missing then is not what the
    /// file grows by.)
    pub(super) fn is_sound(&self, version: Version) -> bool {
        version.epoch() <= self.epoch()
            && (version.number() + 1) << PAGE_SHIFT <= self.pages.committed()
            && (version.epoch() >= self.first || version.number() < self.found)
    }

    /// The versions of a page; none in the place of what can be none.
    fn load(&self, versions: &Versions) -> [Version; VERSIONS] {
        versions.0.each_ref().map(|word| {
            // Acquire: the page that a version names was filled.
            let version = Version(word.load(Ordering::Acquire));
            if self.is_sound(version) { version } else { Version::NONE }
        })
    }

    /// The version of a page that counts.
    pub(super) fn latest(&self, versions: &Versions) -> Version {
        self.load(versions).into_iter().max().unwrap_or(Version::NONE)
    }

    /// Whether the versions of a part's map that count may be. Others may name pages that
    /// were given back since.
    pub(super) fn is_map_sound(&self, map: &[Versions]) -> bool {
        map.iter().all(|versions| {
            // Relaxed: nothing is read by it.
            let words = versions.0.iter().map(|word| word.load(Relaxed));
            let latest = Version(words.max().unwrap_or_default());
            latest == Version::NONE || self.is_sound(latest)
        })
    }

    /// Whether what pages are made of that nobody has stored anything in is zero.
    pub(super) fn has_zeros(&self) -> bool {
        // Relaxed: nobody ever stores anything there.
        self.words(0).iter().all(|word| word.load(Relaxed) == 0)
    }

    /// Stores a version in a map.
    fn store(&self, word: &AtomicU64, version: Version) {
        let address = core::ptr::from_ref(word).cast();
        // Release: the page was filled.
        let store = || word.store(version.0, Ordering::Release);
        self.pool.backing.store(address, version.0, store);
    }

    /// ShadowPages a page so that it may be changed in this epoch, if nobody else has.
    #[cold]
    pub(super) fn copy(&self, versions: &Versions, word: &AtomicU64) -> Result<(), Error> {
        if self.pool.backing.is_read_only() {
            // What is changed stays in this process.
            return Ok(());
        }
        let mut state = self.state.lock();
        let before = self.latest(versions);
        if before.epoch() == self.epoch() && before.number() != 0 {
            return Ok(());
        }
        let copied = self.copy_to(&mut state, (versions, word), before);
        if before.number() != 0 && self.pool.is_poisoned() {
            // Those who have begun are to end: no sync brings pages any more.
            return Ok(());
        }
        copied
    }

    fn copy_to(
        &self,
        state: &mut State,
        page: (&Versions, &AtomicU64),
        before: Version,
    ) -> Result<(), Error> {
        let number = self.allocate(state, before.number() == 0)?;
        let (from, to) = (self.words(before.number()), self.words(number));
        // Relaxed: nobody changes a page of an earlier epoch, and the lock has what copied it.
        let words: [u64; WORDS] = core::array::from_fn(|at| from[at].load(Relaxed));
        self.pool.backing.store_page(to.as_ptr().cast(), &words, || {
            // Relaxed: published by the version. Who reads the page as it was finds out.
            to.iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
        });
        self.set(state, page, before, number);
        Ok(())
    }

    /// Gives a page up that no operation knows any more. It reads as zero from here on.
    pub(super) fn discard(&self, versions: &Versions, word: &AtomicU64) {
        let mut state = self.state.lock();
        // So that it is not found later as what was replaced before.
        self.look_for_free(&mut state);
        let before = self.latest(versions);
        if before.number() != 0 {
            self.set(&mut state, (versions, word), before, 0);
        }
    }

    /// Makes another page the version of this epoch.
    fn set(
        &self,
        state: &mut State,
        (versions, word): (&Versions, &AtomicU64),
        before: Version,
        number: usize,
    ) {
        let version = Version::new(self.epoch(), number);
        let all = self.load(versions);
        // One of the present epoch makes way at once.
        let of_now = all.iter().position(|other| other.epoch() == version.epoch());
        let mut needed = [until(all, state.durable), until(all, state.syncing)];
        if seeded(Bug::VersionOverwritten) {
            needed = [before; 2];
        }
        let may_go = |&at: &usize| all[at] == Version::NONE || !needed.contains(&all[at]);
        let oldest = || (0..VERSIONS).filter(may_go).min_by_key(|&at| all[at]);
        // Two are needed, of four.
        self.store(&versions.0[of_now.or_else(oldest).unwrap_or(0)], version);
        // Release: with what the page holds.
        word.store(version.0, Ordering::Release);
        let number = before.number() as u32;
        if number == 0 {
            return;
        }
        match &mut state.free {
            // No recovery needs it; and who discards a page knows that all operations have
            // ended that may have known it.
            Some(free) if version.number() == 0 && before.epoch() == version.epoch() => {
                self.recycle();
                free.push(number);
            }
            _ => state.replaced.push((version.epoch(), number)),
        }
    }

    /// Lets readers who announce nothing know that pages are given out again, before any
    /// of them is changed.
    fn recycle(&self) {
        // Relaxed, and a fence: who reads what is stored to such a page from here on, and
        // fences, finds another number.
        self.recycled.fetch_add(1, Relaxed);
        fence(Ordering::Release);
    }

    fn words(&self, number: usize) -> &[AtomicU64] {
        debug_assert!((number + 1) * PAGE_BYTES <= self.pages.committed());
        // SAFETY: the page is one that the part has: that of a version that is sound
        // (`load`), or a free one. The part is mapped, and holds atomic words only.
        unsafe {
            let first = self.base().add(number * PAGE_BYTES).cast::<AtomicU64>();
            core::slice::from_raw_parts(first, WORDS)
        }
    }

    /// A page that nobody needs. The last ones are for copies: they come back by a sync.
    fn allocate(&self, state: &mut State, is_new: bool) -> Result<usize, Error> {
        let free = self.look_for_free(state);
        if free.len() <= MARGIN {
            let grown = self.grow(free, MARGIN);
            self.is_tight.store(grown.is_err(), Relaxed);
            if is_new {
                grown?;
            }
        }
        free.pop().map(|number| number as usize).ok_or_else(|| FileError::Full.into())
    }

    /// The free pages, which are looked for when the first one is needed.
    fn look_for_free<'s>(&self, state: &'s mut State) -> &'s mut Vec<u32> {
        let State { free, replaced, durable, maps, .. } = state;
        free.get_or_insert_with(|| {
            let mut is_used = vec![false; self.pages.committed() / PAGE_BYTES];
            if let Some(first) = is_used.first_mut() {
                *first = true;
            }
            for map in maps.iter() {
                for versions in map.all().0 {
                    let (latest, kept) =
                        (self.latest(versions), until(self.load(versions), *durable));
                    is_used[latest.number()] = true;
                    if kept.number() != latest.number() && kept.number() != 0 {
                        is_used[kept.number()] = true;
                        replaced.push((latest.epoch(), kept.number() as u32));
                    }
                }
            }
            // The lowest are taken first.
            let numbers = (0..is_used.len()).rev().filter(|&number| !is_used[number]);
            numbers.map(|number| number as u32).collect()
        })
    }

    /// Adds an eighth of what there is, and so many pages at least, if there is room.
    fn grow(&self, free: &mut Vec<u32>, pages: usize) -> Result<(), Error> {
        let before = self.pages.committed();
        let least = (before + pages * PAGE_BYTES).next_multiple_of(EXTENT);
        let eighth = (before + before / 8).next_multiple_of(EXTENT).min(self.pages.reserved());
        let grown = self.pages.resize(eighth.max(least));
        if eighth > least {
            grown.or_else(|_| self.pages.resize(least))?
        } else {
            grown?
        }
        let (from, to) = (before / PAGE_BYTES, self.pages.committed() / PAGE_BYTES);
        let mut all: Vec<u32> = (from.max(1)..to).rev().map(|number| number as u32).collect();
        all.append(free);
        *free = all;
        Ok(())
    }

    /// An error if there are so few pages that a change might find none, or one that is
    /// to fill so many.
    pub(super) fn has_room(&self, pages: usize) -> Result<(), Error> {
        let mut state = self.state.lock();
        let free = self.look_for_free(&mut state);
        if free.len() < MARGIN + pages {
            let wanted = MARGIN + pages - free.len();
            let grown = self.grow(free, wanted);
            if free.len() < MARGIN {
                self.is_tight.store(grown.is_err(), Relaxed);
            }
            grown?;
        }
        self.is_tight.store(false, Relaxed);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn is_tight(&self) -> bool {
        // Relaxed: a hint, for which there is a margin.
        self.is_tight.load(Relaxed)
    }

    /// Makes all durable that was changed before. `begin` is to keep everybody from
    /// changing anything while it runs what it is given.
    pub(super) fn sync(&self, begin: impl FnOnce(&dyn Fn())) -> Result<(), Error> {
        let _held = self.syncing.lock();
        begin(&|| {
            let mut state = self.state.lock();
            state.syncing = self.epoch();
            self.begin(state.syncing + 1);
        });
        let synced = self.state.lock().syncing;
        if !seeded(Bug::EpochBeforeBarrier) {
            self.pool.barrier()?;
        }
        self.pool.set_epoch(synced)?;
        let mut state = self.state.lock();
        state.durable = synced;
        let State { free, replaced, .. } = &mut *state;
        self.recycle();
        if let Some(free) = free {
            let is_old = |&(epoch, _): &(u64, u32)| epoch <= synced;
            free.extend(replaced.iter().filter(|page| is_old(page)).map(|&(_, number)| number));
            replaced.retain(|page| !is_old(page));
            free.sort_unstable_by(|a, b| b.cmp(a));
        }
        self.is_tight.store(false, Relaxed);
        Ok(())
    }

    /// Gives the pages behind the last that is needed back to the system. The caller has
    /// just synced, and nobody changes anything.
    pub(super) fn trim(&self) {
        let mut state = self.state.lock();
        self.look_for_free(&mut state);
        let State { free: Some(free), replaced, .. } = &mut *state else { return };
        if !replaced.is_empty() {
            return;
        }
        free.sort_unstable_by(|a, b| b.cmp(a));
        let mut end = self.pages.committed() / PAGE_BYTES;
        let mut spare = free.iter();
        while spare.next().is_some_and(|&number| number as usize + 1 == end) {
            end -= 1;
        }
        let before = self.pages.committed();
        self.pages.release((end * PAGE_BYTES).next_multiple_of(EXTENT).max(EXTENT));
        let left = self.pages.committed();
        if left < before {
            free.retain(|&number| (number as usize) < left / PAGE_BYTES);
        }
    }

    /// Moves pages to the lowest places that are free, while nobody changes anything.
    pub(super) fn move_down(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        let free = self.look_for_free(&mut state);
        free.sort_unstable_by(|a, b| b.cmp(a));
        let end = self.pages.committed() / PAGE_BYTES - free.len();
        for map in state.maps.clone() {
            let (versions, words) = map.all();
            for (versions, word) in versions.iter().zip(words) {
                let before = self.latest(versions);
                let free = self.look_for_free(&mut state);
                let is_lower = free.last().is_some_and(|&number| (number as usize) < end);
                if before.number() >= end && is_lower {
                    self.copy_to(&mut state, (versions, word), before)?;
                }
            }
        }
        Ok(())
    }

    /// So that a reader of what a page held may wait until nobody copies any.
    pub(super) fn while_nothing_moves<R>(&self, run: impl FnOnce() -> R) -> R {
        let _held = self.state.lock();
        run()
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        self.pages.usage()
    }
}

impl Pool {
    /// Whether the machine was started again since the file was open last, without its
    /// having been closed.
    pub(super) fn was_cut(&self) -> bool {
        // Relaxed: before the pool is shared.
        let (since, begun) = (self.page.boot().load(Relaxed), self.page.begun().load(Relaxed));
        let is_new = begun == 0;
        !self.was_closed() && !is_new && self.backing.boot() != Some(since)
    }

    /// Says that the file is open, and since which start of the machine: durably, if that
    /// was not said before.
    pub(super) fn open_for_copies(&self) -> Result<(), Error> {
        let boot = self.backing.boot().unwrap_or(0);
        if self.backing.is_read_only()
            || !self.is_closed() && self.page.boot().load(Relaxed) == boot
        {
            return Ok(());
        }
        // In one sector, and in this order.
        self.store_word(self.page.boot(), boot);
        self.set_session(true);
        self.sync_header()
    }

    /// Says durably that an epoch is durable.
    fn set_epoch(&self, epoch: u64) -> Result<(), Error> {
        self.store_word(self.page.root(), epoch);
        if seeded(Bug::EpochBeforeBarrier) {
            self.sync_header()?;
            return self.barrier();
        }
        if seeded(Bug::EpochUnsynced) { Ok(()) } else { self.sync_header() }
    }

    fn sync_header(&self) -> Result<(), Error> {
        if self.backing.is_read_only() {
            return Ok(());
        }
        let synced = self.backing.sync_range(self.page.address(), SECTOR, 0);
        synced.map_err(|error| {
            self.poison();
            error_of("write the file", error)
        })
    }
}
