//! Costs of operations while a map grows, of its resizes, and how much of its space items take, as in
//! figures 4 and 7 and table 3 of Pea Hash. The table counts its resizes; the time of an insert alone would not tell them apart.

use crate::backing::back_free_memory;
use crate::experiment::figure::Figure;
use crate::keys::{KeySpace, value_of};
use crate::settings::Settings;
use crate::targets::{MapName, Resizes, Target, with_target};
use crate::threads::CheckFailed;
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// The measurements at one number of items.
#[derive(Debug)]
struct Step {
    items: u64,
    load_factor: Option<f64>,
    bytes: Option<usize>,
    /// Nanoseconds of an insert, a hit, a miss and a delete.
    means: [f64; 4],
}

/// Grows all maps, one after the other. Each repetition has rows of its own, since a map grows
/// differently each time.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Figure>, CheckFailed> {
    let title = "Single operations while a map grows (Pea Hash, figures 4 and 7)";
    let measures =
        ["load factor", "bytes an item", "insert ns", "get-hit ns", "get-miss ns", "delete ns"];
    let mut growth = Figure::new(title, &["map", "repetition", "items"], &measures);
    let threshold = settings.options.growth.growth_slow_us;
    let title = format!("Inserts of {threshold} µs or more while the map grows");
    let measures =
        ["inserts", "least µs", "median µs", "90 % µs", "99 % µs", "most µs", "together ms"];
    let mut slowest = Figure::new(&title, &["map", "repetition"], &measures);
    let title = "Splits and rehashes, as the table counts them (Pea Hash, table 3; TurboHash, 4.7)";
    let measures = [
        "resizes",
        "pairs moved",
        "mean µs",
        "least µs",
        "median µs",
        "90 % µs",
        "99 % µs",
        "longest µs",
        "together ms",
        "% of inserts",
    ];
    let mut resizes = Figure::new(title, &["map", "repetition"], &measures);
    let title = "Space while the map grows (Pea Hash, figures 4 f, 7 f)";
    let measures = ["highest load factor", "average utility"];
    let mut space = Figure::new(title, &["map", "repetition"], &measures);
    for repetition in 1..=settings.repetitions {
        for &map in &settings.maps {
            back_free_memory(settings.items);
            let grown = with_target!(map, Map, Words => grow::<Map>(map, settings))?;
            for Step { items, load_factor, bytes, means } in grown.steps {
                let per_item = bytes.map(|bytes| bytes as f64 / items as f64);
                let values = [load_factor, per_item].into_iter().chain(means.map(Some));
                growth.add(&[&map, &repetition, &items], values.collect());
            }
            slowest.add(&[&map, &repetition], percentiles(&grown.slow));
            space.add(&[&map, &repetition], grown.space.figures());
            if let Some(counted) = grown.resizes {
                resizes.add(&[&map, &repetition], of_resizes(&counted, grown.inserts));
            }
        }
    }
    slowest
        .note("Whatever made an insert slow is in it: a resize, a page fault, or another process.");
    resizes.note(
        "Counted by the table, while the inserts ran: the time has that for memory, and for the \
         directory. The percentiles are rounded down by an eighth at most. The share is of the time of \
         all inserts. Other maps count no resizes.",
    );
    space.note(
        "Average utility, by section 2.2.2: the bytes of the items after each insert, summed, to those of \
         the map in memory or in its file. Both are taken 512 times while the map grows.",
    );
    Ok(vec![growth, slowest, resizes, space])
}

/// Makes a histogram of nanoseconds, up to a quarter of an hour. (`saturating_record` does not
/// enlarge a histogram without bounds.)
fn durations() -> Result<Histogram<u64>, CheckFailed> {
    Histogram::new_with_bounds(1, 1 << 40, 3).map_err(|error| CheckFailed(error.to_string()))
}

/// The measurements of one map while it grows.
struct Grown {
    steps: Vec<Step>,
    /// Nanoseconds of the slow inserts.
    slow: Histogram<u64>,
    /// The time of all inserts.
    inserts: Duration,
    /// The resizes during these inserts.
    resizes: Option<Resizes>,
    space: Space,
}

/// How much of a map's space its items take, at many moments.
#[derive(Debug, Default)]
struct Space {
    highest_load: Option<f64>,
    /// The sums over all moments.
    bytes_of_items: usize,
    bytes_of_map: Option<usize>,
}

impl Space {
    /// How often the space is looked at.
    const MOMENTS: u64 = 512;

    fn look<T: Target>(&mut self, map: &T, items: u64) {
        const ITEM: usize = 16;
        let load = map.load_factor();
        self.highest_load =
            self.highest_load.map_or(load, |highest| load.map(|load| load.max(highest)));
        if let Some(bytes) = map.bytes() {
            self.bytes_of_items += ITEM * items as usize;
            *self.bytes_of_map.get_or_insert_default() += bytes;
        }
    }

    fn figures(&self) -> Vec<Option<f64>> {
        let utility = self.bytes_of_map.map(|all| self.bytes_of_items as f64 / all as f64);
        vec![self.highest_load, utility]
    }
}

