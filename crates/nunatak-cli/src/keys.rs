//! Keys and their values, computed and never stored.
//!
//! The i-th key is a bijective function of i. So distinct indices give distinct keys, a hit is an
//! index below the number of items, and a miss is an index above. Computing a key costs a few
//! instructions. At a hundred million operations a second, reading it from an array would be part
//! of the result.

use rand::SeedableRng;
use rand::distr::Distribution as _;
use rand::rngs::SmallRng;
use rand_distr::Zipf;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The bits of a value that follow from its key. The other bits are a version, which updates
/// change.
pub(crate) const CHECKED_BITS: u64 = !VERSION_BITS;
const VERSION_BITS: u64 = 0xFF;

/// The exponent of the Zipf distribution; YCSB uses the same.
pub(crate) const ZIPF_EXPONENT: f64 = 0.99;

/// How many Zipf samples are drawn ahead; the indices repeat them.
const ZIPF_SAMPLES: usize = 1 << 20;

/// The finalizer of splitmix64: bijective, and mixed well enough for any hasher.
#[inline]
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// All keys of an experiment, by index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeySpace {
    offset: u64,
    sequential: bool,
}

impl KeySpace {
    pub(crate) fn new(seed: u64, sequential: bool) -> Self {
        Self { offset: mix(seed), sequential }
    }

    /// Returns the key of an index. Distinct indices have distinct keys.
    #[inline]
    pub(crate) fn key(&self, index: u64) -> u64 {
        if self.sequential { index } else { mix(index.wrapping_add(self.offset)) }
    }
}

/// Returns the value that a key is first stored with.
#[inline]
pub(crate) fn value_of(key: u64) -> u64 {
    (key ^ GOLDEN).rotate_left(29) & CHECKED_BITS
}

/// Returns the key's value after an update; `version` is truncated to eight bits.
#[inline]
pub(crate) fn versioned(key: u64, version: u64) -> u64 {
    value_of(key) | (version & VERSION_BITS)
}

/// Returns the value with its version incremented.
#[inline]
pub(crate) fn next_version(value: u64) -> u64 {
    (value & CHECKED_BITS) | (value.wrapping_add(1) & VERSION_BITS)
}

/// The wyrand generator: one multiplication a number.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0xA076_1D64_78BD_642F);
        let product = u128::from(self.0) * u128::from(self.0 ^ 0xE703_7ED1_A0B4_28DB);
        (product >> 64) as u64 ^ product as u64
    }

    /// Returns a number below `bound`.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// Ranks drawn from a Zipf distribution in advance: drawing one takes longer than an operation of a
/// fast map.
#[derive(Debug)]
pub(crate) struct ZipfSamples(Vec<u32>);

impl ZipfSamples {
    pub(crate) fn new(items: u64, seed: u64) -> Self {
        let ranks = items.min(u64::from(u32::MAX));
        let zipf = Zipf::new(ranks as f64, ZIPF_EXPONENT)
            .expect("at least one item and a positive exponent");
        let mut random = SmallRng::seed_from_u64(seed);
        let rank = |_| (zipf.sample(&mut random) as u64 - 1).min(ranks - 1) as u32;
        Self((0..ZIPF_SAMPLES).map(rank).collect())
    }
}

/// An endless sequence of indices below the number of items.
#[derive(Debug)]
pub(crate) enum Indices<'a> {
    /// Each index in turn, in wide steps. The steps are so wide that items inserted together are
    /// not looked up together, and so short that the sequence seldom wraps. Keys are in no order of
    /// their indices, so this is as good as random drawing, with a third of the instructions.
    /// Instructions of the loop around a lookup take room that the processor needs to overlap
    /// lookups.
    Uniform { next: u64, step: u64, items: u64 },
    /// Ranks as indices: index 0 is the most popular, then 1, and so on.
    Zipf { samples: &'a [u32], at: usize },
}

impl<'a> Indices<'a> {
    pub(crate) fn uniform(items: u64, seed: u64) -> Self {
        let near = items / 1618;
        let coprime = |step: &u64| gcd(*step, items) == 1;
        let step = (near.max(1)..=items).find(coprime).unwrap_or(1);
        Self::Uniform { next: Random::new(seed).below(items), step, items }
    }

    pub(crate) fn zipf(samples: &'a ZipfSamples, seed: u64) -> Self {
        let at = Random::new(seed).below(samples.0.len() as u64) as usize;
        Self::Zipf { samples: &samples.0, at }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        match self {
            Self::Uniform { next, step, items } => {
                let index = *next;
                let sum = index + *step;
                *next = if sum < *items { sum } else { sum - *items };
                index
            }
            Self::Zipf { samples, at } => {
                *at = if *at + 1 < samples.len() { *at + 1 } else { 0 };
                u64::from(samples[*at])
            }
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// How popular the keys of a workload are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Popularity {
    Uniform,
    Zipf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn uniform_indices_come_by_all_items() {
        for items in [1, 2, 3, 1000, 1024, 99_991] {
            let mut indices = Indices::uniform(items, 7);
            let seen: HashSet<u64> = (0..items).map(|_| indices.next()).collect();
            assert_eq!(seen.len() as u64, items);
            assert!(seen.iter().all(|&index| index < items));
        }
    }

    /// Undoes `x ^= x >> shift`.
    fn unshift(x: u64, shift: u32) -> u64 {
        (0..64 / shift).fold(x, |acc, _| x ^ (acc >> shift))
    }

    /// Returns the inverse of an odd number modulo 2^64, by Newton's iteration.
    fn inverse(odd: u64) -> u64 {
        (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
    }

    fn unmix(x: u64) -> u64 {
        let x = unshift(x, 31).wrapping_mul(inverse(0x94D0_49BB_1331_11EB));
        let x = unshift(x, 27).wrapping_mul(inverse(0xBF58_476D_1CE4_E5B9));
        unshift(x, 30)
    }

    #[test]
    fn the_mixer_is_a_bijection() {
        let mut random = Random::new(1);
        for _ in 0..10_000 {
            let x = random.next();
            assert_eq!(unmix(mix(x)), x);
        }
    }

    #[test]
    fn hits_and_misses_are_disjoint() {
        for sequential in [false, true] {
            let keys = KeySpace::new(42, sequential);
            let hits: HashSet<u64> = (0..10_000).map(|index| keys.key(index)).collect();
            assert_eq!(hits.len(), 10_000);
            assert!((10_000..20_000).all(|index| !hits.contains(&keys.key(index))));
        }
    }

    #[test]
    fn a_version_changes_nothing_that_is_checked() {
        let value = (0..300).fold(value_of(7), |value, _| next_version(value));
        assert_eq!(value & CHECKED_BITS, value_of(7));
        assert_eq!(value & VERSION_BITS, 300 & VERSION_BITS);
        assert_eq!(versioned(7, 300), value);
    }

    #[test]
    fn indices_stay_below_the_number_of_items() {
        let samples = ZipfSamples::new(1000, 3);
        let mut uniform = Indices::uniform(1000, 5);
        let mut zipf = Indices::zipf(&samples, 5);
        let mut first = [0u32; 2];
        for _ in 0..100_000 {
            let (a, b) = (uniform.next(), zipf.next());
            assert!(a < 1000 && b < 1000);
            first[0] += u32::from(a == 0);
            first[1] += u32::from(b == 0);
        }
        // 1/1000 of the uniform indices; about 13 % of the Zipf indices.
        assert!((50..200).contains(&first[0]), "{first:?}");
        assert!((11_000..16_000).contains(&first[1]), "{first:?}");
    }
}
