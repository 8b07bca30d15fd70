//! How much of its memory a map of many values uses, and for what: figure 9 of Pea Hash.

use super::pairs::Source;
use crate::experiment::figure::Figure;
use crate::settings::Settings;
use crate::targets::{Hasher, MapName};
use crate::threads::{CheckFailed, check};
use nunatak::{Error, PeaMultiMap, PeaMultiStats};

/// How often the memory is looked at while the map grows.
const MOMENTS: usize = 512;

/// Bytes of a pair, of a bucket, and of a segment.
const PAIR: usize = 16;
const BUCKET: usize = 256;
const SEGMENT: usize = 2048 * BUCKET;
/// Stash buckets of a segment.
const STASH: usize = 2;

const MEASURES: [&str; 10] = [
    "average utility",
    "MiB",
    "% main",
    "% stash",
    "% value buffers",
    "% free buffers",
    "% other",
    "values in slots",
    "values in buffers",
    "pointers",
];

/// What a map that is measured does and tells.
struct Grown<'m> {
    insert: &'m dyn Fn(u64, u64) -> Result<(), Error>,
    bytes: &'m dyn Fn() -> usize,
    stats: &'m dyn Fn() -> PeaMultiStats,
}

/// Inserts the pairs of each source into each chosen map.
pub(super) fn by_kind(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Memory of keys with many values, by kind (Pea Hash, figure 9)";
    let mut figure = Figure::new(title, &["source", "map"], &MEASURES);
    let options = &settings.options.duplicates;
    for name in &options.duplicates_sources {
        let source: Source = name.parse().map_err(CheckFailed)?;
        let pairs = source.pairs(options.duplicates_scale, settings.items).map_err(CheckFailed)?;
        if settings.maps.contains(&MapName::Pea) {
            let map: PeaMultiMap<u64, u64, Hasher> = PeaMultiMap::new();
            let values = measure(
                &pairs,
                &Grown {
                    insert: &|key, value| {
                        map.insert(key, value);
                        Ok(())
                    },
                    bytes: &|| map.memory_usage().resident,
                    stats: &|| map.stats(),
                },
            )?;
            figure.add(&[name, &MapName::Pea], values);
        }
        #[cfg(durable)]
        if settings.maps.contains(&MapName::PeaFile) {
            use nunatak::durable;
            let failed = |error: &dyn std::fmt::Display| CheckFailed(error.to_string());
            let medium = crate::medium::Medium::used();
            let directory = medium.folder().map_err(|error| failed(&error))?;
            let (path, options) = (directory.path().join("map"), medium.options());
            let map = durable::PeaMultiMap::<u64, u64>::create_with(path, &options);
            let map = map.map_err(|error| failed(&error))?;
            let values = measure(
                &pairs,
                &Grown {
                    insert: &|key, value| map.insert(key, value),
                    bytes: &|| map.file_bytes() as usize,
                    stats: &|| map.stats(),
                },
            )?;
            figure.add(&[name, &MapName::PeaFile], values);
        }
    }
    figure.note(
        "Average utility, by section 2.2.2: the bytes of the pairs after each insert, summed, to those \
         of the map in memory or in its file; both are taken 512 times. Free buffers are those parts of \
         value segments that hold no buffer and take memory. Other memory is the directory, locks, and segments that \
         are not in use.",
    );
    Ok(figure)
}

fn measure(pairs: &[(u64, u64)], map: &Grown<'_>) -> Result<Vec<Option<f64>>, CheckFailed> {
    let between = (pairs.len() / MOMENTS).max(1);
    let (mut of_pairs, mut of_map) = (0, 0);
    for (at, &(key, value)) in pairs.iter().enumerate() {
        (map.insert)(key, value).map_err(|error| CheckFailed(error.to_string()))?;
        if (at + 1).is_multiple_of(between) {
            of_pairs += (at + 1) * PAIR;
            of_map += (map.bytes)();
        }
    }
    let (stats, bytes) = ((map.stats)(), (map.bytes)());
    check(stats.table.len == pairs.len(), "a value was lost")?;
    let kinds = kinds(&stats, bytes);
    let share = |part: usize| 100.0 * part as f64 / bytes.max(1) as f64;
    let counts = [stats.table.len - stats.buffered, stats.buffered, stats.pointers];
    let first = [of_pairs as f64 / of_map.max(1) as f64, bytes as f64 / f64::from(1 << 20)];
    let all = first.into_iter().chain(kinds.map(share)).chain(counts.map(|count| count as f64));
    Ok(all.map(Some).collect())
}

/// Returns the bytes of main buckets, of stash buckets, of value buffers, of the free parts of value
/// segments, and of everything else.
fn kinds(stats: &PeaMultiStats, bytes: usize) -> [usize; 5] {
    let main = stats.table.segments * SEGMENT;
    let stash = stats.table.segments * STASH * BUCKET;
    let buffers: usize =
        stats.buffers.iter().enumerate().map(|(kind, count)| count * (BUCKET << kind)).sum();
    let rest = bytes.saturating_sub(main + stash + buffers);
    // In RAM, pages of a value segment that no buffer has used take no memory.
    let free = (stats.value_segments * SEGMENT).saturating_sub(buffers).min(rest);
    [main, stash, buffers, free, rest - free]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_are_all_of_the_memory() {
        let map: PeaMultiMap<u64, u64> = PeaMultiMap::new();
        (0..200_000).for_each(|value| map.insert(value % 1000, value));
        (0..100_000).for_each(|key| map.insert(1000 + key, key));
        let (stats, bytes) = (map.stats(), map.memory_usage().resident);
        let kinds = kinds(&stats, bytes);
        assert_eq!(kinds.iter().sum::<usize>(), bytes);
        // A thousand keys of 200 values of 8 bytes; a hundred thousand of one.
        assert!(kinds[2] >= 200_000 * 8 && kinds[0] >= 100_000 * 16, "{kinds:?}");
        assert!(kinds[4] < bytes / 2, "{kinds:?} of {bytes}");
    }
}
