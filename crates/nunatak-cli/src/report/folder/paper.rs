//! The page of a paper: its numbers beside those of the run, and its experiments.

use super::data;
use super::narrow::{Bar, bars, factors};
use super::shared::figure;
use crate::experiment::figure::{Figure, Point};
use crate::papers::Paper;
use crate::report::Report;
use crate::report::beside::numbers;
use crate::report::format::number;
use crate::report::parts::{section, table};
use maud::{Markup, html};

/// The most bars of a chart.
const MOST: usize = 24;

pub(super) fn page(report: &Report, paper: &Paper) -> Markup {
    let name = paper.title.split([':', ' ']).next().unwrap_or_default();
    let is_of_it = |figure: &Figure| figure.title.contains(name);
    let experiments: Vec<(usize, &Figure)> =
        report.figures.iter().enumerate().filter(|(_, figure)| is_of_it(figure)).collect();
    html! {
        p.lead { (paper.venue) "; measured on " (paper.machine) "." }
        (compared(report, paper))
        (section(!experiments.is_empty(), "Its experiments here", "", &html! {
            @for &(at, experiment) in &experiments {
                h3 { (experiment.experiment) }
                p.lead { (experiment.title) }
                div.charts { (chart(at, experiment)) }
                (rows(experiment))
                @for note in &experiment.notes { p { (note) } }
            }
        }))
        (section(true, "All its numbers", "Every number of its tables, and those that its text gives for \
            its figures. Bold rows were measured here, too.", &numbers(report, paper, true)))
    }
}

/// Draws the ratios of what was measured here to the paper's numbers.
fn compared(report: &Report, paper: &Paper) -> Markup {
    let chart = |depends: bool, title: &str, about: &str| {
        let bar = |value: &crate::papers::Value| {
            let ratio = value.deviation(value.measured(report)?)? + 1.0;
            (value.depends == depends && ratio > 0.0).then(|| Bar {
                name: format!("{}: {}", value.place, value.what),
                value: ratio,
                own: true,
            })
        };
        let bars: Vec<Bar> = paper.values.iter().filter_map(bar).collect();
        let command = "nunatak bench papers";
        html! {
            @if !bars.is_empty() {
                (figure(title, about, &factors(title, &bars), command, &data::of_paper(paper)))
            }
        }
    };
    let charts = html! {
        div.charts {
            (chart(false, "Quantities of any machine", "Here, in multiples of the paper's number. The \
                line is 1."))
            (chart(true, "Quantities that depend on the machine", "The same: this tells two machines \
                apart."))
        }
    };
    let any = paper.values.iter().any(|value| value.measured(report).is_some());
    section(any, "Beside its numbers", "", &charts)
}

/// Draws the first measure of an experiment that is not empty.
fn chart(at: usize, experiment: &Figure) -> Markup {
    let has =
        |measure: &usize| experiment.points.iter().any(|point| point.values[*measure].is_some());
    let Some(measure) = (0..experiment.measures.len()).find(has) else { return Markup::default() };
    let bar = |point: &Point| {
        let own = ["dlht", "iceberg", "pea", "turbo", "records", "inline", "own"];
        let own = point.at.iter().any(|at| own.iter().any(|own| at.starts_with(own)));
        Some(Bar { name: point.at.join(" · "), value: point.values[measure]?, own })
    };
    let all: Vec<Bar> = experiment.points.iter().filter_map(bar).collect();
    let about = match all.len() > MOST {
        true => {
            format!("{}; the first {MOST} of {} rows.", experiment.measures[measure], all.len())
        }
        false => experiment.measures[measure].clone(),
    };
    let drawn = bars(&experiment.title, "", &all[..all.len().min(MOST)]);
    let data = data::of_figure(at, experiment);
    figure(&experiment.parameters.join(" · "), &about, &drawn, &experiment.command, &data)
}

fn rows(experiment: &Figure) -> Markup {
    let cells = |point: &Point| {
        let values = point.values.iter().map(|value| value.map_or(String::new(), number));
        ("", point.at.iter().cloned().chain(values).collect())
    };
    let names = experiment.parameters.iter().chain(&experiment.measures);
    table("all", names, experiment.points.iter().map(cells))
}
