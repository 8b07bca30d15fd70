//! Every bit of a hash and every byte of a block: the places where a key may be.
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
//! Blocks stand in rows of `columns` blocks. The number of columns is even; the number of rows is a
//! power of two. A doubling adds as many rows as there are. So a key's block stays or moves to the
//! same column of the new half, as with the paper's remainder (section 4), and a table can begin
//! with any size.
//!
//! The back yard has as many blocks. A key has two of them, by hashes of its hash, in the same half
//! of the columns as its front block. The half is the bit of the hash that a slot does not store
//! (see `HashCodec`).

use core::marker::PhantomData;

/// The number of slots in the blocks of the two yards: 64 and 8 by default (table 6 of the paper).
///
/// ```
/// use nunatak::{Blocks, Iceberg, InlineMap, RandomState};
/// let map: InlineMap<u64, u64, RandomState, Iceberg<Blocks<32, 6>>> = InlineMap::with_capacity(50);
/// assert_eq!(map.stats().slots, 2 * (32 + 6));
/// ```
#[derive(Debug)]
pub struct Blocks<const FRONT: usize = 64, const BACK: usize = 8>;

mod sealed {
    pub trait Sealed {}
}

/// The block sizes that an [`IcebergMap`](crate::IcebergMap) can have: 64 or 32 slots in the front
/// yard, 8, 6 or 4 in the back yard. (Smaller ones are for model checkers.)
///
/// ```
/// use nunatak::{BlockSizes, Blocks};
/// assert_eq!((<Blocks as BlockSizes>::FRONT, <Blocks as BlockSizes>::BACK), (64, 8));
/// ```
pub trait BlockSizes: sealed::Sealed + Send + Sync + 'static {
    /// The number of slots in a block of the front yard, level 1.
    ///
    /// ```
    /// # use nunatak::{BlockSizes, Blocks};
    /// assert_eq!(Blocks::<32, 4>::FRONT, 32);
    /// ```
    const FRONT: usize;
    /// The number of slots in a block of the back yard, level 2.
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

/// The phase of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Phase {
    Stable = 0,
    /// Changes wait for a snapshot's cut.
    Freezing = 1,
    /// Each block is copied for a snapshot before it changes.
    Copying = 2,
    /// A doubling is over, except for pairs that it has left in their old places.
    Doubled = 3,
    Doubling = 4,
    Halving = 5,
    /// A halving is over, except for pairs that it has left.
    Halved = 6,
}

/// The size and the phase of a table in one word. A generation makes a state differ from the 2^26
/// states before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State(pub(super) u64);

const MASK_BITS: u32 = 34;
const PHASE_BITS: u32 = 3;
const PHASES: u64 = 7 << MASK_BITS;
/// A bit that the phases in which keys move have, and the phase after a halving.
const MOVING: u64 = 4 << MASK_BITS;
/// The processor does not support the short paths. One test checks this bit and the phase.
const SLOW: u64 = 1 << 63;
const GENERATION: u64 = (1 << 26) - 1;
/// How many generations there are: a multiple of the marks' number, so that marks repeat as seldom
/// where the generation wraps around as everywhere.
const GENERATIONS: u64 = (GENERATION + 1) / MARKS * MARKS;
/// How many marks of settled blocks there are: all values of a byte but zero.
const MARKS: u64 = 255;

/// The highest number of rows that a state can express.
pub(super) const MOST_ROWS: u64 = 1 << MASK_BITS;

impl State {
    pub(super) fn new(rows: u64, is_slow: bool) -> Self {
        debug_assert!(rows.is_power_of_two() && rows <= MOST_ROWS);
        Self((rows - 1) | if is_slow { SLOW } else { 0 })
    }

    fn generation(self) -> u64 {
        self.0 >> (MASK_BITS + PHASE_BITS) & GENERATION
    }

    /// Returns the root word of a durable table's state.
    pub(super) fn root(phase: Phase, rows: u64) -> u64 {
        (phase as u64) << MASK_BITS | (rows - 1)
    }

    /// Returns the phase and the rows of a root word, or `None` if the word is not valid.
    #[cfg(durable)]
    pub(super) fn of_root(root: u64) -> Option<(Phase, u64)> {
        let state = Self(root);
        let phase = state.phase();
        let is_sound = Self::root(phase, state.rows()) == root
            && state.rows().is_power_of_two()
            && matches!(phase, Phase::Stable | Phase::Doubling | Phase::Halving);
        is_sound.then_some((phase, state.rows()))
    }

