//! Weakly consistent iteration, in the order of the hashes' highest bits.
//!
//! A segment's pairs are copied while it is locked, all at once; the next segment is the
//! one that holds what comes behind it by then, whatever was split or merged meanwhile.
//! So no key is yielded twice, and one that stays present is yielded.

use super::Table;
use super::geometry::Entry;
use super::multi::Chained;
use super::multi::values::Pointer;
use crate::hash::HashCodec;
use crate::memory::{Heap, Medium};
use crate::sync::{OpPin, Shared};
use crate::table::shared::bucket::{Bucket, Flag, Header, Item, Layout};
use crate::table::stages::Iteration;

/// The pairs of a table.
#[derive(Debug)]
pub struct PairIter<'t, P: HashCodec, M: Medium = Heap, L: Layout = Bucket> {
    table: &'t Table<P, M, L>,
    /// Where the hashes begin that have not been looked at.
    next: Option<u64>,
    /// Words and values, to be yielded.
    buffer: Vec<(u64, u64)>,
}

impl<P: HashCodec, M: Medium, L: Layout> Iteration for Table<P, M, L> {
    type Iter<'t>
        = PairIter<'t, P, M, L>
    where
        Self: 't;

    fn iter(&self) -> PairIter<'_, P, M, L> {
        PairIter { table: self, next: Some(0), buffer: Vec::new() }
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Copies the pairs, by their words, of the segment that a hash is in, from that
    /// hash on; where the hashes behind it begin.
    pub(super) fn read_segment(&self, from: u64, pairs: &mut Vec<(u64, u64)>) -> Option<u64> {
        loop {
            let pin = OpPin::<Shared>::new();
            let found = self.locate(from);
            let segment = found.entry.segment();
            self.segments.lock(segment);
            if !self.directories.is_still(found) {
                self.segments.unlock(segment);
                continue;
            }
            let (start, mut tags) = (pairs.len(), Vec::new());
            let next = self.read_locked(found.entry, from, pairs, &mut tags);
            self.segments.unlock(segment);
            drop(pin);
            if !tags.is_empty() {
                self.keep_from(from, &tags, start, pairs);
            }
            return next;
        }
    }

    /// Leaves the pairs out that have been yielded, as hashes say; which are asked for when
    /// nothing is held. The pairs from `start` on are of these tags, so many of each.
    fn keep_from(
        &self,
        from: u64,
        tags: &[(u64, usize)],
        start: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) {
        // Out of the caller's buffer: if the hasher panics the segment is read again.
        let read = pairs.split_off(start);
        let (mut rest, mut kept) = (read.as_slice(), Vec::new());
        for &(tag, count) in tags {
            let (of_tag, others) = rest.split_at(count);
            rest = others;
            if self.codec.hash_of_tag(tag, (from >> 63) as usize) >= from {
                kept.extend_from_slice(of_tag);
            }
        }
        // Those of chains were looked at already.
        pairs.append(&mut kept);
        pairs.extend_from_slice(rest);
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// The same of a segment that is locked. If a part of it may have been looked at, pairs of
    /// that are copied, too: then it tells the tags of the first ones, and how many pairs there
    /// are of each.
    pub(super) fn read_locked(
        &self,
        entry: Entry,
        from: u64,
        pairs: &mut Vec<(u64, u64)>,
        tags: &mut Vec<(u64, usize)>,
    ) -> Option<u64> {
        let (segment, depth) = (entry.segment(), entry.depth());
        let (half, first) = ((from >> 63) as usize, from >> (64 - depth) << (64 - depth));
        let mut is_chained = false;
        for bucket in self.segments.all(segment) {
            is_chained |= bucket.header().has(Flag::Chained);
            for item in bucket.items(self.marking()) {
                let start = pairs.len();
                self.push_pairs(self.decoder.word(item.tag, half), item, pairs);
                // After a merge a part of the segment may have been looked at.
                if first != from {
                    tags.push((item.tag, pairs.len() - start));
                }
            }
        }
        let next = first.checked_add(1 << (64 - depth));
        if is_chained {
            let is_here = |hash: u64| hash >= from && next.is_none_or(|next| hash < next);
            for Chained { hash, tag, value_word, is_pointer } in self.all_chained() {
                if is_here(hash) {
                    let item = Item { fingerprint: 0, tag, value_word, is_pointer };
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
                let pointer = Pointer(item.value_word);
                duplicates.values.each(pointer, || true, |value| pairs.push((word, value)));
            }
            _ => pairs.push((word, item.value_word)),
        }
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Iterator for PairIter<'_, P, M, L> {
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
