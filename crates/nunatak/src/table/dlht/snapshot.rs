//! A consistent cut of all pairs (section 3.4.4): a migration to an index of the same size that
//! leaves the old index as it was at the cut.
//!
//! First every bin is marked; operations that would change a marked bin wait. Then the thread waits
//! for the operations that began before. That moment is the cut. From there on each bin is moved by
//! the first operation that would change it, or by the thread that takes the snapshot. Reads never
//! wait.

use super::index::{Index, Migrating};
use super::layout::{BinState, DELEGATED, Header};
use super::{Step, Table};
use crate::error::Error;
use crate::hash::{Decoder, HashCodec};
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, Mode, Ordering, operations_ended, retire_tag};
use crate::table::stages::Snapshots;
use std::sync::Arc;

/// The pairs of a cut. The snapshot holds the memory of the old index.
#[derive(Debug)]
pub struct PairSnapshot {
    index: Arc<Index>,
    decoder: Decoder,
    half_of: fn(usize, usize) -> usize,
    bin: usize,
    buffer: Vec<(u64, u64)>,
}

impl<P: HashCodec, Y: Mode> Snapshots for Table<P, Y> {
    type Snapshot = PairSnapshot;

    fn snapshot(&self) -> Result<PairSnapshot, Error> {
        let index = loop {
            self.complete_migration();
            let index = self.hold_root();
            // The claim fails if another migration has started, or if this index is not the root
            // any more. Then it is tried again.
            if self.start_migration(&index, index.bins.len(), true)? {
                break index;
            }
        };
        if !seeded(Bug::SnapshotWithoutMarking) {
            self.mark_all(&index);
        }
        if !seeded(Bug::SnapshotWithoutGrace) {
            let tag = retire_tag();
            let mut backoff = Backoff::new();
            // Operations are short: none runs the caller's code (invariant 9), which might wait for
            // this thread.
            while !operations_ended(tag, false) {
                backoff.wait();
            }
        }
        if let Migrating::To(migration) = index.migration() {
            migration.begin_transfer();
        }
        self.complete_this(&index);
        self.free_retired_soon();
        Ok(PairSnapshot {
            index,
            decoder: self.decoder,
            half_of: P::half_of,
            bin: 0,
            buffer: Vec::new(),
        })
    }
}

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    fn mark_all(&self, index: &Index) {
        index.overflow.lock().freeze();
        for at in 0..index.bins.len() {
            let bin = index.bins.at(at);
            let mut backoff = Backoff::new();
            loop {
                let header = Header(bin.header.load(Ordering::Relaxed));
                match header.state() {
                    BinState::Open => {
                        let marked = header.with_state(BinState::Special);
                        // Relaxed: the wait that follows orders all accesses.
                        if Y::cas(&bin.header, header.0, marked.0, Ordering::Relaxed).is_ok() {
                            break;
                        }
                    }
                    // Another thread is delegating the bin.
                    BinState::InTransfer => backoff.wait(),
                    BinState::Special | BinState::Moved => break,
                }
            }
        }
    }

    /// Waits until an index has moved, and helps to move it.
    fn complete_this(&self, index: &Arc<Index>) {
        self.repeat(|pin| {
            if !core::ptr::eq(self.root(pin), Arc::as_ptr(index)) {
                return Step::Done(());
            }
            if let Migrating::To(migration) = index.migration() {
                while self.help(pin, index, migration) {}
            }
            Step::Wait
        });
    }
}

impl Iterator for PairSnapshot {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        loop {
            if let Some(pair) = self.buffer.pop() {
                return Some(pair);
            }
            if self.bin == self.index.bins.len() {
                return None;
            }
            let (at, index) = (self.bin, &*self.index);
            self.bin += 1;
            let bin = index.bins.at(at);
            // Relaxed: links and claimed slots have not changed since the cut, which came before
            // this snapshot.
            let links = bin.links.load(Ordering::Relaxed);
            let (half, decoder) = ((self.half_of)(at, index.bins.len()), self.decoder);
            let word = |(tag, second)| (decoder.word(tag, half), second);
            let hidden = decoder.hidden(half);
            if links & DELEGATED != 0 {
                let pairs = index.overflow.lock().kept_pairs(at).into_iter();
                self.buffer.extend(pairs.filter(|pair| pair.0 != hidden).map(word));
                continue;
            }
            for number in Header(bin.header.load(Ordering::Relaxed)).claimed(0) {
                let slot = index.slot(at, bin, links, number);
                let first = slot.load_first(Ordering::Relaxed);
                if first != 0 && first != decoder.dead(half) && first != hidden {
                    let second = slot.load_second(Ordering::Relaxed);
                    self.buffer.push(word((first, second)));
                }
            }
        }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::super::Config;
    use super::super::find::Request;
    use super::*;
    use crate::hash::IdentityCodec;
    use crate::sync::Shared;
    use crate::table::{ByEntry, Change, PairTable, Shadowed};

    type Words = Table<IdentityCodec, Shared>;

    /// Tries to change the value 1 of a key to 2, once.
    fn try_change(table: &Words, key: u64) -> Step<Result<Option<u64>, Shadowed>> {
        let (hash, tag) = table.hashed(key);
        let (test, change) = (&ByEntry(|value| value == 1), &|_| Change::To(2));
        let pin = table.enter();
        let request = Request { hash, tag, test, fresh: None, hides: false, change };
        table.try_apply(&pin, table.root(&pin), &request)
    }

    #[test]
    fn changes_wait_for_the_cut_and_then_move_their_bins() {
        const ALONE: u64 = 1 << 62;
        let config = Config { initial_bins: 64, ..Config::default() };
        let table: Words = Table::new(IdentityCodec, config, 0).unwrap();
        let keys = (1..=20).map(|value| (42, value)).chain([(ALONE, 1)]);
        for (key, value) in keys.clone() {
            let test = ByEntry(|word| word == value);
            assert_eq!(table.apply(key, &test, Some(value), |_| Change::Keep), None);
        }
        assert_eq!(table.stats().delegated_bins, 1);
        let index = table.hold_root();
        assert_eq!(table.start_migration(&index, 64, true), Ok(true));
        table.mark_all(&index);
        for key in [42, ALONE] {
            assert!(matches!(try_change(&table, key), Step::Wait), "before the cut");
            assert_eq!(table.find(key, &ByEntry(|value| value == 1)), Some(1));
        }
        let Migrating::To(migration) = index.migration() else { panic!("no migration") };
        migration.begin_transfer();
        for key in [42, ALONE] {
            assert!(matches!(try_change(&table, key), Step::Done(Ok(Some(1)))), "after the cut");
            assert_eq!(table.find(key, &ByEntry(|value| value == 2)), Some(2));
        }
        table.complete_this(&index);
        let (decoder, buffer) = (table.decoder, Vec::new());
        let half_of = IdentityCodec::half_of;
        let mut cut: Vec<_> = PairSnapshot { index, decoder, half_of, bin: 0, buffer }.collect();
        cut.sort_unstable();
        assert!(cut.into_iter().eq(keys), "the pairs of the cut");
    }
}
