//! Reclamation of the indexes that were at the root.

use super::Table;
use crate::hash::HashCodec;
use crate::sync::{Mode, Registry, is_seldom};
use crate::table::stages::Guards;

impl<P: HashCodec, Y: Mode> Guards for Table<P, Y> {
    fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Frees the old indexes that no thread can reach any more.
    #[cold]
    fn free_retired(&self) {
        self.retired.free(|guards| self.registry.others_ended(guards));
    }
}

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    #[inline(always)]
    pub(super) fn free_retired_if_any(&self) {
        if self.retired.count() != 0 {
            self.free_retired_seldom();
        }
    }

    /// Frees old indexes, but not at each call, since each attempt costs a barrier on all
    /// processors.
    #[cold]
    fn free_retired_seldom(&self) {
        if is_seldom::<Y>(&self.registry) {
            self.free_retired();
        }
    }

    /// Frees old indexes, and waits a moment for operations that may read them.
    pub(crate) fn free_retired_soon(&self) {
        let registry = &self.registry;
        self.retired.free_soon(
            |guards| registry.others_ended(guards),
            |guards| registry.is_held_by_others(guards),
        );
    }
}
