//! Maps of words of 8 bytes.

use crate::arguments::{items, items_mut, reference, store, store_found, store_new, taken};
use crate::file::{no_file, nunatak_file_options, path, table, without_schema};
use crate::status::{Failure, guarded, no_shadows, nunatak_status};
use core::ffi::{c_char, c_void};
use nunatak::Compute;
use nunatak_dynamic::{Amounts, ShadowWords, Table, WordFile, Words, open_words, words_in_ram};

/// A map with keys and values of 8 bytes, in RAM or in a file.
pub struct nunatak_map(Place);

enum Place {
    Ram(Box<dyn Words>),
    Shadows(Box<ShadowWords>),
    File(Box<dyn WordFile>),
}

impl core::fmt::Debug for nunatak_map {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("nunatak_map").field("len", &self.words().len()).finish_non_exhaustive()
    }
}

impl nunatak_map {
    pub(crate) fn words(&self) -> &dyn Words {
        match &self.0 {
            Place::Ram(map) => &**map,
            Place::Shadows(map) => &**map,
            Place::File(map) => &**map,
        }
    }

    pub(crate) fn of_shadows(map: ShadowWords) -> Self {
        Self(Place::Shadows(Box::new(map)))
    }

    pub(crate) fn shadows(&self) -> Result<&ShadowWords, Failure> {
        match &self.0 {
            Place::Shadows(map) => Ok(map),
            Place::Ram(_) | Place::File(_) => Err(no_shadows()),
        }
    }

    fn file(&self) -> Result<&dyn WordFile, Failure> {
        match &self.0 {
            Place::Ram(_) | Place::Shadows(_) => Err(no_file()),
            Place::File(map) => Ok(&**map),
        }
    }
}

/// What becomes of a key's value.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum nunatak_decision {
    /// It stays, or the key stays absent.
    NUNATAK_KEEP = 0,
    /// The new value is stored.
    NUNATAK_PUT = 1,
    /// The key is removed.
    NUNATAK_REMOVE = 2,
}

/// Decides what becomes of a key's value: returns a `nunatak_decision`. `value` is null if the key is
/// absent. For `NUNATAK_PUT` it stores the new value in `new_value`. It may run more than once, when
/// other threads change the key. It may use the map.
pub type nunatak_compute = Option<
    unsafe extern "C" fn(context: *mut c_void, value: *const u64, new_value: *mut u64) -> i32,
>;

/// Is shown an entry; returns false to see no more. It may use the map.
pub type nunatak_each =
    Option<unsafe extern "C" fn(context: *mut c_void, key: u64, value: u64) -> bool>;

/// Makes an empty map in RAM with room for `capacity` entries; it grows by itself. `table_number` is a
/// `nunatak_table`.
///
/// # Safety
/// `map` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_new(
    table_number: i32,
    capacity: usize,
    map: *mut *mut nunatak_map,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store_new(map, || {
            let table = table(table_number)?.unwrap_or(Table::Dlht);
            Ok(nunatak_map(Place::Ram(words_in_ram(table, capacity)?)))
        })
    })
}

/// Opens a map in a file, or creates it. `options` may be null. One map at a time may have a file open
/// to change it.
///
/// # Safety
/// The pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_open(
    path: *const c_char,
    options: *const nunatak_file_options,
    map: *mut *mut nunatak_map,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store_new(map, || {
            let file = without_schema(path, options)?;
            let opened = open_words(file.path, file.table, &file.options, file.opening)?;
            Ok(nunatak_map(Place::File(opened)))
        })
    })
}

/// Frees a map; null is allowed. A map in a file is closed, and what that says is lost: use
/// `nunatak_map_close` to hear it.
///
/// # Safety
/// `map` is null, or live and used by no other thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_free(map: *mut nunatak_map) {
    guarded(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { taken(map) });
        Ok(())
    });
}

/// Syncs and closes a map in a file, and frees the map, whatever the result is. Null is allowed.
///
/// # Safety
/// As `nunatak_map_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_close(map: *mut nunatak_map) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| match unsafe { taken(map) }.map(|map| map.0) {
        Some(Place::File(map)) => Ok(map.close()?),
        Some(Place::Ram(_) | Place::Shadows(_)) | None => Ok(()),
    })
}

