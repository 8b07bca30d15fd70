//! From a key's word to the bin that may hold the key, and to the tag that a slot of the bin
//! stores.

use super::crc_permutation::CrcPermutation;
use super::decoder::{Code, Decoder, HIGHEST, Marker, above_lowest, with_half};
use super::permutation::Permutation;
use super::{RandomState, post_mix};
use crate::sync::FastPin;
use core::any::TypeId;
use core::borrow::Borrow;
use core::fmt;
use core::hash::BuildHasher;
use core::marker::PhantomData;
use std::sync::Arc;

/// Spreads words over bins, and says which tags slots store for them. The number of bins is always
/// even. The words of one half of the bins are called a *half*.
///
/// Invariants that DLHT's slots rest on:
/// 1. For every even number of bins a word has one bin, by its hash, and one half, which does not
///    depend on the number of bins.
/// 2. The tags of a half's words differ from each other, from zero and from the half's dead tag. A
///    word's tag does not depend on the number of bins. This holds whatever the caller's hasher
///    returns: the few words that a half can't store always belong to the other half.
/// 3. In a table of `k` times the size, the [`children`](Self::child) of a bin hold all words of
///    that bin and no others.
pub trait HashCodec: Send + Sync + 'static {
    /// Whether two keys never have the same word.
    const WORDS_ARE_KEYS: bool;

    /// The codec with its hasher behind an [`Arc`], so that several tables can have it, for tables that
    /// take all bits of a hash. (A codec that is not shared promises only that the highest bits are
    /// good, and that hashes differ.)
    type Shared: HashCodec + Clone;

    /// Puts the hasher behind an [`Arc`]. The hashes may become others.
    fn into_shared(self) -> Self::Shared;

    /// Whether [`hash`](Self::hash) and [`hash_of_tag`](Self::hash_of_tag) run the caller's code.
    /// Such code may panic, use the map, and return another hash each time. So the table calls it
    /// while it holds nothing, and checks the result. Known at compile time.
    #[inline(always)]
    fn runs_callers_code() -> bool {
        false
    }

    /// Returns the hash of a word.
    fn hash(&self, word: u64) -> u64;

    /// As [`hash`](Self::hash), while an operation is announced by this pin. Must run no code of the
    /// caller's.
    #[inline(always)]
    fn hash_pinned<const KEPT: bool>(&self, word: u64, _pin: &FastPin<KEPT>) -> u64 {
        self.hash(word)
    }

    /// Returns the hashes of several words, which depend on each other in nothing. Must run no code of
    /// the caller's.
    #[inline(always)]
    fn hash_all<const N: usize>(&self, words: [u64; N]) -> [u64; N] {
        words.map(|word| self.hash(word))
    }

    /// Returns the bin of a hash.
    #[inline(always)]
    fn place(hash: u64, bins: usize) -> usize {
        scale(hash, bins)
    }

    /// Returns the byte offset of a hash's bin; bins have `size` bytes each, and `bytes` together.
    /// This is `size` times its [`place`](Self::place), with one multiplication less.
    #[inline(always)]
    fn offset(hash: u64, bytes: usize, size: usize) -> usize {
        scale(hash, bytes) / size * size
    }

    /// Returns the tag that a slot stores for a word with this hash.
    fn tag(&self, word: u64, hash: u64) -> u64;

    /// Returns the hash of a word and its tag.
    #[inline(always)]
    fn hash_and_tag(&self, word: u64) -> (u64, u64) {
        let hash = self.hash(word);
        (hash, self.tag(word, hash))
    }

    /// Returns the hash of the word that a half's tag stands for.
    fn hash_of_tag(&self, tag: u64, half: usize) -> u64;

    /// Whether a word in a file can be a tag.
    #[cfg(durable)]
    fn is_tag(&self, tag: u64) -> bool {
        tag != 0
    }

    /// Returns the decoder that turns tags back into words.
    fn decoder(&self) -> Decoder;

    /// Returns the `j`th of the `k` bins that bin `bin` of `bins` becomes in a table of `k` times
    /// the size.
    #[inline(always)]
    fn child(bin: usize, _bins: usize, k: usize, j: usize) -> usize {
        bin * k + j
    }

    /// Returns the bin, of `bins`, whose child in a table of `k` times the size is `child`.
    #[inline(always)]
    fn parent(child: usize, _bins: usize, k: usize) -> usize {
        child / k
    }

    /// Returns which share of all hashes has its highest bits in the part `part`, of as many equal
    /// `parts` as a power of two.
    fn share(_part: usize, parts: usize) -> f64 {
        1.0 / parts as f64
    }

    /// Returns the half that a bin's words belong to.
    #[inline(always)]
    fn half_of(bin: usize, bins: usize) -> usize {
        usize::from(bin >= bins / 2)
    }
}

