//! Entries that were copied out of a map, and the iterator over them.

use crate::failure::exception;
use crate::kind::Kind;
use crate::map::Map;
use nunatak::Error;
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

type Bytes = Box<[u8]>;

/// A consistent cut of a map.
pub(crate) enum Entries {
    Words(Vec<u64>, Vec<u64>),
    Blobs(Vec<(Bytes, Bytes)>),
    Objects(Vec<(Py<PyAny>, Py<PyAny>)>),
}

/// Copies keys and values that `for_each` shows.
pub(crate) fn words_of(
    py: Python<'_>,
    for_each: impl FnOnce(&mut dyn FnMut(u64, u64) -> bool) -> Result<(), Error> + Send,
) -> PyResult<(Vec<u64>, Vec<u64>)> {
    let (mut keys, mut values) = (vec![], vec![]);
    py.detach(|| {
        for_each(&mut |key, value| {
            keys.push(key);
            values.push(value);
            true
        })
    })
    .map_err(exception)?;
    Ok((keys, values))
}

/// One of them, before it becomes Python objects.
enum Entry {
    Words(u64, u64),
    Blobs(Bytes, Bytes),
    Objects(Py<PyAny>, Py<PyAny>),
}

#[derive(Debug, Clone, Copy)]
enum What {
    Keys,
    Values,
    Items,
}

/// Iterates over a cut that was taken when the iterator was made: the map may change meanwhile.
#[pyclass(frozen, module = "nunatak._native")]
pub(crate) struct EntryIter {
    key: Kind,
    value: Kind,
    what: What,
    /// `None` when all have been given out.
    rest: Mutex<(usize, Option<Entries>)>,
}

impl EntryIter {
    pub(crate) fn new(map: &Bound<'_, Map>, what: &str) -> PyResult<Self> {
        let what = match what {
            "keys" => What::Keys,
            "values" => What::Values,
            "items" => What::Items,
            _ => return Err(PyValueError::new_err("keys, values or items")),
        };
        let entries = map.get().entries(map.py())?;
        let map = map.get();
        Ok(Self {
            key: map.key.clone(),
            value: map.value.clone(),
            what,
            rest: Mutex::new((0, Some(entries))),
        })
    }

    /// Returns the next entry; after the last one everything that is left, to be dropped.
    fn advance(&self, py: Python<'_>) -> (Option<Entry>, Option<Entries>) {
        let mut rest = self.rest.lock();
        let (at, entries) = &mut *rest;
        let entry = match entries {
            None => None,
            Some(Entries::Words(keys, values)) => {
                keys.get(*at).map(|key| Entry::Words(*key, values[*at]))
            }
            Some(Entries::Blobs(entries)) => entries
                .get_mut(*at)
                .map(|(key, value)| Entry::Blobs(core::mem::take(key), core::mem::take(value))),
            Some(Entries::Objects(entries)) => entries
                .get(*at)
                .map(|(key, value)| Entry::Objects(key.clone_ref(py), value.clone_ref(py))),
        };
        *at += 1;
        let ended = if entry.is_none() { entries.take() } else { None };
        (entry, ended)
    }
}

#[pymethods]
impl EntryIter {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        // Nothing is locked when objects are made or dropped: both may run Python code, in which
        // another thread may come here.
        let (entry, ended) = self.advance(py);
        drop(ended);
        let Some(entry) = entry else { return Ok(None) };
        let (wants_key, wants_value) = match self.what {
            What::Keys => (true, false),
            What::Values => (false, true),
            What::Items => (true, true),
        };
        let (key, value) = match entry {
            Entry::Words(key, value) => (
                wants_key.then(|| self.key.object_of(py, key)).transpose()?,
                wants_value.then(|| self.value.object_of(py, value)).transpose()?,
            ),
            Entry::Blobs(key, value) => (
                wants_key.then(|| self.key.object_of_bytes(py, &key)).transpose()?,
                wants_value.then(|| self.value.object_of_bytes(py, &value)).transpose()?,
            ),
            Entry::Objects(key, value) => (wants_key.then_some(key), wants_value.then_some(value)),
        };
        match (key, value) {
            (Some(key), Some(value)) => {
                Ok(Some(PyTuple::new(py, [key, value])?.into_any().unbind()))
            }
            (key, value) => Ok(key.or(value)),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // A thread that has the lock is not collecting garbage, so it is free here.
        let Some(rest) = self.rest.try_lock() else { return Ok(()) };
        let Some(Entries::Objects(entries)) = &rest.1 else { return Ok(()) };
        for (key, value) in entries {
            visit.call(key)?;
            visit.call(value)?;
        }
        Ok(())
    }

    fn __length_hint__(&self) -> usize {
        let rest = self.rest.lock();
        let all = match &rest.1 {
            None => 0,
            Some(Entries::Words(keys, _)) => keys.len(),
            Some(Entries::Blobs(entries)) => entries.len(),
            Some(Entries::Objects(entries)) => entries.len(),
        };
        all.saturating_sub(rest.0)
    }
}
