//! What the throughput of a map may be with more threads than this machine has: drawn with dashes, and
//! beside what its paper tells.

use super::curves::{Curve, curves};
use super::data::of_projections;
use super::shared::{commands, figure};
use crate::report::compare::distinct;
use crate::report::format::{number, percent};
use crate::report::parts::{section, table};
use crate::report::projection::THREADS;
use crate::report::{Report, Row};
use maud::{Markup, html};

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 220.0;
/// The room around the axes.
const LEFT: f64 = 38.0;
const RIGHT: f64 = 46.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 24.0;
/// The numbers of threads of the axis.
const TICKS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

pub(super) fn page(report: &Report, map: &str) -> Markup {
    let curves = curves(report, map);
    let operations = distinct(&report.rows, Row::base_operation);
    let lead = "A projection, not a measurement: dashed lines go on from the threads that were \
                measured, by the model on the page about the method. Shades are what the \
                repetitions allow. Diamonds are what the paper tells of its own machine.";
    let content = html! {
        div.charts {
            @for operation in operations {
                @let of_it: Vec<&Curve> =
                    curves.iter().filter(|curve| base(curve.operation) == operation).collect();
                @if !of_it.is_empty() { (chart(report, map, operation, &of_it)) }
            }
        }
        (rows(&curves))
    };
    section(!curves.is_empty(), "Beyond this machine: a projection", lead, &content)
}

fn base(operation: &str) -> &str {
    operation.strip_suffix("/batch").unwrap_or(operation)
}

fn is_batched(curve: &Curve<'_>) -> bool {
    curve.operation.ends_with("/batch")
}

