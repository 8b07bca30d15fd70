//! Imports under `src/table` go one way: a table uses `shared`, never another table, and `shared`
//! names no table.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of the tables; their types begin with the same names.
const TABLES: [&str; 4] = ["dlht", "iceberg", "pea", "turbo"];

/// Returns the Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(sources(&path)),
            false => files.extend(Some(path).filter(|path| path.extension().unwrap() == "rs")),
        }
    }
    files
}

/// Returns the identifiers in the code of a line, and those of links between modules in its
/// comment. Other words of a comment are prose, which may name any table.
fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    let (code, comment) = line.split_once("//").unwrap_or((line, ""));
    let links = comment.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let is_internal =
        |link: &&str| ["super::", "crate::table::"].iter().any(|at| link.starts_with(at));
    let is_no_part = |letter: char| !letter.is_alphanumeric() && letter != '_';
    core::iter::once(code).chain(links.filter(is_internal)).flat_map(move |it| it.split(is_no_part))
}

/// Returns the table that an identifier names: its module, or a type that it exports.
fn table_of(identifier: &str) -> Option<&'static str> {
    let names_type = |table: &&str| {
        let begins = identifier.get(..table.len()).is_some_and(|it| it.eq_ignore_ascii_case(table));
        let rest = identifier.get(table.len()..).unwrap_or("");
        let is_new_word = rest.chars().next().is_none_or(char::is_uppercase);
        begins && is_new_word && identifier.starts_with(char::is_uppercase)
    };
    TABLES.into_iter().find(|table| identifier == *table || names_type(table))
}

/// Returns the forbidden names in a file, each with the number of its line.
fn forbidden(text: &str, own: Option<&str>) -> Vec<String> {
    let of_line = |(number, line): (usize, &str)| {
        let others =
            identifiers(line).filter(|word| table_of(word).is_some_and(|table| own != Some(table)));
        others.map(|word| format!("{number}: {word}")).collect::<Vec<_>>()
    };
    (1..).zip(text.lines()).flat_map(of_line).collect()
}

fn check(folder: &str, own: Option<&str>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/table").join(folder);
    let files = sources(&root);
    assert!(files.len() > 5, "{folder} has sources");
    for file in files {
        let found = forbidden(&fs::read_to_string(&file).unwrap(), own);
        assert!(found.is_empty(), "{} names another table: {found:?}", file.display());
    }
}

#[test]
fn no_table_imports_another() {
    TABLES.into_iter().for_each(|table| check(table, Some(table)));
}

#[test]
fn shared_code_names_no_table() {
    check("shared", None);
}

/// The test finds forbidden imports.
#[test]
fn imports_of_other_tables_are_seen() {
    for import in [
        "use crate::table::pea::Table;",
        "use super::super::iceberg::Recovery;",
        "use crate::table::{Change, Turbo};",
        "use crate::table::{shared::cut, pea::{Config, Table}};",
        "    crate::table::turbo::Table::new()",
        "//! See [buckets](super::pea).",
        "/// See [buckets](crate::table::pea::Table).",
        "let stats: PeaStats = stats();",
    ] {
        assert_eq!(forbidden(import, Some("dlht")).len(), 1, "{import}");
        assert!(!forbidden(import, None).is_empty(), "{import}");
    }
    for harmless in ["// As in IcebergHT.", "use crate::table::shared::cut::Cut;", "repeat(peak)"] {
        assert_eq!(forbidden(harmless, None), [""; 0], "{harmless}");
    }
    assert_eq!(forbidden("use crate::table::dlht::Table;", Some("dlht")), [""; 0]);
}
