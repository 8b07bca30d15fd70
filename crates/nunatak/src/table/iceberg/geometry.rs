//! Every bit of a hash and every byte of a block: where a key may be.
//!
//! ```text
//! hash     63      54 53        46 45                 10 9          0
//!          | column … | fingerprint | row               | unused     |
//! front block   FRONT slots of 16 B, and FRONT fingerprints of 1 B
//! back block    BACK slots of 16 B, and 8 B of fingerprints
//! state    63     62      37 36  34 33                            0
//!          | slow | generation | phase | rows - 1                |
//! ```
//!
//! Blocks stand in rows of `columns` blocks; their number is any, that of rows a
//! power of two. A doubling adds as many rows as there are, so a key's block
//! stays or moves to the same column of the new half, as the paper's remainder
//! does it (section 4), and the table can have any size to begin with.
//!
//! The back yard has as many blocks. A key has two of them, by hashes of its
//! hash, in the same half of the columns as its block in the front yard: the half
//! is the bit of the hash that a slot does not store (see `HashCodec`).

use core::marker::PhantomData;

/// How many slots the blocks of the two yards have: 64 and 8, unless the map says
/// otherwise (table 6 of the paper).
///
/// ```
/// use nunatak::{Blocks, Iceberg, IcebergMap, RandomState};
/// let map: IcebergMap<u64, u64, RandomState, Blocks<32, 6>> = IcebergMap::new();
/// assert_eq!(map.stats().slots, 2 * (32 + 6));
/// ```
#[derive(Debug)]
pub struct Blocks<const FRONT: usize = 64, const BACK: usize = 8>;

mod sealed {
    pub trait Sealed {}
}

/// The sizes of blocks that an [`IcebergMap`](crate::IcebergMap) can have: of the
/// front yard 64 or 32 slots, of the back yard 8, 6 or 4. (Smaller ones are for
/// model checkers.)
///
/// ```
/// use nunatak::{BlockSizes, Blocks};
/// assert_eq!((<Blocks as BlockSizes>::FRONT, <Blocks as BlockSizes>::BACK), (64, 8));
/// ```
pub trait BlockSizes: sealed::Sealed + Send + Sync + 'static {
    /// Slots of a block of the front yard, level 1.
    ///
    /// ```
    /// # use nunatak::{BlockSizes, Blocks};
    /// assert_eq!(Blocks::<32, 4>::FRONT, 32);
    /// ```
    const FRONT: usize;
    /// Slots of a block of level 2.
    ///
    /// ```
    /// # use nunatak::{BlockSizes, Blocks};
    /// assert_eq!(Blocks::<32, 4>::BACK, 4);
    /// ```
    const BACK: usize;
}

macro_rules! block_sizes {
    ($($front:literal, $back:literal;)*) => {$(
        impl sealed::Sealed for Blocks<$front, $back> {}
        impl BlockSizes for Blocks<$front, $back> {
            const FRONT: usize = $front;
            const BACK: usize = $back;
        }
    )*};
}

block_sizes! { 64, 8; 64, 6; 64, 4; 32, 8; 32, 6; 32, 4; 8, 2; 8, 8; }

/// What is going on in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Phase {
    Stable = 0,
    /// Changes wait, for a snapshot's cut.
    Freezing = 1,
    /// Blocks are copied for a snapshot before they change.
    Copying = 2,
    /// A doubling is over, but for what it has left where keys were.
    Doubled = 3,
    Doubling = 4,
    Halving = 5,
    /// As after a doubling.
    Halved = 6,
}

/// The size of a table and what is going on in it, in one word, which is never
/// the same twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State(pub(super) u64);

const MASK_BITS: u32 = 34;
const PHASE_BITS: u32 = 3;
const PHASES: u64 = 7 << MASK_BITS;
/// Of the phases in which keys move, and the one after a halving.
const MOVING: u64 = 4 << MASK_BITS;
/// The processor lacks what the short paths need; asked together with the phase.
const SLOW: u64 = 1 << 63;
const GENERATIONS: u64 = (1 << 26) - 1;

