//! Inserts of new keys by the thousand, each thousand durable before the next begins.

use crate::keys::value_of;
use crate::settings::Bench;
use crate::targets::Target;
use crate::threads::{CheckFailed, throughput};

/// How many entries a transaction has.
const TRANSACTION: u64 = 1000;

/// Inserts keys that the map, which has all items, does not have yet.
pub(crate) fn insert<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
) -> Result<f64, CheckFailed> {
    let (keys, items) = (bench.keys, bench.settings.items);
    throughput(threads, |worker| {
        // Indices above all items, and above those of other threads.
        let mut next = items + ((worker.number as u64 + 1) << 40);
        let mut entries = Vec::with_capacity(TRANSACTION as usize);
        let span = worker.repeat(bench.settings.time, || {
            entries.clear();
            entries.extend((next..next + TRANSACTION).map(|index| {
                let key = keys.key(index);
                (key, value_of(key))
            }));
            map.insert_synced(&entries);
            next += TRANSACTION;
            TRANSACTION
        });
        if entries.iter().any(|&(key, value)| map.get(key) != Some(value)) {
            return Err(CheckFailed("what was synced is not there".into()));
        }
        Ok(span)
    })
}
