//! The report as tables for the terminal.

use super::compare::{distinct, ratio_to_best_peer};
use super::format::{grouped, nanoseconds, number, percent};
use super::{PERCENTILES, Report, Row};
use crate::workloads::AccessClass;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use std::fmt::Write as _;

/// Formats all tables, one below the other.
pub(crate) fn tables(report: &Report) -> String {
    let mut text = String::new();
    let machine = &report.machine;
    let params = &report.params;
    // Writing to a string can't fail.
    let _ = writeln!(
        text,
        "{} · {} cores · {} items · {} repetitions · batches of {}",
        machine.cpu,
        machine.cores,
        grouped(params.items),
        params.repetitions,
        params.batch
    );
    for files in &params.files {
        let _ = writeln!(text, "maps in files, {files}");
    }
    let with =
        |has: fn(&Row) -> bool| report.rows.iter().filter(|row| has(row)).collect::<Vec<_>>();
    let throughput = with(|row| row.mops.is_some() && row.filled().is_none());
    if !throughput.is_empty() {
        let _ = writeln!(
            text,
            "\nThroughput: millions of operations a second (share of the limit), min–max\n{}",
            throughput_table(report, &throughput)
        );
        if throughput.iter().any(|row| row.unsteady().is_some()) {
            text.push_str(
                "⚠: the repetitions differ by a factor of two or more; the row says little\n",
            );
        }
    }
    let fill = with(|row| row.filled().is_some());
    if !fill.is_empty() {
        let _ = writeln!(
            text,
            "\nSpeed against space: millions of inserts a second (share of the memory that is items)\n{}",
            fill_table(&fill)
        );
    }
    let levels = with(|row| row.levels.is_some());
    if !levels.is_empty() {
        let _ = writeln!(text, "\nShares of the items by level\n{}", levels_table(&levels));
    }
    let times = with(|row| row.milliseconds.is_some());
    if !times.is_empty() {
        let _ = writeln!(
            text,
            "\nOpening of a map that was closed, by how many items it has\n{}",
            times_table(&times)
        );
    }
    let latency = with(|row| row.latencies().is_some());
    if !latency.is_empty() {
        let _ = writeln!(
            text,
            "\nLatency of single operations while the map grows from empty\n{}",
            latency_table(&latency)
        );
    }
    let space = with(|row| row.bytes_per_item.is_some() && row.filled().is_none());
    if !space.is_empty() {
        let _ = writeln!(text, "\nSpace for items of 16 bytes\n{}", space_table(&space));
    }
    report.figures.iter().for_each(|figure| text.push_str(&figure.text()));
    if !report.limit.is_empty() {
        let _ = writeln!(
            text,
            "\nLimit of memory: millions of random accesses a second, in {} MiB\n{}",
            params.probe_mib,
            limit_table(report)
        );
    }
    for failure in &report.failures {
        let _ = writeln!(text, "\nFAILED: {failure}");
    }
    text
}

/// Formats the throughput of the first repetition on a number of threads, a line for each map; `None` if
/// nothing was measured that has one.
///
/// Batches and variants are left out: with them the table would be wider than terminals are.
pub(crate) fn early(rows: &[Row], threads: usize) -> Option<Table> {
    let is_shown =
        |row: &&Row| row.threads == threads && row.mops.is_some() && !row.operation.contains('/');
    let shown: Vec<&Row> = rows.iter().filter(is_shown).collect();
    let operations = distinct(shown.iter().copied(), |row| row.operation.as_str());
    if operations.is_empty() {
        return None;
    }
    let on = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    let names = operations.iter().map(|&name| name.to_owned());
    let mut table = table(std::iter::once(on).chain(names));
    for map in distinct(shown.iter().copied(), |row| row.map.as_str()) {
        let mut cells = vec![Cell::new(map)];
        for operation in &operations {
            let row = shown.iter().find(|row| row.map == map && row.operation == *operation);
            cells.push(right(row.and_then(|row| row.mops).map_or(String::new(), number)));
        }
        table.add_row(cells);
    }
    Some(table)
}

pub(crate) fn table<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.into_iter().map(|name| Cell::new(name.into())));
    table
}

pub(crate) fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn throughput_table(report: &Report, rows: &[&Row]) -> Table {
    let maps = distinct(rows.iter().copied(), |row| row.map.as_str());
    let names = ["operation", "threads"].into_iter().chain(maps.iter().copied());
    let mut table = table(names.chain(["× best peer", "limit"]));
    for (operation, threads) in distinct(rows.iter().copied(), |row| (&row.operation, row.threads))
    {
        let of_line = |row: &&&Row| &row.operation == operation && row.threads == threads;
        let line: Vec<&Row> = rows.iter().filter(of_line).copied().collect();
        let mut cells = vec![Cell::new(operation), right(threads)];
        for map in &maps {
            let row = line.iter().find(|row| row.map == *map);
            cells.push(right(row.map_or(String::new(), |row| throughput(row))));
        }
        let ratios = line.iter().filter_map(|row| ratio_to_best_peer(report, row));
        let ratio = ratios.reduce(f64::max);
        cells.push(right(ratio.map_or(String::new(), |r| format!("{}×", number(r)))));
        let class = line.iter().find_map(|row| row.share_of);
        let limit = class.zip(report.limit.get(&threads));
        cells.push(right(limit.map_or(String::new(), |(class, limit)| {
            format!("{} {}", number(limit.of(class)), class.name())
        })));
        table.add_row(cells);
    }
    table
}

