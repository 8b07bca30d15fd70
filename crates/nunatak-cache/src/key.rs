//! Keys as the map stores them, and the two ways to look one up.
//!
//! An entry is found by the caller's key, in any borrowed form, or by its [`Token`]. Eviction uses
//! tokens, so it calls neither the caller's hasher nor the caller's `Eq`, and may run under a lock.

use core::borrow::Borrow;
use core::hash::{BuildHasherDefault, Hash, Hasher};
use nunatak::Equivalent;

/// The name of one entry: no other entry of the cache has it while this one is there.
///
/// `slot` is the entry's place in the queues of its shard. `generation` counts how often that place
/// was given to an entry; it wraps after 2^32 times, within which no operation lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) hash: u64,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Hash for Token {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A stored key.
#[derive(Clone)]
pub(crate) struct Key<K> {
    pub(crate) token: Token,
    pub(crate) key: K,
}

impl<K> Hash for Key<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.token.hash(state);
    }
}

impl<K: Eq> PartialEq for Key<K> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<K: Eq> Eq for Key<K> {}

impl<K> Borrow<Token> for Key<K> {
    fn borrow(&self) -> &Token {
        &self.token
    }
}

/// A caller's key in the borrowed form `Q`, hashed once.
pub(crate) struct Query<'q, Q: ?Sized> {
    pub(crate) hash: u64,
    pub(crate) key: &'q Q,
}

impl<Q: ?Sized> Hash for Query<'_, Q> {
    #[inline(always)]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl<K: Borrow<Q>, Q: Eq + ?Sized> Equivalent<Key<K>> for Query<'_, Q> {
    #[inline(always)]
    fn equivalent(&self, key: &Key<K>) -> bool {
        self.key == key.key.borrow()
    }
}

/// Hands on the hash that the key was given by the caller's hasher.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hashed(u64);

/// The hasher of the map below the cache.
pub(crate) type PassOn = BuildHasherDefault<Hashed>;

impl Hasher for Hashed {
    #[inline(always)]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys of the map write their hash, as one word");
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Spreads a hash over all bits, also one of a hasher that leaves most of them equal.
#[inline(always)]
pub(crate) fn spread(hash: u64) -> u64 {
    // The finalizer of SplitMix64: a bijection. Not the map's own mixing, so that the keys of a
    // shard are not neighbours in the map.
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ (hash >> 31)
}
