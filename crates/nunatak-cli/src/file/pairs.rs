//! Files of pairs, as text or as bytes.

use super::datum::Datum;
use super::dump;
use super::failure::{Failure, directory_of, sync_directory};
use super::maps::Kind;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use nunatak::durable::FileKind;
use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The format of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Lines of a key, a tab and a value. Empty lines and lines that begin with # are skipped.
    Tsv,
    /// Bytes with the kind of the map, the number of pairs, and checksums: a dump that is cut,
    /// damaged or of another kind is refused.
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
    line: u64,
    text: String,
    count: u64,
    /// Of a binary input.
    dump: Option<(dump::Reader, dump::Header)>,
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
        let mut input = input;
        let dump = match format {
            Format::Tsv => None,
            Format::Binary => {
                let opened = dump::Reader::open(&mut input);
                Some(opened.map_err(|error| Failure::Io(path.clone(), error))?)
            }
        };
        Ok(Self { path, input, line: 0, text: String::new(), count: 0, dump, bar })
    }

    /// Returns what the beginning of a binary input tells.
    pub(super) fn header(&self) -> Option<dump::Header> {
        self.dump.as_ref().map(|&(_, header)| header)
    }

    /// Checks that the input may hold pairs of this type.
    pub(super) fn check<D: Datum>(&self) -> Result<(), Failure> {
        let is_other = |header: &dump::Header| header.has_bytes != D::IS_BYTES;
        match self.header().filter(is_other) {
            None => Ok(()),
            Some(_) => Err(Failure::Test(format!(
                "{}: the dump does not hold {} keys and values",
                self.path.display(),
                D::NAME
            ))),
        }
    }

    /// Reads the next pair; `None` at the end.
    pub(super) fn next<D: Datum>(&mut self) -> Result<Option<(D, D)>, Failure> {
        let next = match &mut self.dump {
            None => self.next_line()?,
            Some((dump, _)) => {
                self.bar.inc(16);
                let next = dump.next(&mut self.input);
                next.map_err(|error| Failure::Io(self.path.clone(), error))?
            }
        };
        self.count += u64::from(next.is_some());
        Ok(next)
    }

    /// Returns how many pairs were read.
    pub(super) fn count(&self) -> u64 {
        self.count
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
}

/// Writes pairs to standard output, or to a file that appears when it is complete.
pub(super) fn write<D: Datum>(
    path: Option<&Path>,
    (format, kind): (Format, Kind),
    count: u64,
    pairs: impl Iterator<Item = (D, D)>,
) -> Result<(), Failure> {
    match path.filter(|path| *path != Path::new("-")) {
        None => write_to(io::stdout().lock(), (format, kind), count, pairs).map_err(to_stdout),
        Some(path) => {
            let failed = |error| Failure::Io(path.to_owned(), error);
            if FileKind::of(path).is_ok() {
                let what = "the output is a map; a dump does not take its place";
                return Err(Failure::Test(format!("{}: {what}", path.display())));
            }
            let file = tempfile::Builder::new()
                .permissions(Permissions::from_mode(0o644))
                .tempfile_in(directory_of(path))
                .map_err(failed)?;
            write_to(&file, (format, kind), count, pairs).map_err(failed)?;
            file.as_file().sync_all().map_err(failed)?;
            file.persist(path).map_err(|error| failed(error.error))?;
            sync_directory(path).map_err(failed)
        }
    }
}

fn write_to<D: Datum>(
    out: impl Write,
    (format, kind): (Format, Kind),
    count: u64,
    pairs: impl Iterator<Item = (D, D)>,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let bar = progress(count);
    match format {
        Format::Binary => {
            dump::write(&mut out, dump::Header::of::<D>(kind), pairs, |n| bar.set_position(n))?;
        }
        Format::Tsv => {
            for (number, (key, value)) in pairs.enumerate() {
                writeln!(out, "{}\t{}", key.text(), value.text())?;
                if number % 65536 == 0 {
                    bar.set_position(number as u64);
                }
            }
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
            write(Some(&path), (format, Kind::Pea), 3, all.into_iter()).unwrap();
            assert_eq!(read(&std::fs::read(&path).unwrap(), format).unwrap(), all);
        }
        assert!(read(&[1; 40], Format::Binary).is_err());
    }
}
