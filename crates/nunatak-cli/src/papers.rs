//! The numbers of the papers, beside those of a run.
//!
//! `papers/` has a file for each paper: every number of its tables, and the values that its text
//! gives for its figures. A value says whether it depends on the machine, and, if a command measures
//! the same here, where in a run it stands.

use crate::experiment::figure::{Figure, Point};
use crate::report::format::number;
use crate::report::{PERCENTILES, Report, Row};
use comfy_table::Cell;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A paper and its numbers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paper {
    /// A word for file names.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) venue: String,
    /// The machine of its measurements.
    pub(crate) machine: String,
    pub(crate) values: Vec<Value>,
}

/// A number of a paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Value {
    /// The table or figure, and the section whose text has the number.
    #[serde(rename = "where")]
    pub(crate) place: String,
    pub(crate) what: String,
    /// The map that the number is about.
    pub(crate) system: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
    /// Whether the quantity depends on the machine.
    pub(crate) depends: bool,
    /// How many threads the number is of, if the paper says so.
    #[serde(default)]
    pub(crate) threads: Option<usize>,
    /// Where a run has the same quantity.
    #[serde(default)]
    pub(crate) ours: Option<Place>,
    /// What it is divided by, if the quantity is a ratio.
    #[serde(default)]
    pub(crate) over: Option<Place>,
    /// The number of items that it is about, if another number has another value.
    #[serde(default)]
    pub(crate) items: Option<u64>,
    /// The deviation that a run of any size may have, as a part of the paper's value. Values that
    /// depend on the machine have none, nor have those that depend on the number of items.
    #[serde(default)]
    pub(crate) tolerance: Option<f64>,
}

/// Where a run has a quantity.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Place {
    #[serde(flatten)]
    kind: Kind,
    scale: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Row(OfRow),
    Figure(OfFigure),
}

/// A measurement of a workload. Of several numbers of threads the best counts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfRow {
    operation: String,
    map: String,
    measure: String,
}

/// A measurement of an experiment: of the rows that have these parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfFigure {
    experiment: String,
    /// A word of the figure's title, if the experiment has several figures.
    title: String,
    at: BTreeMap<String, String>,
    measure: String,
}

/// Returns the papers.
pub(crate) fn all() -> Vec<Paper> {
    const FILES: [&str; 4] = [
        include_str!("../papers/dlht.json"),
        include_str!("../papers/iceberg.json"),
        include_str!("../papers/pea.json"),
        include_str!("../papers/turbo.json"),
    ];
    let read = |text: &str| serde_json::from_str(text).expect("the files are tested");
    FILES.map(read).to_vec()
}

impl OfRow {
    fn find(&self, report: &Report) -> Option<f64> {
        // A run may emulate the latency of the paper's device besides.
        let is_slower = |rest: &str| rest.is_empty() || rest.starts_with(", ");
        let is_map = |map: &str| map.strip_prefix(&self.map).is_some_and(is_slower);
        let of_it = |row: &&Row| row.operation == self.operation && is_map(&row.map);
        let all = report.rows.iter().filter(of_it).filter_map(|row| self.measure_of(row));
        // Latencies are the better the smaller they are.
        match self.measure.as_str() {
            "mops" | "share" => all.reduce(f64::max),
            _ => all.reduce(f64::min),
        }
    }

    fn measure_of(&self, row: &Row) -> Option<f64> {
        match self.measure.as_str() {
            "mops" => row.mops,
            "share" => row.share.map(|share| 100.0 * share),
            "efficiency" => row.space_efficiency().map(|share| 100.0 * share),
            level @ ("level 1" | "level 2" | "level 3") => {
                let at = usize::from(level.as_bytes()[6] - b'1');
                row.levels.map(|levels| 100.0 * levels[at])
            }
            percentile => {
                let at = PERCENTILES.iter().position(|name| *name == percentile)?;
                row.latencies().map(|latencies| latencies[at])
            }
        }
    }
}

impl OfFigure {
    fn find(&self, report: &Report) -> Option<f64> {
        // An experiment may have run more than once, with other maps.
        let figures = report.figures.iter().filter(|figure| {
            figure.experiment == self.experiment && figure.title.contains(&self.title)
        });
        figures.filter_map(|figure| self.find_in(figure)).next()
    }

