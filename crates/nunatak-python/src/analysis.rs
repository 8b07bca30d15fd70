//! Functions for analysts: codes of distinct keys, joins, membership.

use crate::arrow::ArrowColumn;
use crate::batch::{in_blocks, store_mask};
use crate::codes::{Codes, Keys, NONE};
use crate::columns::{Input, Output};
use crate::failure::exception;
use crate::kind::Kind;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use nunatak::{BatchError, Error};
use nunatak_dynamic::BLOCK;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;

/// How many keys are handled between two looks for an interrupt.
const STEP: usize = 1 << 20;

fn refused(error: BatchError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// What Python passes for a column: words and a mask of those that are there, or strings.
pub(crate) enum Source<'py> {
    Words(Input<'py>, Option<PyReadonlyArray1<'py, bool>>),
    Strings(Bound<'py, ArrowColumn>),
}

impl<'py> FromPyObject<'_, 'py> for Source<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(column) = object.cast::<ArrowColumn>() {
            return Ok(Self::Strings(column.to_owned()));
        }
        let (words, mask): (Bound<'py, PyAny>, Option<PyReadonlyArray1<'py, bool>>) =
            object.extract()?;
        Ok(Self::Words(Input::new(&words)?, mask))
    }
}

impl Source<'_> {
    fn keys(&self, kind: &Kind) -> PyResult<Keys<'_>> {
        Ok(match self {
            Self::Words(words, mask) => {
                let (words, mask) = (words.column(Some(kind))?, mask.as_ref());
                let mask = mask.map(|mask| mask.as_slice()).transpose()?;
                if mask.is_some_and(|mask| mask.len() != words.len()) {
                    return Err(PyValueError::new_err("the mask is as long as the column"));
                }
                Keys::Words(words, mask)
            }
            Self::Strings(column) => Keys::Strings(&column.get().parts),
        })
    }
}

/// Runs `each` for all blocks of a column of this length, while Python is let go; looks for an
/// interrupt from time to time.
fn by_blocks(
    py: Python<'_>,
    len: usize,
    mut each: impl FnMut(core::ops::Range<usize>) -> Result<(), BatchError> + Send,
) -> PyResult<()> {
    for start in (0..len).step_by(STEP) {
        let end = len.min(start + STEP);
        py.detach(|| (start..end).step_by(BLOCK).try_for_each(|at| each(at..end.min(at + BLOCK))))
            .map_err(refused)?;
        py.check_signals()?;
    }
    Ok(())
}

/// Codes of a whole column, and of each of its keys.
fn codes_of<'a>(py: Python<'_>, keys: Keys<'a>, hash_bits: u32) -> PyResult<(Codes<'a>, Vec<i64>)> {
    let mut codes = Codes::new(keys, hash_bits).map_err(exception)?;
    let mut all = Vec::with_capacity(keys.len());
    by_blocks(py, keys.len(), |range| codes.extend(range, &mut all))?;
    Ok((codes, all))
}

type Positions<'py> = Bound<'py, PyArray1<i64>>;

/// Returns a code for each key, -1 for nulls, and the position of the first appearance of each distinct
/// key.
#[pyfunction]
#[pyo3(signature = (keys, kind, hash_bits=64))]
pub(crate) fn factorize<'py>(
    py: Python<'py>,
    keys: Source<'py>,
    kind: &str,
    hash_bits: u32,
) -> PyResult<(Positions<'py>, Positions<'py>)> {
    let (codes, all) = codes_of(py, keys.keys(&Kind::parse(kind)?)?, hash_bits)?;
    Ok((all.into_pyarray(py), codes.first.into_pyarray(py)))
}

