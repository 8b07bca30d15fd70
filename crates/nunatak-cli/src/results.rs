//! The measurements of the repetitions, before they become rows.

use crate::clock::Clock;
use crate::probe::Limit;
use crate::report::Row;
use crate::statistics::Summary;
use crate::targets::MapName;
use crate::workloads::latency::Latencies;
use crate::workloads::space::Space;
use crate::workloads::{Operation, Variant, Workload};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Operation, threads and map: the order of the report.
type Key = (Operation, usize, MapName);

/// All measurements of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Results {
    mops: BTreeMap<Key, Vec<f64>>,
    latencies: BTreeMap<(Workload, usize, MapName), Latencies>,
    spaces: BTreeMap<Key, Space>,
    levels: BTreeMap<Key, [f64; 3]>,
    times: BTreeMap<Key, Vec<f64>>,
    failed: Vec<Key>,
    failures: Vec<String>,
}

impl Results {
    pub(crate) fn add_mops(
        &mut self,
        operation: Operation,
        map: MapName,
        threads: usize,
        mops: f64,
    ) {
        self.mops.entry((operation, threads, map)).or_default().push(mops);
    }

    pub(crate) fn add_latencies(
        &mut self,
        workload: Workload,
        map: MapName,
        threads: usize,
        latencies: &Latencies,
    ) {
        self.latencies
            .entry((workload, threads, map))
            .and_modify(|sum| sum.add(latencies))
            .or_insert_with(|| latencies.clone());
    }

    pub(crate) fn add_space(
        &mut self,
        operation: Operation,
        map: MapName,
        threads: usize,
        space: Space,
    ) {
        self.spaces.insert((operation, threads, map), space);
    }

    pub(crate) fn add_levels(
        &mut self,
        operation: Operation,
        map: MapName,
        threads: usize,
        levels: [f64; 3],
    ) {
        self.levels.insert((operation, threads, map), levels);
    }

    /// Adds the duration of an operation that runs once, in milliseconds.
    pub(crate) fn add_time(
        &mut self,
        operation: Operation,
        map: MapName,
        threads: usize,
        milliseconds: f64,
    ) {
        self.times.entry((operation, threads, map)).or_default().push(milliseconds);
    }

    /// Voids the row, whatever other repetitions measured.
    pub(crate) fn fail(&mut self, operation: Operation, map: MapName, threads: usize, why: &str) {
        self.failed.push((operation, threads, map));
        self.note_failure(format!("{map}, {operation}, threads {threads}: {why}"));
    }

    /// Notes a failure that belongs to no row.
    pub(crate) fn note_failure(&mut self, failure: String) {
        if !self.failures.contains(&failure) {
            self.failures.push(failure);
        }
    }

    /// Returns all rows, and all failures.
    pub(crate) fn into_rows(
        self,
        limits: &BTreeMap<usize, Limit>,
        clock: &Clock,
    ) -> (Vec<Row>, Vec<String>) {
        let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
        for (key, samples) in self.mops {
            rows.insert(key, throughput_row(key, &samples, limits));
        }
        for ((workload, threads, map), latencies) in self.latencies {
            let all = [
                (Variant::OfInsert, &latencies.inserts),
                (Variant::OfGet, &latencies.gets),
                (Variant::OfMiss, &latencies.misses),
            ];
            for (variant, histogram) in all.into_iter().filter(|(_, all)| !all.is_empty()) {
                let key = (Operation::new(workload, variant), threads, map);
                rows.insert(key, latency_row(key, histogram, clock));
            }
        }
        for (key, space) in self.spaces {
            let row = rows.entry(key).or_insert_with(|| row(key));
            row.bytes_per_item = Some(space.bytes_per_item);
            row.load_factor = space.load_factor;
        }
        for (key, levels) in self.levels {
            rows.entry(key).or_insert_with(|| row(key)).levels = Some(levels);
        }
        for (key, samples) in self.times {
            let milliseconds = Summary::of(&samples).map(|summary| summary.median);
            rows.entry(key).or_insert_with(|| row(key)).milliseconds = milliseconds;
        }
        for key in self.failed {
            rows.remove(&key);
        }
        (rows.into_values().collect(), self.failures)
    }
}

fn row((operation, threads, map): Key) -> Row {
    Row { map: map.to_string(), operation: operation.to_string(), threads, ..Row::default() }
}

fn throughput_row(key: Key, samples: &[f64], limits: &BTreeMap<usize, Limit>) -> Row {
    let summary = Summary::of(samples);
    let mops = summary.map(|summary| summary.median);
    let share_of = key.0.class().filter(|_| limits.contains_key(&key.1));
    let limit = share_of.zip(limits.get(&key.1)).map(|(class, limit)| limit.of(class));
    Row {
        mops,
        mops_min: summary.map(|summary| summary.min),
        mops_max: summary.map(|summary| summary.max),
        share: mops.zip(limit).map(|(mops, limit)| mops / limit),
        share_of,
        ..row(key)
    }
}

fn latency_row(key: Key, histogram: &Histogram<u64>, clock: &Clock) -> Row {
    let at = |quantile| Some(clock.nanoseconds(histogram.value_at_quantile(quantile)));
    Row {
        ns_p50: at(0.5),
        ns_p95: at(0.95),
        ns_p99: at(0.99),
        ns_p999: at(0.999),
        ns_p9999: at(0.9999),
        ns_p99999: at(0.99999),
        ns_max: Some(clock.nanoseconds(histogram.max())),
        ..row(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_is_no_row() {
        let mut results = Results::default();
        let (hit, miss) = (
            Operation::new(Workload::GetHit, Variant::Only),
            Operation::new(Workload::GetMiss, Variant::Only),
        );
        for operation in [hit, miss] {
            for mops in [3.0, 1.0, 2.0] {
                results.add_mops(operation, MapName::Scc, 1, mops);
            }
        }
        results.fail(miss, MapName::Scc, 1, "wrong");
        let (rows, failures) = results.into_rows(&BTreeMap::new(), &Clock::calibrated());
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].operation.as_str(), rows[0].mops), ("get-hit", Some(2.0)));
        assert_eq!(failures, ["scc, get-miss, threads 1: wrong"]);
    }
}
