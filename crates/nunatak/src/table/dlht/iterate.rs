//! Weakly consistent iteration.
//!
//! An iterator walks the bins of the index that was the root when it began, and holds that index.
//! Where a bin has moved, the iterator follows to the bins that have its keys now. Every key
//! belongs to one bin of the first index, so no key is yielded twice, and each is read where it is
//! at that moment.

use super::Table;
use super::index::Index;
use super::layout::{BinState, DELEGATED, Header};
use super::probe::still;
use crate::hash::HashCodec;
use crate::seeded::Bug;
use crate::sync::{Backoff, Mode, Ordering};
use crate::table::shared::descendants::read_descendants;
use crate::table::stages::Iteration;
use std::sync::Arc;

/// The pairs of a table. The iterator holds the memory of the index with which it began.
#[derive(Debug)]
pub struct PairIter<'t, P: HashCodec, Y: Mode> {
    table: &'t Table<P, Y>,
    index: Arc<Index>,
    bin: usize,
    /// The bin behind the last one.
    end: usize,
    buffer: Vec<(u64, u64)>,
}

impl<P: HashCodec, Y: Mode> Iteration for Table<P, Y> {
    type Iter<'t>
        = PairIter<'t, P, Y>
    where
        Self: 't;

    fn iter(&self) -> PairIter<'_, P, Y> {
        let index = self.hold_root();
        PairIter { table: self, bin: 0, end: index.bins.len(), index, buffer: Vec::new() }
    }

    /// Every key belongs to one bin of the first index, so ranges of its bins have no key in common.
    #[cfg(feature = "rayon")]
    fn split<'t>(iter: &mut PairIter<'t, P, Y>) -> Option<PairIter<'t, P, Y>>
    where
        Self: 't,
    {
        let middle = iter.bin + (iter.end - iter.bin) / 2;
        (middle > iter.bin).then(|| PairIter {
            table: iter.table,
            index: Arc::clone(&iter.index),
            bin: middle,
            end: core::mem::replace(&mut iter.end, middle),
            buffer: Vec::new(),
        })
    }

    /// Passes every value word to `each`, in a table that no other thread uses any more. Calls no
    /// hasher, because a bin has moved as a whole or not at all.
    fn for_each_left(&mut self, mut each: impl FnMut(u64)) {
        let (pin, mut pairs) = (self.enter(), Vec::new());
        for index in self.generations(&pin) {
            for at in 0..index.bins.len() {
                self.read_bin(index, at, &mut pairs);
                pairs.drain(..).for_each(|(_, second)| each(second));
            }
        }
    }
}

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    /// Collects the pairs of a bin. Returns false if the bin has moved.
    fn read_bin(&self, index: &Index, at: usize, pairs: &mut Vec<(u64, u64)>) -> bool {
        let bin = index.bins.at(at);
        let half = P::half_of(at, index.bins.len());
        let (dead, hidden) = (self.decoder.dead(half), self.decoder.hidden(half));
        let word = |(tag, second)| (self.decoder.word(tag, half), second);
        let start = pairs.len();
        let mut backoff = Backoff::new();
        loop {
            pairs.truncate(start);
            // Acquire: the slots, and the next index, are at least as new as the header.
            let header = Header(bin.header.load(Ordering::Acquire));
            let links = bin.links.load(Ordering::Acquire);
            match header.state() {
                BinState::Moved => return false,
                BinState::InTransfer => {
                    backoff.wait();
                    continue;
                }
                BinState::Special if links & DELEGATED != 0 => {
                    if let Some(delegated) = index.overflow.lock().pairs(at) {
                        let delegated = delegated.into_iter();
                        pairs.extend(delegated.filter(|pair| pair.0 != hidden).map(word));
                        return true;
                    }
                    continue;
                }
                BinState::Open | BinState::Special => {}
            }
            for number in header.claimed(0) {
                let slot = index.slot(at, bin, links, number);
                // Acquire: pairs with the publication of the tag.
                let first = slot.load_first(Ordering::Acquire);
                if first != 0 && first != dead && first != hidden {
                    // Acquire: the entry behind the value word is at least as new.
                    pairs.push(word((first, slot.load_second(Ordering::Acquire))));
                }
            }
            if still(bin, header, Bug::HitWithoutHeaderRecheck) {
                return true;
            }
        }
    }
}

impl<P: HashCodec, Y: Mode> Iterator for PairIter<'_, P, Y> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        loop {
            if let Some(pair) = self.buffer.pop() {
                return Some(pair);
            }
            if self.bin == self.end {
                return None;
            }
            let (bin, index) = (self.bin, Arc::clone(&self.index));
            self.bin += 1;
            let mut pairs = core::mem::take(&mut self.buffer);
            let table = self.table;
            read_descendants::<P, _, _>(
                (&*index, bin),
                &mut pairs,
                |index| index.bins.len(),
                |index| table.successor(index),
                |index, bin, pairs| table.read_bin(index, bin, pairs),
                |&(word, _)| table.codec.hash(word),
            );
            self.buffer = pairs;
        }
    }
}
