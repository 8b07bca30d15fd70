//! Which tables have a shape for wide entries.

use super::bins::Bins;
use super::blocks::Blocks;
use super::config::Config;
use super::layout::{Entry, Shape};
use crate::table::{Dlht, Iceberg, dlht, iceberg};

/// A table whose bins or blocks hold entries of three or four words: [`Dlht`], [`Iceberg`].
///
/// ```
/// use nunatak::{Dlht, Iceberg, WideDesign, WideMap};
/// fn bytes<D: WideDesign>() -> usize {
///     let map: WideMap<u64, (u64, u64), D> = (0..100_000).map(|n| (n, (n, n))).collect();
///     map.memory_usage().mapped
/// }
/// assert!(bytes::<Iceberg>() < bytes::<Dlht>());
/// ```
pub trait WideDesign: 'static {
    #[doc(hidden)]
    type Shape<E: Entry>: Shape<Entry = E>;

    /// The constants of a map that no builder has made.
    #[doc(hidden)]
    fn config<E: Entry>() -> Config;
}

impl WideDesign for Dlht {
    type Shape<E: Entry> = Bins<E>;

    fn config<E: Entry>() -> Config {
        Config::of_bins::<E>(&dlht::Config::default())
    }
}

impl WideDesign for Iceberg {
    type Shape<E: Entry> = Blocks<E>;

    fn config<E: Entry>() -> Config {
        Config::of_blocks(&iceberg::Config::default())
    }
}
