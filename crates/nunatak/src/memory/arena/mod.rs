//! Memory for byte strings of any length: size classes in spans, by offsets.
//!
//! The arena's bytes are one region, which grows in place, in *spans* of 64 KiB. A span belongs to
//! a class, and is divided into places of that size. Strings larger than half a span have spans of
//! their own. Which places are taken is kept beside the bytes, so that a search for all reachable
//! places can restore it.
//!
//! Invariants
//! 1. A place that was given out has one owner until it is given back.
//! 2. A span's class is stored before any place of the span is given out. It stays until all places
//!    are given back.
//! 3. The owner of a place writes its bytes before it publishes the offset; afterwards they do not
//!    change. So a thread that finds the offset by an acquiring load may read them as long as the
//!    place is not given back.
//! 4. In a medium of epochs (its pages are copied; the arena's are not) a place that was given back
//!    waits until the epoch of its return is durable: until then a power cut may bring back entries
//!    that name it. A place that was given out in the same epoch is reused at once.
//! 5. Locks are taken in this order: the search; shards, by their numbers; the runs. A span's owner
//!    changes under the lock of the shard that has the span.
//! 6. A place that a class [keeps](spans::Class::kept) counts as a live one of its span. In RAM it
//!    belongs to the shard that keeps it; in a medium of epochs its span says that it is kept.

mod classes;
mod places;
#[cfg(durable)]
mod search;
mod spans;

#[cfg(all(test, durable))]
mod file_tests;
#[cfg(all(test, not(modelled)))]
mod tests;

use super::prefetch::prefetch_to_write;
use super::{
    Addresses, Buddies, BuddyExtent, Heap, Medium, MemoryUsage, Part, Region, ReservedArray,
};
use crate::error::Error;
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, thread_index};
pub(crate) use places::Places;

use classes::{SPAN, class_of, size_of_class};
use core::sync::atomic::AtomicBool;
pub(crate) use spans::Totals;
use spans::{Class, Given, Owner, Search, Shard, Span};
use std::collections::{BTreeMap, VecDeque};

/// Several, so that threads seldom wait for each other.
const SHARDS: usize = if cfg!(modelled) { 1 } else { 8 };

