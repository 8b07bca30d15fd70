//! The report as one self-contained page, with its style and charts.

use super::chart::{self, Bar, Group, Line, Mark};
use super::compare::{best_peer, distinct, is_durable, is_own, ratio_to_best_peer};
use super::format::{grouped, nanoseconds, number, thread_count};
use super::parts::{charts, colour_of, figure, legend, section, table};
use super::{PERCENTILES, Report, Row, beside, figures, fill};
use crate::named::Named as _;
use crate::workloads::{AccessClass, Workload};
use clap::ValueEnum as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};

pub(super) const STYLE: &str = include_str!("page.css");

pub(crate) fn page(report: &Report) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Concurrent hash maps, measured" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (header(report))
                main {
                    (failures(report))
                    (highlights(report))
                    (throughput(report))
                    (latency(report))
                    (fill::fill(report))
                    (space(report))
                    (figures::figures(report))
                    (beside::papers(report))
                    (limits(report))
                    (method(report))
                    (all_rows(report))
                }
            }
        }
    };
    page.into_string()
}

fn header(report: &Report) -> Markup {
    html! {
        header {
            p.eyebrow { "Nunatak benchmark report" }
            h1 { "Concurrent hash maps," br; "measured against memory" }
            (facts(report))
        }
    }
}

/// Draws the machine and the parameters of a run.
pub(super) fn facts(report: &Report) -> Markup {
    let (machine, params) = (&report.machine, &report.params);
    let memory = machine.memory_gib.map(|gib| format!("{} GiB of memory", number(gib)));
    let kernel = machine.kernel.as_ref().map(|kernel| format!("{} · {kernel}", machine.os));
    let commit = machine.commit.as_ref().map_or(String::new(), |commit| format!(" at {commit}"));
    let facts = [
        ("Processor", Some(format!("{} · {} cores", machine.cpu, machine.cores))),
        ("Memory", memory),
        ("System", kernel.or_else(|| Some(machine.os.clone()))),
        ("Huge pages", machine.huge_pages.clone()),
        ("Items", Some(grouped(params.items))),
        ("Keys", Some(format!("{:?}", params.keys).to_lowercase())),
        ("Repetitions", Some(format!("{}, interleaved", params.repetitions))),
        ("Batch", Some(format!("{} operations", params.batch))),
        ("Text", params.text.clone()),
        ("Maps in files", Some(params.files.join(" · ")).filter(|files| !files.is_empty())),
        ("Version", Some(format!("{}{commit}", machine.nunatak_version))),
    ];
    html! {
        dl.facts {
            @for (name, fact) in facts {
                @if let Some(fact) = fact {
                    @let class = (fact.len() > 80).then_some("long");
                    div class=[class] { dt { (name) } dd { (fact) } }
                }
            }
        }
    }
}

pub(super) fn failures(report: &Report) -> Markup {
    html! {
        @if !report.failures.is_empty() {
            section.failures {
                h2 { "Failed checks" }
                ul { @for failure in &report.failures { li { (failure) } } }
            }
        }
    }
}

