//! Figure 20 of DLHT: a non-partitioned hash join of two relations of 16-byte tuples.

use super::figure::Figure;
use crate::backing::back_free_memory;
use crate::keys::{KeySpace, Random, value_of};
use crate::settings::Settings;
use crate::statistics::Summary;
use crate::threads::{CheckFailed, check, share, throughput};
use nunatak::DlhtMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many tuples of the probe relation there are for each tuple of the build relation.
const PROBES: u64 = 4;

/// Returns a tuple of the probe relation: a foreign key, and a payload.
fn probe_tuple(space: KeySpace, items: u64, at: u64) -> (u64, u64) {
    let key = space.key(Random::new(at).below(items));
    (key, at)
}

/// Returns a joined tuple's part of the checksum.
fn joined(payload: u64, found: u64) -> u64 {
    payload.rotate_left(17) ^ found
}

/// Builds on one relation, probes with the other, and returns millions of tuples of both a second.
fn join(settings: &Settings, threads: usize, batch: Option<usize>) -> Result<f64, CheckFailed> {
    let (items, space) = (settings.items, KeySpace::new(settings.seed, false));
    back_free_memory(items);
    let map: DlhtMap<u64, u64> = DlhtMap::with_capacity(items as usize);
    let (joined_tuples, checksum) = (AtomicU64::new(0), AtomicU64::new(0));
    let together = std::sync::Barrier::new(threads);
    let rate = throughput(threads, |worker| {
        let size = batch.unwrap_or(1);
        let (mut entries, mut keys) = (vec![(0, 0); size], vec![0; size]);
        let (mut payloads, mut values) = (vec![0; size], vec![None; size]);
        let build = share(items, worker.number, threads);
        let probe = share(PROBES * items, worker.number, threads);
        Ok(worker.once(|| {
            for from in build.clone().step_by(size) {
                let count = (build.end - from).min(size as u64) as usize;
                for (entry, at) in entries[..count].iter_mut().zip(from..) {
                    let key = space.key(at);
                    *entry = (key, value_of(key));
                }
                if batch.is_some() {
                    let stored = map.insert_many(&entries[..count], &mut values);
                    stored.expect("as many values as entries");
                } else {
                    map.insert(entries[0].0, entries[0].1);
                }
            }
            together.wait();
            let (mut tuples, mut sum) = (0_u64, 0_u64);
            for from in probe.clone().step_by(size) {
                let count = (probe.end - from).min(size as u64) as usize;
                for at in 0..count {
                    (keys[at], payloads[at]) = probe_tuple(space, items, from + at as u64);
                }
                if batch.is_some() {
                    let found = map.get_many(&keys[..count], &mut values);
                    found.expect("as many values as keys");
                } else {
                    values[0] = map.get(&keys[0]);
                }
                for (payload, value) in payloads[..count].iter().zip(&values) {
                    if let Some(found) = value {
                        tuples += 1;
                        sum = sum.wrapping_add(joined(*payload, *found));
                    }
                }
            }
            joined_tuples.fetch_add(tuples, Relaxed);
            checksum.fetch_add(sum, Relaxed);
            build.end - build.start + probe.end - probe.start
        }))
    })?;
    check(joined_tuples.into_inner() == PROBES * items, "a tuple was not joined")?;
    let expected = (0..PROBES * items).fold(0_u64, |sum, at| {
        let (key, payload) = probe_tuple(space, items, at);
        sum.wrapping_add(joined(payload, value_of(key)))
    });
    check(checksum.into_inner() == expected, "a tuple was joined with another one's")?;
    Ok(rate)
}

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "A hash join of two relations, tuples of both a second (DLHT, figure 20)";
    let mut figure = Figure::new(title, &["threads"], &["batch M/s", "no batch M/s", "ratio"]);
    for &threads in &settings.threads {
        let mut samples = [const { Vec::new() }; 2];
        for _ in 0..settings.repetitions.max(1) {
            samples[0].push(join(settings, threads, Some(settings.batch))?);
            samples[1].push(join(settings, threads, None)?);
        }
        let [batch, single] =
            samples.map(|samples| Summary::of(&samples).map(|summary| summary.median));
        let ratio = batch.zip(single).map(|(batch, single)| batch / single);
        figure.add(&[&threads], vec![batch, single, ratio]);
    }
    figure.note(format!(
        "{} tuples are built on and {} probed with; the result is checked.",
        settings.items,
        PROBES * settings.items
    ));
    Ok(figure)
}
