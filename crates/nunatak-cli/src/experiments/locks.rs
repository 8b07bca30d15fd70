//! Figure 17 of DLHT: a lock manager, which locks records by inserting them into a set and unlocks
//! them by deleting them. A transaction unlocks only the records that it has locked.

use super::measure::Plan;
use super::subjects::{Set, filled};
use crate::experiment::figure::Figure;
use crate::keys::{KeySpace, Random};
use crate::settings::Settings;
use crate::statistics::Summary;
use crate::threads::{CheckFailed, check, throughput};
use nunatak::DlhtSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many records all threads contend for. It is a power of two, so that each odd step comes by
/// all of them.
const CONTENDED: u64 = 1024;

/// How many unbatched transactions run between two looks at the clock.
const BLOCK: usize = 512;

/// The locks of a thread: what it asked for, what it got, and what it released.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    locked: u64,
    refused: u64,
    unlocked: u64,
}

/// A thread that locks records and unlocks them.
struct Owner<'s> {
    set: &'s DlhtSet<u64>,
    tally: Tally,
    /// For each record of a batch, whether it was locked before.
    before: Vec<Option<()>>,
    own: Vec<u64>,
}

impl<'s> Owner<'s> {
    fn new(set: &'s DlhtSet<u64>, batch: usize) -> Self {
        let (before, own) = (vec![None; batch], Vec::with_capacity(batch));
        Self { set, tally: Tally::default(), before, own }
    }

    /// Locks a record, unless another thread holds its lock, and unlocks it.
    fn lock_one(&mut self, record: u64) {
        if self.set.insert(record) {
            self.tally.locked += 1;
            self.tally.unlocked += u64::from(self.set.remove(&record));
        } else {
            self.tally.refused += 1;
        }
    }

    /// Locks the records that no other thread holds, by one batch. Then unlocks those that it has
    /// locked, by another batch.
    fn lock_many(&mut self, records: &[u64]) {
        let new = self.set.insert_many(records, &mut self.before);
        let locked = new.expect("as many results as records");
        self.tally.locked += locked as u64;
        self.tally.refused += (records.len() - locked) as u64;
        let own = if locked == records.len() {
            records
        } else {
            // The lock of a record that was present belongs to another thread.
            self.own.clear();
            let taken = records.iter().zip(&self.before).filter(|(_, before)| before.is_none());
            self.own.extend(taken.map(|(record, _)| *record));
            &self.own
        };
        let unlocked = self.set.remove_many(own, &mut self.before);
        self.tally.unlocked += unlocked.expect("as many results as records") as u64;
    }
}

/// Returns a generator of the records that a thread locks. Contended records are drawn from the
/// same [`CONTENDED`] ones by all threads, and a batch of them has no record twice.
fn records(
    plan: &Plan,
    space: KeySpace,
    worker: usize,
    is_contended: bool,
) -> impl FnMut(&mut [u64]) {
    let mut random = Random::new(plan.seed ^ ((worker as u64 + 1) << 16));
    // Indices above all items, out of reach of other threads.
    let mut next = plan.items + CONTENDED + ((worker as u64 + 1) << 40);
    let items = plan.items;
    move |records| {
        let (first, step) = (random.next(), random.next() | 1);
        for (at, record) in records.iter_mut().enumerate() {
            let index = if is_contended {
                items + first.wrapping_add(step.wrapping_mul(at as u64)) % CONTENDED
            } else {
                next += 1;
                next
            };
            *record = space.key(index);
        }
    }
}

