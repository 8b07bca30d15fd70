//! A lock manager: a set of the records that are locked, batches of locks that stop at the
//! first that is taken, and two-phase locking that can't deadlock (DLHT, section 5.3.3).
//!
//! ```sh
//! cargo run --release -p nunatak --example lock_manager
//! ```

use nunatak::{DlhtSet, Op, Request, Stop};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Which records are locked: a record is locked exactly if its number is in the set.
#[derive(Default)]
struct LockManager {
    locked: DlhtSet<u64>,
}

/// The locks of a transaction, which are given back when it ends, however it ends.
struct Locks<'m> {
    manager: &'m LockManager,
    records: Vec<u64>,
}

impl LockManager {
    /// Locks all of a transaction's records, or none.
    ///
    /// They are locked in the order of their numbers, whoever locks them, so that of two
    /// transactions that want the same records one gets the first of these, and no circle of
    /// transactions can come about, each with what the next one waits for. A batch keeps that
    /// order, and overlaps the latencies of memory all the same; it ends at the first record
    /// that somebody else has, and the locks before it are given back.
    fn try_lock(&self, mut records: Vec<u64>) -> Option<Locks<'_>> {
        records.sort_unstable();
        records.dedup();
        let mut batch: Vec<Op<u64, ()>> =
            records.iter().map(|&record| Op::new(Request::TryInsert(record, ()))).collect();
        let executed = self.locked.execute(&mut batch, Stop::AtFirstFailure);
        let is_refused = batch.last().is_some_and(|last| !last.outcome.is_success());
        if is_refused {
            records.truncate(executed - 1);
        }
        let locks = Locks { manager: self, records };
        // Dropped, if one was refused.
        (!is_refused).then_some(locks)
    }
}

impl Drop for Locks<'_> {
    fn drop(&mut self) {
        let mut batch: Vec<Op<u64, ()>> =
            self.records.iter().map(|&record| Op::new(Request::Remove(record))).collect();
        self.manager.locked.execute(&mut batch, Stop::Never);
    }
}

/// Accounts whose balances are changed under locks only.
const ACCOUNTS: u64 = 1000;
const TRANSFERS: u64 = 200_000;

fn main() {
    let manager = LockManager::default();
    // Atomic so that this example needs no `unsafe`: the locks are what keeps them right.
    let balances: Vec<AtomicI64> = (0..ACCOUNTS).map(|_| AtomicI64::new(100)).collect();
    let retries = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from) as u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (manager, balances, retries) = (&manager, &balances, &retries);
            scope.spawn(move || {
                let mut random = thread + 1;
                let mut any = || {
                    random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                    (random >> 33) % ACCOUNTS
                };
                for _ in 0..TRANSFERS / threads {
                    let (from, to) = (any(), any());
                    // The first phase takes all locks.
                    let locks = loop {
                        match manager.try_lock(vec![from, to]) {
                            Some(locks) => break locks,
                            None => retries.fetch_add(1, Relaxed),
                        };
                    };
                    let change = |account: u64, amount: i64| {
                        let balance = &balances[account as usize];
                        // Two steps, between which nobody else comes.
                        balance.store(balance.load(Relaxed) + amount, Relaxed);
                    };
                    change(from, -1);
                    change(to, 1);
                    // The second one gives them back.
                    drop(locks);
                }
            });
        }
    });
    let total: i64 = balances.iter().map(|balance| balance.load(Relaxed)).sum();
    let retries = retries.into_inner();
    println!("{TRANSFERS} transfers by {threads} threads, {retries} retries, {total} in all");
    assert_eq!(total, 100 * ACCOUNTS as i64, "money was made, or lost");
    assert!(manager.locked.is_empty(), "a lock was kept");
}
