//! The loops of the experiments: gets, and inserts with deletes, on any [`Subject`].

use super::subjects::{Scratch, Subject, read};
use crate::keys::{Indices, KeySpace, Random, value_of};
use crate::settings::Settings;
use crate::statistics::Summary;
use crate::threads::{CheckFailed, Span, Worker, check, throughput};
use std::time::Duration;

/// A kind of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mix {
    /// Gets of present keys, without reading the values.
    Get,
    /// Gets of present keys, with every byte of the value read.
    Access,
    /// Inserts of absent keys, each followed by the delete of the key. A batch has both operations of
    /// half as many keys.
    InsDel,
}

/// How many keys are hot in a skewed workload.
const HOT: u64 = 1000;

/// The parameters of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) items: u64,
    pub(crate) threads: usize,
    /// How many operations a batch has; `None` without batches.
    pub(crate) batch: Option<usize>,
    /// The percentage of accesses that go to the 1000 hot keys; `None` without skew.
    pub(crate) hot: Option<u64>,
    pub(crate) time: Duration,
    pub(crate) seed: u64,
}

/// How many unbatched operations run between two looks at the clock.
const BLOCK: usize = 1024;

impl Plan {
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            items: settings.items,
            threads: 1,
            batch: None,
            hot: None,
            time: settings.time,
            seed: settings.seed,
        }
    }

    pub(crate) fn batched(self, batch: Option<usize>) -> Self {
        Self { batch, ..self }
    }

    pub(crate) fn keys(&self) -> KeySpace {
        KeySpace::new(self.seed, false)
    }

    /// Returns the median of several measurements, in millions a second.
    pub(crate) fn median<S: Subject>(
        &self,
        subject: &S,
        mix: Mix,
        repetitions: usize,
    ) -> Result<f64, CheckFailed> {
        let rates = (0..repetitions.max(1)).map(|_| self.measure(subject, mix));
        let rates: Vec<f64> = rates.collect::<Result<_, _>>()?;
        Ok(Summary::of(&rates).map_or(0.0, |summary| summary.median))
    }

    /// Returns millions of operations a second.
    pub(crate) fn measure<S: Subject>(&self, subject: &S, mix: Mix) -> Result<f64, CheckFailed> {
        match mix {
            Mix::InsDel => self.insert_and_delete(subject),
            Mix::Get | Mix::Access => self.get(subject, mix),
        }
    }

    fn seed_of(&self, worker: &Worker<'_>) -> u64 {
        self.seed ^ ((worker.number as u64 + 1) << 16)
    }

    /// Returns a generator that draws a hot key for the given percentage of accesses, else `None`.
    fn hot(&self, worker: &Worker<'_>) -> impl FnMut() -> Option<u64> + use<> {
        let mut random = Random::new(!self.seed_of(worker));
        // A threshold for 16 random bits.
        let below = self.hot.unwrap_or(0) * (1 << 16) / 100;
        let hot = HOT.min(self.items);
        move || (random.next() & 0xFFFF < below).then(|| random.below(hot))
    }

    /// Measures gets. Each case has a loop of its own: work beside the lookups takes room that the
    /// processor needs to overlap them.
    fn get<S: Subject>(&self, subject: &S, mix: Mix) -> Result<f64, CheckFailed> {
        throughput(self.threads, |worker| {
            let mut indices = Indices::uniform(self.items, self.seed_of(worker));
            let mut hot = self.hot(worker);
            match (mix, self.hot) {
                (Mix::Access, None) => self.gets::<S, true>(subject, worker, || indices.next()),
                (_, None) => self.gets::<S, false>(subject, worker, || indices.next()),
                (_, Some(_)) => {
                    let next = || hot().unwrap_or_else(|| indices.next());
                    self.gets::<S, false>(subject, worker, next)
                }
            }
        })
    }

    #[inline(always)]
    fn gets<S: Subject, const READS: bool>(
        &self,
        subject: &S,
        worker: &Worker<'_>,
        mut next: impl FnMut() -> u64,
    ) -> Result<Span, CheckFailed> {
        let space = self.keys();
        let mut keys = vec![0; self.batch.unwrap_or(0)];
        let mut scratch = Scratch::new(keys.len());
        let (mut found, mut asked) = (0, 0);
        let span = if keys.is_empty() {
            worker.repeat(self.time, || {
                for _ in 0..BLOCK {
                    let key = space.key(next());
                    if READS {
                        subject.access(key, &mut scratch, |value| found += read(value));
                    } else {
                        found += usize::from(subject.get(key, &mut scratch));
                    }
                }
                asked += BLOCK;
                BLOCK as u64
            })
        } else {
            worker.repeat(self.time, || {
                keys.fill_with(|| space.key(next()));
                if READS {
                    subject.access_many(&keys, &mut scratch, |_, value| found += read(value));
                } else {
                    found += subject.get_many(&keys, &mut scratch);
                }
                asked += keys.len();
                keys.len() as u64
            })
        };
        check(found == asked, "a get did not find its key")?;
        Ok(span)
    }

    fn insert_and_delete<S: Subject>(&self, subject: &S) -> Result<f64, CheckFailed> {
        let space = self.keys();
        throughput(self.threads, |worker| {
            // Indices above all items, out of reach of other threads. The threads share the hot
            // keys.
            let mut hot = self.hot(worker);
            let mut next = self.items + ((worker.number as u64 + 1) << 40);
            let mut draw = || match hot() {
                Some(hot) => space.key(self.items + hot),
                None => {
                    next += 1;
                    space.key(next)
                }
            };
            let mut entries = vec![(0, 0); self.batch.map_or(0, |batch| batch.div_ceil(2))];
            let mut scratch = Scratch::new(entries.len());
            let (mut done, mut asked) = (0, 0);
            let span = worker.repeat(self.time, || {
                let before = done;
                if entries.is_empty() {
                    for _ in 0..BLOCK / 2 {
                        let key = draw();
                        done += usize::from(subject.insert(key, value_of(key), &mut scratch));
                        done += subject.delete(key, &mut scratch);
                    }
                    asked += BLOCK;
                } else {
                    entries.fill_with(|| {
                        let key = draw();
                        (key, value_of(key))
                    });
                    done += subject.insert_and_delete_many(&entries, &mut scratch);
                    asked += 2 * entries.len();
                }
                // An insert that found its key, or a delete that did not, is no operation.
                (done - before) as u64
            });
            // Another thread may have inserted or deleted a hot key meanwhile.
            let is_right = done == asked || (self.threads > 1 && self.hot.is_some_and(|it| it > 0));
            check(is_right, "an insert found its key, or a delete did not")?;
            Ok(span)
        })
    }
}
