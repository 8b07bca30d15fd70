//! Tables by their names, and maps in files by the options that Python has for them.

use crate::failure::exception;
use crate::handle::{File, Handle};
use crate::kind::Kind;
use crate::map::Store;
use core::time::Duration;
use nunatak::durable::{Durability, Options};
use nunatak_dynamic::{Table, open_blobs, open_words};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::path::Path;

pub(crate) fn table_named(name: &str) -> PyResult<Table> {
    name.parse().map_err(|error: String| PyValueError::new_err(error))
}

/// The options of a file by the names that Python has for them.
pub(crate) fn file_options(
    durability: &str,
    interval: Option<f64>,
    capacity: usize,
    read_only: bool,
) -> PyResult<Options> {
    let level = match (durability, interval) {
        ("interval", Some(seconds)) if seconds.is_finite() && seconds > 0.0 => {
            Durability::Interval(Duration::try_from_secs_f64(seconds).map_err(|_| {
                PyValueError::new_err("the interval must be a number of seconds above zero")
            })?)
        }
        ("interval", _) => {
            return Err(PyValueError::new_err(
                "the interval must be a number of seconds above zero",
            ));
        }
        (_, Some(_)) => {
            return Err(PyValueError::new_err("an interval goes with durability=\"interval\""));
        }
        ("process", None) => Durability::Process,
        ("synced", None) => Durability::Synced,
        ("persistent_memory", None) => Durability::PersistentMemory,
        _ => {
            return Err(PyValueError::new_err(format!(
                "there is no durability {durability:?}: choose process, interval, synced or \
                 persistent_memory"
            )));
        }
    };
    Ok(Options::new().durability(level).capacity(capacity).read_only(read_only))
}

/// Opens a file for keys and values of these kinds.
pub(crate) fn opened(
    py: Python<'_>,
    path: &Path,
    (key, value): (&Kind, &Kind),
    table: Option<Table>,
    mode: &str,
    options: impl FnOnce(bool) -> PyResult<Options>,
) -> PyResult<Store> {
    if *key == Kind::Object || *value == Kind::Object {
        return Err(PyTypeError::new_err(
            "a file can't hold objects: choose numbers, str or bytes",
        ));
    }
    let (creates, read_only) = match mode {
        "c" => (true, false),
        "w" => (false, false),
        "r" => (false, true),
        _ => return Err(PyValueError::new_err("the mode must be \"c\", \"w\" or \"r\"")),
    };
    let options = options(read_only)?;
    let is_words = key.is_word() && value.is_word();
    let store = py.detach(|| match is_words {
        true => open_words(path, table, &options, creates)
            .map(|map| Store::Words(Handle::File(File::new(map)))),
        false => open_blobs(path, table, &options, creates)
            .map(|map| Store::Blobs(Handle::File(File::new(map)))),
    });
    store.map_err(exception)
}