fn grow<T: Target>(name: MapName, settings: &Settings) -> Result<Grown, CheckFailed> {
    let options = &settings.options.growth;
    let keys = KeySpace::new(settings.seed, false);
    let map = T::empty(name);
    let mut slow = durations()?;
    let mut steps = Vec::new();
    let (mut next, mut inserts, mut resizes) = (0, Duration::ZERO, None);
    let (mut space, between) = (Space::default(), (settings.items / Space::MOMENTS).max(1));
    for step in 1..=options.growth_steps {
        let all = u128::from(settings.items);
        let items = (all * u128::from(step) / u128::from(options.growth_steps)) as u64;
        let before = map.resizes();
        while next < items {
            let key = keys.key(next);
            let start = Instant::now();
            let replaced = map.insert(key, value_of(key));
            let elapsed = start.elapsed();
            inserts += elapsed;
            if replaced.is_some() {
                return Err(CheckFailed("an insert of a new key found the key present".into()));
            }
            if elapsed >= Duration::from_micros(options.growth_slow_us) {
                slow.saturating_record(elapsed.as_nanos() as u64);
            }
            next += 1;
            if next.is_multiple_of(between) {
                space.look(&map, next);
            }
        }
        if let Some((before, now)) = before.zip(map.resizes()) {
            add_difference(resizes.get_or_insert_default(), &before, &now);
        }
        if items > 0 {
            steps.push(look(&map, &keys, items, options.growth_operations)?);
        }
    }
    Ok(Grown { steps, slow, inserts, resizes, space })
}

/// Adds what has happened between two counts. The longest of these resizes is known only if it is
/// the longest of all so far.
fn add_difference(sum: &mut Resizes, before: &Resizes, now: &Resizes) {
    sum.count += now.count - before.count;
    sum.moved += now.moved - before.moved;
    sum.time += now.time - before.time;
    sum.times.add_between(&before.times, &now.times);
    if now.longest > before.longest {
        sum.longest = now.longest;
    }
}

fn of_resizes(resizes: &Resizes, inserts: Duration) -> Vec<Option<f64>> {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let mean = (resizes.count > 0).then(|| micros(resizes.time) / resizes.count as f64);
    let share = (!inserts.is_zero()).then(|| 100.0 * resizes.time.div_duration_f64(inserts));
    let at = |quantile| resizes.times.quantile(quantile).map(micros);
    vec![
        Some(resizes.count as f64),
        Some(resizes.moved as f64),
        mean,
        at(0.0),
        at(0.5),
        at(0.9),
        at(0.99),
        Some(micros(resizes.longest)),
        Some(micros(resizes.time) / 1e3),
        share,
    ]
}

/// Measures operations on a map of `items` items, and leaves it as it was.
fn look<T: Target>(
    map: &T,
    keys: &KeySpace,
    items: u64,
    operations: u64,
) -> Result<Step, CheckFailed> {
    // Keys with indices far apart, which the map has already.
    let present: Vec<u64> =
        (0..operations).map(|n| keys.key(n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % items)).collect();
    let absent: Vec<u64> = (0..operations).map(|n| keys.key(u64::MAX / 2 + n)).collect();
    let timed = |keys: &[u64], expected: bool, operation: &dyn Fn(u64) -> bool| {
        let start = Instant::now();
        let as_expected = keys.iter().filter(|key| operation(**key) == expected).count();
        let mean = start.elapsed().as_nanos() as f64 / keys.len() as f64;
        match as_expected == keys.len() {
            true => Ok(mean),
            false => Err(CheckFailed("an operation found what is not there, or missed it".into())),
        }
    };
    let hit = timed(&present, true, &|key| map.get(key) == Some(value_of(key)))?;
    let miss = timed(&absent, false, &|key| map.get(key).is_some())?;
    let (load_factor, bytes) = (map.load_factor(), map.bytes());
    let insert = timed(&absent, false, &|key| map.insert(key, value_of(key)).is_some())?;
    let delete = timed(&absent, true, &|key| map.remove(key).is_some())?;
    Ok(Step { items, load_factor, bytes, means: [insert, hit, miss, delete] })
}

/// Returns the number of slow inserts, percentiles of their microseconds, and the sum of their
/// milliseconds.
fn percentiles(slow: &Histogram<u64>) -> Vec<Option<f64>> {
    let count = slow.len() as f64;
    let times = [0.0, 0.5, 0.9, 0.99, 1.0]
        .map(|quantile| (!slow.is_empty()).then(|| slow.value_at_quantile(quantile) as f64 / 1e3));
    let together = slow.mean() * count / 1e6;
    [Some(count)].into_iter().chain(times).chain([Some(together)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::Numbers;
    use nunatak::Pea;

    #[test]
    fn utility_is_the_share_of_the_items() {
        let mut space = Space::default();
        let map = Numbers::<Pea>::with_capacity(MapName::Pea, 100_000);
        for key in 0..50_000 {
            map.insert(key, key);
        }
        space.look(&map, 50_000);
        map.remove(7);
        space.look(&map, 49_999);
        let [load, utility] = space.figures()[..] else { unreachable!("there are two") };
        let bytes = 16.0 * 99_999.0 / utility.unwrap();
        assert!((bytes / 2.0 / map.bytes().unwrap() as f64 - 1.0).abs() < 0.01);
        assert!(load > map.load_factor());
        assert_eq!(Space::default().figures(), [None, None]);
    }

    #[test]
    fn resizes_are_as_long_as_they_took() {
        let mut slow = durations().unwrap();
        [300_000, 500_000, 2_000_000].into_iter().for_each(|nanos| slow.saturating_record(nanos));
        let found: Vec<f64> = percentiles(&slow).into_iter().flatten().map(f64::round).collect();
        assert_eq!(found, [3.0, 300.0, 500.0, 2001.0, 2001.0, 2001.0, 3.0]);
        let none = percentiles(&durations().unwrap());
        assert_eq!((none[0], none[1], none[6]), (Some(0.0), None, Some(0.0)));
    }
}
