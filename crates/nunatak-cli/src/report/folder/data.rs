//! The data of the charts, as comma-separated values.

use super::curves::curves;
use super::shared::{File, file_name, maps};
use crate::experiment::figure::Figure;
use crate::papers::{self, Paper};
use crate::report::projection::THREADS;
use crate::report::{PERCENTILES, Report, Row};

/// The file of the rows of all maps.
pub(super) const ROWS: &str = "data/rows.csv";

pub(super) fn files(report: &Report) -> Vec<File> {
    let rows: Vec<&Row> = report.rows.iter().collect();
    let mut files = vec![(ROWS.to_owned(), of_rows(&rows))];
    for map in maps(report) {
        let rows: Vec<&Row> = report.rows.iter().filter(|row| row.map == map).collect();
        files.push((of_map(map), of_rows(&rows)));
        files.push((of_projections(map), projections(report, map)));
    }
    files.extend(
        report
            .figures
            .iter()
            .enumerate()
            .map(|(at, figure)| (of_figure(at, figure), values(figure))),
    );
    files.extend(papers::all().iter().map(|paper| (of_paper(paper), numbers(report, paper))));
    files
}

pub(super) fn of_map(map: &str) -> String {
    format!("data/map-{}.csv", file_name(map))
}

pub(super) fn of_projections(map: &str) -> String {
    format!("data/projection-{}.csv", file_name(map))
}

pub(super) fn of_figure(at: usize, figure: &Figure) -> String {
    format!("data/experiment-{at}-{}.csv", file_name(&figure.experiment))
}

pub(super) fn of_paper(paper: &Paper) -> String {
    format!("data/paper-{}.csv", paper.id)
}

/// Quotes a cell if it needs it.
fn cell(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn line<S: AsRef<str>>(cells: impl IntoIterator<Item = S>) -> String {
    let cells: Vec<String> = cells.into_iter().map(|text| cell(text.as_ref())).collect();
    cells.join(",") + "\n"
}

fn of_rows(rows: &[&Row]) -> String {
    let names = ["map", "operation", "threads", "M/s", "least M/s", "most M/s", "bytes an item"];
    let more = ["load factor", "level 1", "level 2", "level 3", "ms"];
    let latencies = PERCENTILES.map(|name| format!("{name} ns"));
    let mut text = line(names.into_iter().chain(more).chain(latencies.iter().map(String::as_str)));
    for row in rows {
        let levels = row.levels.map_or([None; 3], |levels| levels.map(Some));
        let latencies = row.latencies().map_or([None; 7], |latencies| latencies.map(Some));
        let numbers = [row.mops, row.mops_min, row.mops_max, row.bytes_per_item, row.load_factor];
        let all = numbers.into_iter().chain(levels).chain([row.milliseconds]).chain(latencies);
        let place = [row.map.clone(), row.operation.clone(), row.threads.to_string()];
        text += &line(place.into_iter().chain(all.map(written)));
    }
    text
}

/// What was measured, what the model projects from it, and what papers tell.
fn projections(report: &Report, map: &str) -> String {
    let mut text = line(["operation", "threads", "kind", "M/s", "least M/s", "most M/s"]);
    for curve in curves(report, map) {
        let mut add = |threads: usize, kind: &str, mops: f64, range: Option<(f64, f64)>| {
            let (least, most) = range.unzip();
            let place = [curve.operation.to_owned(), threads.to_string(), kind.to_owned()];
            text += &line(place.into_iter().chain([Some(mops), least, most].map(written)));
        };
        for &(threads, mops) in &curve.projection.measured {
            add(threads, "measured", mops, None);
        }
        for threads in THREADS {
            let (mops, range) = (curve.projection.at(threads), curve.projection.range(threads));
            add(threads, "projection", mops, Some(range));
        }
        for told in &curve.told {
            add(told.threads, "paper", told.mops, None);
        }
    }
    text
}

fn written(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn values(figure: &Figure) -> String {
    let mut text = line(figure.parameters.iter().chain(&figure.measures));
    for point in &figure.points {
        text += &line(point.at.iter().cloned().chain(point.values.iter().copied().map(written)));
    }
    text
}

fn numbers(report: &Report, paper: &Paper) -> String {
    let names = ["where", "what", "map", "paper", "here", "unit", "depends on the machine"];
    let mut text = line(names);
    for value in &paper.values {
        text += &line([
            value.place.clone(),
            value.what.clone(),
            value.system.clone(),
            value.value.to_string(),
            written(value.measured(report)),
            value.unit.clone(),
            value.depends.to_string(),
        ]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn every_row_has_all_cells() {
        for (name, text) in files(&example()) {
            let cells = |line: &str| {
                let mut quoted = false;
                let is_end = |c: char| {
                    quoted ^= c == '"';
                    c == ',' && !quoted
                };
                line.split(is_end).count()
            };
            let first = text.lines().next().map(cells);
            assert!(text.lines().all(|line| Some(cells(line)) == first), "{name}:\n{text}");
        }
        assert_eq!(line(["a,b", "c\"d", "e"]), "\"a,b\",\"c\"\"d\",e\n");
    }
}
