//! How many buckets of TurboHash a search looks at, and how long it takes: figures 1, 11 and 12 of its
//! paper. The counts do not depend on the machine.

use crate::backing::back_free_memory;
use crate::clock::Clock;
use crate::experiment::figure::Figure;
use crate::keys::{KeySpace, Random, value_of};
use crate::settings::Settings;
use crate::threads::{CheckFailed, check};
use hdrhistogram::Histogram;
use nunatak::{Error, TurboMap};

type Map = TurboMap<u64, u64>;

/// As few shards as there can be: the loads of small ones differ.
const SHARDS: usize = 2;

/// The greatest numbers of buckets of the columns of a histogram. The last one has all beyond.
const COLUMNS: [usize; 7] = [1, 2, 3, 4, 8, 16, usize::MAX];

/// Makes a map without garbage collection that has room for so many items, with this scope.
fn map(items: u64, scope: Option<usize>) -> Result<Map, CheckFailed> {
    let mut builder = TurboMap::<u64, u64>::builder().shards(SHARDS).tombstones(1.0);
    builder = scope.map_or(builder.clone(), |scope| builder.scope(scope));
    builder.capacity(items as usize).build().map_err(failed)
}

fn failed(error: Error) -> CheckFailed {
    CheckFailed(error.to_string())
}

pub(crate) fn run(settings: &Settings) -> Result<Vec<Figure>, CheckFailed> {
    let [by_load, times] = by_load(settings)?;
    Ok(vec![by_scope(settings)?, by_load, times])
}

/// Fills shards until one of them must grow, for each scope.
fn by_scope(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Load when a shard must grow, by the scope of probes (TurboHash, figure 1)";
    let measures = ["load %", "buckets a hit", "buckets a miss", "buckets of a shard"];
    let mut figure = Figure::new(title, &["scope"], &measures);
    let space = KeySpace::new(settings.seed, false);
    for scope in [1, 2, 4, 8, 16, 32, 64] {
        back_free_memory(settings.items);
        let map = map(settings.items, Some(scope))?;
        let mut inserted = 0;
        // The last look at the map before a shard grew.
        let mut last = map.stats();
        let rehashes = last.rehashes;
        loop {
            for _ in 0..(settings.items / 256).max(1) {
                check(map.insert(space.key(inserted), 0).is_none(), "a new key was there")?;
                inserted += 1;
            }
            let stats = map.stats();
            if stats.rehashes > rehashes {
                break;
            }
            last = stats;
        }
        let hits = mean_distance(&last.distances);
        let buckets = (last.buckets / last.shards) as f64;
        let values = [100.0 * last.load_factor, hits, last.mean_probes, buckets];
        figure.add(&[&scope], values.map(Some).to_vec());
    }
    figure.note(
        "Two shards. A search for a present key looks at the buckets up to the key's, a search for an \
         absent key at the path of its first bucket. The paper's buckets have 13 slots of 16 bytes, \
         these have 15.",
    );
    Ok(figure)
}

/// Returns the mean number of buckets up to that of an entry.
fn mean_distance(distances: &[usize]) -> f64 {
    let entries: usize = distances.iter().sum();
    let buckets: usize =
        distances.iter().zip(1..).map(|(entries, buckets)| entries * buckets).sum();
    buckets as f64 / entries.max(1) as f64
}

/// Looks for absent keys in maps of several loads: filled, filled again with other keys, and after
/// garbage collection.
fn by_load(settings: &Settings) -> Result<[Figure; 2], CheckFailed> {
    let title = "Searches for absent keys, by load (TurboHash, figures 11 and 12)";
    let names = ["1", "2", "3", "4", "5-8", "9-16", "17-"].map(|buckets| format!("% of {buckets}"));
    let mut measures = vec!["load %", "mean buckets", "most"];
    measures.extend(names.iter().map(String::as_str));
    measures.extend(["miss ns", "99 %", "99.9 %", "hit ns", "99 %", "99.9 %"]);
    let mut figure = Figure::new(title, &["load", "map"], &measures);
    let title = "Histograms of the latencies of gets (TurboHash, figure 12)";
    let mut times = Figure::new(title, &["load", "map", "ns"], &["% of misses", "% of hits"]);
    let (space, clock) = (KeySpace::new(settings.seed, false), Clock::calibrated());
    for percent in [50, 60, 70, 80] {
        back_free_memory(settings.items);
        let map = map(settings.items, None)?;
        let items = map.stats().slots as u64 * percent / 100;
        let mut add = |name: &str, first: u64| {
            let stats = map.stats();
            let mut values = vec![100.0 * stats.load_factor, stats.mean_probes];
            values
                .push(stats.probes.iter().rposition(|&share| share > 0.0).map_or(0, |at| at + 1)
                    as f64);
            values.extend(histogram(&stats.probes));
            let gets = |first, are_there| {
                latencies(&map, &clock, settings, first..first + items, &space, are_there)
            };
            let (misses, hits) = (gets(1 << 60, false)?, gets(first, true)?);
            for ticks in [&misses, &hits] {
                let at = |quantile| clock.nanoseconds(ticks.value_at_quantile(quantile));
                values.extend([clock.nanoseconds(1) * ticks.mean(), at(0.99), at(0.999)]);
            }
            let load = format!("{percent} %");
            let columns = [&misses, &hits].map(|ticks| shares_by_time(ticks, &clock));
            for (bin, (miss, hit)) in columns[0].iter().zip(columns[1]).enumerate() {
                times.add(&[&load, &name, &bin_name(bin)], vec![Some(*miss), Some(hit)]);
            }
            figure.add(&[&load, &name], values.into_iter().map(Some).collect());
            Ok::<(), CheckFailed>(())
        };
        let insert = |from: u64| {
            (from..from + items).try_for_each(|at| {
                let key = space.key(at);
                check(map.insert(key, value_of(key)).is_none(), "a new key was there")
            })
        };
        insert(0)?;
        add("filled", 0)?;
        let is_whole = (0..items).all(|at| map.remove(&space.key(at)).is_some());
        check(is_whole, "a key was lost")?;
        insert(items)?;
        add("filled again", items)?;
        map.shrink_to_fit().map_err(failed)?;
        add("collected", items)?;
    }
    figure.note(
        "At 80 % the paper has a mean of 1.34 buckets and 6 at most when filled, 6.13 when filled again, \
         and as at first after garbage collection. The load is lower than asked for where a shard had \
         to grow. One thread.",
    );
    times.note(
        "Reading the clock is included. The table before has the percentiles of the same gets.",
    );
    Ok([figure, times])
}

