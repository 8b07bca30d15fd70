//! What a map of many values a key needs of its table, which begins small in RAM.

use super::PeaMultiStats;
use super::keys::{at_once, by_word, values_of};
use crate::entry::Inline;
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::{Heap, Medium};
use crate::table::PairTable;
use crate::table::growing::{self, Growing, Grown};
use crate::table::pea::{Config, Table};

/// A medium of tables of many values a key.
pub trait MultiMedium: Medium {
    /// The table in this medium.
    type Table<P: HashCodec>: MultiTable;
}

impl MultiMedium for Heap {
    type Table<P: HashCodec> = Grown<Table<P::Shared>>;
}

#[cfg(durable)]
impl MultiMedium for crate::memory::durable::Paged {
    type Table<P: HashCodec> = Table<P, Self>;
}

#[cfg(modelled)]
impl<const ORDERED: bool> MultiMedium for crate::memory::Checked<ORDERED> {
    type Table<P: HashCodec> = Table<P, Self>;
}

/// Makes the table of a map in RAM.
pub(crate) fn build<P: HashCodec>(
    codec: P,
    config: Config,
    capacity: usize,
) -> Result<Grown<Table<P::Shared>>, Error> {
    let store = |table: &Table<P::Shared>, (word, value)| {
        // In RAM nothing is refused.
        let _ = table.insert_value(word, value);
    };
    growing::build_with(codec.into_shared(), config, capacity, store)
}

/// The operations on keys of many values.
#[allow(private_interfaces, reason = "the trait is sealed: its module is private")]
pub trait MultiTable: PairTable {
    /// Stores one more value of a key. Fails if a file has no room.
    fn insert_value(&self, word: u64, value: u64) -> Result<(), Error>;

    /// Stores a value of a key unless the key has an equal one, and returns whether it was stored.
    /// Fails if a file has no room.
    fn insert_absent(&self, word: u64, value: u64) -> Result<bool, Error>;

    /// Stores values of keys, in order.
    fn insert_values(&self, count: usize, pair: impl Fn(usize) -> (u64, u64)) -> Result<(), Error>;

    /// Stores values of keys that do not have equal ones, in order, and returns how many were stored.
    /// Fails if a file has no room.
    fn insert_absent_values(
        &self,
        count: usize,
        pair: impl Fn(usize) -> (u64, u64),
    ) -> Result<usize, Error>;

    /// Returns one of the values of a key.
    fn any_value(&self, word: u64) -> Option<u64>;

    /// Returns whether a key has a value.
    fn contains_value(&self, word: u64, value: u64) -> bool;

    /// Returns the number of values of a key.
    fn count_values(&self, word: u64) -> usize;

    /// Appends all values of a key. Returns their number.
    fn copy_values<V: Inline>(&self, word: u64, to: &mut Vec<V>) -> usize;

    /// Removes one occurrence of a value of a key.
    fn remove_value(&self, word: u64, value: u64) -> bool;

    /// Removes all values of a key, and returns their number.
    fn remove_values(&self, word: u64) -> usize;

    /// Removes all values of a key, and returns them.
    fn drain_values(&self, word: u64) -> Vec<u64>;

    /// Appends all values of each key. After each key tells how many values `to` has.
    fn copy_values_of<V: Inline>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        to: &mut Vec<V>,
        copied: impl FnMut(usize, usize),
    );

    /// Tells the number of values of each key.
    fn count_values_of(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        counted: impl FnMut(usize, usize),
    );

    /// Removes all values of each key, and tells how many there were.
    fn remove_values_of(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        removed: impl FnMut(usize, usize),
    );

    /// Yields each key once, with the values that it has at one moment.
    fn keys_with_values(&self) -> impl Iterator<Item = (u64, Vec<u64>)>;

    /// Yields each key once, with the number of values that it has at one moment.
    fn keys_with_counts(&self) -> impl Iterator<Item = (u64, usize)>;

    /// Looks at every bucket.
    fn multi_stats(&self) -> PeaMultiStats;
}

