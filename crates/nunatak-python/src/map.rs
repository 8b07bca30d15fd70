//! The class `Map`: single operations.

use crate::columns::WordArray;
use crate::entries::{Entries, EntryIter};
use crate::failure::{closed, exception};
use crate::handle::{BlobHandle, Handle, WordHandle, file_methods};
use crate::kind::{Found, Kind};
use crate::objects::{Objects, Query, objects_in_ram, raising};
use crate::opening::{Wanted, table_named};
use crate::operations::change;
use crate::sum::Sum;
use numpy::IntoPyArray;
use nunatak::Compute;
use nunatak_dynamic::{Table, blobs_in_ram, words_in_ram};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Where a map's entries are.
pub(crate) enum Store {
    /// Keys and values of 8 bytes.
    Words(WordHandle),
    /// Keys or values of any length.
    Blobs(BlobHandle),
    /// Keys or values are Python objects.
    Objects(Box<dyn Objects>),
}

/// A concurrent map.
#[pyclass(subclass, frozen, weakref, name = "Map", module = "nunatak._native")]
pub(crate) struct Map {
    pub(crate) key: Kind,
    pub(crate) value: Kind,
    table: String,
    path: Option<PathBuf>,
    pub(crate) store: Store,
}

/// A method of all three stores.
macro_rules! of_any {
    ($self:ident, $map:ident => $call:expr) => {
        match &$self.store {
            Store::Words(handle) => {
                let $map = handle.open()?;
                $call
            }
            Store::Blobs(handle) => {
                let $map = handle.open()?;
                $call
            }
            Store::Objects($map) => $call,
        }
    };
}

file_methods!(Map);

#[pymethods]
impl Map {
    /// With `file` the map is in a file.
    #[new]
    #[pyo3(signature = (key, value, table, capacity, file=None))]
    fn new(
        py: Python<'_>,
        key: &str,
        value: &str,
        table: Option<&str>,
        capacity: usize,
        file: Option<Wanted>,
    ) -> PyResult<Self> {
        let (key, value) = (Kind::parse(key)?, Kind::parse(value)?);
        let table = table.map(table_named).transpose()?;
        if let Some(file) = file {
            let (path, store) = (file.path(), file.open(py, (&key, &value), table)?);
            let table = table.map_or_else(|| "of the file".to_owned(), |table| table.to_string());
            return Ok(Self { key, value, table, path: Some(path), store });
        }
        let table = table.unwrap_or(Table::Dlht);
        let store = if key == Kind::Object || value == Kind::Object {
            objects_in_ram(table, capacity).map(Store::Objects)
        } else if key.is_word() && value.is_word() {
            words_in_ram(table, capacity).map(|map| Store::Words(Handle::Ram(map)))
        } else {
            blobs_in_ram(table, capacity).map(|map| Store::Blobs(Handle::Ram(map)))
        };
        let store = store.map_err(exception)?;
        Ok(Self { key, value, table: table.to_string(), path: None, store })
    }

