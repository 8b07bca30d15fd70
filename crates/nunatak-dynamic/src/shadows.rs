//! Maps whose inserts may be hidden until a transaction commits.

use crate::blobs::blobs_by_the_map;
use crate::room::{Room, room_of_the_map};
use crate::words::{PART, SHORT_RESULTS, check_columns, check_results, in_parts};
use crate::{Amounts, BlobChange, Blobs, Pinned, Words};
use nunatak::alloc::Allocator;
use nunatak::entry::Format;
use nunatak::{Compute, DlhtShadowMap, DlhtShadowRecordMap, Error};

/// A map of words of 8 bytes for transactions: a key can be inserted hidden, which locks it until the key
/// is committed or aborted. See [`DlhtShadowMap`].
///
/// Methods of [`Words`] treat a hidden key as absent; those that would insert it return
/// [`Error::Shadowed`].
///
/// ```
/// use nunatak::Error;
/// use nunatak_dynamic::{ShadowWords, Words};
///
/// let map = ShadowWords::with_capacity(0)?;
/// map.shadow_insert(7)?;
/// assert_eq!((map.get(7), map.insert(7, 1)), (None, Err(Error::Shadowed)));
/// map.commit_shadow(7, 49)?;
/// assert_eq!(map.get(7), Some(49));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct ShadowWords(DlhtShadowMap<u64, u64>);

impl ShadowWords {
    /// Makes an empty map in RAM with room for `capacity` entries.
    ///
    /// # Errors
    /// If the capacity does not fit the address space, or memory is refused.
    pub fn with_capacity(capacity: usize) -> Result<Self, Error> {
        DlhtShadowMap::try_with_capacity(capacity).map(Self)
    }

    /// Inserts a key hidden.
    ///
    /// # Errors
    /// [`Error::Present`] or [`Error::Shadowed`].
    pub fn shadow_insert(&self, key: u64) -> Result<(), Error> {
        self.0.shadow_insert(key).map(|shadow| {
            shadow.keep();
        })
    }

    /// Inserts all keys hidden, in order, or none of them.
    ///
    /// # Errors
    /// The index of the first key that is present or hidden, and which of both it is.
    pub fn shadow_insert_many(&self, keys: &[u64]) -> Result<(), (usize, Error)> {
        let shadows = self.0.shadow_insert_many(keys)?;
        shadows.into_iter().for_each(|shadow| {
            shadow.keep();
        });
        Ok(())
    }

    /// Shows a hidden key with its value.
    ///
    /// # Errors
    /// [`Error::NotShadowed`] if the key is not hidden.
    pub fn commit_shadow(&self, key: u64, value: u64) -> Result<(), Error> {
        self.0.commit_shadow(&key, value)
    }

    /// Removes a hidden key.
    ///
    /// # Errors
    /// [`Error::NotShadowed`] if the key is not hidden.
    pub fn abort_shadow(&self, key: u64) -> Result<(), Error> {
        self.0.abort_shadow(&key)
    }
}

impl Room for ShadowWords {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn reserve(&self, additional: usize) -> Result<(), Error> {
        self.0.reserve(additional)
    }

    fn shrink_to_fit(&self) -> Result<(), Error> {
        self.0.shrink_to_fit()
    }

    fn memory(&self) -> usize {
        self.0.memory_usage().resident
    }

    fn load_factor(&self) -> f64 {
        self.0.load_factor()
    }
}

