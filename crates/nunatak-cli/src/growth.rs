//! `nunatak growth`: what operations cost while a map grows, and what its resizes do, as
//! in figures 4 and 7 and table 3 of Pea Hash.

use crate::backing::back_free_memory;
use crate::keys::{KeySpace, value_of};
use crate::targets::{MapName, Target, with_target};
use crate::threads::CheckFailed;
use clap::Args;
use comfy_table::{Table, presets};
use hdrhistogram::Histogram;
use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Debug, Args)]
pub(crate) struct GrowthArgs {
    /// How many items at the end.
    #[arg(long, default_value_t = 8 << 20)]
    items: u64,
    /// How often operations are measured on the way.
    #[arg(long, default_value_t = 16)]
    steps: u64,
    /// How many operations of each kind are measured each time.
    #[arg(long, default_value_t = 10_000)]
    operations: u64,
    /// Inserts that take longer than so many microseconds count as resizes.
    #[arg(long, default_value_t = 200)]
    resize_us: u64,
    /// Which maps.
    #[arg(long, value_delimiter = ',', default_values_t = [MapName::Pea])]
    maps: Vec<MapName>,
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

/// What was measured when a map had so many items.
#[derive(Debug)]
struct Step {
    items: u64,
    load_factor: Option<f64>,
    bytes: Option<usize>,
    /// Nanoseconds of an insert, a lookup that hits, one that misses, and a delete.
    means: [f64; 4],
}

/// Grows all maps, one after the other.
pub(crate) fn run(args: &GrowthArgs) -> Result<ExitCode, Box<dyn Error>> {
    if args.items == 0 || args.steps == 0 || args.operations == 0 {
        return Err("items, steps and operations are at least one".into());
    }
    for &map in &args.maps {
        back_free_memory(args.items);
        let (steps, slow) =
            with_target!(map, Map, Words => grow::<Map>(map, args)).map_err(|error| error.0)?;
        println!("{map}\n{}\n{}\n", table(&steps), resizes(&slow, args.resize_us));
    }
    Ok(ExitCode::SUCCESS)
}

/// A histogram of nanoseconds, up to a quarter of an hour. (One without bounds grows when a
/// value is recorded, but not when it is recorded saturating.)
fn durations() -> Result<Histogram<u64>, CheckFailed> {
    Histogram::new_with_bounds(1, 1 << 40, 3).map_err(|error| CheckFailed(error.to_string()))
}

fn grow<T: Target>(
    name: MapName,
    args: &GrowthArgs,
) -> Result<(Vec<Step>, Histogram<u64>), CheckFailed> {
    let keys = KeySpace::new(args.seed, false);
    let map = T::empty(name);
    let mut slow = durations()?;
    let mut steps = Vec::new();
    let mut next = 0;
    for step in 1..=args.steps {
        let items = (u128::from(args.items) * u128::from(step) / u128::from(args.steps)) as u64;
        while next < items {
            let key = keys.key(next);
            let start = Instant::now();
            let before = map.insert(key, value_of(key));
            let elapsed = start.elapsed();
            if before.is_some() {
                return Err(CheckFailed("an insert of a new key found the key present".into()));
            }
            if elapsed >= Duration::from_micros(args.resize_us) {
                slow.saturating_record(elapsed.as_nanos() as u64);
            }
            next += 1;
        }
        if items > 0 {
            steps.push(look(&map, &keys, items, args)?);
        }
    }
    Ok((steps, slow))
}

/// Measures operations on a map of so many items, and leaves it as it was.
fn look<T: Target>(
    map: &T,
    keys: &KeySpace,
    items: u64,
    args: &GrowthArgs,
) -> Result<Step, CheckFailed> {
    // Far from one another, and none that is inserted later.
    let present: Vec<u64> = (0..args.operations)
        .map(|n| keys.key(n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % items))
        .collect();
    let absent: Vec<u64> = (0..args.operations).map(|n| keys.key(u64::MAX / 2 + n)).collect();
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

fn table(steps: &[Step]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "items",
        "load factor",
        "bytes an item",
        "insert ns",
        "get-hit ns",
        "get-miss ns",
        "delete ns",
    ]);
    let or_nothing = |number: Option<f64>, digits| {
        number.map_or_else(String::new, |number| format!("{number:.digits$}"))
    };
    for step in steps {
        let per_item = step.bytes.map(|bytes| bytes as f64 / step.items as f64);
        let mut row = vec![step.items.to_string()];
        row.push(or_nothing(step.load_factor, 3));
        row.push(or_nothing(per_item, 1));
        row.extend(step.means.map(|mean| format!("{mean:.0}")));
        table.add_row(row);
    }
    table.to_string()
}

fn resizes(slow: &Histogram<u64>, threshold: u64) -> String {
    let micros = |nanos: u64| format!("{:.0} µs", nanos as f64 / 1e3);
    if slow.is_empty() {
        return format!("no insert took {threshold} µs");
    }
    let total = slow.mean() * slow.len() as f64 / 1e6;
    format!(
        "{} inserts of {threshold} µs or more: least {}, median {}, 90 % {}, 99 % {}, most {}; {total:.0} ms together",
        slow.len(),
        micros(slow.min()),
        micros(slow.value_at_quantile(0.5)),
        micros(slow.value_at_quantile(0.9)),
        micros(slow.value_at_quantile(0.99)),
        micros(slow.max()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resizes_are_as_long_as_they_took() {
        let mut slow = durations().unwrap();
        [300_000, 500_000, 2_000_000].into_iter().for_each(|nanos| slow.saturating_record(nanos));
        let text = resizes(&slow, 200);
        assert!(
            text.starts_with("3 inserts of 200 µs or more: least 300 µs, median 500 µs"),
            "{text}"
        );
        assert!(text.ends_with("most 2001 µs; 3 ms together"), "{text}");
        assert_eq!(resizes(&durations().unwrap(), 200), "no insert took 200 µs");
    }
}