    fn find_in(&self, figure: &Figure) -> Option<f64> {
        let measure = figure.measures.iter().position(|name| *name == self.measure)?;
        let has_all = |point: &&Point| {
            let is = |(name, value): (&String, &String)| {
                let at = figure.parameters.iter().position(|parameter| parameter == name);
                at.is_some_and(|at| point.at[at] == *value)
            };
            self.at.iter().all(is)
        };
        let mut all =
            figure.points.iter().filter(has_all).filter_map(|point| point.values[measure]);
        // Of several numbers of threads the best throughput counts, else the first row.
        if self.measure.ends_with("/s") { all.reduce(f64::max) } else { all.next() }
    }
}

impl Place {
    fn find(&self, report: &Report) -> Option<f64> {
        let found = match &self.kind {
            Kind::Row(row) => row.find(report),
            Kind::Figure(figure) => figure.find(report),
        };
        Some(found? * self.scale)
    }
}

impl Value {
    /// Returns what the run has for this number.
    pub(crate) fn measured(&self, report: &Report) -> Option<f64> {
        if self.items.is_some_and(|items| items != report.params.items) {
            return None;
        }
        let ours = self.ours.as_ref()?.find(report)?;
        match &self.over {
            None => Some(ours),
            Some(over) => over.find(report).map(|over| ours / over),
        }
    }

    /// Returns the operation and the map of the workload that measures this number, if one does.
    pub(crate) fn row(&self) -> Option<(&str, &str)> {
        match &self.ours.as_ref()?.kind {
            Kind::Row(row) if self.over.is_none() => Some((&row.operation, &row.map)),
            Kind::Row(_) | Kind::Figure(_) => None,
        }
    }

    /// Returns by which part the run differs from the paper, if the paper's number is not zero.
    pub(crate) fn deviation(&self, measured: f64) -> Option<f64> {
        (self.value != 0.0).then(|| measured / self.value - 1.0)
    }

    pub(crate) fn machine(&self) -> &'static str {
        if self.depends { "depends" } else { "does not" }
    }
}

/// Formats a deviation in percent.
pub(crate) fn percent(deviation: Option<f64>) -> String {
    match deviation {
        None => String::new(),
        Some(part) if part.abs() < 9.995 => format!("{:+.0} %", 100.0 * part),
        Some(part) => format!("× {}", number(part + 1.0)),
    }
}

/// Formats a number that may be very small.
pub(crate) fn short(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.005 { format!("{value:.1e}") } else { number(value) }
}

/// Formats the papers' numbers beside those of a run: those that it has. Empty if it has none.
pub(crate) fn text(report: &Report) -> String {
    let mut text = String::new();
    for paper in all() {
        let found = |value: &Value| value.measured(report);
        let with: Vec<(&Value, f64)> =
            paper.values.iter().filter_map(|value| Some((value, found(value)?))).collect();
        if with.is_empty() {
            continue;
        }
        let mut table = crate::report::terminal::table([
            "where",
            "what",
            "paper",
            "here",
            "unit",
            "deviation",
            "machine",
        ]);
        for (value, measured) in with {
            let right = crate::report::terminal::right;
            table.add_row([
                Cell::new(&value.place),
                Cell::new(&value.what),
                right(short(value.value)),
                right(short(measured)),
                Cell::new(&value.unit),
                right(percent(value.deviation(measured))),
                Cell::new(value.machine()),
            ]);
        }
        // Writing to a string can't fail.
        let _ = writeln!(text, "\nBeside the paper: {} ({})\n{table}", paper.title, paper.venue);
        let _ = writeln!(text, "The paper's machine: {}.", paper.machine);
    }
    text
}

/// Returns the deviations beyond their tolerances, in words.
pub(crate) fn beyond(report: &Report) -> Vec<String> {
    let mut beyond = Vec::new();
    for paper in all() {
        for value in paper.values.iter().filter(|value| !value.depends) {
            let (Some(tolerance), Some(measured)) = (value.tolerance, value.measured(report))
            else {
                continue;
            };
            let deviation = value.deviation(measured).unwrap_or(0.0);
            if deviation.abs() > tolerance {
                beyond.push(format!(
                    "{}, {}: {} is {} {} in the paper and {} here",
                    paper.venue,
                    value.place,
                    value.what,
                    short(value.value),
                    value.unit,
                    short(measured)
                ));
            }
        }
    }
    beyond
}

