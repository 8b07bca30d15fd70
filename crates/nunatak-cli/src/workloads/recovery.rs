//! The time to open a closed map, by its size.

use super::check;
use crate::keys::value_of;
use crate::settings::Bench;
use crate::targets::{MapName, Target};
use crate::threads::CheckFailed;
use std::time::{Duration, Instant};

/// Returns the numbers of items to measure.
fn sizes(items: u64) -> impl Iterator<Item = u64> {
    [16, 4, 1].into_iter().map(move |part| items.div_ceil(part))
}

/// Returns, for each size, the time to open the map with `threads` threads. The map grows in
/// between, as a user's would.
pub(crate) fn by_size<T: Target>(
    name: MapName,
    bench: &Bench<'_>,
    threads: usize,
) -> Result<Vec<(u64, Duration)>, CheckFailed> {
    let mut map = T::empty(name);
    let mut next = 0;
    let mut measure = |items: u64| {
        for index in next..items {
            let key = bench.keys.key(index);
            map.insert(key, value_of(key));
        }
        next = items;
        // The first reopening empties the log and cleans the pages, so the second does not measure
        // them.
        map.reopen(threads);
        let start = Instant::now();
        map.reopen(threads);
        let time = start.elapsed();
        let looked_at = (0..items).step_by((items / 1000).max(1) as usize);
        let is_wrong = |&index: &u64| {
            let key = bench.keys.key(index);
            map.get(key) != Some(value_of(key))
        };
        let wrong = looked_at.filter(is_wrong).count();
        check(wrong as u64, "an item was not there after the map was opened")?;
        Ok((items, time))
    };
    sizes(bench.settings.items).map(&mut measure).collect()
}
