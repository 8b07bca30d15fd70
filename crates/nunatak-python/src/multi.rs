//! The class `MultiMap`: any number of values for a key.

use crate::arrow::{Parts, Strings};
use crate::batch::{equal_lengths, in_blocks};
use crate::columns::{Input, Output, WordArray};
use crate::failure::{closed, exception};
use crate::handle::{File, FileAccess, Handle, MultiHandle, file_methods};
use crate::kind::Kind;
use crate::opening::Wanted;
use crate::operations::change;
use crate::strings::column;
use core::ops::Range;
use numpy::{IntoPyArray, PyArray1};
use nunatak::Error;
use nunatak_dynamic::{BLOCK, MultiBlobs, multi_blobs_in_ram, multi_in_ram};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::path::PathBuf;

/// Where a multimap's entries are.
enum Store {
    /// Keys of 8 bytes.
    Words(MultiHandle),
    /// Keys of any length, in RAM.
    Blobs(Box<dyn MultiBlobs>),
}

/// Offsets of the values of many keys, one more than there are keys.
pub(crate) type Offsets<'py> = Bound<'py, PyArray1<i64>>;

/// A concurrent map in which a key has any number of values.
#[pyclass(subclass, frozen, weakref, name = "MultiMap", module = "nunatak._native")]
pub(crate) struct MultiMap {
    pub(crate) key: Kind,
    value: Kind,
    path: Option<PathBuf>,
    store: Store,
}

impl MultiMap {
    fn file(&self) -> PyResult<FileAccess> {
        match &self.store {
            Store::Words(Handle::File(file)) => file.open().map(FileAccess::Multi),
            _ => Err(PyTypeError::new_err("the map is in RAM: it has no file")),
        }
    }

    fn words(&self) -> PyResult<&MultiHandle> {
        match &self.store {
            Store::Words(handle) => Ok(handle),
            Store::Blobs(_) => Err(PyTypeError::new_err("the keys of this map are not numbers")),
        }
    }

    pub(crate) fn blobs(&self) -> PyResult<&dyn MultiBlobs> {
        match &self.store {
            Store::Blobs(map) => Ok(&**map),
            Store::Words(_) => Err(PyTypeError::new_err("the keys of this map are numbers")),
        }
    }
}

/// A method of both stores that takes no key.
macro_rules! of_either {
    ($self:ident, $map:ident => $call:expr) => {
        match &$self.store {
            Store::Words(handle) => {
                let map = handle.open()?;
                let $map = &*map;
                $call
            }
            Store::Blobs(map) => {
                let $map = &**map;
                $call
            }
        }
    };
}

/// A method of both stores that takes a key: a word or bytes.
macro_rules! of_key {
    ($self:ident, $key:ident, ($map:ident, $is_file:tt) => $call:expr) => {
        match &$self.store {
            Store::Words(handle) => {
                let $key = $self.key.to_word($key, true)?;
                let map = handle.open()?;
                let ($map, $is_file) = (&*map, handle.is_file());
                $call
            }
            Store::Blobs(map) => {
                let ($map, $is_file) = (&**map, false);
                $self.key.with_bytes($key, true, |$key| $call)?
            }
        }
    };
}

/// Collects keys of either store: words as an array, and strings as a column. The expression calls
/// `$push` with each.
macro_rules! keys_of {
    ($self:ident, $py:ident, ($map:ident, $push:ident) => $call:expr) => {
        match &$self.store {
            Store::Words(handle) => {
                let map = handle.open()?;
                let ($map, mut keys) = (&*map, vec![]);
                let mut $push = |key: u64| keys.push(key);
                $py.detach(|| $call).map_err(exception)?;
                keys.into_pyarray($py).into_any()
            }
            Store::Blobs(map) => {
                let ($map, mut keys) = (&**map, Strings::new());
                let mut $push = |key: &[u8]| keys.push(Some(key));
                $py.detach(|| $call).map_err(exception)?;
                column($py, &$self.key, Parts::of_strings([keys]))?
            }
        }
    };
}

/// Runs `each` for all positions, a block at a time, in this thread. Looks for an interrupt after each.
pub(crate) fn block_by_block(
    py: Python<'_>,
    len: usize,
    mut each: impl FnMut(Range<usize>) -> Result<(), Error> + Send,
) -> PyResult<()> {
    for start in (0..len).step_by(BLOCK) {
        py.detach(|| each(start..len.min(start + BLOCK))).map_err(exception)?;
        py.check_signals()?;
    }
    Ok(())
}

file_methods!(MultiMap);

#[pymethods]
impl MultiMap {
    /// With `file` the map is in a file.
    #[new]
    #[pyo3(signature = (key, value, file=None))]
    fn new(py: Python<'_>, key: &str, value: &str, file: Option<Wanted>) -> PyResult<Self> {
        let (key, value) = (Kind::parse(key)?, Kind::parse(value)?);
        if key == Kind::Object || !value.is_word() {
            return Err(PyTypeError::new_err(format!(
                "a MultiMap has keys that are numbers, str or bytes, and values that are numbers, \
                 not {} and {}",
                key.name(),
                value.name()
            )));
        }
        let store = match &file {
            Some(_) if !key.is_word() => {
                return Err(PyTypeError::new_err(format!(
                    "a MultiMap in a file has keys that are numbers, not {}: such keys are in RAM \
                     only",
                    key.name()
                )));
            }
            Some(file) => Store::Words(Handle::File(File::new(file.open_multi(py)?))),
            None if key.is_word() => Store::Words(Handle::Ram(multi_in_ram())),
            None => Store::Blobs(multi_blobs_in_ram()),
        };
        Ok(Self { key, value, path: file.map(|file| file.path()), store })
    }