    /// Returns the next state: another phase, and the rows that it has or leads to.
    pub(super) fn next(self, phase: Phase, rows: u64) -> Self {
        let generation = (self.generation() + 1) % GENERATIONS;
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

    /// Returns whether no resize and no snapshot is under way.
    pub(super) fn is_stable(self) -> bool {
        self.0 & PHASES == 0
    }

    /// Returns whether changes may take the short path.
    #[inline(always)]
    pub(super) fn is_fast_to_change(self) -> bool {
        self.0 & (PHASES | SLOW) == 0
    }

    /// Returns whether lookups may take the short path.
    #[inline(always)]
    pub(super) fn is_fast_to_find(self) -> bool {
        self.0 & (MOVING | SLOW) == 0
    }

    /// Returns whether keys may be in places where they do not belong any more.
    pub(super) fn is_moving(self) -> bool {
        matches!(self.phase(), Phase::Doubling | Phase::Halving)
    }

    /// Returns whether blocks must be settled.
    pub(super) fn is_settling(self) -> bool {
        self.is_moving() || self.phase() == Phase::Copying
    }

    /// Returns the rows less one of the size whose blocks hold pairs that a resize has left.
    pub(super) fn mask_of_leftovers(self) -> Option<u64> {
        match self.phase() {
            Phase::Doubling | Phase::Doubled => Some(self.mask() >> 1),
            Phase::Halving | Phase::Halved => Some(self.mask() << 1 | 1),
            _ => None,
        }
    }

    /// Returns the rows less one. In a resize: of the size that it leads to.
    #[inline(always)]
    pub(super) fn mask(self) -> u64 {
        self.0 & (MOST_ROWS - 1)
    }

    pub(super) fn rows(self) -> u64 {
        self.mask() + 1
    }

    /// Returns the rows less one of the size in which unmoved keys are.
    pub(super) fn mask_before(self) -> u64 {
        match self.phase() {
            Phase::Doubling => self.mask() >> 1,
            Phase::Halving => self.mask() << 1 | 1,
            _ => self.mask(),
        }
    }

    /// Returns the rows less one of the smaller of both sizes. A block of that size and its partner
    /// in the other half are settled together.
    pub(super) fn smaller_mask(self) -> u64 {
        self.mask().min(self.mask_before())
    }

    pub(super) fn larger_mask(self) -> u64 {
        self.mask().max(self.mask_before())
    }

    /// Returns the mark of settled blocks. It is never zero, which new blocks have. It differs from
    /// the marks of the last 254 generations.
    pub(super) fn settled_mark(self) -> u8 {
        (self.generation() % MARKS) as u8 + 1
    }
}

/// The lowest bit of the row in a hash.
const ROW_SHIFT: u32 = 10;
const FINGERPRINT_SHIFT: u32 = 46;
const HIGHEST: u64 = 1 << 63;

/// Returns the fingerprint of a hash, which is never zero (EMPTY). One of its 255 values is twice
/// as likely as the others.
#[inline(always)]
pub(super) fn fingerprint(hash: u64) -> u8 {
    let byte = (hash >> FINGERPRINT_SHIFT) as u8;
    byte + u8::from(byte == 0)
}

/// Returns whether a fingerprint would be EMPTY without its highest bit. Such a key does not go to
/// the last two slots of a front block, which lend that bit.
#[inline(always)]
pub(super) fn needs_all_bits(fingerprint: u8) -> bool {
    fingerprint == 0x80
}

/// Returns the fingerprint of a hash in the back yard. It is not EMPTY without its highest bit,
/// which two of eight slots lend.
#[inline(always)]
pub(super) fn back_fingerprint(hash: u64) -> u8 {
    let byte = fingerprint(hash);
    byte + u8::from(byte == 0x80)
}

/// Returns the hashes of a key's two choices in the back yard (h1 and h2 of section 2.3). They have
/// the highest bit of the key's hash.
#[inline(always)]
pub(super) fn choices(hash: u64) -> [u64; 2] {
    // Folds a product of all bits. One product with its halves exchanged is not enough: choices
    // that depend on each other send a hundred times as many keys to level 3.
    let mixed = |factor: u64| {
        let product = u128::from(hash) * u128::from(factor);
        (product as u64 ^ (product >> 64) as u64) & !HIGHEST | hash & HIGHEST
    };
    [mixed(0x243F_6A88_85A3_08D3), mixed(0x1319_8A2E_0370_7345)]
}

/// Returns the slot where the search for a free slot of a key's front block begins. Four of five
/// keys find a free slot in that line, even at 95 % load. So the line is prefetched together with
/// the fingerprints, and the matching slots from there on are nearly always the key's.
#[inline(always)]
pub(super) fn preferred_slot<B: BlockSizes>(hash: u64) -> u32 {
    // A multiple of the slots in a line. Only tables of 2^30 rows use these bits for the row.
    (hash >> 38) as u32 & (B::FRONT as u32 - 4)
}

/// The columns of a table.
#[derive(Debug)]
pub(super) struct Geometry<B> {
    /// An even number: half of the columns belong to hashes whose highest bit is not set.
    pub(super) columns: u64,
    sizes: PhantomData<B>,
}

impl<B: BlockSizes> Geometry<B> {
    /// The number of slots in a pair of blocks, one of each yard.
    pub(super) const SLOTS: usize = B::FRONT + B::BACK;

