//! The front page: which map is for whom, by what the run has measured.

use super::data;
use super::narrow::{Bar, bars};
use super::shared::{about_marks, commands, figure, marked, page_of_map};
use crate::report::compare::is_own;
use crate::report::format::{grouped, nanoseconds, number, thread_count};
use crate::report::{Report, Row};
use crate::targets::MapName;
use maud::{Markup, html};

/// A question, and the measure that answers it.
struct Question {
    question: &'static str,
    /// The single operation. Maps are compared by it, since the maps of others have no batches.
    operation: &'static str,
    /// The same in batches.
    batched: Option<&'static str>,
    durable: bool,
    measure: fn(&Row) -> Option<f64>,
    /// Whether more is better.
    more: bool,
    unit: &'static str,
    /// What to know besides.
    besides: &'static str,
}

impl Question {
    /// A question of throughput, in RAM.
    const fn of_speed(
        question: &'static str,
        operation: &'static str,
        batched: Option<&'static str>,
        besides: &'static str,
    ) -> Self {
        let measure = |row: &Row| row.mops;
        Self {
            question,
            operation,
            batched,
            durable: false,
            measure,
            more: true,
            unit: "M/s",
            besides,
        }
    }
}

const QUESTIONS: [Question; 8] = [
    Question::of_speed(
        "Lookups of numbers in RAM shall be fast",
        "get-hit",
        Some("get-hit/batch"),
        "A batch overlaps the cache misses of its lookups.",
    ),
    Question::of_speed(
        "Inserts of numbers in RAM shall be fast, from an empty map",
        "grow",
        Some("grow/batch"),
        "The map grows meanwhile.",
    ),
    Question::of_speed(
        "Keys come and go",
        "insdel",
        Some("insdel/batch"),
        "Inserts, each followed by a delete of its key.",
    ),
    Question {
        measure: |row| row.bytes_per_item,
        more: false,
        unit: "bytes an item",
        ..Question::of_speed(
            "Memory is short",
            "space/grown",
            None,
            "Of a map that has grown from empty. A key and a value take 16 bytes.",
        )
    },
    Question {
        measure: |row| row.ns_p9999,
        more: false,
        unit: "ns",
        ..Question::of_speed(
            "No insert may take long, while the map grows",
            "latency/insert",
            None,
            "One of ten thousand inserts takes longer.",
        )
    },
    Question::of_speed("Keys are strings", "words", None, "Counts of the words of a text."),
    Question {
        durable: true,
        ..Question::of_speed(
            "Data must survive the process; lookups shall be fast",
            "get-hit",
            Some("get-hit/batch"),
            "Maps in files, in the page cache.",
        )
    },
    Question {
        durable: true,
        ..Question::of_speed(
            "Data must survive the process; inserts shall be fast",
            "insert",
            Some("insert/batch"),
            "Not synced: an insert survives the process, and a power cut after the next sync.",
        )
    },
];

/// Returns whether the map is one to choose, in files or in RAM. Variants, which only show what a paper
/// varies, are not.
fn is_choice(map: &str, durable: bool) -> bool {
    let Some(name) = MapName::of_row(map) else { return !durable };
    match name.is_durable() {
        true => durable && (map.ends_with("-file") || !name.is_own()),
        false => !durable && (MapName::COMPARED.contains(&name) || name.library().is_some()),
    }
}

/// What a map has to say to a question.
struct Answer<'r> {
    row: &'r Row,
    value: f64,
    /// The same map in batches.
    batched: Option<(&'r Row, f64)>,
}

