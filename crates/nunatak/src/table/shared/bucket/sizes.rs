//! The sizes of a table's entries, which choose the layout of its buckets.

use super::narrow::{Bucket8, Bucket12, TAG};
use super::{Bucket, Layout};
use crate::hash::{Decoder, HashCodec};
use core::fmt::Debug;

/// The size of the entries of a [`PeaMap`](crate::PeaMap): [`Entry16`], [`Entry12`] or [`Entry8`].
/// A bucket of 256 bytes holds ⌊256 / (E + 1.125)⌋ entries of E bytes, and one more of 16 bytes.
/// Source: Pea Hash, section 3.3.
///
/// ```
/// use nunatak::{Entry8, EntrySize, Entry12};
/// assert_eq!((Entry12::KEY_BITS, Entry12::VALUE_BITS), (32, 64));
/// assert_eq!((Entry8::KEY_BITS, Entry8::VALUE_BITS), (32, 32));
/// ```
#[allow(private_interfaces, private_bounds, reason = "the trait is sealed: tables are internal")]
pub trait EntrySize: Debug + Send + Sync + Sized + 'static {
    /// The highest number of bits of a key.
    ///
    /// ```
    /// # use nunatak::{Entry16, EntrySize};
    /// assert_eq!(Entry16::KEY_BITS, 64);
    /// ```
    const KEY_BITS: u32;

    /// The highest number of bits of a value.
    ///
    /// ```
    /// # use nunatak::{Entry8, EntrySize};
    /// assert_eq!(Entry8::VALUE_BITS, 32);
    /// ```
    const VALUE_BITS: u32;

    #[doc(hidden)]
    type Layout: Layout;

    #[doc(hidden)]
    type HashCodec<P: HashCodec>: HashCodec;

    #[doc(hidden)]
    #[allow(missing_docs)]
    fn codec<P: HashCodec>(codec: P) -> Self::HashCodec<P>;
}

/// Entries of 16 bytes: keys and values of at most 8 bytes, 15 in a bucket.
///
/// ```
/// use nunatak::{Entry16, InlineMap, Pea, PeaMap, RandomState};
/// let map: InlineMap<u64, u64, RandomState, Pea<Entry16>> = PeaMap::new();
/// # assert!(map.is_empty());
/// ```
#[derive(Debug)]
pub struct Entry16(());

/// Entries of 12 bytes: keys of at most 4 bytes, values of at most 8, 19 in a bucket.
///
/// ```
/// use nunatak::PeaMap12;
/// let map: PeaMap12<u32, u64> = (0..1000).map(|key| (key, u64::from(key) << 32)).collect();
/// assert_eq!(map.get(&7), Some(7 << 32));
/// ```
#[derive(Debug)]
pub struct Entry12(());

/// Entries of 8 bytes: keys and values of at most 4 bytes, 28 in a bucket.
///
/// ```
/// use nunatak::PeaMap8;
/// let map: PeaMap8<u32, f32> = [(1, 0.5), (2, 0.25)].into_iter().collect();
/// assert_eq!(map.get(&2), Some(0.25));
/// ```
#[derive(Debug)]
pub struct Entry8(());

#[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
impl EntrySize for Entry16 {
    const KEY_BITS: u32 = 64;
    const VALUE_BITS: u32 = 64;
    type Layout = Bucket;
    type HashCodec<P: HashCodec> = P;

    fn codec<P: HashCodec>(codec: P) -> P {
        codec
    }
}

#[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
impl EntrySize for Entry12 {
    const KEY_BITS: u32 = 32;
    const VALUE_BITS: u32 = 64;
    type Layout = Bucket12;
    type HashCodec<P: HashCodec> = Whole<P>;

    fn codec<P: HashCodec>(codec: P) -> Whole<P> {
        Whole(codec)
    }
}

#[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
impl EntrySize for Entry8 {
    const KEY_BITS: u32 = 32;
    const VALUE_BITS: u32 = 32;
    type Layout = Bucket8;
    type HashCodec<P: HashCodec> = Whole<P>;

    fn codec<P: HashCodec>(codec: P) -> Whole<P> {
        Whole(codec)
    }
}

/// A codec of words of 32 bits, which slots store as they are.
#[derive(Debug, Clone)]
pub struct Whole<P>(P);

impl<P: HashCodec> HashCodec for Whole<P> {
    const WORDS_ARE_KEYS: bool = P::WORDS_ARE_KEYS;

    type Shared = Whole<P::Shared>;

    fn into_shared(self) -> Self::Shared {
        Whole(self.0.into_shared())
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
    fn tag(&self, word: u64, _hash: u64) -> u64 {
        debug_assert!(word < TAG);
        word | TAG
    }

    #[inline(always)]
    fn hash_of_tag(&self, tag: u64, _half: usize) -> u64 {
        self.0.hash(tag & !TAG)
    }

    fn decoder(&self) -> Decoder {
        Decoder::of_mark(TAG)
    }
}
