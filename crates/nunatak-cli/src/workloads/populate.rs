//! Inserts of distinct keys: `insert` into a map that was made large enough,
//! `grow` into an empty one. The threads divide the indices among themselves.

use super::check;
use super::whole_loops::run_all;
use crate::keys::value_of;
use crate::settings::Bench;
use crate::targets::{Step, Target};
use crate::threads::{CheckFailed, share, throughput};

/// Inserts all items into the map, which must not have them.
pub(crate) fn fill<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
    batched: bool,
) -> Result<f64, CheckFailed> {
    let keys = bench.keys;
    let batch = bench.settings.batch;
    throughput(threads, |worker| {
        let indices = share(bench.settings.items, worker.number, threads);
        let mut entries = Vec::with_capacity(batch);
        let mut previous = vec![None; batch];
        let mut new = 0;
        let expected = indices.end - indices.start;
        let span = worker.once(|| {
            if batched {
                let mut next = indices.start;
                while next < indices.end {
                    let end = indices.end.min(next + batch as u64);
                    entries.clear();
                    entries.extend((next..end).map(|index| {
                        let key = keys.key(index);
                        (key, value_of(key))
                    }));
                    new += map.insert_many(&entries, &mut previous) as u64;
                    next = end;
                }
            } else if T::WHOLE_LOOPS {
                let keys = indices.map(|index| keys.key(index));
                new = expected - run_all(map, Step::Insert, keys);
            } else {
                for index in indices {
                    let key = keys.key(index);
                    new += u64::from(map.insert(key, value_of(key)).is_none());
                }
            }
            expected
        });
        check(expected - new, "an insert of a new key found the key present")?;
        Ok(span)
    })
}
