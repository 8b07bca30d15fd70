//! Speed against space: the rate of inserts into a map that was made large enough, by how full it
//! is (figure 6 of the IcebergHT paper). The memory is measured in a process of its own: see
//! [`space`](super::space).

use super::check;
use super::whole_loops::run_all;
use crate::keys::value_of;
use crate::settings::Bench;
use crate::targets::{MapName, Step, Target};
use crate::threads::{CheckFailed, share, throughput};

/// Returns the ends of the steps, in percents of the slots. All items fill 95 % of the slots.
pub(crate) fn steps() -> impl Iterator<Item = u8> {
    (5..=LAST).step_by(5)
}

const LAST: u8 = 95;

/// Returns how many items the map has at the end of a step.
pub(crate) fn items_at(percent: u8, all: u64) -> u64 {
    all * u64::from(percent) / u64::from(LAST)
}

/// Inserts all items in nineteen steps. Returns the end of each step, and its millions of inserts a
/// second.
pub(crate) fn in_steps<T: Target>(
    map: MapName,
    bench: &Bench<'_>,
    threads: usize,
) -> Result<Vec<(u8, f64)>, CheckFailed> {
    let space = bench.keys;
    let all = bench.settings.items;
    let map = T::with_capacity(map, all as usize);
    let step = |percent: u8| {
        let first = items_at(percent - 5, all);
        let items = items_at(percent, all) - first;
        let mops = throughput(threads, |worker| {
            let part = share(items, worker.number, threads);
            let mut present = 0;
            let span = worker.once(|| {
                if T::WHOLE_LOOPS {
                    let keys = part.clone().map(|index| space.key(first + index));
                    present = run_all(&map, Step::Insert, keys);
                    return part.end - part.start;
                }
                for index in part.clone() {
                    let key = space.key(first + index);
                    present += u64::from(map.insert(key, value_of(key)).is_some());
                }
                part.end - part.start
            });
            check(present, "an insert of a new key found the key present")?;
            Ok(span)
        })?;
        Ok((percent, mops))
    };
    steps().map(step).collect()
}
