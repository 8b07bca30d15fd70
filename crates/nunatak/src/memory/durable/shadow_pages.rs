//! How a file in the page cache gets an order: a page is copied before it changes.
//!
//! The system writes changed pages back when it likes. So after a power cut each sector is as it
//! was at some moment since the last barrier, and a table that relies on the order of its stores
//! would be torn. Here the bytes of a table's parts are *pages* of 4 KiB somewhere in one part of
//! the file, and a map says where each page is. Time is divided into *epochs*, which syncs end. The
//! first change of a page in an epoch copies the page, changes the copy, and adds it to the map as
//! the page's version of that epoch. A power cut can tear only versions of epochs since the last
//! sync, and older versions of these pages are still there. When all of an epoch is durable, the
//! header says so, and the versions that it has replaced are free.
//!
//! - **After a power cut** (the machine was started again since) versions of epochs later than the
//!   header's are dropped. The rest is the whole table as it was at one instant between changes.
//! - **After the end of the process** all its stores are there, in the order of the program, and
//!   the latest versions count.
//!
//! The cost is a copy of 4 KiB for the first change of a page after a sync, and a word of RAM that
//! is read before each access to a page. Without a sync a page is copied at most once.
//!
//! Invariants
//! 1. An epoch begins when no thread changes anything: a change announces itself to the table,
//!    which waits for it. So a page that was found to be of the present epoch stays where it is for
//!    the rest of the operation.
//! 2. A map keeps three versions of a page, if they exist: of the header's epoch, of the epoch that
//!    a sync is making durable, and of the present one. There are four words. A new version takes
//!    the place of none of these three.
//! 3. A page of the file's part is given out again when no needed version names it, and all
//!    operations that may know it have ended. Readers without an announcement compare
//!    [`recycled`](ShadowPages::recycled) before and afterwards.
//! 4. Page 0 of the part holds zeros.

use super::PAGE as EXTENT;
use super::earlier_pages::EarlierPages;
use super::header::Field;
use super::page_sums::{PageSums, Placed};
use super::page_versions::{
    Map, NUMBER_BITS, PAGE_BYTES, PAGE_SHIFT, VERSIONS, Version, Versions, until,
};
use super::pool::Pool;
use super::region::PoolRegion;
use crate::error::{Error, FileError};
use crate::memory::{MemoryUsage, Part, Region};
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicU64, Mutex, Ordering, fence};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The number of pages kept free for changes of existing pages.
pub(super) const MARGIN: usize = 64;

#[derive(Debug)]
pub(super) struct State {
    /// Pages that no version needs. In a file that was opened they are looked for when first
    /// needed.
    free: Option<Vec<u32>>,
    /// Replaced pages, with the epochs of the versions that replaced them.
    replaced: Vec<(u64, u32)>,
    /// The epoch in the header.
    pub(super) durable: u64,
    /// The epoch that a sync is making durable, or the last one that a sync made durable.
    syncing: u64,
    pub(super) maps: Vec<Map>,
}

impl State {
    /// Returns the part and the page whose versions these are.
    fn place_of(&self, versions: &Versions) -> Option<(Part, usize)> {
        self.maps.iter().find_map(|map| Some((map.part, map.page_of(versions)?)))
    }
}

/// The pages of a file, and their state.
#[derive(Debug)]
pub(super) struct ShadowPages {
    pub(super) pool: Arc<Pool>,
    pub(super) pages: PoolRegion,
    pub(super) sums: Option<PageSums>,
    /// The number of pages when the file was opened, and the first epoch since.
    pub(super) found: usize,
    pub(super) first: u64,
    /// The present epoch.
    epoch: AtomicU64,
    recycled: AtomicU64,
    pub(super) state: Mutex<State>,
    syncing: Mutex<()>,
    /// Whether fewer pages are free than should be, and no more could be had.
    is_tight: AtomicBool,
    /// What is known of a damaged file's earlier pages.
    pub(super) earlier: OnceLock<Mutex<EarlierPages>>,
}

