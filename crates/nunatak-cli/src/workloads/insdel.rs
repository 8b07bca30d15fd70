//! Inserts of absent keys, each followed by the delete of the same key (InsDel of the DLHT paper). A
//! batch consists of such pairs, and is executed in order. Inserts and deletes count as operations.

use super::{BLOCK, check, difference};
use crate::keys::value_of;
use crate::settings::Bench;
use crate::targets::{Step, Target};
use crate::threads::{CheckFailed, throughput};
use nunatak::{Op, Outcome, Request};

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
            let mut batch = Vec::with_capacity(bench.settings.batch + 1);
            worker.repeat(bench.settings.time, || {
                batch.clear();
                while batch.len() < bench.settings.batch {
                    batch.extend(pair(next_key()));
                }
                map.execute(&mut batch);
                batch.iter().for_each(|operation| wrong |= wrong_outcome(operation));
                batch.len() as u64
            })
        } else if T::WHOLE_LOOPS {
            let mut keys = vec![0; BLOCK as usize / 2];
            worker.repeat(bench.settings.time, || {
                keys.fill_with(&mut next_key);
                wrong += map.run(Step::InsertAndRemove, &keys) as u64;
                BLOCK
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

/// Returns the insert of a key and its delete.
fn pair(key: u64) -> [Op<u64, u64>; 2] {
    [Request::Insert(key, value_of(key)), Request::Remove(key)].map(Op::new)
}

/// Returns zero exactly if the key was absent before its insert and present before its delete.
fn wrong_outcome(operation: &Op<u64, u64>) -> u64 {
    match operation.outcome {
        Outcome::Inserted => 0,
        Outcome::Removed(value) => difference(Some(value), value_of(*operation.request.key())),
        _ => 1,
    }
}
