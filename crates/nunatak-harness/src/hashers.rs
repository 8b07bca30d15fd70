//! Hashers under which keys collide, and one that panics.

use crate::failures::Fuse;
use crate::model::{Single, check_cases};
use crate::random::mix;
use crate::sample::Sample;
use crate::stress::conservation;
use crate::subject::HashedSubject;
use nunatak::ConcurrentMap;
use std::hash::{BuildHasher, Hasher};

/// The distribution of hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// One hash for all keys.
    Constant,
    /// Four hashes, which differ in all bits.
    FourValues,
    /// Two hashes, which differ in the lowest bit.
    OneBit,
    /// Each word is its own hash.
    Identity,
    /// The hashes of a good hasher.
    Even,
}

impl Distribution {
    /// All distributions.
    pub const ALL: [Self; 5] =
        [Self::Constant, Self::FourValues, Self::OneBit, Self::Identity, Self::Even];
}

/// A hasher with a distribution, which panics when its fuse burns.
#[derive(Debug, Clone)]
pub struct TestHasher {
    distribution: Distribution,
    fuse: Fuse,
}

impl TestHasher {
    /// Makes a hasher that never panics.
    pub fn new(distribution: Distribution) -> Self {
        Self { distribution, fuse: Fuse::default() }
    }

    /// Makes a hasher whose every hash is a call of `fuse`.
    pub fn with_fuse(distribution: Distribution, fuse: Fuse) -> Self {
        Self { distribution, fuse }
    }
}

impl BuildHasher for TestHasher {
    type Hasher = TestState;

    fn build_hasher(&self) -> TestState {
        self.fuse.call();
        TestState { distribution: self.distribution, folded: 0 }
    }
}

/// A hash that is being computed.
#[derive(Debug)]
pub struct TestState {
    distribution: Distribution,
    folded: u64,
}

impl Hasher for TestState {
    fn finish(&self) -> u64 {
        match self.distribution {
            Distribution::Constant => 42,
            Distribution::FourValues => (mix(self.folded) & 3) * 0x5555_5555_5555_5555,
            Distribution::OneBit => mix(self.folded) & 1,
            Distribution::Identity => self.folded,
            Distribution::Even => mix(self.folded),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.folded = self.folded.rotate_left(8).wrapping_mul(31) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.folded ^= word;
    }
}

/// The map stays right whichever keys collide.
///
/// # Panics
/// If the map fails the check.
pub fn collisions_are_harmless<K: Sample, V: Sample, S: HashedSubject<K, V>>(subject: &S) {
    for distribution in Distribution::ALL {
        check_cases::<Single<K, V>, _>(60, 60, |_| {
            subject.build_hashed(TestHasher::new(distribution))
        });
    }
}

/// Many keys of one hash are all kept, through growth and removal.
///
/// # Panics
/// If the map fails the check.
pub fn many_keys_of_one_hash<K: Sample, V: Sample, S: HashedSubject<K, V>>(subject: &S) {
    for distribution in Distribution::ALL {
        let map = subject.build_hashed(TestHasher::new(distribution));
        let keys = 400;
        for key in 0..keys {
            assert_eq!(map.try_insert(K::sample(key), V::sample(key)), Ok(()));
        }
        for key in (0..keys).step_by(2) {
            assert_eq!(map.remove(&K::sample(key)), Some(V::sample(key)), "{distribution:?}");
        }
        assert_eq!(map.shrink_to_fit(), Ok(()));
        for key in 0..keys {
            let expected = (key % 2 == 1).then(|| V::sample(key));
            assert_eq!(map.get(&K::sample(key)), expected, "{distribution:?}, key {key}");
        }
        assert_eq!(map.iter().count() as u64, keys / 2, "{distribution:?}");
        assert_eq!(map.len() as u64, keys / 2, "{distribution:?}");
    }
}

/// Threads that compete for colliding keys lose nothing.
///
/// # Panics
/// If the map fails the check.
pub fn collisions_under_contention<K: Sample, V: Sample, S: HashedSubject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    for distribution in Distribution::ALL {
        let map = subject.build_hashed(TestHasher::new(distribution));
        conservation::check_map::<K, V, _>(&map, 3, 4000);
    }
}

/// A hasher panics, at any call. Every entry stays where it was, and the map stays usable.
///
/// # Panics
/// If the map fails the check.
pub fn panics_are_harmless<K: Sample, V: Sample, S: HashedSubject<K, V>>(subject: &S) {
    let calls = if cfg!(miri) { 8 } else { 120 };
    for at in 0..calls {
        let fuse = Fuse::default();
        let hasher = TestHasher::with_fuse(Distribution::Even, fuse.clone());
        let map = subject.build_hashed(hasher);
        crate::failures::survives::<K, V, _>(&map, &fuse, at);
    }
}
