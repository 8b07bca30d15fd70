//! Iteration over keys: each once, with its values or their number.
//!
//! All values of a key belong to one segment, whose pairs are copied at one moment. So a key has
//! here the values that it had at that moment. Sorting the pairs by their words brings the values of
//! a key together.

use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::table::pea::Table;
use crate::table::pea::iterate::Hashes;
use crate::table::pea::multi::values::Pointer;
use crate::table::shared::bucket::Item;

/// Yields each word once, with what `sum_up` makes of its pairs. `refill` appends pairs, all of
/// each word, and returns false if there are no more.
pub(super) fn by_word<R>(
    mut refill: impl FnMut(&mut Vec<(u64, u64)>) -> bool,
    sum_up: impl Fn(&[(u64, u64)]) -> R,
) -> impl Iterator<Item = (u64, R)> {
    let mut pairs: Vec<(u64, u64)> = Vec::new();
    core::iter::from_fn(move || {
        loop {
            if let Some(&(word, _)) = pairs.last() {
                let start = pairs.partition_point(|pair| pair.0 < word);
                let result = sum_up(&pairs[start..]);
                pairs.truncate(start);
                return Some((word, result));
            }
            if !refill(&mut pairs) {
                return None;
            }
            pairs.sort_unstable_by_key(|pair| pair.0);
        }
    })
}

/// Appends these pairs, and says then that there are no more.
pub(super) fn at_once(
    pairs: impl IntoIterator<Item = (u64, u64)>,
) -> impl FnMut(&mut Vec<(u64, u64)>) -> bool {
    let mut pairs = Some(pairs);
    move |to| pairs.take().map(|pairs| to.extend(pairs)).is_some()
}

/// Returns the values of pairs.
pub(super) fn values_of(pairs: &[(u64, u64)]) -> Vec<u64> {
    pairs.iter().map(|pair| pair.1).collect()
}

impl<P: HashCodec, M: Medium> Table<P, M> {
    /// Yields each key once, with its values.
    pub(super) fn keys_with_values(&self) -> impl Iterator<Item = (u64, Vec<u64>)> {
        by_word(self.by_segments(Self::push_pairs), values_of)
    }

    /// Yields each key once, with the number of its values. Reads no value buffer.
    pub(super) fn keys_with_counts(&self) -> impl Iterator<Item = (u64, usize)> {
        let sum = |counts: &[(u64, u64)]| counts.iter().map(|pair| pair.1 as usize).sum();
        by_word(self.by_segments(Self::push_count), sum)
    }

    /// Reads one segment after the other.
    fn by_segments(
        &self,
        push: impl Fn(&Self, u64, Item, &mut Vec<(u64, u64)>),
    ) -> impl FnMut(&mut Vec<(u64, u64)>) -> bool {
        let mut left = Some(Hashes::from(0));
        move |pairs| {
            let Some(hashes) = left else { return false };
            left = self.read_segment(hashes, &push, pairs);
            true
        }
    }

    /// Appends the word of an item with the number of its values.
    fn push_count(&self, word: u64, item: Item, pairs: &mut Vec<(u64, u64)>) {
        let count = match item.is_pointer {
            // The segment is locked, so the buffers stay.
            true => self.values().count(Pointer(item.value_word), || true),
            false => 1,
        };
        pairs.push((word, count as u64));
    }
}
