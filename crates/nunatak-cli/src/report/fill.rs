//! The page's sections on maps as they fill: speed against space, and the levels of
//! their items.

use super::chart::{Escaped, WIDTH, open};
use super::compare::distinct;
use super::html::colour_of;
use super::{Report, Row, number, percent, thread_count};
use std::fmt::Write as _;

/// Draws what there is. (Writing to a string can't fail.)
pub(crate) fn section(html: &mut String, report: &Report) {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.filled().is_some()).collect();
    if !rows.is_empty() {
        speed_against_space(html, report, &rows);
    }
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.levels.is_some()).collect();
    if !rows.is_empty() {
        levels(html, &rows);
    }
}

fn speed_against_space(html: &mut String, report: &Report, rows: &[&Row]) {
    html.push_str(
        "<section><h2>Speed against space</h2><p class=\"lead\">Millions of inserts a second into a \
         map that was made large enough, by the share of its memory that is keys and values. Each \
         dot is a step of 5 % of all items.</p><p class=\"legend\">",
    );
    for map in distinct(rows.iter().copied(), |row| row.map.as_str()) {
        let colour = colour_of(report, map);
        let _ = write!(html, "<span><i class=\"c{colour}\"></i>{}</span>", Escaped(map));
    }
    html.push_str("</p><div class=\"charts\">");
    for threads in distinct(rows.iter().copied(), |row| row.threads) {
        let of_it: Vec<&Row> = rows.iter().filter(|row| row.threads == threads).copied().collect();
        let title = format!("fill, {}", thread_count(threads));
        let _ = write!(
            html,
            "<figure><figcaption><h3>{}</h3></figcaption>{}</figure>",
            Escaped(&title),
            curves(report, &title, &of_it)
        );
    }
    html.push_str("</div></section>\n");
}

/// A curve a map: its dots from left to right in the order of the steps.
fn curves(report: &Report, title: &str, rows: &[&Row]) -> String {
    const HEIGHT: f64 = 320.0;
    const LEFT: f64 = 48.0;
    const RIGHT: f64 = 24.0;
    const TOP: f64 = 12.0;
    const BOTTOM: f64 = 34.0;
    let fastest = rows.iter().filter_map(|row| row.mops).fold(f64::MIN_POSITIVE, f64::max);
    let x = |share: f64| LEFT + share * (WIDTH - LEFT - RIGHT);
    let y = |mops: f64| TOP + (1.0 - mops / fastest) * (HEIGHT - TOP - BOTTOM);
    let mut svg = open(title, WIDTH, HEIGHT);
    for part in 0..=4 {
        let (mops, at) = (fastest * f64::from(part) / 4.0, y(fastest * f64::from(part) / 4.0));
        let _ = write!(
            svg,
            r#"<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{at:.1}" y2="{at:.1}"/><text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
            LEFT - 8.0,
            at + 4.0,
            number(mops)
        );
    }
    for part in 0..=5 {
        let share = f64::from(part) / 5.0;
        let _ = write!(
            svg,
            r#"<text class="tick" x="{:.1}" y="{:.1}" text-anchor="middle">{:.0} %</text>"#,
            x(share),
            HEIGHT - 10.0,
            100.0 * share
        );
    }
    for map in distinct(rows.iter().copied(), |row| row.map.as_str()) {
        let colour = colour_of(report, map);
        let of_map = rows.iter().filter(|row| row.map == map);
        let dots: Vec<(f64, f64, &Row)> = of_map
            .filter_map(|row| Some((x(row.space_efficiency()?), y(row.mops?), *row)))
            .collect();
        let path: Vec<String> = dots.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(svg, r#"<polyline class="line c{colour}" points="{}"/>"#, path.join(" "));
        for (x, y, row) in dots {
            let _ = write!(
                svg,
                r#"<circle class="dot c{colour}" cx="{x:.1}" cy="{y:.1}" r="3"><title>{} at {} %: {}</title></circle>"#,
                Escaped(map),
                row.filled().unwrap_or_default(),
                number(row.mops.unwrap_or_default())
            );
        }
    }
    svg.push_str("</svg>");
    svg
}

fn levels(html: &mut String, rows: &[&Row]) {
    html.push_str(
        "<section><h2>Levels</h2><p class=\"lead\">Which part of the items is in each level of a \
         map.</p><div class=\"scroll\"><table><thead><tr><th>operation</th><th>threads</th>\
         <th>map</th><th>level 1</th><th>level 2</th><th>level 3</th></tr></thead><tbody>\n",
    );
    for row in rows {
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td>",
            Escaped(&row.operation),
            row.threads,
            Escaped(&row.map)
        );
        for share in row.levels.into_iter().flatten() {
            let _ = write!(html, "<td>{}</td>", percent(share));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div></section>\n");
}
