//! The text of the workload `words`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The least length of a text; shorter ones are repeated.
const LENGTH: usize = 4 << 20;

/// How many levels of directories below the current one are searched for text files.
const DEPTH: usize = 6;

/// A text, and the counts of its words by a plain hash map.
#[derive(Debug)]
pub(crate) struct Text {
    content: String,
    /// Start and length of every word.
    words: Vec<(usize, usize)>,
    counts: HashMap<String, u64>,
}

impl Text {
    /// Reads the files and repeats them until the text is long enough.
    pub(crate) fn read(files: &[PathBuf]) -> io::Result<Self> {
        let mut content = String::new();
        for file in files {
            let bytes = fs::read(file).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", file.display()))
            })?;
            content.push_str(&String::from_utf8_lossy(&bytes));
            content.push('\n');
        }
        Ok(Self::new(content, LENGTH))
    }

    fn new(content: String, length: usize) -> Self {
        let times = length.div_ceil(content.len().max(1));
        let content = if times > 1 { content.repeat(times) } else { content };
        let start = content.as_ptr() as usize;
        let place = |word: &str| (word.as_ptr() as usize - start, word.len());
        let words: Vec<_> = split(&content).map(place).collect();
        let mut counts = HashMap::new();
        for word in split(&content) {
            if let Some(count) = counts.get_mut(word) {
                *count += 1;
            } else {
                counts.insert(word.to_owned(), 1);
            }
        }
        Self { content, words, counts }
    }

    /// Returns all words in their order.
    pub(crate) fn words(&self) -> Vec<&str> {
        let word = |&(start, length): &(usize, usize)| &self.content[start..start + length];
        self.words.iter().map(word).collect()
    }

    /// Returns how often each word occurs.
    pub(crate) fn counts(&self) -> &HashMap<String, u64> {
        &self.counts
    }
}

/// Splits the text at characters that are neither letters nor digits.
fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Finds the text files in and below the directory: Markdown, Rust, and licenses. Hidden
/// directories and build output are left out.
pub(crate) fn find_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(directory, DEPTH, &mut found);
    found.sort();
    found
}

fn collect(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    // A directory that can't be read has no text.
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            let skipped = name.starts_with('.') || name.starts_with("target");
            if !skipped && depth > 0 {
                collect(&path, depth - 1, found);
            }
        } else if kind.is_file() {
            let text = matches!(path.extension().and_then(|e| e.to_str()), Some("md" | "rs"));
            if text || name.starts_with("LICENSE") {
                found.push(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::{MapName, with_target};
    use crate::workloads::words::count;
    use clap::ValueEnum as _;

    #[test]
    fn words_are_split_at_what_is_no_letter_or_digit() {
        let text = Text::new("One two, zwei-drei\n„zwei“ x1 ".into(), 0);
        assert_eq!(text.words(), ["One", "two", "zwei", "drei", "zwei", "x1"]);
        assert_eq!(text.counts()["zwei"], 2);
        assert_eq!(text.counts().len(), 5);
    }

    #[test]
    fn short_texts_are_repeated() {
        let text = Text::new("a b ".into(), 10);
        assert_eq!(text.counts()["a"], 3);
        assert!(Text::new(String::new(), 10).words().is_empty());
    }

    #[test]
    fn every_map_counts_like_a_plain_one() {
        let text = Text::new("the quick brown fox jumps over the lazy dog. ".into(), 20_000);
        for &name in MapName::value_variants() {
            for threads in [1, 3] {
                with_target!(name, Map, Words => assert!(count::<Words>(&text, threads).is_ok()));
            }
        }
    }

    #[test]
    fn the_sources_are_found() {
        let files = find_files(Path::new(env!("CARGO_MANIFEST_DIR")));
        assert!(files.iter().any(|file| file.ends_with("src/text.rs")));
    }
}
