//! The result of a run, which is saved as JSON and drawn as tables and a page.

mod beside;
pub(crate) mod changes;
pub(crate) mod chart;
pub(crate) mod compare;
mod figures;
pub(crate) mod fill;
pub(crate) mod folder;
pub(crate) mod format;
pub(crate) mod html;
mod parts;
pub(crate) mod picture;
pub(crate) mod projection;
pub(crate) mod terminal;

use crate::experiment::figure::Figure;
use crate::machine::Machine;
use crate::medium::Medium;
use crate::probe::Limit;
use crate::settings::{KeyOrder, Settings};
use crate::targets::MapName;
use crate::workloads::AccessClass;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A run and its measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) experiment: String,
    pub(crate) machine: Machine,
    pub(crate) params: Params,
    pub(crate) rows: Vec<Row>,
    /// The limits of memory by number of threads.
    pub(crate) limit: BTreeMap<usize, Limit>,
    /// The results of the experiments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) figures: Vec<Figure>,
    /// Measurements that are void because a check failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) failures: Vec<String>,
    /// The commands that measured it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) commands: Vec<String>,
}

impl Report {
    /// Gives the maps of a run that an earlier version saved their present names.
    pub(crate) fn rename_maps(&mut self) {
        for row in &mut self.rows {
            if row.map == "nunatak" {
                "dlht".clone_into(&mut row.map);
            }
        }
    }

    /// Says on what the files of the maps are. A level of durability that is not the default one
    /// becomes a part of the names of their rows: `iceberg-file@persistent-memory`.
    pub(crate) fn say_medium(&mut self, settings: &Settings) {
        if !settings.maps.iter().any(|map| map.is_durable()) {
            return;
        }
        let medium = Medium::used();
        self.params.files = vec![medium.said()];
        let Some(label) = medium.label() else { return };
        for row in &mut self.rows {
            if MapName::of_row(&row.map).is_some_and(|map| map.is_durable() && map.is_own()) {
                row.map = format!("{}@{label}", row.map);
            }
        }
    }

    /// Adds what another run of the same machine has measured.
    pub(crate) fn add(&mut self, other: Self) {
        let has = |row: &Row| {
            let is_it = |own: &&Row| {
                (&own.map, &own.operation, own.threads) == (&row.map, &row.operation, row.threads)
            };
            self.rows.iter().any(|own| is_it(&own))
        };
        let mut new: Vec<Row> = other.rows.into_iter().filter(|row| !has(row)).collect();
        let before = self.commands.len();
        new.iter_mut().for_each(|row| row.command = row.command.map(|command| command + before));
        self.rows.extend(new);
        for files in other.params.files {
            if !self.params.files.contains(&files) {
                self.params.files.push(files);
            }
        }
        self.figures.extend(other.figures);
        self.failures.extend(other.failures);
        self.commands.extend(other.commands);
        for (threads, limit) in other.limit {
            self.limit.entry(threads).or_insert(limit);
        }
    }
}

/// The parameters of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Params {
    pub(crate) items: u64,
    pub(crate) threads: Vec<usize>,
    pub(crate) repetitions: usize,
    pub(crate) batch: usize,
    pub(crate) seed: u64,
    pub(crate) keys: KeyOrder,
    pub(crate) hasher: String,
    pub(crate) milliseconds: u64,
    pub(crate) probe_mib: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// On what the files of maps are, and what an operation on them survives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<String>,
}

/// One operation of one map with one number of threads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Row {
    pub(crate) map: String,
    pub(crate) operation: String,
    pub(crate) threads: usize,
    /// Millions of operations a second: the median of the repetitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mops: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mops_min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mops_max: Option<f64>,
    /// The ratio of `mops` to the limit of the class `share_of`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) share_of: Option<AccessClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ns_p50: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ns_p95: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ns_p99: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ns_p999: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ns_p9999: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ns_p99999: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ns_max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_per_item: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) load_factor: Option<f64>,
    /// The shares of the items in levels 1, 2 and 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) levels: Option<[f64; 3]>,
    /// The number of the command that measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<usize>,
    /// The duration of an operation that runs once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) milliseconds: Option<f64>,
}

/// The names of the percentiles of a row.
pub(crate) const PERCENTILES: [&str; 7] =
    ["p50", "p95", "p99", "p99.9", "p99.99", "p99.999", "max"];

impl Row {
    /// Returns the latencies in the order of [`PERCENTILES`], if the row has them.
    pub(crate) fn latencies(&self) -> Option<[f64; 7]> {
        Some([
            self.ns_p50?,
            // Reports of earlier versions have none.
            self.ns_p95.or(self.ns_p50)?,
            self.ns_p99?,
            self.ns_p999?,
            self.ns_p9999?,
            self.ns_p99999?,
            self.ns_max?,
        ])
    }

    /// Returns the level of durability, and the emulated latency, if they are not the default ones.
    pub(crate) fn level(&self) -> Option<&str> {
        self.map.split_once('@').map(|(_, level)| level)
    }

    /// Returns the operation without the mark of batching.
    pub(crate) fn base_operation(&self) -> &str {
        self.operation.strip_suffix("/batch").unwrap_or(&self.operation)
    }

    pub(crate) fn is_batched(&self) -> bool {
        self.operation.ends_with("/batch")
    }

    /// Returns a warning if the repetitions say different things: then the median is chance.
    pub(crate) fn unsteady(&self) -> Option<String> {
        const MUCH: f64 = 2.0;
        let factor = self.mops_max? / self.mops_min?;
        (factor >= MUCH).then(|| format!("repetitions differ {}×", format::number(factor)))
    }

