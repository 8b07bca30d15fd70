//! The phases of a map's life, each measured by itself: inserts, lookups and deletes, on several
//! threads, in batches or one by one.

use super::subjects::{Scratch, Subject};
use crate::experiment::figure::Figure;
use crate::machine::resident_bytes;
use crate::named::Named as _;
use crate::process::Request;
use crate::settings::Settings;
use crate::statistics::Summary;
use crate::targets::MapName;
use crate::threads::{CheckFailed, Worker, check, share, throughput};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How many unbatched lookups run between two looks at the clock.
const BLOCK: usize = 1024;

/// The parameters of a phase.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Phases {
    pub(crate) map: MapName,
    pub(crate) threads: usize,
    /// How many operations a batch has; `None` without batches.
    pub(crate) batch: Option<usize>,
    pub(crate) time: Duration,
}

impl Phases {
    /// Lists what to measure: each number of threads with each chosen map of these names.
    /// Maps of this project are measured twice: by single operations, and by batches.
    pub(crate) fn of_maps(settings: &Settings, names: &[&str]) -> Result<Vec<Self>, CheckFailed> {
        let mut all = Vec::new();
        for &threads in &settings.threads {
            for &map in settings.maps.iter().filter(|map| names.contains(&&*map.name())) {
                let batched = map.is_own().then_some(Some(settings.batch));
                let with = |batch| Self { map, threads, batch, time: settings.time };
                all.extend([None].into_iter().chain(batched).map(with));
            }
        }
        check(!all.is_empty(), &format!("this is for the maps {}", names.join(", ")))?;
        Ok(all)
    }

    /// Returns the parameters of the row in a figure: threads, map, operations.
    pub(crate) fn at(&self) -> Vec<String> {
        let operations = if self.batch.is_some() { "batch" } else { "single" };
        vec![self.threads.to_string(), self.map.to_string(), operations.to_owned()]
    }

    /// Inserts entries and returns millions of inserts a second. `expected` of the values must
    /// replace no other value.
    pub(crate) fn insert<S: Subject>(
        &self,
        subject: &S,
        entries: u64,
        entry: impl Fn(u64) -> (u64, u64) + Sync,
        expected: u64,
    ) -> Result<f64, CheckFailed> {
        self.each(entries, &entry, expected, |entries, scratch| match (self.batch, entries) {
            (None, &[(key, value)]) => usize::from(subject.insert(key, value, scratch)),
            _ => subject.insert_many(entries, scratch),
        })
    }

    /// Deletes keys and returns millions of deletes a second. The keys must have `expected`
    /// values in all.
    pub(crate) fn delete<S: Subject>(
        &self,
        subject: &S,
        keys: u64,
        key: impl Fn(u64) -> u64 + Sync,
        expected: u64,
    ) -> Result<f64, CheckFailed> {
        self.each(keys, &key, expected, |keys, scratch| match (self.batch, keys) {
            (None, &[key]) => subject.delete(key, scratch),
            _ => subject.delete_many(keys, scratch),
        })
    }

    /// Runs an operation on each item once. The sum of the results must be `expected`.
    fn each<I: Send>(
        &self,
        items: u64,
        item: &(impl Fn(u64) -> I + Sync),
        expected: u64,
        run: impl Fn(&[I], &mut Scratch) -> usize + Sync,
    ) -> Result<f64, CheckFailed> {
        let sum = AtomicU64::new(0);
        let size = self.batch.unwrap_or(1);
        let rate = throughput(self.threads, |worker| {
            let own = share(items, worker.number, self.threads);
            let (mut scratch, mut batch) = (Scratch::new(size), Vec::with_capacity(size));
            let mut results = 0;
            let span = worker.once(|| {
                for from in own.clone().step_by(size) {
                    batch.clear();
                    batch.extend((from..own.end.min(from + size as u64)).map(item));
                    results += run(&batch, &mut scratch) as u64;
                }
                own.end - own.start
            });
            // Relaxed: the sum is read after the threads have ended.
            sum.fetch_add(results, Relaxed);
            Ok(span)
        })?;
        check(sum.into_inner() == expected, "a key was there, or was not, against what was done")?;
        Ok(rate)
    }

    /// Looks keys up and returns millions of lookups a second, and the mean number of values
    /// that a lookup found. `draw` draws a key and a number; a value that is found counts if
    /// `counts` accepts it for that number.
    pub(crate) fn look_up<S: Subject, D: FnMut() -> (u64, u64)>(
        &self,
        subject: &S,
        draw: impl Fn(&Worker<'_>) -> D + Sync,
        counts: impl Fn(u64, &[u8]) -> bool + Sync,
    ) -> Result<(f64, f64), CheckFailed> {
        let (all_found, all_asked) = (AtomicU64::new(0), AtomicU64::new(0));
        let rate = throughput(self.threads, |worker| {
            let mut next = draw(worker);
            let size = self.batch.unwrap_or(0);
            let (mut keys, mut expected) = (vec![0; size], vec![0; size]);
            let mut scratch = Scratch::new(size);
            let (mut found, mut asked) = (0, 0);
            let span = worker.repeat(self.time, || {
                let before = asked;
                if keys.is_empty() {
                    for _ in 0..BLOCK {
                        let (key, expected) = next();
                        subject.access(key, &mut scratch, |value| {
                            found += u64::from(counts(expected, value));
                        });
                    }
                    asked += BLOCK as u64;
                } else {
                    for (key, expected) in keys.iter_mut().zip(&mut expected) {
                        (*key, *expected) = next();
                    }
                    subject.access_many(&keys, &mut scratch, |at, value| {
                        found += u64::from(counts(expected[at], value));
                    });
                    asked += size as u64;
                }
                asked - before
            });
            // Relaxed: the sum is read after the threads have ended.
            all_found.fetch_add(found, Relaxed);
            all_asked.fetch_add(asked, Relaxed);
            Ok(span)
        })?;
        Ok((rate, all_found.into_inner() as f64 / all_asked.into_inner() as f64))
    }
}

/// Returns how many bytes an item the resident memory of the process has grown since `before`.
pub(crate) fn bytes_per_item(before: Option<usize>, items: u64) -> Option<f64> {
    let grown = resident_bytes()?.saturating_sub(before?);
    Some(grown as f64 / items as f64)
}

/// The rows of a figure that are measured in processes of their own: the parameters of each row,
/// and the request to its process.
pub(crate) type Rows<R> = Vec<(Vec<String>, R)>;

/// Measures each row in turn, `repetitions` times, and adds the medians to the figure.
pub(crate) fn measure_all<R: Request<Answer = Vec<Option<f64>>>>(
    figure: &mut Figure,
    rows: &Rows<R>,
    repetitions: usize,
) -> Result<(), CheckFailed> {
    let mut samples = vec![vec![Vec::new(); figure.measures.len()]; rows.len()];
    for _ in 0..repetitions {
        for ((_, request), samples) in rows.iter().zip(&mut samples) {
            for (samples, value) in samples.iter_mut().zip(request.in_new_process()?) {
                samples.extend(value);
            }
        }
    }
    for ((at, _), samples) in rows.iter().zip(samples) {
        let at: Vec<&dyn ToString> = at.iter().map(|at| at as _).collect();
        let median = |samples: &Vec<f64>| Summary::of(samples).map(|summary| summary.median);
        figure.add(&at, samples.iter().map(median).collect());
    }
    Ok(())
}
