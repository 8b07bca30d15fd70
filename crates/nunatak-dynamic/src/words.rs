//! Maps of words of 8 bytes.

use crate::Table;
use crate::room::{Room, room_of_the_map};
use nunatak::{
    Compute, Design, DlhtMap, Error, HashesWith, IcebergMap, InlineMap, PeaMap, RandomState,
    TurboMap, Unshadowed,
};

/// How many keys a batch is divided into where its results need room of their own.
pub const BLOCK: usize = 4096;

/// What is added to values.
#[derive(Debug, Clone, Copy)]
pub enum Amounts<'a> {
    /// An amount for each key.
    Each(&'a [u64]),
    /// The same amount for all keys.
    Same(u64),
}

/// A concurrent map of words of 8 bytes.
///
/// Errors are those of the map in a file, or of memory. Operations on one key are linearizable. A
/// batch is its operations in order.
///
/// ```
/// use nunatak_dynamic::{Amounts, Table, words_in_ram};
///
/// let map = words_in_ram(Table::Pea, 0)?;
/// assert_eq!(map.insert_columns(&[1, 2], &[10, 20])?, 2);
/// assert_eq!(map.add_columns(&[2, 3], Amounts::Same(1))?, 1);
/// let (mut values, mut present) = ([0; 3], [0]);
/// assert_eq!(map.get_columns(&[3, 4, 2], &mut values, &mut present)?, 2);
/// assert_eq!((values, present), ([1, 0, 21], [0b101]));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub trait Words: Room + Send + Sync {
    /// Returns the key's value.
    fn get(&self, key: u64) -> Option<u64>;

    /// Stores the value and returns the one that it replaced.
    ///
    /// # Errors
    /// Those of the file.
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error>;

    /// Stores the value if the key is absent; otherwise returns the present value.
    ///
    /// # Errors
    /// Those of the file.
    fn try_insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error>;

    /// Replaces the value if the key is present, and returns the one before.
    ///
    /// # Errors
    /// Those of the file.
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>, Error>;

    /// Replaces the value if it is `current`. Otherwise returns what is there.
    ///
    /// # Errors
    /// Those of the file.
    fn compare_exchange(
        &self,
        key: u64,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, Option<u64>>, Error>;

    /// Keeps, replaces or removes the value as `change` decides, and returns the one before. `change`
    /// may run more than once.
    ///
    /// # Errors
    /// Those of the file.
    fn compute(
        &self,
        key: u64,
        change: &mut dyn FnMut(Option<u64>) -> Compute<u64>,
    ) -> Result<Option<u64>, Error>;

    /// Removes the key and returns its value.
    ///
    /// # Errors
    /// Those of the file.
    fn remove(&self, key: u64) -> Result<Option<u64>, Error>;

    /// Looks up all keys and returns how many are present. Bit `i % 64` of `present[i / 64]` tells
    /// whether `keys[i]` is. The values of absent keys are left alone.
    ///
    /// # Errors
    /// If `values` or `present` is too short; nothing was done.
    fn get_columns(
        &self,
        keys: &[u64],
        values: &mut [u64],
        present: &mut [u64],
    ) -> Result<usize, Error>;

    /// Stores `values[i]` under `keys[i]` and returns how many keys were new.
    ///
    /// # Errors
    /// If the columns differ in length (nothing was done), or those of the file.
    fn insert_columns(&self, keys: &[u64], values: &[u64]) -> Result<usize, Error>;

    /// Adds to the values, wrapping around; an absent key counts as zero. Returns how many keys were
    /// new.
    ///
    /// # Errors
    /// If the columns differ in length (nothing was done), or those of the file.
    fn add_columns(&self, keys: &[u64], amounts: Amounts<'_>) -> Result<usize, Error>;

    /// Removes all keys, in order, with the results of [`get_columns`](Self::get_columns).
    ///
    /// # Errors
    /// If `values` or `present` is too short (nothing was done), or those of the file.
    fn remove_columns(
        &self,
        keys: &[u64],
        values: &mut [u64],
        present: &mut [u64],
    ) -> Result<usize, Error>;

    /// Begins to load what an operation on the key touches first.
    fn prefetch(&self, key: u64);

    /// Calls `each` for every entry of a consistent cut, until it returns false.
    ///
    /// # Errors
    /// If memory for the cut is refused.
    fn for_each(&self, each: &mut dyn FnMut(u64, u64) -> bool) -> Result<(), Error>;

    /// Returns an entry, if there is one.
    fn any(&self) -> Option<(u64, u64)>;

    /// Removes every entry.
    ///
    /// # Errors
    /// Those of the file.
    fn clear(&self) -> Result<(), Error>;

    /// Returns the figures of the table, as text.
    fn stats(&self) -> String;
}

/// Makes an empty map in RAM with room for `capacity` entries.
///
/// # Errors
/// If the capacity does not fit the address space, or memory is refused.
///
/// ```
/// use nunatak_dynamic::{Table, words_in_ram};
/// assert!(words_in_ram(Table::Turbo, 1000)?.is_empty());
/// assert!(words_in_ram(Table::Turbo, usize::MAX).is_err());
/// # Ok::<(), nunatak::Error>(())
/// ```
pub fn words_in_ram(table: Table, capacity: usize) -> Result<Box<dyn Words>, Error> {
    Ok(match table {
        Table::Dlht => Box::new(DlhtMap::<u64, u64>::try_with_capacity(capacity)?),
        Table::Iceberg => Box::new(IcebergMap::<u64, u64>::try_with_capacity(capacity)?),
        Table::Pea => Box::new(PeaMap::<u64, u64>::try_with_capacity(capacity)?),
        Table::Turbo => Box::new(TurboMap::<u64, u64>::try_with_capacity(capacity)?),
    })
}

const UNEQUAL_COLUMNS: Error =
    Error::InvalidOption { option: "columns", expected: "of one length" };

/// How many keys of columns go through the map's own batches at once, in RAM.
pub(crate) const PART: usize = 256;

pub(crate) const SHORT_RESULTS: Error =
    Error::InvalidOption { option: "results", expected: "as long as the keys" };

/// Refuses columns of different lengths.
pub(crate) fn check_columns(keys: usize, others: usize) -> Result<(), Error> {
    match keys == others {
        true => Ok(()),
        false => Err(UNEQUAL_COLUMNS),
    }
}

/// Refuses columns for results that are too short.
pub(crate) fn check_results(keys: usize, values: usize, present: usize) -> Result<(), Error> {
    match keys <= values && keys <= present.saturating_mul(64) {
        true => Ok(()),
        false => Err(SHORT_RESULTS),
    }
}

impl<D> Room for InlineMap<u64, u64, RandomState, D>
where
    D: HashesWith<RandomState> + Unshadowed + Design,
    Self: Send + Sync,
{
    room_of_the_map!();
}

impl<D> Words for InlineMap<u64, u64, RandomState, D>
where
    D: HashesWith<RandomState> + Unshadowed + Design,
    Self: Send + Sync,
{
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        Ok(self.insert(key, value))
    }

    fn try_insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        Ok(self.try_insert(key, value).err())
    }

    fn update(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        Ok(self.update(&key, value))
    }

    fn compare_exchange(
        &self,
        key: u64,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, Option<u64>>, Error> {
        Ok(self.compare_exchange(&key, &current, new))
    }

    fn compute(
        &self,
        key: u64,
        change: &mut dyn FnMut(Option<u64>) -> Compute<u64>,
    ) -> Result<Option<u64>, Error> {
        Ok(self.compute(key, |value| change(value.copied())))
    }

    fn remove(&self, key: u64) -> Result<Option<u64>, Error> {
        Ok(self.remove(&key))
    }

    fn get_columns(
        &self,
        keys: &[u64],
        values: &mut [u64],
        present: &mut [u64],
    ) -> Result<usize, Error> {
        check_results(keys.len(), values.len(), present.len())?;
        self.get_columns(keys, values, present).map_err(|_| SHORT_RESULTS)
    }

    fn insert_columns(&self, keys: &[u64], values: &[u64]) -> Result<usize, Error> {
        check_columns(keys.len(), values.len())?;
        self.insert_columns(keys, values).map_err(|_| UNEQUAL_COLUMNS)
    }

    fn add_columns(&self, keys: &[u64], amounts: Amounts<'_>) -> Result<usize, Error> {
        let refused = UNEQUAL_COLUMNS;
        match amounts {
            Amounts::Each(amounts) => self.fetch_add_columns(keys, amounts).map_err(|_| refused),
            Amounts::Same(amount) => {
                let (same, mut new) = ([amount; 256], 0);
                for keys in keys.chunks(same.len()) {
                    new +=
                        self.fetch_add_columns(keys, &same[..keys.len()]).map_err(|_| refused)?;
                }
                Ok(new)
            }
        }
    }

    fn remove_columns(
        &self,
        keys: &[u64],
        values: &mut [u64],
        present: &mut [u64],
    ) -> Result<usize, Error> {
        in_parts(PART, keys, values, present, |keys, removed| {
            self.remove_many(keys, removed).map_err(|_| SHORT_RESULTS)
        })
    }

    fn prefetch(&self, key: u64) {
        self.prefetch(&key);
    }

    fn for_each(&self, each: &mut dyn FnMut(u64, u64) -> bool) -> Result<(), Error> {
        self.snapshot()?.all(|(key, value)| each(key, value));
        Ok(())
    }

    fn any(&self) -> Option<(u64, u64)> {
        self.iter().next()
    }

    fn clear(&self) -> Result<(), Error> {
        self.clear();
        Ok(())
    }

    fn stats(&self) -> String {
        format!("{:?}", self.stats())
    }
}

