//! What a thread that moves bins asks for before it needs it: pages of the next index, and cache lines.

use super::layout::Bin;
use super::transfer::Mover;
use crate::hash::HashCodec;
use crate::memory::prefetch::{prefetch, prefetch_to_write};
use crate::sync::Mode;

/// How many units lie between the one that is moved and the one whose lines are asked for.
const UNITS_AHEAD: usize = 8;

impl<P: HashCodec, Y: Mode> Mover<'_, P, Y> {
    /// Makes the pages that the chunk's pairs go to resident.
    pub(super) fn populate_targets(&self) {
        let populate = |bins| self.migration.target.bins.populate(bins);
        self.migration.populate::<P>(&self.left, populate);
    }

    /// Asks for the lines of a unit that comes soon, but for its bins: they lie one after the other, so the processor
    /// asks for them.
    #[inline(always)]
    pub(super) fn prefetch_ahead(&self) {
        let unit = self.left.start + UNITS_AHEAD;
        if unit >= self.left.end {
            return;
        }
        let Some(targets) = self.migration.targets_of::<P>(unit) else { return };
        for target in targets {
            prefetch_to_write(self.migration.target.bins.address(target));
        }
        for bin in self.migration.bins_of::<P>(unit) {
            if let Some(link) = self.old.first_link(bin * size_of::<Bin>()) {
                prefetch(link);
            }
        }
    }
}

#[cfg(all(test, target_os = "linux", not(any(modelled, miri))))]
mod tests {
    use super::super::index::Migrating;
    use super::super::{Config, Table};
    use crate::hash::{HashCodec, Hashing, IdentityCodec, ModuloCodec, RandomState};
    use crate::sync::Shared;

    /// Moves one chunk of 8,192 bins without keys to an index of `factor` times the bins. Returns how many bytes of
    /// the new index are resident.
    fn resident_after_a_chunk<P: HashCodec>(codec: P, factor: usize) -> usize {
        const BINS: usize = 1 << 15;
        let config = Config { initial_bins: BINS, ..Config::default() };
        let table: Table<_, Shared> = Table::new(codec, config, 0).unwrap();
        let index = table.hold_root();
        assert_eq!(table.start_migration(&index, factor * BINS, false), Ok(true));
        let Migrating::To(migration) = index.migration() else { panic!("no migration") };
        assert!(table.help(&table.enter(), &index, migration));
        migration.target.usage().resident
    }

    #[test]
    fn a_movers_pages_are_there_before_it_stores() {
        const CHUNK: usize = 8192 * 64;
        for factor in [1, 2, 4] {
            // A chunk's targets lie together, from the start of the index on; the system may have huge pages.
            let expected = factor * CHUNK..=(factor * CHUNK).next_multiple_of(2 << 20);
            let random = RandomState::default().into_codec().unwrap();
            assert!(expected.contains(&resident_after_a_chunk(random, factor)), "{factor}");
            assert!(expected.contains(&resident_after_a_chunk(IdentityCodec, factor)), "{factor}");
            // Here they lie at `factor` places.
            assert!(resident_after_a_chunk(ModuloCodec, factor) >= factor * CHUNK, "{factor}");
        }
        assert_eq!(resident_after_a_chunk(IdentityCodec, 16), 0, "most bins stay empty");
    }
}
