//! Parts that the sections of the page share: sections, tables, charts and legends.

use super::compare::distinct;
use super::{Report, Row};
use maud::{Markup, Render, html};

/// Draws a part of the page, if it has content.
pub(super) fn section(is_there: bool, title: &str, lead: &str, content: &Markup) -> Markup {
    html! {
        @if is_there {
            section {
                h2 { (title) }
                @if !lead.is_empty() { p.lead { (lead) } }
                (content)
            }
        }
    }
}

/// Draws a table with these columns and rows; each row has a class.
pub(super) fn table<'r>(
    class: &str,
    names: impl IntoIterator<Item: Render>,
    rows: impl IntoIterator<Item = (&'r str, Vec<String>)>,
) -> Markup {
    html! {
        div.scroll {
            table class=[some(class)] {
                thead { tr { @for name in names { th { (name) } } } }
                tbody {
                    @for (class, cells) in rows {
                        tr class=[some(class)] { @for cell in cells { td { (cell) } } }
                    }
                }
            }
        }
    }
}

/// Returns the class, or `None` if it is empty.
fn some(class: &str) -> Option<&str> {
    (!class.is_empty()).then_some(class)
}

pub(super) fn charts(figures: impl IntoIterator<Item = Markup>) -> Markup {
    html! { div.charts { @for figure in figures { (figure) } } }
}

pub(super) fn figure(title: &str, about: &str, chart: &Markup) -> Markup {
    html! {
        figure {
            figcaption { h3 { (title) } @if !about.is_empty() { p { (about) } } }
            (chart)
        }
    }
}

/// Draws the colours of the maps of these rows.
pub(super) fn legend(report: &Report, rows: &[&Row]) -> Markup {
    html! {
        p.legend {
            @for map in distinct(rows.iter().copied(), |row| row.map.as_str()) {
                span { i class={ "c" (colour_of(report, map)) } {} (map) }
            }
        }
    }
}

/// How many kinds of lines there are.
const COLOURS: usize = 10;

/// Returns the number of a map's colour and dashes: its place among all maps of the report. Five colours
/// that colour-blind readers can tell apart, as whole lines and as dashed ones.
pub(super) fn colour_of(report: &Report, map: &str) -> usize {
    let maps = distinct(&report.rows, |row| row.map.as_str());
    maps.iter().position(|name| *name == map).unwrap_or(0) % COLOURS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::STYLE;
    use crate::targets::MapName;

    #[test]
    fn the_compared_maps_have_lines_of_their_own() {
        let style = |number: usize| {
            let rule = STYLE.lines().find(|line| line.starts_with(&format!(".line.c{number} ")));
            let colour = rule.and_then(|rule| rule.split_once("stroke: ")?.1.split_once(';'));
            let dashes = STYLE.lines().find(|line| line.ends_with("{ stroke-dasharray: 7 4; }"));
            let is_dashed = dashes.is_some_and(|rule| rule.contains(&format!(".line.c{number}")));
            (colour.expect("a colour").0, is_dashed)
        };
        let styles: Vec<_> = (0..MapName::COMPARED.len()).map(style).collect();
        assert!(styles.len() <= COLOURS);
        for (at, style) in styles.iter().enumerate() {
            assert!(!styles[..at].contains(style), "{style:?} twice");
        }
    }
}