/// The most rows that a state can tell of.
pub(super) const MOST_ROWS: u64 = 1 << MASK_BITS;

impl State {
    pub(super) fn new(rows: u64, is_slow: bool) -> Self {
        debug_assert!(rows.is_power_of_two() && rows <= MOST_ROWS);
        Self((rows - 1) | if is_slow { SLOW } else { 0 })
    }

    fn generation(self) -> u64 {
        self.0 >> (MASK_BITS + PHASE_BITS) & GENERATIONS
    }

    /// What a durable table remembers of its state.
    pub(super) fn root(phase: Phase, rows: u64) -> u64 {
        (phase as u64) << MASK_BITS | (rows - 1)
    }

    /// The state of a table that is opened.
    #[cfg(durable)]
    pub(super) fn of_root(root: u64) -> Option<(Phase, u64)> {
        let state = Self(root);
        let phase = state.phase();
        let is_sound = Self::root(phase, state.rows()) == root
            && state.rows().is_power_of_two()
            && matches!(phase, Phase::Stable | Phase::Doubling | Phase::Halving);
        is_sound.then_some((phase, state.rows()))
    }

    /// The next state: another phase, and after it or already so many rows.
    pub(super) fn next(self, phase: Phase, rows: u64) -> Self {
        let generation = (self.generation() + 1) & GENERATIONS;
        let generation = generation << (MASK_BITS + PHASE_BITS);
        Self(self.0 & SLOW | generation | (phase as u64) << MASK_BITS | (rows - 1))
    }

    pub(super) fn phase(self) -> Phase {
        match self.0 >> MASK_BITS & 7 {
            0 => Phase::Stable,
            1 => Phase::Freezing,
            2 => Phase::Copying,
            3 => Phase::Doubled,
            4 => Phase::Doubling,
            5 => Phase::Halving,
            _ => Phase::Halved,
        }
    }

    /// Whether nothing is going on.
    pub(super) fn is_stable(self) -> bool {
        self.0 & PHASES == 0
    }

    /// Whether the short path of changes may be taken.
    #[inline(always)]
    pub(super) fn is_fast_to_change(self) -> bool {
        self.0 & (PHASES | SLOW) == 0
    }

    /// Whether the short path of lookups may be taken.
    #[inline(always)]
    pub(super) fn is_fast_to_find(self) -> bool {
        self.0 & (MOVING | SLOW) == 0
    }

    /// Whether keys may be where they do not belong any more.
    pub(super) fn is_moving(self) -> bool {
        matches!(self.phase(), Phase::Doubling | Phase::Halving)
    }

    /// Whether blocks have to be settled.
    pub(super) fn is_settling(self) -> bool {
        self.is_moving() || self.phase() == Phase::Copying
    }

    /// Rows less one of the size at which what keys have left behind is where it is.
    pub(super) fn mask_of_leftovers(self) -> Option<u64> {
        match self.phase() {
            Phase::Doubling | Phase::Doubled => Some(self.mask() >> 1),
            Phase::Halving | Phase::Halved => Some(self.mask() << 1 | 1),
            _ => None,
        }
    }

    /// Rows less one: of the size that a resize leads to.
    #[inline(always)]
    pub(super) fn mask(self) -> u64 {
        self.0 & (MOST_ROWS - 1)
    }

    pub(super) fn rows(self) -> u64 {
        self.mask() + 1
    }

    /// Rows less one where keys that have not moved yet are.
    pub(super) fn mask_before(self) -> u64 {
        match self.phase() {
            Phase::Doubling => self.mask() >> 1,
            Phase::Halving => self.mask() << 1 | 1,
            _ => self.mask(),
        }
    }

    /// Rows less one of the smaller of both sizes: a block of that size and its
    /// partner in the other half are settled together.
    pub(super) fn smaller_mask(self) -> u64 {
        self.mask().min(self.mask_before())
    }

