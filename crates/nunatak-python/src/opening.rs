//! Tables by their names, and maps in files by the options that Python has for them.

use crate::failure::exception;
use crate::handle::{File, Handle};
use crate::kind::Kind;
use crate::map::Store;
use core::time::Duration;
use nunatak::durable::{Durability, Options};
use nunatak_dynamic::{MultiFile, Opening, Table, open_blobs, open_multi, open_words};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::path::PathBuf;

pub(crate) fn table_named(name: &str) -> PyResult<Table> {
    name.parse().map_err(|error: String| PyValueError::new_err(error))
}

/// A file as Python names it: path, mode, durability, interval, capacity, and whether readers are
/// answered.
#[derive(FromPyObject)]
pub(crate) struct Wanted(PathBuf, String, String, Option<f64>, usize, bool);

fn durability(name: &str, interval: Option<f64>) -> PyResult<Durability> {
    match (name, interval) {
        ("interval", Some(seconds)) if seconds.is_finite() && seconds > 0.0 => {
            Duration::try_from_secs_f64(seconds).map(Durability::Interval).map_err(|_| {
                PyValueError::new_err("the interval must be a number of seconds above zero")
            })
        }
        ("interval", _) => {
            Err(PyValueError::new_err("the interval must be a number of seconds above zero"))
        }
        (_, Some(_)) => Err(PyValueError::new_err("an interval goes with durability=\"interval\"")),
        ("process", None) => Ok(Durability::Process),
        ("synced", None) => Ok(Durability::Synced),
        ("persistent_memory", None) => Ok(Durability::PersistentMemory),
        _ => Err(PyValueError::new_err(format!(
            "there is no durability {name:?}: choose process, interval, synced or persistent_memory"
        ))),
    }
}

impl Wanted {
    pub(crate) fn path(&self) -> PathBuf {
        self.0.clone()
    }

    fn how(&self) -> PyResult<(Options, Opening)> {
        let Self(_, mode, level, interval, capacity, answers) = self;
        let (opening, read_only) = match mode.as_str() {
            "c" => (Opening::OrCreate, false),
            "w" => (Opening::Existing, false),
            "r" => (Opening::Existing, true),
            "beside" => (Opening::Beside, true),
            _ => {
                return Err(PyValueError::new_err(
                    "the mode must be \"c\", \"w\", \"r\" or \"beside\"",
                ));
            }
        };
        let options = Options::new().durability(durability(level, *interval)?).capacity(*capacity);
        Ok((options.read_only(read_only).answer_readers(*answers && !read_only), opening))
    }

    /// Opens the file for keys and values of these kinds.
    pub(crate) fn open(
        &self,
        py: Python<'_>,
        (key, value): (&Kind, &Kind),
        table: Option<Table>,
    ) -> PyResult<Store> {
        if *key == Kind::Object || *value == Kind::Object {
            return Err(PyTypeError::new_err(
                "a file can't hold objects: choose numbers, str or bytes",
            ));
        }
        let (options, opening) = self.how()?;
        let is_words = key.is_word() && value.is_word();
        let store = py.detach(|| match is_words {
            true => open_words(&self.0, table, &options, opening)
                .map(|map| Store::Words(Handle::File(File::new(map)))),
            false => open_blobs(&self.0, table, &options, opening)
                .map(|map| Store::Blobs(Handle::File(File::new(map)))),
        });
        store.map_err(exception)
    }

    /// Opens a file with many values for a key.
    pub(crate) fn open_multi(&self, py: Python<'_>) -> PyResult<Box<dyn MultiFile>> {
        let (options, opening) = self.how()?;
        py.detach(|| open_multi(&self.0, &options, opening)).map_err(exception)
    }
}
