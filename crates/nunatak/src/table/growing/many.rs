//! Keys of many values while a table is small: each value has a slot.

use super::{Full, Growing};
use crate::sync::Shared;
use crate::table::{ByEntry, Change};

impl<T: Full> Growing<T> {
    /// Returns one of the values of a word while the table is small.
    pub(in crate::table) fn any_in_small(&self, word: u64) -> Option<u64> {
        self.small.find_any(word, |_| true).map(|(_, second)| second)
    }

    /// Returns whether a word has a value while the table is small.
    pub(in crate::table) fn has_in_small(&self, word: u64, value: u64) -> bool {
        self.small.find_any(word, |second| second == value).is_some()
    }

    /// Returns the values that a word has at one moment while the table is small.
    pub(in crate::table) fn values_in_small(&self, word: u64) -> Vec<u64> {
        let mut values = Vec::new();
        self.small.values(word, &mut values);
        values
    }

    /// Stores one more value of a word, or returns the full table.
    pub(in crate::table) fn add_in_small(&self, word: u64, value: u64) -> Result<(), &T> {
        let other = ByEntry(|_| false);
        self.apply_in_small(word, &other, Some(value), &Change::keep).map(drop)
    }

    /// Stores a value of a word unless the word has an equal one, or returns the full table.
    pub(in crate::table) fn add_absent_in_small(&self, word: u64, value: u64) -> Result<bool, &T> {
        let this = ByEntry(|second| second == value);
        let present = self.apply_in_small(word, &this, Some(value), &Change::keep)?;
        Ok(present.is_none())
    }

    /// Removes one occurrence of a value of a word, or returns the full table.
    pub(in crate::table) fn remove_in_small(&self, word: u64, value: u64) -> Result<bool, &T> {
        let this = ByEntry(|second| second == value);
        let removed = self.apply_in_small(word, &this, None, &Change::remove)?;
        Ok(removed.is_some())
    }

    /// Removes all values of a word at once, or returns the full table.
    pub(in crate::table) fn drain_in_small(&self, word: u64) -> Result<Vec<u64>, &T> {
        let mut is_refused = false;
        loop {
            let mut held = self.small.lock();
            if let Some(full) = self.full() {
                return Err(full);
            }
            if !held.must_grow || is_refused {
                let removed = self.small.remove_all(&mut held, word);
                drop(held);
                self.registry.count::<Shared>(-(removed.len() as i64));
                return Ok(removed);
            }
            drop(held);
            is_refused = self.grow().is_err();
        }
    }
}