/// Looks a key up. `value` is stored only if the key is present. Both places may be null.
///
/// # Safety
/// `map` is live; the places are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_get(
    map: *const nunatak_map,
    key: u64,
    value: *mut u64,
    found: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store_found(found, value, reference(map, "the map")?.words().get(key));
        Ok(())
    })
}

/// Stores a value. `previous` gets the value that it replaced, and `replaced` whether there was one.
/// Both may be null.
///
/// # Safety
/// As `nunatak_map_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_insert(
    map: *const nunatak_map,
    key: u64,
    value: u64,
    previous: *mut u64,
    replaced: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let before = reference(map, "the map")?.words().insert(key, value)?;
        store_found(replaced, previous, before);
        Ok(())
    })
}

/// Stores a value if the key is absent. Otherwise `present` gets the value that is there. Both places
/// may be null.
///
/// # Safety
/// As `nunatak_map_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_try_insert(
    map: *const nunatak_map,
    key: u64,
    value: u64,
    present: *mut u64,
    inserted: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let before = reference(map, "the map")?.words().try_insert(key, value)?;
        store(inserted, before.is_none());
        store_found(core::ptr::null_mut(), present, before);
        Ok(())
    })
}

/// Replaces a value if the key is present. `previous` gets the value before. Both places may be null.
///
/// # Safety
/// As `nunatak_map_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_update(
    map: *const nunatak_map,
    key: u64,
    value: u64,
    previous: *mut u64,
    updated: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let before = reference(map, "the map")?.words().update(key, value)?;
        store_found(updated, previous, before);
        Ok(())
    })
}

/// Replaces a value if it is `*expected`. Otherwise `*expected` becomes the value that is there, if the
/// key is present. `exchanged` may be null.
///
/// # Safety
/// As `nunatak_map_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_compare_exchange(
    map: *const nunatak_map,
    key: u64,
    expected: *mut u64,
    new_value: u64,
    exchanged: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let current = *reference(expected, "the expected value")?;
        let result =
            reference(map, "the map")?.words().compare_exchange(key, current, new_value)?;
        store(exchanged, result.is_ok());
        if let Err(Some(present)) = result {
            store(expected, present);
        }
        Ok(())
    })
}

/// Adds to a value, wrapping around; an absent key counts as zero. `sum` gets the result, and may be
/// null.
///
/// # Safety
/// As `nunatak_map_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_fetch_add(
    map: *const nunatak_map,
    key: u64,
    amount: u64,
    sum: *mut u64,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.words();
        let before =
            map.compute(key, &mut |value| Compute::Put(value.unwrap_or(0).wrapping_add(amount)))?;
        store(sum, before.unwrap_or(0).wrapping_add(amount));
        Ok(())
    })
}

/// Keeps, replaces or removes a value as a callback decides.
///
/// # Safety
/// `map` is live, and the callback is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_compute(
    map: *const nunatak_map,
    key: u64,
    change: nunatak_compute,
    context: *mut c_void,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.words();
        let change = change.ok_or_else(|| Failure::invalid("the callback is null"))?;
        let mut is_known = true;
        map.compute(key, &mut |value| {
            let mut new = 0;
            let shown = value.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
            match change(context, shown, &raw mut new) {
                0 => Compute::Keep,
                1 => Compute::Put(new),
                2 => Compute::Remove,
                _ => {
                    is_known = false;
                    Compute::Keep
                }
            }
        })?;
        match is_known {
            true => Ok(()),
            false => Err(Failure::invalid("the callback returned no nunatak_decision")),
        }
    })
}

/// Removes a key. `value` gets its value. Both places may be null.
///
/// # Safety
/// As `nunatak_map_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_remove(
    map: *const nunatak_map,
    key: u64,
    value: *mut u64,
    removed: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let before = reference(map, "the map")?.words().remove(key)?;
        store_found(removed, value, before);
        Ok(())
    })
}

/// Looks many keys up; their cache misses overlap. `values` has room for `len` values; those of absent
/// keys are left alone. Bit `i % 64` of `present[i / 64]` tells whether `keys[i]` is present: there are
/// `(len + 63) / 64` words. `count` gets how many are present, and may be null.
///
/// # Safety
/// `map` is live, and the arrays are as long as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_get_many(
    map: *const nunatak_map,
    keys: *const u64,
    len: usize,
    values: *mut u64,
    present: *mut u64,
    count: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.words();
        let keys = items(keys, len, "the array of keys")?;
        let values = items_mut(values, len, "the array of values")?;
        let present = items_mut(present, len.div_ceil(64), "the array of bits")?;
        store(count, map.get_columns(keys, values, present)?);
        Ok(())
    })
}

