//! The survivors that were judged by reading: `survivors.tsv`, a line for each. Its columns are the
//! file, what is changed (the function, the change, the original text), why no test of the crate
//! fails (a column of the table in `docs/checks.md`), and a reason.

use crate::Work;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

pub const COLUMNS: [&str; 6] = ["speed", "sizes", "same", "crash", "threads", "harness"];

type Key = (String, String);

/// Returns the column of each judged survivor.
pub fn columns() -> BTreeMap<Key, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("survivors.tsv");
    let mut columns = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap_or_default().lines() {
        let [file, change, column, reason] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("not four columns: {line}");
        };
        assert!(COLUMNS.contains(&column) && !reason.is_empty(), "{line}");
        let before = columns.insert((file.to_owned(), change.to_owned()), column.to_owned());
        assert!(before.is_none(), "twice: {line}");
    }
    columns
}

impl Work {
    pub fn key(&self, id: u32) -> Key {
        let mutant = &self.mutants[id as usize - 1];
        (mutant.file.display().to_string(), mutant.description.clone())
    }

    /// Prints the survivors that nobody has judged, and the judged ones that are none any more.
    pub fn unexplained(&self) {
        let judged = columns();
        let mut ends = BTreeMap::new();
        for (id, result) in self.results() {
            ends.insert(self.key(id), result);
        }
        let all: BTreeSet<Key> = self.mutants.iter().map(|it| self.key(it.id)).collect();
        let mut count = 0;
        for ((file, change), result) in &ends {
            let is_judged = judged.contains_key(&(file.clone(), change.clone()));
            let what = match result.starts_with("killed") {
                true if is_judged => "killed",
                false if !is_judged => "unexplained",
                _ => continue,
            };
            println!("{what}\t{file}\t{change}\t{result}");
            count += 1;
        }
        for (file, change) in judged.keys() {
            if !all.contains(&(file.clone(), change.clone())) {
                println!("gone\t{file}\t{change}");
                count += 1;
            }
        }
        println!("{count} of {} results", ends.len());
    }
}
