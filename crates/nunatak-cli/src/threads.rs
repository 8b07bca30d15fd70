//! Pinned threads that start together, and their times.

use std::fmt;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// A wrong result of an operation, which makes the measurement void.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckFailed(pub(crate) String);

impl fmt::Display for CheckFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns an error that says `what` was wrong, unless all is right.
pub(crate) fn check(holds: bool, what: &str) -> Result<(), CheckFailed> {
    if holds { Ok(()) } else { Err(CheckFailed(what.to_owned())) }
}

/// When one thread began and ended, and how many operations it did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    start: Instant,
    end: Instant,
    operations: u64,
}

/// One of the threads of a measurement.
#[derive(Debug)]
pub(crate) struct Worker<'a> {
    /// The thread's number, from 0.
    pub(crate) number: usize,
    together: &'a Barrier,
}

impl Worker<'_> {
    /// Waits for the other threads, then calls `work` once. `work` returns how many operations it
    /// did.
    pub(crate) fn once(&self, work: impl FnOnce() -> u64) -> Span {
        self.together.wait();
        let start = Instant::now();
        let operations = work();
        Span { start, end: Instant::now(), operations }
    }

    /// Warms up, waits for the other threads, then repeats `block` for `time`. `block` returns how
    /// many operations it did.
    pub(crate) fn repeat(&self, time: Duration, mut block: impl FnMut() -> u64) -> Span {
        let mut span = None;
        // Both phases by one loop: `block` is compiled once.
        for (time, is_measured) in [(time / 5, false), (time, true)] {
            if is_measured {
                self.together.wait();
            }
            let start = Instant::now();
            let mut operations = 0;
            while start.elapsed() < time {
                operations += block();
            }
            span = Some(Span { start, end: Instant::now(), operations });
        }
        span.expect("two phases")
    }
}

/// What each thread of a measurement does.
type Work<'w> = dyn Fn(&Worker<'_>) -> Result<Span, CheckFailed> + Sync + 'w;

/// Runs `work` on `threads` threads, each pinned to a core, and returns the millions of operations
/// a second: the operations of all threads, over the time from the first start to the last end.
///
/// Every worker must measure exactly one span, even if a check fails.
pub(crate) fn throughput<F>(threads: usize, work: F) -> Result<f64, CheckFailed>
where
    F: Fn(&Worker<'_>) -> Result<Span, CheckFailed> + Sync,
{
    throughput_of(threads, &work)
}

/// The threads are compiled once, and not for each of six hundred pairs of a workload and a map.
fn throughput_of(threads: usize, work: &Work<'_>) -> Result<f64, CheckFailed> {
    let together = Barrier::new(threads);
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let spans = std::thread::scope(|scope| {
        let spawn = |number: usize| {
            let core = cores.get(number % cores.len().max(1)).copied();
            let together = &together;
            scope.spawn(move || {
                // If the system forbids pinning, it places the thread itself.
                core.map(core_affinity::set_for_current);
                work(&Worker { number, together })
            })
        };
        let handles: Vec<_> = (0..threads).map(spawn).collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| match handle.join() {
            Ok(span) => span,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        handles.into_iter().map(join).collect::<Result<Vec<Span>, _>>()
    })?;
    let operations: u64 = spans.iter().map(|span| span.operations).sum();
    let start = spans.iter().map(|span| span.start).min();
    let end = spans.iter().map(|span| span.end).max();
    let elapsed = start.zip(end).map_or(0.0, |(start, end)| (end - start).as_secs_f64());
    Ok(operations as f64 / elapsed.max(1e-9) / 1e6)
}

/// Returns the part of `0..items` that belongs to the thread of this number.
pub(crate) fn share(items: u64, number: usize, threads: usize) -> std::ops::Range<u64> {
    let bound = |n: usize| (u128::from(items) * n as u128 / threads as u128) as u64;
    bound(number)..bound(number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_cover_everything_once() {
        for threads in 1..9 {
            let mut next = 0;
            for number in 0..threads {
                let range = share(1003, number, threads);
                assert_eq!(range.start, next);
                next = range.end;
            }
            assert_eq!(next, 1003);
        }
    }

    #[test]
    fn operations_of_all_threads_count() {
        let time = Duration::from_millis(20);
        let work = |worker: &Worker<'_>| {
            let block = || {
                std::thread::sleep(Duration::from_millis(1));
                1000
            };
            Ok(worker.repeat(time, block))
        };
        let mops = throughput(2, work).unwrap();
        assert!(mops > 0.1 && mops <= 2.0, "{mops}");
        let failing = |_: &Worker<'_>| Err(CheckFailed("wrong".into()));
        assert!(throughput(1, failing).is_err());
    }
}