/// Stores `values[i]` under `keys[i]`, in order. `fresh` gets how many keys were new, and may be null.
/// If it fails, the entries before some point are stored.
///
/// # Safety
/// `map` is live, and the arrays are as long as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_insert_many(
    map: *const nunatak_map,
    keys: *const u64,
    values: *const u64,
    len: usize,
    fresh: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.words();
        let keys = items(keys, len, "the array of keys")?;
        let values = items(values, len, "the array of values")?;
        store(fresh, map.insert_columns(keys, values)?);
        Ok(())
    })
}

/// Adds `amounts[i]` to the value of `keys[i]`, in order; an absent key counts as zero. `amounts` may
/// be null: then it adds one to each. `fresh` gets how many keys were new, and may be null.
///
/// # Safety
/// As `nunatak_map_insert_many`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_add_many(
    map: *const nunatak_map,
    keys: *const u64,
    amounts: *const u64,
    len: usize,
    fresh: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.words();
        let keys = items(keys, len, "the array of keys")?;
        let amounts = match amounts.is_null() {
            true => Amounts::Same(1),
            false => Amounts::Each(items(amounts, len, "the array of amounts")?),
        };
        store(fresh, map.add_columns(keys, amounts)?);
        Ok(())
    })
}

/// Removes many keys, in order, with the results of `nunatak_map_get_many`.
///
/// # Safety
/// As `nunatak_map_get_many`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_remove_many(
    map: *const nunatak_map,
    keys: *const u64,
    len: usize,
    values: *mut u64,
    present: *mut u64,
    count: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.words();
        let keys = items(keys, len, "the array of keys")?;
        let values = items_mut(values, len, "the array of values")?;
        let present = items_mut(present, len.div_ceil(64), "the array of bits")?;
        store(count, map.remove_columns(keys, values, present)?);
        Ok(())
    })
}

/// Shows every entry of a snapshot to a callback. The snapshot is a consistent cut, and takes memory for
/// all entries.
///
/// # Safety
/// `map` is live, and the callback is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_for_each(
    map: *const nunatak_map,
    each: nunatak_each,
    context: *mut c_void,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.words();
        let each = each.ok_or_else(|| Failure::invalid("the callback is null"))?;
        Ok(map.for_each(&mut |key, value| each(context, key, value))?)
    })
}

/// Returns how many entries there are; 0 for a null pointer.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_len(map: *const nunatak_map) -> usize {
    // SAFETY: the caller's promise.
    unsafe { map.as_ref() }.map_or(0, |map| map.words().len())
}

/// Removes every entry.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_clear(map: *const nunatak_map) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.words().clear()?) })
}

/// Makes room for more entries.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_reserve(
    map: *const nunatak_map,
    additional: usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.words().reserve(additional)?) })
}

/// Gives memory back that the entries do not need.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_shrink_to_fit(map: *const nunatak_map) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.words().shrink_to_fit()?) })
}

/// Returns how many bytes of memory the map occupies; 0 for a null pointer.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_memory(map: *const nunatak_map) -> usize {
    // SAFETY: the caller's promise.
    unsafe { map.as_ref() }.map_or(0, |map| map.words().memory())
}

/// Returns entries divided by slots; 0 for a null pointer.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_load_factor(map: *const nunatak_map) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { map.as_ref() }.map_or(0.0, |map| map.words().load_factor())
}

/// Makes every change so far survive a power cut.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_sync(map: *const nunatak_map) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.file()?.sync()?) })
}

/// Reads the whole file. `entries` gets how many it has, and may be null.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_verify(
    map: *const nunatak_map,
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
pub unsafe extern "C" fn nunatak_map_failure(map: *const nunatak_map) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.file()?.failure().map_or(Ok(()), Err)?) })
}

/// Stores a consistent cut as a new file. `entries` gets how many it has, and may be null.
///
/// # Safety
/// `map` is null or live, and `new_path` null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_backup(
    map: *const nunatak_map,
    new_path: *const c_char,
    entries: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store(entries, reference(map, "the map")?.file()?.backup(path(new_path)?)?);
        Ok(())
    })
}
