//! From the word that identifies a key to the bin that may hold it, and to what
//! a slot of that bin stores for it.

use super::permutation::{Inverse, Permutation};
use super::{RandomState, post_mix};
use core::any::TypeId;
use core::fmt;
use core::hash::BuildHasher;

/// How words spread over bins, and what slots store for them. The number of
/// bins is always even; the words of half of the bins make up a *half*.
///
/// Invariants, on which DLHT's slots rest:
/// 1. For every even number of bins a word has one bin, by its hash, and one
///    half, which does not depend on their number.
/// 2. The tags of a half's words differ from each other, from zero and from the
///    half's dead tag; a word's tag does not depend on the number of bins. That holds
///    whatever the caller's hasher says: the few words that a half can't store are of the
///    other half always.
/// 3. [`children`](Self::child) of a bin in a table `k` times the size hold all
///    of the words of that bin and no others.
pub trait HashCodec: Send + Sync + 'static {
    /// Whether two keys never have the same word.
    const WORDS_ARE_KEYS: bool;

    /// Whether [`hash`](Self::hash) and [`hash_of_tag`](Self::hash_of_tag) run code of the
    /// caller's, which may panic, use the map, and say something else each time: then a table
    /// asks it while it holds nothing, and checks what it says. Known when the code is compiled.
    #[inline(always)]
    fn runs_callers_code() -> bool {
        false
    }

    /// The hash of a word.
    fn hash(&self, word: u64) -> u64;

    /// The bin of a hash.
    #[inline(always)]
    fn place(hash: u64, bins: usize) -> usize {
        scale(hash, bins)
    }

    /// Where the bin of a hash begins in bins of `size` bytes each, and `bytes` altogether:
    /// `size` times its [`place`](Self::place), without a product after it.
    #[inline(always)]
    fn offset(hash: u64, bytes: usize, size: usize) -> usize {
        scale(hash, bytes) / size * size
    }

    /// What a slot stores for a word of this hash.
    fn tag(&self, word: u64, hash: u64) -> u64;

    /// The hash of the word that a tag of a half stands for.
    fn hash_of_tag(&self, tag: u64, half: usize) -> u64;

    /// Whether a word that a file holds can be a tag.
    #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
    fn is_tag(&self, tag: u64) -> bool {
        tag != 0
    }

    /// What turns tags back into words.
    fn decoder(&self) -> Decoder;

    /// The `j`th of the `k` bins that bin `bin` of `bins` becomes when their
    /// number is multiplied by `k`.
    #[inline(always)]
    fn child(bin: usize, _bins: usize, k: usize, j: usize) -> usize {
        bin * k + j
    }

    /// Of which of `bins` bins `child` is the child in a table `k` times the size.
    #[inline(always)]
    fn parent(child: usize, _bins: usize, k: usize) -> usize {
        child / k
    }

    /// The half of the words of a bin.
    #[inline(always)]
    fn half_of(bin: usize, bins: usize) -> usize {
        usize::from(bin >= bins / 2)
    }
}

/// Turns tags back into words, and knows the tags that no word has.
#[derive(Debug, Clone, Copy)]
pub struct Decoder(Code);

#[derive(Debug, Clone, Copy)]
enum Code {
    /// The word, exclusive-or a word that is not of its half.
    Marked([Marker; 2]),
    /// The word with a bit set that no word has.
    Mark(u64),
    /// The word with its lowest bit set; the half is that bit.
    Parity,
    /// The word with its highest bit set; the half is that bit.
    Hash,
    /// The permuted word with its highest bit set; the half is that bit.
    Permuted(Inverse),
}

/// Words that no tag of a half is, made of three words of the other half: the first
/// exclusive-or each of the others, and what makes a tag of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Marker {
    empty: u64,
    dead: u64,
    hidden: u64,
}

impl Marker {
    const NONE: Self = Self { empty: 0, dead: 0, hidden: 0 };

    fn of(others: [u64; 3]) -> Self {
        let [empty, dead, hidden] = others;
        Self { empty, dead: empty ^ dead, hidden: empty ^ hidden }
    }
}

pub(super) const HIGHEST: u64 = 1 << 63;

/// The hash whose highest bit is the half, of a tag whose highest bit is set.
#[inline(always)]
pub(crate) fn with_half(tag: u64, half: usize) -> u64 {
    tag & !HIGHEST | (half as u64) << 63
}

impl Decoder {
    #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
    pub(super) fn of_permutation(permutation: &Permutation) -> Self {
        Self(Code::Permuted(permutation.inverse()))
    }

    pub(crate) fn of_mark(mark: u64) -> Self {
        Self(Code::Mark(mark))
    }

    /// The word that a tag of a half stands for.
    #[inline]
    pub(crate) fn word(&self, tag: u64, half: usize) -> u64 {
        match &self.0 {
            Code::Marked(markers) => tag ^ markers[half].empty,
            Code::Mark(mark) => tag & !mark,
            Code::Parity => tag & !1 | half as u64,
            Code::Hash => with_half(tag, half),
            Code::Permuted(inverse) => inverse.word(with_half(tag, half)),
        }
    }

    /// Another one.
    #[inline]
    pub(crate) fn hidden(&self, half: usize) -> u64 {
        match &self.0 {
            Code::Marked(markers) => markers[half].hidden,
            Code::Parity => 4,
            Code::Hash | Code::Permuted(_) | Code::Mark(_) => 2,
        }
    }

