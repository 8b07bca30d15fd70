//! Errors, as values.

use crate::Schema;
use core::fmt;

/// Why an operation on a map failed.
///
/// ```
/// use nunatak::{DlhtMap, Error};
/// let too_large = DlhtMap::<u64, u64>::try_with_capacity(usize::MAX);
/// assert_eq!(too_large.unwrap_err(), Error::CapacityOverflow);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The requested capacity does not fit the address space.
    CapacityOverflow,
    /// The operating system, or the caller's allocator, refused memory; the map is as it was.
    OutOfMemory {
        /// How many bytes were requested.
        bytes: usize,
    },
    /// The processor has no lock-free 16-byte compare-and-swap, which every map needs.
    NoDoubleWordCas,
    /// A builder option is outside its documented range.
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// What the option accepts.
        expected: &'static str,
    },
    /// The map was built not to grow, is as large as it was built for, and has no place for the key.
    Full,
    /// A key or a value of a map of byte strings has more than 2^32 - 1 bytes.
    TooLong,
    /// The key or the value does not have the size that the map's format fixes.
    WrongSize {
        /// `key` or `value`.
        what: &'static str,
        /// The size in bytes that the format fixes.
        expected: usize,
        /// The size in bytes of the key or the value.
        found: usize,
    },
    /// The caller's allocator returned memory that the map can't use, and has given back.
    Misallocated {
        /// What the memory should be.
        expected: &'static str,
    },
    /// The key is hidden by a shadow insert that is neither committed nor aborted.
    Shadowed,
    /// The key is present, so it can't be hidden.
    Present,
    /// The key is not hidden: it never was, or was committed or aborted before.
    NotShadowed,
    /// A key or a value of a typed map can't be encoded: its type refuses that.
    Unencodable {
        /// `key` or `value`.
        what: &'static str,
    },
    /// The file of a durable map can't be used (any more).
    File(FileError),
}

/// Why the file of a durable map can't be used.
///
/// ```
/// use nunatak::{Error, FileError, durable};
/// # let directory = tempfile::tempdir()?;
/// let path = directory.path().join("file");
/// std::fs::write(&path, "something else")?;
/// let opened = durable::IcebergMap::<u64, u64>::open(&path);
/// assert_eq!(opened.unwrap_err(), Error::File(FileError::NotAMap));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileError {
    /// The system refused an operation.
    Io {
        /// What the system was asked to do.
        action: &'static str,
        /// The system's error number.
        code: i32,
    },
    /// A file that was to be created exists already.
    Exists,
    /// The file holds no durable map.
    NotAMap,
    /// The file has a later version of the format.
    NewerVersion {
        /// The file's version.
        found: u32,
        /// The latest version that this library knows.
        known: u32,
    },
    /// The file has an earlier version of the format, which this library does not read.
    OlderVersion {
        /// The file's version.
        found: u32,
        /// The earliest version that this library reads.
        known: u32,
    },
    /// The file was written by a machine of the other endianness.
    OtherEndianness,
    /// The file holds another kind of map, or other types of keys and values.
    OtherKind {
        /// What differs.
        what: &'static str,
    },
    /// The file was made with another schema: another name or version, or other encodings of keys
    /// and values.
    OtherSchema {
        /// The schema of the file.
        found: &'static Schema,
        /// The schema that the program has asked for.
        expected: &'static Schema,
    },
    /// A key or a value in the file is not the encoding of anything of the map's type.
    Undecodable {
        /// `key` or `value`.
        what: &'static str,
        /// The byte of the file where it begins, if that is known.
        at: Option<u64>,
    },
    /// The file ends before its contents do.
    Truncated {
        /// How many bytes it has.
        bytes: u64,
        /// How many it should have.
        expected: u64,
    },
    /// The contents of the file contradict each other.
    Corrupt {
        /// What is wrong.
        what: &'static str,
        /// The byte of the file where it was noticed, if it is in one place.
        at: Option<u64>,
    },
    /// Another map has the file open, in this process or in another.
    InUse,
    /// The map was opened only for reading.
    ReadOnly,
    /// The map was opened by another process, of which this one is a fork. Only the process that
    /// has opened a map changes and closes it.
    Forked,
    /// The file consists of too many pieces to grow by another one.
    /// [`shrink_to_fit`](crate::durable::FileMap::shrink_to_fit) makes them fewer.
    TooManyExtents,
    /// Persistent memory was requested, but the file is not on it.
    NotPersistentMemory,
    /// The disk is full, and the map has no room left. Nothing was changed, except by earlier
    /// operations of a batch.
    Full,
    /// A write to the file has failed. It is unknown what is durable, so changes and syncs fail
    /// from then on. Reads return what the map holds in memory. The map tells the first error:
    /// [`failure`](crate::durable::FileMap::failure).
    Poisoned,
}

