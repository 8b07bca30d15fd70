//! The class `MultiMap`: any number of values for a key.

use crate::batch::in_blocks;
use crate::columns::{Input, Output, WordArray};
use crate::entries::words_of;
use crate::failure::{closed, exception};
use crate::handle::{File, FileAccess, Handle, MultiHandle, file_methods};
use crate::kind::Kind;
use crate::opening::Wanted;
use crate::operations::change;
use numpy::{IntoPyArray, PyArray1};
use nunatak_dynamic::{BLOCK, multi_in_ram};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::path::PathBuf;

/// A concurrent map of numbers in which a key has any number of values.
#[pyclass(subclass, frozen, weakref, name = "MultiMap", module = "nunatak._native")]
pub(crate) struct MultiMap {
    key: Kind,
    value: Kind,
    path: Option<PathBuf>,
    map: MultiHandle,
}

impl MultiMap {
    fn file(&self) -> PyResult<FileAccess> {
        match &self.map {
            Handle::File(file) => file.open().map(FileAccess::Multi),
            Handle::Ram(_) => Err(PyTypeError::new_err("the map is in RAM: it has no file")),
        }
    }
}

file_methods!(MultiMap);

#[pymethods]
impl MultiMap {
    /// With `file` the map is in a file.
    #[new]
    #[pyo3(signature = (key, value, file=None))]
    fn new(py: Python<'_>, key: &str, value: &str, file: Option<Wanted>) -> PyResult<Self> {
        let (key, value) = (Kind::parse(key)?, Kind::parse(value)?);
        if !key.is_word() || !value.is_word() {
            return Err(PyTypeError::new_err("keys and values of a MultiMap are numbers"));
        }
        let map = match &file {
            Some(file) => Handle::File(File::new(file.open_multi(py)?)),
            None => Handle::Ram(multi_in_ram()),
        };
        Ok(Self { key, value, path: file.map(|file| file.path()), map })
    }

    #[getter]
    fn path(&self) -> Option<&PathBuf> {
        self.path.as_ref()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.map.is_closed()
    }

    #[getter]
    fn key_type(&self) -> String {
        self.key.name()
    }

