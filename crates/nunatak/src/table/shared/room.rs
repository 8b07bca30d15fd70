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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::table::shared::full_disk::permit_or;

    #[test]
    fn a_key_without_a_slot_is_refused_once_the_table_has_what_it_was_made_for() {
        let refuses = |room: Room, len| permit_or(Error::Full, || Ok(room.must_refuse(|| len)));
        let room = Room::of(7).made_for(3);
        assert_eq!([2, 3, 4].map(|len| refuses(room, len)), [false, true, true].map(Ok));
        assert_eq!(refuses(Room::default(), 4), Ok(false), "a table that grows");
        assert!(!room.must_refuse(|| 4), "an operation that must not be refused");
    }
}
