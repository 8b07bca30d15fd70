//! Maps of byte strings in which a key has any number of values.

use crate::arguments::{items, items_mut, reference, store, store_first, store_new, taken};
use crate::blobs::{nunatak_bytes, slices};
use crate::status::{Failure, guarded, nunatak_status};
use core::ffi::c_void;
use nunatak_dynamic::{MultiBlobs, multi_blobs_in_ram};

/// A map in which a key is a byte string and has any number of values of 8 bytes, in RAM.
pub struct nunatak_blob_multimap(Box<dyn MultiBlobs>);

impl core::fmt::Debug for nunatak_blob_multimap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let len = self.0.len();
        f.debug_struct("nunatak_blob_multimap").field("len", &len).finish_non_exhaustive()
    }
}

impl nunatak_blob_multimap {
    pub(crate) fn map(&self) -> &dyn MultiBlobs {
        &*self.0
    }
}

/// Is shown a key and one of its values, or how many values it has; returns false to see no more. It may use
/// the map.
pub type nunatak_each_blob_value =
    Option<unsafe extern "C" fn(context: *mut c_void, key: nunatak_bytes, value: u64) -> bool>;

/// Is shown a key with all of its values, which are `len`; returns false to see no more. It may use the map.
pub type nunatak_each_blob_group = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        key: nunatak_bytes,
        values: *const u64,
        len: usize,
    ) -> bool,
>;

/// Makes an empty map.
///
/// # Safety
/// `map` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_new(
    map: *mut *mut nunatak_blob_multimap,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { store_new(map, || Ok(nunatak_blob_multimap(multi_blobs_in_ram()))) })
}

/// Frees a map; null is allowed.
///
/// # Safety
/// `map` is null, or live and used by no other thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_free(map: *mut nunatak_blob_multimap) {
    guarded(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { taken(map) });
        Ok(())
    });
}

/// Adds a value to those of the key; equal values are kept. The map copies a key that it does not have yet.
/// A key has fewer than 2^32 bytes; a longer one is NUNATAK_INVALID.
///
/// # Safety
/// `map` is null or live; the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_insert(
    map: *const nunatak_blob_multimap,
    key: nunatak_bytes,
    value: u64,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        Ok(reference(map, "the map")?.map().insert(key.slice("the key")?, value)?)
    })
}

/// The entries of two arrays.
///
/// # Safety
/// The arrays are as long as said, and the bytes are there.
unsafe fn entries<'a>(
    keys: *const nunatak_bytes,
    values: *const u64,
    len: usize,
) -> Result<Vec<(&'a [u8], u64)>, Failure> {
    // SAFETY: the caller's promise.
    let (keys, values) =
        unsafe { (slices(keys, len)?, items(values, len, "the array of values")?) };
    Ok(keys.into_iter().zip(values.iter().copied()).collect())
}

/// Adds `values[i]` to those of `keys[i]`, in order. If it fails, the values before some point are stored.
///
/// # Safety
/// `map` is live; the arrays and the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_insert_many(
    map: *const nunatak_blob_multimap,
    keys: *const nunatak_bytes,
    values: *const u64,
    len: usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        Ok(map.insert_many(&entries(keys, values, len)?)?)
    })
}

/// Adds a value to those of the key unless an equal one is there. `inserted` gets whether it was added, and
/// may be null. If threads add the same pair at once, one of them adds it.
///
/// # Safety
/// `map` is null or live; the bytes are there; `inserted` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_insert_unique(
    map: *const nunatak_blob_multimap,
    key: nunatak_bytes,
    value: u64,
    inserted: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        store(inserted, map.insert_unique(key.slice("the key")?, value)?);
        Ok(())
    })
}

/// Adds each `values[i]` that `keys[i]` does not have, in order. `inserted` gets how many were added, and may
/// be null. If it fails, the values before some point are stored.
///
/// # Safety
/// `map` is live; the arrays and the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_insert_unique_many(
    map: *const nunatak_blob_multimap,
    keys: *const nunatak_bytes,
    values: *const u64,
    len: usize,
    inserted: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        store(inserted, map.insert_unique_many(&entries(keys, values, len)?)?);
        Ok(())
    })
}

/// Copies the values of a key to `values`, as many as `room` takes. `count` gets how many the key has:
/// if it exceeds `room`, call again with more. With a `room` of 0 they are counted and not read.
///
/// # Safety
/// `map` is live; the bytes are there, and the array is as long as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_get_all(
    map: *const nunatak_blob_multimap,
    key: nunatak_bytes,
    values: *mut u64,
    room: usize,
    count: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        let key = key.slice("the key")?;
        let values = items_mut(values, room, "the array of values")?;
        if values.is_empty() {
            store(count, map.count(key));
            return Ok(());
        }
        let mut all = vec![];
        map.copy_all(key, &mut all);
        store_first(values, &all, count);
        Ok(())
    })
}