/// Fills a mask of the values that are among others; nulls are not.
#[pyfunction]
#[pyo3(signature = (values, among, kind, mask, threads, hash_bits=64))]
pub(crate) fn isin(
    py: Python<'_>,
    values: Source<'_>,
    among: Source<'_>,
    kind: &str,
    mask: &Bound<'_, PyAny>,
    threads: usize,
    hash_bits: u32,
) -> PyResult<usize> {
    let kind = Kind::parse(kind)?;
    let (codes, _) = codes_of(py, among.keys(&kind)?, hash_bits)?;
    let mut mask = Output::new(mask)?;
    let (values, mask) = (values.keys(&kind)?, mask.column()?);
    if values.len() != mask.len() {
        return Err(PyValueError::new_err("the mask is as long as the column"));
    }
    in_blocks(py, values.len(), threads, |range, _| {
        let (mut found, mut present) = ([NONE; BLOCK], [0; BLOCK / 64]);
        let unequal = Error::InvalidOption { option: "columns", expected: "of one length" };
        codes.find(&values, range.clone(), &mut found).map_err(|_| unequal)?;
        for (at, code) in found[..range.len()].iter().enumerate() {
            present[at / 64] |= u64::from(*code != NONE) << (at % 64);
        }
        // SAFETY: blocks do not overlap, and each is one thread's.
        unsafe { store_mask(&mask, range, &present) };
        Ok(0)
    })
}

/// Positions of keys, ordered by their codes.
struct Ordered {
    /// Those of code `c` are `positions[starts[c]..starts[c + 1]]`.
    starts: Vec<usize>,
    positions: Vec<i64>,
}

impl Ordered {
    fn new(codes: &[i64], distinct: usize) -> Self {
        let known = || (0_i64..).zip(codes).filter(|(_, code)| **code != NONE);
        let mut starts = vec![0_usize; distinct + 1];
        for (_, code) in known() {
            starts[*code as usize + 1] += 1;
        }
        for at in 0..distinct {
            starts[at + 1] += starts[at];
        }
        let (mut next, mut positions) = (starts.clone(), vec![0; starts[distinct]]);
        for (position, code) in known() {
            let at = &mut next[*code as usize];
            positions[*at] = position;
            *at += 1;
        }
        Self { starts, positions }
    }
}

/// Returns positions on the left and on the right whose keys are equal, in the order of the left
/// side; with `is_left` also keys of the left side alone, with the position -1 on the right. Nulls are
/// equal to nothing.
#[pyfunction]
#[pyo3(signature = (left, right, kind, is_left, hash_bits=64))]
pub(crate) fn join<'py>(
    py: Python<'py>,
    left: Source<'py>,
    right: Source<'py>,
    kind: &str,
    is_left: bool,
    hash_bits: u32,
) -> PyResult<(Positions<'py>, Positions<'py>)> {
    let kind = Kind::parse(kind)?;
    let left = left.keys(&kind)?;
    let (codes, of_right) = codes_of(py, right.keys(&kind)?, hash_bits)?;
    let distinct = codes.first.len();
    let ordered = py.detach(|| Ordered::new(&of_right, distinct));
    let is_unique = distinct == ordered.positions.len();
    let (mut lefts, mut rights) = (vec![], vec![]);
    by_blocks(py, left.len(), |range| {
        let mut found = [NONE; BLOCK];
        codes.find(&left, range.clone(), &mut found)?;
        for (position, code) in range.zip(found) {
            let position = position as i64;
            if code == NONE {
                if is_left {
                    lefts.push(position);
                    rights.push(NONE);
                }
                continue;
            }
            let code = code as usize;
            if is_unique {
                lefts.push(position);
                rights.push(codes.first[code]);
                continue;
            }
            for right in &ordered.positions[ordered.starts[code]..ordered.starts[code + 1]] {
                lefts.push(position);
                rights.push(*right);
            }
        }
        Ok(())
    })?;
    Ok((lefts.into_pyarray(py), rights.into_pyarray(py)))
}

/// Makes a new file of what can be read in a damaged one. Returns how many entries are sure, how many
/// are doubtful, and what is wrong.
#[pyfunction]
pub(crate) fn salvage(
    py: Python<'_>,
    path: PathBuf,
    new: PathBuf,
) -> PyResult<(usize, usize, Vec<String>)> {
    let salvaged = py.detach(|| nunatak_dynamic::salvage(&path, &new)).map_err(exception)?;
    let damages = salvaged.damages.iter().map(ToString::to_string).collect();
    Ok((salvaged.sure, salvaged.doubtful, damages))
}