    /// A tag of no word of a half, and not zero.
    #[inline]
    pub(crate) fn dead(&self, half: usize) -> u64 {
        match &self.0 {
            Code::Marked(markers) => markers[half].dead,
            Code::Parity => 2,
            Code::Hash | Code::Permuted(_) | Code::Mark(_) => 1,
        }
    }
}

/// `h·n / 2^64`.
#[inline(always)]
fn scale(hash: u64, bins: usize) -> usize {
    // The number of bins is even, so the lower half of the hashes is the lower
    // half of the bins.
    ((u128::from(hash) * bins as u128) >> 64) as usize
}

/// For words that are hashes already (boxed entries).
#[derive(Debug, Clone, Copy, Default)]
pub struct IdentityCodec;

impl HashCodec for IdentityCodec {
    const WORDS_ARE_KEYS: bool = false;

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

/// For words that are keys, hashed with the caller's hasher, or permuted if that
/// is the default one: a permuted word is as good a hash, takes less time, and
/// stands for the word in the slot.
pub struct WordCodec<S> {
    permutation: Permutation,
    hasher: S,
    /// All ones if the hasher is so poor that the word itself must help.
    help: u64,
    markers: [Marker; 2],
    /// The words that the markers are made of, a bit for each, by the half that they are of
    /// (invariant 2 of [`HashCodec`]).
    bound: [u128; 2],
}

impl<S> fmt::Debug for WordCodec<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WordCodec").finish_non_exhaustive()
    }
}

impl<S: BuildHasher + 'static> WordCodec<S> {
    pub(crate) fn new(hasher: S) -> Self {
        let (markers, bound) = ([Marker::NONE; 2], [0; 2]);
        if Self::permutes() {
            let permutation = Permutation::drawn_from(&hasher);
            return Self { permutation, hasher, help: 0, markers, bound };
        }
        let permutation = Permutation::IDENTITY;
        let mut codec = Self { permutation, hasher, help: 0, markers, bound };
        // A hasher under which no three of a hundred words part can't keep keys
        // apart: the word's own bits are mixed in, and then three of any hundred
        // words are found for each half.
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
        // It says something else each time: some words are as good as any.
        codec.bind([[0, 1, 2], [3, 4, 5]]);
        codec
    }

    /// Makes markers of some words of each half, which stay in it.
    fn bind(&mut self, words: [[u64; 3]; 2]) {
        let [lower, upper] = words;
        self.markers = [Marker::of(upper), Marker::of(lower)];
        self.bound = words.map(|words| words.iter().fold(0, |bits, word| bits | 1 << word));
    }

    /// Known when the code is compiled.
    #[inline(always)]
    fn permutes() -> bool {
        TypeId::of::<S>() == TypeId::of::<RandomState>()
    }

    #[inline(always)]
    fn hash_by_hasher(&self, word: u64) -> u64 {
        let hash = post_mix(self.hasher.hash_one(word) ^ (word & self.help));
        if word < u64::from(u128::BITS) { self.in_its_half(word, hash) } else { hash }
    }

    /// The hash of a small word, in the half that the word is bound to, if it is.
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

impl<S: BuildHasher + Send + Sync + 'static> HashCodec for WordCodec<S> {
    const WORDS_ARE_KEYS: bool = true;

    #[inline(always)]
    fn runs_callers_code() -> bool {
        // Loom's models of other steps have hashers without fields, which count as ours: to ask
        // takes steps of its own, of which there are models, too.
        let counts_as_ours = cfg!(loom) && size_of::<S>() == 0;
        !Self::permutes() && !counts_as_ours
    }

    #[inline(always)]
    fn hash(&self, word: u64) -> u64 {
        if Self::permutes() { self.permutation.hash(word) } else { self.hash_by_hasher(word) }
    }

    #[inline(always)]
    fn tag(&self, word: u64, hash: u64) -> u64 {
        if Self::permutes() {
            hash | HIGHEST
        } else {
            word ^ self.markers[(hash >> 63) as usize].empty
        }
    }

    #[inline(always)]
    fn hash_of_tag(&self, tag: u64, half: usize) -> u64 {
        if Self::permutes() {
            with_half(tag, half)
        } else {
            self.hash_by_hasher(tag ^ self.markers[half].empty)
        }
    }

    fn decoder(&self) -> Decoder {
        Decoder(if Self::permutes() {
            Code::Permuted(self.permutation.inverse())
        } else {
            Code::Marked(self.markers)
        })
    }
}

/// For words that are keys, by the remainder.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModuloCodec;

impl HashCodec for ModuloCodec {
    const WORDS_ARE_KEYS: bool = true;

    #[inline(always)]
    fn hash(&self, word: u64) -> u64 {
        word
    }

    #[inline(always)]
    fn place(hash: u64, bins: usize) -> usize {
        // The number of bins is even, so the parity of the word is the bin's.
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
                keeps_the_invariants(&WordCodec::new(Constant), word, 2 * half, k);
                keeps_the_invariants(&ModuloCodec, word, 2 * half, k);
                #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
                {
                    use crate::hash::StableCodec;
                    let stable = StableCodec::new(StableCodec::draw());
                    keeps_the_invariants(&stable, word, 2 * half, k);
                }
            }
        }
    }

    /// Says something else each time.
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
