//! Iterators over consistent cuts.

use crate::arguments::{reference, store, store_new, taken};
use crate::blobs::{nunatak_blob_map, nunatak_bytes};
use crate::multi::nunatak_multimap;
use crate::multi_blobs::nunatak_blob_multimap;
use crate::status::{guarded, nunatak_status};
use crate::words::nunatak_map;
use nunatak::Error;

/// Iterates over the entries that a map had when the iterator was made. One thread at a time uses it. The
/// map may change meanwhile, and may be freed.
pub struct nunatak_iterator(std::vec::IntoIter<(u64, u64)>);

impl core::fmt::Debug for nunatak_iterator {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("nunatak_iterator").field("left", &self.0.len()).finish_non_exhaustive()
    }
}

type Bytes = Box<[u8]>;

/// Iterates over the entries that a map of byte strings had when the iterator was made. One thread at a
/// time uses it. The map may change meanwhile, and may be freed.
pub struct nunatak_blob_iterator {
    rest: std::vec::IntoIter<(Bytes, Bytes)>,
    /// The entry that the caller looks at.
    present: (Bytes, Bytes),
}

impl core::fmt::Debug for nunatak_blob_iterator {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let left = self.rest.len();
        f.debug_struct("nunatak_blob_iterator").field("left", &left).finish_non_exhaustive()
    }
}

/// Iterates over the values that a multimap of byte strings had when the iterator was made, with their keys.
/// One thread at a time uses it. The map may change meanwhile, and may be freed.
pub struct nunatak_blob_multimap_iterator {
    rest: std::vec::IntoIter<(Bytes, u64)>,
    /// The key that the caller looks at.
    present: Bytes,
}

impl core::fmt::Debug for nunatak_blob_multimap_iterator {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let left = self.rest.len();
        f.debug_struct("nunatak_blob_multimap_iterator")
            .field("left", &left)
            .finish_non_exhaustive()
    }
}

fn collected(
    for_each: impl FnOnce(&mut dyn FnMut(u64, u64) -> bool) -> Result<(), Error>,
) -> Result<nunatak_iterator, Error> {
    let mut entries = vec![];
    for_each(&mut |key, value| {
        entries.push((key, value));
        true
    })?;
    Ok(nunatak_iterator(entries.into_iter()))
}

/// Makes an iterator over a consistent cut, which takes memory for all entries.
///
/// # Safety
/// `map` is null or live, and `iterator` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_map_iterate(
    map: *const nunatak_map,
    iterator: *mut *mut nunatak_iterator,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.words();
        store_new(iterator, || Ok(collected(|each| map.for_each(each))?))
    })
}

/// Makes an iterator over a consistent cut: over each value with its key.
///
/// # Safety
/// `map` is null or live, and `iterator` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_multimap_iterate(
    map: *const nunatak_multimap,
    iterator: *mut *mut nunatak_iterator,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        store_new(iterator, || Ok(collected(|each| map.for_each(each))?))
    })
}

/// Stores the next entry and returns true, or returns false after the last. Both places may be null.
///
/// # Safety
/// `iterator` is null or live, and used by no other thread; the places are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_iterator_next(
    iterator: *mut nunatak_iterator,
    key: *mut u64,
    value: *mut u64,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let next = iterator.as_mut().and_then(|iterator| iterator.0.next());
        if let Some((found_key, found_value)) = next {
            store(key, found_key);
            store(value, found_value);
        }
        next.is_some()
    }
}

/// Frees an iterator; null is allowed.
///
/// # Safety
/// `iterator` is null, or live and used by no other thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_iterator_free(iterator: *mut nunatak_iterator) {
    guarded(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { taken(iterator) });
        Ok(())
    });
}

/// Makes an iterator over a consistent cut, which takes memory for all entries.
///
/// # Safety
/// `map` is null or live, and `iterator` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_iterate(
    map: *const nunatak_blob_map,
    iterator: *mut *mut nunatak_blob_iterator,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.blobs();
        store_new(iterator, || {
            let mut entries: Vec<(Bytes, Bytes)> = vec![];
            map.for_each(&mut |key, value| {
                entries.push((key.into(), value.into()));
                true
            })?;
            Ok(nunatak_blob_iterator { rest: entries.into_iter(), present: Default::default() })
        })
    })
}

/// Stores the next entry and returns true, or returns false after the last. The bytes are valid until the
/// next call for the iterator. Both places may be null.
///
/// # Safety
/// As `nunatak_iterator_next`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_iterator_next(
    iterator: *mut nunatak_blob_iterator,
    key: *mut nunatak_bytes,
    value: *mut nunatak_bytes,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(iterator) = iterator.as_mut() else { return false };
        let Some(next) = iterator.rest.next() else { return false };
        iterator.present = next;
        store(key, nunatak_bytes::of(&iterator.present.0));
        store(value, nunatak_bytes::of(&iterator.present.1));
        true
    }
}

/// Frees an iterator; null is allowed.
///
/// # Safety
/// `iterator` is null, or live and used by no other thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_iterator_free(iterator: *mut nunatak_blob_iterator) {
    guarded(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { taken(iterator) });
        Ok(())
    });
}

/// Makes an iterator over a consistent cut: over each value with its key. It takes memory for a copy of the
/// key of each value.
///
/// # Safety
/// `map` is null or live, and `iterator` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_iterate(
    map: *const nunatak_blob_multimap,
    iterator: *mut *mut nunatak_blob_multimap_iterator,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let map = reference(map, "the map")?.map();
        store_new(iterator, || {
            let mut entries: Vec<(Bytes, u64)> = vec![];
            map.for_each(&mut |key, value| {
                entries.push((key.into(), value));
                true
            })?;
            let rest = entries.into_iter();
            Ok(nunatak_blob_multimap_iterator { rest, present: Bytes::default() })
        })
    })
}

/// Stores the next value with its key and returns true, or returns false after the last. The key's bytes are
/// valid until the next call for the iterator. Both places may be null.
///
/// # Safety
/// As `nunatak_iterator_next`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_iterator_next(
    iterator: *mut nunatak_blob_multimap_iterator,
    key: *mut nunatak_bytes,
    value: *mut u64,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(iterator) = iterator.as_mut() else { return false };
        let Some((next, found)) = iterator.rest.next() else { return false };
        iterator.present = next;
        store(key, nunatak_bytes::of(&iterator.present));
        store(value, found);
        true
    }
}

/// Frees an iterator; null is allowed.
///
/// # Safety
/// `iterator` is null, or live and used by no other thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_multimap_iterator_free(
    iterator: *mut nunatak_blob_multimap_iterator,
) {
    guarded(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { taken(iterator) });
        Ok(())
    });
}
