//! Lists the hashes that a transfer to a larger index needs if the hasher is the caller's: see
//! [`Hashes`](crate::table::shared::hashes).

use super::index::Index;
use super::layout::{BinState, DELEGATED, Header};
use super::migration::Migration;
use super::{Mode, Table};
use crate::hash::HashCodec;
use crate::sync::Ordering;
use crate::table::shared::hashes::Key;
use core::ops::Range;

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    /// Returns whether the hashes for these units are known. Keys that are inserted meanwhile do
    /// not count.
    pub(super) fn has_hashes(
        &self,
        old: &Index,
        migration: &Migration<Index>,
        units: Range<usize>,
    ) -> bool {
        if !P::runs_callers_code() || !old.grows_by(migration) {
            return true;
        }
        let mut keys = Vec::new();
        for at in units.flat_map(|unit| migration.bins_of::<P>(unit)) {
            self.for_each_tag(old, at, |key| keys.push(key));
        }
        self.hashes.want(keys.into_iter())
    }

    /// Passes the tags of a bin to `each`. Misses tags that other threads store meanwhile.
    fn for_each_tag(&self, index: &Index, at: usize, mut each: impl FnMut(Key)) {
        let (bin, half) = (index.bins.at(at), P::half_of(at, index.bins.len()));
        let (dead, hidden) = (self.decoder.dead(half), self.decoder.hidden(half));
        let mut tell = |(first, second): (u64, u64)| match first {
            first if Y::SHADOWS && first == hidden => each((second, half)),
            first if first != 0 && first != dead => each((first, half)),
            _ => {}
        };
        // Acquire: the slots and the links are at least as new as the header.
        let header = Header(bin.header.load(Ordering::Acquire));
        let links = bin.links.load(Ordering::Acquire);
        if header.state() == BinState::Moved {
            return;
        }
        if links & DELEGATED != 0 {
            let pairs = index.overflow.lock().pairs(at);
            return pairs.into_iter().flatten().for_each(tell);
        }
        for number in header.claimed(0) {
            let slot = index.slot(at, bin, links, number);
            // Relaxed: the transfer checks the tags again when it holds the bin.
            tell((slot.load_first(Ordering::Relaxed), slot.load_second(Ordering::Relaxed)));
        }
    }
}