impl Words for ShadowWords {
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key)
    }

    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.0.insert(key, value)
    }

    fn try_insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.0.try_insert(key, value).map(Result::err)
    }

    fn update(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        Ok(self.0.update(&key, value))
    }

    fn compare_exchange(
        &self,
        key: u64,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, Option<u64>>, Error> {
        Ok(self.0.compare_exchange(&key, &current, new))
    }

    fn compute(
        &self,
        key: u64,
        change: &mut dyn FnMut(Option<u64>) -> Compute<u64>,
    ) -> Result<Option<u64>, Error> {
        self.0.compute(key, |value| change(value.copied()))
    }

    fn remove(&self, key: u64) -> Result<Option<u64>, Error> {
        Ok(self.0.remove(&key))
    }

    fn get_columns(
        &self,
        keys: &[u64],
        values: &mut [u64],
        present: &mut [u64],
    ) -> Result<usize, Error> {
        check_results(keys.len(), values.len(), present.len())?;
        self.0.get_columns(keys, values, present).map_err(|_| SHORT_RESULTS)
    }

    fn insert_columns(&self, keys: &[u64], values: &[u64]) -> Result<usize, Error> {
        check_columns(keys.len(), values.len())?;
        let (mut entries, mut new) = ([(0, 0); 256], 0);
        for (keys, values) in keys.chunks(entries.len()).zip(values.chunks(entries.len())) {
            let pairs = keys.iter().copied().zip(values.iter().copied());
            entries.iter_mut().zip(pairs).for_each(|(entry, pair)| *entry = pair);
            new += self.0.insert_many(&entries[..keys.len()]).map_err(|(_, error)| error)?;
        }
        Ok(new)
    }

    fn add_columns(&self, keys: &[u64], amounts: Amounts<'_>) -> Result<usize, Error> {
        if let Amounts::Each(amounts) = amounts {
            check_columns(keys.len(), amounts.len())?;
        }
        let mut new = 0;
        for (at, &key) in keys.iter().enumerate() {
            let amount = match amounts {
                Amounts::Each(amounts) => amounts[at],
                Amounts::Same(amount) => amount,
            };
            let sum =
                |value: Option<&u64>| value.map_or(amount, |value| value.wrapping_add(amount));
            let before = self.0.compute(key, |value| Compute::Put(sum(value)))?;
            new += usize::from(before.is_none());
        }
        Ok(new)
    }

    fn remove_columns(
        &self,
        keys: &[u64],
        values: &mut [u64],
        present: &mut [u64],
    ) -> Result<usize, Error> {
        in_parts(PART, keys, values, present, |keys, removed| {
            self.0.remove_many(keys, removed).map_err(|_| SHORT_RESULTS)
        })
    }

    fn prefetch(&self, key: u64) {
        self.0.prefetch(&key);
    }

    fn for_each(&self, each: &mut dyn FnMut(u64, u64) -> bool) -> Result<(), Error> {
        self.0.snapshot()?.all(|(key, value)| each(key, value));
        Ok(())
    }

    fn any(&self) -> Option<(u64, u64)> {
        self.0.iter().next()
    }

    fn clear(&self) -> Result<(), Error> {
        self.0.clear();
        Ok(())
    }

    fn stats(&self) -> String {
        format!("{:?}", self.0.stats())
    }
}

/// A map of byte strings for transactions: an entry can be inserted hidden, which locks its key until the
/// entry is committed or aborted. See [`DlhtShadowRecordMap`].
///
/// Methods of [`Blobs`] treat a hidden key as absent; those that would insert it return
/// [`Error::Shadowed`].
///
/// ```
/// use nunatak::{Error, alloc::Global};
/// use nunatak_dynamic::{Blobs, shadow_blobs_in};
///
/// let map = shadow_blobs_in(0, Global)?;
/// map.shadow_insert(b"a", b"1")?;
/// assert_eq!((map.contains_key(b"a"), map.put(b"a", b"2")), (false, Err(Error::Shadowed)));
/// map.commit_shadow(b"a")?;
/// assert!(map.contains_key(b"a"));
/// # Ok::<(), Error>(())
/// ```
pub trait ShadowBlobs: Blobs {
    /// Stores an entry hidden.
    ///
    /// # Errors
    /// [`Error::Present`] or [`Error::Shadowed`]; or as [`put`](Blobs::put).
    fn shadow_insert(&self, key: &[u8], value: &[u8]) -> Result<(), Error>;

    /// Shows a hidden entry.
    ///
    /// # Errors
    /// [`Error::NotShadowed`] if the key is not hidden.
    fn commit_shadow(&self, key: &[u8]) -> Result<(), Error>;

    /// Removes a hidden entry.
    ///
    /// # Errors
    /// [`Error::NotShadowed`] if the key is not hidden.
    fn abort_shadow(&self, key: &[u8]) -> Result<(), Error>;
}

/// Makes an empty map in RAM, with room for `capacity` entries, which are in memory of `allocator`.
///
/// # Errors
/// If the capacity does not fit the address space, or memory is refused.
///
/// ```
/// use nunatak::alloc::Global;
/// assert!(nunatak_dynamic::shadow_blobs_in(1000, Global)?.is_empty());
/// # Ok::<(), nunatak::Error>(())
/// ```
pub fn shadow_blobs_in<A: Allocator + Send + Sync + 'static>(
    capacity: usize,
    allocator: A,
) -> Result<Box<dyn ShadowBlobs>, Error> {
    let hasher = nunatak::RandomState::default();
    Ok(Box::new(DlhtShadowRecordMap::<Format, A>::try_new_in(capacity, hasher, allocator)?))
}

blobs_by_the_map! { [A: Allocator + Send + Sync + 'static] DlhtShadowRecordMap<Format, A>; }

impl<A: Allocator + Send + Sync + 'static> ShadowBlobs for DlhtShadowRecordMap<Format, A> {
    fn shadow_insert(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.shadow_insert(key, value).map(|shadow| {
            shadow.keep();
        })
    }

    fn commit_shadow(&self, key: &[u8]) -> Result<(), Error> {
        self.commit_shadow(key)
    }

    fn abort_shadow(&self, key: &[u8]) -> Result<(), Error> {
        self.abort_shadow(key)
    }
}
