//! Figures of the tables, as text for people.

use crate::arguments::{items_mut, reference, store};
use crate::blobs::nunatak_blob_map;
use crate::multi::nunatak_multimap;
use crate::multi_blobs::nunatak_blob_multimap;
use crate::status::{Failure, guarded, nunatak_status};
use crate::words::nunatak_map;
use core::ffi::c_char;

/// Copies as much of a text as there is room for, with a zero at its end.
///
/// # Safety
/// The array is as long as said, and `len` null or valid.
unsafe fn copy(
    words: &str,
    text: *mut c_char,
    room: usize,
    len: *mut usize,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe {
        let text = items_mut(text.cast::<u8>(), room, "the array for the text")?;
        let copied = words.len().min(room.saturating_sub(1));
        text[..copied].copy_from_slice(&words.as_bytes()[..copied]);
        if let Some(end) = text.get_mut(copied) {
            *end = 0;
        }
        store(len, words.len());
        Ok(())
    }
}

/// Copies the figures of the table, as text for people, to `text`, as much as `room` takes with a zero at its
/// end. `len` gets the length of the whole text, and may be null. Reads the whole table.
///
/// # Safety
/// `map` is null or live, and the array is as long as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_stats(
    map: *const nunatak_map,
    text: *mut c_char,
    room: usize,
    len: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { copy(&reference(map, "the map")?.words().stats(), text, room, len) })
}

/// As `nunatak_map_stats`.
///
/// # Safety
/// As `nunatak_map_stats`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_stats(
    map: *const nunatak_blob_map,
    text: *mut c_char,
    room: usize,
    len: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { copy(&reference(map, "the map")?.blobs().stats(), text, room, len) })
}

/// As `nunatak_map_stats`.
///
/// # Safety
/// As `nunatak_map_stats`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_stats(
    map: *const nunatak_multimap,
    text: *mut c_char,
    room: usize,
    len: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { copy(&reference(map, "the map")?.map().stats(), text, room, len) })
}

/// As `nunatak_map_stats`.
///
/// # Safety
/// As `nunatak_map_stats`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_stats(
    map: *const nunatak_blob_multimap,
    text: *mut c_char,
    room: usize,
    len: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { copy(&reference(map, "the map")?.map().stats(), text, room, len) })
}
