//! The decision when to migrate, and to how many bins.

use super::WideTable;
use super::index::{Index, Migrating, planned_per_bin};
use super::layout::Layout;
use crate::error::Error;
use crate::hash::IdentityCodec;
use crate::sync::{Backoff, OpPin, Shared};
use crate::table::dlht::migration::Migration;
use crate::table::dlht::sizes::{bins_for, grown, growth_factor, shrunk};
use std::sync::Arc;

/// An index without bins for links grows if it has so many times the entries that are planned for its bins: random hashes
/// use all links at 1.2 entries a bin of two slots. With fewer it has lost them to removed keys, or to keys that collide.
const FULL: f64 = 1.1;

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
        if let Migrating::To(migration) = index.migration() {
            let unit = migration.unit_of::<IdentityCodec>(at);
            // Without memory for the move the bin stays where it is.
            let is_moved = self
                .help(pin, index)
                .and_then(|_| self.move_units(index, migration, unit..unit + 1));
            return is_moved.or_else(|_| index.add_links());
        }
        if self.config.room.must_refuse(|| self.len()) {
            return Err(Error::Full);
        }
        let bins = index.bins();
        let new_bins = if self.len() as f64 >= FULL * planned_per_bin::<L>() * bins as f64 {
            let factor = self.config.growth_factor.unwrap_or(growth_factor(bins));
            bins.checked_mul(factor).filter(|_| !self.config.room.is_fixed())
        } else {
            // A chain keeps its bins, so removed entries leave theirs behind. A copy takes only those that it needs.
            // If it would need them all again, the keys collide.
            index.links_suffice_after_copy().then_some(bins)
        };
        if core::ptr::eq(self.root(pin), index)
            && let Some(new_bins) = new_bins
            && self.start_migration(index, new_bins).is_ok()
        {
            return Ok(());
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
    ///
    /// # Errors
    /// If memory for it is refused.
    pub(super) fn complete_migration(&self) -> Result<(), Error> {
        let mut backoff = Backoff::new();
        loop {
            let pin = OpPin::<Shared>::new();
            let root = self.root(&pin);
            match root.migration() {
                Migrating::No => return Ok(()),
                Migrating::Starting => {}
                Migrating::To(_) => while self.help(&pin, root)? {},
            }
            drop(pin);
            // Other threads may have the last units.
            backoff.wait();
        }
    }

    pub(crate) fn reserve(&self, additional: usize) -> Result<(), Error> {
        let entries = self.len().checked_add(additional).ok_or(Error::CapacityOverflow)?;
        let wanted = bins_for(entries, planned_per_bin::<L>())?;
        self.migrate_to(|bins| grown(bins, wanted))?;
        Ok(())
    }

    /// Divides the number of bins by as much as the number of entries allows.
    pub(crate) fn shrink_to_fit(&self) -> Result<(), Error> {
        while self.migrate_to(|bins| {
            let wanted = bins_for(self.len(), planned_per_bin::<L>()).unwrap_or(usize::MAX);
            shrunk(bins, wanted)
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
