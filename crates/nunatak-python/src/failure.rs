//! The library's errors as exceptions, with the library's words.

use nunatak::{Error, FileError as Cause};
use pyo3::exceptions::{
    PyFileExistsError, PyMemoryError, PyOSError, PyOverflowError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;

pyo3::create_exception!(
    nunatak,
    FileError,
    PyOSError,
    "The file of a map can't be used: it holds no map, is damaged, in use, full or read-only."
);

pub(crate) fn closed() -> PyErr {
    PyValueError::new_err("the map is closed")
}

/// Makes an exception of an error.
pub(crate) fn exception(error: Error) -> PyErr {
    let words = error.to_string();
    match error {
        Error::File(Cause::Io { code, .. }) => PyOSError::new_err((code, words)),
        Error::File(Cause::Exists) => PyFileExistsError::new_err(words),
        Error::File(_) => FileError::new_err(words),
        Error::OutOfMemory { .. } => PyMemoryError::new_err(words),
        Error::CapacityOverflow => PyOverflowError::new_err(words),
        Error::NoDoubleWordCas => PyRuntimeError::new_err(words),
        _ => PyValueError::new_err(words),
    }
}