/// Returns `h·n / 2^64`.
#[inline(always)]
fn scale(hash: u64, bins: usize) -> usize {
    // The number of bins is even, so the lower half of the hashes is the lower half of the bins.
    ((u128::from(hash) * bins as u128) >> 64) as usize
}

/// The codec of words that are hashes already (boxed entries).
#[derive(Debug, Clone, Copy, Default)]
pub struct IdentityCodec;

impl HashCodec for IdentityCodec {
    const WORDS_ARE_KEYS: bool = false;

    type Shared = Self;

    fn into_shared(self) -> Self {
        self
    }

    #[inline(always)]
    fn hash(&self, word: u64) -> u64 {
        word
    }

    #[inline(always)]
    fn tag(&self, _word: u64, hash: u64) -> u64 {
        hash | HIGHEST
    }

    #[inline(always)]
    fn hash_of_tag(&self, tag: u64, half: usize) -> u64 {
        with_half(tag, half)
    }

    fn decoder(&self) -> Decoder {
        Decoder(Code::Hash)
    }
}

/// A permutation of words that is a hash.
pub trait Permutes: Copy + Send + Sync + 'static {
    /// Returns the permuted word.
    fn hash(&self, word: u64) -> u64;

    /// As [`hash`](Self::hash), on a processor that allows the pin.
    #[inline(always)]
    fn hash_pinned<const KEPT: bool>(&self, word: u64, _pin: &FastPin<KEPT>) -> u64 {
        self.hash(word)
    }

    /// Returns several permuted words.
    #[inline(always)]
    fn hash_all<const N: usize>(&self, words: [u64; N]) -> [u64; N] {
        words.map(|word| self.hash(word))
    }

    /// Returns the tag of a permuted word: the word without its highest bit, which is the half.
    #[inline(always)]
    fn tag(hash: u64) -> u64 {
        hash | HIGHEST
    }

    /// Returns the permuted word of a half's tag.
    #[inline(always)]
    fn hash_of_tag(tag: u64, half: usize) -> u64 {
        with_half(tag, half)
    }

    /// Returns the decoder of the permuted words.
    fn decoder(&self) -> Decoder;
}

impl Permutes for Permutation {
    #[inline(always)]
    fn hash(&self, word: u64) -> u64 {
        self.hash(word)
    }

    fn decoder(&self) -> Decoder {
        Decoder(Code::Permuted(self.inverse()))
    }
}

impl Permutes for CrcPermutation {
    #[inline(always)]
    fn hash(&self, word: u64) -> u64 {
        self.hash(word)
    }

    #[inline(always)]
    fn hash_pinned<const KEPT: bool>(&self, word: u64, pin: &FastPin<KEPT>) -> u64 {
        self.hash_pinned(word, pin)
    }

    #[inline(always)]
    fn hash_all<const N: usize>(&self, words: [u64; N]) -> [u64; N] {
        self.hash_all(words)
    }

    /// One instruction; setting the highest bit of another register takes four.
    #[inline(always)]
    fn tag(hash: u64) -> u64 {
        hash << 1 | 1
    }

    #[inline(always)]
    fn hash_of_tag(tag: u64, half: usize) -> u64 {
        above_lowest(tag, half)
    }

