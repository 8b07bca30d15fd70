//! What a [cut](crate::table::shared::cut) of the table copies: shards.

use super::Table;
use super::shards::ShardGuard;
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::table::shared::bucket::{Flag, Header, Layout, Marking};
use crate::table::shared::cut::PairSnapshot;
use crate::table::stages::{Figures, Snapshots};

impl<P: HashCodec, M: Medium, L: Layout> Snapshots for Table<P, M, L> {
    type Snapshot = PairSnapshot;

    fn snapshot(&self) -> Result<PairSnapshot, Error> {
        let _held = self.exclusive.lock();
        self.cut.take(self.len(), || {
            (0..self.shards.len()).for_each(|number| self.change_shard(number, |_, _| ()));
        })
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Copies a locked shard for the present cut, unless the cut has a copy. The caller is in an
    /// operation.
    #[inline(always)]
    pub(super) fn copy_before_change(&self, held: &ShardGuard<'_>, hash: u64) {
        let number = self.cut.number();
        if number != 0 && !held.shard.is_copied(number) && !seeded(Bug::ChangedUncopied) {
            self.copy_shard(held, hash, number);
        }
    }

    #[cold]
    fn copy_shard(&self, held: &ShardGuard<'_>, hash: u64, number: u64) {
        let mut pairs = Vec::new();
        self.read_shard(held, hash, &mut pairs);
        self.cut.add(&pairs);
        held.shard.set_copied(number);
    }

    /// Copies the pairs of a locked shard, with their words. `hash` is any hash of the shard.
    pub(super) fn read_shard(&self, held: &ShardGuard<'_>, hash: u64, pairs: &mut Vec<(u64, u64)>) {
        let half = (hash >> 63) as usize;
        let extent = held.descriptor.extent();
        let mut may_be_chained = extent.is_none();
        for bucket in extent.iter().flat_map(|&extent| self.shards.all(extent)) {
            may_be_chained |= bucket.header().has(Flag::Chained);
            let items = bucket.items(Marking::Place);
            pairs.extend(items.map(|item| (self.decoder.word(item.tag, half), item.value_word)));
        }
        if may_be_chained && self.chains.len() > 0 {
            let number = self.shards.number(hash);
            let all = self.chains.all().into_iter();
            let chained = all.filter(|&(hash, _)| self.shards.number(hash) == number);
            pairs.extend(chained.map(|(_, (tag, second))| (self.decoder.word(tag, half), second)));
        }
    }
}
