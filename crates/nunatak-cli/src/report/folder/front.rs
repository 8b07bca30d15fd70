//! The front page: which map is for whom, by what the run has measured.

use super::data;
use super::narrow::{Bar, bars};
use super::shared::{commands, figure, page_of_map};
use crate::named::Named as _;
use crate::report::compare::is_own;
use crate::report::format::{grouped, nanoseconds, number, thread_count};
use crate::report::{Report, Row};
use crate::targets::MapName;
use clap::ValueEnum as _;
use maud::{Markup, html};

/// A question, and the measure that answers it.
struct Question {
    question: &'static str,
    operations: &'static [&'static str],
    durable: bool,
    measure: fn(&Row) -> Option<f64>,
    /// Whether more is better.
    more: bool,
    unit: &'static str,
    /// What to know besides.
    besides: &'static str,
}

const QUESTIONS: [Question; 8] = [
    Question {
        question: "Lookups of numbers in RAM shall be fast",
        operations: &["get-hit", "get-hit/batch"],
        durable: false,
        measure: |row| row.mops,
        more: true,
        unit: "M/s",
        besides: "A batch overlaps the cache misses of its lookups.",
    },
    Question {
        question: "Inserts of numbers in RAM shall be fast, from an empty map",
        operations: &["grow", "grow/batch", "ycsb-load"],
        durable: false,
        measure: |row| row.mops,
        more: true,
        unit: "M/s",
        besides: "The map grows meanwhile.",
    },
    Question {
        question: "Keys come and go",
        operations: &["insdel", "insdel/batch"],
        durable: false,
        measure: |row| row.mops,
        more: true,
        unit: "M/s",
        besides: "Inserts, each followed by a delete of its key.",
    },
    Question {
        question: "Memory is short",
        operations: &["space/pre-sized", "space/grown"],
        durable: false,
        measure: |row| row.bytes_per_item,
        more: false,
        unit: "bytes an item",
        besides: "A key and a value take 16 bytes.",
    },
    Question {
        question: "No insert may take long, while the map grows",
        operations: &["latency/insert"],
        durable: false,
        measure: |row| row.ns_p9999,
        more: false,
        unit: "ns",
        besides: "One of ten thousand inserts takes longer.",
    },
    Question {
        question: "Keys are strings",
        operations: &["words"],
        durable: false,
        measure: |row| row.mops,
        more: true,
        unit: "M/s",
        besides: "Counts of the words of a text.",
    },
    Question {
        question: "Data must survive the process; lookups shall be fast",
        operations: &["get-hit", "get-hit/batch"],
        durable: true,
        measure: |row| row.mops,
        more: true,
        unit: "M/s",
        besides: "Maps in files, in the page cache.",
    },
    Question {
        question: "Data must survive the process; inserts shall be fast",
        operations: &["insert", "insert/batch", "ycsb-load"],
        durable: true,
        measure: |row| row.mops,
        more: true,
        unit: "M/s",
        besides: "Not synced: an insert survives the process, and a power cut after the next sync.",
    },
];

/// Returns whether the map is one to choose, in files or in RAM. Variants, which only show what a paper
/// varies, are not.
fn is_choice(map: &str, durable: bool) -> bool {
    let is_it = |name: &&MapName| name.name() == map;
    let Some(name) = MapName::value_variants().iter().find(is_it) else { return !durable };
    match name.is_durable() {
        true => durable && (map.ends_with("-file") || !name.is_own()),
        false => !durable && (MapName::COMPARED.contains(name) || name.library().is_some()),
    }
}

