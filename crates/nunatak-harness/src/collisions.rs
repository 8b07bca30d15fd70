//! Checks of maps with the caller's hasher: keys collide, and the hasher panics.

use crate::failures::Fuse;
use crate::hashers::{Distribution, TestHasher};
use crate::model::{Single, check_cases};
use crate::sample::Sample;
use crate::stress::conservation;
use crate::subject::HashedSubject;
use nunatak::ConcurrentMap;

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
