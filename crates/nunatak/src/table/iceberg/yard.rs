//! What both yards have in common: the interface that settling uses, so that it is written once, and
//! how their arrays become resident.

use crate::error::Error;
use crate::memory::{Medium, ReservedArray, Zeroed};
use crate::seeded::Bug;
use crate::sync::AtomicPair;

/// A yard whose largest blocks have `N` slots.
pub(super) trait Yard<const N: usize> {
    /// The number of slots in a block.
    const SLOTS: usize;
    const IS_FRONT: bool;
    const MARK_NOT_INHERITED: Bug;

    /// Returns whether a key of block `low` moves to block `high` when the table doubles.
    /// `block_of` returns the block of a hash, or of a choice of it.
    fn moves(hash: u64, block_of: impl Fn(u64) -> usize, low: usize, high: usize) -> bool;

    /// Returns the fingerprint of a key with this hash.
    fn fingerprint(hash: u64) -> u8;

    fn slot(&self, block: usize, slot: usize) -> &AtomicPair;

    /// Makes the slots of a block writable.
    fn make_writable(&self, block: usize) -> Result<(), Error>;

    fn lock(&self, block: usize);

    fn unlock(&self, block: usize);

    fn is_settled(&self, block: usize, mark: u8) -> bool;

    fn set_settled(&self, block: usize, mark: u8);

    /// Returns whether a key of the block may be behind it. Without the lock the answer is a hint.
    fn is_overflowed(&self, block: usize) -> bool;

    /// Marks that a key of the block is behind it, or will be.
    fn mark_overflowed(&self, block: usize);

    /// Returns how many more keys find room in a block, whatever their fingerprints are.
    fn room(&self, block: usize) -> usize;

    /// Returns whether `coming` more keys may find no room in a block, so that blocks behind it
    /// must be settled first.
    fn is_tight(&self, block: usize, coming: usize) -> bool;

    /// Returns an empty slot for a key with this fingerprint.
    fn empty_slot(&self, block: usize, fingerprint: u8) -> Option<usize>;

    /// Puts a pair into an empty slot. The caller holds the lock.
    fn put(&self, block: usize, slot: usize, fingerprint: u8, pair: (u64, u64));

    /// Puts pairs, each with its slot and fingerprint, into empty slots. The caller holds the lock.
    fn put_all(&self, block: usize, pairs: impl Iterator<Item = (usize, u8, (u64, u64))> + Clone);

    /// Empties slots whose pairs were stored elsewhere. With `leaves_pairs` the copies are not
    /// durable yet: then the pairs stay, and only their fingerprints are cleared.
    fn vacate(&self, block: usize, slots: impl Iterator<Item = usize> + Clone, leaves_pairs: bool);
}

/// Makes a piece of a reserved array resident, if the array has so many pieces. Otherwise returns
/// the piece's number among those of the next array.
pub(super) fn populate<T: Zeroed, M: Medium>(
    reserved_array: &ReservedArray<T, M>,
    from: usize,
    piece: usize,
) -> Result<(), usize> {
    match piece.checked_sub(reserved_array.pieces(from)) {
        None => {
            reserved_array.populate(from, piece);
            Ok(())
        }
        Some(beyond) => Err(beyond),
    }
}
