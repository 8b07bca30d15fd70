//! Maps of records in memory of the caller's allocator pass the suite and return all memory.

use nunatak::alloc::{AllocError, Allocator, Arena, Global, Layout};
use nunatak::entry::{Format, InPlace, Named, Plain, VARIABLE};
use nunatak::{
    ConcurrentMap, Design, Dlht, DlhtRecordMap, DlhtShadowRecordMap, Error, HashesWith, Iceberg,
    Modulo, Namespace, Pea, RandomState, RecordMap, Turbo, Unshadowed,
};
use nunatak_harness::failures::{Fuse, catch};
use nunatak_harness::hashers::{Distribution, TestHasher};
use nunatak_harness::{HashedSubject, Subject};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

type Bytes = Vec<u8>;
type InPlaceFormat = Format<VARIABLE, VARIABLE, Plain, InPlace>;

/// Returns the table's part of the mapped memory: room for slots can be reserved, room for records
/// can't, since their lengths are unknown.
fn of_table<M: ConcurrentMap<Bytes, Bytes>>(map: &M, records: usize) -> usize {
    map.memory_usage().mapped - records
}

struct OfDlht;
struct OfIceberg;
struct OfPea;
struct OfTurbo;
struct ChangedInPlace;

macro_rules! subject {
    ($subject:ident, $format:ty, $design:ty) => {
        impl Subject<Bytes, Bytes> for $subject {
            type Map = RecordMap<$format, Global, RandomState, $design>;

            fn build(&self, capacity: usize) -> Self::Map {
                RecordMap::with_capacity(capacity)
            }

            fn reservable(&self, map: &Self::Map) -> usize {
                of_table(map, map.blob_stats().mapped_bytes)
            }
        }
    };
}

subject!(OfDlht, Format, Dlht);
subject!(OfIceberg, Format, Iceberg);
subject!(OfPea, Format, Pea);
subject!(OfTurbo, Format, Turbo);
subject!(ChangedInPlace, InPlaceFormat, Dlht);

impl HashedSubject<Bytes, Bytes> for OfDlht {
    type Map = DlhtRecordMap<Format, Global, TestHasher>;

    fn build_hashed(&self, hasher: TestHasher) -> Self::Map {
        DlhtRecordMap::try_new_in(0, hasher, Global).expect("memory")
    }
}

nunatak_harness::suite_inline!(dlht, Bytes, Bytes, OfDlht);
nunatak_harness::suite_hashers!(dlht_hashed, Bytes, Bytes, OfDlht);
nunatak_harness::suite_sequential!(iceberg, Bytes, Bytes, OfIceberg);
nunatak_harness::suite_sequential!(pea, Bytes, Bytes, OfPea);
nunatak_harness::suite_sequential!(turbo, Bytes, Bytes, OfTurbo);
nunatak_harness::suite_sequential!(changed_in_place, Bytes, Bytes, ChangedInPlace);

/// An allocator that records its allocations, and fails when it is told to.
#[derive(Debug, Clone, Default)]
struct Strict(Arc<State>);

#[derive(Debug, Default)]
struct State {
    given: Mutex<HashMap<usize, Layout>>,
    /// How many more allocations succeed; `None` means all of them.
    left: Mutex<Option<usize>>,
    skew: AtomicUsize,
}

// SAFETY: memory comes from the program's allocator. Misaligned memory, on purpose with `skew`, is
// what the map must detect. Clones share all state.
unsafe impl Allocator for Strict {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if let Some(left) = &mut *self.0.left.lock().unwrap() {
            *left = left.checked_sub(1).ok_or(AllocError)?;
        }
        let skew = self.0.skew.load(Ordering::Relaxed);
        let (wider, _) = layout.extend(Layout::new::<[u64; 1]>()).unwrap();
        let memory = Global.allocate(wider)?.cast::<u8>();
        // SAFETY: the allocation has eight bytes more than requested.
        let memory = unsafe { memory.add(skew) };
        let before = self.0.given.lock().unwrap().insert(memory.as_ptr() as usize, layout);
        assert!(before.is_none(), "given out twice");
        Ok(NonNull::slice_from_raw_parts(memory, layout.size()))
    }

    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        let given = self.0.given.lock().unwrap().remove(&(memory.as_ptr() as usize));
        assert_eq!(given, Some(layout), "given back as it was given out, once");
        let skew = self.0.skew.load(Ordering::Relaxed);
        let (wider, _) = layout.extend(Layout::new::<[u64; 1]>()).unwrap();
        // SAFETY: `allocate` returned this memory, `skew` bytes into its allocation.
        unsafe { Global.deallocate(memory.sub(skew), wider) };
    }
}

