//! Latencies of single operations: while the map grows from empty, an insert, then a get of a random key
//! that the thread has inserted, and so on; or in YCSB A of the IcebergHT paper, on a loaded map that
//! doubles. The slowest operations meet a resize.

use super::{check, difference};
use crate::clock::Clock;
use crate::keys::value_of;
use crate::settings::Bench;
use crate::targets::{MapName, Target};
use crate::threads::{CheckFailed, share, throughput};
use hdrhistogram::Histogram;
use std::sync::Mutex;

/// Latencies in ticks of the clock, of all threads and repetitions.
#[derive(Debug, Clone)]
pub(crate) struct Latencies {
    pub(crate) inserts: Histogram<u64>,
    pub(crate) gets: Histogram<u64>,
    /// Of gets of absent keys.
    pub(crate) misses: Histogram<u64>,
}

impl Latencies {
    fn new() -> Self {
        // The highest value is minutes, on any clock; longer times count as that.
        let bounds = "the bounds are in order, and three digits are supported";
        let histogram = || Histogram::new_with_bounds(1, 1 << 40, 3).expect(bounds);
        Self { inserts: histogram(), gets: histogram(), misses: histogram() }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let same = "all histograms have the same bounds";
        self.inserts.add(&other.inserts).expect(same);
        self.gets.add(&other.gets).expect(same);
        self.misses.add(&other.misses).expect(same);
    }
}

/// Grows a map from empty and times every operation.
pub(crate) fn while_growing<T: Target>(
    map: MapName,
    bench: &Bench<'_>,
    clock: &Clock,
    threads: usize,
) -> Result<Latencies, CheckFailed> {
    let map = T::empty(map);
    let space = bench.keys;
    let sum = Mutex::new(Latencies::new());
    throughput(threads, |worker| {
        let mut own = Latencies::new();
        let mut random = bench.random(worker.number);
        let indices = share(bench.settings.items, worker.number, threads);
        let mut wrong = 0;
        let span = worker.once(|| {
            for index in indices.clone() {
                let key = space.key(index);
                let start = clock.now();
                let replaced = map.insert(key, value_of(key));
                own.inserts.saturating_record(clock.ticks_since(start));
                wrong |= u64::from(replaced.is_some());

                let inserted = index - indices.start + 1;
                let key = space.key(indices.start + random.below(inserted));
                let start = clock.now();
                let found = map.get(key);
                own.gets.saturating_record(clock.ticks_since(start));
                wrong |= difference(found, value_of(key));
            }
            2 * (indices.end - indices.start)
        });
        check(wrong, "while the map grew, a new key was present or an inserted one was not")?;
        sum.lock().expect("no thread panics with the lock").add(&own);
        Ok(span)
    })?;
    Ok(sum.into_inner().expect("no thread panicked with the lock"))
}

/// Times every operation of YCSB A, whose writes are inserts, on a map that was made for all items and has
/// them: as many inserts as gets, until there are twice as many items. Then as many gets of absent keys.
pub(crate) fn of_ycsb_a<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    clock: &Clock,
    threads: usize,
) -> Result<Latencies, CheckFailed> {
    let (space, items) = (bench.keys, bench.settings.items);
    let sum = Mutex::new(Latencies::new());
    throughput(threads, |worker| {
        let mut own = Latencies::new();
        let (mut random, mut choices) =
            (bench.random(worker.number), bench.random(worker.number + threads));
        let new = share(items, worker.number, threads);
        let misses = 2 * items + new.start..2 * items + new.end;
        let mut wrong = 0;
        let span = worker.once(|| {
            for index in new.clone() {
                // A get before each insert, on average.
                while choices.next() & 1 == 0 {
                    let key = space.key(random.below(items));
                    let start = clock.now();
                    let found = map.get(key);
                    own.gets.saturating_record(clock.ticks_since(start));
                    wrong |= difference(found, value_of(key));
                }
                let key = space.key(items + index);
                let start = clock.now();
                let replaced = map.insert(key, value_of(key));
                own.inserts.saturating_record(clock.ticks_since(start));
                wrong |= u64::from(replaced.is_some());
            }
            for key in misses.clone().map(|index| space.key(index)) {
                let start = clock.now();
                let found = map.get(key);
                own.misses.saturating_record(clock.ticks_since(start));
                wrong |= u64::from(found.is_some());
            }
            own.gets.len() + own.inserts.len() + own.misses.len()
        });
        check(wrong, "a present key was missed, or an absent one was found")?;
        sum.lock().expect("no thread panics with the lock").add(&own);
        Ok(span)
    })?;
    Ok(sum.into_inner().expect("no thread panicked with the lock"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::targets::Numbers;
    use crate::workloads::{inserting, populate};
    use clap::Parser as _;
    use nunatak::Iceberg;

    const ITEMS: u64 = 1000;

    fn with_bench(test: impl FnOnce(&Bench<'_>)) {
        let Some(Command::Bench(args)) =
            Cli::parse_from(["nunatak", "bench", "--items", "1000"]).command
        else {
            unreachable!("it is the subcommand that is named");
        };
        test(&Bench::new(&args.settings()));
    }

    fn keys<T: Target>(map: &T, bench: &Bench<'_>) -> usize {
        (0..3 * ITEMS).filter(|&index| map.get(bench.keys.key(index)).is_some()).count()
    }

    #[test]
    fn ycsb_a_doubles_the_map_and_times_each_kind_of_operation() {
        with_bench(|bench| {
            let map = Numbers::<Iceberg>::with_capacity(MapName::Iceberg, ITEMS as usize);
            populate::fill(&map, bench, 2, false).unwrap();
            let all = of_ycsb_a(&map, bench, &Clock::calibrated(), 2).unwrap();
            assert_eq!((all.inserts.len(), all.misses.len()), (ITEMS, ITEMS));
            assert!((800..1200).contains(&all.gets.len()), "{}", all.gets.len());
            assert_eq!(keys(&map, bench), 2 * ITEMS as usize);
        });
    }

    #[test]
    fn a_small_map_grows_to_all_items() {
        with_bench(|bench| {
            let map = Numbers::<Iceberg>::empty(MapName::Iceberg);
            inserting::load_a_few(&map, bench);
            assert_eq!(keys(&map, bench), 50);
            inserting::the_others(&map, bench, 2).unwrap();
            assert_eq!(keys(&map, bench), ITEMS as usize);
            for (percent, expected) in inserting::MIXES.into_iter().zip([190, 475]) {
                let map = Numbers::<Iceberg>::empty(MapName::Iceberg);
                inserting::from_a_few(&map, bench, 2, percent).unwrap();
                let inserted = keys(&map, bench) - 50;
                assert!(inserted.abs_diff(expected) < 80, "{inserted} and {expected}");
            }
        });
    }
}