impl ShadowPages {
    /// Makes the pages of a pool, with so many bytes of addresses.
    pub(super) fn new(pool: &Arc<Pool>, bytes: usize) -> Result<Self, Error> {
        let bytes = bytes.min(PAGE_BYTES << NUMBER_BITS);
        let pages = PoolRegion::reserve(pool, Part::Pages, bytes)?;
        let found = pages.committed() / PAGE_BYTES;
        let sums = PageSums::new(pool, pages.reserved() / PAGE_BYTES, found == 0)?;
        if found == 0 {
            // In a new file: the page that reads as zero.
            pages.resize(EXTENT)?;
            sums.as_ref().map_or(Ok(()), |sums| sums.grow(EXTENT / PAGE_BYTES))?;
        }
        let durable = match pool.forced() {
            // A damaged file may have lost the number: then all epochs count.
            Some(_) if pool.root() == 0 => pool.field(Field::Begun),
            _ => pool.root(),
        };
        // A number that no version has.
        let epoch = durable.max(pool.field(Field::Begun)).saturating_add(1);
        if epoch >> (63 - NUMBER_BITS) != 0 {
            return Err(FileError::corrupt("there are no epochs left").into());
        }
        let state =
            State { free: None, replaced: Vec::new(), durable, syncing: durable, maps: Vec::new() };
        Ok(Self {
            pool: Arc::clone(pool),
            pages,
            sums,
            found,
            first: epoch,
            epoch: AtomicU64::new(epoch),
            recycled: AtomicU64::new(0),
            state: Mutex::new(state),
            syncing: Mutex::new(()),
            is_tight: AtomicBool::new(false),
            earlier: OnceLock::new(),
        })
    }

    /// Begins an epoch, while no thread changes anything.
    pub(super) fn begin(&self, epoch: u64) {
        // Before a version names the epoch. After a power cut it does not matter.
        self.pool.store_field(Field::Begun, epoch);
        // Relaxed: threads that wait to change something go on after a release.
        self.epoch.store(epoch, Relaxed);
    }

    /// Returns the present epoch.
    #[inline(always)]
    pub(super) fn epoch(&self) -> u64 {
        // Relaxed: it changes while no thread changes anything, and a change acquires it when it
        // begins; or the state's lock is held.
        self.epoch.load(Relaxed)
    }

    /// Returns the last durable epoch.
    pub(super) fn durable(&self) -> u64 {
        self.state.lock().durable
    }

    #[inline(always)]
    pub(super) fn recycled(&self) -> u64 {
        // Acquire: pages are read after it.
        self.recycled.load(Ordering::Acquire)
    }

    pub(super) fn base(&self) -> *const u8 {
        self.pages.base().as_ptr()
    }

    /// Drops versions of epochs that a power cut has ended from a part's map.
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

    /// Adds a part's map to the list.
    pub(super) fn set_map(&self, map: Map) {
        let mut state = self.state.lock();
        state.maps.retain(|other| other.part != map.part);
        state.maps.push(map);
    }

    /// Takes the map of a region that is dropped off the list.
    pub(super) fn remove_map(&self, versions: usize) {
        self.state.lock().maps.retain(|map| map.versions != versions);
    }

    /// Whether a version is valid: its epoch has begun, and its page exists. A version from before
    /// the file was opened must name a page that existed then. (Pages by which the file has grown
    /// since do not replace missing ones.)
    pub(super) fn is_sound(&self, version: Version) -> bool {
        version.epoch() <= self.epoch()
            && (version.number() + 1) << PAGE_SHIFT <= self.pages.committed()
            && (version.epoch() >= self.first || version.number() < self.found)
    }

    /// Returns the versions of a page; invalid versions count as none.
    pub(super) fn load(&self, versions: &Versions) -> [Version; VERSIONS] {
        versions.0.each_ref().map(|word| {
            // Acquire: the page that the version names was filled before.
            let version = Version(word.load(Ordering::Acquire));
            if self.is_sound(version) { version } else { Version::NONE }
        })
    }

