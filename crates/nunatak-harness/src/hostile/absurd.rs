//! Capacities that no machine has, and empty batches.

use super::watch;
use nunatak::alloc::Global;
use nunatak::entry::Format;
use nunatak::mode::{Shared, SingleThread};
use nunatak::{
    BlobMap, ConcurrentMap, Design, Dlht, DlhtBoxedMap, DlhtBuilder, DlhtMap, DlhtRecordMap,
    DlhtSet, DlhtShadowMap, DlhtShadowRecordMap, Entry8, Entry12, Entry16, Error, HashesWith,
    Iceberg, IcebergBoxedMap, IcebergBuilder, IcebergMap, InlineMap, InlineSet, Modulo, Op, Pea,
    PeaBuilder, PeaMultiMap, RandomState, RecordMap, Stop, Turbo, TurboBuilder, Unshadowed,
};

/// Capacities that no system can provide, whatever the size of an entry.
const CAPACITIES: [usize; 11] = [
    usize::MAX,
    usize::MAX - 1,
    usize::MAX / 2,
    usize::MAX / 2 + 1,
    usize::MAX / 3,
    usize::MAX / 8,
    usize::MAX / 16,
    usize::MAX / 17,
    usize::MAX / 64,
    1 << 60,
    1 << 56,
];

fn refused<M>(what: &str, capacity: usize, built: Result<M, Error>) {
    watch::step(|| format!("{what} of {capacity}"));
    let error = built.err().unwrap_or_else(|| panic!("{what}: a capacity of {capacity}"));
    assert!(
        matches!(error, Error::CapacityOverflow | Error::OutOfMemory { .. }),
        "{what}: a capacity of {capacity} is {error:?}"
    );
}

fn pea() -> PeaBuilder {
    PeaBuilder::default()
}

fn turbo() -> TurboBuilder {
    TurboBuilder::default()
}

/// Every builder and every fallible constructor returns an error.
///
/// # Panics
/// If a builder accepts such a capacity.
pub fn builders_refuse_absurd_capacities() {
    for capacity in CAPACITIES {
        let dlht = || DlhtBuilder::default().capacity(capacity);
        refused("dlht", capacity, dlht().build::<u64, u64, Shared>());
        refused("dlht, local", capacity, dlht().build::<u64, u64, SingleThread>());
        refused("dlht, modulo", capacity, dlht().hasher(Modulo).build::<u8, u8, Shared>());
        refused("dlht, set", capacity, dlht().build_set::<u64>());
        refused("dlht, boxed", capacity, dlht().build_boxed::<u64, u64>());
        refused("dlht, shadow", capacity, dlht().build_shadow::<u64, u64>());
        refused("dlht, records", capacity, dlht().build_records::<Format, _>(Global));
        refused("hidden records", capacity, dlht().build_shadow_records::<Format, _>(Global));
        for links in [4, 64] {
            let built = dlht().link_ratio(links).build::<u64, u64, Shared>();
            refused("dlht, links", capacity, built);
        }
        let iceberg = || IcebergBuilder::default().capacity(capacity);
        refused("iceberg", capacity, iceberg().build::<u64, u64>());
        refused("iceberg, set", capacity, iceberg().build_set::<u64>());
        refused("iceberg, boxed", capacity, iceberg().build_boxed::<u64, u64>());
        let largest = iceberg().max_capacity(usize::MAX).build::<u64, u64>();
        refused("iceberg, largest", capacity, largest);
        refused("pea", capacity, pea().capacity(capacity).build::<u64, u64, Entry16>());
        refused("pea of 12", capacity, pea().capacity(capacity).build::<u32, u64, Entry12>());
        refused("pea of 8", capacity, pea().capacity(capacity).build::<u32, u32, Entry8>());
        refused("pea, set", capacity, pea().capacity(capacity).build_set::<u64, Entry16>());
        refused("pea, boxed", capacity, pea().capacity(capacity).build_boxed::<u64, u64>());
        refused("pea, multi", capacity, pea().capacity(capacity).build_multi::<u64, u64>());
        let small = pea().segment_buckets(2).capacity(capacity);
        refused("pea, small segments", capacity, small.build::<u64, u64, Entry16>());
        refused("turbo", capacity, turbo().capacity(capacity).build::<u64, u64, Entry16>());
        refused("turbo of 8", capacity, turbo().capacity(capacity).build::<u32, u32, Entry8>());
        refused("turbo, set", capacity, turbo().capacity(capacity).build_set::<u64, Entry16>());
        refused("turbo, boxed", capacity, turbo().capacity(capacity).build_boxed::<u64, u64>());
        refused("turbo, blobs", capacity, turbo().capacity(capacity).build_blobs());
        let small = turbo().shards(2).capacity(capacity);
        refused("turbo, few shards", capacity, small.build::<u64, u64, Entry16>());
        constructors::<Dlht>(capacity);
        constructors::<Iceberg>(capacity);
        constructors::<Pea>(capacity);
        constructors::<Turbo>(capacity);
    }
}

