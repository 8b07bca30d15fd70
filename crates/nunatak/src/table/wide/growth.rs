//! The decision when to migrate, and to how many bins.

use super::WideTable;
use super::index::{Index, Migrating};
use super::layout::Shape;
use crate::error::Error;
use crate::hash::IdentityCodec;
use crate::sync::{Backoff, OpPin, Shared};
use crate::table::dlht::migration::Migration;
use crate::table::dlht::sizes::{grown, shrunk};
use std::sync::Arc;

impl<S: Shape> WideTable<S> {
    /// Makes room for an insert that found none in its bin, and no bin for a link: moves the bin to the next index,
    /// starts a migration, or adds bins for links.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room(
        &self,
        pin: &OpPin<Shared>,
        index: &Index<S>,
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
        let new_bins = if self.len() as f64 > self.config.full * bins as f64 {
            bins.checked_mul(self.config.growth_factor_of(bins))
                .filter(|_| !self.config.room.is_fixed())
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

    /// Starts a migration if the table has more entries than it may, and moves some of its bins.
    #[cold]
    #[inline(never)]
    pub(super) fn grow_if_full(&self, pin: &OpPin<Shared>) {
        let root = self.root(pin);
        let bins = root.bins();
        let most = (self.config.full * bins as f64) as usize;
        let entries = self.len();
        root.looks.set(most.saturating_sub(entries), self.registry.threads());
        if self.config.room.is_fixed() || entries <= most {
            return;
        }
        if let Some(new_bins) = bins.checked_mul(self.config.growth_factor_of(bins)) {
            // Without memory the keys go behind links until an insert finds no room.
            let _ = self.start_migration(root, new_bins).and_then(|_| self.help(pin, root));
        }
    }

    /// Starts a migration of the root. Returns false if the index has a migration already.
    fn start_migration(&self, index: &Index<S>, bins: usize) -> Result<bool, Error> {
        if !index.claim_migration() {
            return Ok(false);
        }
        match Index::new(bins, &self.config) {
            Ok(target) => {
                let target = Arc::new(target);
                let (bins, chunk) = ((index.bins(), bins), self.config.chunk_bins);
                let migration = Migration::new(bins, self.len(), target, chunk, false);
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
        let wanted = self.config.bins_for(entries)?;
        self.migrate_to(|bins| grown(bins, wanted))?;
        Ok(())
    }

    /// Divides the number of bins by as much as the number of entries allows.
    pub(crate) fn shrink_to_fit(&self) -> Result<(), Error> {
        while self.migrate_to(|bins| {
            let wanted = self.config.bins_for(self.len()).unwrap_or(usize::MAX);
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
