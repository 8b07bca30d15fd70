//! Guards: values of byte strings in the map's own memory, for longer than a callback.

use crate::arguments::{reference, store, store_new, taken};
use crate::blobs::{nunatak_blob_map, nunatak_bytes};
use crate::status::{guarded, nunatak_status};
use nunatak_dynamic::Pinned;

/// Keeps the values that are found through it. The thread that made it uses and frees it. The map must live
/// longer.
pub struct nunatak_blob_guard(Pinned<'static>);

impl core::fmt::Debug for nunatak_blob_guard {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("nunatak_blob_guard").finish_non_exhaustive()
    }
}

/// Makes a guard. Memory that other threads free waits for it, so free it soon.
///
/// # Safety
/// `map` is null, or lives until the guard is freed; `guard` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_pin(
    map: *const nunatak_blob_map,
    guard: *mut *mut nunatak_blob_guard,
) -> nunatak_status {
    // SAFETY: the caller's promise: the reference may have any lifetime, since the map outlives the guard.
    guarded(|| unsafe {
        let map: &'static nunatak_blob_map = reference(map, "the map")?;
        store_new(guard, || Ok(nunatak_blob_guard(map.blobs().pin())))
    })
}

/// Looks a key up. `value` gets the bytes in the map's own memory: they are valid until the guard is freed,
/// whatever happens to the key. It is stored only if the key is present. Both places may be null.
///
/// # Safety
/// `guard` is live and this thread's, and the bytes of the key are there; the places are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_guard_get(
    guard: *const nunatak_blob_guard,
    key: nunatak_bytes,
    value: *mut nunatak_bytes,
    found: *mut bool,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let result = reference(guard, "the guard")?.0.get(key.slice("the key")?);
        store(found, result.is_some());
        if let Some(result) = result {
            store(value, nunatak_bytes::of(result));
        }
        Ok(())
    })
}

/// Frees a guard; null is allowed.
///
/// # Safety
/// `guard` is null, or live and this thread's, and so is its map.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_guard_free(guard: *mut nunatak_blob_guard) {
    guarded(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { taken(guard) });
        Ok(())
    });
}
