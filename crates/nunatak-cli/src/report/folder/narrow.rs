//! Bars that a telephone can show: the name above each bar, in two lines if it is long; 340 units wide,
//! which are pixels there.
//!
//! A bar of this project has an outline and a bold name besides its colour, so that colours are not
//! needed to tell it.

use super::super::format::number;
use maud::{Markup, html};

const WIDTH: f64 = 340.0;
const STEP: f64 = 36.0;
const BAR: f64 = 11.0;
/// The height of a further line of a name.
const LINE: f64 = 15.0;
/// The longest line of a name in characters.
const LONGEST: usize = 36;

/// A bar.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) own: bool,
}

/// Draws bars on a scale that begins at zero.
pub(super) fn bars(title: &str, unit: &str, bars: &[Bar]) -> Markup {
    let longest = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let text = |bar: &Bar| format!("{} {unit}", number(bar.value)).trim_end().to_owned();
    draw(title, bars, |bar| (0.0, (bar.value / longest).max(0.0)), text, None)
}

/// Draws factors: to the right of the middle if they exceed one, to the left if not, on a logarithmic
/// scale that ends at a factor of 100.
pub(super) fn factors(title: &str, bars: &[Bar]) -> Markup {
    let at = |value: f64| 0.5 + (value.clamp(0.01, 100.0).log10()) / 4.0;
    let ends = |bar: &Bar| {
        let end = at(bar.value);
        (end.min(0.5), end.max(0.5))
    };
    draw(title, bars, ends, |bar| format!("× {}", number(bar.value)), Some(0.5))
}

fn draw(
    title: &str,
    bars: &[Bar],
    ends: impl Fn(&Bar) -> (f64, f64),
    text: impl Fn(&Bar) -> String,
    middle: Option<f64>,
) -> Markup {
    let names: Vec<Vec<String>> = bars.iter().map(|bar| lines_of(&bar.name)).collect();
    let tops = names.iter().scan(0.0, |next, lines| {
        let top = *next;
        *next += STEP + (lines.len() - 1) as f64 * LINE;
        Some(top)
    });
    let tops: Vec<f64> = tops.collect();
    let lines: usize = names.iter().map(|lines| lines.len() - 1).sum();
    let height = bars.len() as f64 * STEP + lines as f64 * LINE + 4.0;
    html! {
        svg role="img" viewBox=(format!("0 0 {WIDTH:.0} {height:.0}"))
            xmlns="http://www.w3.org/2000/svg" {
            title { (title) }
            @for ((bar, lines), &top) in bars.iter().zip(&names).zip(&tops) {
                @let (from, to) = ends(bar);
                @let class = if bar.own { "own" } else { "peer" };
                @let first = top + 18.0 + (lines.len() - 1) as f64 * LINE;
                @for (at, line) in lines.iter().enumerate() {
                    text class={ "name " (class) } x="0"
                        y=(format!("{:.1}", top + 13.0 + at as f64 * LINE)) { (line) }
                }
                text class={ "value " (class) } x=(WIDTH) y=(format!("{:.1}", top + 13.0))
                    text-anchor="end" { (text(bar)) }
                rect class={ "bar " (class) } x=(format!("{:.1}", from * WIDTH))
                    y=(format!("{first:.1}"))
                    width=(format!("{:.1}", ((to - from) * WIDTH).max(1.0))) height=(BAR) rx="2" {}
                @if let Some(middle) = middle {
                    line class="mid" x1=(middle * WIDTH) x2=(middle * WIDTH)
                        y1=(format!("{:.1}", first - 3.0)) y2=(format!("{:.1}", first + BAR + 3.0)) {}
                }
            }
        }
    }
}

/// Breaks a name into at most two lines, between words.
fn lines_of(name: &str) -> Vec<String> {
    if name.chars().count() <= LONGEST {
        return vec![name.to_owned()];
    }
    let end = name.char_indices().nth(LONGEST).map_or(name.len(), |(at, _)| at);
    match name[..end].rfind(' ') {
        Some(space) => vec![name[..space].to_owned(), shortened(&name[space + 1..])],
        None => vec![shortened(name)],
    }
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= LONGEST {
        return name.to_owned();
    }
    name.chars().take(LONGEST - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_value() {
        let bar = |value| Bar { name: "x".repeat(50), value, own: value > 5.0 };
        let drawn = bars("title", "M/s", &[bar(10.0), bar(2.5)]).into_string();
        assert!(drawn.contains("width=\"340.0\"") && drawn.contains("width=\"85.0\""), "{drawn}");
        assert!(drawn.contains("10.0 M/s") && drawn.contains(&format!("{}…", "x".repeat(35))));
        assert_eq!(drawn.matches("bar own").count(), 1);
        let name = "table 2: latency of positive queries, persistent memory, p99.9";
        assert_eq!(
            lines_of(name),
            ["table 2: latency of positive", "queries, persistent memory, p99.9"]
        );
        let drawn = factors("title", &[bar(10.0), bar(0.1), bar(1e6)]).into_string();
        assert_eq!(drawn.matches("width=\"85.0\"").count(), 2, "{drawn}");
        assert!(drawn.contains("width=\"170.0\""), "a far factor ends at the edge: {drawn}");
    }
}
