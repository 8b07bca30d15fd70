//! Charts as inline SVG, coloured by the page's style sheet.

use super::{PERCENTILES, nanoseconds};
use std::fmt::{self, Display, Write as _};

/// Text with the characters escaped that mean something in markup.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// One bar.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// The smallest and the largest of the repetitions.
    pub(crate) spread: Option<(f64, f64)>,
    /// What is written behind the bar: the value, and a remark.
    pub(crate) text: String,
    pub(crate) remark: String,
    /// Whether it stands out.
    pub(crate) own: bool,
}

/// A vertical line across the bars of a group.
pub(crate) struct Mark {
    pub(crate) label: String,
    pub(crate) value: f64,
}

/// Bars that belong together.
pub(crate) struct Group {
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
    pub(crate) marks: Vec<Mark>,
}

pub(super) const WIDTH: f64 = 640.0;
const LABELS: f64 = 134.0;
const VALUES: f64 = 132.0;
const PLOT: f64 = WIDTH - LABELS - VALUES;
const BAR: f64 = 16.0;
const STEP: f64 = 23.0;
const TITLE: f64 = 30.0;
const GAP: f64 = 12.0;

/// A mark farther away than so many times the longest bar is not drawn, only
/// named, so that the bars can still be told apart.
const IN_SIGHT: f64 = 2.0;

/// Horizontal bars in groups, on one scale that begins at zero.
pub(crate) fn bars(title: &str, groups: &[Group]) -> String {
    let reach = |bar: &Bar| bar.spread.map_or(bar.value, |(_, max)| max.max(bar.value));
    let longest = groups.iter().flat_map(|group| &group.bars).map(reach).fold(0.0, f64::max);
    let in_sight = |mark: &&Mark| mark.value <= IN_SIGHT * longest;
    let marks = groups.iter().flat_map(|group| &group.marks).filter(in_sight);
    let highest = marks.map(|mark| mark.value).fold(longest, f64::max).max(f64::MIN_POSITIVE);
    let x = |value: f64| LABELS + value / highest * PLOT;
    let heights = groups.iter().map(|group| TITLE + group.bars.len() as f64 * STEP + GAP);
    let mut svg = open(title, WIDTH, heights.sum::<f64>() - GAP);
    let mut top = 0.0;
    for group in groups {
        let bottom = top + TITLE + group.bars.len() as f64 * STEP;
        let _ = write!(
            svg,
            r#"<text class="group" x="0" y="{:.1}">{}</text>"#,
            top + 18.0,
            Escaped(&group.title)
        );
        let _ = write!(
            svg,
            r#"<line class="axis" x1="{LABELS}" x2="{LABELS}" y1="{:.1}" y2="{bottom:.1}"/>"#,
            top + TITLE - 3.0
        );
        let (near, far): (Vec<&Mark>, _) = group.marks.iter().partition(in_sight);
        if !far.is_empty() {
            let names: Vec<_> = far.iter().map(|mark| mark.label.as_str()).collect();
            let _ = write!(
                svg,
                r#"<text class="limit-name" x="{WIDTH}" y="{:.1}" text-anchor="end">{} →</text>"#,
                top + TITLE - 11.0,
                Escaped(&names.join(", "))
            );
        }
        for mark in near {
            let anchor = anchor(&group.marks, mark);
            let at = x(mark.value);
            let _ = write!(
                svg,
                r#"<line class="limit" x1="{at:.1}" x2="{at:.1}" y1="{:.1}" y2="{bottom:.1}"/><text class="limit-name" x="{at:.1}" y="{:.1}" text-anchor="{anchor}">{}</text>"#,
                top + TITLE - 6.0,
                top + TITLE - 11.0,
                Escaped(&mark.label)
            );
        }
        for (at, bar) in group.bars.iter().enumerate() {
            draw_bar(&mut svg, bar, top + TITLE + at as f64 * STEP, x);
        }
        top = bottom + GAP;
    }
    svg.push_str("</svg>");
    svg
}

/// Where a mark's name stands: names of two marks stand away from each other.
fn anchor(marks: &[Mark], mark: &Mark) -> &'static str {
    if marks.iter().any(|other| other.value > mark.value) {
        "end"
    } else if marks.iter().any(|other| other.value < mark.value) {
        "start"
    } else {
        "middle"
    }
}