fn constructors<D>(capacity: usize)
where
    D: HashesWith<RandomState> + Unshadowed + Design<Medium = <Dlht as Design>::Medium>,
{
    type Inline<D> = InlineMap<u64, u64, RandomState, D>;
    type Set<D> = InlineSet<u64, RandomState, D>;
    type Record<D> = RecordMap<Format, Global, RandomState, D>;
    refused("an inline map", capacity, Inline::<D>::try_with_capacity(capacity));
    refused("a set", capacity, Set::<D>::try_with_capacity(capacity));
    refused("records", capacity, Record::<D>::try_with_capacity(capacity));
    refused("blobs", capacity, BlobMap::<RandomState, D>::try_with_capacity(capacity));
}

/// Options at the ends of their types' ranges are errors, or work.
///
/// # Panics
/// If one of them panics, or makes a map that does not work.
pub fn options_at_their_ends_are_refused() {
    let inline = |built: Result<DlhtMap<u64, u64>, Error>| {
        built.map(|map| assert_eq!((map.insert(1, 2), map.get(&1)), (None, Some(2)))).is_ok()
    };
    let dlht = DlhtBuilder::default;
    for number in [0, 1, 3, usize::MAX, usize::MAX - 1, usize::MAX / 2 + 1, 1 << 57] {
        watch::step(|| format!("options of {number}"));
        assert!(!inline(dlht().initial_bins(number).build()), "{number} bins");
        let _ = inline(dlht().growth_factor(number).build());
        let _ = inline(dlht().link_ratio(number).build());
        let chunk = inline(dlht().transfer_chunk(number).initial_bins(2).build());
        assert_eq!(chunk, number > 0, "chunks of {number}");
        let segments = pea().segment_buckets(number).build::<u64, u64, Entry16>();
        assert!(segments.is_err(), "segments of {number} buckets");
        let split = pea().split_into(number).build::<u64, u64, Entry16>();
        assert!(split.is_err(), "a split into {number}");
        let shards = turbo().shards(number).build::<u64, u64, Entry16>();
        let _ = shards.map(|map| assert_eq!((map.insert(1, 2), map.get(&1)), (None, Some(2))));
        let scope = turbo().scope(number).build::<u64, u64, Entry16>();
        let _ = scope.map(|map| assert_eq!((map.insert(1, 2), map.get(&1)), (None, Some(2))));
        let largest = IcebergBuilder::default().max_capacity(number).build();
        let map: Result<IcebergMap<u64, u64>, Error> = largest;
        let _ = map.map(|map| assert_eq!((map.insert(1, 2), map.get(&1)), (None, Some(2))));
    }
    assert!(pea().strategies(&[]).build::<u64, u64, Entry16>().is_err(), "no strategy");
    for share in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, -1.0, 0.0, 1e-300, 1.0, 2.0] {
        watch::step(|| format!("shares of {share}"));
        let load = IcebergBuilder::default().max_load(share).build::<u64, u64>();
        let _ = load.map(|map| assert!((0..1000).all(|key| map.insert(key, key).is_none())));
        let tombstones = turbo().tombstones(share).build::<u64, u64, Entry16>();
        let _ = tombstones.map(|map| assert!((0..1000).all(|key| map.insert(key, key).is_none())));
    }
}

fn reserves_nothing<K: Clone, V: Clone, M: ConcurrentMap<K, V>>(map: &M, keys: [K; 2], value: V) {
    map.insert(keys[0].clone(), value.clone());
    for additional in CAPACITIES {
        watch::step(|| format!("{additional} more"));
        let reserved = map.reserve(additional);
        assert!(reserved.is_err(), "room for {additional} more");
        assert!(map.contains_key(&keys[0]) && map.len() == 1);
    }
    let mut none: [Option<V>; 0] = [];
    assert_eq!(map.get_many(&[], &mut none).ok(), Some(0));
    assert_eq!(map.insert_many(&[], &mut none).ok(), Some(0));
    assert_eq!(map.remove_many(&[], &mut none).ok(), Some(0));
    assert!(map.get_many(&keys, &mut none).is_err());
    assert!(map.insert_many(&[(keys[1].clone(), value)], &mut none).is_err());
    assert!(map.remove_many(&keys, &mut none).is_err());
    assert_eq!(map.execute(&mut Vec::<Op<K, V>>::new(), Stop::AtFirstFailure), 0);
    assert_eq!((map.len(), map.reserve(0)), (1, Ok(())));
    assert_eq!(map.shrink_to_fit(), Ok(()));
}

