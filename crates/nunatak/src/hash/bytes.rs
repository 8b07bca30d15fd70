//! A hash of byte strings that files can rely on.

use core::hash::{BuildHasher, Hasher};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How the keys of a durable map of byte strings are hashed: XXH3 of 64 bits, with a seed that
/// is drawn when the file is created, and which it keeps. Version 1 of it, as files say.
///
/// ```
/// use nunatak::hash::StableBytes;
/// # let hash: Option<StableBytes> = None;
/// # assert!(hash.is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StableBytes {
    pub(crate) seed: u64,
}

impl StableBytes {
    /// What files call it.
    pub(crate) const VERSION: u64 = 1;
}

impl BuildHasher for StableBytes {
    type Hasher = BytesHasher;

    #[inline(always)]
    fn build_hasher(&self) -> BytesHasher {
        BytesHasher(self.seed)
    }
}

/// The hash of what was written so far, or the seed.
#[derive(Debug)]
pub struct BytesHasher(u64);

impl Hasher for BytesHasher {
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    /// A length comes before bytes that are a key, and tells nothing that these do not.
    #[inline(always)]
    fn write_usize(&mut self, _length: usize) {}

    #[inline(always)]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of all times have these.
    #[test]
    fn hashes_never_change() {
        let hash = |seed, key: &[u8]| StableBytes { seed }.hash_one(key);
        assert_eq!(hash(0, b""), 0x2D06_8005_38D3_94C2);
        assert_eq!(hash(7, b"nunatak"), xxh3_64_with_seed(b"nunatak", 7));
        assert_eq!(hash(0, b"nunatak"), xxh3_64_with_seed(b"nunatak", 0));
        assert_ne!(hash(0, b"a"), hash(1, b"a"));
    }
}
