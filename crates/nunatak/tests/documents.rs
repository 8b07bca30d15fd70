//! Documents only name files that exist.

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
    let mut documents: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name)).into();
    let pages = std::fs::read_dir(root.join("docs")).expect("the documents");
    documents.extend(pages.map(|page| page.expect("a page").path()));
    let (mut named, mut missing) = (0, Vec::new());
    for document in documents {
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