/// By the table's own methods.
#[allow(private_interfaces, reason = "the trait is sealed: its module is private")]
impl<P: HashCodec, M: Medium> MultiTable for Table<P, M> {
    #[inline]
    fn insert_value(&self, word: u64, value: u64) -> Result<(), Error> {
        Self::insert_value(self, word, value)
    }

    #[inline]
    fn insert_absent(&self, word: u64, value: u64) -> Result<bool, Error> {
        Self::insert_absent(self, word, value)
    }

    #[inline]
    fn insert_values(&self, count: usize, pair: impl Fn(usize) -> (u64, u64)) -> Result<(), Error> {
        Self::insert_values(self, count, pair)
    }

    fn insert_absent_values(
        &self,
        count: usize,
        pair: impl Fn(usize) -> (u64, u64),
    ) -> Result<usize, Error> {
        Self::insert_absent_values(self, count, pair)
    }

    #[inline]
    fn any_value(&self, word: u64) -> Option<u64> {
        Self::any_value(self, word)
    }

    #[inline]
    fn contains_value(&self, word: u64, value: u64) -> bool {
        Self::contains_value(self, word, value)
    }

    #[inline]
    fn count_values(&self, word: u64) -> usize {
        Self::count_values(self, word)
    }

    #[inline]
    fn copy_values<V: Inline>(&self, word: u64, to: &mut Vec<V>) -> usize {
        Self::copy_values(self, word, to)
    }

    #[inline]
    fn remove_value(&self, word: u64, value: u64) -> bool {
        Self::remove_value(self, word, value)
    }

    #[inline]
    fn remove_values(&self, word: u64) -> usize {
        Self::remove_values(self, word)
    }

    fn drain_values(&self, word: u64) -> Vec<u64> {
        Self::drain_values(self, word)
    }

    #[inline]
    fn copy_values_of<V: Inline>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        to: &mut Vec<V>,
        copied: impl FnMut(usize, usize),
    ) {
        Self::copy_values_of(self, count, word, to, copied);
    }

    #[inline]
    fn count_values_of(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        counted: impl FnMut(usize, usize),
    ) {
        Self::count_values_of(self, count, word, counted);
    }

    #[inline]
    fn remove_values_of(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        removed: impl FnMut(usize, usize),
    ) {
        Self::remove_values_of(self, count, word, removed);
    }

    fn keys_with_values(&self) -> impl Iterator<Item = (u64, Vec<u64>)> {
        Self::keys_with_values(self)
    }

    fn keys_with_counts(&self) -> impl Iterator<Item = (u64, usize)> {
        Self::keys_with_counts(self)
    }

    fn multi_stats(&self) -> PeaMultiStats {
        Self::multi_stats(self)
    }
}

/// By the full table, or by the slots.
#[allow(private_interfaces, reason = "the trait is sealed: its module is private")]
impl<P: HashCodec + Clone> MultiTable for Growing<Table<P>> {
    #[inline]
    fn insert_value(&self, word: u64, value: u64) -> Result<(), Error> {
        let full = match self.full() {
            Some(full) => full,
            None => match self.add_in_small(word, value) {
                Ok(()) => return Ok(()),
                Err(full) => full,
            },
        };
        full.insert_value(word, value)
    }

    fn insert_absent(&self, word: u64, value: u64) -> Result<bool, Error> {
        match self.full().map_or_else(|| self.add_absent_in_small(word, value), Err) {
            Ok(is_inserted) => Ok(is_inserted),
            Err(full) => full.insert_absent(word, value),
        }
    }

    fn insert_values(&self, count: usize, pair: impl Fn(usize) -> (u64, u64)) -> Result<(), Error> {
        let mut first = 0;
        let full = loop {
            if let Some(full) = self.full() {
                break full;
            }
            if first == count {
                return Ok(());
            }
            let (word, value) = pair(first);
            match self.add_in_small(word, value) {
                Ok(()) => first += 1,
                Err(full) => break full,
            }
        };
        full.insert_values(count - first, |at| pair(first + at))
    }

