//! What has become slower, faster, larger or smaller from one run to another, beyond what both runs
//! themselves vary by.
//!
//! A throughput counts as changed if it has changed by more than the tolerance, if the repetitions
//! of the two runs do not overlap, and if both hold for its share of the limit of memory as well. So
//! a minute in which the whole machine was slow changes nothing, and neither does one in which the
//! limit was measured wrong.

use super::format::number;
use super::terminal::{right, table};
use super::{Report, Row};
use comfy_table::Table;
use std::collections::BTreeMap;

/// A measure of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Throughput,
    Latency,
    Space,
}

impl Measure {
    const ALL: [Self; 3] = [Self::Throughput, Self::Latency, Self::Space];

    fn name(self) -> &'static str {
        match self {
            Self::Throughput => "M/s",
            Self::Latency => "ns, 99 %",
            Self::Space => "bytes an item",
        }
    }

    /// Returns the least and the greatest value, and their median.
    fn of(self, row: &Row) -> Option<[f64; 3]> {
        match self {
            Self::Throughput => {
                let median = row.mops?;
                Some([row.mops_min.unwrap_or(median), median, row.mops_max.unwrap_or(median)])
            }
            // Of one distribution that has all repetitions: the tail varies by half from run to run.
            Self::Latency => row.ns_p99.map(|ns| [ns / 1.5, ns, ns * 1.5]),
            Self::Space => row.bytes_per_item.map(|bytes| [bytes; 3]),
        }
    }

    fn is_better_if_more(self) -> bool {
        self == Self::Throughput
    }
}

/// A measure that has changed.
#[derive(Debug)]
struct Change<'r> {
    row: &'r Row,
    measure: Measure,
    before: f64,
    after: f64,
}

impl Change<'_> {
    /// How many times as good it is as before.
    fn gain(&self) -> f64 {
        let ratio = self.after / self.before;
        if self.measure.is_better_if_more() { ratio } else { 1.0 / ratio }
    }
}

/// The comparison of two runs.
#[derive(Debug)]
pub(crate) struct Changes<'r> {
    compared: usize,
    /// Rows that only one of the runs has.
    alone: usize,
    /// The worst first.
    all: Vec<Change<'r>>,
}

/// Whether the second of two ranges with medians differs by more than the tolerance and does not
/// touch the first.
fn differs(old: [f64; 3], new: [f64; 3], tolerance: f64) -> bool {
    let [old_least, old, old_most] = old;
    let [new_least, new, new_most] = new;
    let is_less = new < old * (1.0 - tolerance) && new_most < old_least;
    let is_more = new > old / (1.0 - tolerance) && new_least > old_most;
    is_less || is_more
}

/// Returns the shares of the limit that throughputs are, if the run has a limit for the row.
fn shares(report: &Report, row: &Row, values: [f64; 3]) -> Option<[f64; 3]> {
    let limit = report.limit.get(&row.threads)?.of(row.share_of?);
    Some(values.map(|value| value / limit))
}

impl<'r> Changes<'r> {
    /// Compares two runs.
    ///
    /// # Errors
    /// If the runs have other numbers of items or other keys.
    pub(crate) fn between(old: &Report, new: &'r Report, tolerance: f64) -> Result<Self, String> {
        for (what, before, after) in [
            ("items", old.params.items.to_string(), new.params.items.to_string()),
            ("operations in a batch", old.params.batch.to_string(), new.params.batch.to_string()),
            ("keys", format!("{:?}", old.params.keys), format!("{:?}", new.params.keys)),
        ] {
            if before != after {
                return Err(format!("the runs can't be compared: {before} and {after} {what}"));
            }
        }
        let key = |row: &Row| (row.operation.clone(), row.threads, row.map.clone());
        let mut olds: BTreeMap<_, &Row> = old.rows.iter().map(|row| (key(row), row)).collect();
        let mut changes = Self { compared: 0, alone: 0, all: Vec::new() };
        for row in &new.rows {
            let Some(before) = olds.remove(&key(row)) else {
                changes.alone += 1;
                continue;
            };
            changes.compared += 1;
            for measure in Measure::ALL {
                let Some((was, is)) = measure.of(before).zip(measure.of(row)) else { continue };
                let are_shares_same = measure == Measure::Throughput
                    && shares(old, before, was)
                        .zip(shares(new, row, is))
                        .is_some_and(|(was, is)| !differs(was, is, tolerance));
                if differs(was, is, tolerance) && !are_shares_same {
                    changes.all.push(Change { row, measure, before: was[1], after: is[1] });
                }
            }
        }
        changes.alone += olds.len();
        changes.all.sort_by(|a, b| a.gain().total_cmp(&b.gain()));
        Ok(changes)
    }

