//! Functions for analysts: codes of distinct keys, and joins.

use crate::columns::Input;
use crate::failure::exception;
use crate::kind::Kind;
use numpy::{IntoPyArray, PyArray1};
use nunatak::{BatchError, DlhtMap};
use nunatak_dynamic::BLOCK;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;

fn refused(error: BatchError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Distinct keys numbered in the order of their first appearance.
struct Codes {
    map: DlhtMap<u64, u64>,
    /// The position of the first appearance of each.
    first: Vec<i64>,
}

impl Codes {
    fn new() -> PyResult<Self> {
        Ok(Self { map: DlhtMap::try_with_capacity(0).map_err(exception)?, first: vec![] })
    }

    /// Appends the codes of a block whose first key is at position `start`.
    fn extend(
        &mut self,
        keys: &[u64],
        start: usize,
        codes: &mut Vec<i64>,
    ) -> Result<(), BatchError> {
        let (mut values, mut present) = ([0; BLOCK], [0; BLOCK / 64]);
        // The cache misses of a block overlap.
        self.map.get_columns(keys, &mut values, &mut present)?;
        for (at, key) in keys.iter().enumerate() {
            let code = match present[at / 64] >> (at % 64) & 1 {
                1 => values[at],
                _ => {
                    let next = self.first.len() as u64;
                    // A key that comes twice in the block has its code already.
                    match self.map.try_insert(*key, next) {
                        Ok(()) => {
                            self.first.push((start + at) as i64);
                            next
                        }
                        Err(code) => code,
                    }
                }
            };
            codes.push(code as i64);
        }
        Ok(())
    }
}

/// Codes of a whole column.
fn codes_of(
    py: Python<'_>,
    column: &crate::columns::Column<'_>,
    codes: &mut Codes,
) -> PyResult<Vec<i64>> {
    let mut all = Vec::with_capacity(column.len());
    let mut start = 0;
    while start < column.len() {
        let end = column.len().min(start + (1 << 20));
        py.detach(|| {
            let mut buffer = [0; BLOCK];
            for at in (start..end).step_by(BLOCK) {
                let keys = column.words(at..end.min(at + BLOCK), &mut buffer);
                codes.extend(keys, at, &mut all)?;
            }
            Ok(())
        })
        .map_err(refused)?;
        start = end;
        py.check_signals()?;
    }
    Ok(all)
}

type Positions<'py> = Bound<'py, PyArray1<i64>>;

/// Returns a code for each key, and the position of the first appearance of each distinct key.
#[pyfunction]
pub(crate) fn factorize<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    kind: &str,
) -> PyResult<(Positions<'py>, Positions<'py>)> {
    let kind = Kind::parse(kind)?;
    let keys = Input::new(keys)?;
    let mut codes = Codes::new()?;
    let all = codes_of(py, &keys.column(Some(&kind))?, &mut codes)?;
    Ok((all.into_pyarray(py), codes.first.into_pyarray(py)))
}

/// Returns positions on the left and on the right whose keys are equal, in the order of the left
/// side; with `is_left` also keys of the left side alone, with the position -1 on the right.
#[pyfunction]
pub(crate) fn join<'py>(
    py: Python<'py>,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    kind: &str,
    is_left: bool,
) -> PyResult<(Positions<'py>, Positions<'py>)> {
    let kind = Kind::parse(kind)?;
    let (left, right) = (Input::new(left)?, Input::new(right)?);
    let (left, right) = (left.column(Some(&kind))?, right.column(Some(&kind))?);
    let mut codes = Codes::new()?;
    let of_right = codes_of(py, &right, &mut codes)?;
    let distinct = codes.first.len();
    // Positions on the right, ordered by code: those of code `c` are `starts[c]..starts[c + 1]`.
    let (starts, ordered) = py.detach(|| {
        let mut starts = vec![0_usize; distinct + 1];
        for code in &of_right {
            starts[*code as usize + 1] += 1;
        }
        for at in 0..distinct {
            starts[at + 1] += starts[at];
        }
        let (mut next, mut ordered) = (starts.clone(), vec![0_i64; of_right.len()]);
        for (position, code) in of_right.iter().enumerate() {
            let at = &mut next[*code as usize];
            ordered[*at] = position as i64;
            *at += 1;
        }
        (starts, ordered)
    });
    let is_unique = distinct == ordered.len();
    let (mut lefts, mut rights) = (vec![], vec![]);
    let mut start = 0;
    while start < left.len() {
        let end = left.len().min(start + (1 << 20));
        py.detach(|| {
            let mut buffer = [0; BLOCK];
            for at in (start..end).step_by(BLOCK) {
                let keys = left.words(at..end.min(at + BLOCK), &mut buffer);
                let (mut values, mut present) = ([0; BLOCK], [0; BLOCK / 64]);
                codes.map.get_columns(keys, &mut values, &mut present)?;
                for offset in 0..keys.len() {
                    let position = (at + offset) as i64;
                    if present[offset / 64] >> (offset % 64) & 1 == 0 {
                        if is_left {
                            lefts.push(position);
                            rights.push(-1);
                        }
                        continue;
                    }
                    let code = values[offset] as usize;
                    if is_unique {
                        lefts.push(position);
                        rights.push(codes.first[code]);
                        continue;
                    }
                    for right in &ordered[starts[code]..starts[code + 1]] {
                        lefts.push(position);
                        rights.push(*right);
                    }
                }
            }
            Ok(())
        })
        .map_err(refused)?;
        start = end;
        py.check_signals()?;
    }
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
