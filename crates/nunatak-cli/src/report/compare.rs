//! Comparison of this project's maps with the best map of others.

use super::{Report, Row};
use crate::targets::MapName;

/// Returns whether the row is about a map of this project.
pub(crate) fn is_own(row: &Row) -> bool {
    MapName::of_row(&row.map).is_some_and(MapName::is_own)
}

/// Returns whether the row is about a map that keeps its items in files.
pub(crate) fn is_durable(row: &Row) -> bool {
    MapName::of_row(&row.map).is_some_and(MapName::is_durable)
}

/// Returns the throughput divided by that of the best peer. A batched row is also compared with
/// unbatched rows of the peers, of which few have batches.
pub(crate) fn ratio_to_best_peer(report: &Report, row: &Row) -> Option<f64> {
    if !is_own(row) {
        return None;
    }
    Some(row.mops? / best_peer(report, row)?.mops?)
}

/// Returns the row of the fastest map of others: with the same operation, the same number of
/// threads, and durable if `row` is. An unbatched row is not compared with batched ones.
/// A map at another level of durability has no peers: theirs is the default one.
pub(crate) fn best_peer<'a>(report: &'a Report, row: &Row) -> Option<&'a Row> {
    let mops = |row: &&Row| row.mops.unwrap_or(0.0);
    if row.level().is_some() {
        return None;
    }
    report
        .rows
        .iter()
        .filter(|peer| !is_own(peer) && peer.mops.is_some() && peer.threads == row.threads)
        .filter(|peer| peer.base_operation() == row.base_operation())
        .filter(|peer| row.is_batched() || !peer.is_batched())
        .filter(|peer| is_durable(peer) == is_durable(row))
        .max_by(|a, b| mops(a).total_cmp(&mops(b)))
}

/// Returns all values of a property of the rows, in the order in which they first appear.
pub(crate) fn distinct<'a, T: PartialEq>(
    rows: impl IntoIterator<Item = &'a Row>,
    property: impl Fn(&'a Row) -> T,
) -> Vec<T> {
    let mut found = Vec::new();
    for value in rows.into_iter().map(property) {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn the_best_peer_is_the_fastest_other_map() {
        let mut report = example();
        let mut batches = report.rows.iter().find(|row| row.map == "papaya").unwrap().clone();
        (batches.operation, batches.threads) = ("get-hit/batch".into(), 1);
        batches.mops = Some(1000.0);
        report.rows.push(batches);
        let ratio = |operation: &str, threads| {
            let is = |row: &&Row| row.operation == operation && row.threads == threads;
            let row = report.rows.iter().filter(|row| is_own(row)).find(is).unwrap();
            ratio_to_best_peer(&report, row)
        };
        assert_eq!(ratio("get-hit", 1), Some(50.0 / 20.5));
        assert_eq!(ratio("get-hit/batch", 2), Some(180.25 / 41.0));
        assert_eq!(ratio("space/grown", 1), None);
        let is_it =
            |row: &&mut Row| (row.map.as_str(), row.operation.as_str()) == ("dlht", "get-hit");
        let row = report.rows.iter_mut().find(is_it).unwrap();
        row.map = "dlht@persistent-memory".into();
        let row = row.clone();
        assert!(is_own(&row) && ratio_to_best_peer(&report, &row).is_none());
        let papaya = report.rows.iter().find(|row| row.map == "papaya").unwrap();
        assert_eq!(ratio_to_best_peer(&report, papaya), None);
    }
}