/// Formats a share in whole percents.
fn whole(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Returns whether a row is drawn as a bar. The steps of `fill` are drawn as curves.
pub(super) fn is_throughput(row: &Row) -> bool {
    row.mops.is_some() && row.filled().is_none()
}

/// Draws, for each operation, the fastest map of this project by single operations, beside the best
/// map of others, and that same map in batches.
fn highlights(report: &Report) -> Markup {
    let mut own: Vec<&Row> =
        report.rows.iter().filter(|row| is_own(row) && is_throughput(row)).collect();
    // Maps in files are for another question, if there are maps in RAM.
    if own.iter().any(|row| !is_durable(row)) {
        own.retain(|row| !is_durable(row));
    }
    let threads = own.iter().map(|row| row.threads).max().unwrap_or(0);
    let mops = |row: &Row| row.mops.unwrap_or(0.0);
    let fastest = |operation: &str| {
        let of_it = |row: &&&Row| row.threads == threads && row.operation == operation;
        own.iter().filter(of_it).max_by(|a, b| mops(a).total_cmp(&mops(b)))
    };
    let batched = |row: &Row| {
        let is_it = |it: &&&Row| {
            (&it.map, it.threads) == (&row.map, threads)
                && it.is_batched()
                && it.base_operation() == row.operation
        };
        own.iter().find(is_it).copied()
    };
    let operations = distinct(own.iter().copied(), Row::base_operation);
    let tiles = html! {
        div.tiles {
            @for row in operations.into_iter().filter_map(fastest) {
                div.tile {
                    span.what { (row.operation) " · " (row.map) }
                    span.figure { (number(mops(row))) }
                    @let versus = ratio_to_best_peer(report, row).zip(best_peer(report, row));
                    @if let Some((ratio, peer)) = versus {
                        span.versus { b { (number(ratio)) "×" } " " (peer.map) }
                    }
                    @if let Some(batched) = batched(row) {
                        span.versus { "in batches " b { (number(mops(batched))) } }
                    }
                    @if let Some((share, class)) = row.share.zip(row.share_of) {
                        span.meter { i style=(format!("width:{:.1}%", (share * 100.0).min(100.0))) {} }
                        span.share { (whole(share)) " of limit (" (class.name()) ")" }
                    }
                    @if let Some(warning) = row.unsteady() { span.unsteady { "⚠ " (warning) } }
                }
            }
        }
    };
    let lead = "of each operation the fastest map of this project, one operation at a time, in millions \
                a second; below it the same map in batches.";
    let lead = format!("{}; {lead}", thread_count(threads));
    section(!own.is_empty(), "nunatak at a glance", &lead, &tiles)
}

/// Draws one chart for each base operation: batched and unbatched rows of all maps.
fn throughput(report: &Report) -> Markup {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| is_throughput(row)).collect();
    let chart = |operation: &str| {
        let of_it: Vec<&Row> =
            rows.iter().filter(|row| row.base_operation() == operation).copied().collect();
        let groups: Vec<Group> = distinct(of_it.iter().copied(), |row| row.threads)
            .into_iter()
            .map(|threads| throughput_group(report, &of_it, threads))
            .collect();
        figure(operation, &describe(operation), &chart::bars(operation, &groups))
    };
    let lead = "Millions of operations a second: the median of the repetitions, with a whisker \
                from the slowest to the fastest. The dashed line is the limit of memory (an arrow \
                points to one far off), and the percentage is the share of it that was reached. \
                Behind it: times the best other map, and ⚠ if the repetitions differ by a factor of two \
                or more.";
    let operations = distinct(rows.iter().copied(), Row::base_operation);
    section(!rows.is_empty(), "Throughput", lead, &charts(operations.into_iter().map(chart)))
}

pub(super) fn throughput_group(report: &Report, rows: &[&Row], threads: usize) -> Group {
    let mut rows: Vec<&Row> = rows.iter().filter(|row| row.threads == threads).copied().collect();
    rows.sort_by(|a, b| b.mops.unwrap_or(0.0).total_cmp(&a.mops.unwrap_or(0.0)));
    let bar = |row: &&Row| {
        let share = row.share.map_or(String::new(), whole);
        let ratio = ratio_to_best_peer(report, row);
        let ratio = ratio.map_or(String::new(), |ratio| format!("{}×", number(ratio)));
        let warning = row.unsteady().map_or(String::new(), |_| "⚠".to_owned());
        let remarks = [share, ratio, warning].into_iter().filter(|remark| !remark.is_empty());
        Bar {
            label: row.label(),
            value: row.mops.unwrap_or(0.0),
            spread: row.mops_min.zip(row.mops_max),
            text: row.mops.map_or(String::new(), number),
            remark: remarks.collect::<Vec<_>>().join(" · "),
            own: is_own(row),
        }
    };
    let classes = distinct(rows.iter().copied(), |row| row.share_of);
    let mark = |class: AccessClass| {
        let value = report.limit.get(&threads)?.of(class);
        Some(Mark { label: format!("{} {}", class.name(), number(value)), value })
    };
    Group {
        title: thread_count(threads),
        bars: rows.iter().map(bar).collect(),
        marks: classes.into_iter().flatten().filter_map(mark).collect(),
    }
}

