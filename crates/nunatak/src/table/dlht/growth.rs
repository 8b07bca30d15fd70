//! The decision when to migrate, and to how many bins.

use super::apply::Detour;
use super::index::{Index, Migrating, PLANNED_KEYS_PER_BIN, bins_for};
use super::layout::{Header, SLOTS};
use super::migration::Migration;
use super::sizes::{grown, growth_factor, shrunk};
use super::{Step, Table};
use crate::error::Error;
use crate::hash::HashCodec;
use crate::sync::{Mode, OpPin};
use crate::table::stages::Resizing;
use std::sync::Arc;

/// Below this an index without free links has lost them to deleted keys, not to its load: random keys use all links at 2.2
/// keys a bin.
const CHURNED_KEYS_PER_BIN: f64 = 1.1 * PLANNED_KEYS_PER_BIN;
/// Below this a copy of the same size has most of its links left, and lasts. From here on twice the size pays: keys that come
/// and go take half to two thirds of the time (`docs/measurements.md`).
const SPARSE_KEYS_PER_BIN: f64 = 1.1;
/// Below this a full bin is no accident of a random hash.
const COLLIDING_KEYS_PER_BIN: f64 = 0.5;

impl<P: HashCodec, Y: Mode> Resizing for Table<P, Y> {
    fn reserve(&self, additional: usize) -> Result<(), Error> {
        let keys = self.keys().checked_add(additional).ok_or(Error::CapacityOverflow)?;
        let wanted = bins_for(keys)?;
        self.migrate_to(|bins| grown(bins, wanted))?;
        Ok(())
    }

    /// Divides the number of bins by as much as the number of keys allows.
    fn shrink_to_fit(&self) -> Result<(), Error> {
        while self.migrate_to(|bins| {
            let wanted = bins_for(self.keys()).unwrap_or(usize::MAX);
            shrunk(bins, wanted)
        })? {}
        self.free_retired_soon();
        Ok(())
    }
}

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    /// Returns the factor of the options, or that of the paper.
    fn growth_factor(&self, bins: usize) -> usize {
        self.config.growth_factor.unwrap_or_else(|| growth_factor(bins))
    }

    /// Makes room for an insert that found no free slot, or no link for it.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room<'p>(
        &'p self,
        pin: &'p OpPin<Y>,
        index: &'p Index,
        at: usize,
        header: Header,
    ) -> Detour<'p> {
        let root = self.root(pin);
        if !core::ptr::eq(root, index) {
            // This index is still being filled: its migration must end first.
            return match root.migration() {
                Migrating::To(migration) if self.help(pin, root, migration) => Detour::Again,
                _ => Detour::Wait,
            };
        }
        match index.migration() {
            Migrating::Starting => return Detour::Wait,
            Migrating::To(migration) if !migration.has_begun() => return Detour::Wait,
            Migrating::To(migration) => {
                // Moves one chunk and this operation's own bin; then the insert continues.
                self.help(pin, index, migration);
                return match self.transfer_bin(pin, index, migration, at) {
                    true => Detour::Next(&migration.target),
                    false => Detour::Wait,
                };
            }
            Migrating::No => {}
        }
        let bins = index.bins.len();
        let keys_per_bin = self.keys() as f64 / bins as f64;
        let is_full = header.claimed_count() == SLOTS;
        let is_fixed = self.config.room.is_fixed();
        let new_bins = if is_full && keys_per_bin < COLLIDING_KEYS_PER_BIN {
            None
        } else if is_full || keys_per_bin >= CHURNED_KEYS_PER_BIN {
            bins.checked_mul(self.growth_factor(bins))
        } else if keys_per_bin >= SPARSE_KEYS_PER_BIN && !is_fixed {
            bins.checked_mul(2)
        } else {
            // A bin keeps its links, so deleted keys leave theirs behind. A copy takes only the
            // links that it needs. If it would need them all again, the keys collide.
            index.links_suffice_after_copy(at).then_some(bins)
        };
        let new_bins = new_bins.filter(|&new_bins| !is_fixed || new_bins == bins);
        if new_bins.is_none() && self.config.room.must_refuse(|| self.keys()) {
            return Detour::Refused;
        }
        let started = new_bins.is_some_and(|bins| self.start_migration(index, bins, false).is_ok());
        if !started {
            self.delegate(index, at, header);
        }
        Detour::Again
    }

    /// Starts a migration of the root. Returns false if the index has a migration already.
    pub(super) fn start_migration(
        &self,
        index: &Index,
        new_bins: usize,
        keeps: bool,
    ) -> Result<bool, Error> {
        if !index.claim_migration() {
            return Ok(false);
        }
        match Index::new(new_bins, self.config.bins_per_link) {
            Ok(target) => {
                let (bins, chunk) = ((index.bins.len(), new_bins), self.config.chunk_bins);
                let migration = Migration::new(bins, self.keys(), Arc::new(target), chunk, keeps);
                index.set_migration(Some(Box::new(migration)));
                Ok(true)
            }
            Err(error) => {
                index.set_migration(None);
                Err(error)
            }
        }
    }

    /// Completes the current migration, if there is one.
    pub(super) fn complete_migration(&self) {
        self.repeat(|pin| {
            let root = self.root(pin);
            match root.migration() {
                Migrating::No => Step::Done(()),
                Migrating::To(migration) => {
                    while self.help(pin, root, migration) {}
                    // Other threads may hold the last units.
                    Step::Wait
                }
                Migrating::Starting => Step::Wait,
            }
        });
    }

    /// Migrates to the number of bins that `choose` returns for the present number.
    fn migrate_to(&self, choose: impl Fn(usize) -> Option<usize>) -> Result<bool, Error> {
        loop {
            self.complete_migration();
            let pin = self.enter();
            let root = self.root(&pin);
            let Some(bins) = choose(root.bins.len()) else { return Ok(false) };
            if self.start_migration(root, bins, false)? {
                drop(pin);
                self.complete_migration();
                self.free_retired_soon();
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
impl<P: HashCodec, Y: Mode> Table<P, Y> {
    pub(super) fn root_bins(&self) -> usize {
        self.hold_root().bins.len()
    }

    pub(super) fn is_growing(&self) -> bool {
        !matches!(self.hold_root().migration(), Migrating::No)
    }
}
