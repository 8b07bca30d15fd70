//! Tables, and the options of files.

use crate::arguments::{reference, store};
use crate::status::{Failure, guarded, nunatak_status};
use core::ffi::{CStr, c_char};
use core::time::Duration;
use nunatak::durable::{Durability, Options};
use nunatak_dynamic::{Opening, Table};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Which table a map is made of.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum nunatak_table {
    /// The table that suits most: DLHT in RAM; in files the file's own, or IcebergHT for numbers and
    /// TurboHash for byte strings.
    NUNATAK_DEFAULT = 0,
    /// DLHT: the fastest. In RAM only.
    NUNATAK_DLHT = 1,
    /// IcebergHT: the least memory.
    NUNATAK_ICEBERG = 2,
    /// Pea Hash: grows and shrinks in small pieces.
    NUNATAK_PEA = 3,
    /// TurboHash: a resize stalls one shard of about 1,000.
    NUNATAK_TURBO = 4,
}

/// What a change of a map in a file survives when its call has returned.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum nunatak_durability {
    /// The process; a sync makes it survive a power cut.
    NUNATAK_PROCESS = 0,
    /// The process, and a power cut some time later: see the interval.
    NUNATAK_INTERVAL = 1,
    /// A power cut.
    NUNATAK_SYNCED = 2,
    /// A power cut; the file must be on persistent memory.
    NUNATAK_PERSISTENT_MEMORY = 3,
}

/// How a file is opened. All zero is: create it if there is none.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct nunatak_file_options {
    /// A `nunatak_table`.
    pub table: i32,
    /// A `nunatak_durability`.
    pub durability: i32,
    /// Milliseconds between two syncs, if the durability is `NUNATAK_INTERVAL`.
    pub interval_ms: u64,
    /// How many entries a new file has room for.
    pub capacity: usize,
    /// Refuse to create the file.
    pub must_exist: bool,
    /// Only read. The file must exist.
    pub read_only: bool,
    /// Read a copy of the present state of a file, which another process may have open and change. The
    /// fields above but the table are ignored.
    pub beside: bool,
    /// Make copies for processes that open the file beside this one. Files of IcebergHT and files on
    /// persistent memory need that; of others readers see the last sync without it.
    pub answer_readers: bool,
    /// The name of the file's schema, or null for none; copied. Only files of byte strings have one. A new file
    /// gets the name and the version, an existing file must have them. Programs in Rust open such a file as a
    /// `TypedMap` of byte strings.
    pub schema: *const c_char,
    /// The version of the schema.
    pub schema_version: u32,
}

// The fields are plain numbers and not enums: C may store any number there.
pub(crate) fn table(number: i32) -> Result<Option<Table>, Failure> {
    match number {
        0 => Ok(None),
        1 => Ok(Some(Table::Dlht)),
        2 => Ok(Some(Table::Iceberg)),
        3 => Ok(Some(Table::Pea)),
        4 => Ok(Some(Table::Turbo)),
        _ => Err(Failure::invalid(format!("there is no table {number}"))),
    }
}

/// A file to be opened.
pub(crate) struct Wanted<'a> {
    pub(crate) path: &'a Path,
    pub(crate) table: Option<Table>,
    pub(crate) options: Options,
    pub(crate) opening: Opening,
    pub(crate) has_schema: bool,
}

/// # Safety
/// The pointers are null, or to a string that ends with a zero, and to options, of which the schema is null
/// or such a string.
pub(crate) unsafe fn wanted<'a>(
    at: *const c_char,
    options: *const nunatak_file_options,
) -> Result<Wanted<'a>, Failure> {
    // SAFETY: the caller's promise.
    let (path, given) = unsafe { (path(at)?, options.as_ref()) };
    let Some(given) = given else {
        return Ok(Wanted {
            path,
            table: None,
            options: Options::new(),
            opening: Opening::OrCreate,
            has_schema: false,
        });
    };
    let durability = match given.durability {
        0 => Durability::Process,
        1 if given.interval_ms == 0 => return Err(Failure::invalid("the interval is zero")),
        1 => Durability::Interval(Duration::from_millis(given.interval_ms)),
        2 => Durability::Synced,
        3 => Durability::PersistentMemory,
        other => return Err(Failure::invalid(format!("there is no durability {other}"))),
    };
    let options =
        Options::new().durability(durability).capacity(given.capacity).read_only(given.read_only);
    let options = options.answer_readers(given.answer_readers && !given.read_only);
    let has_schema = !given.schema.is_null();
    let options = match has_schema {
        false => options,
        true => {
            // SAFETY: the caller's promise.
            let name = unsafe { CStr::from_ptr(given.schema) };
            let name = name.to_str().map_err(|_| Failure::invalid("the schema is not UTF-8"))?;
            options.schema(name, given.schema_version)
        }
    };
    let opening = match given.must_exist || given.read_only {
        _ if given.beside => Opening::Beside,
        true => Opening::Existing,
        false => Opening::OrCreate,
    };
    Ok(Wanted { path, table: table(given.table)?, options, opening, has_schema })
}

/// As [`wanted`], for a file that can't have a schema.
///
/// # Safety
/// As [`wanted`].
pub(crate) unsafe fn without_schema<'a>(
    at: *const c_char,
    options: *const nunatak_file_options,
) -> Result<Wanted<'a>, Failure> {
    // SAFETY: the caller's promise.
    let wanted = unsafe { wanted(at, options) }?;
    match wanted.has_schema {
        true => Err(Failure::invalid("only files of byte strings have a schema")),
        false => Ok(wanted),
    }
}

/// # Safety
/// The pointer is null, or to a string that ends with a zero.
pub(crate) unsafe fn path<'a>(at: *const c_char) -> Result<&'a Path, Failure> {
    // SAFETY: the caller's promise.
    unsafe {
        reference(at, "the path")?;
        Ok(Path::new(OsStr::from_bytes(CStr::from_ptr(at).to_bytes())))
    }
}

pub(crate) fn no_file() -> Failure {
    Failure::invalid("the map is in RAM: it has no file")
}

/// Makes a new file of what can be read in a damaged one, of any kind of map. `sure` gets how many entries are
/// as they were stored, and `doubtful` how many may be old or wrong. Both may be null.
///
/// # Safety
/// The paths are null or strings, and the places null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_salvage(
    damaged: *const c_char,
    new_path: *const c_char,
    sure: *mut usize,
    doubtful: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let salvaged = nunatak_dynamic::salvage(path(damaged)?, path(new_path)?)?;
        store(sure, salvaged.sure);
        store(doubtful, salvaged.doubtful);
        Ok(())
    })
}
