//! The entries of a bin, wherever later resizes have moved them.

use crate::hash::HashCodec;
use crate::seeded::{Bug, seeded};

/// Collects the entries whose keys belong to a bin of `first`, each where it is at that moment.
///
/// - `read` collects the entries of a bin, or collects nothing and returns false if the bin has moved.
/// - `next` returns the index to which the bins of an index move, and `size` how many bins it has.
/// - `hash` returns the hash of an entry's key.
pub(in crate::table) fn read_descendants<'i, P: HashCodec, I, E>(
    (first, at): (&'i I, usize),
    entries: &mut Vec<E>,
    size: impl Fn(&I) -> usize,
    next: impl Fn(&'i I) -> &'i I,
    mut read: impl FnMut(&'i I, usize, &mut Vec<E>) -> bool,
    hash: impl Fn(&E) -> u64,
) {
    // Walks one index after the other, and each bin of an index once. A recursion bin by bin would visit a merged bin by
    // way of each of its old bins; the work would multiply with every growth and shrink.
    let mut passed: Vec<(&I, Vec<usize>)> = Vec::new();
    let (mut index, mut bins) = (first, vec![at]);
    loop {
        let start = entries.len();
        bins.retain(|&bin| !read(index, bin, entries));
        // A bin of a smaller index has keys of other bins, too: of those that do not descend from the first one, and of
        // those that were read before they moved. So a key counts if its bin had moved in every index so far.
        let mut found = entries.split_off(start);
        found.retain(|entry| {
            let hash = hash(entry);
            let followed = if seeded(Bug::IterFollowsLastOnly) { 1 } else { passed.len() };
            let mut followed = passed.iter().rev().take(followed);
            followed.all(|(index, moved)| moved.binary_search(&P::place(hash, size(index))).is_ok())
        });
        entries.append(&mut found);
        if bins.is_empty() {
            return;
        }
        let next = next(index);
        let (from, to) = (size(index), size(next));
        let mut next_bins: Vec<usize> = if to >= from {
            let k = to / from;
            let children = |&bin: &usize| (0..k).map(move |j| P::child(bin, from, k, j));
            bins.iter().flat_map(children).collect()
        } else {
            bins.iter().map(|&bin| P::parent(bin, to, from / to)).collect()
        };
        next_bins.sort_unstable();
        next_bins.dedup();
        passed.push((index, bins));
        (index, bins) = (next, next_bins);
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::hash::IdentityCodec;
    use core::cell::{Cell, RefCell};

    /// Hashes of keys by bin; `None` if the bin has moved.
    struct Level {
        bins: RefCell<Vec<Option<Vec<u64>>>>,
    }

    fn place(hash: u64, bins: usize) -> usize {
        IdentityCodec::place(hash, bins)
    }

    /// Indexes of 2, 4, 2 and 4 bins, with a key in each bin of the larger ones. A bin of the second is read before it moves,
    /// through the third to the fourth.
    #[test]
    fn a_key_counts_once_however_far_it_moves_meanwhile() {
        let keys: [u64; 4] = core::array::from_fn(|n| (n as u64) << 62 | 1);
        let level = |bins: usize, is_there: bool| {
            let of_bin = |at| keys.into_iter().filter(|&key| place(key, bins) == at).collect();
            Level { bins: RefCell::new((0..bins).map(|at| is_there.then(|| of_bin(at))).collect()) }
        };
        let levels = [level(2, false), level(4, true), level(2, false), level(4, true)];
        let size = |level: &Level| level.bins.borrow().len();
        let next = |level: &Level| {
            let at = levels.iter().position(|it| core::ptr::eq(it, level)).unwrap();
            &levels[at + 1]
        };
        let is_first = Cell::new(true);
        let read = |level: &Level, at: usize, entries: &mut Vec<u64>| {
            let Some(found) = level.bins.borrow()[at].clone() else { return false };
            entries.extend(found);
            if is_first.replace(false) {
                levels[1].bins.borrow_mut().fill(None);
            }
            true
        };
        let mut entries = Vec::new();
        read_descendants::<IdentityCodec, _, _>(
            (&levels[0], 0),
            &mut entries,
            size,
            next,
            read,
            |key| *key,
        );
        entries.sort_unstable();
        assert_eq!(entries, keys[..2]);
    }
}