/// The contents of a blob map's arena.
///
/// ```
/// use nunatak::TurboBlobMap;
/// let map = TurboBlobMap::new();
/// map.put(b"key", b"value")?;
/// let stats = map.blob_stats();
/// assert_eq!((stats.blobs, stats.live_bytes), (1, 12));
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BlobStats {
    /// Keys with their values, including removed ones that wait for guards.
    pub blobs: usize,
    /// The bytes of their strings and of the lengths in front: in RAM four bytes for a key below 4 KiB
    /// with a value below 512 KiB, twelve for longer ones; in a file eight, and four of a checksum.
    pub live_bytes: usize,
    /// The bytes of their places.
    pub placed_bytes: usize,
    /// Spans of 64 KiB that hold any of them.
    pub spans: usize,
    /// All bytes that the map has mapped for them.
    pub mapped_bytes: usize,
    /// Bytes that were removed and wait for guards.
    pub retired_bytes: usize,
    /// Bytes that were removed from a map in a file and wait for the next sync.
    pub unsynced_bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Arena<M: Medium = Heap> {
    medium: M,
    region: M::Direct,
    /// The owner of each span.
    owners: ReservedArray<AtomicU64>,
    shards: Box<[Mutex<Shard>]>,
    runs: Mutex<Buddies>,
    /// In a medium of epochs: places with spans of their own, and the epochs in which they were
    /// given out.
    alone: Mutex<BTreeMap<usize, u64>>,
    /// Places that were given back and wait until these epochs are durable.
    waiting: Mutex<VecDeque<(u64, usize)>>,
    /// The bytes of the waiting places: a statistic, counted and read relaxed.
    waiting_bytes: AtomicUsize,
    search: Mutex<Search>,
    /// Whether the search goes on. Relaxed: a thread that learns of its end late grows the arena a
    /// little too much, or searches in vain.
    is_searched: AtomicBool,
}

impl<M: Medium> Arena<M> {
    /// Makes an arena of at most so many bytes of addresses. Bytes that the medium has already are
    /// free only after a search or `learn`.
    pub(crate) fn new(medium: &M, most: usize) -> Result<Self, Error> {
        let mut most = most.next_multiple_of(SPAN);
        let region = loop {
            match medium.direct(Part::Values, most) {
                Ok(region) => break region,
                // The system may limit the addresses of a process.
                Err(_) if most > 1 << 30 => most = (most / 2).next_multiple_of(SPAN),
                Err(error) => return Err(error),
            }
        };
        // A file may have more.
        most = most.max(region.committed().next_multiple_of(SPAN));
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::new()));
        Ok(Self {
            medium: medium.clone(),
            region,
            owners: ReservedArray::new(0, most / SPAN)?,
            shards: shards.collect(),
            runs: Mutex::default(),
            alone: Mutex::default(),
            waiting: Mutex::default(),
            waiting_bytes: AtomicUsize::new(0),
            search: Mutex::default(),
            is_searched: AtomicBool::new(false),
        })
    }

    /// Returns the address of an offset.
    #[inline(always)]
    pub(crate) fn address(&self, offset: usize) -> *mut u8 {
        self.region.base().as_ptr().wrapping_add(offset)
    }

    /// Whether the arena holds so many bytes from an offset on. Offsets in a damaged file may be
    /// anything.
    #[inline(always)]
    pub(crate) fn holds(&self, offset: usize, bytes: usize) -> bool {
        offset.checked_add(bytes).is_some_and(|end| end <= self.region.committed())
    }

    /// Whether an offset lies in the addresses of the arena.
    fn may_have(&self, offset: usize) -> bool {
        offset < self.region.reserved()
    }

    /// Takes a place for so many bytes.
    #[inline]
    pub(crate) fn allocate(&self, bytes: usize) -> Result<usize, Error> {
        if let Some(class) = class_of(bytes) {
            let own = thread_index::current_if_any() % SHARDS;
            let mut held = self.shards[own].lock();
            while let Some(place) = held.take_kept(class) {
                if !M::IS_DURABLE || self.take_again(&mut held, own, place) {
                    held.count(class, bytes);
                    if let Some(next) = held.next_kept(class) {
                        self.prefetch_to_write(next, class);
                    }
                    return Ok(place);
                }
            }
        }
        self.take_before(bytes, usize::MAX)
    }

    /// Prefetches the lines of a place for the bytes of the next string of about this size: where it is
    /// stored in lines that no cache has, the processor's next locked instruction waits for all of them.
    fn prefetch_to_write(&self, offset: usize, class: usize) {
        /// As many as the processor can ask for at once.
        const MOST: usize = 20 * 64;
        let lines = (0..size_of_class(class).min(MOST)).step_by(64);
        lines.for_each(|at| prefetch_to_write(self.address(offset + at)));
    }

    /// Takes a place that a shard has kept, if its span says that it is kept.
    fn take_again(&self, held: &mut Shard, own: usize, offset: usize) -> bool {
        let Owner::Class { shard, class, index } = self.owner(offset / SPAN) else { return false };
        let (place, epoch) = (Self::place_of(offset, class), self.medium.epoch());
        shard == own && held.classes[class].take_again(index, place, epoch)
    }

    fn own_shard(&self) -> &Mutex<Shard> {
        &self.shards[thread_index::current_if_any() % SHARDS]
    }

    /// Takes a place for so many bytes, in a span before `end` if there is one.
    fn take_before(&self, bytes: usize, end: usize) -> Result<usize, Error> {
        let Some(class) = class_of(bytes) else {
            let place = self.take_spans(bytes.div_ceil(SPAN))?;
            self.own_shard().lock().totals.add(bytes, Self::placed(bytes));
            return Ok(place);
        };
        let shard = thread_index::current_if_any() % SHARDS;
        let has_room =
            |held: &Shard| held.classes[class].first_partial().is_some_and(|(at, _)| at < end);
        let mut held = self.shards[shard].lock();
        if !has_room(&held) {
            drop(held);
            if M::IS_DURABLE {
                self.reuse_synced();
            }
            self.take_over(shard, class, end);
            held = self.shards[shard].lock();
            if !has_room(&held) {
                let at = self.take_run(0)?.first;
                let index = held.classes[class].insert(Span::new(at, class, self.medium.epoch()));
                self.set_owner(at, Owner::Class { shard, class, index });
            }
        }
        held.take(class, bytes, self.medium.epoch()).ok_or(Error::CapacityOverflow)
    }

    /// Moves a span to a shard that has no room in a class, from a shard that has more than one. So
    /// spans that a finished thread leaves are used again.
    fn take_over(&self, shard: usize, class: usize, end: usize) {
        // The first span is left, so that threads do not take it from each other in turns.
        let spare = |held: &Shard| {
            let second = held.classes[class].second_partial();
            second.filter(|&(at, _)| at < end).map(|(_, index)| index)
        };
        for other in (0..SHARDS).filter(|&other| other != shard) {
            if spare(&self.shards[other].lock()).is_none() {
                continue;
            }
            let (low, high) = (shard.min(other), shard.max(other));
            let (low, high) = (self.shards[low].lock(), self.shards[high].lock());
            let (mut to, mut from) = if shard < other { (low, high) } else { (high, low) };
            if let Some(index) = spare(&from)
                && let Some(mut span) = from.classes[class].remove(index)
            {
                span.let_kept_go();
                let at = span.at;
                let index = to.classes[class].insert(span);
                self.set_owner(at, Owner::Class { shard, class, index });
                return;
            }
        }
    }

    /// Takes a place to move a string to that [should move](Self::should_move): in a span that is
    /// not far behind.
    pub(crate) fn take_lower(&self, bytes: usize) -> Result<usize, Error> {
        self.take_before(bytes, self.far())
    }

    /// Returns the first span that compaction may empty: more than twice as many spans as are in
    /// use lie before it.
    fn far(&self) -> usize {
        2 * self.spans() + 1
    }

    fn take_spans(&self, spans: usize) -> Result<usize, Error> {
        if M::IS_DURABLE {
            self.reuse_synced();
        }
        let size = spans.checked_next_power_of_two().ok_or(Error::CapacityOverflow)?.ilog2();
        let run = self.take_run(size)?;
        self.set_owner(run.first, Owner::Alone { spans });
        // Gives the rest of the run back.
        self.runs.lock().give_back_all(run.first + spans..run.first + run.len(), 0);
        let epoch = self.medium.epoch();
        if epoch != 0 {
            self.alone.lock().insert(run.first, epoch);
        }
        Ok(run.first * SPAN)
    }

    /// Takes spans that have no owner yet.
    fn take_run(&self, size: u32) -> Result<BuddyExtent, Error> {
        let mut runs = self.runs.lock();
        let (run, _) = runs.allocate(size, |len| {
            let bytes = len.checked_mul(SPAN).ok_or(Error::CapacityOverflow)?;
            self.owners.grow(len)?;
            if bytes <= self.region.committed() { Ok(()) } else { self.commit(bytes) }
        })?;
        Ok(run)
    }

    /// Commits at least so many bytes. A large arena grows in larger steps: the system finds and
    /// clears two MiB at once if it can, and a file has room for few extents.
    fn commit(&self, bytes: usize) -> Result<(), Error> {
        const PIECE: usize = 2 << 20;
        let before = self.region.committed();
        let more = match M::IS_DURABLE {
            // Surplus spans would not be known to be free if a crash came again, so here they are
            // few. (With none, crashes in quick succession used all extents up.)
            true if self.is_searched.load(Ordering::Relaxed) => {
                (before + before / 16).next_multiple_of(SPAN)
            }
            true => (before + before / 8).next_multiple_of(SPAN),
            false if bytes >= 4 * PIECE => bytes.next_multiple_of(PIECE),
            false => bytes,
        };
        let more = more.min(self.region.reserved()).max(bytes);
        let resized = self.region.resize(more);
        if more > bytes { resized.or_else(|_| self.region.resize(bytes)) } else { resized }
    }

    /// Gives back a place of so many bytes that no operation can newly find. If a power cut could
    /// bring back an entry that names it, the place waits.
    #[inline]
    pub(crate) fn give_back(&self, offset: usize, bytes: usize) {
        if !M::IS_DURABLE
            && let Some(class) = class_of(bytes)
        {
            let mut surplus = Vec::new();
            let mut held = self.own_shard().lock();
            debug_assert!(!held.has_kept(class, offset), "a place is given back twice");
            held.keep(class, bytes, offset, &mut surplus);
            drop(held);
            return surplus.into_iter().for_each(|offset| self.free(offset));
        }
        self.give_back_of_file(offset, bytes);
    }

    fn give_back_of_file(&self, offset: usize, bytes: usize) {
        let (at, epoch) = (offset / SPAN, self.medium.epoch());
        let is_free_at_once = epoch == 0 || seeded(Bug::PlaceNotKept);
        if let Some((mut held, class, index)) = self.lock_span(at) {
            let place = Self::place_of(offset, class);
            if !is_free_at_once && held.classes[class].keep_fresh(index, place, epoch) {
                let mut surplus = Vec::new();
                // A damaged file may name the middle of a place. It is given out from its begin.
                let begin = at * SPAN + place * size_of_class(class);
                held.keep(class, bytes, begin, &mut surplus);
                drop(held);
                return surplus.into_iter().for_each(|offset| self.free_kept(offset));
            }
            held.count_back(class, bytes);
            if is_free_at_once {
                return self.free_place(&mut held.classes[class], index, place);
            }
        } else {
            self.own_shard().lock().totals.subtract(bytes, Self::placed(bytes));
            if is_free_at_once || self.alone.lock().get(&at) == Some(&epoch) {
                return self.free(offset);
            }
        }
        self.waiting_bytes.fetch_add(self.bytes_at(offset), Ordering::Relaxed);
        self.waiting.lock().push_back((epoch, offset));
    }

    /// Prefetches what says which of these places are taken, as far as it is in the own shard. The places are
    /// about to be given back one by one: each takes a lock, so their cache misses would not overlap.
    pub(crate) fn prefetch_places(&self, offsets: impl Iterator<Item = usize>) {
        let own = thread_index::current_if_any() % SHARDS;
        let held = self.shards[own].lock();
        for offset in offsets.filter(|&offset| self.holds(offset, 1)) {
            if let Owner::Class { shard, class, index } = self.owner(offset / SPAN)
                && shard == own
                && let Some(span) = held.classes[class].span(index)
            {
                span.prefetch(Self::place_of(offset, class));
            }
        }
    }

    /// Returns how many bytes the place at an offset has.
    fn bytes_at(&self, offset: usize) -> usize {
        match self.owner(offset / SPAN) {
            Owner::Class { class, .. } => size_of_class(class),
            Owner::Alone { spans } => spans * SPAN,
            Owner::Inside | Owner::Nobody => 0,
        }
    }

    /// Returns which place of its span an offset is.
    fn place_of(offset: usize, class: usize) -> usize {
        offset % SPAN / size_of_class(class)
    }

    /// Makes room where places were given back in epochs that are durable now.
    pub(crate) fn reuse_synced(&self) {
        // Before any lock: the medium takes a lock of its own.
        let settled = self.medium.settled();
        let mut free = Vec::new();
        {
            let mut waiting = self.waiting.lock();
            while let Some(&(epoch, offset)) = waiting.front()
                && epoch <= settled
            {
                waiting.pop_front();
                free.push(offset);
            }
        }
        for offset in free {
            self.waiting_bytes.fetch_sub(self.bytes_at(offset), Ordering::Relaxed);
            self.free(offset);
        }
        #[cfg(durable)]
        self.settle_search(settled);
    }

    /// Returns how many bytes wait for a sync.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    fn free(&self, offset: usize) {
        let at = offset / SPAN;
        match self.owner(at) {
            Owner::Alone { spans } => {
                let search = self.search.lock();
                (at..at + spans).for_each(|at| self.set_owner(at, Owner::Nobody));
                self.alone.lock().remove(&at);
                // Spans under search are given back when the search ends.
                if at >= search.end() {
                    self.runs.lock().give_back_all(at..at + spans, 0);
                }
            }
            Owner::Class { .. } => {
                let Some((mut held, class, index)) = self.lock_span(at) else { return };
                self.free_place(&mut held.classes[class], index, Self::place_of(offset, class));
            }
            Owner::Inside | Owner::Nobody => {
                debug_assert!(M::IS_DURABLE, "nobody's place is given back");
            }
        }
    }

    /// Gives a place of a medium of epochs to its span, if that says that it is kept.
    fn free_kept(&self, offset: usize) {
        let Some((mut held, class, index)) = self.lock_span(offset / SPAN) else { return };
        let place = Self::place_of(offset, class);
        let class = &mut held.classes[class];
        match class.give_back_kept(index, place) {
            Given::Last if class.second_partial().is_some() => self.free_span(class, index),
            // It is not kept if the span has moved since.
            Given::Last | Given::Back | Given::Twice => {}
        }
    }

    /// Gives back a place of a span, whose shard is locked.
    fn free_place(&self, class: &mut Class, index: usize, place: usize) {
        match class.give_back(index, place) {
            // A damaged file may name a place that is free, or one that belongs to another entry.
            Given::Twice => debug_assert!(M::IS_DURABLE, "a place is given back twice"),
            // An empty span stays for the next place if the class has few with room.
            Given::Last if class.second_partial().is_some() => self.free_span(class, index),
            Given::Last | Given::Back => {}
        }
    }

    /// Locks the shard that has a span of a class; also returns the class, and the span's index there.
    fn lock_span(&self, at: usize) -> Option<(MutexGuard<'_, Shard>, usize, usize)> {
        loop {
            let owner = self.owner(at);
            let Owner::Class { shard, class, index } = owner else { return None };
            let held = self.shards[shard].lock();
            // The span may have moved to another shard before the lock.
            if self.owner(at) == owner {
                return Some((held, class, index));
            }
        }
    }

    /// Asks something about a span of a class.
    #[cfg(durable)]
    fn of_span<R>(&self, at: usize, ask: impl FnOnce(&Span) -> R) -> Option<R> {
        let (held, class, index) = self.lock_span(at)?;
        held.classes[class].span(index).map(ask)
    }

    /// Whether the place of so many bytes at an offset is taken.
    #[cfg(durable)]
    pub(crate) fn has(&self, offset: usize, bytes: usize) -> bool {
        let at = offset / SPAN;
        match self.owner(at) {
            Owner::Class { class, .. } => {
                let size = size_of_class(class);
                let place = offset % SPAN / size;
                class_of(bytes) == Some(class)
                    && (offset % SPAN).is_multiple_of(size)
                    && self.of_span(at, |span| span.is_taken(place)) == Some(true)
            }
            Owner::Alone { spans } => {
                class_of(bytes).is_none()
                    && offset.is_multiple_of(SPAN)
                    && spans == bytes.div_ceil(SPAN)
            }
            Owner::Inside | Owner::Nobody => false,
        }
    }

    /// Gives back a span without taken places.
    fn free_span(&self, class: &mut Class, index: usize) {
        let Some(Span { at, .. }) = class.remove(index) else { return };
        self.set_owner(at, Owner::Nobody);
        self.runs.lock().give_back(BuddyExtent { first: at, size: 0 }, 0);
    }

    fn owner(&self, at: usize) -> Owner {
        // Relaxed: a thread that knows a place has learned of it after this was stored.
        Owner::of(self.owners.at(at).load(Ordering::Relaxed))
    }

    fn set_owner(&self, at: usize, owner: Owner) {
        // Relaxed: a thread that gives back a place of the span has learned of it.
        self.owners.at(at).store(owner.word(), Ordering::Relaxed);
    }

    /// Returns the size of the place that so many bytes take.
    pub(crate) fn placed(bytes: usize) -> usize {
        class_of(bytes).map_or_else(|| bytes.next_multiple_of(SPAN), size_of_class)
    }

    /// Whether a string should move to a lower place: there is room before it, and its span is less
    /// than half full or far behind.
    pub(crate) fn should_move(&self, offset: usize) -> bool {
        let at = offset / SPAN;
        match self.owner(at) {
            Owner::Alone { spans } => {
                self.runs.lock().has_below(spans.next_power_of_two().ilog2(), at)
            }
            Owner::Class { .. } => {
                let is_far = at >= self.far();
                let Some((held, class, index)) = self.lock_span(at) else { return false };
                let class = &held.classes[class];
                class.span(index).is_some_and(|span| is_far || 2 * span.live < span.places)
                    && (class.first_partial().is_some_and(|(first, _)| first < at) || is_far)
            }
            Owner::Inside | Owner::Nobody => false,
        }
    }

    /// Gives the memory behind the last used span back to the system.
    pub(crate) fn trim(&self) {
        for shard in &self.shards {
            let kept = shard.lock().give_up_kept();
            let free =
                |offset| if M::IS_DURABLE { self.free_kept(offset) } else { self.free(offset) };
            kept.into_iter().for_each(free);
        }
        for shard in &self.shards {
            for class in &mut shard.lock().classes {
                let free = class.spans_that(|span| span.live == 0 && !span.is_held);
                free.into_iter().for_each(|index| self.free_span(class, index));
            }
        }
        let mut runs = self.runs.lock();
        if runs.trim() {
            self.region.release(runs.len * SPAN);
        }
    }

    /// Returns how many bytes there are for places.
    #[cfg(durable)]
    pub(crate) fn committed(&self) -> usize {
        self.region.committed()
    }

    /// Returns what has been given out.
    pub(crate) fn totals(&self) -> Totals {
        self.shards.iter().fold(Totals::default(), |sum, shard| sum + shard.lock().totals)
    }

    /// Returns how many spans are in use.
    pub(crate) fn spans(&self) -> usize {
        let runs = self.runs.lock();
        runs.len - runs.free()
    }

    pub(crate) fn usage(&self) -> MemoryUsage {
        self.region.usage() + self.owners.usage()
    }
}