/// The best row of each map, the best map first.
fn ranked<'r>(report: &'r Report, question: &Question, threads: usize) -> Vec<(&'r Row, f64)> {
    let of_it = |row: &&Row| {
        question.operations.contains(&row.operation.as_str())
            && (row.threads == threads || question.operations[0].starts_with("space"))
            && is_choice(&row.map, question.durable)
    };
    let better = |a: f64, b: f64| if question.more { a > b } else { a < b };
    let mut best: Vec<(&Row, f64)> = Vec::new();
    for row in report.rows.iter().filter(of_it) {
        let Some(value) = (question.measure)(row) else { continue };
        match best.iter_mut().find(|(other, _)| other.map == row.map) {
            None => best.push((row, value)),
            Some(other) if better(value, other.1) => *other = (row, value),
            Some(_) => {}
        }
    }
    best.sort_by(|a, b| match question.more {
        true => b.1.total_cmp(&a.1),
        false => a.1.total_cmp(&b.1),
    });
    best
}

fn said(question: &Question, value: f64) -> String {
    match question.unit {
        "ns" => nanoseconds(value),
        unit => format!("{} {unit}", number(value)),
    }
}

pub(super) fn page(report: &Report) -> Markup {
    let threads = report.rows.iter().map(|row| row.threads).max().unwrap_or(1);
    let answered: Vec<(&Question, Vec<(&Row, f64)>)> = QUESTIONS
        .iter()
        .map(|question| (question, ranked(report, question, threads)))
        .filter(|(_, ranked)| ranked.iter().any(|(row, _)| is_own(row)))
        .collect();
    html! {
        p.lead {
            "Measured with " (grouped(report.params.items)) " items and " (thread_count(threads))
            " on " (report.machine.cpu) ". Maps that fit the caches have other answers than larger ones, "
            "and so have other machines: measure yours with " code { "nunatak report DIR --items N" } "."
        }
        ul.answers {
            @for (question, ranked) in &answered { (answer(question, ranked)) }
        }
        section {
            h2 { "The numbers behind it" }
            div.charts {
                @for (question, ranked) in &answered { (chart(report, question, ranked)) }
            }
        }
    }
}

/// Names the best map of this project, and the best of others.
fn answer(question: &Question, ranked: &[(&Row, f64)]) -> Markup {
    let own = ranked.iter().find(|(row, _)| is_own(row));
    let peer = ranked.iter().find(|(row, _)| !is_own(row));
    html! {
        li {
            (question.question) ": "
            @if let Some((row, value)) = own {
                b { a href=(page_of_map(&row.map)) { (row.map) } }
                ", " (said(question, *value)) " (" (row.operation) ")."
                p {
                    (question.besides)
                    @if let Some((other, theirs)) = peer {
                        " The best other map is " (other.map) " with " (said(question, *theirs))
                        @let is_better = (value > theirs) == question.more;
                        @if is_better { "." } @else { ", which is better." }
                    }
                }
            }
        }
    }
}

fn chart(report: &Report, question: &Question, ranked: &[(&Row, f64)]) -> Markup {
    let bar = |&(row, value): &(&Row, f64)| Bar { name: row.label(), value, own: is_own(row) };
    let drawn: Vec<Bar> = ranked.iter().take(12).map(bar).collect();
    let rows: Vec<&Row> = ranked.iter().map(|(row, _)| *row).collect();
    let about = if question.more { "More is better." } else { "Less is better." };
    let command = commands(report, &rows);
    let chart = bars(question.question, question.unit, &drawn);
    figure(question.question, about, &chart, &command, data::ROWS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn the_best_map_is_named_first() {
        let report = example();
        let lookups = &QUESTIONS[0];
        let best = ranked(&report, lookups, 2);
        assert_eq!(best[0].0.label(), "nunatak (batch)");
        assert_eq!(best.len(), 3, "one row of each map");
        let space: Vec<f64> =
            ranked(&report, &QUESTIONS[3], 2).iter().map(|(_, bytes)| *bytes).collect();
        assert!(space.is_sorted() && space.len() == 3, "{space:?}");
        let page = page(&report).into_string();
        assert!(page.contains("The best other map is papaya with 41.0 M/s."), "{page}");
        // The map with the least memory in the example is another one.
        assert!(page.contains("which is better"), "{page}");
        assert!(!page.contains("Keys are strings"), "nothing was measured of it");
    }
}
