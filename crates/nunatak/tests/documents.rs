//! Documents only name files that exist, and are short.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files_under(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        if path.is_dir() && !["target", ".git"].contains(&name) {
            files_under(&path, found);
        }
        // With a slash in front, so that ends of paths are compared by whole names.
        found.push(format!("/{}", path.display()));
    }
}

/// Returns the names in backticks that look like source files or their folders.
fn names_of_files(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|name| {
        let is_plain = name.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-./".contains(&byte)
        });
        let is_file = [".rs", ".md", ".toml", ".css"].iter().any(|end| name.ends_with(end));
        let is_folder = name.contains('/') && name.ends_with('/');
        is_plain && name.len() > 4 && (is_file || is_folder)
    })
}

fn documents() -> Vec<PathBuf> {
    let root = root();
    let pages = std::fs::read_dir(root.join("docs")).expect("the documents");
    let pages = pages.map(|page| page.expect("a page").path());
    let documents = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name));
    documents
        .into_iter()
        .chain(pages.filter(|page| page.extension().is_some_and(|it| it == "md")))
        .collect()
}

/// Returns the lines of a document that are no code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        is_code ^= line.starts_with("```");
        !is_code
    })
}

/// Returns the anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    let anchor = |heading: &str| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The project's address on the web, if `scripts/address.sh` has set one.
fn address() -> Option<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let line = manifest.lines().find(|line| line.starts_with("repository = "))?;
    line.split('"').nth(1).map(str::to_string)
}

#[test]
fn links_lead_to_files_and_headings() {
    let (mut followed, mut lost) = (0, Vec::new());
    let own =
        address().map(|address| ["blob", "raw"].map(|kind| format!("{address}/{kind}/main/")));
    for document in documents() {
        let text = std::fs::read_to_string(&document).expect("a document");
        let links = prose(&text).flat_map(|line| line.split("](").skip(1));
        for link in links.filter_map(|rest| rest.split(')').next()) {
            let inside = own.iter().flatten().find_map(|start| link.strip_prefix(start.as_str()));
            if inside.is_none() && link.contains(':') {
                continue;
            }
            followed += 1;
            let rest = inside.unwrap_or(link);
            let (path, anchor) = rest.split_once('#').unwrap_or((rest, ""));
            let target = match (inside, path) {
                (Some(_), _) => root().join(path),
                (None, "") => document.clone(),
                (None, _) => document.parent().expect("a folder").join(path),
            };
            let leads = match anchor {
                "" => target.exists(),
                _ => std::fs::read_to_string(&target)
                    .is_ok_and(|text| anchors(&text).iter().any(|it| it == anchor)),
            };
            if !leads {
                lost.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(followed > 50, "only {followed} links were found");
    assert!(lost.is_empty(), "{lost:#?}");
}

/// What is read from the beginning to the end. (Measurements, and the server's commands, are looked up.)
#[test]
fn pages_are_short() {
    for document in documents() {
        if ["measurements.md", "serve.md"].iter().any(|name| document.ends_with(name)) {
            continue;
        }
        let text = std::fs::read_to_string(&document).expect("a document");
        let most = if document.ends_with("README.md") { 149 } else { 250 };
        assert!(text.lines().count() <= most, "{} is too long", document.display());
    }
}

#[test]
fn files_that_documents_name_exist() {
    let root = root();
    let mut files = vec!["/fuzz".to_string()];
    files_under(&root.join("crates"), &mut files);
    files_under(&root.join("docs"), &mut files);
    files_under(&root.join("fuzz"), &mut files);
    files_under(&root.join(".ci"), &mut files);
    files.extend(
        [
            "README.md",
            "ARCHITECTURE.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            "Cargo.toml",
            "deny.toml",
        ]
        .map(|name| format!("/{name}")),
    );
    let (mut named, mut missing) = (0, Vec::new());
    for document in documents() {
        let text = std::fs::read_to_string(&document).expect("a document");
        for name in names_of_files(&text) {
            named += 1;
            let end = format!("/{}", name.trim_end_matches('/'));
            if !files.iter().any(|file| file.ends_with(&end)) {
                missing.push(format!("{} names {name}", document.display()));
            }
        }
    }
    assert!(named > 100, "only {named} names were found");
    assert!(missing.is_empty(), "{missing:#?}");
}
