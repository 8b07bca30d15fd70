//! Why a command failed, and the directory that a file's name is in.

use nunatak::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    Map(PathBuf, Error),
    /// Another process has the file open, and makes no snapshot of it.
    Unanswered(PathBuf),
    /// There is no file to store in.
    Missing(PathBuf),
    /// A server has not ended well, and its log is beside the file.
    HasLog(PathBuf),
    Io(PathBuf, io::Error),
    Line {
        path: PathBuf,
        line: u64,
        what: &'static str,
    },
    /// A failure after so many pairs were stored.
    After {
        stored: usize,
        failure: Box<Failure>,
    },
    Usage(String),
    Test(String),
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Map(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Missing(path) => write!(
                f,
                "{0}: there is no such file; `nunatak file create {0}` makes one, or `put` with `--map`",
                path.display()
            ),
            Self::HasLog(path) => write!(
                f,
                "{0}: the log of a server is beside it ({0}.log), with changes that the map may lack. Start \
                 `nunatak-server --file {0}` once, and end it; then the file can be changed",
                path.display()
            ),
            Self::Unanswered(path) => write!(
                f,
                "{}: in use by a process that makes no snapshot for this one. Let it open the file with \
                 the option `answer_readers`, as the same user; or let it call `backup`",
                path.display()
            ),
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Line { path, line, what } => write!(f, "{}:{line}: {what}", path.display()),
            Self::After { stored, failure } => {
                write!(f, "{failure}; the {stored} pairs before were stored")
            }
            Self::Usage(what) | Self::Test(what) => f.write_str(what),
        }
    }
}

impl Failure {
    /// The same failure where nothing that was stored is kept.
    pub(super) fn of_nothing(self) -> Self {
        match self {
            Self::After { failure, .. } => *failure,
            other => other,
        }
    }
}

/// The exit code of a command, or why it failed.
pub(super) type Done = Result<ExitCode, Failure>;

/// Adds the path of the file to an error.
pub(super) fn at<T>(path: &Path, result: Result<T, Error>) -> Result<T, Failure> {
    result.map_err(|error| Failure::Map(path.to_owned(), error))
}

/// Makes the name of a new file durable.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    std::fs::File::open(directory_of(path))?.sync_all()
}

/// Returns the directory of a file.
pub(super) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
