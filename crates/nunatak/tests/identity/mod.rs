//! A hasher for keys that are chosen to collide.

use std::hash::{BuildHasher, Hasher};

/// The hash of a key is the key, times the golden ratio.
#[derive(Clone, Default)]
pub(crate) struct Identity(pub(crate) u64);

impl BuildHasher for Identity {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Identity {
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are words");
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Returns keys whose hashes differ only in the lowest bits.
pub(crate) fn colliding(n: u64) -> u64 {
    // Multiplies by the inverse of the golden ratio.
    n.wrapping_mul(0xF1DE_83E1_9937_733D)
}
