//! Inserts of new keys by transactions, each durable before the thread's next one begins.

use crate::keys::value_of;
use crate::settings::Bench;
use crate::targets::Target;
use crate::threads::{CheckFailed, throughput};

/// Inserts keys that the map, which has all items, does not have yet: so many in a transaction.
pub(crate) fn insert<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
    transaction: u64,
) -> Result<f64, CheckFailed> {
    let (keys, items) = (bench.keys, bench.settings.items);
    throughput(threads, |worker| {
        // Indices above all items, and above those of other threads.
        let mut next = items + ((worker.number as u64 + 1) << 40);
        let mut entries = Vec::with_capacity(transaction as usize);
        let span = worker.repeat(bench.settings.time, || {
            entries.clear();
            entries.extend((next..next + transaction).map(|index| {
                let key = keys.key(index);
                (key, value_of(key))
            }));
            map.insert_synced(&entries);
            next += transaction;
            transaction
        });
        if entries.iter().any(|&(key, value)| map.get(key) != Some(value)) {
            return Err(CheckFailed("what was synced is not there".into()));
        }
        Ok(span)
    })
}
