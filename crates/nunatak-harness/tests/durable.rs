//! Durable maps pass the checks of all maps: as `ConcurrentMap`s, in files and in simulated
//! persistent memory.
#![cfg(target_os = "linux")]

use nunatak::durable::{
    BlobDesign, BlobsInFile, Durability, DurableDesign, FileMap, InFile, Map, Options, PeaMultiMap,
    Persistency, Simulation,
};
use nunatak::{Blocks, Iceberg, Pea, Turbo};
use nunatak_harness::infallible::Infallible;
use nunatak_harness::{Subject, model, multi};
use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

type Tiny = InFile<Iceberg<Blocks<8, 2>>>;
type Usual = InFile<Iceberg>;

/// Maps in files that were unlinked after their creation.
struct File<D>(PhantomData<fn() -> D>);

fn in_file<D: DurableDesign>(options: &Options) -> Infallible<Map<u64, u64, D>> {
    without_name(|path| Infallible(Map::create_with(path, options).expect("a new file")))
}

fn without_name<T>(create: impl FnOnce(&Path) -> T) -> T {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("nunatak-suite-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let map = create(&path);
    std::fs::remove_file(&path).expect("the file");
    map
}

impl<D: DurableDesign> Subject<u64, u64> for File<D> {
    type Map = Infallible<Map<u64, u64, D>>;

    fn build(&self, capacity: usize) -> Self::Map {
        in_file(&Options::new().capacity(capacity).segment_buckets(64))
    }

    fn adversarial(&self) -> Self::Map {
        in_file(&Options::new().max_load(0.95).segment_buckets(64).shards(2))
    }
}

/// Maps with small segments and few shards. Frequent syncs make them copy pages all the time.
struct Synced<D>(PhantomData<fn() -> D>);

impl<D: DurableDesign> Subject<u64, u64> for Synced<D> {
    type Map = Infallible<Map<u64, u64, D>>;

    fn build(&self, capacity: usize) -> Self::Map {
        let often = Durability::Interval(Duration::from_millis(2));
        let options = Options::new().capacity(capacity).segment_buckets(4).shards(16);
        in_file(&options.durability(often))
    }
}

type Bytes = Vec<u8>;

/// Maps of byte strings, synced frequently or never.
struct Blobs<D> {
    is_synced: bool,
    design: PhantomData<fn() -> D>,
}

impl<D> Blobs<D> {
    fn of(is_synced: bool) -> Self {
        Self { is_synced, design: PhantomData }
    }
}

impl<D: BlobDesign> Subject<Bytes, Bytes> for Blobs<D> {
    type Map = Infallible<FileMap<BlobsInFile<D>>>;

    fn build(&self, capacity: usize) -> Self::Map {
        let options = Options::new().capacity(capacity).shards(16).segment_buckets(16);
        let options = match self.is_synced {
            true => options.durability(Durability::Interval(Duration::from_millis(2))),
            false => options,
        };
        without_name(|path| Infallible(FileMap::create_with(path, &options).expect("a new file")))
    }

    /// Returns the table's part of the mapped memory: room for slots can be reserved, room for
    /// blobs can't, since their lengths are unknown.
    fn reservable(&self, map: &Self::Map) -> usize {
        map.memory_usage().mapped - map.blob_stats().mapped_bytes
    }
}

fn multi_in_file(options: &Options) -> PeaMultiMap<u64, u64> {
    without_name(|path| PeaMultiMap::create_with(path, options).expect("a new file"))
}

/// Maps in simulated persistent memory, which records all that happens.
struct Simulated<D>(PhantomData<fn() -> D>);

impl<D: DurableDesign> Subject<u64, u64> for Simulated<D> {
    type Map = Infallible<Map<u64, u64, D>>;

    fn build(&self, capacity: usize) -> Self::Map {
        let options = Options::new().capacity(capacity).segment_buckets(16).shards(4);
        Infallible(Simulation::new(Persistency::Lines).create(&options).expect("a new map"))
    }
}

nunatak_harness::suite_inline!(tiny, File::<super::Tiny>(super::PhantomData));
nunatak_harness::suite_sequential!(usual, u64, u64, File::<super::Usual>(super::PhantomData));
nunatak_harness::suite_sequential!(
    pea,
    u64,
    u64,
    File::<super::InFile<super::Pea>>(super::PhantomData)
);
nunatak_harness::suite_inline!(pea_synced, Synced::<super::InFile<super::Pea>>(super::PhantomData));
nunatak_harness::suite_sequential!(
    turbo,
    u64,
    u64,
    File::<super::InFile<super::Turbo>>(super::PhantomData)
);
nunatak_harness::suite_inline!(
    turbo_synced,
    Synced::<super::InFile<super::Turbo>>(super::PhantomData)
);

nunatak_harness::suite_sequential!(
    blobs,
    Bytes,
    Bytes,
    Blobs::<super::InFile<super::Turbo>>::of(false)
);
nunatak_harness::suite_inline!(
    blobs_synced,
    Bytes,
    Bytes,
    Blobs::<super::InFile<super::Turbo>>::of(true)
);
nunatak_harness::suite_sequential!(
    pea_blobs,
    Bytes,
    Bytes,
    Blobs::<super::InFile<super::Pea>>::of(false)
);
nunatak_harness::suite_inline!(
    pea_blobs_synced,
    Bytes,
    Bytes,
    Blobs::<super::InFile<super::Pea>>::of(true)
);

#[test]
fn histories_in_simulated_memory_are_linearizable() {
    fn check<D: DurableDesign>()
    where
        Map<u64, u64, D>: Sync,
    {
        let simulated = Simulated::<D>(PhantomData);
        nunatak_harness::record::histories_are_linearizable::<u64, u64, _>(&simulated);
        nunatak_harness::stress::presence::stable_keys_are_never_missed::<u64, u64, _>(&simulated);
    }
    check::<Tiny>();
    check::<InFile<Pea>>();
    check::<InFile<Turbo>>();
}

/// Checks maps with small and with usual segments, some of them synced frequently, and in
/// persistent memory.
#[test]
fn maps_of_many_values_pass_too() {
    let of_buckets = |buckets| Options::new().segment_buckets(buckets);
    let often = Durability::Interval(Duration::from_millis(2));
    let synced = || multi_in_file(&of_buckets(4).durability(often));
    for buckets in [2, 64, 2048] {
        model::behaves_like_vectors(|| multi_in_file(&of_buckets(buckets)));
    }
    model::behaves_like_vectors(synced);
    multi::histories_are_linearizable(|| multi_in_file(&of_buckets(2)));
    multi::histories_are_linearizable(synced);
    multi::values_stay_visible(|| multi_in_file(&of_buckets(64)));
    multi::values_stay_visible(synced);
    multi::cuts_are_consistent(synced);
    let simulated = || Simulation::new(Persistency::Lines).create(&of_buckets(4));
    multi::histories_are_linearizable(|| simulated().expect("a new map"));
    multi::an_emptied_map_is_small(
        || multi_in_file(&of_buckets(64)),
        |map| map.memory_usage().mapped,
    );
}
