//! Which pages of a damaged file may be earlier than the last ones of their places.

use super::page_versions::Version;
use std::collections::{HashMap, HashSet};

#[derive(Debug, Default)]
pub(super) struct EarlierPages {
    pages: HashSet<usize>,
    /// The epochs of all pages that count.
    epochs: HashMap<usize, u64>,
}

impl EarlierPages {
    pub(super) fn insert(&mut self, number: usize) {
        self.pages.insert(number);
    }

    /// Notes a page that counts.
    pub(super) fn set_epoch(&mut self, version: Version) {
        self.epochs.insert(version.number(), version.epoch());
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = usize> {
        self.pages.iter().copied()
    }

    pub(super) fn contains(&self, number: usize) -> bool {
        self.pages.contains(&number)
    }

    /// Whether the page of a value buffer may be as the page of a pointer to it says: whether it is
    /// there, and if either may be of an earlier epoch, whether the other has not changed after it.
    /// (Whoever changes a buffer changes its pointer.)
    pub(super) fn may_belong(&self, values: usize, pointer: usize) -> bool {
        let is_not_later = |one: usize, other: usize| {
            let epochs = self.epochs.get(&one).zip(self.epochs.get(&other));
            epochs.is_some_and(|(one, other)| one <= other)
        };
        values != 0
            && (!self.contains(pointer) || is_not_later(values, pointer))
            && (!self.contains(values) || is_not_later(pointer, values))
    }
}
