//! Maps of byte strings: in the map's own memory, and as records of an allocator.

use super::operations::{self, ByteStrings, Fixed};
use super::small;
use nunatak::alloc::{Arena, Global};
use nunatak::entry::{Entries, Format, Named, Plain, VARIABLE};
use nunatak::{
    BlobMap, ByteMap, Compute, Design, Dlht, DlhtRecordMap, DlhtShadowRecordMap, Iceberg,
    Namespace, Pea, RandomState, RecordMap, Turbo, TurboBlobMap,
};

const COUNT: u32 = 24;

/// For tables that are large, since their builders do not make maps of these entries.
const FEW: u32 = 8;

/// Guards and removed entries, of a map that has none.
pub(crate) fn guards<E, D>(map: &ByteMap<E, D>)
where
    E: Entries<Naming = Plain>,
    for<'v> E::Value<'v>: AsRef<[u8]>,
    D: Design,
{
    let key = |n: u32| u64::from(n).to_le_bytes();
    let value = |n: u32| [n.to_le_bytes(), [9; 4], [8; 4]].concat();
    (0..10).for_each(|n| assert!(!map.put(&key(n), &value(n)).expect("room")));
    let guard = map.pin();
    let seen: Vec<_> = (0..10).map(|n| guard.get(&key(n)).expect("present")).collect();
    let detached = map.detach(&key(0)).expect("present");
    assert_eq!(detached.value().as_ref(), value(0));
    (1..5).for_each(|n| assert!(map.delete(&key(n))));
    (5..10).for_each(|n| assert!(map.put(&key(n), &value(n + 1)).expect("room")));
    (10..COUNT).for_each(|n| assert!(!map.put(&key(n), &value(n)).expect("room")));
    drop(detached);
    assert!(map.unreclaimed() > 0);
    map.reclaim();
    for (n, seen) in (0..).zip(&seen) {
        assert_eq!(seen.as_ref(), value(n));
    }
    assert_eq!(guard.iter().count(), COUNT as usize - 5);
    let mut found = 0;
    guard.get_many(&[key(0), key(7)], |_, value| found += usize::from(value.is_some()));
    assert_eq!(found, 1);
    drop(seen);
    drop(guard);
    assert_eq!(map.reclaim(), 0);
    // SAFETY: this is the only thread, and it has no guard.
    unsafe { map.detach(&key(5)).expect("present").free() };
    let before = map.compute(&key(6), |_| Compute::Put(value(60)));
    assert_eq!(before.expect("room"), Some(value(7)));
    assert_eq!(map.remove_if(&key(6), |value| value.as_ref()[0] == 60), Some(value(60)));
    map.put_many(&[(key(50), value(50)), (key(51), value(51))]).expect("room");
    assert_eq!(map.delete_many(&[key(50), key(52)]), 1);
    let mut buffer = Vec::new();
    assert!(map.get_into(&key(51), &mut buffer) && buffer == value(51));
    assert_eq!(map.get_with(&key(51), |value| value.as_ref().len()), Some(12));
    map.shrink_to_fit().expect("room for a move");
    assert_eq!(map.len(), map.snapshot().expect("room for a cut").count());
    map.clear();
    assert!(map.put(&key(1), &value(1)).is_ok());
}

#[test]
fn blobs_of_turbo() {
    let map = || small::turbo().build_blobs().expect("valid options");
    operations::all::<ByteStrings, _>(map(), COUNT);
    guards(&map());
}

#[test]
fn blobs_of_other_tables() {
    operations::single::<ByteStrings, _>(&BlobMap::<RandomState, Dlht>::new(), FEW);
    operations::single::<ByteStrings, _>(&BlobMap::<RandomState, Pea>::new(), FEW);
    guards(&BlobMap::<RandomState, Iceberg>::new());
}

#[test]
fn large_blobs() {
    let map = TurboBlobMap::new();
    for n in 0..4_u8 {
        map.put(&[n], &vec![n; 6_000]).expect("room");
    }
    map.put(&[0], &[0; 100]).expect("room");
    map.delete(&[1]);
    map.shrink_to_fit().expect("room for a move");
    assert_eq!(map.get(&[3]), Some(vec![3; 6_000]));
}

#[test]
fn records_of_dlht() {
    let map = || small::dlht().build_records::<Format, _>(Global).expect("valid options");
    operations::all::<ByteStrings, _>(map(), COUNT);
    guards(&map());
}

#[test]
fn records_of_one_length() {
    let map: DlhtRecordMap<Format<8, 12>> = DlhtRecordMap::new();
    operations::all::<Fixed, _>(map, COUNT);
    guards(&DlhtRecordMap::<Format<8, VARIABLE>>::new());
    let map: DlhtRecordMap<Format<8, 12>, Arena> =
        DlhtRecordMap::new_in(Arena::new().expect("addresses"));
    operations::single::<Fixed, _>(&map, COUNT);
}

#[test]
fn records_of_other_tables() {
    operations::single::<Fixed, _>(
        &RecordMap::<Format<8, 12>, Global, RandomState, Turbo>::new(),
        FEW,
    );
    operations::single::<ByteStrings, _>(
        &RecordMap::<Format, Global, RandomState, Pea>::new(),
        FEW,
    );
    guards(&RecordMap::<Format, Global, RandomState, Iceberg>::new());
}

#[test]
fn records_in_namespaces() {
    let map: DlhtRecordMap<Format<VARIABLE, VARIABLE, Named>> = DlhtRecordMap::new();
    let spaces = [0, 1].map(|n| Namespace::new(n).expect("below 4096"));
    for n in 0..COUNT {
        map.put((spaces[n as usize % 2], &n.to_le_bytes()), &[n as u8; 5]).expect("room");
    }
    assert_eq!(map.iter_in(spaces[1]).count(), map.len_of(spaces[0]));
    map.clear_namespace(spaces[0]);
    assert_eq!(map.len(), COUNT as usize / 2);
}

#[test]
fn pointers_to_values() {
    let map: DlhtRecordMap<Format<8, 16>> = DlhtRecordMap::new();
    map.put(b"some key", &[0; 16]).expect("room");
    {
        let guard = map.pin();
        let value = guard.pointer(b"some key").expect("present");
        // SAFETY: this is the only thread, and it has no slice of the value.
        unsafe { value.cast::<u8>().add(3).write(7) };
    }
    assert_eq!(map.get(b"some key").map(|value| value[3]), Some(7));
}

#[test]
fn hidden_records() {
    let map: DlhtShadowRecordMap =
        small::dlht().build_shadow_records(Global).expect("valid options");
    for n in 0..COUNT {
        let key = ByteKey::of(n);
        let shadow = map.shadow_insert(&key, &[n as u8; 9]).expect("absent");
        assert!(map.put(&key, b"").is_err() && map.get(&key).is_none());
        match n % 4 {
            0 => shadow.commit(),
            1 => shadow.abort(),
            2 => map.commit_shadow(&shadow.keep()).expect("hidden"),
            _ => map.abort_shadow(&shadow.keep()).expect("hidden"),
        }
        assert_eq!(map.contains_key(&key), n % 2 == 0);
    }
    assert_eq!(map.snapshot().expect("room for a cut").count(), COUNT as usize / 2);
    map.shrink_to_fit().expect("room for a smaller table");
    // The entry is freed with the map.
    map.shadow_insert(b"left hidden", b"value").expect("absent").keep();
}

struct ByteKey;

impl ByteKey {
    fn of(n: u32) -> Vec<u8> {
        n.to_le_bytes().repeat(1 + n as usize % 3)
    }
}
