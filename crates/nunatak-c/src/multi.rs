//! Maps in which a key has any number of values.

use crate::arguments::{items, items_mut, reference, store, store_new, taken};
use crate::status::{Failure, guarded, nunatak_status};
use nunatak::PeaMultiMap;

/// A map of words of 8 bytes in RAM, in which a key has any number of values.
pub struct nunatak_multimap(PeaMultiMap<u64, u64>);

impl core::fmt::Debug for nunatak_multimap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("nunatak_multimap").field("len", &self.0.len()).finish_non_exhaustive()
    }
}

/// Makes an empty map.
///
/// # Safety
/// `map` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_new(map: *mut *mut nunatak_multimap) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { store_new(map, || Ok(nunatak_multimap(PeaMultiMap::default()))) })
}

/// Frees a map; null is allowed.
///
/// # Safety
/// `map` is null, or live and used by no other thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_free(map: *mut nunatak_multimap) {
    guarded(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { taken(map) });
        Ok(())
    });
}

/// Adds a value to those of the key; equal values are kept.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_insert(
    map: *const nunatak_multimap,
    key: u64,
    value: u64,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        reference(map, "the map")?.0.insert(key, value);
        Ok(())
    })
}

/// Adds `values[i]` to those of `keys[i]`.
///
/// # Safety
/// `map` is live, and the arrays are as long as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_insert_many(
    map: *const nunatak_multimap,
    keys: *const u64,
    values: *const u64,
    len: usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = &reference(map, "the map")?.0;
        let keys = items(keys, len, "the array of keys")?;
        let values = items(values, len, "the array of values")?;
        for (keys, values) in keys.chunks(4096).zip(values.chunks(4096)) {
            let entries: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
            map.insert_many(&entries);
        }
        Ok(())
    })
}

/// Copies the values of a key to `values`, as many as `room` takes. `count` gets how many the key has:
/// if it exceeds `room`, call again with more.
///
/// # Safety
/// `map` is live, and the array is as long as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_get_all(
    map: *const nunatak_multimap,
    key: u64,
    values: *mut u64,
    room: usize,
    count: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = &reference(map, "the map")?.0;
        let values = items_mut(values, room, "the array of values")?;
        let mut all = vec![];
        let found = map.copy_all(&key, &mut all);
        let copied = found.min(room);
        values[..copied].copy_from_slice(&all[..copied]);
        store(count, found);
        Ok(())
    })
}

/// Counts the values of many keys.
///
/// # Safety
/// `map` is live, and the arrays are as long as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_count_many(
    map: *const nunatak_multimap,
    keys: *const u64,
    len: usize,
    counts: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = &reference(map, "the map")?.0;
        let keys = items(keys, len, "the array of keys")?;
        let counts = items_mut(counts, len, "the array of counts")?;
        map.count_many(keys, counts).map_err(|error| Failure::invalid(error.to_string()))
    })
}

/// Removes one value that is equal to this one. `removed` gets whether there was one, and may be null.
///
/// # Safety
/// `map` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_remove_one(
    map: *const nunatak_multimap,
    key: u64,
    value: u64,
    removed: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store(removed, reference(map, "the map")?.0.remove_one(&key, &value));
        Ok(())
    })
}

/// Removes all values of a key. `count` gets how many there were, and may be null.
///
/// # Safety
/// `map` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_remove_all(
    map: *const nunatak_multimap,
    key: u64,
    count: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store(count, reference(map, "the map")?.0.remove_all(&key));
        Ok(())
    })
}

/// Returns how many values there are; 0 for a null pointer.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_len(map: *const nunatak_multimap) -> usize {
    // SAFETY: the caller's promise.
    unsafe { map.as_ref() }.map_or(0, |map| map.0.len())
}
