//! The results of the experiments, on the page.

use super::Report;
use super::format::number;
use super::parts::{section, table};
use maud::{Markup, html};

/// Draws a table for each experiment.
pub(super) fn figures(report: &Report) -> Markup {
    let all = html! {
        @for figure in &report.figures {
            h3 { (figure.experiment) }
            p.lead { (figure.title) }
            @let rows = figure.points.iter().map(|point| {
                let values = point.values.iter().map(|value| value.map_or(String::new(), number));
                ("", point.at.iter().cloned().chain(values).collect())
            });
            (table("all", figure.parameters.iter().chain(&figure.measures), rows))
            @for note in &figure.notes { p { (note) } }
        }
    };
    section(!report.figures.is_empty(), "Experiments", "", &all)
}
