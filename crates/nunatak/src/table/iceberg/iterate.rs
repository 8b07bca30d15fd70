//! Weakly consistent iteration.
//!
//! An iterator walks level 3, the back yard and the front yard. Iterators keep the table from
//! halving, so a key that stays present stays in its level. A doubling moves a key only to the same
//! column of the new half. So the walk covers the blocks of the size at the start, each with all
//! blocks that it has become. A key that was removed and inserted again may have changed its level.
//! Therefore the words of the first two levels of the walk, a tenth of all, are remembered.

use super::Table;
use super::back::Back;
use super::geometry::BlockSizes;
use super::yard::Yard;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::sync::{AtomicPair, OpPin, Ordering, Shared};
use crate::table::stages::Iteration;
use std::collections::HashSet;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Chains,
    Back,
    Front,
}

/// The pairs of a table. The table does not halve while the iterator lives.
#[derive(Debug)]
pub struct PairIter<'t, P: HashCodec, B: BlockSizes, M: Medium> {
    table: &'t Table<P, B, M>,
    level: Level,
    /// Rows less one of the size at the start.
    mask: u64,
    next: usize,
    /// The block behind the last one of a level.
    end: usize,
    /// Words and value words that are to be yielded, unless a level before had the word.
    buffer: Vec<(u64, u64)>,
    /// The pairs of the levels before the front yard, if they were read to split the iterator.
    before_front: Vec<(u64, u64)>,
    /// The words of level 3 and the back yard. Iterators over parts of the front yard share them.
    yielded: Arc<HashSet<u64, foldhash::fast::FixedState>>,
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Iteration for Table<P, B, M> {
    type Iter<'t>
        = PairIter<'t, P, B, M>
    where
        Self: 't;

    fn iter(&self) -> PairIter<'_, P, B, M> {
        // Under the lock no halving is under way, except one that waits for the caller's hasher
        // without the lock; `complete` ends it. (In RAM this does not fail.)
        let held = if P::runs_callers_code() { self.complete().ok() } else { None };
        let _held = held.unwrap_or_else(|| self.migrating.lock());
        self.iterators.fetch_add(1, Ordering::Relaxed);
        let mask = self.state().smaller_mask();
        PairIter {
            table: self,
            level: Level::Chains,
            mask,
            next: 0,
            end: self.geometry.blocks(mask),
            buffer: Vec::new(),
            before_front: Vec::new(),
            yielded: Arc::default(),
        }
    }

    /// Reads the levels before the front yard, whose words all parts must know, and splits the front
    /// yard.
    #[cfg(feature = "rayon")]
    fn split<'t>(iter: &mut PairIter<'t, P, B, M>) -> Option<PairIter<'t, P, B, M>>
    where
        Self: 't,
    {
        while iter.level != Level::Front {
            while let Some(pair) = iter.pop_new() {
                iter.before_front.push(pair);
            }
            iter.advance();
        }
        let middle = iter.next + (iter.end - iter.next) / 2;
        (middle > iter.next).then(|| {
            // Relaxed: `iter` is counted, so the table does not halve.
            iter.table.iterators.fetch_add(1, Ordering::Relaxed);
            PairIter {
                table: iter.table,
                level: Level::Front,
                mask: iter.mask,
                next: middle,
                end: core::mem::replace(&mut iter.end, middle),
                buffer: Vec::new(),
                before_front: Vec::new(),
                yielded: Arc::clone(&iter.yielded),
            }
        })
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> PairIter<'_, P, B, M> {
    /// Reads all blocks that a block of the first size has become.
    fn read(&mut self, at: usize) {
        let table = self.table;
        let first = table.geometry.blocks(self.mask);
        loop {
            self.buffer.clear();
            // Announced, so that no page is given out again meanwhile.
            let mut pin = M::IS_PAGED.then(OpPin::<Shared>::new);
            let state = table.state();
            let of_block = |blocks: usize| (at..blocks).step_by(first);
            if state.is_moving() {
                if M::IS_PAGED {
                    drop(pin.take());
                    pin = Some(table.cut.enter());
                }
                let mut blocks = of_block(table.geometry.blocks(state.smaller_mask()));
                let is_settled = blocks.all(|block| match self.level {
                    Level::Front => table.settle_front(state, block),
                    _ => table.settle_back(state, block),
                });
                if !is_settled {
                    drop(pin);
                    table.prepare_to_settle();
                    continue;
                }
            }
            for block in of_block(table.geometry.blocks(state.mask())) {
                self.copy(block);
            }
            if table.is_still(state) {
                return;
            }
        }
    }

    /// Copies the pairs of a block, all at one moment, since a key may be removed and put into
    /// another slot.
    fn copy(&mut self, block: usize) {
        let table = self.table;
        let half = table.geometry.half(block);
        let mut keep = |slot: &AtomicPair, is_used: bool| {
            // Acquire: the entry behind the value word is at least as new.
            let (tag, second) =
                (slot.load_first(Ordering::Relaxed), slot.load_second(Ordering::Acquire));
            if tag != 0 && is_used {
                self.buffer.push((table.decoder.word(tag, half), second));
            }
        };
        if self.level == Level::Front {
            table.front.lock(block);
            let unused = table.front.matching(block, 0);
            (0..B::FRONT)
                .for_each(|slot| keep(table.front.slot(block, slot), unused >> slot & 1 == 0));
            table.front.unlock(block);
        } else {
            table.back.lock(block);
            let unused: Vec<usize> = Back::<B, M>::empties(table.back.word(block)).collect();
            (0..B::BACK)
                .for_each(|slot| keep(table.back.slot(block, slot), !unused.contains(&slot)));
            table.back.unlock(block);
        }
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> PairIter<'_, P, B, M> {
    /// Takes a pair whose word no level before had from the buffer.
    #[inline(always)]
    fn pop_new(&mut self) -> Option<(u64, u64)> {
        while let Some((word, second)) = self.buffer.pop() {
            // If words are hashes, another key may have the same word.
            let is_new = !P::WORDS_ARE_KEYS
                || match self.level {
                    Level::Front => self.yielded.is_empty() || !self.yielded.contains(&word),
                    // The iterator has not been split yet, so the set is its own.
                    _ => Arc::make_mut(&mut self.yielded).insert(word),
                };
            if is_new {
                return Some((word, second));
            }
        }
        None
    }

    /// Reads the next block, or goes to the next level. Returns false behind the last one.
    fn advance(&mut self) -> bool {
        match self.level {
            Level::Chains => {
                let word = |(hash, (tag, second)): (u64, (u64, u64))| {
                    (self.table.decoder.word(tag, (hash >> 63) as usize), second)
                };
                self.buffer = self.table.chains.all().into_iter().map(word).collect();
                self.level = Level::Back;
            }
            _ if self.next < self.end => {
                self.next += 1;
                self.read(self.next - 1);
            }
            Level::Back => {
                self.next = 0;
                self.level = Level::Front;
            }
            Level::Front => return false,
        }
        true
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Iterator for PairIter<'_, P, B, M> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        if let Some(pair) = self.before_front.pop() {
            return Some(pair);
        }
        loop {
            if let Some(pair) = self.pop_new() {
                return Some(pair);
            }
            if !self.advance() {
                return None;
            }
        }
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Drop for PairIter<'_, P, B, M> {
    fn drop(&mut self) {
        // Release: the memory that the iterator has read is given back after this.
        self.table.iterators.fetch_sub(1, Ordering::Release);
    }
}
