//! One chart of a run as a file of its own: for a document.

use super::Report;
use super::chart::{self, Group};
use super::compare::distinct;
use super::format::thread_count;
use super::html::{STYLE, is_throughput, throughput_group};
use maud::{PreEscaped, html};

/// What the chart's style needs besides the page's: a card to lie on, since the document's
/// background is not known, and a font.
const OWN_STYLE: &str = "svg { min-width: 0; font-family: system-ui, -apple-system, 'Segoe UI', \
                         Roboto, sans-serif; } .card { fill: var(--card); stroke: var(--line); }";

/// The space around the chart.
const MARGIN: f64 = 16.0;

/// Draws the throughput of all maps with the fewest threads, one group for each operation; `None` if
/// no throughput was measured.
pub(crate) fn picture(report: &Report) -> Option<String> {
    let measured = || report.rows.iter().filter(|row| is_throughput(row));
    let threads = measured().map(|row| row.threads).min()?;
    let group = |operation: &str| {
        let rows: Vec<_> = measured().filter(|row| row.base_operation() == operation).collect();
        // The limits of memory would make the bars short.
        Group {
            title: operation.to_string(),
            marks: Vec::new(),
            ..throughput_group(report, &rows, threads)
        }
    };
    let operations = distinct(measured(), |row| row.base_operation());
    let groups: Vec<Group> = operations.into_iter().map(group).collect();
    let unit = format!("millions of operations a second, {}", thread_count(threads));
    let (width, height) = (chart::WIDTH + 2.0 * MARGIN, chart::height(&groups) + 3.0 * MARGIN);
    let style = format!("{STYLE}{OWN_STYLE}");
    let chart = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width:.0} {height:.0}"))
            width=(format!("{width:.0}")) height=(format!("{height:.0}")) {
            style { (PreEscaped(style)) }
            rect class="card" x="0.5" y="0.5" width=(format!("{:.0}", width - 1.0))
                height=(format!("{:.0}", height - 1.0)) rx="12" {}
            text class="group" x=(MARGIN) y=(MARGIN + 12.0) { (unit) }
            g transform=(format!("translate({MARGIN} {})", 2.0 * MARGIN)) {
                (chart::drawn_bars(&groups))
            }
        }
    };
    Some(chart.into_string() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn the_picture_shows_every_map_of_every_operation() {
        let report = example();
        let picture = picture(&report).expect("throughputs");
        assert!(picture.starts_with("<svg xmlns"), "{picture}");
        let threads = report.rows.iter().filter(|row| is_throughput(row)).map(|row| row.threads);
        let fewest = threads.min();
        for row in report.rows.iter().filter(|row| is_throughput(row)) {
            let label = html! { (row.label()) }.into_string();
            let is_shown = picture.contains(&format!(">{label}<"));
            assert!(is_shown || Some(row.threads) != fewest, "{} is missing", row.label());
            assert!(picture.contains(&format!(">{}<", row.base_operation())));
        }
        // It is read as XML, without a document around it.
        for element in ["svg", "g", "rect", "text", "style"] {
            let opened = picture.matches(&format!("<{element}")).count();
            assert_eq!(opened, picture.matches(&format!("</{element}>")).count(), "{element}");
        }
        assert!(!picture.contains("&nbsp;") && picture.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn a_run_without_throughput_has_no_picture() {
        let report = Report { rows: Vec::new(), ..example() };
        assert_eq!(picture(&report), None);
    }
}
