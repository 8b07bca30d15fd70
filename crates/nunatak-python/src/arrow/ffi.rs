//! The structs of Arrow's C data interface, and the capsules in which Python passes them on.
//!
//! **Ownership**: a struct belongs to whoever holds it, until its `release` was called. Whoever takes
//! a struct out of a capsule copies it and sets `release` to null there.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{NonNull, null, null_mut};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// A struct with an owner.
pub(super) trait Released: Sized + 'static {
    /// What its capsule is called.
    const NAME: &'static CStr;
    const RELEASED: Self;

    fn release(&mut self) -> &mut Option<unsafe extern "C" fn(*mut Self)>;
}

/// Calls `f` while no exception is set, and then sets the one that was. A struct is released when its
/// Python object is, which an exception may be the reason of; and a producer may release in Python.
fn without_exception(f: impl FnOnce()) {
    let raised = Python::try_attach(PyErr::take).flatten();
    f();
    if let Some(raised) = raised {
        Python::attach(|py| raised.restore(py));
    }
}

macro_rules! released {
    ($type:ident, $name:literal, { $($field:ident: $value:expr),* }) => {
        impl Released for $type {
            const NAME: &'static CStr = $name;
            const RELEASED: Self = Self { $($field: $value,)* release: None, private_data: null_mut() };

            fn release(&mut self) -> &mut Option<unsafe extern "C" fn(*mut Self)> {
                &mut self.release
            }
        }

        impl Drop for $type {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: this is the owner, and the struct was not released.
                    without_exception(|| unsafe { release(self) });
                }
            }
        }
    };
}

#[repr(C)]
pub(super) struct Schema {
    pub(super) format: *const c_char,
    pub(super) name: *const c_char,
    pub(super) metadata: *const c_char,
    pub(super) flags: i64,
    pub(super) n_children: i64,
    pub(super) children: *mut *mut Schema,
    pub(super) dictionary: *mut Schema,
    pub(super) release: Option<unsafe extern "C" fn(*mut Schema)>,
    pub(super) private_data: *mut c_void,
}

released! { Schema, c"arrow_schema", {
    format: null(), name: null(), metadata: null(), flags: 0, n_children: 0, children: null_mut(),
    dictionary: null_mut()
} }

#[repr(C)]
pub(super) struct Array {
    pub(super) length: i64,
    pub(super) null_count: i64,
    pub(super) offset: i64,
    pub(super) n_buffers: i64,
    pub(super) n_children: i64,
    pub(super) buffers: *mut *const c_void,
    pub(super) children: *mut *mut Array,
    pub(super) dictionary: *mut Array,
    pub(super) release: Option<unsafe extern "C" fn(*mut Array)>,
    pub(super) private_data: *mut c_void,
}

released! { Array, c"arrow_array", {
    length: 0, null_count: 0, offset: 0, n_buffers: 0, n_children: 0, buffers: null_mut(),
    children: null_mut(), dictionary: null_mut()
} }

// SAFETY: the interface lets any thread read an array, and any thread release it.
unsafe impl Send for Array {}

// SAFETY: as above; nothing changes an array before it is released.
unsafe impl Sync for Array {}

#[repr(C)]
pub(super) struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: *mut c_void,
}

released! { Stream, c"arrow_array_stream", {
    get_schema: None, get_next: None, get_last_error: None
} }

impl Stream {
    pub(super) fn schema(&mut self) -> PyResult<Schema> {
        let get = self.get_schema.ok_or_else(incomplete)?;
        let mut schema = Schema::RELEASED;
        // SAFETY: the stream was not released, and the place is valid.
        let status = unsafe { get(self, &raw mut schema) };
        self.checked(status).map(|()| schema)
    }

    /// Returns the next array, or `None` after the last.
    pub(super) fn next(&mut self) -> PyResult<Option<Array>> {
        let get = self.get_next.ok_or_else(incomplete)?;
        let mut array = Array::RELEASED;
        // SAFETY: as above.
        let status = unsafe { get(self, &raw mut array) };
        self.checked(status).map(|()| array.release.is_some().then_some(array))
    }

    fn checked(&mut self, status: c_int) -> PyResult<()> {
        if status == 0 {
            return Ok(());
        }
        let words = self.get_last_error.map_or(null(), |get| {
            // SAFETY: the last call has failed, which is when this may be asked.
            unsafe { get(self) }
        });
        let words = match words.is_null() {
            true => format!("error {status}"),
            // SAFETY: the interface promises a string that lives until the next call.
            false => unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned(),
        };
        Err(PyRuntimeError::new_err(format!("the Arrow stream has failed: {words}")))
    }
}

fn incomplete() -> PyErr {
    PyValueError::new_err("the Arrow stream lacks a function")
}

/// Takes a struct out of its capsule.
pub(super) fn taken<T: Released>(capsule: &Bound<'_, PyAny>) -> PyResult<T> {
    let capsule = capsule.cast::<PyCapsule>()?;
    let place = capsule.pointer_checked(Some(T::NAME))?.cast::<T>();
    // SAFETY: a capsule of this name holds such a struct, which may be taken by copying it and
    // marking it as released.
    let mut taken = unsafe { place.read() };
    if taken.release().is_none() {
        return Err(PyValueError::new_err("the Arrow capsule was used before"));
    }
    // SAFETY: as above.
    unsafe { place.write(T::RELEASED) };
    Ok(taken)
}

/// Puts a struct into a new capsule, which releases it unless it is taken out.
pub(super) fn capsule<T: Released>(py: Python<'_>, of: T) -> PyResult<Bound<'_, PyCapsule>> {
    unsafe extern "C" fn free<T: Released>(capsule: *mut ffi::PyObject) {
        // SAFETY: a capsule calls this once, and its pointer is that of the box.
        unsafe {
            let place = ffi::PyCapsule_GetPointer(capsule, T::NAME.as_ptr());
            if !place.is_null() {
                drop(Box::from_raw(place.cast::<T>()));
            }
        }
    }
    let place = NonNull::from(Box::leak(Box::new(of))).cast();
    // SAFETY: the box lives until the capsule's destructor frees it.
    unsafe {
        PyCapsule::new_with_pointer_and_destructor(py, place, T::NAME, Some(free::<T>))
            .inspect_err(|_| drop(Box::from_raw(place.cast::<T>().as_ptr())))
    }
}