    pub(super) fn larger_mask(self) -> u64 {
        self.mask().max(self.mask_before())
    }

    /// What blocks that are settled are marked with: never zero, which blocks
    /// begin with, nor what the last 253 generations left.
    pub(super) fn settled_mark(self) -> u8 {
        (self.generation() % 255) as u8 + 1
    }
}

/// Where the bits of a row begin in a hash.
const ROW_SHIFT: u32 = 10;
const FINGERPRINT_SHIFT: u32 = 46;
const HIGHEST: u64 = 1 << 63;

/// The fingerprint of a hash, which is not zero (EMPTY): 255 values, of which one is
/// twice as likely.
#[inline(always)]
pub(super) fn fingerprint(hash: u64) -> u8 {
    let byte = (hash >> FINGERPRINT_SHIFT) as u8;
    byte + u8::from(byte == 0)
}

/// Whether a fingerprint is EMPTY without its highest bit, which the last two of
/// a front block lend: a key of such a fingerprint does not go there.
#[inline(always)]
pub(super) fn needs_all_bits(fingerprint: u8) -> bool {
    fingerprint == 0x80
}

/// The fingerprint of a hash in the back yard, where two of eight lend their highest
/// bit: it is not EMPTY without it.
#[inline(always)]
pub(super) fn back_fingerprint(hash: u64) -> u8 {
    let byte = fingerprint(hash);
    byte + u8::from(byte == 0x80)
}

/// The hashes of a key's two choices in the back yard (h1 and h2 of section 2.3),
/// which have the highest bit of its own.
#[inline(always)]
pub(super) fn choices(hash: u64) -> [u64; 2] {
    // Products of all bits, folded. One product with its halves exchanged is not
    // enough: choices that depend on each other send a hundred times as many keys to
    // level 3.
    let mixed = |factor: u64| {
        let product = u128::from(hash) * u128::from(factor);
        (product as u64 ^ (product >> 64) as u64) & !HIGHEST | hash & HIGHEST
    };
    [mixed(0x243F_6A88_85A3_08D3), mixed(0x1319_8A2E_0370_7345)]
}

/// Where the search for a free slot of a key's front block begins. Four of five
/// keys find one in that line, even if the table is filled to 95 %, so that it is
/// worth while to fetch the line together with the fingerprints; and a slot that
/// matches is nearly always the key's if those from there on are looked at first.
#[inline(always)]
pub(super) fn preferred_slot<B: BlockSizes>(hash: u64) -> u32 {
    // A multiple of the slots of a line, by bits that a row has in tables of 2^30 rows.
    (hash >> 38) as u32 & (B::FRONT as u32 - 4)
}

/// The columns of a table.
#[derive(Debug)]
pub(super) struct Geometry<B> {
    /// Even, so that half of the columns belong to the hashes whose highest bit is
    /// not set.
    pub(super) columns: u64,
    sizes: PhantomData<B>,
}

impl<B: BlockSizes> Geometry<B> {
    /// The slots of a pair of blocks, one of each yard.
    pub(super) const SLOTS: usize = B::FRONT + B::BACK;

    pub(super) fn new(columns: usize) -> Self {
        debug_assert!(columns >= 2 && columns.is_multiple_of(2));
        Self { columns: columns as u64, sizes: PhantomData }
    }

    /// The columns and rows for so many blocks: at least so many, and at most a
    /// sixty-fourth more.
    pub(super) fn shape(blocks: usize) -> (usize, u64) {
        let mut rows = 1;
        while blocks.div_ceil(rows) > 128 {
            rows *= 2;
        }
        (blocks.div_ceil(rows).next_multiple_of(2).max(2), rows as u64)
    }

