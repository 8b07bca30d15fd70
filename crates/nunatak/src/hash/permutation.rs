//! The default hash of words: a permutation of all words.
//!
//! Maps of inline keys store the permuted word instead of the word. That saves a hash function's
//! work beyond a permutation. It also tells, without a call of a hasher, which words a bin can't
//! hold: words whose hash belongs elsewhere.

use core::hash::BuildHasher;

/// Three multiplications; between them the high half is folded onto the low half.
///
/// The multipliers are odd and secret: each step can be undone, and an attacker can't choose words
/// whose high bits agree. A product's bits depend only on the bits below them. A fold brings bits
/// that depend on the whole word to the bottom, and from there they reach the high bits of the next
/// product. With two multiplications, unlucky multipliers leave patterns: of words that differ in
/// their high bits only, 80 % lie beyond their bins' three slots, where 6 % are expected. With
/// three multiplications it is 7 to 14 % of such words for one pair of multipliers of 360, and no
/// other pattern was found.
#[derive(Debug, Clone, Copy)]
pub struct Permutation {
    first: u64,
    second: u64,
}

/// The inverse permutation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inverse {
    first: u64,
    second: u64,
}

impl Permutation {
    /// Only folds.
    pub(super) const IDENTITY: Self = Self { first: 1, second: 1 };

    /// Draws multipliers from a hasher; they are as random as the hasher.
    pub(super) fn drawn_from(hasher: &impl BuildHasher) -> Self {
        Self { first: draw_multiplier(hasher, 1), second: draw_multiplier(hasher, 2) }
    }

    /// Makes the permutation of two odd numbers.
    #[cfg(durable)]
    pub(super) fn of([first, second]: [u64; 2]) -> Self {
        Self { first: first | 1, second: second | 1 }
    }

    #[cfg(durable)]
    pub(super) fn multipliers(&self) -> [u64; 2] {
        [self.first, self.second]
    }

    #[inline(always)]
    pub(super) fn hash(&self, word: u64) -> u64 {
        let once = fold(word.wrapping_mul(self.first));
        let twice = fold(once.wrapping_mul(self.second));
        // The first multiplier again: another one would be another load.
        twice.wrapping_mul(self.first)
    }

    pub(super) fn inverse(&self) -> Inverse {
        Inverse { first: inverse_of(self.first), second: inverse_of(self.second) }
    }
}

impl Inverse {
    #[inline]
    pub(super) fn word(&self, hash: u64) -> u64 {
        let twice = fold(hash.wrapping_mul(self.first));
        fold(twice.wrapping_mul(self.second)).wrapping_mul(self.first)
    }
}

/// Draws an odd number with about as many ones as zeros, which spreads every bit over many others.
pub(super) fn draw_multiplier(hasher: &impl BuildHasher, number: u64) -> u64 {
    (0..64)
        .map(|attempt: u64| hasher.hash_one((number, attempt)) | 1)
        .find(|multiplier| (24..=40).contains(&multiplier.count_ones()))
        .unwrap_or(0x9E37_79B9_7F4A_7C15)
}

/// Folds the high half onto the low half. Folding twice gives the word back.
#[inline(always)]
fn fold(word: u64) -> u64 {
    word ^ word >> 32
}

/// Returns the number whose product with an odd one is 1 modulo 2^64.
pub(super) fn inverse_of(odd: u64) -> u64 {
    // Newton's iteration: each step doubles the number of right low bits. An odd number starts with
    // three of them.
    (0..5)
        .fold(odd, |inverse, _| inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse))))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::hash::RandomState;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_word_comes_back(word: u64) {
            let permutation = Permutation::drawn_from(&RandomState::default());
            prop_assert_eq!(permutation.inverse().word(permutation.hash(word)), word);
        }
    }

    /// Returns the share of words that find no slot in a bin of three, at 1.5 words a bin.
    pub(in crate::hash) fn beyond_three(hash: impl Fn(u64) -> u64) -> f64 {
        let words = 1_u64 << 16;
        let bins = words * 2 / 3;
        let mut counts = vec![0_u32; bins as usize];
        for i in 0..words {
            counts[((u128::from(hash(i)) * u128::from(bins)) >> 64) as usize] += 1;
        }
        counts.iter().map(|&n| n.saturating_sub(3)).sum::<u32>() as f64 / words as f64
    }

    pub(in crate::hash) const PATTERNS: [fn(u64) -> u64; 12] = [
        |i| i,
        |i| i << 6,
        |i| i << 20,
        |i| i << 32,
        |i| i << 48,
        u64::reverse_bits,
        |i| i * 0x0000_0001_0000_0001,
        |i| (i as f64).to_bits(),
        |i| (i & 0xFF) << 24 | i >> 8,
        |i| 0x7F00_0000_0000 + i * 48,
        |i| (0..16).fold(0, |word, bit| word | (i >> bit & 1) << (4 * bit)),
        |i| i * i,
    ];

    #[test]
    fn patterns_spread_like_random_words() {
        const HIGHEST_ONLY: [usize; 2] = [4, 5];
        for _ in 0..16 {
            let permutation = Permutation::drawn_from(&RandomState::default());
            for (at, pattern) in PATTERNS.into_iter().enumerate() {
                let share = beyond_three(|i| permutation.hash(pattern(i)));
                // A random function has 6.0 %, with a deviation of 0.1 %. For words that differ in
                // their highest bits only, the multipliers may be unlucky.
                let most = if HIGHEST_ONLY.contains(&at) { 0.2 } else { 0.07 };
                assert!((0.05..most).contains(&share), "pattern {at}: {share}, {permutation:?}");
            }
        }
        assert!(beyond_three(|i| (i << 48).wrapping_mul(0x9E37_79B9_7F4A_7C15)) < 0.05);
    }

    #[test]
    fn every_bit_of_a_word_reaches_the_high_bits() {
        let permutation = Permutation::drawn_from(&RandomState::default());
        for bit in 0..64 {
            let mut flips = [0_u32; 16];
            for i in 0..1024_u64 {
                let word = i.wrapping_mul(0xD6E8_FEB8_6659_FD93);
                let change = permutation.hash(word) ^ permutation.hash(word ^ 1 << bit);
                for (high, flips) in flips.iter_mut().enumerate() {
                    *flips += (change >> (48 + high) & 1) as u32;
                }
            }
            let moved = flips.iter().filter(|&&flips| flips > 0).count();
            assert!(moved >= 12, "bit {bit} flips {flips:?}");
        }
    }
}