    fn insert_absent_values(
        &self,
        count: usize,
        pair: impl Fn(usize) -> (u64, u64),
    ) -> Result<usize, Error> {
        let (mut first, mut stored) = (0, 0);
        let full = loop {
            if let Some(full) = self.full() {
                break full;
            }
            if first == count {
                return Ok(stored);
            }
            let (word, value) = pair(first);
            match self.add_absent_in_small(word, value) {
                Ok(is_new) => (first, stored) = (first + 1, stored + usize::from(is_new)),
                Err(full) => break full,
            }
        };
        full.insert_absent_values(count - first, |at| pair(first + at)).map(|more| stored + more)
    }

    #[inline]
    fn any_value(&self, word: u64) -> Option<u64> {
        match self.full() {
            Some(full) => full.any_value(word),
            None => self.any_in_small(word),
        }
    }

    #[inline]
    fn contains_value(&self, word: u64, value: u64) -> bool {
        match self.full() {
            Some(full) => full.contains_value(word, value),
            None => self.has_in_small(word, value),
        }
    }

    #[inline]
    fn count_values(&self, word: u64) -> usize {
        match self.full() {
            Some(full) => full.count_values(word),
            None => self.values_in_small(word).len(),
        }
    }

    #[inline]
    fn copy_values<V: Inline>(&self, word: u64, to: &mut Vec<V>) -> usize {
        match self.full() {
            Some(full) => full.copy_values(word, to),
            None => {
                let values = self.values_in_small(word);
                to.extend(values.iter().map(|&value| V::from_word(value)));
                values.len()
            }
        }
    }

    fn remove_value(&self, word: u64, value: u64) -> bool {
        match self.full().map_or_else(|| self.remove_in_small(word, value), Err) {
            Ok(is_removed) => is_removed,
            Err(full) => full.remove_value(word, value),
        }
    }

    fn remove_values(&self, word: u64) -> usize {
        match self.full().map_or_else(|| self.drain_in_small(word), Err) {
            Ok(values) => values.len(),
            Err(full) => full.remove_values(word),
        }
    }

    fn drain_values(&self, word: u64) -> Vec<u64> {
        match self.full().map_or_else(|| self.drain_in_small(word), Err) {
            Ok(values) => values,
            Err(full) => full.drain_values(word),
        }
    }

    fn copy_values_of<V: Inline>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        to: &mut Vec<V>,
        mut copied: impl FnMut(usize, usize),
    ) {
        match self.full() {
            Some(full) => full.copy_values_of(count, word, to, copied),
            None => (0..count).for_each(|at| {
                MultiTable::copy_values(self, word(at), to);
                copied(at, to.len());
            }),
        }
    }

    fn count_values_of(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        mut counted: impl FnMut(usize, usize),
    ) {
        match self.full() {
            Some(full) => full.count_values_of(count, word, counted),
            None => (0..count).for_each(|at| counted(at, self.count_values(word(at)))),
        }
    }

    fn remove_values_of(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        mut removed: impl FnMut(usize, usize),
    ) {
        match self.full() {
            Some(full) => full.remove_values_of(count, word, removed),
            None => (0..count).for_each(|at| removed(at, self.remove_values(word(at)))),
        }
    }

    fn keys_with_values(&self) -> impl Iterator<Item = (u64, Vec<u64>)> {
        let (small, full) = match self.copy() {
            Ok(pairs) => (Some(pairs), None),
            Err(full) => (None, Some(full)),
        };
        let small = small.map(|pairs| by_word(at_once(pairs), values_of));
        small.into_iter().flatten().chain(full.into_iter().flat_map(Table::keys_with_values))
    }

    fn keys_with_counts(&self) -> impl Iterator<Item = (u64, usize)> {
        let (small, full) = match self.copy() {
            Ok(pairs) => (Some(pairs), None),
            Err(full) => (None, Some(full)),
        };
        let small = small.map(|pairs| by_word(at_once(pairs), <[_]>::len));
        small.into_iter().flatten().chain(full.into_iter().flat_map(Table::keys_with_counts))
    }

    fn multi_stats(&self) -> PeaMultiStats {
        self.full().map_or_else(
            || PeaMultiStats {
                table: PairTable::stats(self),
                pointers: 0,
                buffered: 0,
                buffers: Vec::new(),
                value_segments: 0,
            },
            Table::multi_stats,
        )
    }
}
