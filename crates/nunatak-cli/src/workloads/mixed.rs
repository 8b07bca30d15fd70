//! Gets mixed with updates of present keys: `put-heavy`, `update-only` and YCSB A, B, C, F.

use super::whole_loops::Block;
use super::{BLOCK, check, difference};
use crate::keys::{Popularity, next_version, value_of, versioned};
use crate::settings::Bench;
use crate::targets::{Step, Target};
use crate::threads::{CheckFailed, throughput};
use nunatak::{Op, Outcome, Request};

/// A mix of gets and other operations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) percent_gets: u64,
    /// Whether the other operations read, modify and write atomically; otherwise they store a new
    /// value.
    pub(crate) modify: bool,
}

/// Runs the mix on random present keys. A batch of both is executed in order.
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
            let mut batch = Vec::with_capacity(bench.settings.batch);
            worker.repeat(bench.settings.time, || {
                version += 1;
                batch.clear();
                batch.resize_with(bench.settings.batch, || {
                    let key = space.key(indices.next());
                    Op::new(if is_get() {
                        Request::Get(key)
                    } else {
                        Request::Update(key, versioned(key, version))
                    })
                });
                map.execute(&mut batch);
                batch.iter().for_each(|operation| wrong |= wrong_outcome(operation));
                batch.len() as u64
            })
        } else if T::WHOLE_LOOPS {
            let mut block = Block::new();
            let change = if mix.modify { Step::Modify } else { Step::Update };
            let span = worker.repeat(bench.settings.time, || {
                version += 1;
                for _ in 0..BLOCK {
                    let key = space.key(indices.next());
                    block.add(map, if is_get() { Step::Get } else { change }, key, version);
                }
                block.run(map, version);
                BLOCK
            });
            wrong = block.wrong();
            span
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

/// Returns zero exactly if the operation found a value of its key.
fn wrong_outcome(operation: &Op<u64, u64>) -> u64 {
    match operation.outcome {
        Outcome::Found(value) | Outcome::Replaced(value) => {
            difference(Some(value), value_of(*operation.request.key()))
        }
        _ => 1,
    }
}
