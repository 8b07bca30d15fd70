//! Maps in which a key has any number of values.

use crate::arguments::{items, items_mut, reference, store, store_first, store_new, taken};
use crate::file::{no_file, nunatak_file_options, path, without_schema};
use crate::status::{Failure, guarded, nunatak_status};
use crate::words::nunatak_each;
use core::ffi::{c_char, c_void};
use nunatak::{Error, FileError};
use nunatak_dynamic::{Multi, MultiFile, Table, multi_in_ram, open_multi};

/// A map of words of 8 bytes in which a key has any number of values, in RAM or in a file.
pub struct nunatak_multimap(Place);

enum Place {
    Ram(Box<dyn Multi>),
    File(Box<dyn MultiFile>),
}

impl core::fmt::Debug for nunatak_multimap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("nunatak_multimap").field("len", &self.map().len()).finish_non_exhaustive()
    }
}

impl nunatak_multimap {
    pub(crate) fn map(&self) -> &dyn Multi {
        match &self.0 {
            Place::Ram(map) => &**map,
            Place::File(map) => &**map,
        }
    }

    fn file(&self) -> Result<&dyn MultiFile, Failure> {
        match &self.0 {
            Place::Ram(_) => Err(no_file()),
            Place::File(map) => Ok(&**map),
        }
    }
}

/// Is shown a key with all of its values, which are `len`; returns false to see no more. It may use the map.
pub type nunatak_each_group = Option<
    unsafe extern "C" fn(context: *mut c_void, key: u64, values: *const u64, len: usize) -> bool,
>;

/// Makes an empty map.
///
/// # Safety
/// `map` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_new(map: *mut *mut nunatak_multimap) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { store_new(map, || Ok(nunatak_multimap(Place::Ram(multi_in_ram())))) })
}

/// Opens a map in a file, or creates it. `options` may be null; their table is NUNATAK_DEFAULT or
/// NUNATAK_PEA.
///
/// # Safety
/// The pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_open(
    path: *const c_char,
    options: *const nunatak_file_options,
    map: *mut *mut nunatak_multimap,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store_new(map, || {
            let file = without_schema(path, options)?;
            if !matches!(file.table, None | Some(Table::Pea)) {
                return Err(Error::File(FileError::OtherKind { what: "kind of map" }).into());
            }
            let opened = open_multi(file.path, &file.options, file.opening)?;
            Ok(nunatak_multimap(Place::File(opened)))
        })
    })
}

/// Frees a map; null is allowed. A map in a file is closed, and what that says is lost: use
/// `nunatak_multimap_close` to hear it.
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

/// Syncs and closes a map in a file, and frees the map, whatever the result is. Null is allowed.
///
/// # Safety
/// As `nunatak_multimap_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_close(map: *mut nunatak_multimap) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| match unsafe { taken(map) }.map(|map| map.0) {
        Some(Place::File(map)) => Ok(map.close()?),
        Some(Place::Ram(_)) | None => Ok(()),
    })
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
    guarded(|| unsafe { Ok(reference(map, "the map")?.map().insert(key, value)?) })
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
        let map = reference(map, "the map")?.map();
        let keys = items(keys, len, "the array of keys")?;
        let values = items(values, len, "the array of values")?;
        for (keys, values) in keys.chunks(4096).zip(values.chunks(4096)) {
            let entries: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
            map.insert_many(&entries)?;
        }
        Ok(())
    })
}

/// Adds a value to those of the key unless an equal one is there. `inserted` gets whether it was added, and
/// may be null. If threads add the same pair at once, one of them adds it.
///
/// # Safety
/// `map` is null or live, and `inserted` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_insert_unique(
    map: *const nunatak_multimap,
    key: u64,
    value: u64,
    inserted: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store(inserted, reference(map, "the map")?.map().insert_unique(key, value)?);
        Ok(())
    })
}