impl Strict {
    fn given(&self) -> usize {
        self.0.given.lock().unwrap().len()
    }
}

fn namespace(number: u16) -> Namespace {
    Namespace::new(number).expect("a small number")
}

#[test]
fn all_memory_goes_back_to_the_allocator_with_its_layout() {
    let allocator = Strict::default();
    let map: DlhtRecordMap<Format, Strict> = DlhtRecordMap::new_in(allocator.clone());
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let map = &map;
            scope.spawn(move || {
                for n in 0..5000_u32 {
                    let key = vec![n as u8; (n % 19) as usize];
                    match (n + thread) % 4 {
                        0 => drop(map.delete(&key)),
                        1 => drop(map.try_insert(&key, &n.to_le_bytes())),
                        _ => drop(map.put(&key, &vec![1; (n % 301) as usize])),
                    }
                }
            });
        }
    });
    assert_eq!(map.advance_epoch(), 0);
    assert_eq!(allocator.given(), map.len(), "what the map has, and nothing else");
    assert_eq!(map.blob_stats().blobs, map.len());
    let bytes: usize = allocator.0.given.lock().unwrap().values().map(Layout::size).sum();
    assert_eq!(map.blob_stats().live_bytes, bytes);
    drop(map);
    assert_eq!(allocator.given(), 0);
}

#[test]
fn an_allocator_that_refuses_changes_nothing() {
    let allocator = Strict::default();
    let map: DlhtRecordMap<Format<8, VARIABLE>, Strict> = DlhtRecordMap::new_in(allocator.clone());
    map.put(b"present!", b"1").expect("memory");
    *allocator.0.left.lock().unwrap() = Some(0);
    let refused = Error::OutOfMemory { bytes: 24 };
    assert_eq!(map.put(b"present!", &[0; 9]), Err(refused));
    assert_eq!(map.put(b"absent!!", &[0; 9]), Err(refused));
    assert_eq!(map.update(b"present!", &[0; 9]), Err(refused));
    assert_eq!(map.update(b"absent!!", &[0; 9]), Ok(None), "nothing was asked for");
    assert_eq!(map.put_many(&[(b"absent!!", [0; 9])]), Err(refused));
    assert_eq!((map.len(), map.get(b"present!")), (1, Some(b"1".to_vec())));
    *allocator.0.left.lock().unwrap() = None;
    assert_eq!(map.put(b"present!", &[0; 9]), Ok(true));
}

#[test]
fn misaligned_memory_is_given_back() {
    let allocator = Strict::default();
    allocator.0.skew.store(4, Ordering::Relaxed);
    let map: DlhtRecordMap<Format, Strict> = DlhtRecordMap::new_in(allocator.clone());
    let misallocated = Error::Misallocated { expected: "aligned to 8 bytes" };
    assert_eq!(map.put(b"a", b"1"), Err(misallocated));
    assert_eq!((map.len(), allocator.given()), (0, 0));
    assert!(misallocated.to_string().contains("not aligned"));
}

#[test]
fn fixed_sizes_are_held_to() {
    let map: DlhtRecordMap<Format<4, 6>> = DlhtRecordMap::new();
    assert_eq!(map.put(b"four", b"is six"), Ok(false));
    let wrong = |what, expected, found| Err(Error::WrongSize { what, expected, found });
    assert_eq!(map.put(b"five!", b"is six"), wrong("key", 4, 5));
    assert_eq!(map.put(b"four", b"too long"), wrong("value", 6, 8));
    for other in [&b""[..], b"fou", b"four\0", b"four\0\0\0\0", b"a longer one"] {
        assert!(map.get(other).is_none() && !map.delete(other), "{other:?} can't be there");
        map.prefetch(other);
    }
    let mut found = [None, None, None];
    map.pin()
        .get_many(&["fou", "four", "fours"], |at, value| found[at] = value.map(<[u8]>::to_vec));
    assert_eq!(found, [None, Some(b"is six".to_vec()), None]);
    assert_eq!(map.blob_stats().live_bytes, 8, "no lengths are stored");
    assert!(map.memory_usage().resident > 0);
}

