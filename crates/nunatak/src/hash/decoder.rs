//! From tags back to words.

use super::crc_permutation::CrcInverse;
use super::permutation::Inverse;
#[cfg(durable)]
use super::permutation::Permutation;

/// Turns tags back into words, and knows tags that no word has.
#[derive(Debug, Clone, Copy)]
pub struct Decoder(pub(super) Code);

#[derive(Debug, Clone, Copy)]
pub(super) enum Code {
    /// The word, exclusive-or a word of the other half.
    Marked([Marker; 2]),
    /// The word with a set bit that no word has.
    Mark(u64),
    /// The word with its lowest bit set; the half is that bit.
    Parity,
    /// The word with its highest bit set; the half is that bit.
    Hash,
    /// The permuted word with its highest bit set; the half is that bit.
    Permuted(Inverse),
    /// Twice the word that the other permutation makes, and one. That has no room for the word's highest
    /// bit, which is the half.
    PermutedByCrc(CrcInverse),
}

/// Values that no tag of a half has, made of three words of the other half: the first word
/// exclusive-or each of the others, and the word that turns a word into its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) empty: u64,
    dead: u64,
    hidden: u64,
}

impl Marker {
    pub(super) const NONE: Self = Self { empty: 0, dead: 0, hidden: 0 };

    pub(super) fn of(others: [u64; 3]) -> Self {
        let [empty, dead, hidden] = others;
        Self { empty, dead: empty ^ dead, hidden: empty ^ hidden }
    }
}

pub(super) const HIGHEST: u64 = 1 << 63;

/// Returns the hash of a tag: the tag's highest bit is set, the hash's is the half.
#[inline(always)]
pub(crate) fn with_half(tag: u64, half: usize) -> u64 {
    tag & !HIGHEST | (half as u64) << 63
}

/// Returns the hash of a tag that is twice the hash and one: the hash's highest bit is the half.
#[inline(always)]
pub(super) fn above_lowest(tag: u64, half: usize) -> u64 {
    tag >> 1 | (half as u64) << 63
}

impl Decoder {
    #[cfg(durable)]
    pub(super) fn of_permutation(permutation: &Permutation) -> Self {
        Self(Code::Permuted(permutation.inverse()))
    }

    pub(crate) fn of_mark(mark: u64) -> Self {
        Self(Code::Mark(mark))
    }

    /// Returns the word that a half's tag stands for.
    #[inline]
    pub(crate) fn word(&self, tag: u64, half: usize) -> u64 {
        match &self.0 {
            Code::Marked(markers) => tag ^ markers[half].empty,
            Code::Mark(mark) => tag & !mark,
            Code::Parity => tag & !1 | half as u64,
            Code::Hash => with_half(tag, half),
            Code::Permuted(inverse) => inverse.word(with_half(tag, half)),
            Code::PermutedByCrc(inverse) => inverse.word(above_lowest(tag, half)),
        }
    }

    /// Returns another tag that no word of a half has.
    #[inline]
    pub(crate) fn hidden(&self, half: usize) -> u64 {
        match &self.0 {
            Code::Marked(markers) => markers[half].hidden,
            Code::Parity | Code::PermutedByCrc(_) => 4,
            Code::Hash | Code::Permuted(_) | Code::Mark(_) => 2,
        }
    }

    /// Returns a tag that no word of a half has, and that is not zero.
    #[inline]
    pub(crate) fn dead(&self, half: usize) -> u64 {
        match &self.0 {
            Code::Marked(markers) => markers[half].dead,
            Code::Parity | Code::PermutedByCrc(_) => 2,
            Code::Hash | Code::Permuted(_) | Code::Mark(_) => 1,
        }
    }
}
