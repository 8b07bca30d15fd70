//! Batches of keys whose entries are not in the slots. A window of keys is looked up in the table
//! first, so that the latencies of slots overlap; then the latencies of their entries overlap.
//!
//! A slot whose word equals the key's word almost always belongs to the key, so its entry is
//! prefetched before it is compared. For changes that is all; lookups compare the entries
//! afterwards.

use crate::table::{ByEntry, KeyTest, PairTable};
use core::ops::Range;

/// How many keys are looked up before the first entry is compared.
const LOOKUPS: usize = 256;

/// How many keys are looked up before the first of them is changed.
const CHANGES: usize = 64;

/// The windows of a batch.
fn windows(count: usize, len: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(len).map(move |first| first..count.min(first + len))
}

/// Calls `found` for each key of a batch, in order, with its index and its value word. Each word is
/// taken from `words` once. `test` must not read an entry. `is_its` reads an entry that was
/// [fetched] and passed `test`; if the entry belongs to another key, `look` looks the key up.
///
/// [fetched]: crate::memory::prefetch
#[inline(always)]
pub(in crate::map) fn find_many<T: KeyTest>(
    table: &impl PairTable,
    words: impl ExactSizeIterator<Item = u64>,
    test: impl Fn(usize) -> T,
    prefetch: impl Fn(u64),
    (is_its, look): (impl Fn(usize, u64) -> bool, impl Fn(usize) -> Option<u64>),
    mut found: impl FnMut(usize, Option<u64>),
) {
    let (count, mut words) = (words.len(), words);
    for window in windows(count, LOOKUPS) {
        let mut of_window = [0; LOOKUPS];
        of_window.iter_mut().zip(words.by_ref()).for_each(|(to, word)| *to = word);
        let mut value_words = [None; LOOKUPS];
        table.find_many(
            window.len(),
            |at| of_window[at],
            |at| test(window.start + at),
            |at, value_word| {
                value_words[at] = value_word;
                value_word.into_iter().for_each(&prefetch);
            },
        );
        // Results for the keys after a repeated lookup are older than it, so they are repeated,
        // too.
        let mut is_too_old = false;
        for (at, value_word) in window.zip(value_words) {
            is_too_old = is_too_old || value_word.is_some_and(|value_word| !is_its(at, value_word));
            found(at, if is_too_old { look(at) } else { value_word });
        }
    }
}

/// Runs `each` for the changes of a batch, in order, until it returns false. Slots and entries have
/// been fetched before, and, if `INSERTS`, free slots for the keys.
pub(in crate::map) fn for_each_fetched<const INSERTS: bool>(
    table: &impl PairTable,
    words: impl ExactSizeIterator<Item = u64>,
    prefetch: impl Fn(u64),
    mut each: impl FnMut(usize) -> bool,
) {
    let (count, mut words) = (words.len(), words);
    for mut window in windows(count, CHANGES) {
        let mut of_window = [0; CHANGES];
        of_window.iter_mut().zip(words.by_ref()).for_each(|(to, word)| *to = word);
        // An insert needs a free slot, which a lookup does not fetch.
        if INSERTS {
            of_window[..window.len()].iter().for_each(|&word| table.prefetch(word));
        }
        table.find_many(
            window.len(),
            |at| of_window[at],
            |_| ByEntry(|_| true),
            |_, value_word| value_word.into_iter().for_each(&prefetch),
        );
        if !window.all(&mut each) {
            return;
        }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::hash::IdentityCodec;
    use crate::table::{ByWord, Change, Design, Dlht};
    use core::cell::Cell;

    /// A repeated lookup finds what has changed since, and so do all lookups after it.
    #[test]
    fn lookups_are_in_order_if_one_is_repeated() {
        const COUNT: usize = 3 * LOOKUPS;
        let table = <Dlht as Design>::table(IdentityCodec, COUNT).unwrap();
        let word = |at: usize| (at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let put = |at: usize, value| {
            let _ = table.apply(word(at), &ByWord, Some(value), |_| Change::To(value));
        };
        (0..COUNT).for_each(|at| put(at, at as u64));
        // In the middle of a window everything changes while an entry is compared.
        let other = LOOKUPS + LOOKUPS / 2;
        let looked = Cell::new(0);
        let is_its = |at, value_word| {
            assert_eq!(value_word as usize % COUNT, at);
            if at == other {
                (0..COUNT).for_each(|at| put(at, (at + COUNT) as u64));
            }
            at != other
        };
        let look = |at| {
            looked.set(looked.get() + 1);
            table.find(word(at), &ByWord)
        };
        find_many(
            &table,
            (0..COUNT).map(word),
            |at| ByEntry(move |value_word| value_word as usize % COUNT == at),
            |_| (),
            (is_its, look),
            |at, found| assert_eq!(found, Some(if at < other { at } else { at + COUNT } as u64)),
        );
        assert_eq!(looked.get(), LOOKUPS / 2);
    }
}
