//! What the pages of the folder share: names of files, figures, and commands.

use crate::report::compare::distinct;
use crate::report::{Report, Row};
use maud::{Markup, html};

/// A file of the folder: its path inside, and its contents.
pub(crate) type File = (String, String);

/// Returns the maps of the run, in its order.
pub(super) fn maps(report: &Report) -> Vec<&str> {
    distinct(&report.rows, |row: &Row| row.map.as_str())
}

pub(super) fn page_of_map(map: &str) -> String {
    format!("map-{}.html", file_name(map))
}

/// Returns a name of letters, digits and dashes.
pub(super) fn file_name(name: &str) -> String {
    let part = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(part).collect()
}

/// Draws a chart with its command and its data.
pub(super) fn figure(
    title: &str,
    about: &str,
    chart: &Markup,
    command: &str,
    data: &str,
) -> Markup {
    html! {
        figure {
            figcaption { h3 { (title) } @if !about.is_empty() { p { (about) } } }
            (chart)
            p.source {
                a href=(data) download { "Data (CSV)" }
                @if !command.is_empty() { " · " code { (command) } }
            }
        }
    }
}

/// Returns the commands that measured these rows, one a line.
pub(super) fn commands(report: &Report, rows: &[&Row]) -> String {
    let numbers = distinct(rows.iter().copied(), |row| row.command);
    let lines = numbers.into_iter().flatten().filter_map(|number| report.commands.get(number));
    lines.map(String::as_str).collect::<Vec<_>>().join("\n")
}

/// Marks the name of a row whose repetitions say different things.
pub(super) fn marked(row: &Row, name: String) -> String {
    if row.unsteady().is_some() { format!("{name} ⚠") } else { name }
}

/// Says what the marks of these rows mean, if one has a mark.
pub(super) fn about_marks(rows: &[&Row]) -> &'static str {
    match rows.iter().any(|row| row.unsteady().is_some()) {
        true => " ⚠: its repetitions differ by a factor of two or more, so it says little.",
        false => "",
    }
}
