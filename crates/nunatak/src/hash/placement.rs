//! From the word that identifies a key to the bin that may hold it.

use super::post_mix;
use core::fmt;
use core::hash::BuildHasher;

/// A bin, and which half of the bins it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub(crate) bin: usize,
    pub(crate) half: usize,
}

/// Two words that no key of a half can be.
///
/// A slot stores `word ^ empty`, so zeroed memory holds no key; `dead` is what
/// it stores of the second word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    pub(crate) empty: u64,
    pub(crate) dead: u64,
}

/// How words spread over bins. The number of bins is always even.
///
/// Invariants, on which DLHT's slots rest:
/// 1. For every even number of bins a word has one place; its half does not
///    depend on their number.
/// 2. No word of half `h` equals either word that `markers()[h]` names.
/// 3. [`children`](Self::child) of a bin in a table `k` times the size hold all
///    of the words of that bin and no others.
pub trait Placement: Send + Sync + 'static {
    /// The hash of a word. May panic if the caller's hasher does.
    fn hash(&self, word: u64) -> u64;

    /// Where a hash belongs.
    fn place(hash: u64, bins: usize) -> Place;

    /// The words that can't be in each half.
    fn markers(&self) -> [Marker; 2];

    /// The `j`th of the `k` bins that bin `bin` of `bins` becomes when their
    /// number is multiplied by `k`.
    fn child(bin: usize, bins: usize, k: usize, j: usize) -> usize;

    /// Of which of `bins` bins `child` is the child in a table `k` times the size.
    fn parent(child: usize, bins: usize, k: usize) -> usize;

    /// The half of the words of a bin.
    fn half_of(bin: usize, bins: usize) -> usize;
}

/// `h·n / 2^64`.
#[inline(always)]
fn scale(hash: u64, bins: usize) -> Place {
    // The number of bins is even, so the lower half of the hashes is the lower
    // half of the bins.
    let bin = ((u128::from(hash) * bins as u128) >> 64) as usize;
    Place { bin, half: (hash >> 63) as usize }
}

/// For words that are hashes already (boxed entries).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HashPlacement;

impl Placement for HashPlacement {
    #[inline(always)]
    fn hash(&self, word: u64) -> u64 {
        word
    }

    #[inline(always)]
    fn place(hash: u64, bins: usize) -> Place {
        scale(hash, bins)
    }

    fn markers(&self) -> [Marker; 2] {
        let lower = Marker { empty: u64::MAX, dead: 1 };
        let upper = Marker { empty: 0, dead: 1 };
        [lower, upper]
    }

    #[inline(always)]
    fn child(bin: usize, _bins: usize, k: usize, j: usize) -> usize {
        bin * k + j
    }

    #[inline(always)]
    fn parent(child: usize, _bins: usize, k: usize) -> usize {
        child / k
    }

    #[inline(always)]
    fn half_of(bin: usize, bins: usize) -> usize {
        usize::from(bin >= bins / 2)
    }
}

/// For words that are keys, hashed with the caller's hasher.
pub struct WordPlacement<S> {
    hasher: S,
    /// All ones if the hasher is so poor that the word itself must help.
    help: u64,
    markers: [Marker; 2],
}

impl<S> fmt::Debug for WordPlacement<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WordPlacement").field("markers", &self.markers).finish_non_exhaustive()
    }
}

impl<S: BuildHasher> WordPlacement<S> {
    pub(crate) fn new(hasher: S) -> Self {
        let mut placement = Self { hasher, help: 0, markers: [Marker { empty: 0, dead: 0 }; 2] };
        // A hasher under which no two of a hundred words part can't keep keys
        // apart: the word's own bits are mixed in, and then two of any hundred
        // words are found for each half.
        for help in [0, u64::MAX] {
            placement.help = help;
            let mut halves = [const { Vec::new() }; 2];
            for word in 0..128 {
                halves[(placement.word_hash(word) >> 63) as usize].push(word);
            }
            if let ([a, b, ..], [c, d, ..]) = (&*halves[0], &*halves[1]) {
                placement.markers =
                    [Marker { empty: *c, dead: c ^ d }, Marker { empty: *a, dead: a ^ b }];
                break;
            }
        }
        placement
    }
}

