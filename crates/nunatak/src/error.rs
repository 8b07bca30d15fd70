//! What can go wrong, as values.

use core::fmt;

/// Why a map could not be built, grown, shrunk or copied.
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
    /// The operating system refused the memory; the map is as it was.
    OutOfMemory {
        /// How many bytes were asked for.
        bytes: usize,
    },
    /// The processor lacks a 16-byte compare-and-swap without a lock, which
    /// every map needs.
    NoDoubleWordCas,
    /// A builder option is outside its documented range.
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// What the option accepts.
        expected: &'static str,
    },
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
        }
    }
}

impl core::error::Error for Error {}

/// A batch whose slices do not fit together. Nothing of it was executed.
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
