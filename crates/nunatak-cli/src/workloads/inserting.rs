//! Gets of the items that a map was loaded with, while as many new items are inserted: YCSB A and B of
//! the IcebergHT paper, whose writes are inserts. The map doubles meanwhile.

use super::{check, difference};
use crate::keys::{Popularity, value_of};
use crate::settings::Bench;
use crate::targets::Target;
use crate::threads::{CheckFailed, share, throughput};

/// Runs gets, so many percent of all operations, and inserts on a map that has all items. The threads
/// divide the inserts among themselves.
pub(crate) fn with_gets<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
    percent_gets: u64,
) -> Result<f64, CheckFailed> {
    let (space, items) = (bench.keys, bench.settings.items);
    // A threshold for 16 random bits.
    let gets_below = percent_gets * (1 << 16) / 100;
    throughput(threads, |worker| {
        let mut indices = bench.indices(worker.number, Popularity::Uniform);
        let mut choices = bench.random(worker.number);
        let mut new = share(items, worker.number, threads).map(|index| space.key(items + index));
        let mut wrong = 0;
        let span = worker.once(|| {
            let mut operations = 0;
            loop {
                operations += 1;
                if choices.next() & 0xFFFF < gets_below {
                    let key = space.key(indices.next());
                    wrong |= difference(map.get(key), value_of(key));
                } else if let Some(key) = new.next() {
                    wrong |= u64::from(map.insert(key, value_of(key)).is_some());
                } else {
                    return operations - 1;
                }
            }
        });
        check(wrong, "a get of a present key missed it, or a new key was present")?;
        Ok(span)
    })
}
