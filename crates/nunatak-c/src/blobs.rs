//! Maps of byte strings.

use crate::arguments::{items, items_mut, reference, store, store_new, taken};
use crate::file::{no_file, nunatak_file_options, path, table, wanted};
use crate::status::{Failure, guarded, no_shadows, nunatak_status};
use core::ffi::{c_char, c_void};
use nunatak::Compute;
use nunatak_dynamic::{BlobFile, Blobs, ShadowBlobs, Table, blobs_in_ram, open_blobs, open_schema};

/// A map whose keys and values are byte strings, in RAM or in a file.
pub struct nunatak_blob_map(Place);

enum Place {
    Ram(Box<dyn Blobs>),
    Shadows(Box<dyn ShadowBlobs>),
    File(Box<dyn BlobFile>),
}

impl core::fmt::Debug for nunatak_blob_map {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("nunatak_blob_map").field("len", &self.blobs().len()).finish_non_exhaustive()
    }
}

impl nunatak_blob_map {
    pub(crate) fn blobs(&self) -> &dyn Blobs {
        match &self.0 {
            Place::Ram(map) => &**map,
            Place::Shadows(map) => &**map,
            Place::File(map) => &**map,
        }
    }

    pub(crate) fn in_ram(map: Box<dyn Blobs>) -> Self {
        Self(Place::Ram(map))
    }

    pub(crate) fn of_shadows(map: Box<dyn ShadowBlobs>) -> Self {
        Self(Place::Shadows(map))
    }

    pub(crate) fn shadows(&self) -> Result<&dyn ShadowBlobs, Failure> {
        match &self.0 {
            Place::Shadows(map) => Ok(&**map),
            Place::Ram(_) | Place::File(_) => Err(no_shadows()),
        }
    }

    fn file(&self) -> Result<&dyn BlobFile, Failure> {
        match &self.0 {
            Place::Ram(_) | Place::Shadows(_) => Err(no_file()),
            Place::File(map) => Ok(&**map),
        }
    }
}

/// Bytes of the caller's, or bytes that a callback is shown. `data` may be null if `len` is 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct nunatak_bytes {
    /// The first byte.
    pub data: *const u8,
    /// How many bytes there are.
    pub len: usize,
}

impl nunatak_bytes {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), len: bytes.len() }
    }

    /// # Safety
    /// The bytes are there, and nobody changes them meanwhile.
    pub(crate) unsafe fn slice<'a>(self, what: &str) -> Result<&'a [u8], Failure> {
        // SAFETY: the caller's promise.
        unsafe { items(self.data, self.len, what) }
    }
}

/// The byte strings of an array.
///
/// # Safety
/// The array is as long as said, its bytes are there, and nobody changes them meanwhile.
pub(crate) unsafe fn slices<'a>(
    keys: *const nunatak_bytes,
    len: usize,
) -> Result<Vec<&'a [u8]>, Failure> {
    // SAFETY: the caller's promise.
    let keys = unsafe { items(keys, len, "the array of keys")? };
    // SAFETY: as above.
    keys.iter().map(|key| unsafe { key.slice("a key") }).collect()
}

/// Is shown a value in the map's own memory, valid until it returns.
pub type nunatak_visit = Option<unsafe extern "C" fn(context: *mut c_void, value: nunatak_bytes)>;

/// Is shown the value of the key with this index, or null if the key is absent.
pub type nunatak_visit_many =
    Option<unsafe extern "C" fn(context: *mut c_void, index: usize, value: *const nunatak_bytes)>;

/// Is shown an entry; returns false to see no more.
pub type nunatak_each_blob = Option<
    unsafe extern "C" fn(context: *mut c_void, key: nunatak_bytes, value: nunatak_bytes) -> bool,
>;

/// Decides what becomes of a key's value: returns a `nunatak_decision`. `value` is null if the key is
/// absent. For `NUNATAK_PUT` it stores the new value in `new_value`; the bytes are copied when it has
/// returned. It may run more than once.
pub type nunatak_compute_blob = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        value: *const nunatak_bytes,
        new_value: *mut nunatak_bytes,
    ) -> i32,
>;