/// The least nanoseconds of the bins of a histogram of latencies. The last bin has no end.
const BINS: [f64; 16] = [
    0.0, 25.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 400.0, 600.0, 800.0, 1200.0, 1600.0, 3200.0,
    6400.0, 12800.0,
];

fn bin_name(bin: usize) -> String {
    match BINS.get(bin + 1) {
        Some(end) => format!("{}-{end}", BINS[bin]),
        None => format!("{}-", BINS[bin]),
    }
}

/// Returns the percentage of the gets in each bin.
fn shares_by_time(ticks: &Histogram<u64>, clock: &Clock) -> [f64; BINS.len()] {
    let mut shares = [0.0; BINS.len()];
    for step in ticks.iter_recorded() {
        let nanos = clock.nanoseconds(step.value_iterated_to());
        let bin = BINS.partition_point(|&least| least <= nanos).saturating_sub(1);
        shares[bin] += 100.0 * step.count_since_last_iteration() as f64 / ticks.len() as f64;
    }
    shares
}

/// Returns the percentages of the columns.
fn histogram(shares: &[f64]) -> [f64; COLUMNS.len()] {
    let mut from = 0;
    COLUMNS.map(|most| {
        let end = most.min(shares.len());
        let share = shares[from.min(end)..end].iter().sum::<f64>();
        from = end;
        100.0 * share
    })
}

/// Returns the latencies, in ticks of the clock, of gets of random keys, which are all there or all
/// absent.
fn latencies(
    map: &Map,
    clock: &Clock,
    settings: &Settings,
    keys: std::ops::Range<u64>,
    space: &KeySpace,
    are_there: bool,
) -> Result<Histogram<u64>, CheckFailed> {
    const GETS: u64 = 100_000;
    let bounds = Histogram::new_with_bounds(1, 1 << 40, 3);
    let mut ticks: Histogram<u64> = bounds.map_err(|error| CheckFailed(error.to_string()))?;
    let mut random = Random::new(settings.seed);
    for _ in 0..GETS {
        let key = space.key(keys.start + random.below(keys.end - keys.start));
        let start = clock.now();
        let found = map.get(&key);
        ticks.saturating_record(clock.ticks_since(start));
        check(found.is_some() == are_there, "a get has lost its way")?;
    }
    Ok(ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_get_is_in_its_bin() {
        let clock = Clock::calibrated();
        let mut ticks: Histogram<u64> = Histogram::new_with_bounds(1, 1 << 40, 3).unwrap();
        for (nanos, count) in [(10.0, 60), (350.0, 30), (50_000.0, 10)] {
            ticks.record_n((nanos / clock.nanoseconds(1)) as u64, count).unwrap();
        }
        let shares = shares_by_time(&ticks, &clock).map(f64::round);
        let bin = |name: &str| (0..BINS.len()).position(|bin| bin_name(bin) == name).unwrap();
        assert_eq!((shares[0], shares[bin("300-400")], shares[bin("12800-")]), (60.0, 30.0, 10.0));
        assert_eq!(shares.iter().sum::<f64>(), 100.0);
    }

    #[test]
    fn columns_have_all_searches() {
        let shares = [0.4, 0.2, 0.1, 0.1, 0.05, 0.05, 0.0, 0.025, 0.075];
        let found = histogram(&shares).map(|percent| (percent * 10.0).round() / 10.0);
        assert_eq!(found, [40.0, 20.0, 10.0, 10.0, 12.5, 7.5, 0.0]);
        assert_eq!(histogram(&[1.0]), [100.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(mean_distance(&[3, 0, 1]), 1.5);
    }
}