/// Describes the workload of an operation.
fn describe(operation: &str) -> String {
    let (name, variant) = operation.split_once('/').unwrap_or((operation, ""));
    let workload = Workload::value_variants().iter().find(|workload| workload.name() == name);
    let text = workload.map_or_else(String::new, |workload| workload.description());
    match variant {
        "uniform" => format!("{text}; all keys equally popular."),
        "zipf" => format!("{text}; popularity of keys after Zipf, exponent 0.99."),
        _ => format!("{text}."),
    }
}

fn latency(report: &Report) -> Markup {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.latencies().is_some()).collect();
    let chart = |(operation, threads): (&String, usize)| {
        let line = |row: &&Row| {
            let latencies = row.latencies()?;
            Some(Line { label: row.map.clone(), latencies, colour: colour_of(report, &row.map) })
        };
        let of_it = rows.iter().filter(|row| row.operation == *operation && row.threads == threads);
        let mut lines: Vec<Line> = of_it.filter_map(line).collect();
        // This project's map comes first in the report, and is drawn last, on top.
        lines.reverse();
        let title = format!("{operation}, {}", thread_count(threads));
        figure(&title, "", &chart::latencies(&title, &lines))
    };
    let all = distinct(rows.iter().copied(), |row| (&row.operation, row.threads));
    let all = html! { (legend(report, &rows)) (charts(all.into_iter().map(chart))) };
    let lead = "Single operations while the map grows from empty, from the median to the slowest \
                of all, on a logarithmic scale. Reading the clock is included.";
    section(!rows.is_empty(), "Latency", lead, &all)
}

fn space(report: &Report) -> Markup {
    const PAYLOAD: f64 = 16.0;
    let is_space = |row: &&Row| row.bytes_per_item.is_some() && row.filled().is_none();
    let rows: Vec<&Row> = report.rows.iter().filter(is_space).collect();
    let chart = |operation: &String| {
        let mut of_it: Vec<&Row> =
            rows.iter().filter(|row| row.operation == *operation).copied().collect();
        let bytes = |row: &Row| row.bytes_per_item.unwrap_or(0.0);
        of_it.sort_by(|a, b| bytes(a).total_cmp(&bytes(b)));
        let full = |load: f64| format!("{} full", whole(load));
        let bar = |row: &&Row| Bar {
            label: row.map.clone(),
            value: bytes(row),
            spread: None,
            text: number(bytes(row)),
            remark: row.load_factor.map_or(String::new(), full),
            own: is_own(row),
        };
        let group = Group {
            title: String::new(),
            bars: of_it.iter().map(bar).collect(),
            marks: vec![Mark { label: "payload 16".to_owned(), value: PAYLOAD }],
        };
        figure(operation, "", &chart::bars(operation, &[group]))
    };
    let lead = "Resident bytes per item, measured in a process of its own for each. The dashed \
                line is what key and value take. Less is better.";
    let operations = distinct(rows.iter().copied(), |row| &row.operation);
    section(!rows.is_empty(), "Space", lead, &charts(operations.into_iter().map(chart)))
}

pub(super) fn limits(report: &Report) -> Markup {
    let rows = report.limit.iter().map(|(threads, limit)| {
        let distances = [limit.best_distance, limit.rmw_best_distance, limit.cas_best_distance];
        let of_class = |(class, distance): (AccessClass, _)| {
            format!("{}, {distance} ahead", number(limit.of(class)))
        };
        let others = [
            limit.second_level_reads_mops,
            limit.unprefetched_reads_mops,
            limit.pairs_mops,
            limit.unprefetched_pairs_mops,
            limit.chase_mops,
        ];
        let classes = AccessClass::ALL.into_iter().zip(distances).map(of_class);
        ("", [threads.to_string()].into_iter().chain(classes).chain(others.map(number)).collect())
    });
    let others = [
        "reads, prefetched into the second-level cache",
        "reads without prefetch",
        "pairs: a line, and one that it names",
        "pairs without prefetch",
        "dependent chase",
    ];
    let names = ["threads"].into_iter().chain(AccessClass::ALL.map(AccessClass::description));
    let lead = format!(
        "Random cache lines of {} MiB of touched memory in huge pages, in millions a second, \
         prefetched at the best distance; measured in every round of the maps.",
        report.params.probe_mib
    );
    let table = table("", names.chain(others), rows);
    section(!report.limit.is_empty(), "The limit of this machine", &lead, &table)
}

