//! The decision when to migrate, and to how many bins.

use super::WideTable;
use super::index::{Index, Migrating, bins_for};
use super::layout::Layout;
use crate::error::Error;
use crate::hash::IdentityCodec;
use crate::sync::{Backoff, OpPin, Shared};
use crate::table::dlht::migration::Migration;
use std::sync::Arc;

/// Below this a full bin is no accident of a random hash, or the bins behind links are left from removed keys.
const GROWING_ENTRIES_PER_BIN: f64 = 0.6;

impl<L: Layout> WideTable<L> {
    /// Makes room for an insert that found none in its bin, and no bin for a link: moves the bin to the next index,
    /// starts a migration, or adds bins for links.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room(
        &self,
        pin: &OpPin<Shared>,
        index: &Index<L>,
        at: usize,
    ) -> Result<(), Error> {
        let is_root = core::ptr::eq(self.root(pin), index);
        if let Migrating::To(migration) = index.migration() {
            self.help(pin, index);
            let unit = migration.unit_of::<IdentityCodec>(at);
            // Without memory for the move the bin stays where it is.
            return match self.move_units(index, migration, unit..unit + 1) {
                true => Ok(()),
                false => index.add_links(),
            };
        }
        if self.config.room.must_refuse(|| self.len()) {
            return Err(Error::Full);
        }
        let entries_per_bin = self.len() as f64 / index.bins() as f64;
        let is_fixed = self.config.room.is_fixed();
        if is_root && !is_fixed && entries_per_bin >= GROWING_ENTRIES_PER_BIN {
            let factor = self.config.growth_factor.unwrap_or(growth_factor(index.bins()));
            let bins = index.bins().checked_mul(factor);
            if let Some(bins) = bins
                && self.start_migration(index, bins).is_ok()
            {
                return Ok(());
            }
        }
        index.add_links()
    }

    /// Starts a migration of the root. Returns false if the index has a migration already.
    fn start_migration(&self, index: &Index<L>, bins: usize) -> Result<bool, Error> {
        if !index.claim_migration() {
            return Ok(false);
        }
        match Index::new(bins, self.config.bins_per_link) {
            Ok(target) => {
                let target = Arc::new(target);
                let migration =
                    Migration::new(index.bins(), bins, target, self.config.chunk_bins, false);
                index.set_migration(Some(migration));
                Ok(true)
            }
            Err(error) => {
                index.set_migration(None);
                Err(error)
            }
        }
    }

    /// Completes the current migration, if there is one.
    pub(super) fn complete_migration(&self) -> Result<(), Error> {
        let mut backoff = Backoff::new();
        loop {
            let pin = OpPin::<Shared>::new();
            let root = self.root(&pin);
            match root.migration() {
                Migrating::No => return Ok(()),
                Migrating::Starting => {}
                Migrating::To(_) => while self.help(&pin, root) {},
            }
            drop(pin);
            // Other threads may have the last units.
            backoff.wait();
        }
    }

    pub(crate) fn reserve(&self, additional: usize) -> Result<(), Error> {
        let entries = self.len().checked_add(additional).ok_or(Error::CapacityOverflow)?;
        let wanted = bins_for::<L>(entries)?;
        self.migrate_to(|bins| {
            let factor = wanted.div_ceil(bins);
            (factor > 1).then(|| bins.saturating_mul(factor))
        })?;
        Ok(())
    }

    /// Divides the number of bins by as much as the number of entries allows.
    pub(crate) fn shrink_to_fit(&self) -> Result<(), Error> {
        while self.migrate_to(|bins| {
            let wanted = bins_for::<L>(self.len()).unwrap_or(usize::MAX);
            // The factors are small, because one thread holds all bins of a unit.
            [8, 6, 5, 4, 3, 2]
                .into_iter()
                .find(|factor| bins.is_multiple_of(2 * factor) && bins / factor >= wanted)
                .map(|factor| bins / factor)
        })? {}
        self.free_retired_soon();
        Ok(())
    }

    /// Migrates to the number of bins that `choose` returns for the present number.
    fn migrate_to(&self, choose: impl Fn(usize) -> Option<usize>) -> Result<bool, Error> {
        loop {
            self.complete_migration()?;
            let pin = OpPin::<Shared>::new();
            let root = self.root(&pin);
            let Some(bins) = choose(root.bins()) else { return Ok(false) };
            if self.start_migration(root, bins)? {
                drop(pin);
                self.complete_migration()?;
                self.free_retired_soon();
                return Ok(true);
            }
        }
    }
}

/// Returns the factor of the paper (section 3.2.5): 8, 4 or 2, by size.
fn growth_factor(bins: usize) -> usize {
    match bins {
        0..4096 => 8,
        4096..4_194_304 => 4,
        _ => 2,
    }
}