impl FileError {
    /// Something is wrong that is in no single place.
    #[cfg(durable)]
    pub(crate) const fn corrupt(what: &'static str) -> Self {
        Self::Corrupt { what, at: None }
    }

    /// Something is wrong at this byte of the file.
    pub(crate) const fn corrupt_at(what: &'static str, byte: u64) -> Self {
        Self::Corrupt { what, at: Some(byte) }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, code } => {
                let error = std::io::Error::from_raw_os_error(*code);
                write!(f, "the system could not {action}: {error}")
            }
            Self::Exists => f.write_str("the file exists already"),
            Self::NotAMap => f.write_str("the file is not one of a durable map"),
            Self::NewerVersion { found, known } => write!(
                f,
                "the file is of version {found} of the format, and {known} is the latest known"
            ),
            Self::OlderVersion { found, known } => write!(
                f,
                "the file is of version {found} of the format, and {known} is the earliest that can be read"
            ),
            Self::OtherEndianness => {
                f.write_str("the file is of a machine of the other endianness")
            }
            Self::OtherKind { what } => write!(f, "the file is of another {what}"),
            Self::OtherSchema { found, expected } => {
                write!(f, "the file has the schema {found}, and {expected} was expected")
            }
            Self::Undecodable { what, at: None } => {
                write!(f, "a {what} in the file is not of the map's type")
            }
            Self::Undecodable { what, at: Some(byte) } => {
                write!(f, "the {what} at byte {byte} of the file is not of the map's type")
            }
            Self::Truncated { bytes, expected } => {
                write!(f, "the file has {bytes} bytes and should have {expected}")
            }
            Self::Corrupt { what, at: None } => write!(f, "the file is corrupt: {what}"),
            Self::Corrupt { what, at: Some(byte) } => {
                write!(f, "the file is corrupt at byte {byte}: {what}")
            }
            Self::InUse => f.write_str("the file is in use by another map"),
            Self::ReadOnly => f.write_str("the map was opened to be read"),
            Self::Forked => f.write_str("the map was opened by the parent of this process"),
            Self::TooManyExtents => f.write_str("the file consists of too many pieces to grow"),
            Self::NotPersistentMemory => f.write_str("the file is not on persistent memory"),
            Self::Full => f.write_str("the disk is full, and so is the map"),
            Self::Poisoned => f.write_str(
                "something could not be written before, and it is not known what is durable",
            ),
        }
    }
}

impl core::error::Error for FileError {}

impl From<FileError> for Error {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CapacityOverflow => f.write_str("the capacity exceeds the address space"),
            Self::OutOfMemory { bytes } => {
                write!(f, "the operating system refused {bytes} bytes of memory")
            }
            Self::NoDoubleWordCas => {
                f.write_str("this processor has no lock-free 16-byte compare-and-swap")
            }
            Self::InvalidOption { option, expected } => {
                write!(f, "the option `{option}` must be {expected}")
            }
            Self::Full => f.write_str("the map is full and does not grow"),
            Self::TooLong => f.write_str("a key or a value has more than 2^32 - 1 bytes"),
            Self::Shadowed => f.write_str("the key is hidden by a shadow insert"),
            Self::Present => f.write_str("the key is present"),
            Self::NotShadowed => f.write_str("the key is not hidden by a shadow insert"),
            Self::WrongSize { what, expected, found } => {
                write!(f, "a {what} has {found} bytes, and those of the map have {expected}")
            }
            Self::Misallocated { expected } => {
                write!(f, "the allocator returned memory that is not {expected}")
            }
            Self::Unencodable { what } => write!(f, "the type of a {what} can't encode it"),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

/// The result slice of a batch is shorter than the batch. Nothing was executed.
///
/// ```
/// use nunatak::DlhtMap;
/// let map: DlhtMap<u64, u64> = DlhtMap::new();
/// let mut too_short = [None; 1];
/// let error = map.get_many(&[1, 2, 3], &mut too_short).unwrap_err();
/// assert_eq!((error.requests, error.results), (3, 1));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchError {
    /// How many requests the batch holds.
    pub requests: usize,
    /// How many results the output slice can take.
    pub results: usize,
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a batch of {} requests needs as many results, but the output slice holds {}",
            self.requests, self.results
        )
    }
}

impl core::error::Error for BatchError {}
