//! What a change sees of a key's blocks in the back yard.

use super::Table;
use super::back::{Back, SlotsOfTwo, Word};
use super::geometry::{BlockSizes, State, back_fingerprint, choices};
use crate::hash::HashCodec;
use crate::memory::Medium;

/// A key's two blocks of the back yard, and their words as they were loaded.
#[derive(Clone, Copy)]
pub(super) struct BehindSeen {
    pub(super) blocks: [usize; 2],
    pub(super) words: [Word; 2],
}

impl BehindSeen {
    /// Returns the slots that have the key's fingerprint.
    #[inline(always)]
    pub(super) fn matching<B: BlockSizes, M: Medium>(&self, hash: u64) -> SlotsOfTwo {
        Back::<B, M>::matching_two(self.words, back_fingerprint(hash))
    }

    /// Returns whether the key may be in level 3.
    #[inline(always)]
    pub(super) fn may_be_chained(&self) -> bool {
        self.words[0].is_overflowed() && self.words[1].is_overflowed()
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Table<P, B, M> {
    #[inline(always)]
    pub(super) fn look_behind(&self, state: State, hash: u64) -> BehindSeen {
        let blocks = choices(hash).map(|hash| self.geometry.block(hash, state.mask()));
        BehindSeen { blocks, words: blocks.map(|block| self.back.word(block)) }
    }
}
