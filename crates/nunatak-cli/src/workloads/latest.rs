//! Gets of the latest items while a few are inserted: YCSB D.
//!
//! The `i`-th insert of a thread is item `items + i * threads + number`, so threads need no common
//! counter. A get draws how many items ago its key was inserted, by a Zipf distribution, and which
//! thread did it.

use super::whole_loops::Block;
use super::{BLOCK, check, difference};
use crate::keys::{Indices, Popularity, value_of};
use crate::settings::Bench;
use crate::targets::{Step, Target};
use crate::threads::{CheckFailed, throughput};
use nunatak::{Op, Outcome, Request};
use std::sync::atomic::{AtomicU64, Ordering};

/// The share of inserts, of 2^16 operations.
pub(crate) const INSERTS: u64 = 5 * (1 << 16) / 100;

/// How many items a thread has inserted, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Inserted(AtomicU64);

impl Inserted {
    /// Makes the counts of all threads.
    pub(crate) fn of_threads(threads: usize) -> Vec<Self> {
        (0..threads).map(|_| Self::default()).collect()
    }
}

/// A thread's view of the latest items.
#[derive(Debug)]
pub(crate) struct Latest<'a> {
    pub(crate) items: u64,
    pub(crate) number: usize,
    pub(crate) inserted: &'a [Inserted],
    pub(crate) ranks: Indices<'a>,
}

impl Latest<'_> {
    /// Returns the index of the `ahead`-th item that this thread inserts next.
    pub(crate) fn next(&self, ahead: u64) -> u64 {
        // Relaxed: only this thread writes the count.
        let own = self.inserted[self.number].0.load(Ordering::Relaxed);
        self.items + (own + ahead) * self.inserted.len() as u64 + self.number as u64
    }

    /// Lets other threads get the next `count` items, which are in the map.
    pub(crate) fn publish(&self, count: u64) {
        // Release: a thread that sees the count also sees the items in the map.
        self.inserted[self.number].0.fetch_add(count, Ordering::Release);
    }

    /// Returns the index of an item that is in the map, most often of a late one.
    #[inline]
    pub(crate) fn draw(&mut self) -> u64 {
        let threads = self.inserted.len() as u64;
        let rank = self.ranks.next();
        let (ago, number) = (rank / threads, rank % threads);
        // Acquire: pairs with the release of `publish`.
        let inserted = self.inserted[number as usize].0.load(Ordering::Acquire);
        match ago.checked_sub(inserted) {
            None => self.items + (inserted - 1 - ago) * threads + number,
            Some(before) => self.items - 1 - (before * threads + number) % self.items,
        }
    }
}

/// Runs gets, and inserts of new items, on a map that has all items.
pub(crate) fn reads<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
    batched: bool,
) -> Result<f64, CheckFailed> {
    let (space, settings) = (bench.keys, bench.settings);
    let inserted = Inserted::of_threads(threads);
    throughput(threads, |worker| {
        let mut latest = Latest {
            items: settings.items,
            number: worker.number,
            inserted: &inserted,
            ranks: bench.indices(worker.number, Popularity::Zipf),
        };
        let mut choices = bench.random(worker.number);
        let mut inserts = move || choices.next() & 0xFFFF < INSERTS;
        let mut wrong = 0;
        let span = if batched {
            let mut batch = Vec::with_capacity(settings.batch);
            worker.repeat(settings.time, || {
                let mut new = 0;
                batch.clear();
                batch.resize_with(settings.batch, || {
                    Op::new(if inserts() {
                        let key = space.key(latest.next(new));
                        new += 1;
                        Request::Insert(key, value_of(key))
                    } else {
                        Request::Get(space.key(latest.draw()))
                    })
                });
                map.execute(&mut batch);
                latest.publish(new);
                batch.iter().for_each(|operation| wrong |= wrong_outcome(operation));
                batch.len() as u64
            })
        } else if T::WHOLE_LOOPS {
            let mut block = Block::new();
            let span = worker.repeat(settings.time, || {
                let mut new = 0;
                for _ in 0..BLOCK {
                    if inserts() {
                        block.add(map, Step::Insert, space.key(latest.next(new)), 0);
                        new += 1;
                    } else {
                        block.add(map, Step::Get, space.key(latest.draw()), 0);
                    }
                }
                block.run(map, 0);
                latest.publish(new);
                BLOCK
            });
            wrong = block.wrong();
            span
        } else {
            worker.repeat(settings.time, || {
                for _ in 0..BLOCK {
                    if inserts() {
                        let key = space.key(latest.next(0));
                        wrong |= u64::from(map.insert(key, value_of(key)).is_some());
                        latest.publish(1);
                    } else {
                        let key = space.key(latest.draw());
                        wrong |= difference(map.get(key), value_of(key));
                    }
                }
                BLOCK
            })
        };
        check(wrong, "a get of a late key missed it, or a new key was present")?;
        Ok(span)
    })
}

/// Returns zero exactly if the operation inserted a new key, or found the value of its key.
fn wrong_outcome(operation: &Op<u64, u64>) -> u64 {
    match operation.outcome {
        Outcome::Inserted => 0,
        Outcome::Found(value) => difference(Some(value), value_of(*operation.request.key())),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::ZipfSamples;

    #[test]
    fn late_items_are_drawn_most_often_and_all_are_there() {
        let (items, inserted) = (1000, Inserted::of_threads(2));
        let samples = ZipfSamples::new(items, 1);
        let mut latest =
            Latest { items, number: 1, inserted: &inserted, ranks: Indices::zipf(&samples, 1) };
        let draw = |latest: &mut Latest<'_>| {
            let mut counts = vec![0; 1100];
            (0..100_000).for_each(|_| counts[latest.draw() as usize] += 1);
            counts
        };
        // Nothing was inserted yet: the last of the items is the most popular.
        let counts = draw(&mut latest);
        assert!(counts[items as usize..].iter().all(|&count| count == 0));
        assert!(counts[999] > counts[998] && counts[998] > 2 * counts[900]);
        assert_eq!((latest.next(0), latest.next(1)), (1001, 1003));
        latest.publish(10);
        assert_eq!(latest.next(0), 1021);
        // Ten items of thread 1, none of thread 0.
        let counts = draw(&mut latest);
        let new: Vec<usize> = (1000..1100).filter(|&index| counts[index] > 0).collect();
        assert_eq!(new, (0..10).map(|at| 1001 + 2 * at).collect::<Vec<_>>());
        assert!(counts[1019] > counts[1017] && counts[1019] > 5000);
    }
}