/// Returns the experiments and workloads that the values name, with the figures of experiments.
#[cfg(test)]
fn places() -> Vec<Kind> {
    let values = all().into_iter().flat_map(|paper| paper.values);
    values.flat_map(|value| [value.ours, value.over]).flatten().map(|place| place.kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::choice::Experiment;
    use crate::named::Named as _;
    use crate::report::tests::example;
    use crate::targets::MapName;
    use crate::workloads::Workload;
    use clap::ValueEnum as _;

    #[test]
    fn every_place_is_one_that_a_command_can_measure() {
        let maps: Vec<String> = MapName::value_variants().iter().map(MapName::name).collect();
        let workloads: Vec<String> =
            Workload::value_variants().iter().map(Workload::name).collect();
        let experiments: Vec<String> =
            Experiment::value_variants().iter().map(Experiment::name).collect();
        for place in places() {
            match place {
                Kind::Row(row) => {
                    let workload = row.operation.split('/').next().unwrap_or_default();
                    // The level of durability is that of `nunatak bench papers`.
                    let (map, level) = row.map.split_once('@').unwrap_or((&row.map, "process"));
                    assert!(maps.iter().any(|name| name == map), "{row:?}");
                    assert!(["process", "persistent-memory"].contains(&level), "{row:?}");
                    assert_eq!(level != "process", map.ends_with("-file"), "{row:?}");
                    assert!(workloads.iter().any(|name| name == workload), "{row:?}");
                }
                Kind::Figure(figure) => {
                    assert!(experiments.contains(&figure.experiment), "{figure:?}");
                }
            }
        }
    }

    #[test]
    fn values_are_as_the_files_should_have_them() {
        for paper in all() {
            assert!(paper.values.len() > 30 && !paper.machine.is_empty(), "{}", paper.id);
            for value in &paper.values {
                assert!(value.value.is_finite() && !value.unit.is_empty(), "{value:?}");
                assert!(value.tolerance.is_none() || !value.depends && value.ours.is_some());
                assert!(value.over.is_none() || value.ours.is_some(), "{value:?}");
            }
        }
    }

    #[test]
    fn a_number_is_found_in_rows_and_in_figures() {
        let report = example();
        let row = |operation: &str, map: &str, measure: &str| {
            let row =
                OfRow { operation: operation.into(), map: map.into(), measure: measure.into() };
            Place { kind: Kind::Row(row), scale: 1.0 }.find(&report)
        };
        // The better of two numbers of threads.
        assert_eq!(row("get-hit", "dlht", "mops"), Some(100.0));
        assert_eq!(row("get-hit", "scc", "mops"), None);
        assert_eq!(row("get-hit", "dlh", "mops"), None);
        assert_eq!(row("latency/insert", "dlht", "p99"), Some(200.0));
        assert_eq!(row("levels", "iceberg", "level 2").map(f64::round), Some(9.0));
        let figure = |bytes: &str, measure: &str| {
            let at = BTreeMap::from([("bytes".to_owned(), bytes.to_owned())]);
            let (experiment, title) = (String::new(), "size".to_owned());
            let figure = OfFigure { experiment, title, at, measure: measure.into() };
            Place { kind: Kind::Figure(figure), scale: 2.0 }.find(&report)
        };
        assert_eq!(figure("8", "get M/s"), Some(25.0));
        assert_eq!([figure("9", "get M/s"), figure("8", "insdel M/s")], [None, None]);
    }

    #[test]
    fn a_number_of_so_many_items_is_compared_with_those_only() {
        let mut report = example();
        let level = |value: &&Value| value.what == "micro: keys in level 2";
        let mut value = all()[1].values.iter().find(level).unwrap().clone();
        report.rows.iter_mut().for_each(|row| row.map = "iceberg-95".into());
        assert!(value.measured(&report).is_some());
        value.items = Some(report.params.items + 1);
        assert_eq!(value.measured(&report), None);
        value.items = Some(report.params.items);
        assert!(value.measured(&report).is_some());
    }

    #[test]
    fn what_is_beyond_its_tolerance_is_named() {
        let mut report = example();
        assert_eq!(beyond(&report), Vec::<String>::new());
        let levels = report.rows.iter_mut().find(|row| row.operation == "levels").unwrap();
        levels.map = "iceberg-95".into();
        assert_eq!(beyond(&report), Vec::<String>::new());
        let table = text(&report);
        assert!(
            table.contains("table 4") && table.contains("-0 %") || table.contains("+0 %"),
            "{table}"
        );
        let levels = report.rows.iter_mut().find(|row| row.operation == "levels").unwrap();
        levels.levels = Some([0.8, 0.2, 0.0]);
        let beyond = beyond(&report);
        assert!(beyond.len() >= 2 && beyond[0].contains("91.2"), "{beyond:?}");
    }

    #[test]
    fn deviations_are_short() {
        let all = [Some(0.1), Some(-0.256), Some(20.0), None].map(percent);
        assert_eq!(all, ["+10 %", "-26 %", "× 21.0", ""]);
        assert_eq!([0.0, 0.000_08, 1.5].map(short), ["0.00", "8.0e-5", "1.50"]);
    }
}
