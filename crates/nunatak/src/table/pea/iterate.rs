//! Weakly consistent iteration, in the order of the hashes' highest bits.
//!
//! A segment's pairs are copied while it is locked, all at once; the next segment is the
//! one that holds what comes behind it by then, whatever was split or merged meanwhile.
//! So no key is yielded twice, and one that stays present is yielded.

use super::Table;
use super::bucket::{Bucket, Flag, Item};
use super::geometry::Entry;
use super::layout::{Header, Layout};
use super::multi::Chained;
use super::values::Pointer;
use crate::hash::Placement;
use crate::memory::{Heap, Medium};
use crate::sync::{OpPin, Shared};

/// The pairs of a table.
#[derive(Debug)]
pub struct PairIter<'t, P: Placement, M: Medium = Heap, L: Layout = Bucket> {
    table: &'t Table<P, M, L>,
    /// Where the hashes begin that have not been looked at.
    next: Option<u64>,
    /// Words and values, to be yielded.
    buffer: Vec<(u64, u64)>,
}

impl<'t, P: Placement, M: Medium, L: Layout> PairIter<'t, P, M, L> {
    pub(super) fn new(table: &'t Table<P, M, L>) -> Self {
        Self { table, next: Some(0), buffer: Vec::new() }
    }
}

impl<P: Placement, M: Medium, L: Layout> Table<P, M, L> {
    /// Copies the pairs, by their words, of the segment that a hash is in, from that
    /// hash on; where the hashes behind it begin.
    pub(super) fn read_segment(&self, from: u64, pairs: &mut Vec<(u64, u64)>) -> Option<u64> {
        loop {
            let _pin = OpPin::<Shared>::new();
            let found = self.locate(from);
            let segment = found.entry.segment();
            self.segments.lock(segment);
            if !self.directories.is_still(found) {
                self.segments.unlock(segment);
                continue;
            }
            let next = self.read_locked(found.entry, from, pairs);
            self.segments.unlock(segment);
            return next;
        }
    }
}

impl<P: Placement, M: Medium, L: Layout> Table<P, M, L> {
    /// The same of a segment that is locked.
    pub(super) fn read_locked(
        &self,
        entry: Entry,
        from: u64,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Option<u64> {
        let (segment, depth) = (entry.segment(), entry.depth());
        let (half, first) = ((from >> 63) as usize, from >> (64 - depth) << (64 - depth));
        let mut is_chained = false;
        for bucket in self.segments.all(segment) {
            is_chained |= bucket.header().has(Flag::Chained);
            for item in bucket.items(self.marking()) {
                // After a merge a part of the segment may have been looked at.
                if first == from || self.placement.hash_of_tag(item.tag, half) >= from {
                    self.push_pairs(self.decoder.word(item.tag, half), item, pairs);
                }
            }
        }
        let next = first.checked_add(1 << (64 - depth));
        if is_chained {
            let is_here = |hash: u64| hash >= from && next.is_none_or(|next| hash < next);
            for Chained { hash, tag, second, is_pointer } in self.all_chained() {
                if is_here(hash) {
                    let item = Item { fingerprint: 0, tag, second, is_pointer };
                    self.push_pairs(self.decoder.word(tag, half), item, pairs);
                }
            }
        }
        next
    }

    /// Of a pointer all values.
    fn push_pairs(&self, word: u64, item: Item, pairs: &mut Vec<(u64, u64)>) {
        match &self.duplicates {
            Some(duplicates) if item.is_pointer => {
                let pointer = Pointer(item.second);
                duplicates.values.each(pointer, || true, |value| pairs.push((word, value)));
            }
            _ => pairs.push((word, item.second)),
        }
    }
}

impl<P: Placement, M: Medium, L: Layout> Iterator for PairIter<'_, P, M, L> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        loop {
            if let Some(pair) = self.buffer.pop() {
                return Some(pair);
            }
            self.next = self.table.read_segment(self.next?, &mut self.buffer);
        }
    }
}
