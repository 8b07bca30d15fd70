//! Moving bins to the next index.

use super::Table;
use super::index::Index;
use super::layout::{BinState, DELEGATED, Header, Slot};
use super::migration::Migration;
use crate::hash::HashCodec;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, Mode, OpPin, Ordering};
use std::sync::Arc;

/// A pair that was taken out of an old bin.
#[derive(Debug, Clone, Copy)]
struct Captured {
    bin: usize,
    /// The pair's slot; `None` if the bin was delegated.
    slot: Option<usize>,
    tag: u64,
    second: u64,
    /// The pair's new bin.
    target: usize,
}

impl Captured {
    /// Returns the tag by which the pair is hashed. The value word of a hidden key is its tag.
    fn key<P: HashCodec, Y: Mode>(&self, table: &Table<P, Y>, old: &Index) -> (u64, usize) {
        let half = P::half_of(self.bin, old.bins.len());
        let is_hidden =
            Y::SHADOWS && self.tag == table.decoder.hidden(half) && !seeded(Bug::HiddenNotMoved);
        (if is_hidden { self.second } else { self.tag }, half)
    }
}

/// The state of a thread that moves units. It can undo the current unit if a hash is missing.
pub(super) struct Mover<'t, P: HashCodec, Y: Mode> {
    table: &'t Table<P, Y>,
    pub(super) old: &'t Index,
    pub(super) migration: &'t Migration<Index>,
    captured: Vec<Captured>,
    claimed: Vec<(usize, Header)>,
    /// The units of the chunk that are not moved yet.
    pub(super) left: core::ops::Range<usize>,
    moved: usize,
}

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    /// Moves one chunk. Returns false if no chunk is left, or if the caller must first
    /// [ask](crate::table::shared::hashes) for hashes.
    pub(super) fn help(&self, pin: &OpPin<Y>, old: &Index, migration: &Migration<Index>) -> bool {
        if !migration.has_begun() {
            return false;
        }
        let Some(chunk) = migration.take_chunk() else { return false };
        if !self.has_hashes(old, migration, chunk.clone()) {
            migration.leave(chunk);
            return false;
        }
        self.move_units(pin, old, migration, chunk)
    }

    /// Moves the unit of one bin, unless another thread does. Returns false if the caller must
    /// first ask for hashes.
    pub(super) fn transfer_bin(
        &self,
        pin: &OpPin<Y>,
        old: &Index,
        migration: &Migration<Index>,
        bin: usize,
    ) -> bool {
        let unit = migration.unit_of::<P>(bin);
        self.has_hashes(old, migration, unit..unit + 1)
            && self.move_units(pin, old, migration, unit..unit + 1)
    }

    pub(super) fn move_units(
        &self,
        _pin: &OpPin<Y>,
        old: &Index,
        migration: &Migration<Index>,
        units: core::ops::Range<usize>,
    ) -> bool {
        let mut mover = Mover {
            table: self,
            old,
            migration,
            captured: Vec::with_capacity(32),
            claimed: Vec::with_capacity(8),
            left: units,
            moved: 0,
        };
        mover.populate_targets();
        while !mover.left.is_empty() {
            mover.prefetch_ahead();
            if !mover.move_unit() {
                return false;
            }
        }
        true
    }

    /// Makes the next index the root, after the last bin has moved.
    fn finish(&self, old: &Index, migration: &Migration<Index>) {
        migration.target.note_birth();
        let target = Arc::into_raw(Arc::clone(&migration.target)).cast_mut();
        // Release: a thread that reads the root finds every bin moved. The swap returns the pointer
        // that `Arc` made; one made from the reference may not touch the counts of the `Arc`.
        let root = self.root.swap(target, Ordering::Release);
        debug_assert!(core::ptr::eq(root, old));
        self.hashes.clear();
        // SAFETY: invariant 7 of the table: the root changes once for each index, by the thread
        // that moved the last bin. That thread takes over the root's share of the old index.
        let index = unsafe { Arc::from_raw(root.cast_const()) };
        self.retired.retire(index, self.registry.retire_tag());
    }

    /// Stores a pair in a bin that no other thread can reach.
    fn store_unshared(&self, index: &Index, at: usize, pair: (u64, u64)) {
        let bin = index.bins.at(at);
        // Relaxed, here and below: the `Moved` state of the old bins publishes the words.
        let header = Header(bin.header.load(Ordering::Relaxed));
        let links = bin.links.load(Ordering::Relaxed);
        if links & DELEGATED != 0 {
            index.overflow.lock().push(at, pair);
            return;
        }
        let room = header
            .first_free()
            .and_then(|number| index.ensure_link(at, bin, number).map(|links| (number, links)));
        let Some((number, links)) = room else {
            // The bin has more keys than slots, or no link is left: it starts delegated.
            let mut pairs: Vec<_> = header
                .claimed(0)
                .map(|number| {
                    let slot = index.slot(at, bin, links, number);
                    let pair =
                        (slot.load_first(Ordering::Relaxed), slot.load_second(Ordering::Relaxed));
                    slot.store_first(0, Ordering::Relaxed);
                    pair
                })
                .collect();
            pairs.push(pair);
            index.overflow.lock().delegate(at, pairs);
            bin.links.store(links | DELEGATED, Ordering::Relaxed);
            bin.header.store(Header(0).with_state(BinState::Special).0, Ordering::Relaxed);
            return;
        };
        let slot = index.slot(at, bin, links, number);
        slot.store_second(pair.1, Ordering::Relaxed);
        slot.store_first(pair.0, Ordering::Relaxed);
        bin.header.store(header.with_claimed(number).0, Ordering::Relaxed);
    }

    /// Moves a bin's pairs to the overflow (invariant 8). Does nothing if the header has changed.
    #[cold]
    pub(super) fn delegate(&self, index: &Index, at: usize, header: Header) {
        let bin = index.bins.at(at);
        let in_transfer = header.with_state(BinState::InTransfer);
        if Y::cas(&bin.header, header.0, in_transfer.0, Ordering::Acquire).is_err() {
            return;
        }
        let mut pairs = Vec::new();
        self.capture(index, at, header, false, |_, pair| pairs.push(pair));
        if seeded(Bug::DelegateLosesPairs) {
            pairs.pop();
        }
        index.overflow.lock().delegate(at, pairs);
        bin.links.fetch_or(DELEGATED, Ordering::Relaxed);
        // Release: a thread that finds the state finds the links and the overflow.
        bin.header.store(in_transfer.with_state(BinState::Special).0, Ordering::Release);
    }

    /// Captures the pairs of a bin that belongs to this thread (invariant 5). Swaps the dead word
    /// in, so that later puts and removals fail and pending inserts are killed. With `keeps` no
    /// thread can be changing the bin, and the pairs stay.
    fn capture(
        &self,
        index: &Index,
        at: usize,
        header: Header,
        keeps: bool,
        mut take: impl FnMut(usize, (u64, u64)),
    ) {
        let bin = index.bins.at(at);
        let dead = self.dead(at, index);
        // Acquire: pairs with the release that chains.
        let links = bin.links.load(Ordering::Acquire);
        let end = if seeded(Bug::TransferSkipsLinks) { 3 } else { super::layout::SLOTS };
        for number in header.claimed(0).filter(|&number| number < end) {
            let slot = index.slot(at, bin, links, number);
            if let Some(pair) = capture_slot::<Y>(slot, dead, keeps) {
                take(number, pair);
            }
        }
    }
}