/// Copies the values of many keys to `values`, side by side, as many as `room` takes. Those of `keys[i]` end
/// before `values[ends[i]]` and begin where those of the key before end. `count` gets how many there are of
/// all keys: if it exceeds `room`, call again with more.
///
/// # Safety
/// `map` is live; the arrays are as long as said, and the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_get_all_many(
    map: *const nunatak_blob_multimap,
    keys: *const nunatak_bytes,
    len: usize,
    ends: *mut usize,
    values: *mut u64,
    room: usize,
    count: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        let keys = slices(keys, len)?;
        let ends = items_mut(ends, len, "the array of ends")?;
        let values = items_mut(values, room, "the array of values")?;
        let mut all = vec![];
        map.copy_all_many(&keys, &mut all, ends)?;
        store_first(values, &all, count);
        Ok(())
    })
}

/// Counts the values of many keys.
///
/// # Safety
/// `map` is live; the arrays are as long as said, and the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_count_many(
    map: *const nunatak_blob_multimap,
    keys: *const nunatak_bytes,
    len: usize,
    counts: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        let keys = slices(keys, len)?;
        Ok(map.count_many(&keys, items_mut(counts, len, "the array of counts")?)?)
    })
}

/// Removes one value that is equal to this one. `removed` gets whether there was one, and may be null.
///
/// # Safety
/// `map` is live; the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_remove_one(
    map: *const nunatak_blob_multimap,
    key: nunatak_bytes,
    value: u64,
    removed: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        store(removed, map.remove_one(key.slice("the key")?, value)?);
        Ok(())
    })
}

/// Removes all values of a key. `count` gets how many there were, and may be null.
///
/// # Safety
/// `map` is live; the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_remove_all(
    map: *const nunatak_blob_multimap,
    key: nunatak_bytes,
    count: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store(count, reference(map, "the map")?.map().remove_all(key.slice("the key")?)?);
        Ok(())
    })
}

/// Removes all values of many keys, in order. `removed[i]` gets how many `keys[i]` had.
///
/// # Safety
/// `map` is live; the arrays are as long as said, and the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_remove_all_many(
    map: *const nunatak_blob_multimap,
    keys: *const nunatak_bytes,
    len: usize,
    removed: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        let keys = slices(keys, len)?;
        Ok(map.remove_all_many(&keys, items_mut(removed, len, "the array of counts")?)?)
    })
}

/// Shows every value of a snapshot with its key to a callback. The snapshot is a consistent cut, and takes
/// memory for all values.
///
/// # Safety
/// `map` is live, and the callback is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_for_each(
    map: *const nunatak_blob_multimap,
    each: nunatak_each_blob_value,
    context: *mut c_void,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        let each = each.ok_or_else(|| Failure::invalid("the callback is null"))?;
        Ok(map.for_each(&mut |key, value| each(context, nunatak_bytes::of(key), value))?)
    })
}

/// Shows every key once to a callback, with how many values it has at one moment. Keys that come or go
/// meanwhile may be left out. The keys are copied in parts, so it takes little memory and reads few values.
///
/// # Safety
/// `map` is live, and the callback is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_for_each_key(
    map: *const nunatak_blob_multimap,
    each: nunatak_each_blob_value,
    context: *mut c_void,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        let each = each.ok_or_else(|| Failure::invalid("the callback is null"))?;
        map.for_each_key(&mut |key, count| each(context, nunatak_bytes::of(key), count as u64));
        Ok(())
    })
}

/// Shows every key once to a callback, with all values that it has at one moment. Keys that come or go
/// meanwhile may be left out. The values are copied in parts.
///
/// # Safety
/// `map` is live, and the callback is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_for_each_group(
    map: *const nunatak_blob_multimap,
    each: nunatak_each_blob_group,
    context: *mut c_void,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        let each = each.ok_or_else(|| Failure::invalid("the callback is null"))?;
        map.for_each_group(&mut |key, values| {
            each(context, nunatak_bytes::of(key), values.as_ptr(), values.len())
        });
        Ok(())
    })
}

/// Returns how many values there are; 0 for a null pointer.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_len(map: *const nunatak_blob_multimap) -> usize {
    // SAFETY: the caller's promise.
    unsafe { map.as_ref() }.map_or(0, |map| map.map().len())
}

/// Removes every value. Values that other threads add meanwhile may stay.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_clear(
    map: *const nunatak_blob_multimap,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.map().clear()?) })
}

/// Returns how many bytes of memory the map occupies, keys included; 0 for a null pointer.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_memory(map: *const nunatak_blob_multimap) -> usize {
    // SAFETY: the caller's promise.
    unsafe { map.as_ref() }.map_or(0, |map| map.map().memory())
}
