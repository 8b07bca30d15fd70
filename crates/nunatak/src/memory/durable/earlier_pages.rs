//! Which pages of a damaged file may be earlier than the last ones of their places.

use super::page_sums::Placed;
use std::collections::{HashMap, HashSet};

#[derive(Debug, Default)]
pub(super) struct EarlierPages {
    pages: HashSet<usize>,
    /// Where all pages that count are.
    places: HashMap<usize, Placed>,
    /// Epochs that the pointers of a page must have been there in.
    doubted: HashMap<usize, u64>,
}

impl EarlierPages {
    pub(super) fn insert(&mut self, number: usize) {
        self.pages.insert(number);
    }

    /// Notes a page that counts.
    pub(super) fn set_place(&mut self, placed: Placed) {
        self.places.insert(placed.version.number(), placed);
    }

    pub(super) fn place(&self, number: usize) -> Option<Placed> {
        self.places.get(&number).copied()
    }

    /// Notes that what a page has may have been in use no longer than until an epoch. Epoch 0: never.
    pub(super) fn doubt(&mut self, number: usize, until: u64) {
        self.pages.insert(number);
        let least = self.doubted.entry(number).or_insert(until);
        *least = until.min(*least);
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
        let epoch = |number: usize| self.places.get(&number).map(|placed| placed.version.epoch());
        let is_not_later =
            |one: usize, other: usize| epoch(one).zip(epoch(other)).is_some_and(|(a, b)| a <= b);
        let is_in_time = self
            .doubted
            .get(&pointer)
            .is_none_or(|&until| epoch(values).is_some_and(|epoch| epoch <= until));
        values != 0
            && is_in_time
            && (!self.contains(pointer) || is_not_later(values, pointer))
            && (!self.contains(values) || is_not_later(pointer, values))
    }
}

#[cfg(test)]
mod tests {
    use super::super::page_versions::Version;
    use super::*;
    use crate::memory::Part;

    #[test]
    fn a_buffer_belongs_to_a_pointer_of_the_same_moment() {
        let mut pages = EarlierPages::default();
        // Pages 1 to 3 are the last of their places, pages 4 to 6 may be earlier ones.
        for page in 1..7 {
            let version = Version::new(5 + (page as u64 - 1) % 3, page);
            pages.set_place(Placed { part: Part::Front, page, version });
        }
        (4..8).for_each(|page| pages.insert(page));
        let mut earlier: Vec<usize> = pages.pages().collect();
        earlier.sort_unstable();
        assert_eq!(earlier, [4, 5, 6, 7]);
        assert!(pages.contains(4) && !pages.contains(3));
        let belonging = |pages: &EarlierPages, pointer: usize| -> Vec<usize> {
            (0..9).filter(|&values| pages.may_belong(values, pointer)).collect()
        };
        // A pointer that counts names any buffer that counts, and a buffer that is not older.
        assert_eq!(belonging(&pages, 1), [1, 2, 3, 4, 5, 6, 8]);
        assert_eq!(belonging(&pages, 2), [1, 2, 3, 5, 6, 8]);
        assert_eq!(belonging(&pages, 3), [1, 2, 3, 6, 8]);
        // A pointer that may be an earlier one names a buffer that has not changed since.
        assert_eq!(belonging(&pages, 4), [1, 4]);
        assert_eq!(belonging(&pages, 5), [1, 2, 5]);
        assert_eq!(belonging(&pages, 6), [1, 2, 3, 6]);
        // Nothing is known of the epochs of these.
        assert_eq!((belonging(&pages, 7), belonging(&pages, 8)), (vec![], vec![1, 2, 3, 8]));
        // What pointers may have named until an epoch names a buffer that has not changed since.
        pages.doubt(3, 6);
        assert_eq!(belonging(&pages, 3), [1, 2]);
        pages.doubt(3, 7);
        pages.doubt(2, 0);
        assert_eq!((belonging(&pages, 3), belonging(&pages, 2)), (vec![1], vec![]));
    }
}