fn of_design<D>()
where
    D: HashesWith<RandomState> + Unshadowed + Design<Medium = <Dlht as Design>::Medium>,
{
    let inline = InlineMap::<u64, u64, RandomState, D>::new();
    reserves_nothing(&inline, [1, 2], 3);
    let boxed = nunatak::BoxedMap::<String, String, RandomState, D>::new();
    reserves_nothing(&boxed, ["a".into(), "b".into()], "c".to_owned());
    let records = RecordMap::<Format, Global, RandomState, D>::new();
    reserves_nothing(&records, [vec![], vec![1; 20]], vec![2]);
    let blobs = BlobMap::<RandomState, D>::new();
    reserves_nothing(&blobs, [vec![], vec![1; 20]], vec![2]);
    let set = InlineSet::<u64, RandomState, D>::new();
    assert!(set.reserve(usize::MAX).is_err() && set.insert(1) && set.len() == 1);
    assert_eq!(set.contains_many(&[], &mut []), Ok(0));
    assert!(set.insert_many(&[1], &mut []).is_err());
    assert_eq!(set.execute(&mut [], Stop::Never), 0);
}

/// `reserve` of memory that no system can provide is an error, and so are batches whose slices
/// don't fit. Empty batches do nothing.
///
/// # Panics
/// If the map fails the check.
pub fn reservations_and_batches_may_be_absurd() {
    of_design::<Dlht>();
    of_design::<Iceberg>();
    of_design::<Pea>();
    of_design::<Turbo>();
    let multi: PeaMultiMap<u64, u64> = PeaMultiMap::new();
    assert!(CAPACITIES.iter().all(|&additional| multi.reserve(additional).is_err()));
    multi.insert_many(&[]);
    assert!(multi.count_many(&[1], &mut []).is_err());
    assert!(multi.remove_all_many(&[1], &mut []).is_err());
    assert_eq!(multi.count_many(&[], &mut []), Ok(()));
    let shadow: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    assert!(CAPACITIES.iter().all(|&additional| shadow.reserve(additional).is_err()));
    assert!(shadow.insert_many(&[]).is_ok_and(|new| new == 0));
    assert!(shadow.shadow_insert_many(&[]).is_ok_and(|shadows| shadows.is_empty()));
    let hidden: DlhtShadowRecordMap = DlhtShadowRecordMap::new();
    assert!(CAPACITIES.iter().all(|&additional| hidden.reserve(additional).is_err()));
    let records: DlhtRecordMap = DlhtRecordMap::new();
    records.pin().get_many::<&[u8]>(&[], |_, _| unreachable!("there are no keys"));
    assert_eq!(records.delete_many::<&[u8]>(&[]), 0);
    let _: (DlhtSet<u8>, DlhtBoxedMap<u8, u8>) = (DlhtSet::new(), DlhtBoxedMap::new());
}

/// A handle of a slot, used in another map, in a smaller map or after the map has shrunk, returns
/// the entry that is there, or nothing.
///
/// # Panics
/// If a handle finds something that is no entry.
pub fn handles_of_other_maps_are_harmless() {
    let large: IcebergMap<u64, u64> = IcebergMap::with_capacity(100_000);
    let small: IcebergMap<u64, u64> = IcebergMap::new();
    let boxed: IcebergBoxedMap<String, String> = IcebergBoxedMap::new();
    let keys = 0..50_000;
    assert!(keys.clone().all(|key| large.insert(key, key).is_none()));
    assert!((0..40).all(|key| small.insert(key, key).is_none()));
    (0..40).for_each(|key: u64| drop(boxed.insert(key.to_string(), key.to_string())));
    let handles: Vec<_> = keys.map(|key| large.slot(&key).expect("present")).collect();
    let look = || {
        let guard = boxed.pin();
        for handle in &handles {
            watch::tick();
            assert!(small.get_at(handle).is_none_or(|(key, value)| key == value));
            assert!(large.get_at(handle).is_none_or(|(key, value)| key == value));
            assert!(guard.get_at(handle).is_none_or(|(key, value)| key == value));
        }
    };
    look();
    large.clear();
    large.shrink_to_fit().expect("memory");
    look();
}
