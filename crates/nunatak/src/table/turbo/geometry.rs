//! Every bit of a hash and of a descriptor: where a key may be.
//!
//! ```text
//! hash         63 … 64-s   …              17 … 10       9 … 0
//!              | shard    | bucket        | fingerprint | unused |
//! descriptor   63     62 … 58        57 … 34      33 … 0
//!              | lock | size: log2+1 | generation | first bucket |
//! ```
//!
//! One of a durable table that nobody has looked at since a crash has no size, and the first
//! bucket 1.
//!
//! A shard of 2^k buckets goes by the k bits behind those that tell the shard, so that a
//! bucket's keys come to two neighbours when it is twice as large.

use crate::memory::Run;
use crate::seeded::{Bug, seeded};

const FINGERPRINT_SHIFT: u32 = 10;

const LOCK: u64 = 1 << 63;
const SIZE_SHIFT: u32 = 58;
const SIZE: u64 = 31 << SIZE_SHIFT;
const GENERATION_SHIFT: u32 = 34;
const GENERATION: u64 = 0xFF_FFFF << GENERATION_SHIFT;
const FIRST: u64 = (1 << GENERATION_SHIFT) - 1;

/// The most buckets that a table may have: four TiB.
pub(super) const MOST_BUCKETS: usize = 1 << GENERATION_SHIFT;

/// The most shards that a table may have.
pub(super) const MOST_SHARDS: usize = 1 << 20;

/// The bucket of a run that is so far behind that of a hash, round the end of the run; of a
/// table of two to `shards` shards.
#[inline(always)]
pub(super) fn bucket(run: Run, hash: u64, shards: u32, distance: usize) -> usize {
    // In two shifts, since a shard may have one bucket.
    let home = ((hash << shards) >> 1 >> (63 - run.size)) as usize;
    if distance == 0 {
        // As everywhere else, but in fewer instructions, since it is often known.
        return run.first + home;
    }
    run.first + ((home + distance) & (run.len() - 1))
}

/// Where the buckets of a shard are, and whether it is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptor(pub(super) u64);

impl Descriptor {
    /// That of a shard of which nothing but its durable word is known.
    #[cfg_attr(
        any(not(target_os = "linux"), loom, shuttle, miri),
        allow(dead_code, reason = "no table is opened there")
    )]
    pub(super) const UNRESTORED: Self = Self(1);

    /// Whether it is that, locked or not.
    #[inline(always)]
    pub(super) fn is_unrestored(self) -> bool {
        self.0 & (SIZE | FIRST) == Self::UNRESTORED.0
    }

    /// What is durable of one with these buckets.
    pub(super) fn word(run: Option<Run>) -> u64 {
        run.map_or(0, |run| u64::from(run.size + 1) << SIZE_SHIFT | run.first as u64)
    }

    /// The one that a durable word is of; nothing if it is of none.
    #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
    pub(super) fn of_word(word: u64) -> Option<Self> {
        let is_sound = word & (SIZE | FIRST) == word && !Self(word).is_unrestored();
        (is_sound && (word == 0 || word & SIZE != 0)).then_some(Self(word))
    }

    /// The buckets, if there are any.
    #[inline(always)]
    pub(super) fn run(self) -> Option<Run> {
        let size = (self.0 & SIZE) >> SIZE_SHIFT;
        if size == 0 {
            return None;
        }
        Some(Run { first: (self.0 & FIRST) as usize, size: size as u32 - 1 })
    }

    /// Whether the run that the shard had at an earlier time is its run still, and was so in
    /// between.
    #[inline(always)]
    pub(super) fn has_run_of(self, earlier: Self) -> bool {
        self.unlocked() == earlier.unlocked() || seeded(Bug::DescriptorNotAskedAgain)
    }

    /// The next one of a shard, locked as this is.
    pub(super) fn with(self, run: Option<Run>) -> Self {
        let generation = (self.0 & GENERATION).wrapping_add(1 << GENERATION_SHIFT) & GENERATION;
        Self(self.0 & LOCK | generation | Self::word(run))
    }

    #[inline(always)]
    pub(super) fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    #[inline(always)]
    pub(super) fn unlocked(self) -> Self {
        Self(self.0 & !LOCK)
    }

    #[inline(always)]
    pub(super) fn lock_bit() -> u64 {
        LOCK
    }
}

/// The fingerprint of a hash, which is not zero.
#[inline(always)]
pub(super) fn fingerprint(hash: u64) -> u8 {
    ((hash >> FINGERPRINT_SHIFT) as u8).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_read_as_they_were_written() {
        let none = Descriptor(0);
        assert_eq!((none.run(), none.is_locked()), (None, false));
        for run in [Run { first: 0, size: 0 }, Run { first: MOST_BUCKETS - 1, size: 30 }] {
            let locked = Descriptor(none.0 | Descriptor::lock_bit());
            let descriptor = locked.with(Some(run));
            assert!(descriptor.is_locked() && !descriptor.unlocked().is_locked());
            assert_eq!((descriptor.run(), descriptor.unlocked().run()), (Some(run), Some(run)));
            assert_ne!(descriptor.with(Some(run)), descriptor, "another generation");
            assert_eq!(descriptor.with(None).run(), None);
            assert!(!descriptor.is_unrestored() && !descriptor.with(None).is_unrestored());
        }
        let unrestored = Descriptor(Descriptor::UNRESTORED.0 | Descriptor::lock_bit());
        assert!(unrestored.is_unrestored() && unrestored.run().is_none());
    }

    #[test]
    fn a_bucket_becomes_two_neighbours() {
        for hash in (0..10_000_u64).map(|number| number.wrapping_mul(0xD6E8_FEB8_6659_FD93)) {
            for size in 0..20 {
                let run = Run { first: 1 << 30, size };
                let of = |run: Run| bucket(run, hash, 10, 0) - run.first;
                assert_eq!(of(Run { size: size + 1, ..run }) / 2, of(run));
                assert_eq!(bucket(run, hash, 10, run.len()), bucket(run, hash, 10, 0));
            }
            assert_ne!(fingerprint(hash), 0);
        }
    }
}
