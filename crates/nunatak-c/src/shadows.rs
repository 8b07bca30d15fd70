//! Maps for transactions: keys that are inserted hidden, and shown when the transaction commits.

use crate::allocators::{Callbacks, nunatak_allocator};
use crate::arguments::{items, reference, store, store_new};
use crate::blobs::{nunatak_blob_map, nunatak_bytes};
use crate::status::{guarded, nunatak_status};
use crate::words::nunatak_map;
use nunatak::alloc::Global;
use nunatak_dynamic::{ShadowWords, shadow_blobs_in};

/// Makes an empty map in RAM for transactions, with room for `capacity` entries; its table is DLHT. A key can
/// be inserted hidden, which locks it. When the transaction commits, the key is shown with its value; when it
/// aborts, the key is removed.
///
/// All functions of a `nunatak_map` may be used. They treat a hidden key as absent; those that would insert it
/// return `NUNATAK_SHADOWED` and never wait, so no deadlock comes of it. A batch of inserts stops at the first
/// hidden key: the entries before it are stored.
///
/// # Safety
/// `map` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_new_shadow(
    capacity: usize,
    map: *mut *mut nunatak_map,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store_new(map, || Ok(nunatak_map::of_shadows(ShadowWords::with_capacity(capacity)?)))
    })
}

/// Inserts a key hidden. Returns `NUNATAK_PRESENT` if the key is present, and `NUNATAK_SHADOWED` if it is
/// hidden already. The map must be one of `nunatak_map_new_shadow`, here and for the functions that follow.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_shadow_insert(
    map: *const nunatak_map,
    key: u64,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.shadows()?.shadow_insert(key)?) })
}

/// Inserts all keys hidden, in order, or none of them: for two-phase locking, in an order that all
/// transactions agree on. Returns what `nunatak_map_shadow_insert` would for the first key that is present or
/// hidden; `refused` gets its index, and may be null.
///
/// # Safety
/// `map` is live, the array is as long as said, and `refused` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_shadow_insert_many(
    map: *const nunatak_map,
    keys: *const u64,
    len: usize,
    refused: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.shadows()?;
        let keys = items(keys, len, "the array of keys")?;
        map.shadow_insert_many(keys).map_err(|(index, error)| {
            store(refused, index);
            error.into()
        })
    })
}

/// Shows a hidden key with its value. Any thread may do it, once. Returns `NUNATAK_NOT_SHADOWED` if the key is
/// not hidden.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_commit_shadow(
    map: *const nunatak_map,
    key: u64,
    value: u64,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.shadows()?.commit_shadow(key, value)?) })
}

/// Removes a hidden key. Returns `NUNATAK_NOT_SHADOWED` if the key is not hidden.
///
/// # Safety
/// `map` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_abort_shadow(
    map: *const nunatak_map,
    key: u64,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(reference(map, "the map")?.shadows()?.abort_shadow(key)?) })
}

/// As `nunatak_map_new_shadow`, for byte strings, each entry of which is in memory of `allocator`; null stands
/// for the program's. A hidden entry is stored with its value, so that a commit needs no memory.
///
/// # Safety
/// `map` is null or valid, and `allocator` null, or to callbacks that keep what `nunatak_allocator` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_new_shadow(
    allocator: *const nunatak_allocator,
    capacity: usize,
    map: *mut *mut nunatak_blob_map,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store_new(map, || {
            Ok(nunatak_blob_map::of_shadows(match allocator.as_ref() {
                None => shadow_blobs_in(capacity, Global)?,
                Some(allocator) => shadow_blobs_in(capacity, Callbacks::new(allocator)?)?,
            }))
        })
    })
}

/// Inserts an entry hidden. Returns what `nunatak_map_shadow_insert` does. The map must be one of
/// `nunatak_blob_map_new_shadow`, here and for the functions that follow.
///
/// # Safety
/// `map` is live, and the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_shadow_insert(
    map: *const nunatak_blob_map,
    key: nunatak_bytes,
    value: nunatak_bytes,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.shadows()?;
        Ok(map.shadow_insert(key.slice("the key")?, value.slice("the value")?)?)
    })
}

/// Shows a hidden entry. Any thread may do it, once. Returns `NUNATAK_NOT_SHADOWED` if the key is not hidden.
///
/// # Safety
/// `map` is live, and the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_commit_shadow(
    map: *const nunatak_blob_map,
    key: nunatak_bytes,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.shadows()?;
        Ok(map.commit_shadow(key.slice("the key")?)?)
    })
}

/// Removes a hidden entry. Returns `NUNATAK_NOT_SHADOWED` if the key is not hidden.
///
/// # Safety
/// `map` is live, and the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_abort_shadow(
    map: *const nunatak_blob_map,
    key: nunatak_bytes,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.shadows()?;
        Ok(map.abort_shadow(key.slice("the key")?)?)
    })
}
