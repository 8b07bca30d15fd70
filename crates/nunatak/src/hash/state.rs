//! The caller's choice of a hash function.

use super::{ModuloCodec, WordCodec};
use crate::error::Error;
use core::hash::BuildHasher;

/// The hash of DLHT's paper (section 3.4.3): bin = key modulo the number of bins.
///
/// The fastest choice for keys that are dense or random already. It keeps dense keys in
/// neighbouring cache lines. Keys with a common factor, such as addresses, collide, so an attacker
/// who chooses the keys can make the map slow.
///
/// ```
/// use nunatak::{DlhtMap, Modulo};
/// let map: DlhtMap<u64, u64, Modulo> = DlhtMap::with_hasher(Modulo);
/// map.insert(7, 49);
/// assert_eq!(map.get(&7), Some(49));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Modulo;

pub(super) mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Modulo {}
    impl<S: core::hash::BuildHasher> Sealed for S {}
}

/// Hashers of a map with inline keys: any `BuildHasher`, whose hashes are mixed once more, or
/// [`Modulo`].
///
/// ```
/// use nunatak::DlhtMap;
/// use std::collections::hash_map::RandomState;
/// let map: DlhtMap<u64, u64, RandomState> = DlhtMap::with_hasher(RandomState::new());
/// map.insert(1, 2);
/// assert_eq!(map.get(&1), Some(2));
/// ```
pub trait Hashing: sealed::Sealed + Send + Sync + 'static {
    /// The codec of words with this hasher.
    #[doc(hidden)]
    #[allow(private_bounds, reason = "the trait is sealed; codec is an internal matter")]
    type HashCodec: super::HashCodec;

    /// Makes the codec of words.
    #[doc(hidden)]
    fn into_codec(self) -> Result<Self::HashCodec, Error>;
}

impl Hashing for Modulo {
    type HashCodec = ModuloCodec;

    fn into_codec(self) -> Result<ModuloCodec, Error> {
        Ok(ModuloCodec)
    }
}

impl<S: BuildHasher + Send + Sync + 'static> Hashing for S {
    type HashCodec = WordCodec<S>;

    fn into_codec(self) -> Result<WordCodec<S>, Error> {
        Ok(WordCodec::new(self))
    }
}