/// Returns millions of locks and unlocks a second, and the percentage of attempts that were
/// refused. A refused attempt is no operation, and is not repeated.
fn measure(set: &DlhtSet<u64>, plan: &Plan, is_contended: bool) -> Result<(f64, f64), CheckFailed> {
    let (all_locked, all_refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let size = match plan.batch {
        Some(batch) if is_contended => batch.min(CONTENDED as usize),
        Some(batch) => batch,
        None => 1,
    };
    let rate = throughput(plan.threads, |worker| {
        let mut fill = records(plan, plan.keys(), worker.number, is_contended);
        let mut owner = Owner::new(set, size);
        let mut records = vec![0; size];
        let span = worker.repeat(plan.time, || {
            let before = owner.tally.locked;
            if plan.batch.is_some() {
                fill(&mut records);
                owner.lock_many(&records);
            } else {
                for _ in 0..BLOCK {
                    fill(&mut records);
                    owner.lock_one(records[0]);
                }
            }
            2 * (owner.tally.locked - before)
        });
        let Tally { locked, refused, unlocked } = owner.tally;
        check(locked == unlocked, "a thread has unlocked a record of another thread")?;
        check(is_contended || refused == 0, "a record that no other thread locks was refused")?;
        // Relaxed: the sums are read after the threads have ended.
        all_locked.fetch_add(locked, Relaxed);
        all_refused.fetch_add(refused, Relaxed);
        Ok(span)
    })?;
    check(set.len() as u64 == plan.items, "a lock was kept, or one of another owner was released")?;
    let (locked, refused) = (all_locked.into_inner(), all_refused.into_inner());
    Ok((rate, 100.0 * refused as f64 / (locked + refused).max(1) as f64))
}

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Locks and unlocks of records in a set (DLHT, figure 17)";
    let measures = ["batch M/s", "no batch M/s", "contended/batch M/s", "refused/batch %"];
    let measures = [&measures[..], &["contended M/s", "refused %"]].concat();
    let mut figure = Figure::new(title, &["threads"], &measures);
    let plan = Plan::of(settings);
    // The locks that other transactions hold.
    let Set(set) =
        filled(plan.items, plan.keys(), || Set(DlhtSet::with_capacity(settings.items as usize)))?;
    for &threads in &settings.threads {
        let mut values = Vec::new();
        for is_contended in [false, true] {
            for batch in [Some(settings.batch), None] {
                let plan = Plan { threads, ..plan }.batched(batch);
                let (mut rates, mut shares) = (Vec::new(), Vec::new());
                for _ in 0..settings.repetitions.max(1) {
                    let (rate, refused) = measure(&set, &plan, is_contended)?;
                    rates.push(rate);
                    shares.push(refused);
                }
                let median = |samples: &[f64]| Summary::of(samples).map(|summary| summary.median);
                values.push(median(&rates));
                values.extend(is_contended.then(|| median(&shares)));
            }
        }
        figure.add(&[&threads], values);
    }
    figure.note(format!(
        "Each thread locks records that are free, and unlocks them. Contended: all threads lock the \
         same {CONTENDED} records. A refused lock is no operation; its record stays with its owner. \
         The other {} records of the set stay locked throughout.",
        settings.items
    ));
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const PLAN: Plan = Plan {
        items: 500,
        threads: 2,
        batch: None,
        hot: None,
        time: Duration::from_millis(30),
        seed: 3,
    };

    fn set_of(keys: impl Iterator<Item = u64>) -> DlhtSet<u64> {
        keys.map(|index| PLAN.keys().key(index)).collect()
    }

    /// A thread gets the free records, and leaves the others to their owner.
    #[test]
    fn the_locks_of_another_owner_stay() {
        let records: Vec<u64> = (0..100).map(|index| PLAN.keys().key(index)).collect();
        let set = set_of((0..100).step_by(4));
        let expected = Tally { locked: 75, refused: 25, unlocked: 75 };
        let mut batched = Owner::new(&set, records.len());
        batched.lock_many(&records);
        assert_eq!(batched.tally, expected);
        let mut single = Owner::new(&set, 1);
        records.iter().for_each(|&record| single.lock_one(record));
        assert_eq!(single.tally, expected);
        assert!((0..100).all(|at| set.contains(&records[at]) == (at % 4 == 0)));
    }

    #[test]
    fn contended_records_are_locked_by_one_thread_each() {
        let set = set_of(0..PLAN.items);
        for batch in [None, Some(700)] {
            let (rate, refused) = measure(&set, &PLAN.batched(batch), true).unwrap();
            assert!(rate > 0.0 && refused < 100.0, "{rate} {refused}");
            let (_, refused) = measure(&set, &PLAN.batched(batch), false).unwrap();
            assert!(refused < f64::EPSILON);
        }
    }

    #[test]
    fn a_batch_has_no_record_twice() {
        let mut records = vec![0; CONTENDED as usize];
        super::records(&PLAN, PLAN.keys(), 1, true)(&mut records);
        records.sort_unstable();
        records.dedup();
        assert_eq!(records.len() as u64, CONTENDED);
    }
}
