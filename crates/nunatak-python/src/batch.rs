//! Batches of numbers: arrays in, arrays out. Python is let go while they run.

use crate::columns::{Column, ColumnMut, Input, Output};
use crate::failure::exception;
use crate::map::{Map, Store};
use crate::sum::Sum;
use core::ops::Range;
use nunatak::{Compute, Error};
use nunatak_dynamic::{Amounts, BLOCK, Words};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// How many keys a thread handles between two looks for an interrupt: some tens of milliseconds.
const STEP: usize = 1 << 20;

/// More threads than this are a mistake.
const MOST_THREADS: usize = 1024;

/// How many keys ahead of the present one a loop prefetches.
const AHEAD: usize = 16;

/// Memory of a thread for a block: of words that are not in an array as they are.
pub(crate) struct Scratch {
    pub(crate) keys: Box<[u64; BLOCK]>,
    pub(crate) values: Box<[u64; BLOCK]>,
}

impl Scratch {
    fn new() -> Self {
        Self { keys: Box::new([0; BLOCK]), values: Box::new([0; BLOCK]) }
    }
}

/// Runs `each` for all positions, a block at a time, in this many threads, and returns the sum of
/// what it returns. Looks for an interrupt from time to time; what was done by then stays done.
pub(crate) fn in_blocks(
    py: Python<'_>,
    len: usize,
    threads: usize,
    each: impl Fn(Range<usize>, &mut Scratch) -> Result<usize, Error> + Sync,
) -> PyResult<usize> {
    if !(1..=MOST_THREADS).contains(&threads) {
        return Err(PyValueError::new_err(format!("a batch has 1 to {MOST_THREADS} threads")));
    }
    let (mut start, mut total) = (0, 0);
    while start < len {
        let end = len.min(start.saturating_add(STEP.saturating_mul(threads)));
        let step = start..end;
        let run = || {
            std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| all_of(step, threads, &each)))
        };
        total += py
            .detach(run)
            .map_err(|_| PyRuntimeError::new_err("the map was refused memory, or has panicked"))?
            .map_err(exception)?;
        start = end;
        py.check_signals()?;
    }
    Ok(total)
}

fn all_of(
    step: Range<usize>,
    threads: usize,
    each: &(impl Fn(Range<usize>, &mut Scratch) -> Result<usize, Error> + Sync),
) -> Result<usize, Error> {
    let part = step.len().div_ceil(threads).next_multiple_of(BLOCK);
    let one = |begin: usize| {
        let (mut sum, end) = (0, step.end.min(begin + part));
        let mut scratch = Scratch::new();
        for at in (begin..end).step_by(BLOCK) {
            sum += each(at..end.min(at + BLOCK), &mut scratch)?;
        }
        Ok(sum)
    };
    if threads == 1 || step.len() <= part {
        return one(step.start);
    }
    std::thread::scope(|scope| {
        let others: Vec<_> = (step.start + part..step.end)
            .step_by(part)
            .map(|begin| scope.spawn(move || one(begin)))
            .collect();
        let mut result = one(step.start);
        for other in others {
            let part = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            result = result.and_then(|sum| Ok(sum + part?));
        }
        result
    })
}

/// Stores bits of presence as a byte for each key.
///
/// # Safety
/// As [`ColumnMut::fill`].
pub(crate) unsafe fn store_mask(mask: &ColumnMut<'_>, range: Range<usize>, present: &[u64]) {
    // SAFETY: the caller's promise.
    let bytes = unsafe { mask.bytes(range) };
    for (bytes, word) in bytes.chunks_mut(64).zip(present) {
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = (word >> at & 1) as u8;
        }
    }
}

pub(crate) fn equal_lengths(keys: usize, others: usize, what: &str) -> PyResult<()> {
    match keys == others {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!("there are {keys} keys and {others} {what}"))),
    }
}

impl Map {
    fn words(&self) -> PyResult<&crate::handle::WordHandle> {
        match &self.store {
            Store::Words(handle) => Ok(handle),
            _ => Err(PyTypeError::new_err("keys and values of this map are not numbers")),
        }
    }

    /// Looks up or removes: fills values and the mask.
    fn columns_out(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        mask: &Bound<'_, PyAny>,
        threads: usize,
        operation: impl Fn(&dyn Words, &[u64], &mut [u64], &mut [u64]) -> Result<usize, Error> + Sync,
    ) -> PyResult<usize> {
        let map = self.words()?.open()?;
        let map = &*map;
        let (keys, mut values, mut mask) =
            (Input::new(keys)?, Output::new(values)?, Output::new(mask)?);
        let keys = keys.column(Some(&self.key))?;
        let (values, mask) = (values.column()?, mask.column()?);
        equal_lengths(keys.len(), values.len(), "values")?;
        equal_lengths(keys.len(), mask.len(), "items of the mask")?;
        in_blocks(py, keys.len(), threads, |range, scratch| {
            let Scratch { keys: of_keys, values: of_values } = scratch;
            let mut present = [0; BLOCK / 64];
            let keys = keys.words(range.clone(), of_keys);
            // SAFETY: blocks do not overlap, and each is one thread's.
            unsafe {
                let count = values.fill(range.clone(), of_values, |values| {
                    operation(map, keys, values, &mut present)
                })?;
                store_mask(&mask, range, &present);
                Ok(count)
            }
        })
    }
}

