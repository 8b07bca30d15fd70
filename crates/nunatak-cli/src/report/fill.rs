//! The page's sections on maps as they fill: speed against space, and the levels of
//! their items.

use super::chart::{Curve, Tick, curves};
use super::compare::distinct;
use super::format::{number, percent, thread_count};
use super::parts::{charts, colour_of, figure, legend, section, table};
use super::{Report, Row};
use maud::{Markup, html};

pub(super) fn fill(report: &Report) -> Markup {
    html! { (speed_against_space(report)) (levels(report)) }
}

fn speed_against_space(report: &Report) -> Markup {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.filled().is_some()).collect();
    let all = distinct(rows.iter().copied(), |row| row.threads).into_iter().map(|threads| {
        let of_it: Vec<&Row> = rows.iter().filter(|row| row.threads == threads).copied().collect();
        let title = format!("fill, {}", thread_count(threads));
        figure(&title, "", &by_space(report, &title, &of_it))
    });
    let lead = "Millions of inserts a second into a map that was made large enough, by the share \
                of its memory that is keys and values. Each dot is a step of 5 % of all items.";
    let all = html! { (legend(report, &rows)) (charts(all)) };
    section(!rows.is_empty(), "Speed against space", lead, &all)
}

/// Draws a curve for each map, with dots in the order of the steps.
fn by_space(report: &Report, title: &str, rows: &[&Row]) -> Markup {
    let fastest = rows.iter().filter_map(|row| row.mops).fold(f64::MIN_POSITIVE, f64::max);
    let quarters = (0..=4).map(|part| f64::from(part) / 4.0);
    let beside: Vec<Tick> = quarters.map(|part| (part, number(fastest * part))).collect();
    let fifths = (0..=5).map(|part| f64::from(part) / 5.0);
    let below: Vec<Tick> = fifths.map(|share| (share, format!("{:.0} %", 100.0 * share))).collect();
    let curve = |map: &str| {
        let dot = |row: &&Row| {
            let (mops, filled) = (row.mops?, row.filled().unwrap_or_default());
            let said = format!("{map} at {filled} %: {}", number(mops));
            Some(([row.space_efficiency()?, mops / fastest], said))
        };
        let points = rows.iter().filter(|row| row.map == map).filter_map(dot).collect();
        Curve { colour: colour_of(report, map), points }
    };
    let maps = distinct(rows.iter().copied(), |row| row.map.as_str());
    curves(title, &below, &beside, &maps.into_iter().map(curve).collect::<Vec<_>>())
}

fn levels(report: &Report) -> Markup {
    let cells = |row: &Row| {
        let place = [row.operation.clone(), row.threads.to_string(), row.map.clone()];
        let levels = row.levels?.map(percent);
        Some(("", place.into_iter().chain(levels).collect()))
    };
    let rows: Vec<_> = report.rows.iter().filter_map(cells).collect();
    let names = ["operation", "threads", "map", "level 1", "level 2", "level 3"];
    let lead = "Which part of the items is in each level of a map.";
    section(!rows.is_empty(), "Levels", lead, &table("", names, rows))
}
