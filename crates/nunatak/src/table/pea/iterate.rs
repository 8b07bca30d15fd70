//! Weakly consistent iteration, in the order of the hashes' highest bits.
//!
//! The pairs of a locked segment are copied at once. The next segment is the one that holds the
//! following hashes by then, whatever was split or merged meanwhile. So no key comes twice, and a
//! key that stays present comes once.

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
    /// The first hash that was not read yet.
    next: Option<u64>,
    /// Words and values that are still to be returned.
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
    /// Copies the pairs of the segment of a hash, with their words, from this hash on: what `push`
    /// appends for each item. Returns the first hash behind the segment.
    pub(super) fn read_segment(
        &self,
        from: u64,
        push: impl Fn(&Self, u64, Item, &mut Vec<(u64, u64)>),
        pairs: &mut Vec<(u64, u64)>,
    ) -> Option<u64> {
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
            let next = self.read_locked(found.entry, from, &push, pairs, &mut tags);
            self.segments.unlock(segment);
            drop(pin);
            if !tags.is_empty() {
                self.keep_from(from, &tags, start, pairs);
            }
            return next;
        }
    }

    /// Leaves out pairs that were read before, as their hashes tell. Hashes are computed while the
    /// thread holds no lock. The pairs from `start` on have these tags, so many pairs for each.
    fn keep_from(
        &self,
        from: u64,
        tags: &[(u64, usize)],
        start: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) {
        // Takes them out of the caller's buffer first: if the hasher panics, the segment is read
        // again.
        let read = pairs.split_off(start);
        let (mut rest, mut kept) = (read.as_slice(), Vec::new());
        for &(tag, count) in tags {
            let (of_tag, others) = rest.split_at(count);
            rest = others;
            if self.codec.hash_of_tag(tag, (from >> 63) as usize) >= from {
                kept.extend_from_slice(of_tag);
            }
        }
        // The pairs of chains were selected already.
        pairs.append(&mut kept);
        pairs.extend_from_slice(rest);
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Copies the pairs of a locked segment. If a part of the segment was read before, copies the
    /// pairs of this part, too. Then also appends the tags of the pairs in buckets, with the number
    /// of pairs for each.
    pub(super) fn read_locked(
        &self,
        entry: Entry,
        from: u64,
        push: impl Fn(&Self, u64, Item, &mut Vec<(u64, u64)>),
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
                push(self, self.decoder.word(item.tag, half), item, pairs);
                // After a merge a part of the segment may have been read before.
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
                    push(self, self.decoder.word(tag, half), item, pairs);
                }
            }
        }
        next
    }

    /// Appends the pair of an item, or all pairs of a pointer.
    pub(super) fn push_pairs(&self, word: u64, item: Item, pairs: &mut Vec<(u64, u64)>) {
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
            self.next = self.table.read_segment(self.next?, Table::push_pairs, &mut self.buffer);
        }
    }
}
