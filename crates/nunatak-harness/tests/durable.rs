//! Durable maps pass what every map does: as `ConcurrentMap`s, in files and in
//! simulated persistent memory.
#![cfg(target_os = "linux")]

use nunatak::durable::{DurableDesign, InFile, Map, Options, Persistency, Simulation};
use nunatak::{Blocks, Iceberg};
use nunatak_harness::Subject;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

type Tiny = InFile<Iceberg<Blocks<8, 2>>>;
type Usual = InFile<Iceberg>;

/// Maps in files that have no name any more.
struct File<D>(PhantomData<fn() -> D>);

fn in_file<D: DurableDesign>(options: &Options) -> Map<u64, u64, D> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("nunatak-suite-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let map = Map::create_with(&path, options).expect("a new file");
    std::fs::remove_file(&path).expect("the file");
    map
}

impl<D: DurableDesign> Subject<u64, u64> for File<D> {
    type Map = Map<u64, u64, D>;

    fn build(&self, capacity: usize) -> Self::Map {
        in_file(&Options::new().capacity(capacity))
    }

    fn adversarial(&self) -> Self::Map {
        in_file(&Options::new().max_load(0.95))
    }
}

/// Maps in persistent memory that remembers all that happens.
struct Simulated;

impl Subject<u64, u64> for Simulated {
    type Map = Map<u64, u64, Tiny>;

    fn build(&self, capacity: usize) -> Self::Map {
        let options = Options::new().capacity(capacity);
        Simulation::new(Persistency::Lines).create(&options).expect("a new map")
    }
}

nunatak_harness::suite_inline!(tiny, File::<super::Tiny>(super::PhantomData));
nunatak_harness::suite_inline!(usual, File::<super::Usual>(super::PhantomData));

#[test]
fn histories_in_simulated_memory_are_linearizable() {
    nunatak_harness::record::histories_are_linearizable::<u64, u64, _>(&Simulated);
    nunatak_harness::stress::presence::stable_keys_are_never_missed::<u64, u64, _>(&Simulated);
}
