//! Batches of keys whose entries are elsewhere: slots are looked for in windows, so that the
//! latencies of slots overlap, and then those of entries.
//!
//! Whose word is a key's is the key's but for bad luck, so that its entry is fetched before it
//! is looked at. What is found so is a hint for changes, and for lookups to be compared.

use crate::table::{KeyTest, PairTable};
use core::ops::Range;

/// How many keys are looked for before the first entry is looked at.
const LOOKUPS: usize = 256;

/// How many keys are looked for before the first of them is changed.
const CHANGES: usize = 64;

/// Takes any key of a word for the one that is looked for.
#[derive(Debug)]
pub(super) struct AnyEntry;

impl KeyTest for AnyEntry {
    const BY_WORD: bool = false;

    #[inline(always)]
    fn accepts(&self, _second: u64) -> bool {
        true
    }
}

/// The windows of a batch.
fn windows(count: usize, len: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(len).map(move |first| first..count.min(first + len))
}

/// Tells of each key of a batch, in order, its number and a value word that passes its test,
/// which looks at no entry; entries have been [fetched](crate::memory::prefetch) by then. Words
/// are asked for once.
#[inline(always)]
pub(super) fn find_many<T: KeyTest>(
    table: &impl PairTable,
    words: impl ExactSizeIterator<Item = u64>,
    test: impl Fn(usize) -> T,
    prefetch: impl Fn(u64),
    mut found: impl FnMut(usize, Option<u64>),
) {
    let (count, mut words) = (words.len(), words);
    for window in windows(count, LOOKUPS) {
        let mut of_window = [0; LOOKUPS];
        of_window.iter_mut().zip(words.by_ref()).for_each(|(to, word)| *to = word);
        let mut seconds = [None; LOOKUPS];
        table.find_many(
            window.len(),
            |at| of_window[at],
            |at| test(window.start + at),
            |at, second| {
                seconds[at] = second;
                second.into_iter().for_each(&prefetch);
            },
        );
        for (at, second) in window.zip(seconds) {
            found(at, second);
        }
    }
}

/// Runs `each` for the changes of a batch, in order, until it returns false. By then slots and
/// entries have been fetched, and, if keys may be `INSERTS`, slots for them.
pub(super) fn for_each_fetched<const INSERTS: bool>(
    table: &impl PairTable,
    words: impl ExactSizeIterator<Item = u64>,
    prefetch: impl Fn(u64),
    mut each: impl FnMut(usize) -> bool,
) {
    let (count, mut words) = (words.len(), words);
    for mut window in windows(count, CHANGES) {
        let mut of_window = [0; CHANGES];
        of_window.iter_mut().zip(words.by_ref()).for_each(|(to, word)| *to = word);
        // Who inserts will want a slot that no look for the key fetches.
        if INSERTS {
            of_window[..window.len()].iter().for_each(|&word| table.prefetch(word));
        }
        table.find_many(
            window.len(),
            |at| of_window[at],
            |_| AnyEntry,
            |_, second| second.into_iter().for_each(&prefetch),
        );
        if !window.all(&mut each) {
            return;
        }
    }
}
