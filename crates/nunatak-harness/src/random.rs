//! Random numbers that can be repeated from a seed.

/// SplitMix64.
///
/// ```
/// use nunatak_harness::Random;
/// assert_eq!(Random::new(1).next(), Random::new(1).next());
/// assert!(Random::new(2).below(10) < 10);
/// ```
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Makes the sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }

    /// Returns the next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "a sequence without an end is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Returns a number from 0 to `end - 1`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns true once in `times` calls, at random.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// A bijection that spreads every bit over all.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}
