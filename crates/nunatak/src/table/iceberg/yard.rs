//! What settling asks of a yard, so that it is written once for both.

use crate::seeded::Bug;
use crate::sync::AtomicPair;

/// A yard whose largest blocks have `N` slots.
pub(super) trait Yard<const N: usize> {
    /// Slots of a block.
    const SLOTS: usize;
    const IS_FRONT: bool;
    const MARK_NOT_INHERITED: Bug;

    /// Whether a key of block `low` moves to block `high` when the table doubles, by its hash.
    /// `block_of` is the block of a hash, or of a choice of it.
    fn moves(hash: u64, block_of: impl Fn(u64) -> usize, low: usize, high: usize) -> bool;

    /// The fingerprint of a key of this hash.
    fn fingerprint(hash: u64) -> u8;

    fn slot(&self, block: usize, slot: usize) -> &AtomicPair;

    fn lock(&self, block: usize);

    fn unlock(&self, block: usize);

    fn is_settled(&self, block: usize, mark: u8) -> bool;

    fn set_settled(&self, block: usize, mark: u8);

    /// Whether a key of the block may be behind it. The caller holds the lock, or
    /// takes the answer for a hint.
    fn is_overflowed(&self, block: usize) -> bool;

    /// Says that a key of the block is behind it, or will be.
    fn mark_overflowed(&self, block: usize);

    /// Whether so many keys may find no room in a block, and then go to blocks that must be settled
    /// before.
    fn is_tight(&self, block: usize, coming: usize) -> bool;

    /// An empty slot that a key of this fingerprint may have.
    fn empty_slot(&self, block: usize, fingerprint: u8) -> Option<usize>;

    /// Puts a pair into an empty slot. The caller holds the lock.
    fn put(&self, block: usize, slot: usize, fingerprint: u8, pair: (u64, u64));

    /// Puts pairs into empty slots, of each its slot and its fingerprint. The caller
    /// holds the lock.
    fn put_all(&self, block: usize, pairs: impl Iterator<Item = (usize, u8, (u64, u64))> + Clone);

    /// Empties slots whose pairs have been stored elsewhere. Where that is not
    /// durable before this, the pairs are left as they are, but are not found.
    fn vacate(&self, block: usize, slots: impl Iterator<Item = usize> + Clone, leaves_pairs: bool);
}