    pub(super) fn new(columns: usize) -> Self {
        debug_assert!(columns >= 2 && columns.is_multiple_of(2));
        Self { columns: columns as u64, sizes: PhantomData }
    }

    /// Returns the columns and rows for at least `blocks` blocks, and at most about a thirty-second
    /// more.
    pub(super) fn shape(blocks: usize) -> (usize, u64) {
        let mut rows = 1;
        while blocks.div_ceil(rows) > 128 {
            rows *= 2;
        }
        (blocks.div_ceil(rows).next_multiple_of(2).max(2), rows as u64)
    }

    #[inline(always)]
    pub(super) fn block(&self, hash: u64, mask: u64) -> usize {
        let column = ((u128::from(hash) * u128::from(self.columns)) >> 64) as u64;
        (column + self.columns * (hash >> ROW_SHIFT & mask)) as usize
    }

    pub(super) fn blocks(&self, mask: u64) -> usize {
        (self.columns * (mask + 1)) as usize
    }

    /// Returns the highest bit of the hashes that belong to a block.
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

    /// A phase must not find blocks settled that a phase long before has settled.
    #[test]
    fn marks_repeat_as_seldom_where_generations_wrap_around() {
        let last = (GENERATIONS - 100) << (MASK_BITS + PHASE_BITS);
        let states: Vec<State> =
            core::iter::successors(Some(State(last)), |state| Some(state.next(Phase::Stable, 1)))
                .take(255)
                .collect();
        assert!(states[100].generation() == 0);
        let marks: std::collections::BTreeSet<u8> =
            states.iter().map(|state| state.settled_mark()).collect();
        assert!(marks.len() == 255 && !marks.contains(&0));
    }

    #[test]
    #[cfg(durable)]
    fn only_states_that_a_file_may_have_are_read() {
        let phases = [Phase::Stable, Phase::Doubling, Phase::Halving];
        for (phase, rows) in phases.into_iter().flat_map(|phase| [(phase, 1), (phase, 1 << 20)]) {
            assert_eq!(State::of_root(State::root(phase, rows)), Some((phase, rows)));
            assert_eq!(State::of_root(State::root(phase, rows) | SLOW), None);
            assert_eq!(State::of_root(State::root(phase, rows) | 1 << 40), None);
        }
        assert_eq!(State::of_root(State::root(Phase::Stable, 3)), None);
        for phase in [Phase::Doubled, Phase::Halved, Phase::Copying] {
            assert_eq!(State::of_root(State::root(phase, 4)), None);
        }
    }

    /// The size that a resize comes from has the leftovers.
    #[test]
    fn leftovers_are_in_blocks_of_the_other_size() {
        let rows =
            |phase| State::new(8, false).next(phase, 8).mask_of_leftovers().map(|mask| mask + 1);
        assert_eq!([Phase::Doubling, Phase::Doubled].map(rows), [Some(4); 2]);
        assert_eq!([Phase::Halving, Phase::Halved].map(rows), [Some(16); 2]);
        assert_eq!([Phase::Stable, Phase::Copying].map(rows), [None; 2]);
    }

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
        let codec = WordCodec::new(crate::RandomState::default()).into_shared();
        let geometry = Default64::new(64);
        let parts = |key: u64| {
            let hash = codec.hash(key);
            let [a, b] = choices(hash);
            let block = |hash| geometry.block(hash, 63) as u64;
            [u64::from(fingerprint(hash)), block(hash), block(a), block(b)]
        };
        for (i, j) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
            // Four bits of each of two parts: 256 cells.
            let mut cells = [0_u32; 256];
            let keys = 1 << 18;
            for key in 0..keys {
                let parts = parts(key);
                // The lowest bits of a column leave out the half, which all blocks of a key share.
                cells[((parts[i] & 15) << 4 | (parts[j] & 15)) as usize] += 1;
            }
            let expected = f64::from(keys as u32) / 256.0;
            let even = i != 0;
            let chi: f64 =
                cells.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
            // 255 degrees of freedom: 400 is 6 standard deviations. The fingerprint is skipped: 1
            // is twice as likely as other values, and 0 impossible.
            assert!(!even || chi < 400.0, "parts {i} and {j}: {chi}");
        }
    }
}