/// Checks keys of one length that differ only in their ends, in every operation that returns or
/// compares a key, and in growth, which hashes keys again.
fn keys_of_one_length<const KEY: usize, const VALUE: usize>(record: usize) {
    let key = |n: u32| {
        let mut key = [b'='; KEY];
        key[KEY - 2..].copy_from_slice(&(n as u16).to_be_bytes());
        key
    };
    let value = |n: u32| {
        let len = if VALUE == VARIABLE { 3 } else { VALUE };
        n.to_le_bytes().repeat(8)[..len].to_vec()
    };
    let allocator = Strict::default();
    let map: DlhtRecordMap<Format<KEY, VALUE>, Strict> = DlhtRecordMap::new_in(allocator.clone());
    let named: DlhtRecordMap<Format<KEY, VALUE, Named>> = DlhtRecordMap::new();
    let of = |n: u32| namespace(n as u16 % 7);
    for n in 0..2000 {
        assert_eq!(map.put(&key(n), &value(n)), Ok(false));
        assert_eq!(named.put((of(n), &key(n)), &value(n)), Ok(false));
    }
    assert_eq!(map.blob_stats().live_bytes, 2000 * record);
    assert_eq!(named.blob_stats().live_bytes, 2000 * record);
    assert_eq!(map.try_insert(&key(5), &value(6)), Ok(Err(value(5))), "it is there");
    assert_eq!(map.get(&[b'='; KEY]), None);
    for n in 0..2000 {
        assert_eq!(map.get(&key(n)), Some(value(n)));
        assert_eq!(named.get((of(n), &key(n))), Some(value(n)));
        assert_eq!(named.get((of(n + 1), &key(n))), None);
    }
    let expected = || (0..2000).map(|n| (key(n).to_vec(), value(n)));
    let mut found: Vec<(Bytes, Bytes)> = map.iter().collect();
    found.sort();
    assert!(found.into_iter().eq(expected()));
    let mut found: Vec<(Bytes, Bytes)> = (0..7).flat_map(|n| named.iter_in(of(n))).collect();
    found.sort();
    assert!(found.into_iter().eq(expected()));
    assert!((0..2000).all(|n| map.update(&key(n), &value(n + 1)) == Ok(Some(value(n)))));
    assert!((0..2000).all(|n| map.get(&key(n)) == Some(value(n + 1))));
    assert!((0..2000).all(|n| map.delete(&key(n)) && named.delete((of(n), &key(n)))));
    map.advance_epoch();
    assert_eq!((map.len(), named.len(), allocator.given()), (0, 0, 0));
}

#[test]
fn fixed_keys_may_be_in_the_slot_or_not() {
    // The bytes of a record: lengths if one of them varies, a key longer than 8 bytes, the value.
    keys_of_one_length::<3, 8>(8);
    keys_of_one_length::<8, VARIABLE>(8 + 8);
    keys_of_one_length::<9, VARIABLE>(8 + 16 + 8);
    keys_of_one_length::<16, 8>(16 + 8);
    keys_of_one_length::<16, 30>(16 + 32);
    keys_of_one_length::<23, 5>(24 + 8);
}

/// The long strings are zeroed memory that no code touches.
#[test]
#[cfg(target_pointer_width = "64")]
fn what_is_longer_than_four_gib_is_refused() {
    let map: DlhtRecordMap = DlhtRecordMap::new();
    let long = vec![0; (1 << 32) + 1];
    assert_eq!(map.put(&long, b""), Err(Error::TooLong));
    assert_eq!(map.put(b"", &long), Err(Error::TooLong));
    assert!(map.is_empty() && map.blob_stats().blobs == 0);
}

/// Keys of every length around a slot's, with ends that only the length tells apart.
#[test]
fn keys_of_all_lengths_differ() {
    let map: DlhtRecordMap = DlhtRecordMap::new();
    let keys: Vec<Bytes> =
        (0..20).flat_map(|len| [vec![0; len], vec![0xff; len]]).skip(1).collect();
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(map.put(key, &[number as u8]), Ok(false), "{key:?}");
    }
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(map.get(key), Some(vec![number as u8]), "{key:?}");
    }
    let mut found: Vec<Bytes> = map.iter().map(|(key, _)| key).collect();
    found.sort();
    let mut expected = keys.clone();
    expected.sort();
    assert_eq!(found, expected);
}

