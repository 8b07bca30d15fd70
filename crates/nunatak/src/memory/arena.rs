//! Memory for byte strings of any length: size classes in spans, by offsets.
//!
//! The arena's bytes are one region, which grows in place, in *spans* of 64 KiB. A span
//! belongs to a class, and is divided into places of that size; what is larger than half a
//! span has spans of its own. Which places are taken is known beside them, so that it can be
//! told again from what is reachable.
//!
//! Invariants
//! 1. A place that was given out is nobody else's until it is given back.
//! 2. A span's class is stored before any place of it is given out, and stays until all are
//!    given back.
//! 3. Bytes of a place are written by who was given it, before he makes its offset known,
//!    and by nobody afterwards. So whoever learns of the offset by an acquiring load may
//!    read them as long as the place is not given back.

use super::{Heap, HeapRegion, Memory, MemoryUsage, Region, Run, Runs, Stretch};
use crate::error::Error;
use crate::sync::{AtomicU64, Mutex, Ordering, thread_index};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a span.
const SPAN: usize = 64 << 10;

/// What sizes are multiples of.
const GRAIN: usize = 8;

/// The smallest size of which there are four for each doubling.
const FINE: usize = 128;

/// The largest place of a span that is shared.
const LARGEST: usize = SPAN / 2;

/// Sizes up to [`FINE`] in steps of a grain, then four for each doubling up to
/// [`LARGEST`].
const CLASSES: usize = FINE / GRAIN + 4 * (LARGEST / FINE).ilog2() as usize;

/// So that threads seldom wait for each other.
const SHARDS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 8 };

/// The class of the smallest places that so many bytes fit in; none if they need spans of
/// their own.
fn class_of(bytes: usize) -> Option<usize> {
    match bytes {
        ..=FINE => Some(bytes.max(1).div_ceil(GRAIN) - 1),
        bytes if bytes <= LARGEST => {
            // The two bits behind the highest tell which quarter.
            let log = (bytes - 1).ilog2();
            let quarter = (bytes - 1) >> (log - 2) & 3;
            Some(FINE / GRAIN + 4 * (log - FINE.ilog2()) as usize + quarter)
        }
        _ => None,
    }
}

/// The size of a class's places.
fn size_of_class(class: usize) -> usize {
    match class.checked_sub(FINE / GRAIN) {
        None => (class + 1) * GRAIN,
        Some(above) => (5 + above % 4) << (above / 4) << (FINE.ilog2() - 2),
    }
}

/// What a span that is in use belongs to, as a word: a class of a shard, or to one place
/// that has it and some behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Class { shard: usize, class: usize },
    Alone { size: u32 },
}

impl Owner {
    fn word(self) -> u64 {
        match self {
            Self::Class { shard, class } => (shard << 16 | class << 8 | 1) as u64,
            Self::Alone { size } => u64::from(size) << 8 | 2,
        }
    }

    fn of(word: u64) -> Self {
        match word & 0xFF {
            1 => Self::Class { shard: (word >> 16) as usize, class: (word >> 8 & 0xFF) as usize },
            _ => Self::Alone { size: (word >> 8) as u32 },
        }
    }
}

/// A span that is divided into places.
#[derive(Debug)]
struct Span {
    /// A bit for each place.
    taken: Box<[u64]>,
    /// How many there are, and how many are taken.
    places: u32,
    live: u32,
}

impl Span {
    fn new(places: usize) -> Self {
        let mut taken = vec![0_u64; places.div_ceil(64)].into_boxed_slice();
        if !places.is_multiple_of(64) {
            // Those behind the last are nobody's.
            taken[places / 64] = !0 << (places % 64);
        }
        Self { taken, places: places as u32, live: 0 }
    }

    fn take(&mut self) -> Option<usize> {
        let at = self.taken.iter().position(|&word| word != !0)?;
        let bit = (!self.taken[at]).trailing_zeros() as usize;
        self.taken[at] |= 1 << bit;
        self.live += 1;
        Some(64 * at + bit)
    }

    fn give_back(&mut self, place: usize) {
        debug_assert!(
            self.taken[place / 64] >> (place % 64) & 1 == 1,
            "a place is given back twice"
        );
        self.taken[place / 64] &= !(1 << (place % 64));
        self.live -= 1;
    }
}

/// The spans of a class.
#[derive(Debug, Default)]
struct Class {
    spans: BTreeMap<usize, Span>,
    /// Those that have a free place.
    partial: BTreeSet<usize>,
}

