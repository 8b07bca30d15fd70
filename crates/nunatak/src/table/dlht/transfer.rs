//! Moving bins to the next index.

use super::index::Index;
use super::layout::{BinState, DELEGATED, Header, Slot};
use super::migration::Migration;
use super::{Retired, Table};
use crate::hash::HashCodec;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, Mode, OpPin, Ordering, retire_tag};
use std::sync::Arc;

/// A pair that was taken out of an old bin.
#[derive(Debug, Clone, Copy)]
struct Captured {
    bin: usize,
    /// Its slot, or `None` if the bin was delegated.
    slot: Option<usize>,
    tag: u64,
    second: u64,
    /// Its new bin.
    target: usize,
}

impl Captured {
    /// What it is hashed by: of a hidden key the value is the tag.
    fn key<P: HashCodec, Y: Mode>(&self, table: &Table<P, Y>, old: &Index) -> (u64, usize) {
        let half = P::half_of(self.bin, old.bins.len());
        let is_hidden =
            Y::SHADOWS && self.tag == table.decoder.hidden(half) && !seeded(Bug::HiddenNotMoved);
        (if is_hidden { self.second } else { self.tag }, half)
    }
}

/// What a thread needs to move unit after unit, and undoes if it lacks a hash.
struct Mover<'t, P: HashCodec, Y: Mode> {
    table: &'t Table<P, Y>,
    old: &'t Index,
    migration: &'t Migration,
    captured: Vec<Captured>,
    claimed: Vec<(usize, Header)>,
    /// Units of the chunk that are not moved yet.
    left: core::ops::Range<usize>,
    moved: usize,
}

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    /// Moves one chunk; false if there is none left, or if it has to be
    /// [asked](crate::table::shared::hashes) for hashes first.
    pub(super) fn help(&self, pin: &OpPin<Y>, old: &Index, migration: &Migration) -> bool {
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

    /// Moves the unit of one bin, if nobody else does; false if it has to be asked for hashes
    /// first.
    pub(super) fn transfer_bin(
        &self,
        pin: &OpPin<Y>,
        old: &Index,
        migration: &Migration,
        bin: usize,
    ) -> bool {
        let unit = migration.unit_of::<P>(bin);
        self.has_hashes(old, migration, unit..unit + 1)
            && self.move_units(pin, old, migration, unit..unit + 1)
    }

    fn move_units(
        &self,
        _pin: &OpPin<Y>,
        old: &Index,
        migration: &Migration,
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
        while !mover.left.is_empty() {
            if !mover.move_unit() {
                return false;
            }
        }
        true
    }

    /// The last bin has moved: the next index is the root.
    fn finish(&self, old: &Index, migration: &Migration) {
        let (taken, _) = migration.target.links_taken();
        migration.target.links_at_birth.store(taken, Ordering::Relaxed);
        let target = Arc::into_raw(Arc::clone(&migration.target)).cast_mut();
        // Release: whoever reads the root finds every bin moved. The pointer that was
        // there, not one from the reference: that may not touch the counts of the `Arc`.
        let root = self.root.swap(target, Ordering::Release);
        debug_assert!(core::ptr::eq(root, old));
        self.hashes.clear();
        let (operations, guards) = (retire_tag(), self.registry.retire_tag());
        // SAFETY: the share in the old index that the root had, taken over by
        // whoever replaced it there, which happens once for an index.
        let index = unsafe { Arc::from_raw(root.cast_const()) };
        let mut retired = self.retired.lock();
        retired.push(Retired { index, operations, guards });
        self.retired_count.store(retired.len(), Ordering::Relaxed);
    }

    /// Stores a pair in a bin that nobody else can reach.
    fn store_unshared(&self, index: &Index, at: usize, pair: (u64, u64)) {
        let bin = index.bins.at(at);
        // Relaxed, here and below: published with the old bins' `Moved`.
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
            // More keys than slots, or no link left: the bin starts delegated.
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

    /// Moves a bin's pairs to the overflow (invariant 8), unless its header
    /// has changed.
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
        // Release: whoever finds the state finds the links and the overflow.
        bin.header.store(in_transfer.with_state(BinState::Special).0, Ordering::Release);
    }

    /// Captures the pairs of a bin that is this thread's (invariant 5): swaps
    /// the dead word in, so that no put or removal can succeed any more, and
    /// kills pending inserts. With `keeps` nobody can be changing anything, and
    /// the pairs stay.
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

/// The final pair of a claimed slot, if it has one.
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
    /// Moves the first unit that is left; false if a hash is to be asked for first.
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

    /// Makes all bins of the unit this thread's; false if it has moved.
    fn claim(&mut self) -> bool {
        self.claimed.clear();
        self.captured.clear();
        for at in self.migration.bins_of::<P>(self.left.start) {
            let bin = self.old.bins.at(at);
            let mut backoff = Backoff::new();
            loop {
                // Acquire: if another thread has moved it, an insert that found no room in it goes
                // on in the next index.
                let header = Header(bin.header.load(Ordering::Acquire));
                match header.state() {
                    BinState::Open | BinState::Special => {
                        let mine = header.with_state(BinState::InTransfer);
                        // Acquire: sees what earlier changes of the bin left.
                        if Y::cas(&bin.header, header.0, mine.0, Ordering::Acquire).is_ok() {
                            self.claimed.push((at, header));
                            break;
                        }
                    }
                    // Whoever has it moves it, delegates it or, if a hasher
                    // panics, gives it back.
                    BinState::InTransfer => backoff.wait(),
                    // The first bin of a unit is claimed first, so if this one
                    // has moved the unit has.
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

    /// Chooses the new bins of what was captured; false if one needs a hash that is not known,
    /// of a key that came after hashes were asked for.
    fn choose_targets(&mut self) -> bool {
        let Self { table, old, migration, captured, left, .. } = self;
        if !migration.grows(old) {
            // One new bin, which a unit of as many old ones has the number of.
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
            // Invariant 9: of a hasher that says something else each time a bin's keys stay
            // among its own, where nobody else stores anything yet.
            let is_child = P::parent(target, from, k) == pair.bin;
            pair.target = if is_child { target } else { P::child(pair.bin, from, k, 0) };
        }
        table.hashes.forget(captured.iter().map(|pair| pair.key(table, old)));
        true
    }

    fn copy(&mut self) {
        let moved = |(at, header): &(usize, Header)| {
            let moved = header.with_state(BinState::InTransfer).with_state(BinState::Moved);
            // Release: whoever finds the state finds the pairs in the target.
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

    /// Puts the unit in hand back as it was.
    fn put_back(&mut self) {
        if seeded(Bug::RollbackForgotten) {
            return;
        }
        for pair in &self.captured {
            if let Some(number) = pair.slot {
                let bin = self.old.bins.at(pair.bin);
                let links = bin.links.load(Ordering::Relaxed);
                // The pair is still there, or dead: it is this thread's.
                // Release: publishes the pair anew.
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
            // Release: whoever finds the bin open finds its pairs.
            self.old.bins.at(at).header.store(open.0, Ordering::Release);
        }
        self.captured.clear();
        self.claimed.clear();
    }
}

impl<P: HashCodec, Y: Mode> Drop for Mover<'_, P, Y> {
    /// Reports what was moved, and leaves the rest of the chunk to others.
    fn drop(&mut self) {
        if !self.left.is_empty() {
            self.migration.leave(self.left.clone());
        }
        if self.migration.moved(self.moved) {
            self.table.finish(self.old, self.migration);
        }
    }
}