fn throughput(row: &Row) -> String {
    let mut text = row.mops.map_or(String::new(), number);
    if let Some(share) = row.share {
        // Writing to a string can't fail.
        let _ = write!(text, " ({:.0}%)", share * 100.0);
    }
    if let Some((min, max)) = row.mops_min.zip(row.mops_max).filter(|(min, max)| min < max) {
        let _ = write!(text, "\n{}–{}", number(min), number(max));
    }
    if row.unsteady().is_some() {
        text.push_str(" ⚠");
    }
    text
}

fn fill_table(rows: &[&Row]) -> Table {
    let maps = distinct(rows.iter().copied(), |row| row.map.as_str());
    let mut table = table(["filled", "threads"].into_iter().chain(maps.iter().copied()));
    for (filled, threads) in distinct(rows.iter().copied(), |row| (row.filled(), row.threads)) {
        let mut cells = vec![right(format!("{} %", filled.unwrap_or_default())), right(threads)];
        for map in &maps {
            let of_cell =
                |row: &&&Row| row.map == *map && row.filled() == filled && row.threads == threads;
            let text = rows.iter().find(of_cell).map(|row| {
                let efficiency = row.space_efficiency().unwrap_or_default();
                format!("{} ({:.0}%)", number(row.mops.unwrap_or_default()), 100.0 * efficiency)
            });
            cells.push(right(text.unwrap_or_default()));
        }
        table.add_row(cells);
    }
    table
}

fn levels_table(rows: &[&Row]) -> Table {
    let mut table = table(["operation", "threads", "map", "level 1", "level 2", "level 3"]);
    for row in rows {
        let mut cells = vec![Cell::new(&row.operation), right(row.threads), Cell::new(&row.map)];
        cells.extend(row.levels.into_iter().flatten().map(|share| right(percent(share))));
        table.add_row(cells);
    }
    table
}

fn times_table(rows: &[&Row]) -> Table {
    let mut table = table(["operation", "threads", "map", "time", "items/s"]);
    for row in rows {
        let ms = row.milliseconds.unwrap_or_default();
        let items = row.operation.rsplit('/').next().and_then(|items| items.parse::<f64>().ok());
        let speed = items.map_or(String::new(), |items| format!("{} M", number(items / ms / 1e3)));
        table.add_row([
            Cell::new(&row.operation),
            right(row.threads),
            Cell::new(&row.map),
            right(nanoseconds(ms * 1e6)),
            right(speed),
        ]);
    }
    table
}

fn latency_table(rows: &[&Row]) -> Table {
    let mut table = table(["operation", "threads", "map"].into_iter().chain(PERCENTILES));
    for row in rows {
        let mut cells = vec![Cell::new(&row.operation), right(row.threads), Cell::new(&row.map)];
        cells.extend(row.latencies().into_iter().flatten().map(|ns| right(nanoseconds(ns))));
        table.add_row(cells);
    }
    table
}

fn space_table(rows: &[&Row]) -> Table {
    let mut table = table(["operation", "map", "bytes/item", "load factor"]);
    for row in rows {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        table.add_row([
            Cell::new(&row.operation),
            Cell::new(&row.map),
            right(row.bytes_per_item.map_or(String::new(), number)),
            right(row.load_factor.map_or(String::new(), percent)),
        ]);
    }
    table
}

fn limit_table(report: &Report) -> Table {
    let names = AccessClass::ALL.map(AccessClass::description);
    let header = ["threads"].into_iter().chain(names);
    let mut table = table(header.chain([
        "reads, to the second level",
        "reads, no prefetch",
        "pairs",
        "pairs, no prefetch",
        "dependent chase",
        "best distance",
    ]));
    for (threads, limit) in &report.limit {
        let mut cells = vec![right(threads)];
        cells.extend(AccessClass::ALL.map(|class| right(number(limit.of(class)))));
        cells.push(right(number(limit.second_level_reads_mops)));
        cells.push(right(number(limit.unprefetched_reads_mops)));
        cells.push(right(number(limit.pairs_mops)));
        cells.push(right(number(limit.unprefetched_pairs_mops)));
        cells.push(right(number(limit.chase_mops)));
        cells.push(right(limit.best_distance));
        table.add_row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn the_tables_hold_all_rows() {
        let report = example();
        let text = tables(&report);
        for row in &report.rows {
            let operation = row.filled().map_or(row.operation.clone(), |at| format!("{at} %"));
            assert!(text.contains(&row.map) && text.contains(&operation), "{text}");
        }
        assert!(
            text.contains("12.0 (95%)") && text.contains("91.20 %") && text.contains("7.0e-5 %")
        );
        assert!(text.contains("4.40×") && text.contains("FAILED"), "{text}");
    }

    #[test]
    fn an_early_table_has_a_line_for_each_map() {
        let rows = example().rows;
        let text = early(&rows, 2).expect("gets were measured").to_string();
        assert!(text.contains("2 threads") && text.contains("get-hit"), "{text}");
        assert!(text.contains("100") && text.contains("41.0"), "{text}");
        assert!(!text.contains("batch") && !text.contains("latency"), "{text}");
        assert!(early(&rows, 3).is_none());
    }
}
