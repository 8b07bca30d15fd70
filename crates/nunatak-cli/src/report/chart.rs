//! Charts as inline SVG, coloured by the page's style sheet.
//!
//! The charts are drawn by hand. Plotting libraries (plotters, poloto, charming) have no bars with
//! whiskers, limits and remarks. They write colours instead of classes, so a light and a dark page
//! could not share a chart. With them the code for the geometry would be as long.

use super::PERCENTILES;
use super::format::nanoseconds;
use maud::{Markup, html};

/// One bar.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// The smallest and the largest value of the repetitions.
    pub(crate) spread: Option<(f64, f64)>,
    /// The text behind the bar.
    pub(crate) text: String,
    pub(crate) remark: String,
    /// Whether the bar is highlighted.
    pub(crate) own: bool,
}

/// A vertical line across the bars of a group.
pub(crate) struct Mark {
    pub(crate) label: String,
    pub(crate) value: f64,
}

/// A group of bars with a title and marks.
pub(crate) struct Group {
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
    pub(crate) marks: Vec<Mark>,
}

pub(super) const WIDTH: f64 = 640.0;
/// The room for names: at least, at most, and for each of their characters.
const LABELS: [f64; 2] = [134.0, 330.0];
const CHARACTER: f64 = 7.9;
const VALUES: f64 = 150.0;
const BAR: f64 = 16.0;
const STEP: f64 = 23.0;
const TITLE: f64 = 30.0;
const GAP: f64 = 12.0;

/// A mark farther away than this many times the longest bar is named but not drawn. So the bars can
/// still be told apart.
const IN_SIGHT: f64 = 2.0;

fn svg(title: &str, height: f64, content: &Markup) -> Markup {
    html! {
        svg role="img" viewBox=(format!("0 0 {WIDTH:.0} {height:.0}"))
            xmlns="http://www.w3.org/2000/svg" { title { (title) } (content) }
    }
}

fn px(value: f64) -> String {
    format!("{value:.1}")
}

fn line(class: &str, [x1, x2]: [f64; 2], [y1, y2]: [f64; 2]) -> Markup {
    html! { line class=(class) x1=(px(x1)) x2=(px(x2)) y1=(px(y1)) y2=(px(y2)) {} }
}

fn text(class: &str, [x, y]: [f64; 2], anchor: &str, text: &str) -> Markup {
    html! { text class=(class) x=(px(x)) y=(px(y)) text-anchor=(anchor) { (text) } }
}

/// Draws horizontal bars in groups, on one scale that begins at zero.
pub(crate) fn bars(title: &str, groups: &[Group]) -> Markup {
    svg(title, height(groups), &drawn_bars(groups))
}

fn height_of(group: &Group) -> f64 {
    TITLE + group.bars.len() as f64 * STEP + GAP
}

/// Returns the room for the names of all bars.
fn labels(groups: &[Group]) -> f64 {
    let lengths = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.label.chars().count());
    let longest = lengths.max().unwrap_or(0) as f64;
    (longest * CHARACTER + 12.0).clamp(LABELS[0], LABELS[1])
}

/// Returns the height of groups of bars.
pub(super) fn height(groups: &[Group]) -> f64 {
    groups.iter().map(height_of).sum::<f64>() - GAP
}

/// The same without the frame.
pub(super) fn drawn_bars(groups: &[Group]) -> Markup {
    let reach = |bar: &Bar| bar.spread.map_or(bar.value, |(_, max)| max.max(bar.value));
    let longest = groups.iter().flat_map(|group| &group.bars).map(reach).fold(0.0, f64::max);
    let in_sight = |mark: &&Mark| mark.value <= IN_SIGHT * longest;
    let marks = groups.iter().flat_map(|group| &group.marks).filter(in_sight);
    let highest = marks.map(|mark| mark.value).fold(longest, f64::max).max(f64::MIN_POSITIVE);
    let labels = labels(groups);
    let x = |value: f64| labels + value / highest * (WIDTH - labels - VALUES);
    let tops = groups.iter().scan(0.0, |next, group| {
        let top = *next;
        *next += height_of(group);
        Some(top)
    });
    html! {
        @for (group, top) in groups.iter().zip(tops) {
            @let (first, bottom) = (top + TITLE, top + height_of(group) - GAP);
            @let (near, far): (Vec<&Mark>, Vec<&Mark>) = group.marks.iter().partition(in_sight);
            (text("group", [0.0, top + 18.0], "start", &group.title))
            (line("axis", [labels; 2], [first - 3.0, bottom]))
            @if !far.is_empty() {
                @let names: Vec<&str> = far.iter().map(|mark| mark.label.as_str()).collect();
                @let names = format!("{} →", names.join(", "));
                (text("limit-name", [WIDTH, first - 11.0], "end", &names))
            }
            @for mark in near {
                (line("limit", [x(mark.value); 2], [first - 6.0, bottom]))
                @let at = [x(mark.value), first - 11.0];
                (text("limit-name", at, anchor(&group.marks, mark), &mark.label))
            }
            @for (at, bar) in group.bars.iter().enumerate() {
                (draw_bar(bar, first + at as f64 * STEP, labels, x))
            }
        }
    }
}