fn draw_bar(svg: &mut String, bar: &Bar, top: f64, x: impl Fn(f64) -> f64) {
    let class = if bar.own { "own" } else { "peer" };
    let (middle, end) = (top + BAR / 2.0, x(bar.value));
    let _ = write!(
        svg,
        r#"<text class="name {class}" x="{:.1}" y="{:.1}" text-anchor="end">{}</text><rect class="bar {class}" x="{LABELS}" y="{top:.1}" width="{:.1}" height="{BAR}" rx="2.5"/>"#,
        LABELS - 8.0,
        middle + 4.5,
        Escaped(&bar.label),
        (end - LABELS).max(1.0)
    );
    if let Some((min, max)) = bar.spread {
        let _ = write!(
            svg,
            r#"<line class="spread" x1="{:.1}" x2="{:.1}" y1="{middle:.1}" y2="{middle:.1}"/>"#,
            x(min),
            x(max)
        );
    }
    let from = bar.spread.map_or(end, |(_, max)| x(max).max(end));
    let _ = write!(
        svg,
        r#"<text class="value {class}" x="{:.1}" y="{:.1}">{}<tspan class="remark" dx="6">{}</tspan></text>"#,
        from + 6.0,
        middle + 4.5,
        Escaped(&bar.text),
        Escaped(&bar.remark)
    );
}

/// A map's latencies at the [`PERCENTILES`].
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) latencies: [f64; 6],
    /// Its colour, as a number of the style sheet's.
    pub(crate) colour: usize,
}

/// Lines over percentiles, on a logarithmic scale.
pub(crate) fn latencies(title: &str, lines: &[Line]) -> String {
    const HEIGHT: f64 = 320.0;
    const LEFT: f64 = 64.0;
    const RIGHT: f64 = 24.0;
    const TOP: f64 = 12.0;
    const BOTTOM: f64 = 34.0;
    let all = lines.iter().flat_map(|line| line.latencies).map(|ns| ns.max(1.0).log10());
    let (low, high) = all.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
    let (low, high) = (low.floor(), high.ceil().max(low.floor() + 1.0));
    let y = |ns: f64| TOP + (high - ns.max(1.0).log10()) / (high - low) * (HEIGHT - TOP - BOTTOM);
    let x = |at: usize| {
        LEFT + 20.0 + at as f64 / (PERCENTILES.len() - 1) as f64 * (WIDTH - LEFT - RIGHT - 20.0)
    };
    let mut svg = open(title, WIDTH, HEIGHT);
    for exponent in low as i32..=high as i32 {
        let (ns, at) = (10f64.powi(exponent), y(10f64.powi(exponent)));
        let _ = write!(
            svg,
            r#"<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{at:.1}" y2="{at:.1}"/><text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
            LEFT - 8.0,
            at + 4.0,
            round_time(ns)
        );
    }
    for (at, name) in PERCENTILES.iter().enumerate() {
        let _ = write!(
            svg,
            r#"<text class="tick" x="{:.1}" y="{:.1}" text-anchor="middle">{name}</text>"#,
            x(at),
            HEIGHT - 10.0
        );
    }
    for line in lines {
        let points = line.latencies.iter().enumerate().map(|(at, &ns)| (x(at), y(ns), ns));
        let path: Vec<_> = points.clone().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
        let _ =
            write!(svg, r#"<polyline class="line c{}" points="{}"/>"#, line.colour, path.join(" "));
        for ((x, y, ns), name) in points.zip(PERCENTILES) {
            let _ = write!(
                svg,
                r#"<circle class="dot c{}" cx="{x:.1}" cy="{y:.1}" r="3.5"><title>{} {name}: {}</title></circle>"#,
                line.colour,
                Escaped(&line.label),
                nanoseconds(ns)
            );
        }
    }
    svg.push_str("</svg>");
    svg
}

/// A power of ten without decimals.
fn round_time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{:.0} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.0} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{:.0} µs", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}

pub(super) fn open(title: &str, width: f64, height: f64) -> String {
    format!(
        r#"<svg role="img" viewBox="0 0 {width:.0} {height:.0}" xmlns="http://www.w3.org/2000/svg"><title>{}</title>"#,
        Escaped(title)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(mark: f64) -> String {
        let bar = Bar {
            label: "map".to_owned(),
            value: 10.0,
            spread: Some((9.0, 11.0)),
            text: "10".to_owned(),
            remark: String::new(),
            own: true,
        };
        let marks = vec![Mark { label: "reads".to_owned(), value: mark }];
        bars("title", &[Group { title: "1 thread".to_owned(), bars: vec![bar], marks }])
    }

    #[test]
    fn a_far_mark_is_named_but_does_not_shrink_the_bars() {
        let (near, far) = (chart(20.0), chart(200.0));
        assert!(near.contains(r#"class="limit""#) && near.contains(">reads<"));
        assert!(!far.contains(r#"class="limit""#) && far.contains(">reads →<"));
    }

    #[test]
    fn markup_in_text_is_escaped() {
        assert_eq!(Escaped("<a & \"b\">").to_string(), "&lt;a &amp; &quot;b&quot;&gt;");
    }
}