/// The answers of all maps, the best single operation first.
fn ranked<'r>(report: &'r Report, question: &Question, threads: usize) -> Vec<Answer<'r>> {
    let find = |operation: &str, map: Option<&str>| {
        let is_it = |row: &&Row| {
            row.operation == operation
                && (row.threads == threads || operation.starts_with("space"))
                && map.is_none_or(|map| row.map == map)
                && is_choice(&row.map, question.durable)
        };
        let with_value = |row: &'r Row| Some((row, (question.measure)(row)?));
        report.rows.iter().filter(is_it).filter_map(with_value).collect::<Vec<_>>()
    };
    let batched = |map: &str| find(question.batched?, Some(map)).first().copied();
    let all = find(question.operation, None).into_iter();
    let mut all: Vec<Answer> =
        all.map(|(row, value)| Answer { row, value, batched: batched(&row.map) }).collect();
    all.sort_by(|a, b| match question.more {
        true => b.value.total_cmp(&a.value),
        false => a.value.total_cmp(&b.value),
    });
    all
}

fn said(question: &Question, value: f64) -> String {
    match question.unit {
        "ns" => nanoseconds(value),
        unit => format!("{} {unit}", number(value)),
    }
}

pub(super) fn page(report: &Report) -> Markup {
    let threads = report.rows.iter().map(|row| row.threads).max().unwrap_or(1);
    let answered: Vec<(&Question, Vec<Answer>)> = QUESTIONS
        .iter()
        .map(|question| (question, ranked(report, question, threads)))
        .filter(|(_, ranked)| ranked.iter().any(|answer| is_own(answer.row)))
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

/// Names the best map of this project by single operations, with its batches, and the best of others.
fn answer(question: &Question, ranked: &[Answer<'_>]) -> Markup {
    let own = ranked.iter().find(|answer| is_own(answer.row));
    let peer = ranked.iter().find(|answer| !is_own(answer.row));
    html! {
        li {
            (question.question) ": "
            @if let Some(own) = own {
                b { a href=(page_of_map(&own.row.map)) { (own.row.map) } }
                ", " (said(question, own.value)) " (" (own.row.operation) ")"
                @if let Some((_, batched)) = own.batched {
                    "; in batches " (said(question, batched))
                }
                "."
                p {
                    (question.besides)
                    @if let Some(other) = peer {
                        " The best other map is " (other.row.map) " with " (said(question, other.value))
                        @let is_better = (own.value > other.value) == question.more;
                        @if is_better { "." } @else { ", which is better." }
                        @for row in [own.row, other.row] {
                            @if let Some(warning) = row.unsteady() {
                                " " (row.map) ": " (warning) "."
                            }
                        }
                    }
                }
            }
        }
    }
}

fn chart(report: &Report, question: &Question, ranked: &[Answer<'_>]) -> Markup {
    let mut shown: Vec<(&Row, f64)> = Vec::new();
    for answer in ranked.iter().take(12) {
        shown.push((answer.row, answer.value));
        shown.extend(answer.batched);
    }
    let rows: Vec<&Row> = shown.iter().map(|(row, _)| *row).collect();
    let bar = |&(row, value): &(&Row, f64)| Bar {
        name: marked(row, row.label()),
        value,
        own: is_own(row),
    };
    let about = if question.more { "More is better." } else { "Less is better." };
    let command = commands(report, &rows);
    let drawn: Vec<Bar> = shown.iter().map(bar).collect();
    let chart = bars(question.question, question.unit, &drawn);
    let about = format!("{about}{}", about_marks(&rows));
    figure(question.question, &about, &chart, &command, data::ROWS)
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
        assert_eq!((best[0].row.label().as_str(), best[0].value), ("dlht", 100.0));
        assert_eq!(best[0].batched.map(|(_, mops)| mops), Some(180.25), "the same map in batches");
        assert_eq!(best.len(), 3, "one answer of each map");
        let space: Vec<f64> =
            ranked(&report, &QUESTIONS[3], 2).iter().map(|answer| answer.value).collect();
        assert!(space.is_sorted() && space.len() == 3, "{space:?}");
        let page = page(&report).into_string();
        assert!(page.contains("100 M/s (get-hit); in batches 180 M/s."), "{page}");
        assert!(page.contains("The best other map is papaya with 41.0 M/s."), "{page}");
        // The map with the least memory in the example is another one.
        assert!(page.contains("which is better"), "{page}");
        assert!(!page.contains("Keys are strings"), "nothing was measured of it");
    }
}