    /// Returns how full the map was at the end of a step of `fill`, in percents.
    pub(crate) fn filled(&self) -> Option<u8> {
        self.operation.strip_prefix("fill/")?.parse().ok()
    }

    /// Returns the share of the map's memory that items take, at 16 bytes each.
    pub(crate) fn space_efficiency(&self) -> Option<f64> {
        self.bytes_per_item.map(|bytes| 16.0 / bytes)
    }

    /// Returns the name of the map, and whether the row is batched.
    pub(crate) fn label(&self) -> String {
        if self.is_batched() { format!("{} (batch)", self.map) } else { self.map.clone() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes a report with rows of every kind.
    pub(crate) fn example() -> Report {
        let throughput = |map: &str, operation: &str, threads, mops: f64| Row {
            map: map.into(),
            operation: operation.into(),
            threads,
            mops: Some(mops),
            mops_min: Some(mops * 0.9),
            mops_max: Some(mops * 1.1),
            share: Some(mops / 120.0),
            share_of: Some(AccessClass::Reads),
            ..Row::default()
        };
        let mut rows = Vec::new();
        for (map, mops) in [("dlht", 50.0), ("papaya", 20.5), ("a<b>&\"c", 10.25)] {
            for threads in [1, 2] {
                rows.push(throughput(map, "get-hit", threads, mops * threads as f64));
            }
            rows.push(Row {
                map: map.into(),
                operation: "latency/insert".into(),
                threads: 1,
                ns_p50: Some(40.0),
                ns_p95: Some(150.0),
                ns_p99: Some(200.0),
                ns_p999: Some(900.0),
                ns_p9999: Some(4e3),
                ns_p99999: Some(5e5),
                ns_max: Some(2e7 + mops),
                ..Row::default()
            });
            rows.push(Row {
                map: map.into(),
                operation: "space/grown".into(),
                threads: 1,
                bytes_per_item: Some(mops),
                load_factor: Some(0.6),
                ..Row::default()
            });
        }
        rows.push(throughput("dlht", "get-hit/batch", 2, 180.25));
        for (map, mops) in [("dlht", 12.0), ("papaya", 5.0)] {
            for percent in [5, 50, 95] {
                rows.push(Row {
                    bytes_per_item: Some(1600.0 / f64::from(percent)),
                    ..throughput(map, &format!("fill/{percent:02}"), 1, mops)
                });
            }
        }
        rows.push(Row {
            map: "iceberg".into(),
            operation: "levels".into(),
            threads: 1,
            levels: Some([0.912, 0.087, 0.000_000_7]),
            ..Row::default()
        });
        let mut figure = Figure::new("By <size>", &["bytes", "map"], &["get M/s", "insdel M/s"]);
        figure.add(&[&8, &"records"], vec![Some(12.5), None]);
        figure.note("Nothing else.");
        let limit = Limit {
            reads_mops: 120.0,
            rmw_mops: 115.0,
            cas_mops: 95.0,
            chase_mops: 5.5,
            best_distance: 24,
            rmw_best_distance: 16,
            cas_best_distance: 32,
            unprefetched_reads_mops: 80.0,
            pairs_mops: 55.0,
            unprefetched_pairs_mops: 25.0,
            second_level_reads_mops: 140.0,
        };
        Report {
            experiment: "example".into(),
            machine: Machine::this(),
            params: Params {
                items: 1_000_000,
                threads: vec![1, 2],
                repetitions: 3,
                batch: 256,
                seed: 42,
                keys: KeyOrder::Uniform,
                hasher: "foldhash".into(),
                milliseconds: 100,
                probe_mib: 64,
                text: None,
                files: Vec::new(),
            },
            rows,
            limit: BTreeMap::from([(1, limit), (2, limit)]),
            figures: vec![figure],
            failures: vec!["papaya: failed <badly>".into()],
            commands: vec!["nunatak bench get-hit".into()],
        }
    }

    #[test]
    fn runs_are_added_without_repetitions() {
        let (mut all, mut other) = (example(), example());
        let rows = all.rows.len();
        other.rows[0].map = "another".into();
        other.rows[0].command = Some(0);
        all.add(other);
        assert_eq!(all.rows.last().and_then(|row| row.command), Some(1));
        assert_eq!((all.rows.len(), all.figures.len(), all.commands.len()), (rows + 1, 2, 2));
    }

    #[test]
    fn rows_whose_repetitions_differ_warn() {
        let mut report = example();
        report.rows[0].mops_min = report.rows[0].mops_max.map(|most| most / 3.0);
        assert_eq!(report.rows[0].unsteady().as_deref(), Some("repetitions differ 3.00×"));
        assert_eq!(report.rows[1].unsteady(), None);
        for page in [html::page(&report), terminal::tables(&report)] {
            assert!(page.contains('⚠'), "{page}");
        }
        let files = folder::files(&report);
        let warned = |name: &str| files.iter().any(|(it, page)| it == name && page.contains('⚠'));
        assert!(warned("map-dlht.html") && !warned("map-papaya.html"));
    }

    #[test]
    fn runs_of_earlier_versions_get_the_present_names() {
        let mut report = example();
        report.rows[0].map = "nunatak".into();
        report.rename_maps();
        assert_eq!(report, example());
    }

    #[test]
    fn a_report_survives_json() {
        let report = example();
        let json = serde_json::to_string_pretty(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
        // A row omits missing properties; a figure has a place for each value.
        assert!(!serde_json::to_string(&report.rows).unwrap().contains("null"));
    }
}