/// Returns the final pair of a claimed slot, if it has one.
fn capture_slot<Y: Mode>(slot: &Slot, dead: u64, keeps: bool) -> Option<(u64, u64)> {
    loop {
        // Acquire: pairs with the publication.
        let first = slot.load_first(Ordering::Acquire);
        if first == dead {
            return None;
        }
        let second = slot.load_second(Ordering::Relaxed);
        if first == 0 {
            if keeps || seeded(Bug::TransferWithoutKilling) || slot.compare_exchange_first(0, dead)
            {
                return None;
            }
            continue;
        }
        if keeps {
            return Some((first, second));
        }
        if seeded(Bug::TransferReadsThenReplaces) {
            slot.store_first(dead, Ordering::Release);
            return Some((first, second));
        }
        if Y::cas_pair(slot, (first, second), (dead, second)) {
            return Some((first, second));
        }
    }
}

impl<P: HashCodec, Y: Mode> Mover<'_, P, Y> {
    /// Moves the first unit that is left. Returns false if a hash must be asked for first.
    fn move_unit(&mut self) -> bool {
        if self.claim() {
            self.capture();
            if !self.choose_targets() {
                self.put_back();
                return false;
            }
            self.copy();
            self.moved += 1;
        }
        self.left.start += 1;
        true
    }

    /// Makes all bins of the unit this thread's. Returns false if the unit has moved.
    fn claim(&mut self) -> bool {
        self.claimed.clear();
        self.captured.clear();
        for at in self.migration.bins_of::<P>(self.left.start) {
            let bin = self.old.bins.at(at);
            let mut backoff = Backoff::new();
            loop {
                // Acquire: if another thread has moved the bin, an insert that found no room in it
                // continues in the next index.
                let header = Header(bin.header.load(Ordering::Acquire));
                match header.state() {
                    BinState::Open | BinState::Special => {
                        let mine = header.with_state(BinState::InTransfer);
                        // Acquire: sees the words that earlier changes of the bin left.
                        if Y::cas(&bin.header, header.0, mine.0, Ordering::Acquire).is_ok() {
                            self.claimed.push((at, header));
                            break;
                        }
                    }
                    // Its owner moves it, delegates it, or gives it back if a hash is missing.
                    BinState::InTransfer => backoff.wait(),
                    // The first bin of a unit is claimed first: if this one has moved, the unit
                    // has.
                    BinState::Moved => return false,
                }
            }
        }
        true
    }

    fn capture(&mut self) {
        let Self { table, old, migration, captured, claimed, .. } = self;
        for &(at, header) in claimed.iter() {
            let links = old.bins.at(at).links.load(Ordering::Acquire);
            if links & DELEGATED != 0 {
                let pairs = old.overflow.lock().drain(at, migration.keeps);
                let captured_pair =
                    |(tag, second)| Captured { bin: at, slot: None, tag, second, target: 0 };
                captured.extend(pairs.into_iter().map(captured_pair));
                continue;
            }
            table.capture(old, at, header, migration.keeps, |number, (tag, second)| {
                captured.push(Captured { bin: at, slot: Some(number), tag, second, target: 0 });
            });
        }
    }

    /// Chooses the new bins of the captured pairs. Returns false if a hash is not known: its key
    /// came after the hashes were asked for.
    fn choose_targets(&mut self) -> bool {
        let Self { table, old, migration, captured, left, .. } = self;
        if !old.grows_by(migration) {
            // The unit is one new bin, and has its number.
            captured.iter_mut().for_each(|pair| pair.target = left.start);
            return true;
        }
        let (from, to) = (old.bins.len(), migration.target.bins.len());
        let k = to / from;
        if !P::runs_callers_code() {
            for pair in captured.iter_mut() {
                let (tag, half) = pair.key(table, old);
                pair.target = P::place(table.codec.hash_of_tag(tag, half), to);
            }
            return true;
        }
        for pair in captured.iter_mut() {
            let Some(hash) = table.hashes.of(pair.key(table, old)) else {
                table.hashes.want(captured.iter().map(|pair| pair.key(table, old)));
                return false;
            };
            let target = P::place(hash, to);
            // Invariant 9: if the hasher contradicts itself, a key stays among the new bins of its
            // old bin. No other thread stores in these bins yet.
            let is_child = P::parent(target, from, k) == pair.bin;
            pair.target = if is_child { target } else { P::child(pair.bin, from, k, 0) };
        }
        table.hashes.forget(captured.iter().map(|pair| pair.key(table, old)));
        true
    }

    fn copy(&mut self) {
        let moved = |(at, header): &(usize, Header)| {
            let moved = header.with_state(BinState::InTransfer).with_state(BinState::Moved);
            // Release: a thread that finds the state finds the pairs in the target.
            let order =
                if seeded(Bug::MovedRelaxed) { Ordering::Relaxed } else { Ordering::Release };
            self.old.bins.at(*at).header.store(moved.0, order);
        };
        if seeded(Bug::TransferDoneBeforeCopy) {
            self.claimed.iter().for_each(moved);
        }
        for pair in &self.captured {
            let target = &self.migration.target;
            self.table.store_unshared(target, pair.target, (pair.tag, pair.second));
        }
        if !seeded(Bug::TransferDoneBeforeCopy) {
            self.claimed.iter().for_each(moved);
        }
        self.claimed.clear();
        self.captured.clear();
    }

    /// Puts the captured pairs of the current unit back, and opens its bins.
    fn put_back(&mut self) {
        if seeded(Bug::RollbackForgotten) {
            return;
        }
        for pair in &self.captured {
            if let Some(number) = pair.slot {
                let bin = self.old.bins.at(pair.bin);
                let links = bin.links.load(Ordering::Relaxed);
                // The slot holds the pair still, or the dead word; it belongs to this thread.
                // Release: publishes the pair again.
                let slot = self.old.slot(pair.bin, bin, links, number);
                slot.store_first(pair.tag, Ordering::Release);
            }
        }
        for &(at, header) in &self.claimed {
            if self.old.bins.at(at).links.load(Ordering::Relaxed) & DELEGATED != 0 {
                let pairs = self.captured.iter().filter(|pair| pair.bin == at);
                let pairs = pairs.map(|pair| (pair.tag, pair.second)).collect();
                self.old.overflow.lock().delegate(at, pairs);
            }
            let open = header.with_state(BinState::InTransfer).with_state(header.state());
            // Release: a thread that finds the bin open finds its pairs.
            self.old.bins.at(at).header.store(open.0, Ordering::Release);
        }
        self.captured.clear();
        self.claimed.clear();
    }
}

