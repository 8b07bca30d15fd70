//! A folder of pages about a run, which needs no network: a front page, a page for each map and for
//! each paper, and one about the method. Each chart has its command and its data beside it.

mod curves;
mod data;
mod front;
mod map;
mod narrow;
mod paper;
mod projected;
mod shared;

use super::html::STYLE;
use super::{Report, html as single};
use crate::papers;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use shared::{File, maps, page_of_map};

/// What the pages need besides the style of the single page.
const OWN_STYLE: &str = include_str!("folder.css");

/// Charts as files: run by the page itself, which fetches nothing.
const SCRIPT: &str = include_str!("charts.js");

/// Returns all files of the folder, except for the run itself.
pub(crate) fn files(report: &Report) -> Vec<File> {
    let mut files = vec![
        ("index.html".to_owned(), page(report, "Which map for me?", &front::page(report))),
        ("method.html".to_owned(), page(report, "Method and machine", &method(report))),
    ];
    for map in maps(report) {
        files.push((page_of_map(map), page(report, map, &map::page(report, map))));
    }
    for paper in papers::all() {
        let content = paper::page(report, &paper);
        files.push((format!("paper-{}.html", paper.id), page(report, &paper.title, &content)));
    }
    files.extend(data::files(report));
    files
}

/// Draws a page around its content.
fn page(report: &Report, title: &str, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " – Nunatak" }
                style { (PreEscaped(STYLE)) (PreEscaped(OWN_STYLE)) }
            }
            body.folder {
                header {
                    p.eyebrow { "Concurrent hash maps, measured" }
                    h1 { (title) }
                    nav {
                        a href="index.html" { "Which map" }
                        @for paper in papers::all() {
                            a href=(format!("paper-{}.html", paper.id)) {
                                (paper.title.split(':').next().unwrap_or_default())
                            }
                        }
                        a href="method.html" { "Method" }
                    }
                    details {
                        summary { "All maps" }
                        nav {
                            @for map in maps(report) { a href=(page_of_map(map)) { (map) } }
                        }
                    }
                }
                main { (content) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn method(report: &Report) -> Markup {
    html! {
        (single::facts(report))
        (single::method(report))
        (projected::method())
        section {
            h2 { "Commands" }
            p.lead { "The run is in " a href="data/run.json" { "data/run.json" } "." }
            @for command in &report.commands { pre { code { (command) } } }
        }
        (single::failures(report))
        (single::limits(report))
    }
}

#[cfg(test)]
mod tests {
    use super::shared::commands;
    use super::*;
    use crate::report::tests::example;
    use std::collections::BTreeSet;

    #[test]
    fn every_link_leads_to_a_file_and_nothing_is_fetched() {
        let report = example();
        let files = files(&report);
        let mut names: BTreeSet<String> = files.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(names.len(), files.len(), "two files have one name");
        names.insert("data/run.json".to_owned());
        for (name, content) in files.iter().filter(|(name, _)| name.ends_with(".html")) {
            // The script only: what it fetches would be of other pages, too.
            assert_eq!(content.matches("<script>").count(), 1);
            assert!(
                content.contains(SCRIPT) && !SCRIPT.contains("fetch") && !SCRIPT.contains("http")
            );
            let content = content.replace("http://www.w3.org/2000/svg", "").replace(SCRIPT, "");
            let fetches = ["http", "<script ", "<link", "url(", "src="];
            assert!(fetches.iter().all(|way| !content.contains(way)), "{name}");
            for link in content.split("href=\"").skip(1) {
                let target = link.split('"').next().unwrap_or_default();
                assert!(names.contains(target), "{name} links to {target}");
            }
        }
        for page in ["index.html", "method.html", "map-dlht.html", "paper-dlht.html"] {
            assert!(names.contains(page), "{page} is missing");
        }
    }

    #[test]
    fn every_chart_has_a_command_and_data() {
        for (name, content) in files(&example()) {
            let charts = content.matches("<svg").count();
            assert_eq!(charts, content.matches("class=\"source\"").count(), "{name}");
            assert_eq!(charts, content.matches("Data (CSV)").count(), "{name}");
        }
    }

    #[test]
    fn a_chart_has_the_commands_of_its_rows() {
        let mut report = example();
        report.commands.push("nunatak bench insert".into());
        for (row, command) in report.rows.iter_mut().zip([1, 0, 1]) {
            row.command = Some(command);
        }
        let rows: Vec<_> = report.rows.iter().take(4).collect();
        let lines = commands(&report, &rows);
        assert_eq!(lines, "nunatak bench insert\nnunatak bench get-hit");
        assert_eq!(commands(&report, &rows[3..]), "");
    }
}