    /// Returns all keys and values as words.
    fn _words<'py>(&self, py: Python<'py>) -> PyResult<(WordArray<'py>, WordArray<'py>)> {
        match self.entries(py)? {
            Entries::Words(keys, values) => Ok((keys.into_pyarray(py), values.into_pyarray(py))),
            _ => Err(PyTypeError::new_err("keys and values of this map are not numbers")),
        }
    }

    #[getter]
    fn key_type(&self) -> String {
        self.key.name()
    }

    #[getter]
    fn value_type(&self) -> String {
        self.value.name()
    }

    #[getter]
    fn table(&self) -> &str {
        &self.table
    }

    #[getter]
    fn path(&self) -> Option<&PathBuf> {
        self.path.as_ref()
    }

    #[getter]
    fn closed(&self) -> bool {
        match &self.store {
            Store::Words(handle) => handle.is_closed(),
            Store::Blobs(handle) => handle.is_closed(),
            Store::Objects(_) => false,
        }
    }

    /// Which part of the batches serves this map.
    #[getter]
    fn _layout(&self) -> &'static str {
        match self.store {
            Store::Words(_) => "words",
            Store::Blobs(_) => "blobs",
            Store::Objects(_) => "objects",
        }
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(of_any!(self, map => map.len()))
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> *mut ffi::PyObject {
        let absent = || Found::of(key.py(), Err(PyKeyError::new_err((key.clone().unbind(),))));
        self.look_up(key).unwrap_or_else(absent).0
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.store(key, value, false).map(drop)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.take(key)? {
            Some(_) => Ok(()),
            None => Err(PyKeyError::new_err((key.clone().unbind(),))),
        }
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        match &self.store {
            Store::Words(map) => {
                let word = self.key.to_word(key, true)?;
                Ok(map.open()?.get(word).is_some())
            }
            Store::Blobs(map) => {
                let map = map.open()?;
                self.key.with_bytes(key, true, |key| map.contains_key(key))
            }
            Store::Objects(map) => {
                let key = self.object_key(key)?;
                let query = Query::new(&key)?;
                raising(|| map.contains(&query))
            }
        }
    }

    /// Return the value of the key, or the default.
    ///
    /// >>> import nunatak
    /// >>> m = nunatak.Map("u64", "u64", {1: 10})
    /// >>> m.get(1), m.get(2), m.get(2, 0)
    /// (10, None, 0)
    #[pyo3(signature = (key, default=None, /))]
    fn get(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        match self.look_up(key) {
            Some(found) => found.into_result(key.py()).map(Some),
            None => Ok(default),
        }
    }

    /// Return the value of the key; store the default first if the key is absent.
    ///
    /// >>> import nunatak
    /// >>> m = nunatak.Map("str", "u64")
    /// >>> m.setdefault("a", 1), m.setdefault("a", 2)
    /// (1, 1)
    #[pyo3(signature = (key, default=None, /))]
    fn setdefault(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        default: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let default = default.unwrap_or_else(|| py.None().into_bound(py));
        loop {
            if let Some(value) = self.find(key)? {
                return Ok(value);
            }
            // Another thread may store or remove the key in between.
            if self.store(key, &default, true)? {
                return Ok(default.unbind());
            }
        }
    }

    /// Store the value if the key is absent; return whether it was stored.
    ///
    /// >>> import nunatak
    /// >>> m = nunatak.Map("u64", "u64")
    /// >>> m.try_insert(1, 10), m.try_insert(1, 11), m[1]
    /// (True, False, 10)
    fn try_insert(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.store(key, value, true)
    }

    fn _pop(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<(Py<PyAny>,)>> {
        Ok(self.take(key)?.map(|value| (value,)))
    }

    /// Remove an entry and return it as a pair.
    ///
    /// >>> import nunatak
    /// >>> nunatak.Map("u64", "u64", {1: 10}).popitem()
    /// (1, 10)
    fn popitem(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        loop {
            let Some((key, _)) = self.any(py)? else {
                return Err(PyKeyError::new_err("popitem(): the map is empty"));
            };
            // Another thread may have removed the key.
            if let Some(value) = self.take(key.bind(py))? {
                return Ok((key, value));
            }
        }
    }

    /// Add to the key's value and return the sum; an absent key counts as zero. No other thread's
    /// change is lost.
    ///
    /// >>> import nunatak
    /// >>> m = nunatak.Map("str", "i64")
    /// >>> m.add("a", 2), m.add("a", -1)
    /// (2, 1)
    #[pyo3(signature = (key, amount=None))]
    fn add(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        amount: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let amount = match amount {
            Some(amount) => self.value.to_word(amount, false)?,
            None => self.value.to_word(1_u8.into_pyobject(py)?.as_any(), false)?,
        };
        let adds = Sum::of(&self.value)?;
        let mut sum = amount;
        match &self.store {
            Store::Words(handle) => {
                let key = self.key.to_word(key, true)?;
                let map = handle.open()?;
                let map = &*map;
                change(py, handle.is_file(), || {
                    map.compute(key, &mut |value| {
                        sum = value.map_or(amount, |value| adds.words(value, amount));
                        Compute::Put(sum)
                    })
                })?;
            }
            Store::Blobs(handle) => {
                let map = handle.open()?;
                let map = &*map;
                self.key.with_bytes(key, true, |key| {
                    change(py, handle.is_file(), || {
                        map.compute(key, &mut |value| {
                            let value = value.and_then(|value| value.try_into().ok());
                            let value = value.map(u64::from_le_bytes);
                            sum = value.map_or(amount, |value| adds.words(value, amount));
                            Compute::Put(sum.to_le_bytes().to_vec())
                        })
                    })
                })??;
            }
            Store::Objects(_) => {
                return Err(PyTypeError::new_err(
                    "a map of objects does not add: its values must be numbers, and its keys numbers, \
                     str or bytes",
                ));
            }
        }
        self.value.object_of(py, sum)
    }

    /// Replace the value if it is the expected one; return whether it was.
    ///
    /// >>> import nunatak
    /// >>> m = nunatak.Map("u64", "u64", {1: 10})
    /// >>> m.compare_exchange(1, 10, 11), m.compare_exchange(1, 10, 12), m[1]
    /// (True, False, 11)
    fn compare_exchange(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        expected: &Bound<'_, PyAny>,
        new: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let Store::Words(handle) = &self.store else {
            return Err(PyTypeError::new_err(
                "compare_exchange needs a map whose keys and values are numbers",
            ));
        };
        let key = self.key.to_word(key, true)?;
        let (expected, new) =
            (self.value.to_word(expected, false)?, self.value.to_word(new, false)?);
        let map = handle.open()?;
        let map = &*map;
        let mut is_expected = false;
        let bits = self.value.bits();
        change(py, handle.is_file(), || {
            map.compute(key, &mut |value| {
                // Sums of narrow integers may have carried into the bits above.
                is_expected = value.is_some_and(|value| (value ^ expected) << (64 - bits) == 0);
                if is_expected { Compute::Put(new) } else { Compute::Keep }
            })
        })?;
        Ok(is_expected)
    }

    /// Remove every entry.
    ///
    /// >>> import nunatak
    /// >>> m = nunatak.Map("u64", "u64", {1: 10})
    /// >>> m.clear(); len(m)
    /// 0
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        match &self.store {
            Store::Words(handle) => {
                let map = handle.open()?;
                let map = &*map;
                py.detach(|| map.clear()).map_err(exception)
            }
            Store::Blobs(handle) => {
                let map = handle.open()?;
                let map = &*map;
                py.detach(|| map.clear()).map_err(exception)
            }
            Store::Objects(map) => raising(|| map.clear()),
        }
    }

    fn __iter__(slf: &Bound<'_, Self>) -> PyResult<EntryIter> {
        EntryIter::new(slf, "keys")
    }

    fn _iter(slf: &Bound<'_, Self>, what: &str) -> PyResult<EntryIter> {
        EntryIter::new(slf, what)
    }

    /// Make room for this many more entries.
    ///
    /// >>> import nunatak
    /// >>> nunatak.Map("u64", "u64").reserve(1000)
    fn reserve(&self, py: Python<'_>, additional: usize) -> PyResult<()> {
        match &self.store {
            Store::Objects(map) => map.reserve(additional),
            Store::Words(handle) => {
                let map = handle.open()?;
                let map = &*map;
                py.detach(|| map.reserve(additional))
            }
            Store::Blobs(handle) => {
                let map = handle.open()?;
                let map = &*map;
                py.detach(|| map.reserve(additional))
            }
        }
        .map_err(exception)
    }

    /// Give memory back that the entries do not need.
    ///
    /// >>> import nunatak
    /// >>> nunatak.Map("u64", "u64").shrink_to_fit()
    fn shrink_to_fit(&self, py: Python<'_>) -> PyResult<()> {
        match &self.store {
            Store::Objects(map) => return raising(|| map.shrink_to_fit())?.map_err(exception),
            Store::Words(handle) => {
                let map = handle.open()?;
                let map = &*map;
                py.detach(|| map.shrink_to_fit())
            }
            Store::Blobs(handle) => {
                let map = handle.open()?;
                let map = &*map;
                py.detach(|| map.shrink_to_fit())
            }
        }
        .map_err(exception)
    }

    /// Drop removed and replaced objects that no other thread reads any more; return how many still
    /// wait. The map does so by itself after every 128 of them.
    ///
    /// >>> import nunatak
    /// >>> m = nunatak.Map(); m["a"] = object(); del m["a"]
    /// >>> m.reclaim()
    /// 0
    fn reclaim(&self) -> PyResult<usize> {
        match &self.store {
            Store::Objects(map) => raising(|| map.reclaim()),
            _ => Ok(0),
        }
    }

    /// How many bytes of memory the map occupies, without the objects that it refers to.
    #[getter]
    fn nbytes(&self) -> PyResult<usize> {
        Ok(of_any!(self, map => map.memory()))
    }

    /// Entries divided by slots.
    #[getter]
    fn load_factor(&self) -> PyResult<f64> {
        Ok(of_any!(self, map => map.load_factor()))
    }

    /// The figures of the table, as text for people.
    fn stats(&self) -> PyResult<String> {
        Ok(of_any!(self, map => map.stats()))
    }

    /// Sync the file and close it; operations that run in other threads end first. Nothing happens
    /// if the map is closed already, or is in RAM.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| match &self.store {
            Store::Words(Handle::File(file)) => file.take().map_or(Ok(()), |map| map.close()),
            Store::Blobs(Handle::File(file)) => file.take().map_or(Ok(()), |map| map.close()),
            _ => Ok(()),
        })
        .map_err(exception)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        match slf.get().closed() {
            true => Err(closed()),
            false => Ok(slf),
        }
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _exception: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        self.close(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.store {
            Store::Objects(map) => map.traverse(&visit),
            _ => Ok(()),
        }
    }

    fn __clear__(&self) {
        if let Store::Objects(map) = &self.store {
            map.clear();
        }
    }
}
