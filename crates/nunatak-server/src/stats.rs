//! Counts of what threads do: commands by name, the latency of batches, bytes.

use crate::commands::table::{COMMANDS, slots};
use crate::histogram::{Histogram, TimeCounters, bucket_of};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A counter that one thread adds to and others read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Called by one thread only.
    #[inline(always)]
    pub(crate) fn add(&self, count: u64) {
        // Relaxed, and no read-modify-write: nobody else stores it, and nothing else is ordered by it.
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: a count of a moment ago.
        self.0.load(Relaxed)
    }
}

/// How often a command was called, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct CommandCounters {
    pub(crate) calls: Counter,
    pub(crate) nanos: Counter,
    /// The part of `nanos` that is in no histogram.
    untracked: Counter,
    pub(crate) rejected: Counter,
    pub(crate) failed: Counter,
    /// Made at the first call: most commands are never used, and a histogram takes 30 KiB.
    times: OnceLock<TimeCounters>,
}

/// How long calls took: the same time for each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallTime {
    nanos: u64,
    /// Of the histogram, if times are tracked.
    bucket: Option<usize>,
}

impl CallTime {
    pub(crate) fn new(time: Duration, is_tracked: bool) -> Self {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self { nanos, bucket: is_tracked.then(|| bucket_of(nanos)) }
    }
}

impl CommandCounters {
    /// Adds the time of a call.
    #[inline(always)]
    pub(crate) fn add_time(&self, time: CallTime) {
        self.nanos.add(time.nanos);
        match time.bucket {
            Some(bucket) => self.times.get_or_init(TimeCounters::default).add(bucket),
            None => self.untracked.add(time.nanos),
        }
    }
}

/// Counts of a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CommandCounts {
    pub(crate) calls: u64,
    pub(crate) nanos: u64,
    pub(crate) untracked: u64,
    pub(crate) rejected: u64,
    pub(crate) failed: u64,
}

/// The shortest latency that has a bucket of its own, as a power of two of nanoseconds: 1 µs.
pub(crate) const FIRST_BUCKET: u32 = 10;
/// How many buckets of a latency there are: up to 4 s. What is longer has none.
pub(crate) const BUCKETS: usize = 23;

/// Returns the upper bound of a bucket in seconds.
pub(crate) fn bucket_bound(bucket: usize) -> f64 {
    (1_u64 << (FIRST_BUCKET as usize + bucket)) as f64 * 1e-9
}

/// Counts of one thread, which alone writes them.
#[derive(Debug)]
pub(crate) struct WorkerStats {
    /// By the commands' slots.
    commands: Box<[CommandCounters]>,
    latency: [Counter; BUCKETS + 1],
    latency_nanos: Counter,
    pub(crate) bytes_read: Counter,
    pub(crate) bytes_written: Counter,
    pub(crate) errors: Counter,
}

impl WorkerStats {
    fn new() -> Self {
        Self {
            commands: (0..slots()).map(|_| CommandCounters::default()).collect(),
            latency: Default::default(),
            latency_nanos: Counter::default(),
            bytes_read: Counter::default(),
            bytes_written: Counter::default(),
            errors: Counter::default(),
        }
    }

    #[inline(always)]
    pub(crate) fn command(&self, slot: u16) -> &CommandCounters {
        &self.commands[usize::from(slot)]
    }

    /// Counts a batch that took so long.
    pub(crate) fn note_batch(&self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        // The bound of a bucket belongs to it.
        let log = nanos.saturating_sub(1).checked_ilog2().map_or(0, |log| log + 1);
        let bucket = log.saturating_sub(FIRST_BUCKET) as usize;
        self.latency[bucket.min(BUCKETS)].add(1);
        self.latency_nanos.add(nanos);
    }
}

/// What all threads have counted.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    workers: Mutex<Vec<Arc<WorkerStats>>>,
    /// What was counted before `CONFIG RESETSTAT`.
    base: Mutex<Base>,
}

#[derive(Debug, Default)]
struct Base {
    commands: Vec<CommandCounts>,
    /// By the commands' slots.
    times: HashMap<u16, Histogram>,
    totals: Totals,
}

/// Counts that are not about one command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    pub(crate) errors: u64,
}

impl Stats {
    /// Adds a thread.
    pub(crate) fn add_worker(&self) -> Arc<WorkerStats> {
        let stats = Arc::new(WorkerStats::new());
        self.workers.lock().push(Arc::clone(&stats));
        stats
    }

    /// Returns the sum of a counter of all threads.
    fn sum(&self, counter: impl Fn(&WorkerStats) -> &Counter) -> u64 {
        self.workers.lock().iter().map(|worker| counter(worker).get()).sum()
    }

    /// Returns the counts of each slot since the start.
    pub(crate) fn all_commands(&self) -> Vec<CommandCounts> {
        let count = |slot| CommandCounts {
            calls: self.sum(|worker| &worker.command(slot).calls),
            nanos: self.sum(|worker| &worker.command(slot).nanos),
            untracked: self.sum(|worker| &worker.command(slot).untracked),
            rejected: self.sum(|worker| &worker.command(slot).rejected),
            failed: self.sum(|worker| &worker.command(slot).failed),
        };
        (0..slots() as u16).map(count).collect()
    }

    /// Returns how long the calls of a slot took since the start, if there were any.
    pub(crate) fn all_times(&self, slot: u16) -> Option<Histogram> {
        let workers = self.workers.lock();
        let mut used =
            workers.iter().filter_map(|worker| worker.command(slot).times.get()).peekable();
        used.peek()?;
        let mut all = Histogram::default();
        used.for_each(|counters| all.add_counters(counters));
        Some(all)
    }

