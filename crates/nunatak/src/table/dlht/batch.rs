//! Batches: operations in order, with overlapping memory accesses (section 3.3).
//!
//! The paper prefetches all bins of a batch and then executes it. Here the prefetches run a fixed
//! distance ahead of the execution, a few operations at a time, so the number of lines on their way
//! stays about the same. A second, closer window fetches the first link of the bins that have one.

use super::find::Request;
use super::index::Index;
use super::{Step, Table};
use crate::hash::HashCodec;
use crate::sync::{EntryCounts, Mode, OpPin, Registry};
use crate::table::shared::prefetch_groups::PrefetchDistance;
use crate::table::stages::Batches;
use crate::table::{ByWord, Change, KeyTest, Shadowed};
use core::array;
use core::cell::Cell;
use core::marker::PhantomData;

/// So many operations go through each stage together: loops of one stage have few instructions and
/// few values.
const GROUP: usize = 8;
/// The prefetch distances of a bin and of its link, in groups. (`NEAR` fetches into the second-level
/// cache, which has room for twice as many lines.)
const NEAR: (usize, usize) = (8, 2);
const FAR: (usize, usize) = (12, 4);
/// A power of two above the distances.
const RING: usize = 16;
const _: () = assert!(RING.is_power_of_two() && NEAR.0 < RING && FAR.0 < RING);
/// The number of operations after which a batch lets other threads free old indexes.
const PINNED: usize = 1024;

/// The operations whose bins are being fetched, by their group.
struct Window {
    hashes: [[u64; GROUP]; RING],
    /// The offsets of the bins in the index.
    offsets: [[usize; GROUP]; RING],
    reach: PrefetchDistance,
    /// If the hasher is the caller's: the number of the first operation and the hashes from it on.
    /// They were asked for before anything was announced.
    asked: (usize, Vec<u64>),
}

impl Window {
    /// Fetches the bins of a group of so many operations.
    #[inline(always)]
    fn fetch_bins<P: HashCodec, Y: Mode>(
        &mut self,
        table: &Table<P, Y>,
        index: &Index,
        (group, size): (usize, usize),
        first: usize,
        word: impl Fn(usize) -> u64,
    ) {
        let (hashes, offsets) = (&mut self.hashes[group % RING], &mut self.offsets[group % RING]);
        // One check for the processor's instructions and one for the kind of prefetch, not eight.
        if size == GROUP && !P::runs_callers_code() {
            *hashes = table.codec.hash_all(array::from_fn(|i| word(first + i)));
            *offsets = hashes.map(|hash| index.offset_of::<P>(hash));
            self.reach.fetch_all(offsets.map(|offset| index.bins.address_at_offset(offset)));
            return;
        }
        for ((at, hash), offset) in (first..first + size).zip(hashes).zip(offsets) {
            *hash = match P::runs_callers_code() {
                true => self.asked.1[at - self.asked.0],
                false => table.codec.hash(word(at)),
            };
            *offset = index.offset_of::<P>(*hash);
            self.reach.fetch(index.bins.address_at_offset(*offset));
        }
    }

    /// Fetches the links of a group's bins.
    #[inline(always)]
    fn fetch_links(&self, index: &Index, (group, size): (usize, usize)) {
        for &offset in &self.offsets[group % RING][..size] {
            // Few bins have links.
            if let Some(link) = index.first_link(offset) {
                self.reach.fetch(link);
            }
        }
    }
}

/// Entries that a batch has added or removed in first buckets, and that are counted when it ends, also by a panic.
struct CountedAtTheEnd<'t, Y: Mode> {
    registry: &'t Registry,
    added: Cell<i64>,
    mode: PhantomData<Y>,
}

impl<'t, Y: Mode> CountedAtTheEnd<'t, Y> {
    fn new(registry: &'t Registry) -> Self {
        Self { registry, added: Cell::new(0), mode: PhantomData }
    }
}

impl<Y: Mode> Drop for CountedAtTheEnd<'_, Y> {
    fn drop(&mut self) {
        if self.added.get() != 0 {
            self.registry.count::<Y>(self.added.get());
        }
    }
}

impl<Y: Mode> EntryCounts for CountedAtTheEnd<'_, Y> {
    #[inline(always)]
    fn count<C: Mode>(&self, added: i64) {
        self.added.set(self.added.get() + added);
    }
}

