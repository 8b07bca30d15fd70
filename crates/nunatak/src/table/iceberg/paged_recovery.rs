//! Creation and opening of tables in a medium that copies pages: files of byte strings.
//!
//! The scan is that of [`recovery`](super::recovery). A power cut leaves the state of one instant
//! between changes, so there is nothing to mend but what an interrupted resize had left to move. In
//! persistent memory a pair may be twice, where it was and where it belongs. After a crash the
//! finder learns of all pairs when they are where they belong.

use super::geometry::{BlockSizes, Geometry, Phase, State};
use super::recovery::{Found, held, most_rows};
use super::yard::Yard;
use super::{Config, Table};
use crate::error::{Error, FileError};
use crate::hash::HashCodec;
use crate::memory::durable::{Paged, Pool};
use crate::memory::{Finder, Medium, Part, ReservedArray};
use crate::seeded::{Bug, seeded};
use crate::simd::BitIter;
use crate::sync::{AtomicPair, Ordering, Ordering::Relaxed, Shared};
use crate::table::shared::Recovery;
use crate::table::shared::files::{IsPair, ensure};
use crate::table::shared::paged::{PagedTable, has_first_room, paged_parts, take_back_at_open};
use crate::table::shared::undo_log::UndoLog;
use crate::table::stages::Figures;
use std::sync::Arc;

/// Bytes of a part for each byte of the map that says where its pages are.
const PER_MAP_BYTE: u64 = 4096 / 32;

fn corrupt(what: &'static str) -> Error {
    FileError::corrupt(what).into()
}

/// Whether a pool holds a table of so many columns and rows.
fn holds<B: BlockSizes>(pool: &Pool, columns: usize, rows: u64) -> bool {
    [(Part::Front, B::FRONT), (Part::Back, B::BACK)].iter().all(|&(part, slots)| {
        let bytes =
            (columns as u64).checked_mul(rows).and_then(|n| n.checked_mul(slots as u64 * 16));
        let direct = pool.bytes_of(part) as u64;
        let mapped = pool.bytes_of(part.map()) as u64 * PER_MAP_BYTE;
        bytes.is_some_and(|bytes| bytes <= direct.max(mapped))
    })
}

impl<P: HashCodec, B: BlockSizes> Table<P, B, Paged> {
    /// Makes a durable table in an empty medium.
    pub(crate) fn create_paged(
        medium: Paged,
        codec: P,
        config: Config,
        (columns, rows): (usize, u64),
    ) -> Result<Self, Error> {
        medium.end_recovery()?;
        let table = Self::within(medium, codec, config, (columns, rows))?;
        table.prepare_root()?;
        table.set_root(State::root(Phase::Stable, rows));
        has_first_room(&table)?;
        table.sync_pages()?;
        // After the sync, so that no empty pages are copied; and before the file gets its name, so
        // that a killed process leaves no file without pages.
        table.populate_all()?;
        Ok(table)
    }

    /// Allocates all pages of the size in use, so that no insert is refused a page.
    fn populate_all(&self) -> Result<(), Error> {
        self.make_present(0..self.geometry.blocks(self.state().mask()))
    }

