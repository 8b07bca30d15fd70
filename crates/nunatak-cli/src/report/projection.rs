//! A model of throughput by number of threads, to look beyond the cores of a machine.
//!
//! It has two parts, and the smaller one counts. **Contention**: n threads do
//! `n · X / (1 + c · (n − 1))`, where X is the throughput of one thread, and c comes from the largest
//! number of threads that was measured. This is Amdahl's law, or the Universal Scalability Law without
//! its second coefficient, which two points can't give. **Memory**: an operation reads at least so many
//! cache lines, so n threads do no more operations than the memory gives them lines. The limit of n
//! threads follows from the limits that the probe has measured, by the same law.

use super::{Report, Row};
use crate::targets::MapName;

/// The numbers of threads that are projected.
pub(crate) const THREADS: [usize; 2] = [16, 64];

/// Throughput by number of threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Law {
    /// The throughput of one thread.
    one: f64,
    /// Which part of a thread's time each further thread takes from it.
    contention: f64,
}

impl Law {
    /// Returns the law that passes through the throughput of one thread and that of several.
    pub(crate) fn through(one: f64, (threads, several): (usize, f64)) -> Option<Self> {
        let others = threads.checked_sub(1).filter(|&others| others > 0)? as f64;
        let is_measured = one > 0.0 && several > 0.0;
        let contention = (threads as f64 * one / several - 1.0) / others;
        // More than so many times one thread's throughput is chance, or a cache.
        is_measured.then_some(Self { one, contention: contention.max(0.0) })
    }

    pub(crate) fn at(&self, threads: usize) -> f64 {
        let threads = threads as f64;
        threads * self.one / (1.0 + self.contention * (threads - 1.0))
    }
}

/// The projection of one operation of one map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Projection {
    /// Threads, and throughputs, that were measured.
    pub(crate) measured: Vec<(usize, f64)>,
    law: Law,
    /// The laws through the extremes of the repetitions: the worst case, and the best one.
    extremes: [Law; 2],
    /// The most operations that the memory allows; none if a measured throughput exceeds it.
    memory: Option<Law>,
}

impl Projection {
    /// Projects what a run has of an operation, if it has one thread and several.
    pub(crate) fn of(report: &Report, map: &str, operation: &str) -> Option<Self> {
        let is_it = |row: &&Row| row.map == map && row.operation == operation;
        let mut rows: Vec<&Row> = report.rows.iter().filter(is_it).collect();
        rows.retain(|row| row.mops.is_some());
        rows.sort_by_key(|row| row.threads);
        let (first, last) = (*rows.first()?, *rows.last()?);
        if first.threads != 1 {
            return None;
        }
        let threads = last.threads;
        let law = |one: Option<f64>, several: Option<f64>| Law::through(one?, (threads, several?));
        let limits = first.share_of.and_then(|class| {
            let limit = |threads| report.limit.get(&threads).map(|limit| limit.of(class));
            law(limit(1), limit(threads))
        });
        let lines = least_lines(map, operation);
        let memory = limits.map(|limit| Law { one: limit.one / lines, ..limit });
        let measured: Vec<(usize, f64)> =
            rows.iter().filter_map(|row| Some((row.threads, row.mops?))).collect();
        // A map that is faster than the memory is in caches, whose limit is not known.
        let is_slower = |memory: &Law| measured.iter().all(|&(n, mops)| mops <= memory.at(n));
        Some(Self {
            memory: memory.filter(is_slower),
            law: law(first.mops, last.mops)?,
            extremes: [law(first.mops_max, last.mops_min)?, law(first.mops_min, last.mops_max)?],
            measured,
        })
    }

    fn within_memory(&self, threads: usize, throughput: f64) -> f64 {
        self.memory.map_or(throughput, |memory| throughput.min(memory.at(threads)))
    }

    /// Returns the projected throughput.
    pub(crate) fn at(&self, threads: usize) -> f64 {
        self.within_memory(threads, self.law.at(threads))
    }

    /// Returns the least and the most that the repetitions allow.
    pub(crate) fn range(&self, threads: usize) -> (f64, f64) {
        let [least, most] = self.extremes.map(|law| self.within_memory(threads, law.at(threads)));
        (least.min(most), most.max(least))
    }

    /// Whether the memory sets the projected throughput.
    pub(crate) fn is_of_memory(&self, threads: usize) -> bool {
        self.at(threads) < self.law.at(threads)
    }

    pub(crate) fn contention(&self) -> f64 {
        self.law.contention
    }
}

/// Returns how many cache lines an operation reads at least: the library's tests count them
/// (`table/*/tests.rs`). An operation of any other map reads at least one.
pub(crate) fn least_lines(map: &str, operation: &str) -> f64 {
    let design = MapName::of_row(map).filter(|name| name.is_own() && !name.is_durable());
    let name = design.map_or(String::new(), |name| name.to_string());
    match (name.split('-').next().unwrap_or_default(), operation) {
        // Fingerprints, and the slot. A batched miss mostly reads fingerprints alone.
        ("iceberg", "get-miss/batch") => 1.0,
        ("iceberg", _) => 2.0,
        ("turbo", "get-hit" | "get-hit/batch") => 1.5,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn a_law_passes_through_its_points() {
        let law = Law::through(10.0, (2, 16.0)).unwrap();
        assert!((law.contention - 0.25).abs() < 1e-12, "{law:?}");
        assert!((law.at(1) - 10.0).abs() < 1e-9 && (law.at(2) - 16.0).abs() < 1e-9);
        assert!((law.at(16) - 160.0 / 4.75).abs() < 1e-9);
        let linear = Law::through(10.0, (4, 44.0)).unwrap();
        assert!((linear.at(64) - 640.0).abs() < 1e-9, "chance is no coefficient: {linear:?}");
        let law = Law::through(10.0, (3, 24.0)).unwrap();
        assert!((law.at(3) - 24.0).abs() < 1e-9, "{law:?}");
        assert_eq!(Law::through(10.0, (1, 10.0)), None);
        assert_eq!(Law::through(0.0, (2, 10.0)), None);
    }

    /// The example doubles its throughput by two threads. Its limit does not grow at all.
    #[test]
    fn memory_ends_what_threads_begin() {
        let mut report = example();
        let projection = Projection::of(&report, "dlht", "get-hit").unwrap();
        assert_eq!(projection.measured, [(1, 50.0), (2, 100.0)]);
        assert!(projection.contention().abs() < 1e-12);
        // A limit of 120 with one thread and with two: 120 with any number.
        let of = |projection: &Projection| THREADS.map(|threads| projection.at(threads));
        assert!(of(&projection).iter().all(|mops| (mops - 120.0).abs() < 1e-9), "{projection:?}");
        assert!(projection.is_of_memory(16));
        for limit in report.limit.values_mut() {
            limit.reads_mops = 99.0;
        }
        let free = Projection::of(&report, "dlht", "get-hit").unwrap();
        assert_eq!(of(&free), [800.0, 3200.0]);
        assert!(!free.is_of_memory(64));
        // The repetitions deviate by a tenth in both directions.
        let (least, most) = free.range(16);
        let expected = Law::through(55.0, (2, 90.0)).unwrap().at(16);
        assert!((least - expected).abs() < 1e-9 && (most - 720.0).abs() < 1e-9, "{least} {most}");
        assert_eq!(Projection::of(&report, "dlht", "get-hit/batch"), None, "no single thread");
        assert_eq!((least_lines("iceberg-95", "insert"), least_lines("scc", "insert")), (2.0, 1.0));
    }
}