fn namespaces_are_apart<D: HashesWith<RandomState> + Unshadowed + Design>(keys: &[&[u8]]) {
    let map: RecordMap<Format<VARIABLE, VARIABLE, Named>, Global, RandomState, D> =
        RecordMap::new();
    let number = |at: usize, of: u16| (at as u32 * 4096 + u32::from(of)).to_le_bytes();
    for of in 0..Namespace::COUNT {
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(map.put((namespace(of), key), &number(at, of)), Ok(false));
        }
    }
    assert_eq!(map.len(), 4096 * keys.len());
    for of in 0..Namespace::COUNT {
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(map.get((namespace(of), key)), Some(number(at, of).to_vec()));
        }
    }
    map.clear_namespace(namespace(77));
    assert_eq!((map.len_of(namespace(77)), map.len_of(namespace(78))), (0, keys.len()));
    let mut found: Vec<Bytes> = map.iter_in(namespace(4095)).map(|(key, _)| key).collect();
    found.sort();
    let mut expected: Vec<Bytes> = keys.iter().map(|key| key.to_vec()).collect();
    expected.sort();
    assert_eq!(found, expected);
    // A batch with several namespaces.
    let batch: Vec<_> = (70..80).map(|of| (namespace(of), keys[0])).collect();
    let mut present = Vec::new();
    map.pin().get_many(&batch, |_, value| present.push(value.is_some()));
    let all_but_one: Vec<bool> = (70..80).map(|of| of != 77).collect();
    assert_eq!(present, all_but_one);
    assert_eq!(map.delete_many(&batch), 9);
}

#[test]
fn namespaces_do_not_get_in_each_others_way() {
    let keys = [&b""[..], b"7", b"eight by", b"longer than eight"];
    namespaces_are_apart::<Dlht>(&keys);
    namespaces_are_apart::<Turbo>(&keys);
    assert!(Namespace::new(4096).is_err());
}

/// The same key in 4,096 namespaces does not make the table delegate its bin.
#[test]
fn one_key_in_all_namespaces_is_spread() {
    let map: DlhtRecordMap<Format<8, 8, Named>> = DlhtRecordMap::new();
    for of in 0..Namespace::COUNT {
        map.put((namespace(of), &[7; 8]), &[0; 8]).expect("memory");
    }
    let stats = map.stats();
    assert_eq!((stats.len, stats.delegated_bins), (4096, 0));
}

/// Namespaces that follow from the keys' lowest bits, which modulo uses to place keys. Most secrets leave between 36
/// and 78 % of the values of these bits, and one in some hundred leaves less: so most of several maps. (The lowest bits
/// of a product would leave 11 % at most.)
#[test]
fn namespaces_of_keys_are_spread_by_modulo() {
    let empty_bins = || {
        let map: DlhtRecordMap<Format<8, 8, Named>, Global, Modulo> =
            DlhtRecordMap::try_new_in(1 << 16, Modulo, Global).expect("memory");
        for n in 0..65_536_u64 {
            let key = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            map.put((namespace(key as u16 % 4096), &key.to_le_bytes()), &[0; 8]).expect("memory");
        }
        let stats = map.stats();
        stats.bins_by_entries[0] as f64 / stats.bins as f64
    };
    let mut shares: Vec<f64> = (0..7).map(|_| empty_bins()).collect();
    shares.sort_by(f64::total_cmp);
    assert!(shares[3] < 0.8, "{shares:?} of all bins are empty");
}

/// Modulo hashing, as in the paper.
#[test]
fn records_are_placed_by_modulo() {
    let map: DlhtRecordMap<Format<8, 32>, Global, Modulo> =
        DlhtRecordMap::try_new_in(0, Modulo, Global).expect("memory");
    for n in 0..20_000_u64 {
        map.put(&n.to_le_bytes(), &[n as u8; 32]).expect("memory");
    }
    assert!((0..20_000_u64).all(|n| map.get(&n.to_le_bytes()) == Some(vec![n as u8; 32])));
    assert!((0..20_000_u64).all(|n| map.delete(&n.to_le_bytes())));
    assert!(map.is_empty());
}

/// Several threads change counters in place, while the map grows and is cut.
#[test]
fn values_change_in_place_through_growth_and_snapshots() {
    let map: DlhtRecordMap<Format<8, 16, Plain, InPlace>> = DlhtRecordMap::new();
    let keys: Vec<[u8; 8]> = (0..64_u64).map(u64::to_le_bytes).collect();
    for key in &keys {
        map.put(key, &[0; 16]).expect("memory");
    }
    const ROUNDS: u64 = 20_000;
    std::thread::scope(|scope| {
        for thread in 0..3_usize {
            let (map, keys) = (&map, &keys);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let guard = map.pin();
                    let value = guard.get(&keys[round as usize % 64]).expect("always present");
                    value.word(thread % 2).fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            for n in 1000..20_000_u64 {
                map.put(&n.to_le_bytes(), &[0; 16]).expect("memory");
                if n % 2000 == 0 {
                    assert!(map.snapshot().expect("memory").count() >= 64);
                }
            }
        });
    });
    let guard = map.pin();
    let sum = |word: usize| -> u64 {
        keys.iter().map(|key| guard.get(key).unwrap().word(word).load(Ordering::Relaxed)).sum()
    };
    assert_eq!((sum(0), sum(1)), (2 * ROUNDS, ROUNDS));
}