    /// The block of a hash.
    #[inline(always)]
    pub(super) fn block(&self, hash: u64, mask: u64) -> usize {
        let column = ((u128::from(hash) * u128::from(self.columns)) >> 64) as u64;
        (column + self.columns * (hash >> ROW_SHIFT & mask)) as usize
    }

    pub(super) fn blocks(&self, mask: u64) -> usize {
        (self.columns * (mask + 1)) as usize
    }

    /// The highest bit of the hashes that belong to a block.
    #[inline]
    pub(super) fn half(&self, block: usize) -> usize {
        usize::from(block as u64 % self.columns >= self.columns / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Default64 = Geometry<Blocks<64, 8>>;

    proptest! {
        #[test]
        fn half_of_a_block_moves_when_the_table_doubles(
            hash: u64, columns in 1..64_usize, doublings in 0..20_u32,
        ) {
            let geometry = Default64::new(2 * columns);
            let mask = (1_u64 << doublings) - 1;
            for hash in [hash, choices(hash)[0], choices(hash)[1]] {
                let block = geometry.block(hash, mask);
                prop_assert!(block < geometry.blocks(mask));
                let after = geometry.block(hash, mask << 1 | 1);
                prop_assert!(after == block || after == block + geometry.blocks(mask));
                prop_assert_eq!(geometry.half(block) as u64, hash >> 63);
            }
            prop_assert_eq!(choices(hash)[0] >> 63, hash >> 63);
        }

        #[test]
        fn fingerprints_are_told_from_empty(hash: u64) {
            prop_assert!(fingerprint(hash) != 0);
            prop_assert_eq!(fingerprint(hash) & 0x7F == 0, needs_all_bits(fingerprint(hash)));
            prop_assert!(back_fingerprint(hash) & 0x7F != 0);
        }

        #[test]
        fn shapes_are_large_enough_and_not_much_larger(blocks in 1..100_000_000_usize) {
            let (columns, rows) = Default64::shape(blocks);
            let all = columns * rows as usize;
            prop_assert!(all >= blocks && all <= blocks + blocks / 32 + 2, "{blocks}: {all}");
            prop_assert!(columns.is_multiple_of(2) && columns <= 128);
        }

        #[test]
        fn states_say_what_they_were_told(rows in 0..34_u32, generations in 1..600) {
            let mut state = State::new(1_u64 << rows, rows % 2 == 0);
            for _ in 0..generations {
                let before = state;
                state = state.next(Phase::Doubling, state.rows());
                prop_assert_ne!(before, state);
                prop_assert!(state.settled_mark() != 0);
                prop_assert!(state.settled_mark() != before.settled_mark());
            }
            prop_assert_eq!((state.rows(), state.phase()), (1_u64 << rows, Phase::Doubling));
        }
    }

    /// Fingerprints, columns, rows and choices do not predict each other.
    #[test]
    fn parts_of_a_hash_are_independent() {
        use crate::hash::{HashCodec, WordCodec};
        let codec = WordCodec::new(crate::RandomState::default());
        let geometry = Default64::new(64);
        let parts = |key: u64| {
            let hash = codec.hash(key);
            let [a, b] = choices(hash);
            let block = |hash| geometry.block(hash, 63) as u64;
            [u64::from(fingerprint(hash)), block(hash), block(a), block(b)]
        };
        for (i, j) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
            // Of two parts, four bits each: 256 cells, over keys that count.
            let mut cells = [0_u32; 256];
            let keys = 1 << 18;
            for key in 0..keys {
                let parts = parts(key);
                // The half that all blocks of a key share is left out: the lowest
                // bits of a column.
                cells[((parts[i] & 15) << 4 | (parts[j] & 15)) as usize] += 1;
            }
            let expected = f64::from(keys as u32) / 256.0;
            let even = i != 0;
            let chi: f64 =
                cells.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
            // 255 degrees of freedom: 400 is 6 standard deviations. Four values of
            // the fingerprint are taken by others.
            assert!(!even || chi < 400.0, "parts {i} and {j}: {chi}");
        }
    }
}
