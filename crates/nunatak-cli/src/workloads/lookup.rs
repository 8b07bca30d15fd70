//! Gets of keys that are all present (`get-hit`) or all absent (`get-miss`).

use super::{BLOCK, check, difference};
use crate::keys::{Popularity, value_of};
use crate::settings::Bench;
use crate::targets::{Step, Target};
use crate::threads::{CheckFailed, throughput};

/// Gets random present keys; every get must return the key's value.
pub(crate) fn hits<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
    batched: bool,
) -> Result<f64, CheckFailed> {
    let popularity = bench.settings.popularity();
    let wrong = |key, found| difference(found, value_of(key));
    gets(map, bench, threads, batched, popularity, Step::Get, wrong).map_err(|()| {
        CheckFailed("a get of a present key missed, or returned another key's value".into())
    })
}

/// Gets random absent keys; each must miss.
pub(crate) fn misses<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
    batched: bool,
) -> Result<f64, CheckFailed> {
    let popularity = bench.settings.popularity();
    let wrong = |_, found: Option<u64>| u64::from(found.is_some());
    gets(map, bench, threads, batched, popularity, Step::Miss, wrong)
        .map_err(|()| CheckFailed("a get of an absent key found it".into()))
}

fn gets<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
    batched: bool,
    popularity: Popularity,
    step: Step,
    wrong: impl Fn(u64, Option<u64>) -> u64 + Sync,
) -> Result<f64, ()> {
    let space = bench.keys;
    let offset = if step == Step::Miss { bench.settings.items } else { 0 };
    let measured = throughput(threads, |worker| {
        let mut indices = bench.indices(worker.number, popularity);
        let mut all = 0;
        let span = if T::WHOLE_LOOPS {
            let mut keys = vec![0; if batched { bench.settings.batch } else { BLOCK as usize }];
            worker.repeat(bench.settings.time, || {
                keys.fill_with(|| space.key(offset + indices.next()));
                all +=
                    if batched { map.run_batch(step, &keys) } else { map.run(step, &keys) } as u64;
                keys.len() as u64
            })
        } else if batched {
            let mut keys = vec![0; bench.settings.batch];
            let mut values = vec![None; bench.settings.batch];
            worker.repeat(bench.settings.time, || {
                keys.fill_with(|| space.key(offset + indices.next()));
                map.get_many(&keys, &mut values);
                for (&key, &value) in keys.iter().zip(&values) {
                    all |= wrong(key, value);
                }
                keys.len() as u64
            })
        } else {
            worker.repeat(bench.settings.time, || {
                for _ in 0..BLOCK {
                    let key = space.key(offset + indices.next());
                    all |= wrong(key, map.get(key));
                }
                BLOCK
            })
        };
        check(all, "")?;
        Ok(span)
    });
    measured.map_err(|_| ())
}
