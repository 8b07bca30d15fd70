//! Random keys: for `RANDOMKEY`, and for those that make room.

use crate::store::space::Space;
use foldhash::fast::RandomState;
use std::hash::BuildHasher;

/// Returns a random number below `end`.
pub(crate) fn random_below(end: usize) -> usize {
    // A new state is seeded at random; that is enough for picks.
    let word = RandomState::default().hash_one(0_u64);
    ((u128::from(word) * end.max(1) as u128) >> 64) as usize
}

/// The most numbers that are chosen with repetitions.
pub(crate) const MOST_REPEATED: usize = 1 << 24;

/// Chooses numbers below `len`: as many as `count` says, each at most once. A negative count allows repetitions.
pub(crate) fn choose(len: usize, count: i64) -> impl ExactSizeIterator<Item = usize> {
    let repeats = count < 0;
    let most = if repeats && len > 0 { MOST_REPEATED } else { len };
    let count = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX).min(most);
    let mut left: Vec<usize> = if repeats { Vec::new() } else { (0..len).collect() };
    (0..count).map(move |_| match repeats {
        true => random_below(len),
        false => left.swap_remove(random_below(left.len())),
    })
}

/// How many keys are compared, at least, to choose one.
const FEW: usize = 16;

/// The logarithm of the most parts that a map has.
const MOST_PARTS: u32 = 20;

/// How many parts a map has: a power of two.
fn parts(space: &Space) -> usize {
    // A map answers for a part that it has not, without reading anything.
    let has_more = |part| space.read(|guard| guard.read_part(part, &mut |_, _, _| {}));
    let log = (0..MOST_PARTS).rev().find(|log| has_more((1 << log) - 1));
    log.map_or(1, |log| 2 << log)
}

/// Calls `found` with the keys of random parts of a map, until it returns false or all parts were
/// looked at.
pub(crate) fn for_random_keys(space: &Space, mut found: impl FnMut(&[u8], &[u8]) -> bool) {
    let parts = parts(space);
    let first = random_below(parts);
    for step in 0..parts {
        let mut goes_on = true;
        space.read(|guard| {
            guard.read_part((first + step) % parts, &mut |_, key, record| {
                goes_on = goes_on && found(key, record);
            })
        });
        if !goes_on {
            return;
        }
    }
}

/// The most keys that are chosen at a time.
const MOST_CHOSEN: usize = 256;

/// Chooses about a sixteenth of the keys of a random part, or of several if they have few: those whose rank is
/// the highest. `rank`: none for a key that is not to be chosen. A part is read twice, so that few keys are
/// copied.
pub(crate) fn highest_of_part(
    space: &Space,
    rank: impl Fn(&[u8], &[u8]) -> Option<u32>,
) -> Vec<Vec<u8>> {
    let parts = parts(space);
    let first = random_below(parts);
    let mut ranks = Vec::new();
    let mut looked = 0;
    while looked < parts && ranks.len() < FEW {
        space.read(|guard| {
            guard.read_part((first + looked) % parts, &mut |_, key, record| {
                ranks.extend(rank(key, record));
            })
        });
        looked += 1;
    }
    if ranks.is_empty() {
        return Vec::new();
    }
    let count = (ranks.len() / FEW).clamp(1, MOST_CHOSEN);
    let at = ranks.len() - count;
    let (_, &mut least, _) = ranks.select_nth_unstable(at);
    let mut chosen = Vec::new();
    for step in 0..looked {
        space.read(|guard| {
            guard.read_part((first + step) % parts, &mut |_, key, record| {
                if chosen.len() < count && rank(key, record).is_some_and(|rank| rank >= least) {
                    chosen.push(key.to_vec());
                }
            })
        });
    }
    chosen
}

/// Returns a random key whose record is accepted.
pub(crate) fn random_key(space: &Space, accept: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let (mut chosen, mut seen) = (None, 0);
    for_random_keys(space, |key, record| {
        if accept(record) {
            seen += 1;
            // Each of a part's first keys is chosen with the same probability.
            if random_below(seen) == 0 {
                chosen = Some(key.to_vec());
            }
        }
        seen < 64
    });
    chosen
}

#[cfg(test)]
mod tests {
    use super::choose;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_are_chosen_once_or_again() {
        for (len, count, expected) in
            [(0, 5, 0), (0, -5, 0), (10, 0, 0), (10, 4, 4), (10, i64::MAX, 10), (3, -50, 50)]
        {
            let chosen = choose(len, count);
            assert_eq!(chosen.len(), expected, "{len} {count}");
            let chosen: Vec<usize> = chosen.collect();
            let different: BTreeSet<&usize> = chosen.iter().collect();
            assert!(chosen.iter().all(|&it| it < len));
            let may_repeat = count < 0;
            assert_eq!(different.len(), if may_repeat { len } else { expected }, "{chosen:?}");
        }
        // Not always the first ones.
        let firsts: BTreeSet<usize> = (0..100).filter_map(|_| choose(10, 1).next()).collect();
        assert!(firsts.len() > 3, "{firsts:?}");
    }
}