/// Makes an empty map in RAM with room for `capacity` entries; it grows by itself. `table_number` is a
/// `nunatak_table`; the default is TurboHash.
///
/// # Safety
/// `map` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_new(
    table_number: i32,
    capacity: usize,
    map: *mut *mut nunatak_blob_map,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store_new(map, || {
            let table = table(table_number)?.unwrap_or(Table::Turbo);
            Ok(nunatak_blob_map::in_ram(blobs_in_ram(table, capacity)?))
        })
    })
}

/// Opens a map in a file, or creates it. `options` may be null.
///
/// # Safety
/// The pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_open(
    path: *const c_char,
    options: *const nunatak_file_options,
    map: *mut *mut nunatak_blob_map,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store_new(map, || {
            let file = wanted(path, options)?;
            let open = if file.has_schema { open_schema } else { open_blobs };
            let opened = open(file.path, file.table, &file.options, file.opening)?;
            Ok(nunatak_blob_map(Place::File(opened)))
        })
    })
}

/// Frees a map; null is allowed. A map in a file is closed, and what that says is lost.
///
/// # Safety
/// `map` is null, or live and used by no other thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_free(map: *mut nunatak_blob_map) {
    guarded(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { taken(map) });
        Ok(())
    });
}

/// Syncs and closes a map in a file, and frees the map, whatever the result is. Null is allowed.
///
/// # Safety
/// As `nunatak_blob_map_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_close(map: *mut nunatak_blob_map) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| match unsafe { taken(map) }.map(|map| map.0) {
        Some(Place::File(map)) => Ok(map.close()?),
        Some(Place::Ram(_) | Place::Shadows(_)) | None => Ok(()),
    })
}

/// Looks a key up and copies its value to `buffer`, as much as `room` takes. `len` gets the length of
/// the whole value: if it exceeds `room`, call again with more. `len` and `found` may be null.
///
/// # Safety
/// `map` is live; the other pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_get(
    map: *const nunatak_blob_map,
    key: nunatak_bytes,
    buffer: *mut u8,
    room: usize,
    len: *mut usize,
    found: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.blobs();
        let buffer = items_mut(buffer, room, "the buffer")?;
        let is_present = map.get_with(key.slice("the key")?, &mut |value| {
            let copied = value.len().min(buffer.len());
            buffer[..copied].copy_from_slice(&value[..copied]);
            store(len, value.len());
        });
        store(found, is_present);
        Ok(())
    })
}

/// Looks a key up and shows its value to a callback, without copying it. `found` may be null.
///
/// # Safety
/// `map` is live; the other pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_visit(
    map: *const nunatak_blob_map,
    key: nunatak_bytes,
    visit: nunatak_visit,
    context: *mut c_void,
    found: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.blobs();
        let visit = visit.ok_or_else(|| Failure::invalid("the callback is null"))?;
        let is_present = map.get_with(key.slice("the key")?, &mut |value| {
            visit(context, nunatak_bytes::of(value));
        });
        store(found, is_present);
        Ok(())
    })
}

/// Looks many keys up, in order, and shows a callback what was found for each. Cache misses overlap.
///
/// # Safety
/// `map` is live, and the keys are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_visit_many(
    map: *const nunatak_blob_map,
    keys: *const nunatak_bytes,
    len: usize,
    visit: nunatak_visit_many,
    context: *mut c_void,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.blobs();
        let visit = visit.ok_or_else(|| Failure::invalid("the callback is null"))?;
        map.get_many(&slices(keys, len)?, &mut |index, value| {
            let value = value.map(nunatak_bytes::of);
            visit(context, index, value.as_ref().map_or(core::ptr::null(), core::ptr::from_ref));
        });
        Ok(())
    })
}

/// Stores a value. `replaced` gets whether there was one, and may be null.
///
/// # Safety
/// `map` is live; the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_put(
    map: *const nunatak_blob_map,
    key: nunatak_bytes,
    value: nunatak_bytes,
    replaced: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.blobs();
        store(replaced, map.put(key.slice("the key")?, value.slice("the value")?)?);
        Ok(())
    })
}

/// Stores a value if the key is absent. `inserted` may be null.
///
/// # Safety
/// As `nunatak_blob_map_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_try_insert(
    map: *const nunatak_blob_map,
    key: nunatak_bytes,
    value: nunatak_bytes,
    inserted: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.blobs();
        let before = map.try_insert(key.slice("the key")?, value.slice("the value")?)?;
        store(inserted, before.is_none());
        Ok(())
    })
}

