//! The report as one page that needs nothing else: style and charts are in it.

use super::chart::{self, Bar, Escaped, Group, Line, Mark};
use super::compare::{best_peer, distinct, is_own, ratio_to_best_peer};
use super::{PERCENTILES, Report, Row, grouped, nanoseconds, number, thread_count};
use super::{figures, fill};
use crate::workloads::{AccessClass, Workload};
use clap::ValueEnum as _;
use std::fmt::Write as _;

const STYLE: &str = include_str!("page.css");

/// The page. (Writing to a string can't fail.)
pub(crate) fn page(report: &Report) -> String {
    let mut html = String::new();
    let _ = write!(
        html,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Concurrent hash maps, measured</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
    );
    header(&mut html, report);
    failures(&mut html, report);
    highlights(&mut html, report);
    throughput(&mut html, report);
    latency(&mut html, report);
    fill::section(&mut html, report);
    space(&mut html, report);
    figures::section(&mut html, report);
    limits(&mut html, report);
    method(&mut html, report);
    all_rows(&mut html, report);
    html.push_str("</body>\n</html>\n");
    html
}

fn header(html: &mut String, report: &Report) {
    let (machine, params) = (&report.machine, &report.params);
    let memory = machine.memory_gib.map(|gib| format!("{} GiB of memory", number(gib)));
    let kernel = machine.kernel.as_ref().map(|kernel| format!("{} · {kernel}", machine.os));
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
        ("Version", Some(version(report))),
    ];
    html.push_str(
        "<header><p class=\"eyebrow\">Nunatak benchmark report</p>\n\
         <h1>Concurrent hash maps,<br>measured against memory</h1>\n<dl class=\"facts\">",
    );
    for (name, fact) in facts {
        if let Some(fact) = fact {
            let _ = write!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", Escaped(&fact));
        }
    }
    html.push_str("</dl></header>\n<main>\n");
}

fn version(report: &Report) -> String {
    let machine = &report.machine;
    let commit = machine.commit.as_ref().map_or(String::new(), |commit| format!(" at {commit}"));
    format!("{}{commit}", machine.nunatak_version)
}

fn failures(html: &mut String, report: &Report) {
    if report.failures.is_empty() {
        return;
    }
    html.push_str("<section class=\"failures\"><h2>Failed checks</h2><ul>");
    for failure in &report.failures {
        let _ = write!(html, "<li>{}</li>", Escaped(failure));
    }
    html.push_str("</ul></section>\n");
}

/// Whether a row is drawn as a bar; the steps of `fill` are drawn as curves.
fn is_throughput(row: &Row) -> bool {
    row.mops.is_some() && row.filled().is_none()
}

/// For each base operation, this project's fastest form at the highest number
/// of threads.
fn highlights(html: &mut String, report: &Report) {
    let own: Vec<&Row> =
        report.rows.iter().filter(|row| is_own(row) && is_throughput(row)).collect();
    let Some(threads) = own.iter().map(|row| row.threads).max() else {
        return;
    };
    let _ = write!(
        html,
        "<section><h2>nunatak at a glance</h2>\
         <p class=\"lead\">{}; the fastest form of each operation, in millions a second.</p>\
         <div class=\"tiles\">",
        thread_count(threads)
    );
    for operation in distinct(own.iter().copied(), Row::base_operation) {
        let forms =
            own.iter().filter(|row| row.threads == threads && row.base_operation() == operation);
        let mops = |row: &&&Row| row.mops.unwrap_or(0.0);
        let Some(row) = forms.max_by(|a, b| mops(a).total_cmp(&mops(b))) else {
            continue;
        };
        let _ = write!(
            html,
            "<div class=\"tile\"><span class=\"what\">{} · {}</span><span class=\"figure\">{}</span>",
            Escaped(&row.operation),
            Escaped(&row.map),
            number(mops(&row))
        );
        let versus = ratio_to_best_peer(report, row).zip(best_peer(report, row));
        if let Some((ratio, peer)) = versus {
            let _ = write!(
                html,
                "<span class=\"versus\"><b>{}×</b> {}</span>",
                number(ratio),
                Escaped(&peer.map)
            );
        }
        if let Some((share, class)) = row.share.zip(row.share_of) {
            let _ = write!(
                html,
                "<span class=\"meter\"><i style=\"width:{:.1}%\"></i></span>\
                 <span class=\"share\">{:.0} % of limit ({})</span>",
                (share * 100.0).min(100.0),
                share * 100.0,
                class.name()
            );
        }
        html.push_str("</div>");
    }
    html.push_str("</div></section>\n");
}