/// Runs an operation on many keys in parts of so many, and writes the values that it returns to columns.
/// Returns the sum of what it returns besides.
pub(crate) fn in_parts(
    part: usize,
    keys: &[u64],
    values: &mut [u64],
    present: &mut [u64],
    mut run: impl FnMut(&[u64], &mut [Option<u64>]) -> Result<usize, Error>,
) -> Result<usize, Error> {
    check_results(keys.len(), values.len(), present.len())?;
    let (mut found, mut count, mut at) = (vec![None; part.min(keys.len())], 0, 0);
    for keys in keys.chunks(part) {
        let found = &mut found[..keys.len()];
        count += run(keys, found)?;
        spread(found, at, values, present);
        at += keys.len();
    }
    Ok(count)
}

/// Stores options as values and bits, from position `at` on.
fn spread(found: &[Option<u64>], at: usize, values: &mut [u64], present: &mut [u64]) {
    for (position, found) in (at..).zip(found) {
        let bit = 1 << (position % 64);
        match found {
            Some(value) => {
                values[position] = *value;
                present[position / 64] |= bit;
            }
            None => present[position / 64] &= !bit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_each_part_are_in_their_places() {
        let keys: Vec<u64> = (0..600).collect();
        let (mut values, mut present) = (vec![0; 600], vec![u64::MAX; 10]);
        let value = |key: u64| (!key.is_multiple_of(3)).then_some(key + 1);
        let mut run = |keys: &[u64], found: &mut [Option<u64>]| {
            found.iter_mut().zip(keys).for_each(|(found, &key)| *found = value(key));
            Ok(found.iter().flatten().count())
        };
        assert_eq!(in_parts(PART, &keys, &mut values, &mut present, &mut run), Ok(400));
        for key in keys.iter().copied() {
            let at = key as usize;
            let found = (present[at / 64] >> (at % 64) & 1 == 1).then_some(values[at]);
            assert_eq!(found, value(key));
        }
        let short = in_parts(PART, &keys, &mut values[..599], &mut present, &mut run);
        assert_eq!(short, Err(SHORT_RESULTS));
        let short = in_parts(PART, &keys, &mut values, &mut present[..9], &mut run);
        assert_eq!(short, Err(SHORT_RESULTS));
    }
}
