//! What is projected of a map, beside what its paper tells.

use crate::papers::{self, Value};
use crate::report::Report;
use crate::report::compare::distinct;
use crate::report::projection::Projection;

/// A number of a paper by number of threads.
pub(super) struct Told {
    pub(super) threads: usize,
    pub(super) mops: f64,
}

/// The projection of an operation, and what the map's paper tells about it.
pub(super) struct Curve<'r> {
    pub(super) operation: &'r str,
    pub(super) projection: Projection,
    pub(super) told: Vec<Told>,
}

/// Returns the curves of a map.
pub(super) fn curves<'r>(report: &'r Report, map: &str) -> Vec<Curve<'r>> {
    let of_map = report.rows.iter().filter(|row| row.map == map && row.filled().is_none());
    let papers = papers::all();
    let curve = |operation: &'r str| {
        let projection = Projection::of(report, map, operation)?;
        let values = papers.iter().flat_map(|paper| &paper.values);
        let told = values.filter_map(|value| told(value, map, operation)).collect();
        Some(Curve { operation, projection, told })
    };
    distinct(of_map, |row| row.operation.as_str()).into_iter().filter_map(curve).collect()
}

/// Returns a paper's throughput of this operation, if the paper tells the number of threads.
fn told(value: &Value, map: &str, operation: &str) -> Option<Told> {
    let (its_operation, its_map) = value.row()?;
    // The paper's table is filled to 95 %. Its curve is the one to see beside the default, too.
    let is_of_it = its_map == map || (map, its_map) == ("iceberg", "iceberg-95");
    let is_throughput = value.unit == "M/s" && its_operation == operation && is_of_it;
    is_throughput.then_some(())?;
    Some(Told { threads: value.threads?, mops: value.value })
}
