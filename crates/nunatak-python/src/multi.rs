//! The class `MultiMap`: any number of values for a key.

use crate::batch::in_blocks;
use crate::columns::{Input, Output, WordArray};
use crate::failure::exception;
use crate::kind::Kind;
use numpy::{IntoPyArray, PyArray1};
use nunatak::PeaMultiMap;
use nunatak_dynamic::BLOCK;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// A concurrent map of numbers in which a key has any number of values.
#[pyclass(subclass, frozen, weakref, name = "MultiMap", module = "nunatak._native")]
pub(crate) struct MultiMap {
    key: Kind,
    value: Kind,
    map: PeaMultiMap<u64, u64>,
}

#[pymethods]
impl MultiMap {
    #[new]
    fn new(key: &str, value: &str) -> PyResult<Self> {
        let (key, value) = (Kind::parse(key)?, Kind::parse(value)?);
        if !key.is_word() || !value.is_word() {
            return Err(PyTypeError::new_err("keys and values of a MultiMap are numbers"));
        }
        Ok(Self { key, value, map: PeaMultiMap::default() })
    }

    #[getter]
    fn key_type(&self) -> String {
        self.key.name()
    }

    #[getter]
    fn value_type(&self) -> String {
        self.value.name()
    }

    fn __len__(&self) -> usize {
        self.map.len()
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.map.contains_key(&self.key.to_word(key, true)?))
    }

    /// Add a value to those of the key; equal values are kept.
    ///
    /// >>> import nunatak
    /// >>> m = nunatak.MultiMap("u64", "u64")
    /// >>> m.insert(1, 10); m.insert(1, 10); m.count(1)
    /// 2
    fn insert(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.map.insert(self.key.to_word(key, true)?, self.value.to_word(value, false)?);
        Ok(())
    }

    /// Return how many values the key has.
    fn count(&self, key: &Bound<'_, PyAny>) -> PyResult<usize> {
        Ok(self.map.count(&self.key.to_word(key, true)?))
    }

    /// Remove one of the values that are equal to this one; return whether there was one.
    fn remove_one(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (key, value) = (self.key.to_word(key, true)?, self.value.to_word(value, false)?);
        Ok(self.map.remove_one(&key, &value))
    }

    /// Remove all values of the key; return how many there were.
    fn remove_all(&self, key: &Bound<'_, PyAny>) -> PyResult<usize> {
        Ok(self.map.remove_all(&self.key.to_word(key, true)?))
    }

    /// Remove every entry.
    fn clear(&self, py: Python<'_>) {
        py.detach(|| self.map.clear());
    }

    /// How many bytes of memory the map occupies.
    #[getter]
    fn nbytes(&self) -> usize {
        self.map.memory_usage().resident
    }

    fn _get_all<'py>(&self, py: Python<'py>, key: &Bound<'_, PyAny>) -> PyResult<WordArray<'py>> {
        let mut values = vec![];
        self.map.copy_all(&self.key.to_word(key, true)?, &mut values);
        Ok(values.into_pyarray(py))
    }

    fn _insert_words(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        threads: usize,
    ) -> PyResult<usize> {
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
            self.map.insert_many(&pairs);
            Ok(pairs.len())
        })
    }

    /// Returns offsets, one more than there are keys, and the values of all keys side by side.
    fn _get_all_words<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'_, PyAny>,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, WordArray<'py>)> {
        let keys = Input::new(keys)?;
        let keys = keys.column(Some(&self.key))?;
        let (mut values, mut offsets) = (vec![], vec![0_i64]);
        let mut start = 0;
        while start < keys.len() {
            let mut buffer = [0; BLOCK];
            let block = keys.words(start..keys.len().min(start + BLOCK), &mut buffer);
            let mut ends = [0; BLOCK];
            py.detach(|| self.map.copy_all_many(block, &mut values, &mut ends))
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
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
        let (keys, mut counts) = (Input::new(keys)?, Output::new(counts)?);
        let (keys, counts) = (keys.column(Some(&self.key))?, counts.column()?);
        if keys.len() != counts.len() {
            return Err(PyValueError::new_err("there are as many counts as keys"));
        }
        in_blocks(py, keys.len(), 1, |range, scratch| {
            let mut found = [0_usize; BLOCK];
            let keys = keys.words(range.clone(), &mut scratch.keys);
            // Both fail only if there is no room for the results.
            let counted = match removes {
                true => self.map.remove_all_many(keys, &mut found),
                false => self.map.count_many(keys, &mut found),
            };
            if counted.is_err() {
                return Ok(0);
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

    /// Returns all keys and values, a key as often as it has values.
    fn _entries<'py>(&self, py: Python<'py>) -> PyResult<(WordArray<'py>, WordArray<'py>)> {
        let entries: Result<(Vec<_>, Vec<_>), _> =
            py.detach(|| self.map.snapshot().map(Iterator::unzip));
        let (keys, values) = entries.map_err(exception)?;
        Ok((keys.into_pyarray(py), values.into_pyarray(py)))
    }
}