    /// Opens the table that a medium holds. The finder learns what slots name.
    pub(crate) fn open_paged(
        medium: Paged,
        codec: P,
        config: Config,
        columns: usize,
        finder: Option<&Arc<dyn Finder>>,
    ) -> Result<(Self, Recovery), Error> {
        if !(2..=128).contains(&columns) || !columns.is_multiple_of(2) {
            return Err(corrupt("the number of columns is none"));
        }
        let was_closed = medium.pool().was_closed();
        let root: ReservedArray<AtomicPair, Paged> =
            ReservedArray::within(&medium, Part::Segments, 1, 1)?;
        // Relaxed, as all loads here: no map has the table yet.
        let (word, said) = (root.at(0).load_first(Relaxed), root.at(0).load_second(Relaxed));
        let pool = medium.pool();
        let holds = |rows| holds::<B>(pool, columns, rows);
        let root_word = State::of_root(word)
            .map(|(phase, rows)| held(phase, rows, holds))
            .ok_or_else(|| corrupt("the number of rows is none"))
            .and_then(|(phase, rows)| match holds(rows) {
                true => Ok((phase, rows)),
                false => Err(corrupt("rows are not in the file")),
            });
        let most = || (Phase::Stable, most_rows(holds));
        let named = pool.tolerate(root_word, most)?;
        // The root word has no checksum but that of its page, which was read above.
        let is_lost =
            pool.forced().is_some() && (pool.damage().is_some() || root.region().is_absent(0));
        let (phase, rows) = if is_lost { most() } else { named };
        if !holds(rows) {
            return Err(corrupt("not even a row is in the file"));
        }
        let present = if phase == Phase::Halving { 2 * rows } else { rows };
        let mut table = Self::within_root(medium, Some(root), codec, config, (columns, present))?;
        table.medium.find_lost_pages();
        if phase == Phase::Halving {
            let state = State::new(rows, !table.front.is_fast());
            table.state = crate::sync::AtomicU64::new(state.0);
        }
        let present = if is_lost { table.likely_rows(present) } else { present };
        // A file may be closed in the middle of a resize.
        let said = (was_closed && phase == Phase::Stable).then_some(said);
        let recovery = table.recover_pages(present, said, finder)?;
        Ok((table, Recovery { was_closed, ..recovery }))
    }

    /// Builds everything that is not durable, and repairs the table after a crash.
    fn recover_pages(
        &self,
        present: u64,
        said: Option<u64>,
        finder: Option<&Arc<dyn Finder>>,
    ) -> Result<Recovery, Error> {
        let found = self.scan_pages(present);
        if let Some(said) = said {
            self.check_closed(&found, said)?;
        }
        // Until here nothing was changed.
        self.medium.end_recovery()?;
        self.registry.count::<Shared>(found.items);
        let (state, rows) = (self.state(), self.state().rows());
        {
            // Keeps the table from growing meanwhile.
            let _held = self.migrating.lock();
            // Slots without a fingerprint may hold pairs that are yet to be moved or dropped.
            self.enter(state.next(Phase::Halved, rows));
        }
        let moved = self.mend(&found)?;
        self.change(|| {
            self.prepare_root()?;
            self.set_root(State::root(Phase::Stable, rows));
            Ok(())
        })?;
        self.enter(state.next(Phase::Stable, rows));
        let blocks = self.geometry.blocks(rows - 1);
        self.release(blocks);
        self.clear_pages_behind(blocks)?;
        if self.medium.was_cut() && !self.medium.is_read_only() {
            // A new table may have got pages after its last sync.
            self.populate_all()?;
        }
        let mut recovery = Recovery {
            slots: blocks * Geometry::<B>::SLOTS + self.chains.slots().len(),
            moved,
            dropped: found.misplaced.len() - moved + found.doubled.len(),
            ..Recovery::default()
        };
        if let Some(finder) = finder {
            self.tell(&**finder)?;
        }
        match said {
            Some(_) => recovery.items = self.len(),
            None => self.restoring.add(self.len()),
        }
        let taken_back = take_back_at_open(self, |replaced, found| {
            if let Some(finder) = finder {
                replaced.tell(found, &**finder);
            }
        });
        self.pool().tolerate(taken_back, || ())?;
        if let Some(finder) = finder {
            finder.end();
        }
        // If the disk is full, changes that find no room are refused.
        let _ = has_first_room(self);
        Ok(recovery)
    }

    fn scan_pages(&self, present: u64) -> Found {
        let blocks = self.geometry.blocks(present - 1);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut found = self.scan(blocks, threads, |range, found| {
            for block in range {
                self.restore_front(block, found);
                self.restore_back(block, found);
            }
        });
        found.add(self.scan(blocks, threads, |range, found| self.check_back(range, found)));
        self.restore_chains(&mut found);
        found
    }

    /// Checks that a file that was closed between two resizes is as it was then.
    fn check_closed(&self, found: &Found, said: u64) -> Result<(), Error> {
        if let Some(&place) = found.misplaced.first() {
            Err(self.corrupt_at("a pair is not where its key belongs", place))
        } else if let Some(&place) = found.doubled.first() {
            Err(self.corrupt_at("a key has two pairs", place))
        } else {
            ensure(said == found.items as u64 + 1, "the number of pairs")
        }
    }

