//! A hasher for keys that are chosen to collide.

use std::hash::{BuildHasher, Hasher};

/// Keys choose their hashes: a key's hash is its bits, rotated by one to the right.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Chosen;

impl BuildHasher for Chosen {
    type Hasher = ChosenHasher;
    fn build_hasher(&self) -> ChosenHasher {
        ChosenHasher(0)
    }
}

pub(crate) struct ChosenHasher(u64);

impl Hasher for ChosenHasher {
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are words");
    }

    fn write_u64(&mut self, key: u64) {
        // The lowest bit is the half, which a slot does not store. So words from zero on lie in
        // both halves, which a map relies on.
        self.0 = key.rotate_right(1);
    }

    fn finish(&self) -> u64 {
        // The map multiplies by the golden ratio, so multiply by its inverse first.
        self.0.wrapping_mul(0xF1DE_83E1_9937_733D)
    }
}