    /// Returns the totals since the start.
    pub(crate) fn all_totals(&self) -> Totals {
        Totals {
            bytes_read: self.sum(|worker| &worker.bytes_read),
            bytes_written: self.sum(|worker| &worker.bytes_written),
            errors: self.sum(|worker| &worker.errors),
        }
    }

    /// Begins all counts anew, except those of batches.
    pub(crate) fn reset(&self) {
        let times = |slot| Some((slot, self.all_times(slot)?));
        let times = (0..slots() as u16).filter_map(times).collect();
        let base = Base { commands: self.all_commands(), times, totals: self.all_totals() };
        *self.base.lock() = base;
    }

    /// Returns the totals since the reset.
    pub(crate) fn totals(&self) -> Totals {
        let (before, all) = (self.base.lock().totals, self.all_totals());
        Totals {
            bytes_read: all.bytes_read - before.bytes_read,
            bytes_written: all.bytes_written - before.bytes_written,
            errors: all.errors - before.errors,
        }
    }

    /// Returns how long the calls of a slot took since the reset, if there were any.
    pub(crate) fn times(&self, slot: u16) -> Option<Histogram> {
        let all = self.all_times(slot)?;
        let since = match self.base.lock().times.get(&slot) {
            Some(before) => all.since(before),
            None => all,
        };
        (since.calls() > 0).then_some(since)
    }

    /// Returns the names of the commands that were used since the reset, and how long their calls took.
    pub(crate) fn times_by_name(&self) -> impl Iterator<Item = (String, Histogram)> {
        let names = COMMANDS.iter().flat_map(|command| command.slot_names());
        (0_u16..).zip(names).filter_map(|(slot, name)| Some((name, self.times(slot)?)))
    }

    /// Returns the names of the commands that were used since the reset, and their counts.
    pub(crate) fn commands(&self) -> Vec<(String, CommandCounts)> {
        let base = self.base.lock().commands.clone();
        let counts = self.all_commands().into_iter().enumerate().map(|(slot, all)| {
            let before = base.get(slot).copied().unwrap_or_default();
            CommandCounts {
                calls: all.calls - before.calls,
                nanos: all.nanos - before.nanos,
                untracked: all.untracked - before.untracked,
                rejected: all.rejected - before.rejected,
                failed: all.failed - before.failed,
            }
        });
        let names = COMMANDS.iter().flat_map(|command| command.slot_names());
        let used = |(_, counts): &(String, CommandCounts)| *counts != CommandCounts::default();
        names.zip(counts).filter(used).collect()
    }

    /// Returns how many batches each bucket has, those above the last bound, and the sum in seconds.
    pub(crate) fn latency(&self) -> ([u64; BUCKETS], u64, f64) {
        let bucket = |at: usize| self.sum(|worker| &worker.latency[at]);
        let nanos = self.sum(|worker| &worker.latency_nanos);
        (std::array::from_fn(bucket), bucket(BUCKETS), nanos as f64 * 1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_in_their_buckets() {
        let stats = Stats::default();
        let workers = [stats.add_worker(), stats.add_worker()];
        for (number, nanos) in [0, 1024, 1025, 2048, 1 << 32, (1 << 32) + 1].into_iter().enumerate()
        {
            workers[number % 2].note_batch(Duration::from_nanos(nanos));
        }
        let (buckets, above, seconds) = stats.latency();
        assert_eq!((buckets[..3].to_vec(), buckets[BUCKETS - 1], above), (vec![2, 2, 0], 1, 1));
        assert!((seconds - 8.589_938_69).abs() < 1e-6, "{seconds}");
        assert!((bucket_bound(0) - 1024e-9).abs() < 1e-15);
        assert!((bucket_bound(BUCKETS - 1) - 4.294_967_296).abs() < 1e-9);
    }

    /// The sum of a histogram is that of its calls.
    #[test]
    fn times_that_are_not_tracked_are_in_no_histogram() {
        let stats = Stats::default();
        let worker = stats.add_worker();
        for (micros, is_tracked) in [(5, true), (7, false)] {
            worker.command(0).add_time(CallTime::new(Duration::from_micros(micros), is_tracked));
        }
        let counts = stats.commands()[0].1;
        assert_eq!((counts.nanos, counts.untracked), (12_000, 7000));
        assert_eq!(stats.times(0).unwrap().doubling(), [(8, 1)]);
    }

    #[test]
    fn resets_begin_anew() {
        let stats = Stats::default();
        let worker = stats.add_worker();
        worker.command(0).calls.add(3);
        worker.command(0).add_time(CallTime::new(Duration::from_micros(5), true));
        worker.errors.add(2);
        assert_eq!(stats.times(0).unwrap().calls(), 1);
        stats.reset();
        assert_eq!((stats.commands(), stats.totals()), (Vec::new(), Totals::default()));
        assert_eq!(stats.times(0), None);
        worker.command(0).add_time(CallTime::new(Duration::from_micros(9), true));
        let times: Vec<_> = stats.times_by_name().map(|(name, it)| (name, it.doubling())).collect();
        assert_eq!(times, [(COMMANDS[0].name.to_string(), vec![(16, 1)])]);
        stats.reset();
        worker.command(0).failed.add(1);
        let counts = CommandCounts { failed: 1, ..CommandCounts::default() };
        assert_eq!(stats.commands(), [(COMMANDS[0].name.to_string(), counts)]);
    }
}