impl<P: HashCodec, Y: Mode> Drop for Mover<'_, P, Y> {
    /// Reports the moved units, and leaves the rest of the chunk to other threads.
    fn drop(&mut self) {
        if !self.left.is_empty() {
            self.migration.leave(self.left.clone());
        }
        if self.migration.moved(self.moved) {
            self.table.finish(self.old, self.migration);
        }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::super::Config;
    use super::super::index::Migrating;
    use super::super::tests::Noting;
    use super::*;
    use crate::hash::Hashing;
    use crate::sync::Shared;
    use crate::table::{ByWord, Change, PairTable};

    #[test]
    fn a_unit_whose_hashes_are_missing_is_put_back() {
        let codec = Noting::default().into_codec().unwrap();
        let config = Config { initial_bins: 64, ..Config::default() };
        let table: Table<_, Shared> = Table::new(codec, config, 0).unwrap();
        // The bin of the last words is delegated.
        let keys = || (0..10).chain(1_000_000..1_000_020);
        for key in keys() {
            assert_eq!(table.apply(key, &ByWord, Some(!key), |_| Change::Keep), None);
        }
        let index = table.hold_root();
        assert_eq!(table.start_migration(&index, 128, false), Ok(true));
        let Migrating::To(migration) = index.migration() else { panic!("no migration") };
        let in_overflow = || {
            let overflow = index.overflow.lock();
            (overflow.delegated_bins(), overflow.len())
        };
        let before = in_overflow();
        assert!(before.0 == 1 && before.1 >= 20);
        let pin = table.enter();
        let header = |at| Header(index.bins.at(at).header.load(Ordering::Relaxed));
        for at in 0..64 {
            let before = header(at);
            let has_keys = before.state() == BinState::Special || before.claimed_count() != 0;
            // Nobody has asked for hashes.
            assert_eq!(table.move_units(&pin, &index, migration, at..at + 1), !has_keys);
            let after = if has_keys { before.state() } else { BinState::Moved };
            assert_eq!(header(at).state(), after);
            assert!(header(at).claimed(0).eq(before.claimed(0)));
        }
        drop(pin);
        assert_eq!(in_overflow(), before);
        assert!(keys().all(|key| table.find(key, &ByWord) == Some(!key)), "put back");
        table.complete_migration();
        assert_eq!(table.root_bins(), 128);
        assert!(keys().all(|key| table.find(key, &ByWord) == Some(!key)), "moved");
    }
}