fn sum_floats(
    map: &dyn Words,
    sum: Sum,
    keys: &[u64],
    amount: impl Fn(usize) -> u64,
) -> Result<usize, Error> {
    let mut new = 0;
    for (at, key) in keys.iter().enumerate() {
        if let Some(later) = keys.get(at + AHEAD) {
            map.prefetch(*later);
        }
        let amount = amount(at);
        let before = map.compute(*key, &mut |value| {
            Compute::Put(value.map_or(amount, |value| sum.words(value, amount)))
        })?;
        new += usize::from(before.is_none());
    }
    Ok(new)
}

#[pymethods]
impl Map {
    fn _get_words(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        mask: &Bound<'_, PyAny>,
        threads: usize,
    ) -> PyResult<usize> {
        self.columns_out(py, keys, values, mask, threads, |map, keys, values, present| {
            map.get_columns(keys, values, present)
        })
    }

    fn _pop_words(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        mask: &Bound<'_, PyAny>,
        threads: usize,
    ) -> PyResult<usize> {
        self.columns_out(py, keys, values, mask, threads, |map, keys, values, present| {
            map.remove_columns(keys, values, present)
        })
    }

    fn _contains_words(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        mask: &Bound<'_, PyAny>,
        threads: usize,
    ) -> PyResult<usize> {
        let map = self.words()?.open()?;
        let map = &*map;
        let (keys, mut mask) = (Input::new(keys)?, Output::new(mask)?);
        let (keys, mask) = (keys.column(Some(&self.key))?, mask.column()?);
        equal_lengths(keys.len(), mask.len(), "items of the mask")?;
        in_blocks(py, keys.len(), threads, |range, scratch| {
            let Scratch { keys: of_keys, values } = scratch;
            let mut present = [0; BLOCK / 64];
            let keys = keys.words(range.clone(), of_keys);
            let count = map.get_columns(keys, &mut values[..], &mut present)?;
            // SAFETY: blocks do not overlap, and each is one thread's.
            unsafe { store_mask(&mask, range, &present) };
            Ok(count)
        })
    }

    fn _insert_words(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        threads: usize,
    ) -> PyResult<usize> {
        let map = self.words()?.open()?;
        let map = &*map;
        let (keys, values) = (Input::new(keys)?, Input::new(values)?);
        let (keys, values): (Column<'_>, Column<'_>) =
            (keys.column(Some(&self.key))?, values.column(None)?);
        equal_lengths(keys.len(), values.len(), "values")?;
        in_blocks(py, keys.len(), threads, |range, scratch| {
            let Scratch { keys: of_keys, values: of_values } = scratch;
            map.insert_columns(keys.words(range.clone(), of_keys), values.words(range, of_values))
        })
    }

    fn _add_words(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        amounts: Option<&Bound<'_, PyAny>>,
        amount: &Bound<'_, PyAny>,
        threads: usize,
    ) -> PyResult<usize> {
        let map = self.words()?.open()?;
        let map = &*map;
        let sum = Sum::of(&self.value)?;
        let keys = Input::new(keys)?;
        let keys = keys.column(Some(&self.key))?;
        let Some(amounts) = amounts else {
            let amount = self.value.to_word(amount, false)?;
            return in_blocks(py, keys.len(), threads, |range, scratch| {
                let keys = keys.words(range, &mut scratch.keys);
                match sum {
                    Sum::Integers => map.add_columns(keys, Amounts::Same(amount)),
                    Sum::Floats(_) => sum_floats(map, sum, keys, |_| amount),
                }
            });
        };
        let amounts = Input::new(amounts)?;
        let amounts = amounts.column(None)?;
        equal_lengths(keys.len(), amounts.len(), "amounts")?;
        in_blocks(py, keys.len(), threads, |range, scratch| {
            let Scratch { keys: of_keys, values: of_amounts } = scratch;
            let keys = keys.words(range.clone(), of_keys);
            let amounts = amounts.words(range, of_amounts);
            match sum {
                Sum::Integers => map.add_columns(keys, Amounts::Each(amounts)),
                Sum::Floats(_) => sum_floats(map, sum, keys, |at| amounts[at]),
            }
        })
    }
}
