//! Tables that do not grow by themselves: for how many entries they have room.

use super::full_disk::is_permitted;

/// The entries for which a table that does not grow was made; a table that grows has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Room(Option<usize>);

impl Room {
    /// The room of a table that does not grow.
    pub(crate) fn of(entries: usize) -> Self {
        Self(Some(entries))
    }

    /// The same of a table that is made for so many entries.
    pub(crate) fn made_for(self, entries: usize) -> Self {
        Self(self.0.map(|_| entries))
    }

    /// Whether the table does not grow.
    #[inline(always)]
    pub(in crate::table) fn is_fixed(self) -> bool {
        self.0.is_some()
    }

    /// Whether a key that finds no slot is refused, by an operation that may be refused. A table that
    /// has fewer entries than it was made for takes the key: into the place of keys that find no room.
    pub(in crate::table) fn must_refuse(self, len: impl FnOnce() -> usize) -> bool {
        self.0.is_some_and(|room| is_permitted() && len() >= room)
    }
}
