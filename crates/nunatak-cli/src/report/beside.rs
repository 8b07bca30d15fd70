//! The papers' numbers beside those of the run.

use super::Report;
use super::parts::{section, table};
use crate::papers::{self, Paper, percent, short};
use maud::{Markup, html};

/// The columns of a table of a paper's numbers.
const COLUMNS: [&str; 8] =
    ["where", "what", "map", "paper", "here", "unit", "deviation", "depends on the machine"];

/// Draws, for each paper, the numbers that the run has.
pub(super) fn papers(report: &Report) -> Markup {
    let papers: Vec<Paper> = papers::all();
    let has = |paper: &&Paper| paper.values.iter().any(|value| value.measured(report).is_some());
    let papers: Vec<&Paper> = papers.iter().filter(has).collect();
    let all = html! {
        @for paper in &papers {
            h3 { (paper.title) }
            p.lead { (paper.venue) "; " (paper.machine) "." }
            (numbers(report, paper, false))
        }
    };
    let lead = "Numbers of the papers, and the same quantities in this run. Those that depend on the \
                machine tell two machines apart, not two programs.";
    section(!papers.is_empty(), "Beside the papers", lead, &all)
}

/// Draws a paper's numbers: all of them, or those that the run has.
pub(super) fn numbers(report: &Report, paper: &Paper, all: bool) -> Markup {
    let rows = paper.values.iter().filter_map(|value| {
        let measured = value.measured(report);
        (all || measured.is_some()).then(|| {
            let cells = vec![
                value.place.clone(),
                value.what.clone(),
                value.system.clone(),
                short(value.value),
                measured.map_or(String::new(), short),
                value.unit.clone(),
                percent(measured.and_then(|measured| value.deviation(measured))),
                if value.depends { "yes" } else { "no" }.to_owned(),
            ];
            (if measured.is_some() { "own" } else { "" }, cells)
        })
    });
    table("numbers", COLUMNS, rows)
}
