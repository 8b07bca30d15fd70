//! Batches: operations in order, with overlapping memory accesses (section 3.3).
//!
//! The paper prefetches all bins of a batch and then executes it. Here the prefetches run a fixed
//! distance ahead of the execution, a few operations at a time, so the number of lines on their way
//! stays about the same. A second, closer window fetches the first link of the bins that have one.

use super::find::Request;
use super::index::Index;
use super::{Step, Table};
use crate::hash::HashCodec;
use crate::sync::{Mode, OpPin};
use crate::table::shared::prefetch_groups::PrefetchDistance;
use crate::table::stages::Batches;
use crate::table::{ByWord, Change, KeyTest, Shadowed};

/// The prefetch distances of a bin and of its link, in operations. (`NEAR` fetches into the
/// second-level cache, which has room for twice as many lines.)
const NEAR: (usize, usize) = (64, 16);
const FAR: (usize, usize) = (96, 32);
/// A power of two above the distances.
const RING: usize = 128;
/// So many operations go through each stage together: loops of one stage have few instructions and
/// few values.
const GROUP: usize = 8;
const _: () = assert!(RING.is_power_of_two() && NEAR.0 + GROUP <= RING && FAR.0 + GROUP <= RING);
/// The number of operations after which a batch lets other threads free old indexes.
const PINNED: usize = 1024;

/// The operations whose bins are being fetched.
struct Window {
    hashes: [u64; RING],
    /// The offsets of the bins in the index.
    offsets: [usize; RING],
    reach: PrefetchDistance,
    /// If the hasher is the caller's: the number of the first operation and the hashes from it on.
    /// They were asked for before anything was announced.
    asked: (usize, Vec<u64>),
}

impl Window {
    #[inline(always)]
    fn fetch_bin<P: HashCodec, Y: Mode>(
        &mut self,
        table: &Table<P, Y>,
        index: &Index,
        at: usize,
        word: u64,
    ) {
        let hash = match P::runs_callers_code() {
            true => self.asked.1[at - self.asked.0],
            false => table.codec.hash(word),
        };
        let offset = index.offset_of::<P>(hash);
        (self.hashes[at % RING], self.offsets[at % RING]) = (hash, offset);
        self.reach.fetch(index.bins.address_at_offset(offset));
    }

    #[inline(always)]
    fn fetch_link(&self, index: &Index, at: usize) {
        // Few bins have links.
        if let Some(link) = index.first_link(self.offsets[at % RING]) {
            self.reach.fetch(link);
        }
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
            let first = Self::tested(Self::look_in_first_bucket(index, offset, tag), test);
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
        self.for_each_fetched(count, &word, |pin, index, at, (hash, offset)| {
            let tag = self.codec.tag(word(at), hash);
            let (test, fresh, change) = (&test(at), fresh(at), &|second| change(at, second));
            let first =
                self.apply_in_first_bucket::<false, _>(index, (offset, tag), test, fresh, change);
            if let Some(before) = first {
                return Step::Done(done(at, before));
            }
            let request = Request { hash, tag, test, fresh, hides: false, change };
            match self.try_apply(pin, index, &request) {
                Step::Done(Ok(before)) => Step::Done(done(at, before)),
                Step::Done(Err(Shadowed)) => {
                    unreachable!("maps whose keys may be hidden don't insert so")
                }
                Step::Wait => Step::Wait,
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
        self.for_each_fetched(count, &word, |pin, index, at, (hash, offset)| {
            let tag = self.codec.tag(word(at), hash);
            let before = match self.remove_in_first_bucket::<false>(index, (offset, tag)) {
                Some(before) => before,
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
        let asked = (0, Vec::new());
        let mut window = Window {
            hashes: [0; RING],
            offsets: [0; RING],
            reach: PrefetchDistance::here(),
            asked,
        };
        let (bin_distance, link_distance) = window.reach.choose(NEAR, FAR);
        let mut done = 0;
        while done < count {
            if P::runs_callers_code() {
                let next = done..count.min(done + PINNED);
                window.asked = (done, next.map(|at| self.codec.hash(word(at))).collect());
            }
            let last = count.min(done + PINNED);
            self.repeat(|pin| {
                let index = self.root(pin);
                // However often this is repeated, it goes no further than the hashes that were
                // asked for.
                let end = if P::runs_callers_code() { last } else { count.min(done + PINNED) };
                for at in done..end.min(done + bin_distance) {
                    window.fetch_bin(self, index, at, word(at));
                }
                while done < end {
                    let next = end.min(done + GROUP);
                    for at in end.min(done + bin_distance)..end.min(next + bin_distance) {
                        window.fetch_bin(self, index, at, word(at));
                    }
                    for at in end.min(done + link_distance)..end.min(next + link_distance) {
                        window.fetch_link(index, at);
                    }
                    while done < next {
                        let fetched = (window.hashes[done % RING], window.offsets[done % RING]);
                        match step(pin, index, done, fetched) {
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
