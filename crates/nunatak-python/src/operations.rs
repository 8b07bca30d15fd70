//! Operations on one key, and cuts of all entries, in each kind of store.

use crate::entries::{Entries, words_of};
use crate::failure::exception;
use crate::handle::{FileAccess, Handle};
use crate::kind::{Found, Kind};
use crate::map::{Map, Store};
use crate::objects::{Query, raising};
use nunatak::Error;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// Runs a change; that of a file waits for the disk, so the thread lets Python go meanwhile.
pub(crate) fn change<R: Send>(
    py: Python<'_>,
    is_file: bool,
    operation: impl FnOnce() -> Result<R, Error> + Send,
) -> PyResult<R> {
    match is_file {
        true => py.detach(operation),
        false => operation(),
    }
    .map_err(exception)
}

impl Map {
    /// The key of a map of objects: of another kind than `object` it is checked, and made into what
    /// the map would return.
    pub(crate) fn object_key<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::checked(&self.key, key, true)
    }

    fn checked<'py>(
        kind: &Kind,
        object: &Bound<'py, PyAny>,
        is_key: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = object.py();
        match kind {
            Kind::Object => Ok(object.clone()),
            Kind::Str | Kind::Bytes => {
                kind.with_bytes(object, is_key, |_| ())?;
                Ok(object.clone())
            }
            _ => Ok(kind.object_of(py, kind.to_word(object, is_key)?)?.into_bound(py)),
        }
    }

    /// Looks a key up.
    pub(crate) fn find(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        self.look_up(key).map(|found| found.into_result(key.py())).transpose()
    }

    /// Looks a key up. Returns `None` if it is absent; what fails is told by Python's exception.
    pub(crate) fn look_up(&self, key: &Bound<'_, PyAny>) -> Option<Found> {
        let py = key.py();
        match &self.store {
            Store::Words(map) => {
                let word = match self.key.to_word(key, true) {
                    Ok(word) => word,
                    Err(error) => return Some(Found::of(py, Err(error))),
                };
                match map.open() {
                    Ok(map) => map.get(word).map(|word| self.value.found(py, word)),
                    Err(error) => Some(Found::of(py, Err(error))),
                }
            }
            Store::Blobs(map) => {
                let map = match map.open() {
                    Ok(map) => map,
                    Err(error) => return Some(Found::of(py, Err(error))),
                };
                let mut found = None;
                let looked_up = self.key.with_bytes(key, true, |key| {
                    map.get_with(key, &mut |value| found = Some(self.value.found_bytes(py, value)));
                });
                match looked_up {
                    Ok(()) => found,
                    Err(error) => Some(Found::of(py, Err(error))),
                }
            }
            Store::Objects(map) => {
                let found = self.object_key(key).and_then(|key| {
                    let query = Query::new(&key)?;
                    raising(|| map.get(py, &query))
                });
                found.transpose().map(|found| Found::of(py, found))
            }
        }
    }

    /// Stores a value; with `if_absent` only if the key is absent. Returns whether the key was
    /// absent.
    pub(crate) fn store(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        if_absent: bool,
    ) -> PyResult<bool> {
        let py = key.py();
        match &self.store {
            Store::Words(handle) => {
                let (key, value) =
                    (self.key.to_word(key, true)?, self.value.to_word(value, false)?);
                let map = handle.open()?;
                let map = &*map;
                change(py, handle.is_file(), || match if_absent {
                    true => map.try_insert(key, value),
                    false => map.insert(key, value),
                })
                .map(|before| before.is_none())
            }
            Store::Blobs(handle) => {
                let map = handle.open()?;
                let map = &*map;
                self.key.with_bytes(key, true, |key| {
                    self.value.with_bytes(value, false, |value| {
                        change(py, handle.is_file(), || match if_absent {
                            true => map.try_insert(key, value).map(|present| present.is_none()),
                            false => map.put(key, value).map(|replaced| !replaced),
                        })
                    })
                })??
            }
            Store::Objects(map) => {
                let (key, value) =
                    (self.object_key(key)?, Self::checked(&self.value, value, false)?.unbind());
                let query = Query::new(&key)?;
                raising(|| match if_absent {
                    true => map.try_put(&query, value),
                    false => map.put(&query, value),
                })
            }
        }
    }

    /// Removes a key and returns its value.
    pub(crate) fn take(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let py = key.py();
        match &self.store {
            Store::Words(handle) => {
                let key = self.key.to_word(key, true)?;
                let map = handle.open()?;
                let map = &*map;
                let taken = change(py, handle.is_file(), || map.remove(key))?;
                taken.map(|word| self.value.object_of(py, word)).transpose()
            }
            Store::Blobs(handle) => {
                let map = handle.open()?;
                let map = &*map;
                let taken = self.key.with_bytes(key, true, |key| {
                    change(py, handle.is_file(), || map.remove(key))
                })??;
                taken.map(|bytes| self.value.object_of_bytes(py, &bytes)).transpose()
            }
            Store::Objects(map) => {
                let key = self.object_key(key)?;
                let query = Query::new(&key)?;
                raising(|| map.remove(py, &query))
            }
        }
    }

    pub(crate) fn any(&self, py: Python<'_>) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
        match &self.store {
            Store::Words(map) => {
                let entry = map.open()?.any();
                entry
                    .map(|(key, value)| {
                        Ok((self.key.object_of(py, key)?, self.value.object_of(py, value)?))
                    })
                    .transpose()
            }
            Store::Blobs(map) => {
                let entry = map.open()?.any();
                entry
                    .map(|(key, value)| {
                        Ok((
                            self.key.object_of_bytes(py, &key)?,
                            self.value.object_of_bytes(py, &value)?,
                        ))
                    })
                    .transpose()
            }
            Store::Objects(map) => Ok(map.any(py)),
        }
    }

    /// Copies a consistent cut of all entries out of the map.
    pub(crate) fn entries(&self, py: Python<'_>) -> PyResult<Entries> {
        match &self.store {
            Store::Words(map) => {
                let map = map.open()?;
                let map = &*map;
                let (keys, values) = words_of(py, |each| map.for_each(each))?;
                Ok(Entries::Words(keys, values))
            }
            Store::Blobs(map) => {
                let map = map.open()?;
                let map = &*map;
                let mut entries = vec![];
                py.detach(|| {
                    map.for_each(&mut |key, value| {
                        entries.push((key.into(), value.into()));
                        true
                    })
                })
                .map_err(exception)?;
                Ok(Entries::Blobs(entries))
            }
            Store::Objects(map) => Ok(Entries::Objects(map.entries(py))),
        }
    }

    pub(crate) fn file(&self) -> PyResult<FileAccess> {
        match &self.store {
            Store::Words(Handle::File(file)) => file.open().map(FileAccess::Words),
            Store::Blobs(Handle::File(file)) => file.open().map(FileAccess::Blobs),
            _ => Err(PyTypeError::new_err("the map is in RAM: it has no file")),
        }
    }
}
