//! The libraries, and what each needs to be there.

use crate::map::{Map, Table};
use std::error::Error;
use std::fmt;

/// A library of C++ with a concurrent hash map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Library {
    /// oneTBB: `tbb::concurrent_hash_map`, with its nodes in a `tbb::memory_pool`.
    Tbb,
    /// libcuckoo: `libcuckoo::cuckoohash_map`.
    Libcuckoo,
    /// Boost 1.83 or later: `boost::concurrent_flat_map`. From 1.84 on it has [batches](Map::get_many).
    Boost,
    /// Abseil: 256 shards of `absl::flat_hash_map`, each behind a `std::mutex`.
    AbslSharded,
}

#[cfg(any(tbb, libcuckoo, boost, absl))]
unsafe extern "C" {
    #[cfg(tbb)]
    safe static nunatak_peer_tbb: Table;
    #[cfg(libcuckoo)]
    safe static nunatak_peer_libcuckoo: Table;
    #[cfg(boost)]
    safe static nunatak_peer_boost: Table;
    #[cfg(absl)]
    safe static nunatak_peer_absl: Table;
}

impl Library {
    /// All libraries.
    pub const ALL: [Self; 4] = [Self::Tbb, Self::Libcuckoo, Self::Boost, Self::AbslSharded];

    /// Makes an empty map with room for `capacity` items; if that is zero, by the default constructor.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] if this crate was built without the library, and if there is no memory for the map.
    ///
    /// ```
    /// use nunatak_cpp_peers::Library;
    ///
    /// match Library::Tbb.map(1000) {
    ///     Ok(map) => assert_eq!(map.insert(7, 49), None),
    ///     Err(unavailable) => println!("{unavailable}"),
    /// }
    /// ```
    pub fn map(self, capacity: usize) -> Result<Map, Unavailable> {
        Map::new(self.table()?, capacity).ok_or(Unavailable::Memory)
    }

    /// Returns an error that tells what is needed unless the library's map was compiled.
    ///
    /// # Errors
    ///
    /// [`Unavailable::NotCompiled`], [`Unavailable::NotFound`].
    pub fn check(self) -> Result<(), Unavailable> {
        self.table().map(drop)
    }

    fn table(self) -> Result<&'static Table, Unavailable> {
        match self {
            #[cfg(tbb)]
            Self::Tbb => Ok(&nunatak_peer_tbb),
            #[cfg(libcuckoo)]
            Self::Libcuckoo => Ok(&nunatak_peer_libcuckoo),
            #[cfg(boost)]
            Self::Boost => Ok(&nunatak_peer_boost),
            #[cfg(absl)]
            Self::AbslSharded => Ok(&nunatak_peer_absl),
            #[allow(unreachable_patterns, reason = "none is left if all were found")]
            _ if cfg!(feature = "compiled") => Err(Unavailable::NotFound(self)),
            #[allow(unreachable_patterns, reason = "none is left if all were found")]
            _ => Err(Unavailable::NotCompiled),
        }
    }

    /// Returns what has to be there when this crate is built.
    const fn needs(self) -> &'static str {
        match self {
            Self::Tbb => "oneTBB (Debian: libtbb-dev)",
            Self::Libcuckoo => "libcuckoo (Debian: libcuckoo-dev)",
            Self::Boost => {
                "Boost 1.83 or later (Debian 13: libboost-dev; or set NUNATAK_BOOST to the folder that has the \
                 folder boost of its headers)"
            }
            Self::AbslSharded => "Abseil and pkg-config (Debian: libabsl-dev, pkg-config)",
        }
    }
}

/// Why there is no map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// The crate was built without its feature `compiled`, so it has no maps.
    NotCompiled,
    /// The library's headers were not found when the crate was built, or could not be compiled.
    NotFound(Library),
    /// There is not enough memory.
    Memory,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCompiled => f.write_str("maps of C++ are not in this build"),
            Self::NotFound(library) => {
                write!(f, "this was built without {}", library.needs())
            }
            Self::Memory => f.write_str("there is not enough memory for the map"),
        }
    }
}

impl Error for Unavailable {}