    #[getter]
    fn value_type(&self) -> String {
        self.value.name()
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.map.open()?.len())
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = self.key.to_word(key, true)?;
        Ok(self.map.open()?.contains_key(key))
    }

    /// Add a value to those of the key; equal values are kept.
    ///
    /// >>> import nunatak
    /// >>> m = nunatak.MultiMap("u64", "u64")
    /// >>> m.insert(1, 10); m.insert(1, 10); m.count(1)
    /// 2
    fn insert(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, value) = (self.key.to_word(key, true)?, self.value.to_word(value, false)?);
        let map = self.map.open()?;
        let map = &*map;
        change(py, self.map.is_file(), || map.insert(key, value))
    }

    /// Add a value to those of the key unless an equal one is there; return whether it was added. If
    /// threads add the same pair at once, one of them adds it.
    ///
    /// >>> import nunatak
    /// >>> m = nunatak.MultiMap("u64", "u64")
    /// >>> m.insert_unique(1, 10), m.insert_unique(1, 10), m.count(1)
    /// (True, False, 1)
    fn insert_unique(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (key, value) = (self.key.to_word(key, true)?, self.value.to_word(value, false)?);
        let map = self.map.open()?;
        let map = &*map;
        change(py, self.map.is_file(), || map.insert_unique(key, value))
    }

    /// Return how many values the key has.
    fn count(&self, key: &Bound<'_, PyAny>) -> PyResult<usize> {
        let key = self.key.to_word(key, true)?;
        Ok(self.map.open()?.count(key))
    }

    /// Remove one of the values that are equal to this one; return whether there was one.
    fn remove_one(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (key, value) = (self.key.to_word(key, true)?, self.value.to_word(value, false)?);
        let map = self.map.open()?;
        let map = &*map;
        change(py, self.map.is_file(), || map.remove_one(key, value))
    }

    /// Remove all values of the key; return how many there were.
    fn remove_all(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<usize> {
        let key = self.key.to_word(key, true)?;
        let map = self.map.open()?;
        let map = &*map;
        change(py, self.map.is_file(), || map.remove_all(key))
    }

    /// Remove every entry.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let map = self.map.open()?;
        let map = &*map;
        py.detach(|| map.clear()).map_err(exception)
    }

    /// Sync the file and close it; operations that run in other threads end first. Nothing happens
    /// if the map is closed already, or is in RAM.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| match &self.map {
            Handle::File(file) => file.take().map_or(Ok(()), |map| map.close()),
            Handle::Ram(_) => Ok(()),
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
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    /// How many bytes of memory the map occupies.
    #[getter]
    fn nbytes(&self) -> PyResult<usize> {
        Ok(self.map.open()?.memory())
    }

    fn _get_all<'py>(&self, py: Python<'py>, key: &Bound<'_, PyAny>) -> PyResult<WordArray<'py>> {
        let (key, mut values) = (self.key.to_word(key, true)?, vec![]);
        self.map.open()?.copy_all(key, &mut values);
        Ok(values.into_pyarray(py))
    }

    /// Returns how many pairs were added; with `unique` those that were there are not.
    fn _insert_words(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        threads: usize,
        unique: bool,
    ) -> PyResult<usize> {
        let map = self.map.open()?;
        let map = &*map;
        let (keys, values) = (Input::new(keys)?, Input::new(values)?);
        let (keys, values) = (keys.column(Some(&self.key))?, values.column(None)?);
        if keys.len() != values.len() {
            return Err(PyValueError::new_err(format!(
                "there are {} keys and {} values",
                keys.len(),
                values.len()
            )));
        }
        in_blocks(py, keys.len(), threads, |range, scratch| {
            let keys = keys.words(range.clone(), &mut scratch.keys);
            let values = values.words(range, &mut scratch.values);
            let pairs: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
            match unique {
                true => map.insert_unique_many(&pairs),
                false => map.insert_many(&pairs).map(|()| pairs.len()),
            }
        })
    }

    /// Returns offsets, one more than there are keys, and the values of all keys side by side.
    fn _get_all_words<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'_, PyAny>,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, WordArray<'py>)> {
        let map = self.map.open()?;
        let map = &*map;
        let keys = Input::new(keys)?;
        let keys = keys.column(Some(&self.key))?;
        let (mut values, mut offsets) = (vec![], vec![0_i64]);
        let mut start = 0;
        while start < keys.len() {
            let mut buffer = [0; BLOCK];
            let block = keys.words(start..keys.len().min(start + BLOCK), &mut buffer);
            let mut ends = [0; BLOCK];
            py.detach(|| map.copy_all_many(block, &mut values, &mut ends)).map_err(exception)?;
            // Ends are positions in `values`, whatever it held before.
            offsets.extend(ends[..block.len()].iter().map(|end| *end as i64));
            start += block.len();
            py.check_signals()?;
        }
        Ok((offsets.into_pyarray(py), values.into_pyarray(py)))
    }

    fn _count_words(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        counts: &Bound<'_, PyAny>,
        removes: bool,
    ) -> PyResult<usize> {
        let map = self.map.open()?;
        let map = &*map;
        let (keys, mut counts) = (Input::new(keys)?, Output::new(counts)?);
        let (keys, counts) = (keys.column(Some(&self.key))?, counts.column()?);
        if keys.len() != counts.len() {
            return Err(PyValueError::new_err("there are as many counts as keys"));
        }
        in_blocks(py, keys.len(), 1, |range, scratch| {
            let mut found = [0_usize; BLOCK];
            let keys = keys.words(range.clone(), &mut scratch.keys);
            match removes {
                true => map.remove_all_many(keys, &mut found)?,
                false => map.count_many(keys, &mut found)?,
            }
            // SAFETY: there is one thread.
            unsafe {
                counts.fill(range, &mut scratch.values, |counts| {
                    for (count, found) in counts.iter_mut().zip(found) {
                        *count = found as u64;
                    }
                });
            }
            Ok(found[..keys.len()].iter().sum())
        })
    }

    /// Returns the keys, each once, and how many values each has.
    fn _distinct_keys<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(WordArray<'py>, Bound<'py, PyArray1<i64>>)> {
        let map = self.map.open()?;
        let map = &*map;
        let (mut keys, mut counts) = (vec![], vec![]);
        py.detach(|| {
            map.for_each_key(&mut |key, count| {
                keys.push(key);
                counts.push(count as i64);
                true
            });
        });
        Ok((keys.into_pyarray(py), counts.into_pyarray(py)))
    }

    /// Returns the keys, each once, offsets, one more than there are keys, and all values side by side.
    fn _groups<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(WordArray<'py>, Bound<'py, PyArray1<i64>>, WordArray<'py>)> {
        let map = self.map.open()?;
        let map = &*map;
        let (mut keys, mut offsets, mut values) = (vec![], vec![0_i64], vec![]);
        py.detach(|| {
            map.for_each_group(&mut |key, group| {
                keys.push(key);
                values.extend_from_slice(group);
                offsets.push(values.len() as i64);
                true
            });
        });
        Ok((keys.into_pyarray(py), offsets.into_pyarray(py), values.into_pyarray(py)))
    }

    /// Returns all keys and values, a key as often as it has values.
    fn _entries<'py>(&self, py: Python<'py>) -> PyResult<(WordArray<'py>, WordArray<'py>)> {
        let map = self.map.open()?;
        let map = &*map;
        let (keys, values) = words_of(py, |each| map.for_each(each))?;
        Ok((keys.into_pyarray(py), values.into_pyarray(py)))
    }
}
