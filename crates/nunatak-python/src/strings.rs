//! Batches of strings and byte strings.

use crate::arrow::{ArrowColumn, Parts, Strings};
use crate::batch::{equal_lengths, in_blocks};
use crate::columns::WordArray;
use crate::failure::exception;
use crate::handle::BlobHandle;
use crate::kind::Kind;
use crate::map::{Map, Store};
use crate::sum::Sum;
use core::ops::{Deref, Range};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use nunatak::{Compute, Error};
use nunatak_dynamic::Blobs;
use parking_lot::Mutex;
use pyo3::exceptions::{PyTypeError, PyUnicodeDecodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// The strings of a batch: a column where it lies, or copies.
pub(crate) enum Given<'py> {
    Column(Bound<'py, ArrowColumn>),
    Copies(Parts),
}

impl<'py> Given<'py> {
    pub(crate) fn new(items: &Bound<'py, PyAny>, kind: &Kind, is_key: bool) -> PyResult<Self> {
        let Ok(column) = items.cast::<ArrowColumn>() else {
            return Parts::of_items(items, kind, is_key, false).map(Self::Copies);
        };
        if column.get().kind != *kind {
            let (kind, other) = (kind.name(), column.get().kind.name());
            return Err(PyTypeError::new_err(format!("expected {kind}, not a column of {other}")));
        }
        Ok(Self::Column(column.clone()))
    }

    /// As [`new`](Self::new), for what is stored: nulls are refused, and text that is not UTF-8.
    pub(crate) fn without_nulls(
        items: &Bound<'py, PyAny>,
        kind: &Kind,
        is_key: bool,
    ) -> PyResult<Self> {
        let given = Self::new(items, kind, is_key)?;
        if given.has_nulls() {
            let what = if is_key { "keys" } else { "values" };
            return Err(PyValueError::new_err(format!(
                "{what} have nulls, which a map can't hold"
            )));
        }
        // Whoever made a column answers for its text, and few check it.
        if *kind == Kind::Str && matches!(given, Self::Column(_)) {
            check_text(items.py(), &given)?;
        }
        Ok(given)
    }
}

impl Deref for Given<'_> {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        match self {
            Self::Column(column) => &column.get().parts,
            Self::Copies(parts) => parts,
        }
    }
}

fn word_of(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().map(u64::from_le_bytes).ok()
}

/// Words that were stored as byte strings; zero for nulls.
fn words<'py>(py: Python<'py>, parts: &Parts) -> WordArray<'py> {
    parts
        .iter()
        .map(|item| item.and_then(word_of).unwrap_or(0))
        .collect::<Vec<_>>()
        .into_pyarray(py)
}

/// A result as a column; an array if it has words.
pub(crate) fn column<'py>(
    py: Python<'py>,
    kind: &Kind,
    parts: Parts,
) -> PyResult<Bound<'py, PyAny>> {
    if kind.is_word() {
        return Ok(words(py, &parts).into_any());
    }
    // A file does not know whether its byte strings are text, and whoever takes the column relies on it.
    if *kind == Kind::Str {
        check_text(py, &parts)?;
    }
    Ok(Bound::new(py, ArrowColumn::of_parts(kind, parts))?.into_any())
}

/// Fails with the first string that is not UTF-8. Other threads run meanwhile.
fn check_text(py: Python<'_>, parts: &Parts) -> PyResult<()> {
    let wrong = py.detach(|| {
        let mut items = parts.iter().flatten();
        items.find_map(|item| Some((item, core::str::from_utf8(item).err()?)))
    });
    match wrong {
        Some((item, error)) => Err(PyUnicodeDecodeError::new_err_from_utf8(py, item, error)),
        None => Ok(()),
    }
}

impl Map {
    fn blobs(&self) -> PyResult<&BlobHandle> {
        match &self.store {
            Store::Blobs(handle) => Ok(handle),
            _ => Err(PyTypeError::new_err("neither keys nor values of this map are strings")),
        }
    }
}

