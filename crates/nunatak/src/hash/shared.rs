//! Words that several keys may have.

use super::{Decoder, HashCodec};
use crate::sync::FastPin;
use core::fmt;

/// Words of keys placed with `P`, which several keys may have.
#[derive(Clone)]
pub struct RecordCodec<P>(P);

impl<P> fmt::Debug for RecordCodec<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordCodec").finish_non_exhaustive()
    }
}

impl<P> RecordCodec<P> {
    pub(crate) fn new(codec: P) -> Self {
        Self(codec)
    }
}

impl<P: HashCodec> HashCodec for RecordCodec<P> {
    const WORDS_ARE_KEYS: bool = false;

    type Shared = RecordCodec<P::Shared>;

    fn into_shared(self) -> Self::Shared {
        RecordCodec(self.0.into_shared())
    }

    #[inline(always)]
    fn runs_callers_code() -> bool {
        P::runs_callers_code()
    }

    #[inline(always)]
    fn hash(&self, word: u64) -> u64 {
        self.0.hash(word)
    }

    #[inline(always)]
    fn hash_pinned<const KEPT: bool>(&self, word: u64, pin: &FastPin<KEPT>) -> u64 {
        self.0.hash_pinned(word, pin)
    }

    #[inline(always)]
    fn hash_all<const N: usize>(&self, words: [u64; N]) -> [u64; N] {
        self.0.hash_all(words)
    }

    #[inline(always)]
    fn place(hash: u64, bins: usize) -> usize {
        P::place(hash, bins)
    }

    #[inline(always)]
    fn offset(hash: u64, bytes: usize, size: usize) -> usize {
        P::offset(hash, bytes, size)
    }

    #[inline(always)]
    fn tag(&self, word: u64, hash: u64) -> u64 {
        self.0.tag(word, hash)
    }

    #[inline(always)]
    fn hash_of_tag(&self, tag: u64, half: usize) -> u64 {
        self.0.hash_of_tag(tag, half)
    }

    fn decoder(&self) -> Decoder {
        self.0.decoder()
    }

    fn child(bin: usize, bins: usize, k: usize, j: usize) -> usize {
        P::child(bin, bins, k, j)
    }

    fn parent(child: usize, bins: usize, k: usize) -> usize {
        P::parent(child, bins, k)
    }

    #[inline(always)]
    fn half_of(bin: usize, bins: usize) -> usize {
        P::half_of(bin, bins)
    }
}