    /// Runs a change. If there is no room for a copy, syncs and tries once more.
    fn change(&self, change: impl Fn() -> Result<(), Error>) -> Result<(), Error> {
        self.with_room(|| {
            let _pin = self.cut.enter();
            change()
        })
    }

    /// Clears all slots behind the first `blocks` blocks, as far as there are any.
    fn clear_pages_behind(&self, blocks: usize) -> Result<(), Error> {
        let of_front = self.front.slots_behind(blocks).map(|slot| slot.load_first(Relaxed) != 0);
        let of_front: Vec<bool> = of_front.collect();
        let of_back = self.back.slots_behind(blocks).map(|slot| slot.load_first(Relaxed) != 0);
        let of_back: Vec<bool> = of_back.collect();
        for (at, _) in of_front.iter().enumerate().filter(|(_, is_there)| **is_there) {
            self.change(|| {
                let block = blocks + at / B::FRONT;
                self.front.make_writable(block)?;
                self.empty(self.front.slot(block, at % B::FRONT));
                Ok(())
            })?;
        }
        for (at, _) in of_back.iter().enumerate().filter(|(_, is_there)| **is_there) {
            self.change(|| {
                let block = blocks + at / B::BACK;
                self.back.make_writable(block)?;
                self.empty(self.back.slot(block, at % B::BACK));
                Ok(())
            })?;
        }
        Ok(())
    }

    fn empty(&self, slot: &AtomicPair) {
        self.medium.store_first(slot, 0, Ordering::Release);
        self.medium.flush(slot, 1);
        self.medium.fence();
    }

    /// Tells the finder what all slots hold. Slots that can't hold it count as empty.
    fn tell(&self, finder: &dyn Finder) -> Result<(), Error> {
        let is_found = |second: u64| seeded(Bug::BlobsNotFound) || finder.find(second);
        for block in 0..self.geometry.blocks(self.state().mask()) {
            let used = !self.front.matching(block, 0) & (u64::MAX >> (64 - B::FRONT));
            for slot in BitIter::new(used) {
                if !is_found(self.front.pair(block, slot).1) {
                    self.front.set_fingerprint(block, slot, 0);
                    self.registry.count::<Shared>(-1);
                }
            }
            let empties = super::back::Back::<B, Paged>::empties(self.back.word(block));
            let empties: Vec<usize> = empties.collect();
            for slot in (0..B::BACK).filter(|slot| !empties.contains(slot)) {
                if !is_found(self.back_pair(block, slot).1) {
                    self.back.clear_fingerprint(block, slot);
                    self.registry.count::<Shared>(-1);
                }
            }
        }
        for (hash, pair) in self.chains.all() {
            if !is_found(pair.1) {
                let remove = || self.chains.remove(hash, pair).map_err(|_| FileError::Full.into());
                self.change(remove)?;
                self.registry.count::<Shared>(-1);
            }
        }
        Ok(())
    }
}

#[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
impl<P: HashCodec, B: BlockSizes> PagedTable for Table<P, B, Paged> {
    paged_parts!();

    fn sync(&self) -> Result<(), Error> {
        self.sync_pages()
    }

    fn verify(&self, is_pair: IsPair<'_>) -> Result<usize, Error> {
        self.front.region().check()?;
        self.back.region().check()?;
        self.chains.slots().check()?;
        self.root.as_ref().map_or(Ok(()), |root| root.region().check())?;
        self.undo.as_ref().map_or(Ok(()), UndoLog::check)?;
        let pairs = self.verify(is_pair)?;
        ensure(pairs == self.len(), "there are more or fewer pairs than is said")?;
        Ok(pairs)
    }

    fn close(&self) -> Result<(), Error> {
        self.change(|| {
            self.prepare_root()?;
            if let Some(root) = &self.root {
                let pairs = self.len() as u64 + 1;
                self.medium.store_second(root.at(0), pairs, Relaxed);
                self.medium.flush(root.address(0), 1);
                self.medium.fence();
            }
            Ok(())
        })
    }
}
