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

/// The hashes that are to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hashes {
    pub(super) from: u64,
    /// The first hash that is not; `None` if all hashes from the first on are to be read.
    pub(super) end: Option<u64>,
}

impl Hashes {
    pub(super) fn from(from: u64) -> Self {
        Self { from, end: None }
    }

    fn contains(self, hash: u64) -> bool {
        hash >= self.from && self.end.is_none_or(|end| hash < end)
    }

    /// Returns the hashes behind a segment, if there are any.
    fn behind(self, segment_end: Option<u64>) -> Option<Self> {
        let from = segment_end.filter(|&next| self.end.is_none_or(|end| next < end))?;
        Some(Self { from, end: self.end })
    }
}

/// The pairs of a table.
#[derive(Debug)]
pub struct PairIter<'t, P: HashCodec, M: Medium = Heap, L: Layout = Bucket> {
    table: &'t Table<P, M, L>,
    /// The hashes that were not read yet.
    left: Option<Hashes>,
    /// Words and values that are still to be returned.
    buffer: Vec<(u64, u64)>,
}

impl<P: HashCodec, M: Medium, L: Layout> Iteration for Table<P, M, L> {
    type Iter<'t>
        = PairIter<'t, P, M, L>
    where
        Self: 't;

    fn iter(&self) -> PairIter<'_, P, M, L> {
        PairIter { table: self, left: Some(Hashes::from(0)), buffer: Vec::new() }
    }

    /// Splits where a segment begins, as segments are now. After a merge the two iterators read the
    /// merged segment, and each keeps the pairs of its own hashes.
    #[cfg(feature = "rayon")]
    fn split<'t>(iter: &mut PairIter<'t, P, M, L>) -> Option<PairIter<'t, P, M, L>>
    where
        Self: 't,
    {
        let Hashes { from, end } = iter.left?;
        let last = end.map_or(u64::MAX, |end| end - 1);
        let middle = from + (last - from) / 2;
        let bits = 64 - iter.table.locate(middle).entry.depth();
        let start = middle >> bits << bits;
        let start = if start > from { start } else { start.checked_add(1 << bits)? };
        (start <= last).then(|| {
            iter.left = Some(Hashes { from, end: Some(start) });
            let left = Some(Hashes { from: start, end });
            PairIter { table: iter.table, left, buffer: Vec::new() }
        })
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Copies the pairs of the segment of the first hash, with their words: what `push` appends for
    /// each item. Returns the hashes behind the segment.
    pub(super) fn read_segment(
        &self,
        hashes: Hashes,
        push: impl Fn(&Self, u64, Item, &mut Vec<(u64, u64)>),
        pairs: &mut Vec<(u64, u64)>,
    ) -> Option<Hashes> {
        loop {
            let pin = OpPin::<Shared>::new();
            let found = self.locate(hashes.from);
            let segment = found.entry.segment();
            self.segments.lock(segment);
            if !self.directories.is_still(found) {
                self.segments.unlock(segment);
                continue;
            }
            let (start, mut tags) = (pairs.len(), Vec::new());
            let next = self.read_locked(found.entry, hashes, &push, pairs, &mut tags);
            self.segments.unlock(segment);
            drop(pin);
            if !tags.is_empty() {
                self.keep(hashes, &tags, start, pairs);
            }
            return hashes.behind(next);
        }
    }

    /// Leaves out pairs that are not to be read, as their hashes tell. Hashes are computed while the
    /// thread holds no lock. The pairs from `start` on have these tags, so many pairs for each.
    fn keep(
        &self,
        hashes: Hashes,
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
            if hashes.contains(self.codec.hash_of_tag(tag, (hashes.from >> 63) as usize)) {
                kept.extend_from_slice(of_tag);
            }
        }
        // The pairs of chains were selected already.
        pairs.append(&mut kept);
        pairs.extend_from_slice(rest);
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Copies the pairs of a locked segment, and returns the first hash behind it. If only a part of
    /// the segment is to be read, copies the pairs of the other parts, too. Then also appends the
    /// tags of the pairs in buckets, with the number of pairs for each.
    pub(super) fn read_locked(
        &self,
        entry: Entry,
        hashes: Hashes,
        push: impl Fn(&Self, u64, Item, &mut Vec<(u64, u64)>),
        pairs: &mut Vec<(u64, u64)>,
        tags: &mut Vec<(u64, usize)>,
    ) -> Option<u64> {
        let (segment, depth) = (entry.segment(), entry.depth());
        let Hashes { from, end } = hashes;
        let (half, first) = ((from >> 63) as usize, from >> (64 - depth) << (64 - depth));
        let next = first.checked_add(1 << (64 - depth));
        // After a merge the segment may have hashes that were read before, or that another iterator
        // reads.
        let is_whole = first == from && end.is_none_or(|end| next.is_some_and(|next| next <= end));
        let mut is_chained = false;
        for bucket in self.segments.all(segment) {
            is_chained |= bucket.header().has(Flag::Chained);
            for item in bucket.items(self.marking()) {
                let start = pairs.len();
                push(self, self.decoder.word(item.tag, half), item, pairs);
                if !is_whole {
                    tags.push((item.tag, pairs.len() - start));
                }
            }
        }
        if is_chained {
            let is_here = |hash: u64| hashes.contains(hash) && next.is_none_or(|next| hash < next);
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
            let left = self.left?;
            self.left = self.table.read_segment(left, Table::push_pairs, &mut self.buffer);
        }
    }
}
