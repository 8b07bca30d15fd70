//! Files of pairs, as text or as bytes.

use super::Failure;
use super::datum::Datum;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The format of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Lines of a key, a tab and a value. Empty lines and lines that begin with # are skipped.
    Tsv,
    /// Key and value as bytes: numbers as eight, the lowest first; byte strings after their lengths
    /// of four bytes each.
    Binary,
}

/// Returns the name of a standard stream in errors.
fn standard(input: bool) -> PathBuf {
    PathBuf::from(if input { "standard input" } else { "standard output" })
}

pub(super) fn to_stdout(error: io::Error) -> Failure {
    Failure::Io(standard(false), error)
}

/// The pairs of an input.
pub(super) struct Pairs {
    path: PathBuf,
    input: Box<dyn BufRead>,
    format: Format,
    line: u64,
    text: String,
    bar: ProgressBar,
}

impl Pairs {
    /// Opens a file, or standard input.
    pub(super) fn open(path: Option<&Path>, format: Format) -> Result<Self, Failure> {
        let path = path.filter(|path| *path != Path::new("-"));
        let (input, bar): (Box<dyn BufRead>, _) = match path {
            None => (Box::new(io::stdin().lock()), ProgressBar::new_spinner()),
            Some(path) => {
                let failed = |error| Failure::Io(path.to_owned(), error);
                let file = File::open(path).map_err(failed)?;
                let bytes = file.metadata().map_err(failed)?.len();
                (Box::new(BufReader::with_capacity(1 << 20, file)), progress(bytes))
            }
        };
        let path = path.map_or_else(|| standard(true), Path::to_owned);
        Ok(Self { path, input, format, line: 0, text: String::new(), bar })
    }

    /// Reads the next pair; `None` at the end.
    pub(super) fn next<D: Datum>(&mut self) -> Result<Option<(D, D)>, Failure> {
        match self.format {
            Format::Tsv => self.next_line(),
            Format::Binary => self.next_bytes(),
        }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn next_line<D: Datum>(&mut self) -> Result<Option<(D, D)>, Failure> {
        loop {
            self.text.clear();
            let read = self.input.read_line(&mut self.text);
            let bytes = read.map_err(|error| Failure::Io(self.path.clone(), error))?;
            if bytes == 0 {
                return Ok(None);
            }
            self.line += 1;
            self.bar.inc(bytes as u64);
            let text = self.text.trim_end_matches(['\n', '\r']);
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let wrong = |what| Failure::Line { path: self.path.clone(), line: self.line, what };
            let (key, value) =
                text.split_once('\t').ok_or(wrong("a line is a key, a tab and a value"))?;
            let pair = D::parse(key).zip(D::parse(value));
            return pair.map(Some).ok_or(wrong(D::EXPECTED));
        }
    }

    fn next_bytes<D: Datum>(&mut self) -> Result<Option<(D, D)>, Failure> {
        self.line += 1;
        self.bar.inc(16);
        let torn = || Failure::Line {
            path: self.path.clone(),
            line: self.line,
            what: "the last pair is not whole (the number is that of the pair)",
        };
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => torn(),
            _ => Failure::Io(self.path.clone(), error),
        };
        let Some(key) = D::read(&mut self.input).map_err(failed)? else { return Ok(None) };
        let value = D::read(&mut self.input).map_err(failed)?;
        Ok(Some((key, value.ok_or_else(torn)?)))
    }
}

/// Writes pairs to standard output, or to a file that appears when it is complete.
pub(super) fn write<D: Datum>(
    path: Option<&Path>,
    format: Format,
    count: u64,
    pairs: impl Iterator<Item = (D, D)>,
) -> Result<(), Failure> {
    match path.filter(|path| *path != Path::new("-")) {
        None => write_to(io::stdout().lock(), format, count, pairs).map_err(to_stdout),
        Some(path) => {
            let mut temporary = path.as_os_str().to_owned();
            temporary.push(".new");
            let temporary = PathBuf::from(temporary);
            let written = File::create(&temporary).and_then(|file| {
                write_to(&file, format, count, pairs)?;
                file.sync_all()?;
                std::fs::rename(&temporary, path)
            });
            written.map_err(|error| {
                let _ = std::fs::remove_file(&temporary);
                Failure::Io(path.to_owned(), error)
            })
        }
    }
}

fn write_to<D: Datum>(
    out: impl Write,
    format: Format,
    count: u64,
    pairs: impl Iterator<Item = (D, D)>,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let bar = progress(count);
    for (number, (key, value)) in pairs.enumerate() {
        match format {
            Format::Tsv => writeln!(out, "{}\t{}", key.text(), value.text())?,
            Format::Binary => {
                key.write(&mut out)?;
                value.write(&mut out)?;
            }
        }
        if number % 65536 == 0 {
            bar.set_position(number as u64);
        }
    }
    bar.finish_and_clear();
    out.flush()
}

fn progress(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent}% {eta}");
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(contents: &[u8], format: Format) -> Result<Vec<(u64, u64)>, Failure> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pairs");
        std::fs::write(&path, contents).unwrap();
        let mut pairs = Pairs::open(Some(&path), format)?;
        let mut all = Vec::new();
        while let Some(pair) = pairs.next()? {
            all.push(pair);
        }
        Ok(all)
    }

    #[test]
    fn text_is_read_with_its_line_numbers() {
        let text = b"1\t10\n\n# a comment\n0xff\t18446744073709551615\r\n3\t4";
        assert_eq!(read(text, Format::Tsv).unwrap(), [(1, 10), (255, u64::MAX), (3, 4)]);
        for (wrong, line) in [("1\t2\n3", 2), ("x\t1", 1), ("1\t\n", 1), ("1\t1\t1", 1)] {
            match read(wrong.as_bytes(), Format::Tsv) {
                Err(Failure::Line { line: found, .. }) => assert_eq!(found, line),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pairs");
        let all = [(1_u64, 2_u64), (u64::MAX, 0), (0, u64::MAX)];
        for format in [Format::Tsv, Format::Binary] {
            write(Some(&path), format, 3, all.into_iter()).unwrap();
            assert_eq!(read(&std::fs::read(&path).unwrap(), format).unwrap(), all);
        }
        assert!(read(&[1; 40], Format::Binary).is_err());
    }
}
