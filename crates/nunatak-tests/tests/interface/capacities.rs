//! Capacities that no machine has. Each is an error at once, for every map and every way to ask for
//! it. A map that has refused one works as before.

use nunatak::alloc::Global;
use nunatak::entry::{Format, Plain, VARIABLE};
use nunatak::{
    BlobMap, BoxedMap, ConcurrentMap, Dlht, DlhtMap, DlhtRecordMap, DlhtSet, DlhtShadowMap,
    DlhtShadowRecordMap, Error, HashesWith, Iceberg, IcebergMap, InlineMap, InlineSet, Pea, PeaMap,
    PeaMap8, PeaMap12, PeaMultiMap, RandomState, RecordMap, Turbo, TurboMap, Unshadowed,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Capacities from more than all addresses up to the largest number. (Smaller ones may be granted:
/// addresses without memory.)
fn absurd() -> impl Iterator<Item = usize> {
    let powers = (43..usize::BITS).map(|bit| 1 << bit);
    let around = powers.flat_map(|power: usize| [power - 1, power, power + 1]);
    let shares = (2..9).map(|share| usize::MAX / share);
    let bytes = (1..9).map(|log| isize::MAX as usize >> log);
    let ends = [usize::MAX, usize::MAX - 1, usize::MAX - 7, isize::MAX as usize];
    around.skip(1).chain(shares).chain(bytes).chain(ends)
}

/// All failures.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    /// Checks that `ask` returns an error for each capacity, and soon.
    fn refuses<T>(&mut self, what: &str, mut ask: impl FnMut(usize) -> Result<T, Error>) {
        for capacity in absurd() {
            let start = Instant::now();
            let answer = catch_unwind(AssertUnwindSafe(|| ask(capacity).map(drop)));
            let took = start.elapsed();
            let wrong = match answer {
                Err(_) => "panics",
                Ok(Ok(())) => "succeeds",
                Ok(Err(_)) if took > Duration::from_secs(60) => "takes long",
                Ok(Err(_)) => continue,
            };
            self.0.push(format!("{what} {wrong} for {capacity:#x}"));
        }
    }

    /// Checks the same of `reserve`, of a map that has an entry then and takes more.
    fn refuses_more<M: ConcurrentMap<u64, u64>>(&mut self, what: &str, map: &M) {
        map.insert(1, 10);
        self.refuses(&format!("reserve of {what}"), |more| map.reserve(more));
        (2..1000).for_each(|key| assert_eq!(map.insert(key, key), None, "{what}"));
        assert_eq!((map.get(&1), map.len()), (Some(10), 999), "{what}");
        map.shrink_to_fit().unwrap();
        map.reserve(10_000).unwrap();
        assert_eq!((map.get(&1), map.remove(&999)), (Some(10), Some(999)), "{what}");
    }

    #[track_caller]
    fn none(self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}

fn of_design<D: HashesWith<RandomState> + Unshadowed>(name: &str) -> Findings
where
    BoxedMap<u64, u64, RandomState, D>: ConcurrentMap<u64, u64>,
{
    type Map<D> = InlineMap<u64, u64, RandomState, D>;
    type Records<D> = RecordMap<Format, Global, RandomState, D>;
    let mut found = Findings::default();
    found.refuses(&format!("{name} map"), Map::<D>::try_with_capacity);
    found.refuses(&format!("{name} set"), InlineSet::<u64, RandomState, D>::try_with_capacity);
    found.refuses(&format!("{name} records"), Records::<D>::try_with_capacity);
    found.refuses_more(name, &Map::<D>::new());
    found.refuses_more(&format!("boxed {name}"), &BoxedMap::<u64, u64, RandomState, D>::new());
    let set: InlineSet<u64, RandomState, D> = (0..100).collect();
    found.refuses(&format!("reserve of {name} set"), |more| set.reserve(more));
    assert!(set.len() == 100 && set.contains(&99));
    let records = Records::<D>::new();
    records.put(b"a", b"1").unwrap();
    found.refuses(&format!("reserve of {name} records"), |more| records.reserve(more));
    assert_eq!(records.get(b"a"), Some(b"1".to_vec()));
    found
}

#[test]
fn every_design_refuses_them() {
    of_design::<Dlht>("Dlht").none();
    of_design::<Iceberg>("Iceberg").none();
    of_design::<Pea>("Pea").none();
    of_design::<Turbo>("Turbo").none();
}

#[test]
fn every_blob_map_refuses_them() {
    let mut found = Findings::default();
    macro_rules! check {
        ($($design:ty),*) => {$(
            let name = concat!(stringify!($design), " blobs");
            found.refuses(name, BlobMap::<RandomState, $design>::try_with_capacity);
            let map = BlobMap::<RandomState, $design>::new();
            map.put(b"a", b"1").unwrap();
            found.refuses(&format!("reserve of {name}"), |more| map.reserve(more));
            assert_eq!(map.get(b"a"), Some(b"1".to_vec()));
        )*};
    }
    check!(Dlht, Iceberg, Pea, Turbo);
    found.none();
}

/// Tables that reserve addresses for twice the memory refuse larger capacities before they take any
/// memory.
#[test]
fn more_than_all_memory_is_refused_before_it_is_taken() {
    fn check<D: HashesWith<RandomState> + Unshadowed>() {
        type Map<D> = InlineMap<u64, u64, RandomState, D>;
        for capacity in (40..43).map(|bit| 1 << bit) {
            let start = Instant::now();
            assert!(Map::<D>::try_with_capacity(capacity).is_err(), "{capacity:#x}");
            let map: Map<D> = InlineMap::new();
            assert!(map.reserve(capacity).is_err(), "{capacity:#x}");
            assert!(start.elapsed() < Duration::from_secs(60), "{capacity:#x} takes long");
            assert!(map.memory_usage().resident < 1 << 24);
        }
    }
    check::<Pea>();
    check::<Turbo>();
}

#[test]
fn the_builders_of_dlht_refuse_them() {
    let mut found = Findings::default();
    let of = |capacity| DlhtMap::<u64, u64>::builder().capacity(capacity);
    found.refuses("map", |n| -> Result<DlhtMap<u64, u64>, _> { of(n).build() });
    found.refuses("set", |n| -> Result<DlhtSet<u64>, _> { of(n).build_set() });
    found.refuses("boxed", |n| of(n).build_boxed::<u64, u64>());
    found.refuses("shadows", |n| of(n).build_shadow::<u64, u64>());
    let records = |n| -> Result<DlhtRecordMap, _> { of(n).build_records(Global) };
    found.refuses("records", records);
    let records = |n| -> Result<DlhtShadowRecordMap, _> { of(n).build_shadow_records(Global) };
    found.refuses("shadow records", records);
    found.refuses("few links", |n| of(n).link_ratio(64).build_boxed::<u64, u64>());
    let bins = |n: usize| DlhtMap::<u64, u64>::builder().initial_bins(n & !1);
    found.refuses("bins", |n| bins(n).build_boxed::<u64, u64>());

    let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    map.insert(1, 10).unwrap();
    found.refuses("reserve of shadows", |more| map.reserve(more));
    assert_eq!(map.get(&1), Some(10));
    let map: DlhtShadowRecordMap<Format<VARIABLE, VARIABLE, Plain>> = DlhtShadowRecordMap::new();
    map.put(b"a", b"1").unwrap();
    found.refuses("reserve of shadow records", |more| map.reserve(more));
    assert_eq!(map.get(b"a"), Some(b"1".to_vec()));
    found.none();
}

#[test]
fn the_builder_of_iceberg_refuses_them() {
    let mut found = Findings::default();
    let builder = IcebergMap::<u64, u64>::builder;
    for load in [0.01, 0.5, 0.95] {
        let of = |n| builder().max_load(load).capacity(n);
        found.refuses("map", |n| of(n).build::<u64, u64>());
        found.refuses("set", |n| of(n).build_set::<u64>());
        found.refuses("boxed", |n| of(n).build_boxed::<u64, u64>());
        // The capacity exceeds the largest allowed one.
        found.refuses("beyond most", |n| of(n).max_capacity(1000).build::<u64, u64>());
    }
    found.refuses("both", |n| builder().capacity(n).max_capacity(n).build::<u64, u64>());
    let smallest = |n| builder().capacity(n).blocks::<nunatak::Blocks<32, 4>>();
    found.refuses("smallest blocks", |n| smallest(n).build::<u64, u64>());
    // All addresses may be enough for this capacity: then there is a map.
    for capacity in absurd() {
        let built = catch_unwind(|| builder().max_capacity(capacity).build::<u64, u64>());
        match built.expect("no panic") {
            Ok(map) => assert_eq!((map.insert(1, 2), map.get(&1)), (None, Some(2))),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    found.none();
}

#[test]
fn the_builder_of_pea_refuses_them() {
    let mut found = Findings::default();
    for buckets in [2, 64, 2048] {
        let of = |n| PeaMap::<u64, u64>::builder().capacity(n).segment_buckets(buckets);
        found.refuses("map", |n| -> Result<PeaMap<u64, u64>, _> { of(n).build() });
        found.refuses("8 bytes", |n| -> Result<PeaMap8<u32, u32>, _> { of(n).build() });
        found.refuses("12 bytes", |n| -> Result<PeaMap12<u32, u64>, _> { of(n).build() });
        found.refuses("set", |n| -> Result<nunatak::PeaSet<u64>, _> { of(n).build_set() });
        found.refuses("boxed", |n| of(n).build_boxed::<u64, u64>());
        found.refuses("multi", |n| of(n).build_multi::<u64, u64>());
    }
    let map: PeaMultiMap<u64, u64> = [(1, 10)].into_iter().collect();
    found.refuses("reserve of multi", |more| map.reserve(more));
    assert_eq!(map.get(&1), Some(10));
    found.none();
}

#[test]
fn the_builder_of_turbo_refuses_them() {
    let mut found = Findings::default();
    for shards in [None, Some(2), Some(1 << 20)] {
        let of = |n| {
            let builder = TurboMap::<u64, u64>::builder().capacity(n);
            match shards {
                Some(shards) => builder.shards(shards),
                None => builder,
            }
        };
        found.refuses("map", |n| -> Result<TurboMap<u64, u64>, _> { of(n).build() });
        found.refuses("set", |n| -> Result<nunatak::TurboSet<u64>, _> { of(n).build_set() });
        found.refuses("boxed", |n| of(n).build_boxed::<u64, u64>());
        found.refuses("blobs", |n| of(n).build_blobs());
    }
    found.none();
}

#[cfg(target_os = "linux")]
#[test]
fn durable_maps_refuse_them() {
    use nunatak::durable::{self, Options};
    let mut found = Findings::default();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let of = |n| Options::new().capacity(n);
    macro_rules! check {
        ($name:literal, $map:ty, $insert:expr, $get:expr) => {
            found.refuses($name, |n| {
                let _ = std::fs::remove_file(&path);
                <$map>::create_with(&path, &of(n))
            });
            let _ = std::fs::remove_file(&path);
            let map = <$map>::create(&path).expect("after a failure");
            $insert(&map);
            found.refuses(concat!("reserve of ", $name), |more| map.reserve(more));
            assert!($get(&map), "{}", $name);
            drop(map);
            assert!($get(&<$map>::open(&path).unwrap()), "{}", $name);
            let _ = std::fs::remove_file(&path);
        };
    }
    macro_rules! of_words {
        ($name:literal, $map:ty) => {
            let insert = |map: &$map| assert!(map.insert(1, 10).is_ok());
            check!($name, $map, insert, |map: &$map| map.get(&1) == Some(10));
        };
    }
    of_words!("Iceberg", durable::IcebergMap<u64, u64>);
    of_words!("Pea", durable::PeaMap<u64, u64>);
    of_words!("Turbo", durable::TurboMap<u64, u64>);
    of_words!("Multi", durable::PeaMultiMap<u64, u64>);
    let insert = |map: &durable::TurboBlobMap| assert!(map.put(b"a", b"1").is_ok());
    let get = |map: &durable::TurboBlobMap| map.get(b"a") == Some(b"1".to_vec());
    check!("blobs", durable::TurboBlobMap, insert, get);
    let insert = |map: &durable::PeaBlobMap| assert!(map.put(b"a", b"1").is_ok());
    let get = |map: &durable::PeaBlobMap| map.get(b"a") == Some(b"1".to_vec());
    check!("Pea blobs", durable::PeaBlobMap, insert, get);
    let insert = |map: &durable::IcebergBlobMap| assert!(map.put(b"a", b"1").is_ok());
    let get = |map: &durable::IcebergBlobMap| map.get(b"a") == Some(b"1".to_vec());
    check!("Iceberg blobs", durable::IcebergBlobMap, insert, get);
    found.none();
}