    /// Returns the version of a page that counts.
    pub(super) fn latest(&self, versions: &Versions) -> Version {
        self.load(versions).into_iter().max().unwrap_or(Version::NONE)
    }

    /// Whether the versions that count are valid in a part's map. Older versions may name pages
    /// that were given back since.
    pub(super) fn is_map_sound(&self, map: &[Versions]) -> bool {
        map.iter().all(|versions| {
            // Relaxed: no page is read by it.
            let words = versions.0.iter().map(|word| word.load(Relaxed));
            let latest = Version(words.max().unwrap_or_default());
            latest == Version::NONE || self.is_sound(latest)
        })
    }

    /// Whether the page that stands for all empty pages is zero.
    pub(super) fn has_zeros(&self) -> bool {
        // Relaxed: nothing is ever stored there.
        self.words(0).iter().all(|word| word.load(Relaxed) == 0)
    }

    /// Stores a version in a map.
    pub(super) fn store(&self, word: &AtomicU64, version: Version) {
        let address = core::ptr::from_ref(word).cast();
        // Release: the page was filled before.
        let store = || word.store(version.0, Ordering::Release);
        self.pool.backing.store(address, version.0, store);
    }

    /// Copies a page for changes in this epoch, unless another thread has copied it.
    #[cold]
    pub(super) fn copy(&self, versions: &Versions, word: &AtomicU64) -> Result<(), Error> {
        let is_private = self.pool.backing.is_read_only();
        // Acquire: the page that the version names was filled before.
        let used = || Version(word.load(Ordering::Acquire));
        if is_private && used().number() != 0 {
            // Changes stay in this process, so the page needs no copy.
            self.sums.iter().for_each(|sums| sums.note_private(used().number()));
            return Ok(());
        }
        let mut state = self.state.lock();
        // A page that reads as zero gets one of its own: all others share the page of zeros.
        let before = if is_private { used() } else { self.latest(versions) };
        if before.epoch() == self.epoch() && before.number() != 0 {
            return Ok(());
        }
        let copied = self.copy_to(&mut state, (versions, word), before);
        if before.number() != 0 && self.pool.is_poisoned() {
            // Operations that have begun must end: no sync gives pages back any more.
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
        // Relaxed: no thread changes a page of an earlier epoch, and the lock orders the thread
        // that copied it.
        let words: [u64; PAGE_BYTES / 8] = core::array::from_fn(|at| from[at].load(Relaxed));
        self.pool.backing.store_page(to.as_ptr().cast(), &words, || {
            // Relaxed: published by the version. A reader of the place's former page finds out by
            // `recycled`.
            to.iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
        });
        self.set(state, page, before, number);
        Ok(())
    }

    /// Gives up a page that no operation knows any more. It reads as zero from here on.
    pub(super) fn discard(&self, versions: &Versions, word: &AtomicU64) {
        let mut state = self.state.lock();
        // First, so that the search does not find the page as one that was replaced earlier.
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
        // A version of the present epoch is replaced at once.
        let of_now = all.iter().position(|other| other.epoch() == version.epoch());
        let mut needed = [until(all, state.durable), until(all, state.syncing)];
        if seeded(Bug::VersionOverwritten) {
            needed = [before; 2];
        }
        let may_go = |&at: &usize| all[at] == Version::NONE || !needed.contains(&all[at]);
        let oldest = || (0..VERSIONS).filter(may_go).min_by_key(|&at| all[at]);
        // Two of the four words are needed.
        self.store(&versions.0[of_now.or_else(oldest).unwrap_or(0)], version);
        // Release: the page's contents come before.
        word.store(version.0, Ordering::Release);
        if let Some(sums) = &self.sums
            && number != 0
            && let Some((part, page)) = state.place_of(versions)
        {
            sums.note(Placed { part, page, version });
        }
        let number = before.number() as u32;
        if number == 0 {
            return;
        }
        match &mut state.free {
            // No recovery needs the page; and `discard` is called only when all operations that may
            // know it have ended.
            Some(free) if version.number() == 0 && before.epoch() == version.epoch() => {
                self.recycle();
                free.push(number);
            }
            _ => state.replaced.push((version.epoch(), number)),
        }
    }

    /// Tells readers without an announcement that pages are given out again, before any of these
    /// pages changes.
    fn recycle(&self) {
        // Relaxed, and a fence: a reader that reads a later store to such a page, and then fences,
        // finds another number.
        self.recycled.fetch_add(1, Relaxed);
        fence(Ordering::Release);
    }

    pub(super) fn words(&self, number: usize) -> &[AtomicU64] {
        debug_assert!((number + 1) * PAGE_BYTES <= self.pages.committed());
        // SAFETY: the page exists: a valid version names it (`load`), or it is free. The part is
        // mapped, and holds atomic words only.
        unsafe {
            let first = self.base().add(number * PAGE_BYTES).cast::<AtomicU64>();
            core::slice::from_raw_parts(first, PAGE_BYTES / 8)
        }
    }

    /// Takes a free page. The last free pages are for copies: a sync gives them back.
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

    /// Returns the free pages, which are looked for at the first call.
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
            // The lowest pages are taken first.
            let numbers = (0..is_used.len()).rev().filter(|&number| !is_used[number]);
            numbers.map(|number| number as u32).collect()
        })
    }

    /// Adds an eighth of the present pages if there is room, and at least so many.
    fn grow(&self, free: &mut Vec<u32>, pages: usize) -> Result<(), Error> {
        let before = self.pages.committed();
        let least = (before + pages * PAGE_BYTES).next_multiple_of(EXTENT);
        let eighth = (before + before / 8).next_multiple_of(EXTENT).min(self.pages.reserved());
        let resize = |bytes: usize| {
            let sums = self.sums.as_ref().map(|sums| sums.grow(bytes / PAGE_BYTES));
            sums.unwrap_or(Ok(())).and_then(|()| self.pages.resize(bytes))
        };
        let grown = resize(eighth.max(least));
        if eighth > least {
            grown.or_else(|_| resize(least))?
        } else {
            grown?
        }
        let (from, to) = (before / PAGE_BYTES, self.pages.committed() / PAGE_BYTES);
        let mut all: Vec<u32> = (from.max(1)..to).rev().map(|number| number as u32).collect();
        all.append(free);
        *free = all;
        Ok(())
    }

    /// Returns an error if so few pages are free that a change might find none, or cannot fill so
    /// many new ones.
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

    /// Makes all earlier changes durable. `begin` runs its argument while no thread changes
    /// anything.
    pub(super) fn sync(&self, begin: impl FnOnce(&dyn Fn())) -> Result<(), Error> {
        let _held = self.syncing.lock();
        begin(&|| {
            let mut state = self.state.lock();
            state.syncing = self.epoch();
            self.begin(state.syncing + 1);
        });
        let synced = self.state.lock().syncing;
        self.pool.run_before_sync()?;
        if !seeded(Bug::SumsAfterBarrier) {
            self.store_sums(synced);
        }
        if !seeded(Bug::EpochBeforeBarrier) {
            self.pool.barrier()?;
        }
        // From here on, pages of the sync before are used again.
        let alone = self.pool.backing.wait_for_readers();
        self.pool.set_epoch(synced)?;
        drop(alone);
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

    /// Gives the pages behind the last needed one back to the system. The caller has just synced,
    /// and no thread changes anything.
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
            if let Some(sums) = &self.sums {
                sums.shrink(left / PAGE_BYTES);
            }
            free.retain(|&number| (number as usize) < left / PAGE_BYTES);
        }
    }

    /// Moves pages to the lowest free places, while no thread changes anything.
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

    /// Runs a function while no page is copied. So a reader of an old page can wait for the copies.
    pub(super) fn while_nothing_moves<R>(&self, run: impl FnOnce() -> R) -> R {
        let _held = self.state.lock();
        run()
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        self.pages.usage()
    }
}
