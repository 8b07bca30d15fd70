//! What the experiments have found, on the page.

use super::chart::Escaped;
use super::{Report, number};
use std::fmt::Write as _;

/// A table for each experiment. (Writing to a string can't fail.)
pub(super) fn section(html: &mut String, report: &Report) {
    if report.figures.is_empty() {
        return;
    }
    html.push_str("<section><h2>Experiments</h2>\n");
    for figure in &report.figures {
        let _ = write!(
            html,
            "<h3>{}</h3><p class=\"lead\">{}</p><div class=\"scroll\"><table class=\"all\"><thead><tr>",
            Escaped(&figure.experiment),
            Escaped(&figure.title)
        );
        for name in figure.parameters.iter().chain(&figure.measures) {
            let _ = write!(html, "<th>{}</th>", Escaped(name));
        }
        html.push_str("</tr></thead><tbody>\n");
        for point in &figure.points {
            html.push_str("<tr>");
            let values = point.values.iter().map(|value| value.map_or(String::new(), number));
            for cell in point.at.iter().cloned().chain(values) {
                let _ = write!(html, "<td>{}</td>", Escaped(&cell));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table></div>\n");
        for note in &figure.notes {
            let _ = write!(html, "<p>{}</p>", Escaped(note));
        }
    }
    html.push_str("</section>\n");
}
