//! Maps of byte strings pass the suite, on every table.

use nunatak::{BlobMap, Design, Dlht, Error, Iceberg, Pea, RandomState, TurboBlobMap, TurboMap};
use nunatak_harness::hashers::TestHasher;
use nunatak_harness::{HashedSubject, Subject};

type Bytes = Vec<u8>;

/// Returns the table's part of the mapped memory: room for slots can be reserved, room for blobs
/// can't, since their lengths are unknown.
fn of_table<D: Design>(map: &BlobMap<RandomState, D>) -> usize {
    map.memory_usage().mapped - map.blob_stats().mapped_bytes
}

struct Turbo;

impl Subject<Bytes, Bytes> for Turbo {
    type Map = TurboBlobMap;

    fn build(&self, capacity: usize) -> Self::Map {
        TurboBlobMap::with_capacity(capacity)
    }

    fn adversarial(&self) -> Self::Map {
        let builder = TurboMap::<u64, u64>::builder().shards(2).scope(2);
        builder.build_blobs().expect("valid options")
    }

    fn reservable(&self, map: &Self::Map) -> usize {
        of_table(map)
    }
}

impl HashedSubject<Bytes, Bytes> for Turbo {
    type Map = TurboBlobMap<TestHasher>;

    fn build_hashed(&self, hasher: TestHasher) -> Self::Map {
        let builder = TurboMap::<u64, u64>::builder().shards(2).scope(2).hasher(hasher);
        builder.build_blobs().expect("valid options")
    }
}

struct OfDlht;
struct OfIceberg;
struct OfPea;

macro_rules! subject {
    ($subject:ident, $design:ty) => {
        impl Subject<Bytes, Bytes> for $subject {
            type Map = BlobMap<RandomState, $design>;

            fn build(&self, capacity: usize) -> Self::Map {
                BlobMap::with_capacity(capacity)
            }

            fn reservable(&self, map: &Self::Map) -> usize {
                of_table(map)
            }
        }
    };
}

subject!(OfDlht, Dlht);
subject!(OfIceberg, Iceberg);
subject!(OfPea, Pea);

nunatak_harness::suite_inline!(turbo, Bytes, Bytes, Turbo);
nunatak_harness::suite_hashers!(turbo_hashed, Bytes, Bytes, Turbo);
nunatak_harness::suite_sequential!(dlht, Bytes, Bytes, OfDlht);
nunatak_harness::suite_sequential!(iceberg, Bytes, Bytes, OfIceberg);
nunatak_harness::suite_sequential!(pea, Bytes, Bytes, OfPea);

#[test]
fn byte_strings_of_any_length_are_kept() {
    let map = TurboBlobMap::new();
    let lengths = [0, 1, 7, 8, 127, 128, 129, 4096, 32_767, 32_769, 65_536, 1 << 20, 5 << 20];
    for key in lengths {
        for value in lengths {
            let (key_bytes, value_bytes) = (vec![1; key], vec![2; value]);
            map.put(&key_bytes, &value_bytes).expect("memory");
            let guard = map.pin();
            assert!(guard.get(&key_bytes).is_some_and(|found| found == value_bytes));
        }
    }
    assert_eq!(map.len(), lengths.len());
    for key in lengths {
        assert!(map.delete(&vec![1; key]));
    }
    map.shrink_to_fit().expect("memory");
    let stats = map.blob_stats();
    assert_eq!((stats.blobs, stats.live_bytes, stats.retired_bytes, stats.spans), (0, 0, 0, 0));
}

/// The long strings are zeroed memory that no code touches.
#[test]
#[cfg(target_pointer_width = "64")]
fn what_is_longer_than_four_gib_is_refused() {
    let map = TurboBlobMap::new();
    let long = vec![0; (1 << 32) + 1];
    assert_eq!(map.put(&long, b""), Err(Error::TooLong));
    assert_eq!(map.put(b"", &long), Err(Error::TooLong));
    assert_eq!(map.update(b"", &long), Ok(None));
    assert!(map.is_empty() && map.blob_stats().blobs == 0);
}

/// A guard holds back only what it may see, and `unreclaimed` reports how much that is. Other
/// memory is reused.
#[test]
fn a_guard_that_is_held_for_long_pins_what_it_may_see() {
    let map = TurboBlobMap::new();
    let value = vec![7; 10_000];
    let put = |n: u32| map.put(&(n % 16).to_le_bytes(), &value).expect("memory");
    for n in 0..10_000 {
        put(n);
    }
    let usual = map.memory_usage().mapped;
    assert!(usual < 32 << 20, "{usual} bytes for 160,000");
    let guard = map.pin();
    let seen = guard.get(&3_u32.to_le_bytes()).expect("it was put");
    for n in 0..10_000 {
        put(n);
    }
    assert!(map.unreclaimed() > 90_000_000 && map.memory_usage().mapped > 90_000_000);
    assert!(seen.iter().all(|&byte| byte == 7));
    drop(guard);
    assert_eq!(map.reclaim(), 0);
    map.shrink_to_fit().expect("memory");
    let after = map.memory_usage().mapped;
    assert!(after <= usual, "{usual} bytes became {after}, {:?}", map.blob_stats());
}

/// One blob of sixteen stays, and compaction moves them together.
#[test]
fn compaction_gives_memory_back() {
    let map = TurboBlobMap::new();
    for n in 0..200_000_u32 {
        map.put(&n.to_le_bytes(), &[n as u8; 40]).expect("memory");
    }
    let before = map.blob_stats();
    map.retain(|key, _| key[0].is_multiple_of(16));
    map.shrink_to_fit().expect("memory");
    let after = map.blob_stats();
    assert!(after.spans * 10 < before.spans, "{before:?} became {after:?}");
    assert!(after.placed_bytes * 3 > after.spans * 65_536 * 2, "{after:?}");
    for n in (0..200_000_u32).filter(|n| n % 16 == 0) {
        assert_eq!(map.get(&n.to_le_bytes()), Some(vec![n as u8; 40]));
    }
}

#[test]
fn readers_never_see_a_piece_of_another() {
    let map = TurboBlobMap::new();
    let key = |n: u64| (n % 8).to_le_bytes();
    let value = |n: u64| vec![n as u8; 20 + (n % 200) as usize];
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let map = &map;
            scope.spawn(move || {
                for n in 0..100_000 {
                    map.put(&key(n), &value(2 * n + thread)).expect("memory");
                    if n % 7 == 0 {
                        map.delete(&key(n));
                    }
                }
            });
        }
        scope.spawn(|| {
            for n in 0..200_000 {
                let guard = map.pin();
                let found = guard.get(&key(n));
                let is_whole = |value: &[u8]| value.iter().all(|byte| *byte == value[0]);
                assert!(found.is_none_or(is_whole));
            }
        });
    });
}
