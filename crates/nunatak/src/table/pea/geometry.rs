//! The bits of a hash and of a directory entry: where a key may be.
//!
//! ```text
//! hash     63 … 34          33 … 18      17 … 10       9 … 0
//!          | directory      | bucket     | fingerprint | unused |
//! entry    63 … 48          47 … 16      15 … 8        7 … 0
//!          | generation     | segment    | depth       | strategy |
//! ```
//!
//! Bit 7 of an entry says that the segment was not restored since a crash.
//!
//! A directory of depth G uses the highest G bits of the hash. A segment of local depth L holds the
//! keys that agree in the highest L bits. The highest bit is the half that a slot does not store
//! (see `HashCodec`), so the depth is never zero.

const BUCKET_SHIFT: u32 = 18;
const FINGERPRINT_SHIFT: u32 = 10;

/// The largest depth of a directory.
pub(super) const MOST_DEPTH: u32 = 30;

const UNRESTORED: u64 = 1 << 7;

/// How a segment handles collisions (section 3.2). Each strategy contains the one before: it finds
/// what the earlier strategy stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Strategy {
    /// A key is in its first bucket.
    Single = 0,
    /// A key is in its first or its second bucket, whichever has more room.
    TwoChoice = 1,
    /// A key may also be in one of the segment's two stash buckets.
    Stash = 2,
}

impl Strategy {
    pub(crate) fn of(number: u64) -> Self {
        match number {
            0 => Self::Single,
            1 => Self::TwoChoice,
            _ => Self::Stash,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(pub(super) u64);

impl Entry {
    pub(super) fn new(segment: u32, generation: u16, depth: u32, strategy: Strategy) -> Self {
        Self(
            u64::from(generation) << 48
                | u64::from(segment) << 16
                | u64::from(depth) << 8
                | strategy as u64,
        )
    }

    #[inline(always)]
    pub(super) fn segment(self) -> usize {
        (self.0 >> 16) as u32 as usize
    }

    pub(super) fn depth(self) -> u32 {
        (self.0 >> 8) as u32 & 0xFF
    }

    pub(super) fn strategy(self) -> Strategy {
        Strategy::of(self.0 & 0x7F)
    }

    /// Returns whether the segment's fingerprints and flags are not valid yet.
    #[inline(always)]
    pub(super) fn is_unrestored(self) -> bool {
        self.0 & UNRESTORED != 0
    }

    #[cfg(durable)]
    pub(super) fn unrestored(self) -> Self {
        Self(self.0 | UNRESTORED)
    }

    pub(super) fn with(self, strategy: Strategy) -> Self {
        Self(self.0 & !0xFF | strategy as u64)
    }
}

/// Returns the fingerprint of a hash, which is never zero.
#[inline(always)]
pub(super) fn fingerprint(hash: u64) -> u8 {
    let byte = (hash >> FINGERPRINT_SHIFT) as u8;
    byte.max(1)
}

/// Returns the place of a hash in a directory of `depth`.
#[inline(always)]
pub(super) fn place(hash: u64, depth: u32) -> usize {
    (hash >> (64 - depth)) as usize
}

/// Returns the first bucket of a hash. The mask is the number of the segment's last bucket.
#[inline(always)]
pub(super) fn first_bucket(hash: u64, mask: usize) -> usize {
    (hash >> BUCKET_SHIFT) as usize & mask
}

/// Returns the second bucket of a hash, which differs from the first.
#[inline(always)]
pub(super) fn second_bucket(hash: u64, mask: usize) -> usize {
    let first = first_bucket(hash, mask);
    let second = (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize & mask;
    if second == first { first ^ 1 } else { second }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_were_written() {
        let entry = Entry::new(u32::MAX, 7, 30, Strategy::TwoChoice);
        assert_eq!((entry.segment(), entry.depth()), (u32::MAX as usize, 30));
        assert_eq!(entry.strategy(), Strategy::TwoChoice);
        assert_eq!(entry.with(Strategy::Stash).strategy(), Strategy::Stash);
        assert_eq!(entry.with(Strategy::Stash).segment(), entry.segment());
        // A reader notices that a segment was given out again.
        assert_ne!(entry, Entry::new(u32::MAX, 8, 30, Strategy::TwoChoice));
    }

    #[test]
    fn a_key_has_two_buckets() {
        for hash in (0..10_000_u64).map(|number| number.wrapping_mul(0xD6E8_FEB8_6659_FD93)) {
            for mask in [1, 2047] {
                assert_ne!(first_bucket(hash, mask), second_bucket(hash, mask));
            }
            assert_ne!(fingerprint(hash), 0);
        }
    }
}