/// What an arena holds.
///
/// ```
/// use nunatak::TurboBlobMap;
/// let map = TurboBlobMap::new();
/// map.put(b"key", b"value")?;
/// let stats = map.blob_stats();
/// assert_eq!((stats.blobs, stats.live_bytes), (1, 16));
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BlobStats {
    /// Keys with their values, those among them that were taken out and wait for guards.
    pub blobs: usize,
    /// What they take, each with eight bytes for its lengths.
    pub live_bytes: usize,
    /// The places that they are in.
    pub placed_bytes: usize,
    /// Pieces of 64 KiB that hold any of them.
    pub spans: usize,
    /// All that the map has for them.
    pub mapped_bytes: usize,
    /// What was taken out and waits for guards.
    pub retired_bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Arena {
    region: HeapRegion,
    /// What each span belongs to.
    owners: Stretch<AtomicU64>,
    shards: Box<[Mutex<[Class; CLASSES]>]>,
    runs: Mutex<Runs>,
}

impl Arena {
    /// An arena of so many bytes of addresses at most.
    pub(crate) fn new(most: usize) -> Result<Self, Error> {
        let mut most = most.next_multiple_of(SPAN);
        let region = loop {
            match Heap.reserve(most) {
                Ok(region) => break region,
                // The system may limit the addresses of a process.
                Err(_) if most > 1 << 30 => most = (most / 2).next_multiple_of(SPAN),
                Err(error) => return Err(error),
            }
        };
        let shards = (0..SHARDS).map(|_| Mutex::new(core::array::from_fn(|_| Class::default())));
        Ok(Self {
            region,
            owners: Stretch::new(0, most / SPAN)?,
            shards: shards.collect(),
            runs: Mutex::default(),
        })
    }

    /// The address of an offset.
    #[inline(always)]
    pub(crate) fn address(&self, offset: usize) -> *mut u8 {
        self.region.base().as_ptr().wrapping_add(offset)
    }

    /// A place for so many bytes.
    pub(crate) fn take(&self, bytes: usize) -> Result<usize, Error> {
        self.take_before(bytes, usize::MAX)
    }

    /// A place for so many bytes, before a span if there is one.
    fn take_before(&self, bytes: usize, end: usize) -> Result<usize, Error> {
        let Some(class) = class_of(bytes) else {
            return self.take_spans(bytes.div_ceil(SPAN));
        };
        let shard = thread_index::current() % SHARDS;
        let mut classes = self.shards[shard].lock();
        let Class { spans, partial } = &mut classes[class];
        if partial.first().is_none_or(|&at| at >= end) {
            let run = self.take_run(0, Owner::Class { shard, class })?;
            spans.insert(run.first, Span::new(SPAN / size_of_class(class)));
            partial.insert(run.first);
        }
        // The lowest, so that the highest become free.
        let taken = partial.first().copied().and_then(|at| {
            let span = spans.get_mut(&at)?;
            let place = span.take()?;
            if span.live == span.places {
                partial.remove(&at);
            }
            Some(at * SPAN + place * size_of_class(class))
        });
        taken.ok_or(Error::CapacityOverflow)
    }

    /// A place for what is in another that [should move](Self::should_move): not in a span
    /// that is as far behind.
    pub(crate) fn take_lower(&self, bytes: usize) -> Result<usize, Error> {
        self.take_before(bytes, self.far())
    }

    /// From which span on what holds all could be before it.
    fn far(&self) -> usize {
        2 * self.spans() + 1
    }

    fn take_spans(&self, count: usize) -> Result<usize, Error> {
        let size = count.checked_next_power_of_two().ok_or(Error::CapacityOverflow)?.ilog2();
        let run = self.take_run(size, Owner::Alone { size })?;
        Ok(run.first * SPAN)
    }

    fn take_run(&self, size: u32, owner: Owner) -> Result<Run, Error> {
        let mut runs = self.runs.lock();
        let (run, _) = runs.take(size, |len| {
            let bytes = len.checked_mul(SPAN).ok_or(Error::CapacityOverflow)?;
            self.owners.grow(len)?;
            if bytes <= self.region.committed() { Ok(()) } else { self.commit(bytes) }
        })?;
        // Relaxed: who gives a place of it back has learnt of it.
        self.owners.at(run.first).store(owner.word(), Ordering::Relaxed);
        Ok(run)
    }

    /// Has so many bytes, and more of a large arena: the system finds and clears two MiB at
    /// once if it may, and of a large arena that is little.
    fn commit(&self, bytes: usize) -> Result<(), Error> {
        const PIECE: usize = 2 << 20;
        let large = bytes.next_multiple_of(PIECE).min(self.region.reserved());
        self.region.resize(if bytes < 4 * PIECE { bytes } else { large })
    }

    /// Takes a place back that nobody comes to know any more.
    pub(crate) fn give_back(&self, offset: usize) {
        let at = offset / SPAN;
        match self.owner(offset) {
            Owner::Alone { size } => self.runs.lock().give_back(Run { first: at, size }, 0),
            Owner::Class { shard, class } => {
                let mut classes = self.shards[shard].lock();
                let Class { spans, partial } = &mut classes[class];
                let Some(span) = spans.get_mut(&at) else { return };
                span.give_back(offset % SPAN / size_of_class(class));
                // One that is free for the next to come.
                if span.live == 0 && partial.len() > 1 {
                    spans.remove(&at);
                    partial.remove(&at);
                    self.runs.lock().give_back(Run { first: at, size: 0 }, 0);
                } else {
                    partial.insert(at);
                }
            }
        }
    }

    fn owner(&self, offset: usize) -> Owner {
        // Relaxed: who knows a place has learnt of it after it was stored.
        Owner::of(self.owners.at(offset / SPAN).load(Ordering::Relaxed))
    }

    /// How many bytes the place of so many takes.
    pub(crate) fn placed(bytes: usize) -> usize {
        class_of(bytes)
            .map_or_else(|| bytes.div_ceil(SPAN).next_power_of_two() * SPAN, size_of_class)
    }

    /// Whether a place has room before it, and is in a span of which few are taken, or that
    /// is far behind what would hold all.
    pub(crate) fn should_move(&self, offset: usize) -> bool {
        let at = offset / SPAN;
        match self.owner(offset) {
            Owner::Alone { size } => self.runs.lock().has_below(size, at),
            Owner::Class { shard, class } => {
                let is_far = at >= self.far();
                let classes = self.shards[shard].lock();
                let Class { spans, partial } = &classes[class];
                spans.get(&at).is_some_and(|span| is_far || 2 * span.live < span.places)
                    && (partial.first().is_some_and(|&first| first < at) || is_far)
            }
        }
    }

    /// Gives the memory behind the last span that is in use back to the system.
    pub(crate) fn trim(&self) {
        for shard in &self.shards {
            for Class { spans, partial } in shard.lock().iter_mut() {
                let free: Vec<usize> =
                    spans.iter().filter(|(_, span)| span.live == 0).map(|(&at, _)| at).collect();
                for at in free {
                    spans.remove(&at);
                    partial.remove(&at);
                    self.runs.lock().give_back(Run { first: at, size: 0 }, 0);
                }
            }
        }
        let mut runs = self.runs.lock();
        if runs.trim() {
            self.region.release(runs.len * SPAN);
        }
    }

    /// How many spans have places that are taken, or are one's alone.
    pub(crate) fn spans(&self) -> usize {
        let runs = self.runs.lock();
        runs.len - runs.free()
    }

    pub(crate) fn usage(&self) -> MemoryUsage {
        self.region.usage() + self.owners.usage()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn classes_fit_what_is_in_them_and_little_more() {
        for bytes in 0..=LARGEST {
            let class = class_of(bytes).unwrap();
            let size = size_of_class(class);
            assert!(
                class < CLASSES && size >= bytes && size.is_multiple_of(GRAIN),
                "{bytes}: {size}"
            );
            assert!(class == 0 || size_of_class(class - 1) < bytes, "{bytes} fit a smaller one");
            assert!(bytes <= FINE || 4 * size <= 5 * bytes, "{bytes} in {size}");
        }
        assert_eq!(size_of_class(CLASSES - 1), LARGEST);
        assert_eq!(class_of(LARGEST + 1), None);
    }

    #[test]
    fn places_are_apart_and_all_come_back() {
        let arena = Arena::new(1 << 30).unwrap();
        let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
        let mut random = 1_u64;
        let mut most = 0;
        for _ in 0..50_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if random >> 62 != 0 && taken.len() < 4000 || taken.is_empty() {
                let bytes = match random >> 50 & 63 {
                    0 => (random >> 30) as usize % (8 * SPAN),
                    1..8 => (random >> 30) as usize % LARGEST,
                    _ => (random >> 30) as usize % 256,
                };
                let at = arena.take(bytes).unwrap();
                let end = at + Arena::placed(bytes);
                let before = taken.range(..end).next_back();
                assert!(before.is_none_or(|(_, &end)| end <= at), "{at} overlaps another");
                taken.insert(at, end);
                most = most.max(arena.spans());
            } else {
                let from = (random >> 20) as usize % (1 << 20);
                let at = *taken.range(from..).chain(&taken).next().unwrap().0;
                taken.remove(&at);
                arena.give_back(at);
            }
        }
        assert!(most > 100);
        taken.into_keys().for_each(|at| arena.give_back(at));
        arena.trim();
        assert_eq!((arena.spans(), arena.region.committed()), (0, 0));
    }

    #[test]
    fn what_is_too_large_is_refused_and_takes_nothing() {
        let arena = Arena::new(1 << 20).unwrap();
        assert!(arena.take(usize::MAX / 2).is_err() && arena.take(2 << 20).is_err());
        assert_eq!(arena.spans(), 0);
        assert_eq!(arena.take(1 << 20), Ok(0));
        assert!(arena.take(0).is_err());
        arena.give_back(0);
        assert_eq!(arena.take(0), Ok(0));
    }

    #[test]
    fn sparse_spans_are_told() {
        let arena = Arena::new(1 << 30).unwrap();
        let places: Vec<usize> = (0..3 * SPAN / 64).map(|_| arena.take(64).unwrap()).collect();
        let (keep, give): (Vec<usize>, Vec<usize>) =
            places.iter().partition(|&at| at / 64 % 8 == 0);
        assert!(!keep.iter().any(|&at| arena.should_move(at)));
        give.into_iter().for_each(|at| arena.give_back(at));
        let (first, others): (Vec<usize>, Vec<usize>) = keep.iter().partition(|&&at| at < SPAN);
        assert!(!first.iter().any(|&at| arena.should_move(at)));
        assert!(others.iter().all(|&at| arena.should_move(at)));
    }
}