/// One chart a base operation: batched and unbatched rows of all maps.
fn throughput(html: &mut String, report: &Report) {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| is_throughput(row)).collect();
    if rows.is_empty() {
        return;
    }
    html.push_str(
        "<section><h2>Throughput</h2><p class=\"lead\">Millions of operations a second: the \
         median of the repetitions, with a whisker from the slowest to the fastest. The dashed \
         line is the limit of memory (an arrow points to one far off), and the percentage is the \
         share of it that was reached. Behind it: times the best other map.</p><div class=\"charts\">",
    );
    for operation in distinct(rows.iter().copied(), Row::base_operation) {
        let of_it: Vec<&Row> =
            rows.iter().filter(|row| row.base_operation() == operation).copied().collect();
        let groups: Vec<Group> = distinct(of_it.iter().copied(), |row| row.threads)
            .into_iter()
            .map(|threads| throughput_group(report, &of_it, threads))
            .collect();
        let _ = write!(
            html,
            "<figure><figcaption><h3>{}</h3><p>{}</p></figcaption>{}</figure>",
            Escaped(operation),
            describe(operation),
            chart::bars(operation, &groups)
        );
    }
    html.push_str("</div></section>\n");
}

fn throughput_group(report: &Report, rows: &[&Row], threads: usize) -> Group {
    let mut rows: Vec<&Row> = rows.iter().filter(|row| row.threads == threads).copied().collect();
    rows.sort_by(|a, b| b.mops.unwrap_or(0.0).total_cmp(&a.mops.unwrap_or(0.0)));
    let bar = |row: &&Row| {
        let share = row.share.map_or(String::new(), |share| format!("{:.0} %", share * 100.0));
        let ratio = ratio_to_best_peer(report, row);
        let ratio = ratio.map_or(String::new(), |ratio| format!("{}×", number(ratio)));
        let remarks = [share, ratio].into_iter().filter(|remark| !remark.is_empty());
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

/// What the workload of an operation is.
fn describe(operation: &str) -> String {
    let (name, variant) = operation.split_once('/').unwrap_or((operation, ""));
    let workload = Workload::value_variants().iter().find(|workload| workload.name() == name);
    let text = workload.map_or("", |workload| workload.description());
    match variant {
        "uniform" => format!("{text}; all keys equally popular."),
        "zipf" => format!("{text}; popularity of keys after Zipf, exponent 0.99."),
        _ => format!("{text}."),
    }
}

/// The colour of a map's lines: its number among all maps of the report.
pub(crate) fn colour_of(report: &Report, map: &str) -> usize {
    const COLOURS: usize = 8;
    let maps = distinct(&report.rows, |row| row.map.as_str());
    maps.iter().position(|name| *name == map).unwrap_or(0) % COLOURS
}

fn latency(html: &mut String, report: &Report) {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.latencies().is_some()).collect();
    if rows.is_empty() {
        return;
    }
    let colour = |map: &str| colour_of(report, map);
    html.push_str(
        "<section><h2>Latency</h2><p class=\"lead\">Single operations while the map grows from \
         empty, from the median to the slowest of all, on a logarithmic scale. Reading the clock \
         is included.</p><p class=\"legend\">",
    );
    for map in distinct(rows.iter().copied(), |row| row.map.as_str()) {
        let _ = write!(html, "<span><i class=\"c{}\"></i>{}</span>", colour(map), Escaped(map));
    }
    html.push_str("</p><div class=\"charts\">");
    for (operation, threads) in distinct(rows.iter().copied(), |row| (&row.operation, row.threads))
    {
        let of_chart =
            rows.iter().filter(|row| row.operation == *operation && row.threads == threads);
        let line = |row: &&Row| {
            Some(Line {
                label: row.map.clone(),
                latencies: row.latencies()?,
                colour: colour(&row.map),
            })
        };
        let mut lines: Vec<Line> = of_chart.filter_map(line).collect();
        // This project's map comes first, and is drawn last: on top.
        lines.reverse();
        let title = format!("{operation}, {}", thread_count(threads));
        let _ = write!(
            html,
            "<figure><figcaption><h3>{}</h3></figcaption>{}</figure>",
            Escaped(&title),
            chart::latencies(&title, &lines)
        );
    }
    html.push_str("</div></section>\n");
}

fn space(html: &mut String, report: &Report) {
    const PAYLOAD: f64 = 16.0;
    let is_space = |row: &&Row| row.bytes_per_item.is_some() && row.filled().is_none();
    let rows: Vec<&Row> = report.rows.iter().filter(is_space).collect();
    if rows.is_empty() {
        return;
    }
    html.push_str(
        "<section><h2>Space</h2><p class=\"lead\">Resident bytes per item, measured in a process \
         of its own for each. The dashed line is what key and value take. Less is better.</p>\
         <div class=\"charts\">",
    );
    for operation in distinct(rows.iter().copied(), |row| &row.operation) {
        let mut of_it: Vec<&Row> =
            rows.iter().filter(|row| row.operation == *operation).copied().collect();
        let bytes = |row: &Row| row.bytes_per_item.unwrap_or(0.0);
        of_it.sort_by(|a, b| bytes(a).total_cmp(&bytes(b)));
        let bar = |row: &&Row| Bar {
            label: row.map.clone(),
            value: bytes(row),
            spread: None,
            text: number(bytes(row)),
            remark: row
                .load_factor
                .map_or(String::new(), |load| format!("{:.0} % full", load * 100.0)),
            own: is_own(row),
        };
        let group = Group {
            title: String::new(),
            bars: of_it.iter().map(bar).collect(),
            marks: vec![Mark { label: "payload 16".to_owned(), value: PAYLOAD }],
        };
        let _ = write!(
            html,
            "<figure><figcaption><h3>{}</h3></figcaption>{}</figure>",
            Escaped(operation),
            chart::bars(operation, &[group])
        );
    }
    html.push_str("</div></section>\n");
}

fn limits(html: &mut String, report: &Report) {
    if report.limit.is_empty() {
        return;
    }
    let _ = write!(
        html,
        "<section><h2>The limit of this machine</h2><p class=\"lead\">Random cache lines of {} \
         MiB of touched memory in huge pages, in millions a second, prefetched at the best \
         distance; measured in every round of the maps.</p><div class=\"scroll\"><table><thead>\
         <tr><th>threads</th>",
        report.params.probe_mib
    );
    for class in AccessClass::ALL {
        let _ = write!(html, "<th>{}</th>", class.description());
    }
    html.push_str(
        "<th>reads, prefetched into the second-level cache</th><th>reads without prefetch</th>\
         <th>pairs: a line, and one that it names</th>\
         <th>pairs without prefetch</th><th>dependent chase</th></tr></thead><tbody>",
    );
    for (threads, limit) in &report.limit {
        let distances = [limit.best_distance, limit.rmw_best_distance, limit.cas_best_distance];
        let _ = write!(html, "<tr><td>{threads}</td>");
        for (class, distance) in AccessClass::ALL.into_iter().zip(distances) {
            let _ = write!(
                html,
                "<td>{} <small>{distance} ahead</small></td>",
                number(limit.of(class))
            );
        }
        let _ = write!(
            html,
            "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            number(limit.second_level_reads_mops),
            number(limit.unprefetched_reads_mops),
            number(limit.pairs_mops),
            number(limit.unprefetched_pairs_mops),
            number(limit.chase_mops)
        );
    }
    html.push_str("</tbody></table></div></section>\n");
}

fn method(html: &mut String, report: &Report) {
    let params = &report.params;
    let _ = writeln!(
        html,
        "<section class=\"method\"><h2>How it was measured</h2><ul>\
         <li>Maps of 64-bit keys to 64-bit values with {} items; hasher: {}. Keys are computed \
         from their index, never read from an array.</li>\
         <li>Threads are pinned to cores, start together after a warm-up, and measure for {} ms \
         or until all items are inserted. Before a map is filled, memory for it is touched and \
         freed, so that a hypervisor which takes free pages back is not what is measured. All is \
         repeated {} times, the probe and the maps taking \
         turns; the median counts.</li>\
         <li>Every result is checked: a hit must return its key's value, a miss nothing, an \
         insert of a new key nothing. A measurement that fails is no row.</li>\
         <li>Shares: lookups, YCSB B and C are compared with random reads; unbatched inserts, \
         updates and mixes with read-modify-writes; batched inserts, and insert with delete, with \
         compare-and-swaps. Hot keys stay in caches, so Zipf workloads can exceed the limit.</li>\
         <li>Batches hold {} operations. A batched row is compared with the others' unbatched \
         rows, as they have no batches.</li></ul></section>",
        grouped(params.items),
        Escaped(&params.hasher),
        params.milliseconds,
        params.repetitions,
        params.batch
    );
}

fn all_rows(html: &mut String, report: &Report) {
    html.push_str(
        "<section><h2>All rows</h2><div class=\"scroll\"><table class=\"all\"><thead><tr>\
         <th>operation</th><th>threads</th><th>map</th><th>M/s</th><th>min–max</th><th>share</th>\
         <th>of</th><th>to best peer</th>",
    );
    let with_latency = report.rows.iter().any(|row| row.latencies().is_some());
    if with_latency {
        PERCENTILES.iter().for_each(|name| {
            let _ = write!(html, "<th>{name}</th>");
        });
    }
    let with_space = report.rows.iter().any(|row| row.bytes_per_item.is_some());
    if with_space {
        html.push_str("<th>bytes/item</th><th>load factor</th>");
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in &report.rows {
        let class = if is_own(row) { " class=\"own\"" } else { "" };
        let _ = write!(
            html,
            "<tr{class}><td>{}</td><td>{}</td><td>{}</td>",
            Escaped(&row.operation),
            row.threads,
            Escaped(&row.map)
        );
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let spread = row.mops_min.zip(row.mops_max);
        let mut cells = vec![
            row.mops.map(number),
            spread.map(|(min, max)| format!("{}–{}", number(min), number(max))),
            row.share.map(percent),
            row.share_of.map(|class| class.name().to_owned()),
            ratio_to_best_peer(report, row).map(|ratio| format!("{}×", number(ratio))),
        ];
        if with_latency {
            let latencies = row.latencies().map(|all| all.map(|ns| Some(nanoseconds(ns))));
            cells.extend(latencies.unwrap_or_default());
        }
        if with_space {
            cells.extend([row.bytes_per_item.map(number), row.load_factor.map(percent)]);
        }
        for cell in cells {
            let _ = write!(html, "<td>{}</td>", cell.unwrap_or_default());
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div></section>\n</main>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    /// Panics unless every tag is closed in order, and text holds no markup.
    fn assert_well_formed(html: &str) {
        const VOID: [&str; 3] = ["meta", "br", "!DOCTYPE"];
        let mut open: Vec<&str> = Vec::new();
        let mut rest = html;
        while let Some(start) = rest.find('<') {
            assert!(open.last() == Some(&"style") || !rest[..start].contains('>'), "{rest:.80}");
            let end = start + rest[start..].find('>').expect("a tag ends");
            let tag = &rest[start + 1..end];
            assert!(!tag.contains('<') && tag.matches('"').count().is_multiple_of(2), "{tag}");
            let name = tag.trim_end_matches('/').split_whitespace().next().expect("a name");
            if let Some(name) = name.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') && !VOID.contains(&name) {
                open.push(name);
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn the_page_is_well_formed_and_complete() {
        let report = example();
        let html = page(&report);
        assert_well_formed(&html);
        for row in &report.rows {
            let cells = format!(
                "<td>{}</td><td>{}</td><td>{}</td>",
                row.operation,
                row.threads,
                Escaped(&row.map)
            );
            assert!(html.contains(&cells), "{cells}");
        }
        assert!(html.contains("failed &lt;badly&gt;") && html.contains("4.40×"));
        assert!(
            html.contains("By &lt;size&gt;")
                && html.contains("<td>8</td><td>records</td><td>12.5</td><td></td>")
        );
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let html = page(&example());
        let namespace = "http://www.w3.org/2000/svg";
        assert!(!html.replace(namespace, "").contains("http"));
        assert!(!html.contains("<script") && !html.contains("<link") && !html.contains("url("));
    }

    #[test]
    fn a_report_without_rows_has_a_page() {
        let report = Report {
            rows: Vec::new(),
            limit: std::collections::BTreeMap::new(),
            figures: Vec::new(),
            failures: Vec::new(),
            ..example()
        };
        assert_well_formed(&page(&report));
    }
}