/// Values that a guard has returned stay unchanged, whatever happens to the map.
#[test]
fn a_guard_outlives_growth_and_removal() {
    let map: DlhtRecordMap = DlhtRecordMap::new();
    map.put(b"short", b"the first").expect("memory");
    map.put(b"a long key that is kept", b"the second").expect("memory");
    let guard = map.pin();
    let short = guard.get(b"short").expect("present");
    let long = guard.get(b"a long key that is kept").expect("present");
    for n in 0..50_000_u32 {
        map.put(&n.to_le_bytes(), &[1; 20]).expect("memory");
    }
    map.clear();
    map.shrink_to_fit().expect("memory");
    assert!(map.unreclaimed() >= 50_000 * 20);
    assert!(map.advance_epoch() >= 50_000 * 20, "the guard may see all of it");
    assert_eq!((short, long), (&b"the first"[..], &b"the second"[..]));
    drop(guard);
    assert_eq!(map.advance_epoch(), 0);
    assert_eq!(map.blob_stats().blobs, 0);
}

#[test]
fn detached_records_are_the_callers() {
    let allocator = Strict::default();
    let map: DlhtRecordMap<Format, Strict> = DlhtRecordMap::new_in(allocator.clone());
    map.put_many(&[("a", "1"), ("b", "2")]).expect("memory");
    let guard = map.pin();
    let seen = guard.get(b"a").expect("present");
    let entry = map.detach(b"a").expect("present");
    assert_eq!((entry.value(), map.len(), allocator.given()), (&b"1"[..], 1, 2));
    drop(entry);
    assert_eq!((seen, map.unreclaimed() > 0), (&b"1"[..], true), "the guard may see it");
    drop(guard);
    assert_eq!(map.advance_epoch(), 0);
    let entry = map.detach(b"b").expect("present");
    // SAFETY: the only thread has no guard.
    unsafe { entry.free() };
    assert_eq!(allocator.given(), 0);
}

/// Dropping the map also frees records that were left hidden.
#[test]
fn hidden_records_go_with_the_map() {
    let allocator = Strict::default();
    let map: DlhtShadowRecordMap<Format, Strict> = DlhtShadowRecordMap::new_in(allocator.clone());
    map.put(b"shown", b"1").expect("memory");
    for key in [&b"kept"[..], b"kept, and longer than a slot"] {
        assert_eq!(map.shadow_insert(key, b"2").expect("absent").keep(), key);
    }
    assert_eq!((map.len(), allocator.given()), (1, 3));
    drop(map);
    assert_eq!(allocator.given(), 0);
}

/// A hasher that panics while records move to a larger index leaves some of them in the old one.
/// Dropping the map frees all of them, without hashing.
#[test]
fn records_of_a_growth_that_was_left_go_with_the_map() {
    let mut was_left = false;
    for calls in (0..2000).step_by(97) {
        let (allocator, fuse) = (Strict::default(), Fuse::default());
        let hasher = TestHasher::with_fuse(Distribution::Even, fuse.clone());
        let map: DlhtRecordMap<Format, Strict, TestHasher> =
            DlhtRecordMap::try_new_in(0, hasher, allocator.clone()).expect("memory");
        for n in 0..700_u32 {
            map.put(&n.to_le_bytes(), b"").expect("memory");
        }
        fuse.arm(calls);
        was_left |= catch(|| map.reserve(100_000)).is_none();
        // From here the next call of the hasher would panic.
        fuse.arm(0);
        drop(map);
        assert_eq!(allocator.given(), 0, "after {calls} calls");
    }
    assert!(was_left, "no growth was left");
}

#[test]
fn an_arena_uses_memory_again() {
    let arena = Arena::new().expect("addresses");
    let map: DlhtRecordMap<Format, Arena> = DlhtRecordMap::new_in(arena.clone());
    let value = |n: u32| vec![n as u8; (n % 500) as usize];
    let fill = || {
        for n in 0..20_000_u32 {
            assert_eq!(map.put(&n.to_le_bytes(), &value(n)), Ok(false));
        }
        assert!((0..20_000_u32).all(|n| map.get(&n.to_le_bytes()) == Some(value(n))));
        map.clear();
        assert_eq!(map.advance_epoch(), 0);
    };
    fill();
    let first = arena.memory_usage().mapped;
    (0..3).for_each(|_| fill());
    assert!(first > 20_000 * 250 && arena.memory_usage().mapped <= first);
    let wide = Layout::from_size_align(64, 64).expect("a layout");
    assert!(arena.allocate(wide).is_err(), "aligned to more than 8 bytes");
}
