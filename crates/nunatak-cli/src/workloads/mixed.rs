//! Gets mixed with updates of present keys: `put-heavy` and YCSB A, B, C, F.

use super::{BLOCK, check, difference};
use crate::keys::{Popularity, next_version, value_of, versioned};
use crate::settings::Bench;
use crate::targets::Target;
use crate::threads::{CheckFailed, throughput};

/// A mix of gets and other operations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) percent_gets: u64,
    /// Whether the other operations read, modify and write atomically; otherwise they store a new
    /// value.
    pub(crate) modify: bool,
}

/// Runs the mix on random present keys. A batch is divided into a batch of gets and one of updates.
pub(crate) fn mixed<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
    batched: bool,
    popularity: Popularity,
    mix: Mix,
) -> Result<f64, CheckFailed> {
    let space = bench.keys;
    // A threshold for 16 random bits.
    let gets_below = mix.percent_gets * (1 << 16) / 100;
    throughput(threads, |worker| {
        let mut indices = bench.indices(worker.number, popularity);
        let mut choices = bench.random(worker.number);
        let mut is_get = move || choices.next() & 0xFFFF < gets_below;
        let mut version = 0;
        let mut wrong = 0;
        let span = if batched {
            let batch = bench.settings.batch;
            let mut keys = Vec::with_capacity(batch);
            let mut entries = Vec::with_capacity(batch);
            let mut results = vec![None; batch];
            worker.repeat(bench.settings.time, || {
                keys.clear();
                entries.clear();
                version += 1;
                for _ in 0..batch {
                    let key = space.key(indices.next());
                    if is_get() {
                        keys.push(key);
                    } else {
                        entries.push((key, versioned(key, version)));
                    }
                }
                map.get_many(&keys, &mut results);
                for (&key, &value) in keys.iter().zip(&results) {
                    wrong |= difference(value, value_of(key));
                }
                let present = map.update_many(&entries, &mut results);
                wrong |= (entries.len() - present) as u64;
                batch as u64
            })
        } else {
            worker.repeat(bench.settings.time, || {
                version += 1;
                for _ in 0..BLOCK {
                    let key = space.key(indices.next());
                    wrong |= if is_get() {
                        difference(map.get(key), value_of(key))
                    } else if mix.modify {
                        u64::from(!map.modify(key, next_version))
                    } else {
                        u64::from(!map.update(key, versioned(key, version)))
                    };
                }
                BLOCK
            })
        };
        check(wrong, "an operation on a present key missed it, or saw another key's value")?;
        Ok(span)
    })
}