    /// Returns how many measures have become worse.
    pub(crate) fn worse(&self) -> usize {
        self.all.iter().filter(|change| change.gain() < 1.0).count()
    }

    /// Formats the changes for the terminal.
    pub(crate) fn text(&self) -> String {
        let (worse, all) = (self.worse(), self.all.len());
        let mut text = format!(
            "{} rows are compared: {worse} measures are worse, {} are better; {} rows are in one of \
             the runs only\n",
            self.compared,
            all - worse,
            self.alone
        );
        if all > 0 {
            text += &format!("{}\n", self.table());
        }
        text
    }

    fn table(&self) -> Table {
        let names = ["map", "operation", "threads", "measure", "before", "after", "times as good"];
        let mut table = table(names);
        for change in &self.all {
            let Change { row, measure, before, after } = change;
            table.add_row(vec![
                (&row.map).into(),
                (&row.operation).into(),
                right(row.threads),
                measure.name().into(),
                right(number(*before)),
                right(number(*after)),
                right(format!("{:.2}", change.gain())),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    /// Returns a run whose first row has these throughputs, on a machine with this limit.
    fn run(mops: [f64; 3], limit: f64) -> Report {
        let mut report = example();
        report.rows.truncate(1);
        let row = &mut report.rows[0];
        (row.mops_min, row.mops, row.mops_max) = (Some(mops[0]), Some(mops[1]), Some(mops[2]));
        let of_all = report.limit.get_mut(&row.threads).unwrap();
        row.share_of = Some(crate::workloads::AccessClass::Reads);
        *of_all = crate::probe::Limit { reads_mops: limit, ..*of_all };
        report
    }

    fn gains(old: &Report, new: &Report) -> Vec<f64> {
        let changes = Changes::between(old, new, 0.05).unwrap();
        assert_eq!((changes.compared, changes.alone), (1, 0));
        changes.all.iter().map(|change| (change.gain() * 100.0).round() / 100.0).collect()
    }

    #[test]
    fn what_is_slower_beyond_the_noise_is_named() {
        let old = run([9.5, 10.0, 10.5], 100.0);
        assert_eq!(gains(&old, &run([7.5, 8.0, 8.5], 100.0)), [0.8]);
        assert_eq!(gains(&old, &run([11.5, 12.0, 12.5], 100.0)), [1.2]);
        assert_eq!(gains(&old, &run([7.5, 8.0, 9.6], 100.0)), [0.0; 0], "the ranges overlap");
        assert_eq!(gains(&old, &run([9.7, 9.8, 9.9], 100.0)), [0.0; 0], "within the tolerance");
        assert_eq!(gains(&old, &run([7.5, 8.0, 8.5], 80.0)), [0.0; 0], "the machine was slower");
        assert_eq!(gains(&old, &run([9.5, 10.0, 10.5], 150.0)), [0.0; 0], "only the limit differs");
        let changes = run([7.5, 8.0, 8.5], 100.0);
        let changes = Changes::between(&old, &changes, 0.05).unwrap();
        assert!(changes.worse() == 1 && changes.text().contains("0.80"), "{}", changes.text());
    }

    #[test]
    fn larger_maps_are_worse() {
        let mut old = run([10.0; 3], 100.0);
        let mut new = old.clone();
        old.rows[0].bytes_per_item = Some(20.0);
        new.rows[0].bytes_per_item = Some(30.0);
        assert_eq!(gains(&old, &new), [0.67]);
        assert_eq!(gains(&new, &old), [1.5]);
    }

    #[test]
    fn other_workloads_are_not_compared() {
        let old = run([10.0; 3], 100.0);
        let mut new = old.clone();
        new.params.items += 1;
        assert!(Changes::between(&old, &new, 0.05).unwrap_err().contains("items"));
        let mut new = old.clone();
        new.rows[0].threads += 1;
        let changes = Changes::between(&old, &new, 0.05).unwrap();
        assert_eq!((changes.compared, changes.alone, changes.worse()), (0, 2, 0));
    }
}
