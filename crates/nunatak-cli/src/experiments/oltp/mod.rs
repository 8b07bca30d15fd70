//! Figure 19 of DLHT: transactions on the map. Rows are records whose values change in place, and
//! contain their locks. Rows that a transaction inserts are hidden until it commits.

mod rows;
pub(super) mod smallbank;
pub(super) mod tatp;

use super::measure::Plan;
use crate::backing::back_free_memory;
use crate::experiment::figure::Figure;
use crate::keys::Random;
use crate::settings::Settings;
use crate::statistics::Summary;
use crate::threads::{CheckFailed, throughput};
use std::time::Duration;

/// A benchmark: a database and its transactions.
trait Oltp: Sync + Sized {
    const TITLE: &'static str;

    /// A transaction that is about to run.
    type Transaction;
    /// A thread's effects, for the check at the end.
    type Done: Default + Send;

    /// Creates the database of `rows` subscribers or customers.
    fn load(rows: u64) -> Result<Self, CheckFailed>;

    fn rows(settings: &Settings) -> u64;

    /// Draws a transaction.
    fn draw(&self, random: &mut Random) -> Self::Transaction;

    fn prefetch(&self, transaction: &Self::Transaction);

    /// Runs a transaction. Returns false, without an effect, if it met another transaction.
    fn run(&self, transaction: &Self::Transaction, done: &mut Self::Done) -> bool;

    /// Checks that all rows agree with the effects of all threads.
    fn check(&self, done: &[Self::Done]) -> Result<(), CheckFailed>;

    /// Returns what the figure says about the transactions, besides.
    fn note(_: &[Self::Done]) -> Option<String> {
        None
    }
}

/// How many transactions are drawn and prefetched before they run.
const GROUP: usize = 32;

/// Returns millions of committed transactions a second, and the percentage of attempts that met
/// another transaction.
fn measure<B: Oltp>(
    benchmark: &B,
    (threads, group): (usize, usize),
    (time, seed): (Duration, u64),
    all: &mut Vec<B::Done>,
) -> Result<(f64, f64), CheckFailed> {
    let totals = std::sync::Mutex::new((0, 0, Vec::new()));
    let rate = throughput(threads, |worker| {
        let mut random = Random::new(seed ^ (worker.number as u64 + 1) << 32);
        let (mut done, mut committed, mut refused) = (B::Done::default(), 0, 0);
        let mut transactions = Vec::with_capacity(group);
        let span = worker.repeat(time, || {
            transactions.clear();
            for _ in 0..group {
                let transaction = benchmark.draw(&mut random);
                if group > 1 {
                    benchmark.prefetch(&transaction);
                }
                transactions.push(transaction);
            }
            for transaction in &transactions {
                // A transaction that met another one is tried again.
                while !benchmark.run(transaction, &mut done) {
                    refused += 1;
                    std::hint::spin_loop();
                }
                committed += 1;
            }
            group as u64
        });
        let mut totals = totals.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        totals.0 += committed;
        totals.1 += refused;
        totals.2.push(done);
        Ok(span)
    })?;
    let (committed, refused, done) =
        totals.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    all.extend(done);
    let attempts: u64 = committed + refused;
    Ok((rate, 100.0 * refused as f64 / attempts.max(1) as f64))
}

/// Measures a benchmark.
fn run<B: Oltp>(settings: &Settings) -> Result<Figure, CheckFailed> {
    let measures = ["grouped M tx/s", "one by one M tx/s", "refused %"];
    let mut figure = Figure::new(B::TITLE, &["threads"], &measures);
    let (plan, rows) = (Plan::of(settings), B::rows(settings));
    back_free_memory(8 * rows);
    let benchmark = B::load(rows)?;
    let mut done = Vec::new();
    for &threads in &settings.threads {
        let mut samples = [const { Vec::new() }; 3];
        for repetition in 0..settings.repetitions.max(1) as u64 {
            let how = (plan.time, plan.seed ^ repetition << 48);
            let (grouped, refused) = measure(&benchmark, (threads, GROUP), how, &mut done)?;
            let (single, _) = measure(&benchmark, (threads, 1), how, &mut done)?;
            for (samples, value) in samples.iter_mut().zip([grouped, single, refused]) {
                samples.push(value);
            }
        }
        let median = |samples: &Vec<f64>| Summary::of(samples).map(|summary| summary.median);
        figure.add(&[&threads], samples.iter().map(median).collect());
    }
    benchmark.check(&done)?;
    B::note(&done).into_iter().for_each(|note| figure.note(note));
    figure.note(format!(
        "{rows} subscribers or customers. Grouped: 32 transactions are drawn and their rows asked \
         for before the first one runs. At the end all rows were found to agree with what had \
         committed."
    ));
    Ok(figure)
}
