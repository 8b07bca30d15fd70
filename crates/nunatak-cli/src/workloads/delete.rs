//! Deletes of all items, or of a part of them, in an order unrelated to that of their inserts. The
//! threads divide the items among themselves.

use super::whole_loops::run_all;
use super::{check, difference};
use crate::keys::{Popularity, value_of};
use crate::settings::Bench;
use crate::targets::{Step, Target};
use crate::threads::{CheckFailed, share, throughput};

/// Empties a map that has all items.
pub(crate) fn empty<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
    batched: bool,
) -> Result<f64, CheckFailed> {
    part(map, bench, threads, batched, |items| items)
}

/// Deletes from a map that has all items until it is 50 % full. If all items fill 95 % of its slots,
/// as in the experiments of IcebergHT, these are 45 of 95 items.
pub(crate) fn to_half<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
    batched: bool,
) -> Result<f64, CheckFailed> {
    part(map, bench, threads, batched, |items| items * 45 / 95)
}

/// Deletes so many of the items of each thread.
fn part<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
    batched: bool,
    of: impl Fn(u64) -> u64 + Sync,
) -> Result<f64, CheckFailed> {
    let space = bench.keys;
    let batch = bench.settings.batch;
    throughput(threads, |worker| {
        let part = share(bench.settings.items, worker.number, threads);
        let items = part.end - part.start;
        let deletes = of(items);
        let mut indices = bench.indices_of(items, worker.number, Popularity::Uniform);
        let mut next_key = move || space.key(part.start + indices.next());
        let mut wrong = 0;
        let span = worker.once(|| {
            if batched {
                let mut keys = Vec::with_capacity(batch);
                let mut results = vec![None; batch];
                let mut left = deletes as usize;
                while left > 0 {
                    keys.clear();
                    keys.extend((0..left.min(batch)).map(|_| next_key()));
                    map.remove_many(&keys, &mut results);
                    for (&key, &removed) in keys.iter().zip(&results) {
                        wrong |= difference(removed, value_of(key));
                    }
                    left -= keys.len();
                }
            } else if T::WHOLE_LOOPS {
                wrong = run_all(map, Step::Remove, (0..deletes).map(|_| next_key()));
            } else {
                for _ in 0..deletes {
                    let key = next_key();
                    wrong |= difference(map.remove(key), value_of(key));
                }
            }
            deletes
        });
        check(wrong, "a delete missed a present key, or returned another key's value")?;
        Ok(span)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::targets::{MapName, Numbers};
    use crate::workloads::populate;
    use clap::Parser as _;
    use nunatak::Pea;

    #[test]
    fn a_map_that_is_95_percent_full_becomes_half_full() {
        const ITEMS: u64 = 9500;
        let line = ["nunatak", "bench", "--items", "9500", "--batch", "7"];
        let Some(Command::Bench(args)) = Cli::parse_from(line).command else {
            unreachable!("it is the subcommand that is named");
        };
        let settings = args.settings();
        let bench = Bench::new(&settings);
        for batched in [false, true] {
            let map = Numbers::<Pea>::with_capacity(MapName::Pea, ITEMS as usize);
            populate::fill(&map, &bench, 2, batched).unwrap();
            to_half(&map, &bench, 2, batched).unwrap();
            let is_there = |&index: &u64| map.get(bench.keys.key(index)).is_some();
            assert_eq!((0..ITEMS).filter(is_there).count(), 5000);
        }
    }
}
