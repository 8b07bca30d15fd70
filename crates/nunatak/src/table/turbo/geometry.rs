//! The bits of a hash and of a descriptor: where a key may be.
//!
//! ```text
//! hash         63 … 64-s   …              17 … 10       9 … 0
//!              | shard    | bucket        | fingerprint | unused |
//! descriptor   63     62 … 58        57 … 34      33 … 0
//!              | lock | size: log2+1 | generation | first bucket |
//! ```
//!
//! In a durable table, the descriptor of a shard that was not restored since a crash has no size,
//! and 1 as its first bucket.
//!
//! A shard of 2^k buckets uses the k bits behind the bits that select the shard. So the keys of one
//! bucket go to two neighbours when the shard doubles.

use crate::error::Error;
use crate::memory::{BuddyExtent, MOST_SIZE};
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

/// The largest share of slots in use after a shard is made to fit its keys.
const FITTING: f64 = 0.75;

/// Returns the size of a shard that its keys fill as far as it is made to fit them.
pub(super) fn fitting(keys: usize, slots: usize) -> u32 {
    let buckets = (keys as f64 / (slots as f64 * FITTING)).ceil().max(1.0);
    (buckets as usize).next_power_of_two().ilog2()
}

/// Returns the size of a shard that gets this share of `pairs` pairs.
pub(super) fn size_for(pairs: usize, share: f64, slots: usize) -> Result<u32, Error> {
    // By chance the shard may have more pairs than that.
    let mean = pairs as f64 * share;
    let size = fitting((mean + 4.0 * mean.sqrt()).ceil() as usize, slots);
    if size > MOST_SIZE { Err(Error::CapacityOverflow) } else { Ok(size) }
}

/// Returns the bucket that is `distance` buckets behind the bucket of a hash, wrapping at the end
/// of the extent. The table has two to the power of `shards` shards.
#[inline(always)]
pub(super) fn bucket(extent: BuddyExtent, hash: u64, shards: u32, distance: usize) -> usize {
    // Shifts twice, since a shard may have one bucket.
    let home = ((hash << shards) >> 1 >> (63 - extent.size)) as usize;
    if distance == 0 {
        // The result of the general case in fewer instructions, since the distance is often known.
        return extent.first + home;
    }
    extent.first + ((home + distance) & (extent.len() - 1))
}

/// A shard's buckets, and whether the shard is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptor(pub(super) u64);

impl Descriptor {
    /// The descriptor of a shard that was not restored since a crash.
    #[cfg_attr(not(durable), allow(dead_code, reason = "no table is opened there"))]
    pub(super) const UNRESTORED: Self = Self(1);

    /// Returns whether this is [`UNRESTORED`](Self::UNRESTORED), locked or not.
    #[inline(always)]
    pub(super) fn is_unrestored(self) -> bool {
        self.0 & (SIZE | FIRST) == Self::UNRESTORED.0
    }

    /// Returns the durable word of a descriptor with these buckets.
    pub(super) fn word(extent: Option<BuddyExtent>) -> u64 {
        extent.map_or(0, |extent| u64::from(extent.size + 1) << SIZE_SHIFT | extent.first as u64)
    }

    /// Returns the descriptor of a durable word, or nothing if the word is not valid.
    #[cfg(durable)]
    pub(super) fn of_word(word: u64) -> Option<Self> {
        let is_sound = word & (SIZE | FIRST) == word && !Self(word).is_unrestored();
        (is_sound && (word == 0 || word & SIZE != 0)).then_some(Self(word))
    }

    /// Returns the buckets, if there are any.
    #[inline(always)]
    pub(super) fn extent(self) -> Option<BuddyExtent> {
        let size = (self.0 & SIZE) >> SIZE_SHIFT;
        if size == 0 {
            return None;
        }
        Some(BuddyExtent { first: (self.0 & FIRST) as usize, size: size as u32 - 1 })
    }

    /// Returns whether the shard has had the same extent since it had an earlier descriptor.
    #[inline(always)]
    pub(super) fn has_extent_of(self, earlier: Self) -> bool {
        self.unlocked() == earlier.unlocked() || seeded(Bug::DescriptorNotAskedAgain)
    }

    /// Returns the shard's next descriptor, with the same lock bit.
    pub(super) fn with(self, extent: Option<BuddyExtent>) -> Self {
        let generation = (self.0 & GENERATION).wrapping_add(1 << GENERATION_SHIFT) & GENERATION;
        Self(self.0 & LOCK | generation | Self::word(extent))
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

/// Returns the fingerprint of a hash, which is never zero.
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
        assert_eq!((none.extent(), none.is_locked()), (None, false));
        for extent in
            [BuddyExtent { first: 0, size: 0 }, BuddyExtent { first: MOST_BUCKETS - 1, size: 30 }]
        {
            let locked = Descriptor(none.0 | Descriptor::lock_bit());
            let descriptor = locked.with(Some(extent));
            assert!(descriptor.is_locked() && !descriptor.unlocked().is_locked());
            assert_eq!(
                (descriptor.extent(), descriptor.unlocked().extent()),
                (Some(extent), Some(extent))
            );
            assert_ne!(descriptor.with(Some(extent)), descriptor, "another generation");
            assert_eq!(descriptor.with(None).extent(), None);
            assert!(!descriptor.is_unrestored() && !descriptor.with(None).is_unrestored());
        }
        let unrestored = Descriptor(Descriptor::UNRESTORED.0 | Descriptor::lock_bit());
        assert!(unrestored.is_unrestored() && unrestored.extent().is_none());
    }

    /// A file holds only words of buckets and of none: nothing that says a lock or a generation.
    #[cfg(durable)]
    #[test]
    fn words_that_are_no_descriptors_are_refused() {
        let extent = BuddyExtent { first: 1 << 20, size: 3 };
        for word in [Descriptor::word(None), Descriptor::word(Some(extent))] {
            assert_eq!(Descriptor::of_word(word), Some(Descriptor(word)));
            assert_eq!(Descriptor::of_word(word | LOCK), None);
            assert_eq!(Descriptor::of_word(word | 1 << GENERATION_SHIFT), None);
        }
        assert_eq!(Descriptor::of_word(Descriptor::UNRESTORED.0), None);
        assert_eq!(Descriptor::of_word(5), None, "a bucket, but no size");
    }

    #[test]
    fn a_bucket_becomes_two_neighbours() {
        for hash in (0..10_000_u64).map(|number| number.wrapping_mul(0xD6E8_FEB8_6659_FD93)) {
            for size in 0..20 {
                let extent = BuddyExtent { first: 1 << 30, size };
                let of = |extent: BuddyExtent| bucket(extent, hash, 10, 0) - extent.first;
                assert_eq!(of(BuddyExtent { size: size + 1, ..extent }) / 2, of(extent));
                assert_eq!(bucket(extent, hash, 10, extent.len()), bucket(extent, hash, 10, 0));
            }
            assert_ne!(fingerprint(hash), 0);
        }
    }
}