    fn decoder(&self) -> Decoder {
        Decoder(Code::PermutedByCrc(self.inverse()))
    }
}

/// The codec of words that are keys. They are hashed with the caller's hasher, or permuted if that
/// is the default one: a permuted word is as good a hash, takes less time, and stands for the word
/// in the slot.
///
/// `H` is the hasher itself, or an [`Arc`] of it; `W` is the permutation.
pub struct WordCodec<S, H = S, W = CrcPermutation> {
    permutation: W,
    hasher: H,
    /// All ones if the hasher is so poor that the word's own bits must be mixed in.
    help: u64,
    markers: [Marker; 2],
    /// The words that the markers are made of, one bit for each, by their half (invariant 2 of
    /// [`HashCodec`]).
    bound: [u128; 2],
    kind: PhantomData<fn() -> S>,
}

impl<S> Clone for WordCodec<S, Arc<S>, Permutation> {
    fn clone(&self) -> Self {
        let Self { permutation, help, markers, bound, kind, .. } = *self;
        let hasher = Arc::clone(&self.hasher);
        Self { permutation, hasher, help, markers, bound, kind }
    }
}

impl<S, H, W> fmt::Debug for WordCodec<S, H, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WordCodec").finish_non_exhaustive()
    }
}

impl<S: BuildHasher + 'static> WordCodec<S> {
    pub(crate) fn new(hasher: S) -> Self {
        let (markers, bound, kind) = ([Marker::NONE; 2], [0; 2], PhantomData);
        if Self::permutes() {
            let permutation = CrcPermutation::drawn_from(&hasher);
            return Self { permutation, hasher, help: 0, markers, bound, kind };
        }
        let permutation = CrcPermutation::IDENTITY;
        let mut codec = Self { permutation, hasher, help: 0, markers, bound, kind };
        // A hasher may put all but two of 128 words into one half. Such a hasher can't keep keys
        // apart, so the word's own bits are mixed in. Then each half has three of the words.
        for help in [0, u64::MAX] {
            codec.help = help;
            let mut halves = [const { Vec::new() }; 2];
            for word in 0..u64::from(u128::BITS) {
                halves[(codec.hash_by_hasher(word) >> 63) as usize].push(word);
            }
            if let (Some(lower), Some(upper)) = (halves[0].first_chunk(), halves[1].first_chunk()) {
                codec.bind([*lower, *upper]);
                return codec;
            }
        }
        // The hasher returns another hash each time: any words will do.
        codec.bind([[0, 1, 2], [3, 4, 5]]);
        codec
    }

    /// Makes markers of some words of each half, which stay in that half.
    fn bind(&mut self, words: [[u64; 3]; 2]) {
        let [lower, upper] = words;
        self.markers = [Marker::of(upper), Marker::of(lower)];
        self.bound = words.map(|words| words.iter().fold(0, |bits, word| bits | 1 << word));
    }
}

impl<S: BuildHasher + 'static, H: Borrow<S>, W: Permutes> WordCodec<S, H, W> {
    /// Known at compile time.
    #[inline(always)]
    fn permutes() -> bool {
        TypeId::of::<S>() == TypeId::of::<RandomState>()
    }

    #[inline(always)]
    fn hash_by_hasher(&self, word: u64) -> u64 {
        let hash = post_mix(self.hasher.borrow().hash_one(word) ^ (word & self.help));
        if word < u64::from(u128::BITS) { self.in_its_half(word, hash) } else { hash }
    }

    /// Returns the hash of a small word; if the word is bound to a half, in that half.
    #[inline]
    fn in_its_half(&self, word: u64, hash: u64) -> u64 {
        let is_bound = |half: usize| self.bound[half] >> word & 1 != 0;
        match (is_bound(0), is_bound(1)) {
            (true, _) => hash & !HIGHEST,
            (_, true) => hash | HIGHEST,
            _ => hash,
        }
    }
}