/// The class of a curve's colour: batches have the second.
fn colour(curve: &Curve<'_>) -> &'static str {
    if is_batched(curve) { "c1" } else { "c0" }
}

fn chart(report: &Report, map: &str, operation: &str, curves: &[&Curve<'_>]) -> Markup {
    let title = format!("{operation}: a projection to 64 threads");
    let rows: Vec<&Row> = report
        .rows
        .iter()
        .filter(|row| row.map == map && curves.iter().any(|curve| curve.operation == row.operation))
        .collect();
    let has_paper = curves.iter().any(|curve| !curve.told.is_empty());
    let drawn = html! {
        p.legend {
            @for curve in curves {
                span {
                    i class=(colour(curve)) {}
                    (if is_batched(curve) { "batched" } else { "single" }) ", measured"
                }
                span { i class={ "dashed " (colour(curve)) } {} "its projection" }
            }
            @if has_paper { span { "◆ the paper's machine" } }
        }
        (draw(&title, curves))
    };
    figure(
        &title,
        "Millions a second, on logarithmic scales.",
        &drawn,
        &commands(report, &rows),
        &of_projections(map),
    )
}

fn x(threads: usize) -> f64 {
    let most = TICKS[TICKS.len() - 1] as f64;
    LEFT + (WIDTH - LEFT - RIGHT) * (threads as f64).log2() / most.log2()
}

/// The scale of throughputs: whole powers of ten.
struct Scale {
    from: f64,
    to: f64,
}

impl Scale {
    fn of(curves: &[&Curve<'_>]) -> Self {
        let values = curves.iter().flat_map(|curve| {
            let projected = THREADS.map(|threads| curve.projection.range(threads));
            let measured = curve.projection.measured.iter().map(|(_, mops)| *mops);
            let told = curve.told.iter().map(|told| told.mops);
            let projected = projected.into_iter().flat_map(|(least, most)| [least, most]);
            projected.chain(measured).chain(told).collect::<Vec<_>>()
        });
        let (least, most) = values.fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        let from = least.max(1e-6).log10().floor();
        Self { from, to: most.log10().ceil().max(from + 1.0) }
    }

    fn y(&self, mops: f64) -> f64 {
        let part = (mops.max(1e-6).log10() - self.from) / (self.to - self.from);
        HEIGHT - BOTTOM - part.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }
}

fn draw(title: &str, curves: &[&Curve<'_>]) -> Markup {
    let scale = Scale::of(curves);
    let powers = (scale.from as i32..=scale.to as i32).map(|power| 10_f64.powi(power));
    let right = WIDTH - RIGHT;
    html! {
        svg.projection role="img" viewBox=(format!("0 0 {WIDTH:.0} {HEIGHT:.0}"))
            xmlns="http://www.w3.org/2000/svg" {
            title { (title) }
            @for power in powers {
                line class="grid" x1=(LEFT) x2=(right) y1=(px(scale.y(power))) y2=(px(scale.y(power))) {}
                text class="tick" x=(LEFT - 5.0) y=(px(scale.y(power) + 4.0)) text-anchor="end" {
                    (short(power))
                }
            }
            @for threads in TICKS {
                text class="tick" x=(px(x(threads))) y=(HEIGHT - 7.0) text-anchor="middle" { (threads) }
            }
            @for curve in curves { (draw_curve(curve, &scale)) }
            @for (y, mops) in apart(curves.iter().map(|curve| curve.projection.at(64)), &scale) {
                text class="value" x=(px(x(64) + 8.0)) y=(px(y + 4.0)) { (number(mops)) }
            }
        }
    }
}

fn draw_curve(curve: &Curve<'_>, scale: &Scale) -> Markup {
    let (projection, colour) = (&curve.projection, colour(curve));
    let last = projection.measured.last().map_or(1, |(threads, _)| *threads);
    let beyond: Vec<usize> =
        [last].into_iter().chain(TICKS.into_iter().filter(|&threads| threads > last)).collect();
    let at = |threads: usize, mops: f64| format!("{},{}", px(x(threads)), px(scale.y(mops)));
    let joined = |points: Vec<String>| points.join(" ");
    let measured: Vec<String> =
        projection.measured.iter().map(|&(threads, mops)| at(threads, mops)).collect();
    let projected = |&threads: &usize| at(threads, projection.at(threads));
    // From the last measured point on.
    let projected =
        measured.last().cloned().into_iter().chain(beyond[1..].iter().map(projected)).collect();
    let least = beyond.iter().map(|&threads| at(threads, projection.range(threads).0));
    let most = beyond.iter().rev().map(|&threads| at(threads, projection.range(threads).1));
    html! {
        polygon class={ "range " (colour) } points=(joined(least.chain(most).collect())) {}
        polyline class={ "line " (colour) } points=(joined(measured)) {}
        polyline class={ "line projected " (colour) } points=(joined(projected)) {}
        @for &(threads, mops) in &projection.measured {
            circle class={ "dot " (colour) } cx=(px(x(threads))) cy=(px(scale.y(mops))) r="4" {}
        }
        @for threads in THREADS {
            @let mops = projection.at(threads);
            circle class={ "hollow " (colour) } cx=(px(x(threads))) cy=(px(scale.y(mops))) r="4" {}
        }
        @for told in &curve.told {
            text class={ "told " (colour) } x=(px(x(told.threads))) y=(px(scale.y(told.mops) + 5.0))
                text-anchor="middle" { "◆" }
        }
    }
}

/// Returns where to write these throughputs, so that none covers another.
fn apart(all: impl Iterator<Item = f64>, scale: &Scale) -> Vec<(f64, f64)> {
    const LINE: f64 = 13.0;
    let mut places: Vec<(f64, f64)> = all.map(|mops| (scale.y(mops), mops)).collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    for at in 1..places.len() {
        places[at].0 = places[at].0.max(places[at - 1].0 + LINE);
    }
    places
}

/// Formats a power of ten for the axis.
fn short(power: f64) -> String {
    if power >= 1000.0 { format!("{}k", power / 1000.0) } else { power.to_string() }
}

fn px(value: f64) -> String {
    format!("{value:.1}")
}

fn rows(curves: &[Curve<'_>]) -> Markup {
    let cells = |curve: &Curve<'_>| {
        let projection = &curve.projection;
        let projected = |threads: usize| {
            let (least, most) = projection.range(threads);
            let memory = if projection.is_of_memory(threads) { ", memory" } else { "" };
            format!(
                "{} ({}–{}{memory})",
                number(projection.at(threads)),
                number(least),
                number(most)
            )
        };
        let told =
            curve.told.iter().map(|told| format!("{} ({})", number(told.mops), told.threads));
        let told = told.collect::<Vec<_>>().join(", ");
        let [few, many] = THREADS.map(projected);
        ("", vec![curve.operation.to_owned(), percent(projection.contention()), few, many, told])
    };
    let names = [
        "operation",
        "contention",
        "16 threads, projected",
        "64 threads, projected",
        "the paper (its threads)",
    ];
    table("rows", names, curves.iter().map(cells))
}

/// Describes the model and its limits, for the page about the method.
pub(super) fn method() -> Markup {
    html! {
        section.method {
            h2 { "How more threads are projected" }
            ul {
                li {
                    "Projections are computed, not measured. With n threads a map does the smaller of \
                     two throughputs."
                }
                li {
                    "Contention: " code { "n · X(1) / (1 + c · (n − 1))" } ", with "
                    code { "c = (m · X(1) / X(m) − 1) / (m − 1)" } " from the largest number m of threads \
                     that was measured; at least 0. This is Amdahl's law."
                }
                li {
                    "Memory: " code { "B(n) / L" } ". B(n) is the limit of random cache lines, by the same law \
                     from the probe's limits of one and of m threads. L is the least number of lines that \
                     the operation reads: 2 of IcebergHT (batched misses: 1), 1.5 of hits of TurboHash, \
                     else 1. A map that is faster than that already is in caches, and has no such limit."
                }
                li {
                    "The range is that of the same law through the slowest and the fastest repetitions. A \
                     small error of c becomes large: of two threads that are 5 % slower, 64 threads are four \
                     times slower."
                }
                li {
                    "What the model does not know: a second socket and its memory, the processor's lower \
                     clock with all cores, hardware threads that share a core (if the measured threads \
                     share one, c is too large), locks that are rare with two threads and busy with 64, and \
                     traffic between caches that grows with the square of n (the second coefficient of the \
                     Universal Scalability Law, which two points can't give)."
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn a_projection_says_that_it_is_one() {
        let drawn = page(&example(), "dlht").into_string();
        assert!(drawn.contains("Beyond this machine: a projection"), "{drawn}");
        assert!(drawn.contains("A projection, not a measurement"), "{drawn}");
        assert!(drawn.contains("class=\"line projected c0\""), "{drawn}");
        assert!(drawn.contains("its projection</span>"), "{drawn}");
        assert!(drawn.contains("get-hit: a projection to 64 threads"), "{drawn}");
        // One operation has one thread and two.
        assert_eq!(drawn.matches("<svg").count(), 1);
        assert!(page(&example(), "iceberg").into_string().is_empty(), "nothing to go on from");
        let css = include_str!("folder.css");
        assert!(css.contains("svg .line.projected { stroke-dasharray"), "no dashes");
        assert!(method().into_string().contains("B(n) / L"));
    }

    #[test]
    fn papers_tell_of_their_threads() {
        let mut report = example();
        let mut row = report.rows.iter().find(|row| row.is_batched()).cloned().expect("batches");
        (row.threads, row.mops) = (1, Some(100.0));
        report.rows.push(row);
        let curves = curves(&report, "dlht");
        let batched = curves.iter().find(|curve| is_batched(curve)).expect("batches");
        assert_eq!(
            batched.told.iter().map(|told| (told.threads, told.mops)).collect::<Vec<_>>(),
            [(64, 1660.0)]
        );
        assert!(page(&report, "dlht").into_string().contains("◆ the paper's machine"));
    }
}