/// Adds each `values[i]` that `keys[i]` does not have, in order. `inserted` gets how many were added, and may
/// be null.
///
/// # Safety
/// `map` is live, and the arrays are as long as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_insert_unique_many(
    map: *const nunatak_multimap,
    keys: *const u64,
    values: *const u64,
    len: usize,
    inserted: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        let keys = items(keys, len, "the array of keys")?;
        let values = items(values, len, "the array of values")?;
        let mut added = 0;
        for (keys, values) in keys.chunks(4096).zip(values.chunks(4096)) {
            let entries: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
            added += map.insert_unique_many(&entries)?;
        }
        store(inserted, added);
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
        let map = reference(map, "the map")?.map();
        let values = items_mut(values, room, "the array of values")?;
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
/// `map` is live, and the arrays are as long as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_get_all_many(
    map: *const nunatak_multimap,
    keys: *const u64,
    len: usize,
    ends: *mut usize,
    values: *mut u64,
    room: usize,
    count: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        let keys = items(keys, len, "the array of keys")?;
        let ends = items_mut(ends, len, "the array of ends")?;
        let values = items_mut(values, room, "the array of values")?;
        let mut all = vec![];
        map.copy_all_many(keys, &mut all, ends)?;
        store_first(values, &all, count);
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
        let map = reference(map, "the map")?.map();
        let keys = items(keys, len, "the array of keys")?;
        let counts = items_mut(counts, len, "the array of counts")?;
        Ok(map.count_many(keys, counts)?)
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
        store(removed, reference(map, "the map")?.map().remove_one(key, value)?);
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
        store(count, reference(map, "the map")?.map().remove_all(key)?);
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
    unsafe { map.as_ref() }.map_or(0, |map| map.map().len())
}

/// Removes all values of many keys. `removed[i]` gets how many `keys[i]` had.
///
/// # Safety
/// `map` is live, and the arrays are as long as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_remove_all_many(
    map: *const nunatak_multimap,
    keys: *const u64,
    len: usize,
    removed: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        let keys = items(keys, len, "the array of keys")?;
        let removed = items_mut(removed, len, "the array of counts")?;
        Ok(map.remove_all_many(keys, removed)?)
    })
}

/// Shows every value of a snapshot with its key to a callback. The snapshot is a consistent cut, and takes
/// memory for all values.
///
/// # Safety
/// `map` is live, and the callback is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_for_each(
    map: *const nunatak_multimap,
    each: nunatak_each,
    context: *mut c_void,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        let each = each.ok_or_else(|| Failure::invalid("the callback is null"))?;
        Ok(map.for_each(&mut |key, value| each(context, key, value))?)
    })
}

/// Shows every key once to a callback, with how many values it has at one moment. Keys that come or go
/// meanwhile may be left out. The keys are copied in parts, so it takes little memory and reads few values.
///
/// # Safety
/// `map` is live, and the callback is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_for_each_key(
    map: *const nunatak_multimap,
    each: nunatak_each,
    context: *mut c_void,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        let each = each.ok_or_else(|| Failure::invalid("the callback is null"))?;
        map.for_each_key(&mut |key, count| each(context, key, count as u64));
        Ok(())
    })
}

/// Shows every key once to a callback, with all values that it has at one moment. Keys that come or go
/// meanwhile may be left out. The values are copied in parts.
///
/// # Safety
/// `map` is live, and the callback is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_for_each_group(
    map: *const nunatak_multimap,
    each: nunatak_each_group,
    context: *mut c_void,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        let each = each.ok_or_else(|| Failure::invalid("the callback is null"))?;
        map.for_each_group(&mut |key, values| each(context, key, values.as_ptr(), values.len()));
        Ok(())
    })
}

/// Removes every value.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_clear(map: *const nunatak_multimap) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.map().clear()?) })
}

/// Returns how many bytes of memory the map occupies; 0 for a null pointer.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_memory(map: *const nunatak_multimap) -> usize {
    // SAFETY: the caller's promise.
    unsafe { map.as_ref() }.map_or(0, |map| map.map().memory())
}

/// Makes every change so far survive a power cut.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_sync(map: *const nunatak_multimap) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.file()?.sync()?) })
}

/// Reads the whole file. `count` gets how many values it has, and may be null.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_verify(
    map: *const nunatak_multimap,
    count: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store(count, reference(map, "the map")?.file()?.verify()?);
        Ok(())
    })
}

/// Says whether the file accepts no more changes, and why: returns the first error after which it does
/// not, also of a sync in the background, or `NUNATAK_OK` if there was none.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_failure(map: *const nunatak_multimap) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.file()?.failure().map_or(Ok(()), Err)?) })
}

/// Stores a consistent cut as a new file. `count` gets how many values it has, and may be null.
///
/// # Safety
/// `map` is null or live, and `new_path` null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_backup(
    map: *const nunatak_multimap,
    new_path: *const c_char,
    count: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store(count, reference(map, "the map")?.file()?.backup(path(new_path)?)?);
        Ok(())
    })
}
