//! Inserts of absent keys, each followed by the delete of the same key; or a
//! batch of inserts followed by a batch of deletes. Both count as operations.

use super::{BLOCK, check, difference};
use crate::keys::value_of;
use crate::settings::Bench;
use crate::targets::Target;
use crate::threads::{CheckFailed, throughput};

/// Inserts and deletes keys, and leaves the map as it was. Every thread has keys of its own and
/// takes a new one each time.
pub(crate) fn insert_and_delete<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
    batched: bool,
) -> Result<f64, CheckFailed> {
    let space = bench.keys;
    throughput(threads, |worker| {
        // Indices above all items, and out of reach of other threads.
        let mut index = bench.settings.items + ((worker.number as u64 + 1) << 40);
        let mut next_key = move || {
            index += 1;
            space.key(index)
        };
        let mut wrong = 0;
        let span = if batched {
            let batch = bench.settings.batch;
            let mut keys = vec![0; batch];
            let mut entries = Vec::with_capacity(batch);
            let mut results = vec![None; batch];
            worker.repeat(bench.settings.time, || {
                keys.fill_with(&mut next_key);
                entries.clear();
                entries.extend(keys.iter().map(|&key| (key, value_of(key))));
                let new = map.insert_many(&entries, &mut results);
                wrong |= (batch - new) as u64;
                map.remove_many(&keys, &mut results);
                for (&key, &removed) in keys.iter().zip(&results) {
                    wrong |= difference(removed, value_of(key));
                }
                2 * batch as u64
            })
        } else {
            worker.repeat(bench.settings.time, || {
                for _ in 0..BLOCK / 2 {
                    let key = next_key();
                    wrong |= u64::from(map.insert(key, value_of(key)).is_some());
                    wrong |= difference(map.remove(key), value_of(key));
                }
                BLOCK
            })
        };
        check(wrong, "an inserted key was there before, or was not there to be deleted")?;
        Ok(span)
    })
}
