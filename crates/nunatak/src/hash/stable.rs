//! A hash that files can rely on.

use super::RandomState;
use super::codec::HashCodec;
use super::decoder::{Decoder, HIGHEST, with_half};
use super::permutation::Permutation;
use super::state::{Hashing, sealed};
use crate::error::Error;

/// The codec of words that are keys in files: they are permuted by numbers that the file keeps.
#[derive(Debug, Clone, Copy)]
pub struct StableCodec(Permutation);

impl StableCodec {
    /// Makes the codec of two odd numbers.
    pub(crate) fn new(multipliers: [u64; 2]) -> Self {
        Self(Permutation::of(multipliers))
    }

    /// Draws numbers for a new file, as random as the default hasher.
    pub(crate) fn draw() -> [u64; 2] {
        Permutation::drawn_from(&RandomState::default()).multipliers()
    }
}

impl HashCodec for StableCodec {
    const WORDS_ARE_KEYS: bool = true;

    type Shared = Self;

    fn into_shared(self) -> Self {
        self
    }

    #[inline(always)]
    fn hash(&self, word: u64) -> u64 {
        self.0.hash(word)
    }

    #[inline(always)]
    fn tag(&self, _word: u64, hash: u64) -> u64 {
        hash | HIGHEST
    }

    #[inline(always)]
    fn hash_of_tag(&self, tag: u64, half: usize) -> u64 {
        with_half(tag, half)
    }

    #[inline(always)]
    fn is_tag(&self, tag: u64) -> bool {
        tag & HIGHEST != 0
    }

    fn decoder(&self) -> Decoder {
        Decoder::of_permutation(&self.0)
    }
}

/// Hashes the keys of a durable map: permutes them by two numbers. The numbers are drawn when the
/// file is created, and kept in the file. Files call this version 1.
///
/// ```
/// use nunatak::hash::StableHash;
/// # let hash: Option<StableHash> = None;
/// # assert!(hash.is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StableHash {
    pub(crate) multipliers: [u64; 2],
}

impl StableHash {
    /// The number of this hash in files.
    pub(crate) const VERSION: u64 = 1;

    /// A fixed example.
    pub(crate) const EXAMPLE: Self =
        Self { multipliers: [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93] };

    /// Draws the hash of a new file.
    pub(crate) fn draw() -> Self {
        Self { multipliers: StableCodec::draw() }
    }
}

impl sealed::Sealed for StableHash {}

impl Hashing for StableHash {
    type HashCodec = StableCodec;

    fn into_codec(self) -> Result<StableCodec, Error> {
        Ok(StableCodec::new(self.multipliers))
    }
}
