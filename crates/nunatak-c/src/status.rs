//! Why a call failed.

use core::ffi::c_char;
use nunatak::{Error, FileError};
use std::cell::RefCell;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a call has ended.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum nunatak_status {
    /// It did what it is for. (That a key is absent is no failure.)
    NUNATAK_OK = 0,
    /// An argument is null, or outside its documented range.
    NUNATAK_INVALID = 1,
    /// The system refused memory, or the capacity exceeds the address space.
    NUNATAK_MEMORY = 2,
    /// A file can't be used: it holds no map or another kind, is damaged, in use, full or read-only.
    NUNATAK_FILE = 3,
    /// The system refused an operation on a file.
    NUNATAK_IO = 4,
    /// A file that was to be created exists.
    NUNATAK_EXISTS = 5,
    /// A defect of the library, or memory that was refused in the middle of an operation. The map
    /// can still be used and freed.
    NUNATAK_PANIC = 6,
    /// The key is hidden by a shadow insert that is neither committed nor aborted.
    NUNATAK_SHADOWED = 7,
    /// The key is present, so it can't be hidden.
    NUNATAK_PRESENT = 8,
    /// The key is not hidden: it never was, or was committed or aborted before.
    NUNATAK_NOT_SHADOWED = 9,
}

/// A failure with its words.
pub(crate) struct Failure {
    status: nunatak_status,
    words: String,
}

impl Failure {
    pub(crate) fn invalid(words: impl Into<String>) -> Self {
        Self { status: nunatak_status::NUNATAK_INVALID, words: words.into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::OutOfMemory { .. } | Error::CapacityOverflow => nunatak_status::NUNATAK_MEMORY,
            Error::File(FileError::Io { .. }) => nunatak_status::NUNATAK_IO,
            Error::File(FileError::Exists) => nunatak_status::NUNATAK_EXISTS,
            Error::File(_) => nunatak_status::NUNATAK_FILE,
            Error::Shadowed => nunatak_status::NUNATAK_SHADOWED,
            Error::Present => nunatak_status::NUNATAK_PRESENT,
            Error::NotShadowed => nunatak_status::NUNATAK_NOT_SHADOWED,
            _ => nunatak_status::NUNATAK_INVALID,
        };
        Self { status, words: error.to_string() }
    }
}

pub(crate) fn no_shadows() -> Failure {
    Failure::invalid("the map has no shadow inserts: nunatak_map_new_shadow makes one that has")
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs a call. Nothing unwinds out of it.
pub(crate) fn guarded(call: impl FnOnce() -> Result<(), Failure>) -> nunatak_status {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return nunatak_status::NUNATAK_OK,
        Ok(Err(failure)) => failure,
        Err(payload) => {
            let said = payload.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| payload.downcast_ref::<&str>().copied());
            let words = said.unwrap_or("the library has panicked").to_owned();
            Failure { status: nunatak_status::NUNATAK_PANIC, words }
        }
    };
    let words = CString::new(failure.words.replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| last.replace(words));
    failure.status
}

/// Returns the words of this thread's last failure; an empty string if there was none. The string is
/// valid until the thread's next failure.
#[unsafe(no_mangle)]
pub extern "C" fn nunatak_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// Returns the library's version, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn nunatak_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