impl<S: BuildHasher + Send + Sync + 'static> Placement for WordPlacement<S> {
    #[inline(always)]
    fn hash(&self, word: u64) -> u64 {
        self.word_hash(word)
    }

    #[inline(always)]
    fn place(hash: u64, bins: usize) -> Place {
        scale(hash, bins)
    }

    fn markers(&self) -> [Marker; 2] {
        self.markers
    }

    #[inline(always)]
    fn child(bin: usize, _bins: usize, k: usize, j: usize) -> usize {
        bin * k + j
    }

    #[inline(always)]
    fn parent(child: usize, _bins: usize, k: usize) -> usize {
        child / k
    }

    #[inline(always)]
    fn half_of(bin: usize, bins: usize) -> usize {
        usize::from(bin >= bins / 2)
    }
}

impl<S: BuildHasher> WordPlacement<S> {
    #[inline(always)]
    fn word_hash(&self, word: u64) -> u64 {
        post_mix(self.hasher.hash_one(word) ^ (word & self.help))
    }
}

/// For words that are keys, by the remainder.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModuloPlacement;

impl Placement for ModuloPlacement {
    #[inline(always)]
    fn hash(&self, word: u64) -> u64 {
        word
    }

    #[inline(always)]
    fn place(hash: u64, bins: usize) -> Place {
        // The number of bins is even, so the parity of the word is the bin's.
        Place { bin: (hash % bins as u64) as usize, half: (hash & 1) as usize }
    }

    fn markers(&self) -> [Marker; 2] {
        // Even bins never hold 1 or 3, odd bins never 0 or 2.
        [Marker { empty: 1, dead: 1 ^ 3 }, Marker { empty: 0, dead: 2 }]
    }

    #[inline(always)]
    fn child(bin: usize, bins: usize, _k: usize, j: usize) -> usize {
        bin + bins * j
    }

    #[inline(always)]
    fn parent(child: usize, bins: usize, _k: usize) -> usize {
        child % bins
    }

    #[inline(always)]
    fn half_of(bin: usize, _bins: usize) -> usize {
        bin & 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::RandomState;
    use core::hash::Hasher;
    use proptest::prelude::*;

    fn keeps_the_invariants<P: Placement>(placement: &P, word: u64, bins: usize, k: usize) {
        let place = P::place(placement.hash(word), bins);
        assert!(place.bin < bins);
        let marker = placement.markers()[place.half];
        assert_ne!(word, marker.empty, "a key is stored as zero");
        assert_ne!(word, marker.empty ^ marker.dead, "a key is stored as dead");
        assert_ne!(marker.dead, 0);
        let larger = P::place(placement.hash(word), bins * k);
        assert_eq!(larger.half, place.half);
        assert_eq!(P::half_of(place.bin, bins), place.half);
        assert_eq!(P::parent(larger.bin, bins, k), place.bin);
        assert!((0..k).any(|j| P::child(place.bin, bins, k, j) == larger.bin));
    }

    #[derive(Clone, Default)]
    struct Constant;

    impl BuildHasher for Constant {
        type Hasher = Self;
        fn build_hasher(&self) -> Self {
            Self
        }
    }

    impl Hasher for Constant {
        fn finish(&self) -> u64 {
            7
        }
        fn write(&mut self, _bytes: &[u8]) {}
    }

    proptest! {
        #[test]
        fn every_word_keeps_off_the_markers(word: u64, half in 1..1_000_000_usize, k in 1..9_usize) {
            for word in [word, word % 256, u64::MAX - word % 4] {
                keeps_the_invariants(&WordPlacement::new(RandomState::default()), word, 2 * half, k);
                keeps_the_invariants(&WordPlacement::new(Constant), word, 2 * half, k);
                keeps_the_invariants(&ModuloPlacement, word, 2 * half, k);
            }
        }
    }

    #[test]
    fn boxed_hashes_keep_off_their_markers() {
        for word in [0, 1, 2, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1] {
            for bins in [2, 4, 6, 1 << 20] {
                keeps_the_invariants(&HashPlacement, word, bins, 3);
            }
        }
    }

    #[test]
    fn children_of_all_bins_are_all_bins() {
        fn check<P: Placement>() {
            let mut seen = [0; 24];
            (0..6).for_each(|bin| (0..4).for_each(|j| seen[P::child(bin, 6, 4, j)] += 1));
            assert!(seen.iter().all(|&n| n == 1));
        }
        check::<HashPlacement>();
        check::<ModuloPlacement>();
        check::<WordPlacement<RandomState>>();
    }
}
