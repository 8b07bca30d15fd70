//! Weakly consistent iteration, shard by shard, each as of one moment. A key stays in its shard, so
//! no key comes twice.

use super::Table;
use crate::hash::HashCodec;
use crate::memory::{Heap, Medium};
use crate::table::shared::bucket::{Bucket, Layout};
use crate::table::stages::Iteration;

/// The pairs of a table.
#[derive(Debug)]
pub struct PairIter<'t, P: HashCodec, M: Medium = Heap, L: Layout = Bucket> {
    table: &'t Table<P, M, L>,
    next: usize,
    /// The shard behind the last one.
    end: usize,
    /// Words and values that are still to be returned.
    buffer: Vec<(u64, u64)>,
}

impl<P: HashCodec, M: Medium, L: Layout> Iteration for Table<P, M, L> {
    type Iter<'t>
        = PairIter<'t, P, M, L>
    where
        Self: 't;

    fn iter(&self) -> PairIter<'_, P, M, L> {
        PairIter { table: self, next: 0, end: self.shards.len(), buffer: Vec::new() }
    }

    #[cfg(feature = "rayon")]
    fn split<'t>(iter: &mut PairIter<'t, P, M, L>) -> Option<PairIter<'t, P, M, L>>
    where
        Self: 't,
    {
        let middle = iter.next + (iter.end - iter.next) / 2;
        (middle > iter.next).then(|| PairIter {
            table: iter.table,
            next: middle,
            end: core::mem::replace(&mut iter.end, middle),
            buffer: Vec::new(),
        })
    }

    /// A part is a shard.
    fn read_part(&self, part: usize, pairs: &mut Vec<(u64, u64)>) -> bool {
        if part < self.shards.len() {
            self.read_number(part, pairs);
        }
        part.saturating_add(1) < self.shards.len()
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Copies the pairs of the shard with this number.
    fn read_number(&self, number: usize, pairs: &mut Vec<(u64, u64)>) {
        // A shard without buckets is empty, unless memory was refused.
        let descriptor = self.shards.shard(number).descriptor();
        let may_hold = descriptor.extent().is_some() || descriptor.is_unrestored();
        if may_hold || self.chains.len() > 0 {
            self.change_shard(number, |held, hash| self.read_shard(held, hash, pairs));
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
            let Self { table, next, end, buffer } = self;
            if next == end {
                return None;
            }
            table.read_number(*next, buffer);
            *next += 1;
        }
    }
}
