//! The page of a map: its rows, drawn and listed.

use super::data;
use super::narrow::{Bar, bars};
use super::projected;
use super::shared::{about_marks, commands, figure, marked};
use crate::named::Named as _;
use crate::report::compare::{distinct, is_own, ratio_to_best_peer};
use crate::report::format::{nanoseconds, number, percent};
use crate::report::parts::{section, table};
use crate::report::{PERCENTILES, Report, Row};
use crate::targets::MapName;
use maud::{Markup, html};

pub(super) fn page(report: &Report, map: &str) -> Markup {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.map == map).collect();
    let name = MapName::of_row(map);
    html! {
        @if let Some(name) = name { p.lead { (name.description()) "." } }
        @if let Some(said) = said_of_level(report, &rows) { p.lead { "This page is about " (said) "." } }
        (throughput(report, map, &rows))
        (projected::page(report, map))
        (latencies(&rows))
        (others(&rows))
    }
}

/// Says what the level of durability of these rows is, if it is not the default one.
fn said_of_level<'r>(report: &'r Report, rows: &[&'r Row]) -> Option<&'r str> {
    let level = rows.first()?.level()?;
    let name = level.split(", ").next()?;
    // A run of several commands may have the level with a latency and without.
    let is_it = |files: &&String| {
        files.starts_with(&format!("{name}: "))
            && files.contains("by waits") == level.contains(", ")
    };
    Some(report.params.files.iter().find(is_it).map_or(level, String::as_str))
}

fn throughput(report: &Report, map: &str, rows: &[&Row]) -> Markup {
    let measured: Vec<&Row> = rows.iter().filter(|row| row.mops.is_some()).copied().collect();
    let all = distinct(measured.iter().copied(), |row| row.threads);
    let charts = html! {
        div.charts {
            @for threads in all {
                @let of_it: Vec<&Row> =
                    measured.iter().filter(|row| row.threads == threads).copied().collect();
                @let title = format!("Millions of operations a second, threads: {threads}");
                @let bar = |row: &&Row| Bar {
                    name: marked(row, row.operation.clone()),
                    value: row.mops.unwrap_or_default(),
                    own: is_own(row),
                };
                @let chart = bars(&title, "", &of_it.iter().map(bar).collect::<Vec<_>>());
                (figure(&title, about_marks(&of_it), &chart, &commands(report, &of_it), &data::of_map(map)))
            }
        }
        @let cells = |row: &&Row| {
            let spread = row.mops_min.zip(row.mops_max);
            let ratio = ratio_to_best_peer(report, row).map(|ratio| format!("{}×", number(ratio)));
            ("", vec![
                row.operation.clone(),
                row.threads.to_string(),
                row.mops.map_or(String::new(), number),
                spread.map_or(String::new(), |(least, most)| {
                    marked(row, format!("{}–{}", number(least), number(most)))
                }),
                row.share.map_or(String::new(), percent),
                ratio.unwrap_or_default(),
            ])
        };
        @let names = ["operation", "threads", "M/s", "min–max", "of the limit", "to the best other"];
        (table("rows", names, measured.iter().map(cells)))
    };
    section(!measured.is_empty(), "Throughput", "", &charts)
}

fn latencies(rows: &[&Row]) -> Markup {
    let cells = |row: &&Row| {
        let latencies = row.latencies()?.map(nanoseconds);
        let place = [row.operation.clone(), row.threads.to_string()];
        Some(("", place.into_iter().chain(latencies).collect()))
    };
    let all: Vec<_> = rows.iter().filter_map(cells).collect();
    let names = ["operation", "threads"].into_iter().chain(PERCENTILES);
    let lead = "Single operations while the map grows from empty.";
    section(!all.is_empty(), "Latency", lead, &table("rows", names, all.clone()))
}

fn others(rows: &[&Row]) -> Markup {
    let cells = |row: &&Row| {
        let has =
            row.bytes_per_item.is_some() || row.levels.is_some() || row.milliseconds.is_some();
        let levels = row.levels.map_or([const { String::new() }; 3], |levels| levels.map(percent));
        let place = [row.operation.clone(), row.threads.to_string()];
        let space = [row.bytes_per_item.map(number), row.load_factor.map(percent)];
        let time = row.milliseconds.map(|ms| nanoseconds(1e6 * ms)).unwrap_or_default();
        let space = space.map(Option::unwrap_or_default);
        has.then(|| ("", place.into_iter().chain(space).chain(levels).chain([time]).collect()))
    };
    let all: Vec<_> = rows.iter().filter_map(cells).collect();
    let names = [
        "operation",
        "threads",
        "bytes an item",
        "load factor",
        "level 1",
        "level 2",
        "level 3",
        "time",
    ];
    section(!all.is_empty(), "Space, levels and opening", "", &table("rows", names, all.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn the_page_of_a_level_says_on_what_it_was_measured() {
        let mut report = example();
        report.rows[0].map = "pea-file@persistent-memory".into();
        report.params.files =
            ["process: on ext4", "persistent-memory: an emulation"].map(Into::into).to_vec();
        let drawn = page(&report, "pea-file@persistent-memory").into_string();
        assert!(drawn.contains("This page is about persistent-memory: an emulation."), "{drawn}");
        assert!(!page(&report, "dlht").into_string().contains("This page is about"));
    }
}