    #[getter]
    fn path(&self) -> Option<&PathBuf> {
        self.path.as_ref()
    }

    #[getter]
    fn closed(&self) -> bool {
        match &self.store {
            Store::Words(handle) => handle.is_closed(),
            Store::Blobs(_) => false,
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

    fn __len__(&self) -> PyResult<usize> {
        Ok(of_either!(self, map => map.len()))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(of_key!(self, key, (map, _) => map.contains_key(key)))
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
        let value = self.value.to_word(value, false)?;
        of_key!(self, key, (map, is_file) => change(py, is_file, || map.insert(key, value)))
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
        let value = self.value.to_word(value, false)?;
        of_key!(self, key, (map, is_file) => change(py, is_file, || map.insert_unique(key, value)))
    }

    /// Return how many values the key has.
    fn count(&self, key: &Bound<'_, PyAny>) -> PyResult<usize> {
        Ok(of_key!(self, key, (map, _) => map.count(key)))
    }

    /// Remove one of the values that are equal to this one; return whether there was one.
    fn remove_one(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let value = self.value.to_word(value, false)?;
        of_key!(self, key, (map, is_file) => change(py, is_file, || map.remove_one(key, value)))
    }

    /// Remove all values of the key; return how many there were.
    fn remove_all(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<usize> {
        of_key!(self, key, (map, is_file) => change(py, is_file, || map.remove_all(key)))
    }

    /// Remove every entry.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        of_either!(self, map => py.detach(|| map.clear()).map_err(exception))
    }

    /// Sync the file and close it; operations that run in other threads end first. Nothing happens
    /// if the map is closed already, or is in RAM.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| match &self.store {
            Store::Words(Handle::File(file)) => file.take().map_or(Ok(()), |map| map.close()),
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
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    /// How many bytes of memory the map occupies.
    #[getter]
    fn nbytes(&self) -> PyResult<usize> {
        Ok(of_either!(self, map => map.memory()))
    }

    fn _get_all<'py>(&self, py: Python<'py>, key: &Bound<'_, PyAny>) -> PyResult<WordArray<'py>> {
        let mut values = vec![];
        of_key!(self, key, (map, _) => map.copy_all(key, &mut values));
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
        let map = self.words()?.open()?;
        let map = &*map;
        let (keys, values) = (Input::new(keys)?, Input::new(values)?);
        let (keys, values) = (keys.column(Some(&self.key))?, values.column(None)?);
        equal_lengths(keys.len(), values.len(), "values")?;
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
    ) -> PyResult<(Offsets<'py>, WordArray<'py>)> {
        let map = self.words()?.open()?;
        let map = &*map;
        let keys = Input::new(keys)?;
        let keys = keys.column(Some(&self.key))?;
        let (mut values, mut offsets) = (vec![], vec![0_i64]);
        let (mut buffer, mut ends) = (Box::new([0; BLOCK]), Box::new([0; BLOCK]));
        block_by_block(py, keys.len(), |range| {
            let block = keys.words(range, &mut buffer);
            map.copy_all_many(block, &mut values, &mut ends[..])?;
            // Ends are positions in `values`, whatever it held before.
            offsets.extend(ends[..block.len()].iter().map(|end| *end as i64));
            Ok(())
        })?;
        Ok((offsets.into_pyarray(py), values.into_pyarray(py)))
    }

    fn _count_words(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        counts: &Bound<'_, PyAny>,
        removes: bool,
    ) -> PyResult<usize> {
        let map = self.words()?.open()?;
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
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>)> {
        let mut counts = vec![];
        let keys = keys_of!(self, py, (map, push) => {
            map.for_each_key(&mut |key, count| {
                push(key);
                counts.push(count as i64);
                true
            });
            Ok(())
        });
        Ok((keys, counts.into_pyarray(py)))
    }

    /// Returns the keys, each once, offsets, one more than there are keys, and all values side by side.
    fn _groups<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Offsets<'py>, WordArray<'py>)> {
        let (mut offsets, mut values) = (vec![0_i64], vec![]);
        let keys = keys_of!(self, py, (map, push) => {
            map.for_each_group(&mut |key, group| {
                push(key);
                values.extend_from_slice(group);
                offsets.push(values.len() as i64);
                true
            });
            Ok(())
        });
        Ok((keys, offsets.into_pyarray(py), values.into_pyarray(py)))
    }

    /// Returns all keys and values, a key as often as it has values.
    fn _entries<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, WordArray<'py>)> {
        let mut values = vec![];
        let keys = keys_of!(self, py, (map, push) => {
            map.for_each(&mut |key, value| {
                push(key);
                values.push(value);
                true
            })
        });
        Ok((keys, values.into_pyarray(py)))
    }
}