impl<P: HashCodec, Y: Mode> Batches for Table<P, Y> {
    #[inline(always)]
    fn find_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        mut found: impl FnMut(usize, Option<u64>),
    ) {
        debug_assert!(!T::RUNS_CALLERS_CODE, "an operation is announced");
        self.for_each_fetched(count, &word, |_pin, index, at, (hash, offset)| {
            let tag = self.codec.tag(word(at), hash);
            let test = &test(at);
            let first = Self::tested(Self::look_at_bin(index, offset, tag), test);
            found(at, first.unwrap_or_else(|| self.find_anywhere(index, hash, word(at), test)));
            Step::Done(true)
        });
    }

    #[inline(always)]
    fn apply_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        fresh: impl Fn(usize) -> Option<u64>,
        change: impl Fn(usize, u64) -> Change,
        mut done: impl FnMut(usize, Option<u64>) -> bool,
    ) {
        debug_assert!(!T::RUNS_CALLERS_CODE, "an operation is announced");
        let counted = CountedAtTheEnd::<Y>::new(&self.registry);
        self.for_each_fetched(count, &word, |pin, index, at, (hash, offset)| {
            let tag = self.codec.tag(word(at), hash);
            let (test, fresh) = (test(at), fresh(at));
            let place = (offset, tag);
            let changed = &|second| change(at, second);
            let first = self
                .apply_in_first_bucket::<false, _>(index, place, &test, fresh, changed, &counted);
            match first {
                Some(before) => Step::Done(done(at, before)),
                None => match self.apply_step(pin, index, (hash, tag), &test, fresh, (&change, at))
                {
                    Step::Done(before) => Step::Done(done(at, before)),
                    Step::Wait => Step::Wait,
                },
            }
        });
    }

    #[inline(always)]
    fn remove_many(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        mut removed: impl FnMut(usize, Option<u64>),
    ) {
        let counted = CountedAtTheEnd::<Y>::new(&self.registry);
        self.for_each_fetched(count, &word, |pin, index, at, (hash, offset)| {
            let tag = self.codec.tag(word(at), hash);
            let before = match self.remove_in_first_bucket::<false>(index, (offset, tag)) {
                Some(before) => {
                    counted.count::<Y>(-i64::from(before.is_some()));
                    before
                }
                None => {
                    let (test, change) = (&ByWord, &|_| Change::Remove);
                    let request = Request { hash, tag, test, fresh: None, hides: false, change };
                    match self.try_apply(pin, index, &request) {
                        Step::Done(Ok(before)) => before,
                        Step::Done(Err(Shadowed)) => unreachable!("a removal inserts nothing"),
                        Step::Wait => return Step::Wait,
                    }
                }
            };
            removed(at, before);
            Step::Done(true)
        });
    }
}

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    /// Performs an operation of a batch that the first bucket was not enough for. The closure that it passes by
    /// reference is its own: the common path would store it in memory.
    #[inline(never)]
    fn apply_step<T: KeyTest>(
        &self,
        pin: &OpPin<Y>,
        index: &Index,
        (hash, tag): (u64, u64),
        test: &T,
        fresh: Option<u64>,
        (change, at): (&impl Fn(usize, u64) -> Change, usize),
    ) -> Step<Option<u64>> {
        let change = &|second| change(at, second);
        let request = Request { hash, tag, test, fresh, hides: false, change };
        match self.try_apply(pin, index, &request) {
            Step::Done(Ok(before)) => Step::Done(before),
            Step::Done(Err(Shadowed)) => {
                unreachable!("maps whose keys may be hidden don't insert so")
            }
            Step::Wait => Step::Wait,
        }
    }

    /// Runs `step` for every operation of a batch, in order, and fetches the bins of later
    /// operations meanwhile. A step that must wait is tried again after this thread has ended
    /// its announcement for a moment.
    #[inline(always)]
    fn for_each_fetched(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        mut step: impl FnMut(&OpPin<Y>, &Index, usize, (u64, usize)) -> Step<bool>,
    ) {
        let mut window = Window {
            hashes: [[0; GROUP]; RING],
            offsets: [[0; GROUP]; RING],
            reach: PrefetchDistance::here(),
            asked: (0, Vec::new()),
        };
        let (bins_ahead, links_ahead) = window.reach.choose(NEAR, FAR);
        let mut done = 0;
        while done < count {
            if P::runs_callers_code() {
                let next = done..count.min(done + PINNED);
                window.asked = (done, next.map(|at| self.codec.hash(word(at))).collect());
            }
            let last = count.min(done + PINNED);
            self.repeat(|pin| {
                let index = self.root(pin);
                let start = done;
                // However often this is repeated, it goes no further than the hashes that were
                // asked for.
                let end = if P::runs_callers_code() { last } else { count.min(start + PINNED) };
                let length = end - start;
                let size = |first: usize| GROUP.min(length - first);
                for next in (0..length + GROUP * bins_ahead).step_by(GROUP) {
                    let group = next / GROUP;
                    if next < length {
                        let first = start + next;
                        window.fetch_bins(self, index, (group, size(next)), first, &word);
                    }
                    if let Some(first) = next.checked_sub(GROUP * (bins_ahead - links_ahead))
                        && first < length
                    {
                        window.fetch_links(index, (first / GROUP, size(first)));
                    }
                    let Some(first) = next.checked_sub(GROUP * bins_ahead) else { continue };
                    let group = first / GROUP % RING;
                    let (hashes, offsets) = (&window.hashes[group], &window.offsets[group]);
                    for i in 0..size(first) {
                        match step(pin, index, done, (hashes[i], offsets[i])) {
                            Step::Done(true) => done += 1,
                            Step::Done(false) => {
                                done = count;
                                return Step::Done(());
                            }
                            Step::Wait => return Step::Wait,
                        }
                    }
                }
                Step::Done(())
            });
        }
    }
}
