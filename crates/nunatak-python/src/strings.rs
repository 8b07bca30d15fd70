//! Batches of strings and byte strings.

use crate::batch::in_blocks;
use crate::columns::Input;
use crate::handle::BlobHandle;
use crate::kind::Kind;
use crate::map::{Map, Store};
use crate::sum::Sum;
use core::ops::Range;
use numpy::{IntoPyArray, PyArray1};
use nunatak::{Compute, Error};
use nunatak_dynamic::BLOCK;
use parking_lot::Mutex;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// A column of byte strings, side by side.
#[derive(Debug, Default)]
struct Strings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Strings {
    /// Copies what a map of this kind holds: from any iterable, or from an array of numbers.
    fn new(items: &Bound<'_, PyAny>, kind: &Kind, is_key: bool) -> PyResult<Self> {
        let mut strings = Self::default();
        if kind.is_word() {
            let input = Input::new(items)?;
            let column = input.column(is_key.then_some(kind))?;
            let mut buffer = [0; BLOCK];
            for start in (0..column.len()).step_by(BLOCK) {
                for word in column.words(start..column.len().min(start + BLOCK), &mut buffer) {
                    strings.push(&word.to_le_bytes());
                }
            }
            return Ok(strings);
        }
        for item in items.try_iter()? {
            kind.with_bytes(&item?, is_key, |bytes| strings.push(bytes))?;
        }
        Ok(strings)
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    fn block(&self, range: Range<usize>) -> Vec<&[u8]> {
        range.map(|at| self.get(at)).collect()
    }
}

/// What a block of lookups has found.
struct Found {
    start: usize,
    values: Strings,
    is_present: Vec<bool>,
}

impl Map {
    fn blobs(&self) -> PyResult<&BlobHandle> {
        match &self.store {
            Store::Blobs(handle) => Ok(handle),
            _ => Err(PyTypeError::new_err("neither keys nor values of this map are strings")),
        }
    }
}

fn equal_lengths(keys: usize, values: usize) -> PyResult<()> {
    match keys == values {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!("there are {keys} keys and {values} values"))),
    }
}

#[pymethods]
impl Map {
    /// Returns the values of all keys, and which keys are present. Values of absent keys are `None`,
    /// or zeros. Values that are numbers are an array of words.
    fn _get_strings<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray1<bool>>)> {
        let map = self.blobs()?.open()?;
        let map = &*map;
        let keys = Strings::new(keys, &self.key, true)?;
        let blocks = Mutex::new(vec![]);
        in_blocks(py, keys.len(), threads, |range, _| {
            let block = keys.block(range.clone());
            let mut found =
                Found { start: range.start, values: Strings::default(), is_present: vec![] };
            map.get_many(&block, &mut |_, value| {
                found.values.push(value.unwrap_or(&[]));
                found.is_present.push(value.is_some());
            });
            let count = found.is_present.iter().filter(|is_present| **is_present).count();
            blocks.lock().push(found);
            Ok(count)
        })?;
        let mut blocks = blocks.into_inner();
        blocks.sort_by_key(|found| found.start);
        let mask: Vec<_> = blocks.iter().flat_map(|found| found.is_present.clone()).collect();
        let each = || {
            blocks.iter().flat_map(|found| {
                let is_present = found.is_present.iter().enumerate();
                is_present.map(|(at, is_present)| is_present.then(|| found.values.get(at)))
            })
        };
        let values = if self.value.is_word() {
            let word = |value: Option<&[u8]>| {
                let bytes = value.and_then(|value| value.try_into().ok());
                bytes.map_or(0, u64::from_le_bytes)
            };
            each().map(word).collect::<Vec<_>>().into_pyarray(py).into_any()
        } else {
            let list = PyList::empty(py);
            for value in each() {
                let value = value.map(|value| self.value.object_of_bytes(py, value)).transpose()?;
                list.append(value)?;
            }
            list.into_any()
        };
        Ok((values, mask.into_pyarray(py)))
    }

    fn _insert_strings(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        threads: usize,
    ) -> PyResult<usize> {
        let map = self.blobs()?.open()?;
        let map = &*map;
        let (keys, values) =
            (Strings::new(keys, &self.key, true)?, Strings::new(values, &self.value, false)?);
        equal_lengths(keys.len(), values.len())?;
        in_blocks(py, keys.len(), threads, |range, _| {
            let entries: Vec<_> = range.map(|at| (keys.get(at), values.get(at))).collect();
            map.put_many(&entries)
        })
    }

    fn _remove_strings(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        threads: usize,
    ) -> PyResult<usize> {
        let map = self.blobs()?.open()?;
        let map = &*map;
        let keys = Strings::new(keys, &self.key, true)?;
        in_blocks(py, keys.len(), threads, |range, _| map.delete_many(&keys.block(range)))
    }

    /// Adds an amount for each key, or `amount` to all.
    fn _add_strings(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        amounts: Option<&Bound<'_, PyAny>>,
        amount: &Bound<'_, PyAny>,
        threads: usize,
    ) -> PyResult<usize> {
        let map = self.blobs()?.open()?;
        let map = &*map;
        let sum = Sum::of(&self.value)?;
        let keys = Strings::new(keys, &self.key, true)?;
        let amounts =
            amounts.map(|amounts| Strings::new(amounts, &self.value, false)).transpose()?;
        if let Some(amounts) = &amounts {
            equal_lengths(keys.len(), amounts.len())?;
        }
        let same = self.value.to_word(amount, false)?;
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
        let add = |at: usize| -> Result<bool, Error> {
            let amount = amounts.as_ref().and_then(|all| word(all.get(at))).unwrap_or(same);
            let before = map.compute(keys.get(at), &mut |value| {
                let value = value.and_then(word);
                let sum = value.map_or(amount, |value| sum.words(value, amount));
                Compute::Put(sum.to_le_bytes().to_vec())
            })?;
            Ok(before.is_none())
        };
        in_blocks(py, keys.len(), threads, |range, _| {
            let mut new = 0;
            for at in range {
                new += usize::from(add(at)?);
            }
            Ok(new)
        })
    }
}
