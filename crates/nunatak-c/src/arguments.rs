//! What C passes: pointers that may be null.

use crate::status::Failure;
use core::slice;

fn null(what: &str) -> Failure {
    Failure::invalid(format!("{what} is null"))
}

/// # Safety
/// The pointer is null, or to a live value that nobody changes meanwhile.
pub(crate) unsafe fn reference<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// # Safety
/// The pointer is null, or to `len` values that nobody changes meanwhile.
pub(crate) unsafe fn items<'a, T>(
    pointer: *const T,
    len: usize,
    what: &str,
) -> Result<&'a [T], Failure> {
    match (pointer.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null(what)),
        _ if len > isize::MAX as usize / size_of::<T>() => {
            Err(Failure::invalid(format!("{what} exceeds the address space")))
        }
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { slice::from_raw_parts(pointer, len) }),
    }
}

/// # Safety
/// The pointer is null, or to `len` values that nobody else uses meanwhile.
pub(crate) unsafe fn items_mut<'a, T>(
    pointer: *mut T,
    len: usize,
    what: &str,
) -> Result<&'a mut [T], Failure> {
    match (pointer.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(null(what)),
        _ if len > isize::MAX as usize / size_of::<T>() => {
            Err(Failure::invalid(format!("{what} exceeds the address space")))
        }
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { slice::from_raw_parts_mut(pointer, len) }),
    }
}

/// Stores a result that the caller may not want.
///
/// # Safety
/// The pointer is null, or to a place for the result.
pub(crate) unsafe fn store<T>(place: *mut T, result: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(result) };
    }
}

/// Copies as many items as there is room for, and stores how many there are.
///
/// # Safety
/// As [`store`].
pub(crate) unsafe fn store_first<T: Copy>(room: &mut [T], all: &[T], count: *mut usize) {
    let copied = all.len().min(room.len());
    room[..copied].copy_from_slice(&all[..copied]);
    // SAFETY: the caller's promise.
    unsafe { store(count, all.len()) };
}

/// Stores an optional result: whether there is one, and the result if there is.
///
/// # Safety
/// As [`store`].
pub(crate) unsafe fn store_found<T>(found: *mut bool, place: *mut T, result: Option<T>) {
    // SAFETY: the caller's promise.
    unsafe {
        store(found, result.is_some());
        if let Some(result) = result {
            store(place, result);
        }
    }
}

/// Makes a pointer of a new map or iterator.
///
/// # Safety
/// The pointer is null, or to a place for the result.
pub(crate) unsafe fn store_new<T>(
    place: *mut *mut T,
    make: impl FnOnce() -> Result<T, Failure>,
) -> Result<(), Failure> {
    if place.is_null() {
        return Err(null("the place for the result"));
    }
    let made = Box::into_raw(Box::new(make()?));
    // SAFETY: the caller's promise.
    unsafe { place.write(made) };
    Ok(())
}

/// Takes a map or an iterator back.
///
/// # Safety
/// The pointer is null, or was made by [`store_new`] and was not taken back.
pub(crate) unsafe fn taken<T>(of: *mut T) -> Option<Box<T>> {
    // SAFETY: the caller's promise.
    (!of.is_null()).then(|| unsafe { Box::from_raw(of) })
}