impl<S, H, W> HashCodec for WordCodec<S, H, W>
where
    S: BuildHasher + Send + Sync + 'static,
    H: Borrow<S> + Into<Arc<S>> + Send + Sync + 'static,
    W: Permutes,
{
    const WORDS_ARE_KEYS: bool = true;

    type Shared = WordCodec<S, Arc<S>, Permutation>;

    fn into_shared(self) -> Self::Shared {
        let Self { permutation: _, hasher, help, markers, bound, kind } = self;
        let permutation = match Self::permutes() {
            true => Permutation::drawn_from(hasher.borrow()),
            false => Permutation::IDENTITY,
        };
        WordCodec { permutation, hasher: hasher.into(), help, markers, bound, kind }
    }

    #[inline(always)]
    fn runs_callers_code() -> bool {
        // In Loom's models of other steps, hashers without fields count as our own: calls of a
        // caller's hasher are steps of their own, which other models have.
        let counts_as_ours = cfg!(loom) && size_of::<S>() == 0;
        !Self::permutes() && !counts_as_ours
    }

    #[inline(always)]
    fn hash(&self, word: u64) -> u64 {
        if Self::permutes() { self.permutation.hash(word) } else { self.hash_by_hasher(word) }
    }

    #[inline(always)]
    fn hash_pinned<const KEPT: bool>(&self, word: u64, pin: &FastPin<KEPT>) -> u64 {
        debug_assert!(!Self::runs_callers_code());
        if Self::permutes() { self.permutation.hash_pinned(word, pin) } else { self.hash(word) }
    }

    #[inline(always)]
    fn hash_all<const N: usize>(&self, words: [u64; N]) -> [u64; N] {
        debug_assert!(!Self::runs_callers_code());
        match Self::permutes() {
            true => self.permutation.hash_all(words),
            false => words.map(|word| self.hash(word)),
        }
    }

    #[inline(always)]
    fn tag(&self, word: u64, hash: u64) -> u64 {
        if Self::permutes() {
            W::tag(hash)
        } else {
            word ^ self.markers[(hash >> 63) as usize].empty
        }
    }

    #[inline(always)]
    fn hash_of_tag(&self, tag: u64, half: usize) -> u64 {
        if Self::permutes() {
            W::hash_of_tag(tag, half)
        } else {
            self.hash_by_hasher(tag ^ self.markers[half].empty)
        }
    }

    fn decoder(&self) -> Decoder {
        match Self::permutes() {
            true => self.permutation.decoder(),
            false => Decoder(Code::Marked(self.markers)),
        }
    }
}

/// The codec of words that are keys, by the remainder.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModuloCodec;

impl HashCodec for ModuloCodec {
    const WORDS_ARE_KEYS: bool = true;

    type Shared = Self;

    fn into_shared(self) -> Self {
        self
    }

    #[inline(always)]
    fn hash(&self, word: u64) -> u64 {
        word
    }

    #[inline(always)]
    fn place(hash: u64, bins: usize) -> usize {
        // The number of bins is even, so the word has the parity of its bin.
        (hash % bins as u64) as usize
    }

    #[inline(always)]
    fn offset(hash: u64, bytes: usize, size: usize) -> usize {
        Self::place(hash, bytes / size) * size
    }

    #[inline(always)]
    fn tag(&self, word: u64, _hash: u64) -> u64 {
        word | 1
    }

    #[inline(always)]
    fn hash_of_tag(&self, tag: u64, half: usize) -> u64 {
        tag & !1 | half as u64
    }

    fn decoder(&self) -> Decoder {
        Decoder(Code::Parity)
    }

    #[inline(always)]
    fn child(bin: usize, bins: usize, _k: usize, j: usize) -> usize {
        bin + bins * j
    }

    #[inline(always)]
    fn parent(child: usize, bins: usize, _k: usize) -> usize {
        child % bins
    }

