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
    use nunatak::durable::{Options, PeaMap, TurboMap};
    use std::time::Instant;

    const ROUNDS: usize = 3;
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let path = std::path::Path::new(&folder).join(".page-checksums.map");
    for (inserts, a_sync) in [(100_000_u64, 1000_u64), (1_000_000, 1_000_000)] {
        for round in 1..=ROUNDS {
            for has_checksums in [false, true] {
                let options = Options::new().page_checksums(has_checksums);
                let key = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let begin = Instant::now();
                let map: PeaMap<u64, u64> = PeaMap::create_with(&path, &options)?;
                for n in 0..inserts {
                    map.insert(key(n), n)?;
                    if (n + 1) % a_sync == 0 {
                        map.sync()?;
                    }
                }
                let pea = begin.elapsed();
                drop(map);
                let _ = std::fs::remove_file(&path);
                let begin = Instant::now();
                let map: TurboMap<u64, u64> = TurboMap::create_with(&path, &options)?;
                for n in 0..inserts {
                    map.insert(key(n), n)?;
                    if (n + 1) % a_sync == 0 {
                        map.sync()?;
                    }
                }
                let turbo = begin.elapsed();
                drop(map);
                let _ = std::fs::remove_file(&path);
                let speed = |time: std::time::Duration| inserts as f64 / time.as_secs_f64() / 1e6;
                println!(
                    "{inserts} inserts, a sync after {a_sync}, checksums: {has_checksums}, round {round}: \
                     PeaMap {:.3}, TurboMap {:.3} M/s",
                    speed(pea),
                    speed(turbo)
                );
            }
        }
    }
    Ok(())
}
