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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_belongs_to_a_pointer_of_the_same_moment() {
        let mut pages = EarlierPages::default();
        // Pages 1 to 3 are the last of their places, pages 4 to 6 may be earlier ones.
        for page in 1..7 {
            pages.set_epoch(Version::new(5 + (page as u64 - 1) % 3, page));
        }
        (4..8).for_each(|page| pages.insert(page));
        let mut earlier: Vec<usize> = pages.pages().collect();
        earlier.sort_unstable();
        assert_eq!(earlier, [4, 5, 6, 7]);
        assert!(pages.contains(4) && !pages.contains(3));
        let belonging = |pointer: usize| -> Vec<usize> {
            (0..9).filter(|&values| pages.may_belong(values, pointer)).collect()
        };
        // A pointer that counts names any buffer that counts, and a buffer that is not older.
        assert_eq!(belonging(1), [1, 2, 3, 4, 5, 6, 8]);
        assert_eq!(belonging(2), [1, 2, 3, 5, 6, 8]);
        assert_eq!(belonging(3), [1, 2, 3, 6, 8]);
        // A pointer that may be an earlier one names a buffer that has not changed since.
        assert_eq!(belonging(4), [1, 4]);
        assert_eq!(belonging(5), [1, 2, 5]);
        assert_eq!(belonging(6), [1, 2, 3, 6]);
        // Nothing is known of the epochs of these.
        assert_eq!((belonging(7), belonging(8)), (vec![], vec![1, 2, 3, 8]));
    }
}
