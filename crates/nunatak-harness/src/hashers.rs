//! Hashers under which keys collide, and one that panics.

use crate::failures::Fuse;
use crate::random::mix;
use std::hash::{BuildHasher, Hasher};

/// The distribution of hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// One hash for all keys.
    Constant,
    /// Four hashes, which differ in all bits.
    FourValues,
    /// Two hashes, which differ in the lowest bit.
    OneBit,
    /// Each word is its own hash.
    Identity,
    /// The hashes of a good hasher.
    Even,
}

impl Distribution {
    /// All distributions.
    pub const ALL: [Self; 5] =
        [Self::Constant, Self::FourValues, Self::OneBit, Self::Identity, Self::Even];
}

/// A hasher with a distribution, which panics when its fuse burns.
#[derive(Debug, Clone)]
pub struct TestHasher {
    distribution: Distribution,
    fuse: Fuse,
}

impl TestHasher {
    /// Makes a hasher that never panics.
    pub fn new(distribution: Distribution) -> Self {
        Self { distribution, fuse: Fuse::default() }
    }

    /// Makes a hasher whose every hash is a call of `fuse`.
    pub fn with_fuse(distribution: Distribution, fuse: Fuse) -> Self {
        Self { distribution, fuse }
    }
}

impl BuildHasher for TestHasher {
    type Hasher = TestState;

    fn build_hasher(&self) -> TestState {
        self.fuse.call();
        TestState { distribution: self.distribution, folded: 0 }
    }
}

/// A hash that is being computed.
#[derive(Debug)]
pub struct TestState {
    distribution: Distribution,
    folded: u64,
}

impl Hasher for TestState {
    fn finish(&self) -> u64 {
        match self.distribution {
            Distribution::Constant => 42,
            Distribution::FourValues => (mix(self.folded) & 3) * 0x5555_5555_5555_5555,
            Distribution::OneBit => mix(self.folded) & 1,
            Distribution::Identity => self.folded,
            Distribution::Even => mix(self.folded),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.folded = self.folded.rotate_left(8).wrapping_mul(31) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.folded ^= word;
    }
}