pub(super) fn method(report: &Report) -> Markup {
    let params = &report.params;
    html! {
        section.method {
            h2 { "How it was measured" }
            ul {
                li {
                    "Maps of 64-bit keys to 64-bit values with " (grouped(params.items)) " items; \
                     hasher: " (params.hasher) ". Keys are computed from their index, never read \
                     from an array."
                }
                li {
                    "Threads are pinned to cores, start together after a warm-up, and measure for "
                    (params.milliseconds) " ms or until all items are inserted. Before a map is \
                     filled, memory for it is touched and freed, so that a hypervisor which takes \
                     free pages back is not what is measured. All is repeated "
                    (params.repetitions) " times, the probe and the maps taking turns; the median \
                     counts."
                }
                li {
                    "Every result is checked: a hit must return its key's value, a miss nothing, an \
                     insert of a new key nothing. A measurement that fails is no row."
                }
                li {
                    "Shares: lookups, YCSB B and C are compared with random reads; unbatched \
                     inserts, updates and mixes with read-modify-writes; batched inserts, and \
                     insert with delete, with compare-and-swaps. Hot keys stay in caches, so Zipf \
                     workloads can exceed the limit."
                }
                li {
                    "Batches hold " (params.batch) " operations. A batched row is compared with the \
                     others' unbatched rows, as they have no batches."
                }
            }
        }
    }
}

fn all_rows(report: &Report) -> Markup {
    let mut names =
        vec!["operation", "threads", "map", "M/s", "min–max", "share", "of", "to best peer"];
    let with_latency = report.rows.iter().any(|row| row.latencies().is_some());
    if with_latency {
        names.extend(PERCENTILES);
    }
    let with_space = report.rows.iter().any(|row| row.bytes_per_item.is_some());
    if with_space {
        names.extend(["bytes/item", "load factor"]);
    }
    let rows = report.rows.iter().map(|row| {
        let spread = row.mops_min.zip(row.mops_max);
        let mut cells = vec![
            Some(row.operation.clone()),
            Some(row.threads.to_string()),
            Some(row.map.clone()),
            row.mops.map(number),
            spread.map(|(min, max)| {
                let warning = if row.unsteady().is_some() { " ⚠" } else { "" };
                format!("{}–{}{warning}", number(min), number(max))
            }),
            row.share.map(whole),
            row.share_of.map(|class| class.name().to_owned()),
            ratio_to_best_peer(report, row).map(|ratio| format!("{}×", number(ratio))),
        ];
        if with_latency {
            let latencies = row.latencies().map(|all| all.map(|ns| Some(nanoseconds(ns))));
            cells.extend(latencies.unwrap_or_default());
        }
        if with_space {
            cells.extend([row.bytes_per_item.map(number), row.load_factor.map(whole)]);
        }
        let class = if is_own(row) { "own" } else { "" };
        (class, cells.into_iter().map(Option::unwrap_or_default).collect())
    });
    section(true, "All rows", "", &table("all", names, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn the_page_is_complete() {
        let report = example();
        let page = page(&report);
        for row in &report.rows {
            let cells = html! { td { (row.operation) } td { (row.threads) } td { (row.map) } };
            assert!(page.contains(&cells.into_string()), "{row:?}");
        }
        assert!(page.contains("failed &lt;badly&gt;") && page.contains("4.40×"));
        assert!(
            page.contains("By &lt;size&gt;")
                && page.contains("<td>8</td><td>records</td><td>12.5</td><td></td>")
        );
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let page = page(&example());
        let namespace = "http://www.w3.org/2000/svg";
        assert!(!page.replace(namespace, "").contains("http"));
        assert!(!page.contains("<script") && !page.contains("<link") && !page.contains("url("));
    }

    #[test]
    fn a_report_without_rows_says_how_it_was_measured() {
        let report = Report {
            rows: Vec::new(),
            limit: std::collections::BTreeMap::new(),
            figures: Vec::new(),
            failures: Vec::new(),
            ..example()
        };
        assert_eq!(page(&report).matches("<section").count(), 2);
    }
}