#[pymethods]
impl Map {
    /// Returns the values, and a mask of the keys that are present. Absent keys have nulls in a column,
    /// None in a list, and zeros in an array of words, which values that are numbers are. `there` tells
    /// which keys that are numbers are no nulls.
    #[pyo3(signature = (keys, threads, as_column, there=None))]
    fn _get_strings<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        threads: usize,
        as_column: bool,
        there: Option<PyReadonlyArray1<'py, bool>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray1<bool>>)> {
        let map = self.blobs()?.open()?;
        let map = &*map;
        let keys = match &there {
            Some(there) => {
                Given::Copies(Parts::of_words(keys, &self.key, true, Some(there.as_slice()?))?)
            }
            None => Given::new(keys, &self.key, true)?,
        };
        let keys: &Parts = &keys;
        let blocks = Mutex::new(vec![]);
        in_blocks(py, keys.len(), threads, |range, _| {
            let found = looked_up(map, keys, range.clone());
            blocks.lock().push((range.start, found));
            Ok(0)
        })?;
        let mut blocks = blocks.into_inner();
        blocks.sort_by_key(|(start, _)| *start);
        let values = Parts::of_strings(blocks.into_iter().map(|(_, found)| found));
        let mask: Vec<_> = values.iter().map(|value| value.is_some()).collect();
        let values = if as_column || self.value.is_word() {
            column(py, &self.value, values)?
        } else {
            let list = PyList::empty(py);
            for value in values.iter() {
                let value = value.map(|value| self.value.object_of_bytes(py, value)).transpose()?;
                list.append(value)?;
            }
            list.into_any()
        };
        Ok((values, mask.into_pyarray(py)))
    }

    /// Returns all keys and all values of one moment: columns, and arrays of words.
    fn _string_columns<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let map = self.blobs()?.open()?;
        let map = &*map;
        let (mut keys, mut values) = (Strings::new(), Strings::new());
        py.detach(|| {
            map.for_each(&mut |key, value| {
                keys.push(Some(key));
                values.push(Some(value));
                true
            })
        })
        .map_err(exception)?;
        let (keys, values) = (Parts::of_strings([keys]), Parts::of_strings([values]));
        Ok((column(py, &self.key, keys)?, column(py, &self.value, values)?))
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
        let (keys, values) = (
            Given::without_nulls(keys, &self.key, true)?,
            Given::without_nulls(values, &self.value, false)?,
        );
        let (keys, values): (&Parts, &Parts) = (&keys, &values);
        equal_lengths(keys.len(), values.len(), "values")?;
        in_blocks(py, keys.len(), threads, |range, _| {
            let entries: Vec<_> = range.filter_map(|at| keys.get(at).zip(values.get(at))).collect();
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
        let keys = Given::new(keys, &self.key, true)?;
        let keys: &Parts = &keys;
        in_blocks(py, keys.len(), threads, |range, _| map.delete_many(&keys.block(range).0))
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
        let keys = Given::without_nulls(keys, &self.key, true)?;
        let amounts =
            amounts.map(|all| Given::without_nulls(all, &self.value, false)).transpose()?;
        let (keys, amounts): (&Parts, Option<&Parts>) = (&keys, amounts.as_deref());
        if let Some(amounts) = amounts {
            equal_lengths(keys.len(), amounts.len(), "amounts")?;
        }
        let same = self.value.to_word(amount, false)?;
        let add = |at: usize| -> Result<bool, Error> {
            let amount = amounts.and_then(|all| all.get(at)).and_then(word_of).unwrap_or(same);
            let before = map.compute(keys.get(at).unwrap_or_default(), &mut |value| {
                let value = value.and_then(word_of);
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

/// Looks a block of keys up; null keys are absent.
fn looked_up(map: &dyn Blobs, keys: &Parts, range: Range<usize>) -> Strings {
    let (block, positions) = keys.block(range.clone());
    let (mut found, mut next) = (Strings::new(), range.start);
    map.get_many(&block, &mut |index, value| {
        (next..positions[index]).for_each(|_| found.push(None));
        found.push(value);
        next = positions[index] + 1;
    });
    (next..range.end).for_each(|_| found.push(None));
    found
}
