//! What a thread that moves bins asks for before it needs it: pages of the next index, and cache lines.

use super::layout::Bin;
use super::migration::UNITS_AHEAD;
use super::transfer::Mover;
use crate::hash::HashCodec;
use crate::memory::prefetch::{prefetch, prefetch_to_write};
use crate::sync::Mode;

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
    use crate::hash::{HashCodec, IdentityCodec, ModuloCodec};
    use crate::sync::Shared;
    use crate::table::{ByWord, Change, PairTable};

    const CHUNK: usize = 8192;

    /// Moves the last chunk of an index, whose keys are all in the bins before it, to an index of `factor` times the
    /// bins. Returns how many bytes of the new index are resident.
    fn resident_after_a_chunk<P: HashCodec>(
        codec: P,
        keys: impl Iterator<Item = u64>,
        factor: usize,
    ) -> usize {
        let config = Config { initial_bins: 4 * CHUNK, ..Config::default() };
        let table: Table<_, Shared> = Table::new(codec, config, 0).unwrap();
        for key in keys {
            table.apply(key, &ByWord, Some(key), |_| Change::Keep);
        }
        let index = table.hold_root();
        assert_eq!(table.start_migration(&index, factor * 4 * CHUNK, false), Ok(true));
        let Migrating::To(migration) = index.migration() else { panic!("no migration") };
        assert!(table.move_units(&table.enter(), &index, migration, 3 * CHUNK..4 * CHUNK));
        migration.target.usage().resident
    }

    #[test]
    fn a_movers_pages_are_there_before_it_stores() {
        // The key of the bin of this number among 2^15, and of its first child in a larger index.
        let identity = |factor, keys: u64| {
            resident_after_a_chunk(IdentityCodec, (0..keys).map(|bin| bin << 49), factor)
        };
        for factor in [1, 2, 4] {
            // A chunk's targets lie together; the system may have huge pages.
            let bytes = factor * CHUNK * 64;
            let expected = bytes..=bytes.next_multiple_of(2 << 20);
            let resident = identity(factor, 20_000);
            assert!(expected.contains(&resident), "{factor}: {resident}");
            // Here they lie at `factor` places.
            let resident = resident_after_a_chunk(ModuloCodec, 0..20_000, factor);
            assert!(resident >= bytes, "{factor}: {resident}");
        }
        assert_eq!(identity(4, 100), 0, "most pages stay untouched");
        assert_eq!(identity(16, 20_000), 0, "too many lines at once");
    }
}
