//! A hash of byte strings that files can rely on.

use core::hash::{BuildHasher, Hasher};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Hashes the keys of a durable map of byte strings: 64-bit XXH3 with a seed. The seed is drawn
/// when the file is created, and kept in the file. Files call this version 1.
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
    /// The number of this hash in files.
    pub(crate) const VERSION: u64 = 1;
}

impl BuildHasher for StableBytes {
    type Hasher = BytesHasher;

    #[inline(always)]
    fn build_hasher(&self) -> BytesHasher {
        BytesHasher(self.seed)
    }
}

/// The hash of the bytes so far; at first the seed.
#[derive(Debug)]
pub struct BytesHasher(u64);

impl Hasher for BytesHasher {
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    /// A key's length comes before its bytes, and adds nothing to them.
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

    /// Existing files rely on these hashes.
    #[test]
    fn hashes_never_change() {
        let hash = |seed, key: &[u8]| StableBytes { seed }.hash_one(key);
        assert_eq!(hash(0, b""), 0x2D06_8005_38D3_94C2);
        assert_eq!(hash(7, b"nunatak"), xxh3_64_with_seed(b"nunatak", 7));
        assert_eq!(hash(0, b"nunatak"), xxh3_64_with_seed(b"nunatak", 0));
        assert_ne!(hash(0, b"a"), hash(1, b"a"));
    }
}