/// Stores many values, in order. `fresh` gets how many keys were new, and may be null. If it fails, the
/// entries before some point are stored.
///
/// # Safety
/// `map` is live; the arrays and their bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_put_many(
    map: *const nunatak_blob_map,
    keys: *const nunatak_bytes,
    values: *const nunatak_bytes,
    len: usize,
    fresh: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.blobs();
        let keys = slices(keys, len)?;
        let values = items(values, len, "the array of values")?;
        let entries: Result<Vec<_>, Failure> = keys
            .into_iter()
            .zip(values)
            .map(|(key, value)| Ok((key, value.slice("a value")?)))
            .collect();
        store(fresh, map.put_many(&entries?)?);
        Ok(())
    })
}

/// Keeps, replaces or removes a value as a callback decides.
///
/// # Safety
/// `map` is live, the bytes are there, and the callback is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_compute(
    map: *const nunatak_blob_map,
    key: nunatak_bytes,
    change: nunatak_compute_blob,
    context: *mut c_void,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.blobs();
        let change = change.ok_or_else(|| Failure::invalid("the callback is null"))?;
        let mut failure = None;
        map.compute(key.slice("the key")?, &mut |value| {
            let value = value.map(nunatak_bytes::of);
            let mut new = nunatak_bytes { data: core::ptr::null(), len: 0 };
            let shown = value.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
            match change(context, shown, &raw mut new) {
                0 => Compute::Keep,
                1 => match new.slice("the new value") {
                    Ok(new) => Compute::Put(new.to_vec()),
                    Err(null) => {
                        failure = Some(null);
                        Compute::Keep
                    }
                },
                2 => Compute::Remove,
                _ => {
                    failure = Some(Failure::invalid("the callback returned no nunatak_decision"));
                    Compute::Keep
                }
            }
        })?;
        failure.map_or(Ok(()), Err)
    })
}

/// Removes a key. `removed` gets whether it was present, and may be null.
///
/// # Safety
/// `map` is live; the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_remove(
    map: *const nunatak_blob_map,
    key: nunatak_bytes,
    removed: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.blobs();
        store(removed, map.delete(key.slice("the key")?)?);
        Ok(())
    })
}

/// Shows every entry of a snapshot to a callback.
///
/// # Safety
/// `map` is live, and the callback is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_for_each(
    map: *const nunatak_blob_map,
    each: nunatak_each_blob,
    context: *mut c_void,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.blobs();
        let each = each.ok_or_else(|| Failure::invalid("the callback is null"))?;
        Ok(map.for_each(&mut |key, value| {
            each(context, nunatak_bytes::of(key), nunatak_bytes::of(value))
        })?)
    })
}

/// Returns how many entries there are; 0 for a null pointer.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_len(map: *const nunatak_blob_map) -> usize {
    // SAFETY: the caller's promise.
    unsafe { map.as_ref() }.map_or(0, |map| map.blobs().len())
}

/// Removes every entry.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_clear(map: *const nunatak_blob_map) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.blobs().clear()?) })
}

/// Makes room for more entries.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_reserve(
    map: *const nunatak_blob_map,
    additional: usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.blobs().reserve(additional)?) })
}

/// Returns how many bytes of memory the map occupies; 0 for a null pointer.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_memory(map: *const nunatak_blob_map) -> usize {
    // SAFETY: the caller's promise.
    unsafe { map.as_ref() }.map_or(0, |map| map.blobs().memory())
}

/// Makes every change so far survive a power cut.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_sync(map: *const nunatak_blob_map) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.file()?.sync()?) })
}

/// Reads the whole file. `entries` gets how many it has, and may be null.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_verify(
    map: *const nunatak_blob_map,
    entries: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store(entries, reference(map, "the map")?.file()?.verify()?);
        Ok(())
    })
}

/// Says whether the file accepts no more changes, and why: returns the first error after which it does
/// not, also of a sync in the background, or `NUNATAK_OK` if there was none.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_failure(map: *const nunatak_blob_map) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.file()?.failure().map_or(Ok(()), Err)?) })
}

/// Stores a consistent cut as a new file. `entries` gets how many it has, and may be null.
///
/// # Safety
/// `map` is null or live, and `new_path` null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_backup(
    map: *const nunatak_blob_map,
    new_path: *const c_char,
    entries: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store(entries, reference(map, "the map")?.file()?.backup(path(new_path)?)?);
        Ok(())
    })
}
