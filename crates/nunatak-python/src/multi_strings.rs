//! Batches of multimaps whose keys are strings.

use crate::arrow::Parts;
use crate::batch::{equal_lengths, in_blocks};
use crate::columns::{Input, WordArray};
use crate::multi::{MultiMap, Offsets, block_by_block};
use crate::strings::Given;
use numpy::{IntoPyArray, PyArray1};
use nunatak_dynamic::BLOCK;
use pyo3::prelude::*;

#[pymethods]
impl MultiMap {
    /// Returns how many pairs were added; with `unique` those that were there are not.
    fn _insert_strings(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        threads: usize,
        unique: bool,
    ) -> PyResult<usize> {
        let map = self.blobs()?;
        let (keys, values) = (Given::without_nulls(keys, &self.key, true)?, Input::new(values)?);
        let (keys, values): (&Parts, _) = (&keys, values.column(None)?);
        equal_lengths(keys.len(), values.len(), "values")?;
        in_blocks(py, keys.len(), threads, |range, scratch| {
            let (keys, _) = keys.block(range.clone());
            let values = values.words(range, &mut scratch.values);
            let pairs: Vec<_> = keys.into_iter().zip(values.iter().copied()).collect();
            match unique {
                true => map.insert_unique_many(&pairs),
                false => map.insert_many(&pairs).map(|()| pairs.len()),
            }
        })
    }

    /// Returns offsets, one more than there are keys, and the values of all keys side by side. Null keys
    /// have no values.
    fn _get_all_strings<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'_, PyAny>,
    ) -> PyResult<(Offsets<'py>, WordArray<'py>)> {
        let map = self.blobs()?;
        let keys = Given::new(keys, &self.key, true)?;
        let keys: &Parts = &keys;
        let (mut values, mut offsets) = (vec![], vec![0; keys.len() + 1]);
        let mut ends = Box::new([0; BLOCK]);
        block_by_block(py, keys.len(), |range| {
            let (block, positions) = keys.block(range.clone());
            let mut end = values.len();
            map.copy_all_many(&block, &mut values, &mut ends[..])?;
            let mut known = positions.into_iter().zip(&ends[..]).peekable();
            for at in range {
                if let Some((_, end_of_it)) = known.next_if(|(position, _)| *position == at) {
                    end = *end_of_it;
                }
                offsets[at + 1] = end as i64;
            }
            Ok(())
        })?;
        Ok((offsets.into_pyarray(py), values.into_pyarray(py)))
    }

    /// Returns how many values each key has; with `removes` they are removed. Null keys have none.
    fn _count_strings<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'_, PyAny>,
        removes: bool,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let map = self.blobs()?;
        let keys = Given::new(keys, &self.key, true)?;
        let keys: &Parts = &keys;
        let mut counts = vec![0; keys.len()];
        let mut found = Box::new([0; BLOCK]);
        block_by_block(py, keys.len(), |range| {
            let (block, positions) = keys.block(range);
            match removes {
                true => map.remove_all_many(&block, &mut found[..])?,
                false => map.count_many(&block, &mut found[..])?,
            }
            for (position, count) in positions.into_iter().zip(&found[..]) {
                counts[position] = *count as i64;
            }
            Ok(())
        })?;
        Ok(counts.into_pyarray(py))
    }
}
