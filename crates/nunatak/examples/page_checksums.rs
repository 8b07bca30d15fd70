//! What checksums of pages cost: inserts and syncs with them and without, by turns. Takes the folder
//! for the files; on a disk a sync waits for the disk, in `/dev/shm` for nothing.
//!
//! ```sh
//! cargo run --release -p nunatak --example page_checksums -- FOLDER
//! ```

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> Result<(), nunatak::Error> {
    use nunatak::durable::{PeaMap, TurboMap};

    const ROUNDS: usize = 3;
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let path = std::path::Path::new(&folder).join(".page-checksums.map");
    for (inserts, a_sync) in [(200_000, 1000), (2_000_000, 2_000_000)] {
        for round in 1..=ROUNDS {
            for checksums in [false, true] {
                let sizes = (inserts, a_sync);
                let pea = speed(&path, checksums, sizes, |map: &PeaMap<u64, u64>, key, n| {
                    map.insert(key, n).map(drop)
                })?;
                let turbo = speed(&path, checksums, sizes, |map: &TurboMap<u64, u64>, key, n| {
                    map.insert(key, n).map(drop)
                })?;
                println!(
                    "{inserts} inserts, a sync after {a_sync}, checksums: {checksums}, round {round}: \
                     PeaMap {pea:.3}, TurboMap {turbo:.3} M/s"
                );
            }
        }
    }
    Ok(())
}

/// Returns how many million inserts a second a new map makes, its last sync included.
#[cfg(target_os = "linux")]
fn speed<T: nunatak::durable::MapInFile>(
    path: &std::path::Path,
    checksums: bool,
    (inserts, a_sync): (u64, u64),
    insert: impl Fn(&nunatak::durable::FileMap<T>, u64, u64) -> Result<(), nunatak::Error>,
) -> Result<f64, nunatak::Error> {
    use nunatak::durable::{FileMap, Options};

    let map = FileMap::<T>::create_with(path, &Options::new().page_checksums(checksums))?;
    let begin = std::time::Instant::now();
    for n in 0..inserts {
        insert(&map, n.wrapping_mul(0x9E37_79B9_7F4A_7C15), n)?;
        if (n + 1) % a_sync == 0 {
            map.sync()?;
        }
    }
    let time = begin.elapsed();
    drop(map);
    let _ = std::fs::remove_file(path);
    Ok(inserts as f64 / time.as_secs_f64() / 1e6)
}
