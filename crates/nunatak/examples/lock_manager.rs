//! A lock manager: a set of the locked records, batches of locks that stop at the first record that
//! is taken, and two-phase locking without deadlocks (DLHT, section 5.3.3).
//!
//! ```sh
//! cargo run --release -p nunatak --example lock_manager
//! ```

use nunatak::{DlhtSet, Op, Request, Stop};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// The set of locked records: a record is locked exactly if its number is in the set.
#[derive(Default)]
struct LockManager {
    locked: DlhtSet<u64>,
}

/// The locks of a transaction, which are released when it ends, even by a panic.
struct Locks<'m> {
    manager: &'m LockManager,
    records: Vec<u64>,
}

impl LockManager {
    /// Locks all of a transaction's records, or none.
    ///
    /// All transactions lock in the order of the records' numbers. So transactions that want the
    /// same records can't wait for each other in a circle. A batch keeps that order, and still
    /// overlaps the latencies of memory. It stops at the first record that another transaction
    /// holds, and the locks before it are released.
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
        // If a lock was refused, the others are released here.
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

/// Accounts, whose balances change only under locks.
const ACCOUNTS: u64 = 1000;
const TRANSFERS: u64 = 200_000;

fn main() {
    let manager = LockManager::default();
    // The balances are atomic so that this example needs no `unsafe`; the locks keep them
    // consistent.
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
                        // The lock keeps other threads out between these two steps.
                        balance.store(balance.load(Relaxed) + amount, Relaxed);
                    };
                    change(from, -1);
                    change(to, 1);
                    // The second phase releases them.
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