    #[inline(always)]
    fn half_of(bin: usize, _bins: usize) -> usize {
        bin & 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::RandomState;
    use core::hash::Hasher;
    use proptest::prelude::*;

    fn keeps_the_invariants<P: HashCodec>(codec: &P, word: u64, bins: usize, k: usize) {
        let hash = codec.hash(word);
        let (bin, tag) = (P::place(hash, bins), codec.tag(word, hash));
        assert!(bin < bins);
        for size in [1, 64, 72] {
            assert_eq!(P::offset(hash, bins * size, size), bin * size);
        }
        let (half, decoder) = (P::half_of(bin, bins), codec.decoder());
        assert_ne!(tag, 0, "a key is stored as zero");
        assert_ne!(tag, decoder.dead(half), "a key is stored as dead");
        assert_ne!(tag, decoder.hidden(half), "a key is stored as hidden");
        let (dead, hidden) = (decoder.dead(half), decoder.hidden(half));
        assert!(dead != 0 && hidden != 0 && dead != hidden);
        assert_eq!(decoder.word(tag, half), word);
        assert_eq!(codec.hash_of_tag(tag, half), hash);
        let larger = P::place(hash, bins * k);
        assert_eq!(P::half_of(larger, bins * k), half);
        assert_eq!(P::parent(larger, bins, k), bin);
        assert!((0..k).any(|j| P::child(bin, bins, k, j) == larger));
    }

    #[derive(Clone, Default)]
    struct Constant;

    impl BuildHasher for Constant {
        type Hasher = Self;
        fn build_hasher(&self) -> Self {
            Self
        }
    }

    impl Hasher for Constant {
        fn finish(&self) -> u64 {
            7
        }
        fn write(&mut self, _bytes: &[u8]) {}
    }

    proptest! {
        #[test]
        fn every_word_keeps_off_the_markers(word: u64, half in 1..1_000_000_usize, k in 1..9_usize) {
            for word in [word, word % 256, u64::MAX - word % 4] {
                keeps_the_invariants(&WordCodec::new(RandomState::default()), word, 2 * half, k);
                let shared = WordCodec::new(RandomState::default()).into_shared();
                keeps_the_invariants(&shared, word, 2 * half, k);
                keeps_the_invariants(&WordCodec::new(Constant), word, 2 * half, k);
                keeps_the_invariants(&ModuloCodec, word, 2 * half, k);
                #[cfg(durable)]
                {
                    use crate::hash::StableCodec;
                    let stable = StableCodec::new(StableCodec::draw());
                    keeps_the_invariants(&stable, word, 2 * half, k);
                }
            }
        }
    }

    /// Returns another hash each time.
    #[derive(Default)]
    struct Fickle(core::sync::atomic::AtomicU64);

    impl BuildHasher for Fickle {
        type Hasher = std::hash::DefaultHasher;
        fn build_hasher(&self) -> Self::Hasher {
            let mut hasher = Self::Hasher::new();
            hasher.write_u64(self.0.fetch_add(1, core::sync::atomic::Ordering::Relaxed));
            hasher
        }
    }

    #[test]
    fn tags_are_words_whatever_a_hasher_says() {
        let codec = WordCodec::new(Fickle::default());
        for word in (0..300).chain([u64::MAX]) {
            for _ in 0..50 {
                let hash = codec.hash(word);
                let (tag, half) = (codec.tag(word, hash), (hash >> 63) as usize);
                let decoder = codec.decoder();
                assert_eq!(decoder.word(tag, half), word);
                assert!(![0, decoder.dead(half), decoder.hidden(half)].contains(&tag), "{word}");
            }
        }
    }

    #[test]
    fn boxed_hashes_keep_off_their_markers() {
        for word in [0, 1, 2, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1] {
            for bins in [2, 4, 6, 1 << 20] {
                keeps_the_invariants(&IdentityCodec, word, bins, 3);
            }
        }
    }

    #[test]
    fn children_of_all_bins_are_all_bins() {
        fn check<P: HashCodec>() {
            let mut seen = [0; 24];
            (0..6).for_each(|bin| (0..4).for_each(|j| seen[P::child(bin, 6, 4, j)] += 1));
            assert!(seen.iter().all(|&n| n == 1));
        }
        check::<IdentityCodec>();
        check::<ModuloCodec>();
        check::<WordCodec<RandomState>>();
    }
}
