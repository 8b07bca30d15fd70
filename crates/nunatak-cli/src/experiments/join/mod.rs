//! Figure 20 of DLHT: a hash join of two relations of 16-byte tuples in memory. The map's join is
//! not partitioned, as in the paper. A partitioned join, which uses no map of this project, is
//! measured beside it.

mod partitioned;
mod relations;

use crate::backing::back_free_memory;
use crate::experiment::figure::Figure;
use crate::machine::Machine;
use crate::settings::Settings;
use crate::statistics::Summary;
use crate::threads::{CheckFailed, check, throughput};
use nunatak::DlhtMap;
use relations::{Joined, PROBES, Relations, Together};
use std::sync::Barrier;

/// The most bytes that a join needs for a tuple of the build relation: the two relations, their
/// partitioned copies, and the map.
const BYTES: u64 = 2 * 16 * (1 + PROBES) + 64;

/// Builds a map of one relation, probes it with the other, and returns millions of tuples of both
/// a second.
fn with_map(
    relations: &Relations,
    threads: usize,
    batch: Option<usize>,
) -> Result<f64, CheckFailed> {
    let items = relations.build.len();
    back_free_memory(items as u64);
    let map: DlhtMap<u64, u64> = DlhtMap::with_capacity(items);
    let (all, is_built) = (Together::default(), Barrier::new(threads));
    let rate = throughput(threads, |worker| {
        let [build, probe] = relations.of_thread(worker.number, threads);
        let mut joined = Joined::default();
        let span = match batch {
            Some(size) => {
                let (mut keys, mut values) = (Vec::with_capacity(size), vec![None; size]);
                worker.once(|| {
                    for tuples in build.chunks(size) {
                        let stored = map.insert_many(tuples, &mut values);
                        stored.expect("as many values as tuples");
                    }
                    is_built.wait();
                    for tuples in probe.chunks(size) {
                        keys.clear();
                        keys.extend(tuples.iter().map(|tuple| tuple.0));
                        let found = map.get_many(&keys, &mut values);
                        found.expect("as many values as keys");
                        for ((_, payload), value) in tuples.iter().zip(&values) {
                            value.iter().for_each(|value| joined.add(*payload, *value));
                        }
                    }
                    (build.len() + probe.len()) as u64
                })
            }
            None => worker.once(|| {
                for &(key, payload) in build {
                    map.insert(key, payload);
                }
                is_built.wait();
                for (key, payload) in probe {
                    map.get(key).into_iter().for_each(|value| joined.add(*payload, value));
                }
                (build.len() + probe.len()) as u64
            }),
        };
        all.add(joined);
        Ok(span)
    })?;
    relations.check(&all)?;
    Ok(rate)
}

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "A hash join of two relations, tuples of both a second (DLHT, figure 20)";
    let measures = ["batch M/s", "no batch M/s", "ratio", "partitioned, without the map M/s"];
    let mut figure = Figure::new(title, &["threads"], &measures);
    let gib = (settings.items * BYTES) as f64 / f64::from(1 << 30);
    let fits = Machine::this().memory_gib.is_none_or(|memory| gib < memory);
    check(fits, &format!("the relations need {gib:.1} GiB; choose fewer --items"))?;
    let relations = Relations::new(settings.items, settings.seed);
    for &threads in &settings.threads {
        let mut samples = [const { Vec::new() }; 3];
        for _ in 0..settings.repetitions.max(1) {
            samples[0].push(with_map(&relations, threads, Some(settings.batch))?);
            samples[1].push(with_map(&relations, threads, None)?);
            samples[2].push(partitioned::join(&relations, threads)?);
        }
        let [batch, single, partitioned] =
            samples.map(|samples| Summary::of(&samples).map(|summary| summary.median));
        let ratio = batch.zip(single).map(|(batch, single)| batch / single);
        figure.add(&[&threads], vec![batch, single, ratio, partitioned]);
    }
    figure.note(format!(
        "{} tuples are built on and {} probed with, all from memory; every match is checked. \
         Partitioned: both relations are divided by {} bits of the key in one pass, then each part \
         is joined by a table of its own, in the caches. The pass counts.",
        relations.build.len(),
        relations.probe.len(),
        partitioned::bits(relations.build.len())
    ));
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_joins_have_every_match() {
        // Fewer tuples than threads, and enough for several parts.
        for items in [1, 3, 40_000] {
            let relations = Relations::new(items, 5);
            assert_eq!(relations.probe.len() as u64, 16 * items);
            for threads in [1, 3] {
                with_map(&relations, threads, Some(64)).unwrap();
                with_map(&relations, threads, None).unwrap();
                partitioned::join(&relations, threads).unwrap();
            }
        }
    }

    #[test]
    fn a_wrong_match_is_found() {
        let mut relations = Relations::new(1000, 5);
        relations.build[7].1 += 1;
        assert!(with_map(&relations, 2, Some(64)).is_err());
        assert!(with_map(&relations, 2, None).is_err());
        assert!(partitioned::join(&relations, 2).is_err());
        let mut relations = Relations::new(1000, 5);
        relations.build.pop();
        assert!(with_map(&relations, 2, Some(64)).is_err());
        assert!(partitioned::join(&relations, 2).is_err());
    }
}