/// Returns the alignment of a mark's name, so that the names of two marks do not overlap.
fn anchor(marks: &[Mark], mark: &Mark) -> &'static str {
    if marks.iter().any(|other| other.value > mark.value) {
        "end"
    } else if marks.iter().any(|other| other.value < mark.value) {
        "start"
    } else {
        "middle"
    }
}

fn draw_bar(bar: &Bar, top: f64, labels: f64, x: impl Fn(f64) -> f64) -> Markup {
    let class = if bar.own { "own" } else { "peer" };
    let (middle, end) = (top + BAR / 2.0, x(bar.value));
    let from = bar.spread.map_or(end, |(_, max)| x(max).max(end)) + 6.0;
    html! {
        (text(&format!("name {class}"), [labels - 8.0, middle + 4.5], "end", &bar.label))
        rect class={ "bar " (class) } x=(labels) y=(px(top)) width=(px((end - labels).max(1.0)))
            height=(BAR) rx="2.5" {}
        @if let Some((min, max)) = bar.spread { (line("spread", [x(min), x(max)], [middle; 2])) }
        text class={ "value " (class) } x=(px(from)) y=(px(middle + 4.5)) {
            (bar.text) tspan class="remark" dx="6" { (bar.remark) }
        }
    }
}

/// A curve with a dot at each of its points.
pub(crate) struct Curve {
    /// The colour, as a number in the style sheet.
    pub(crate) colour: usize,
    /// Fractions of the width and of the height, from below, and the text of the point.
    pub(crate) points: Vec<([f64; 2], String)>,
}

/// A fraction of the width or of the height, and the text there.
pub(crate) type Tick = (f64, String);

/// Draws curves, with ticks below and grid lines with their names beside.
pub(crate) fn curves(title: &str, below: &[Tick], beside: &[Tick], curves: &[Curve]) -> Markup {
    const HEIGHT: f64 = 320.0;
    const LEFT: f64 = 64.0;
    const RIGHT: f64 = 24.0;
    const TOP: f64 = 12.0;
    const BOTTOM: f64 = 34.0;
    let x = |part: f64| LEFT + part * (WIDTH - LEFT - RIGHT);
    let y = |part: f64| TOP + (1.0 - part) * (HEIGHT - TOP - BOTTOM);
    let content = html! {
        @for (part, name) in beside {
            (line("grid", [LEFT, WIDTH], [y(*part); 2]))
            (text("tick", [LEFT - 8.0, y(*part) + 4.0], "end", name))
        }
        @for (part, name) in below {
            (text("tick", [x(*part), HEIGHT - 10.0], "middle", name))
        }
        @for Curve { colour, points } in curves {
            @let at = |[part, height]: &[f64; 2]| format!("{},{}", px(x(*part)), px(y(*height)));
            @let path: Vec<String> = points.iter().map(|(point, _)| at(point)).collect();
            polyline class={ "line c" (colour) } points=(path.join(" ")) {}
            @for ([part, height], said) in points {
                circle class={ "dot c" (colour) } cx=(px(x(*part))) cy=(px(y(*height))) r="3.5" {
                    title { (said) }
                }
            }
        }
    };
    svg(title, HEIGHT, &content)
}

/// A map's latencies at the [`PERCENTILES`].
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) latencies: [f64; 7],
    /// The colour, as a number in the style sheet.
    pub(crate) colour: usize,
}

/// Draws lines over percentiles, on a logarithmic scale.
pub(crate) fn latencies(title: &str, lines: &[Line]) -> Markup {
    let all = lines.iter().flat_map(|line| line.latencies).map(|ns| ns.max(1.0).log10());
    let (low, high) = all.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
    let (low, high) = (low.floor(), high.ceil().max(low.floor() + 1.0));
    let height = |ns: f64| (ns.max(1.0).log10() - low) / (high - low);
    // The points keep away from the edge, where the names of the grid lines are.
    let part = |at: usize| 0.04 + 0.96 * at as f64 / (PERCENTILES.len() - 1) as f64;
    let powers = (low as i32..=high as i32).map(|exponent| 10f64.powi(exponent));
    let beside: Vec<Tick> = powers.map(|ns| (height(ns), round_time(ns))).collect();
    let names = PERCENTILES.iter().enumerate();
    let below: Vec<Tick> = names.map(|(at, name)| (part(at), (*name).to_owned())).collect();
    let curve = |line: &Line| {
        let points = line.latencies.iter().zip(PERCENTILES).enumerate().map(|(at, (&ns, name))| {
            ([part(at), height(ns)], format!("{} {name}: {}", line.label, nanoseconds(ns)))
        });
        Curve { colour: line.colour, points: points.collect() }
    };
    curves(title, &below, &beside, &lines.iter().map(curve).collect::<Vec<_>>())
}

/// Formats a power of ten without decimals.
fn round_time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{:.0} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.0} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{:.0} µs", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
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
            .into_string()
    }

    #[test]
    fn a_far_mark_is_named_but_does_not_shrink_the_bars() {
        let (near, far) = (chart(20.0), chart(200.0));
        assert!(near.contains(r#"class="limit""#) && near.contains(">reads<"));
        assert!(!far.contains(r#"class="limit""#) && far.contains(">reads →<"));
    }
}
