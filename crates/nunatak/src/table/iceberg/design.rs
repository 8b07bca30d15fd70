//! How the maps choose IcebergHT.

use super::{BlockSizes, Blocks, Config, IcebergStats, Table};
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::Heap;
use crate::table::growing::{self, Grown};
use crate::table::{Design, HashesWith, Unshadowed};
use core::hash::BuildHasher;
use core::marker::PhantomData;

/// The design of [`IcebergMap`](crate::IcebergMap). `B` is the size of its blocks.
///
/// ```
/// use nunatak::{Blocks, Iceberg, IcebergMap, InlineMap, RandomState};
/// let map: InlineMap<u64, u64, RandomState, Iceberg<Blocks<64, 8>>> = IcebergMap::new();
/// # assert!(map.is_empty());
/// ```
#[derive(Debug)]
pub struct Iceberg<B: BlockSizes = Blocks>(PhantomData<B>);

impl<B: BlockSizes> Design for Iceberg<B> {
    type Stats = IcebergStats;
    type Table<P: HashCodec> = Grown<Table<P::Shared, B>>;
    type Medium = Heap;

    fn table<P: HashCodec>(codec: P, capacity: usize) -> Result<Self::Table<P>, Error> {
        growing::build(codec.into_shared(), Config::default(), capacity)
    }
}

impl<B: BlockSizes> Unshadowed for Iceberg<B> {}
impl<S, B> HashesWith<S> for Iceberg<B>
where
    S: BuildHasher + Send + Sync + 'static,
    B: BlockSizes,
{
}

#[cfg(modelled)]
pub use checked::CheckedIceberg;

/// A design for model checkers.
#[cfg(modelled)]
mod checked {
    use super::*;

    /// An [`Iceberg`](super::Iceberg) in a durable medium that is ordered or not, for model
    /// checkers.
    #[derive(Debug)]
    pub struct CheckedIceberg<B: BlockSizes, const ORDERED: bool>(PhantomData<B>);

    impl<B: BlockSizes, const ORDERED: bool> Design for CheckedIceberg<B, ORDERED> {
        type Stats = IcebergStats;
        type Table<P: HashCodec> = Table<P, B, crate::memory::Checked<ORDERED>>;
        type Medium = Heap;

        fn table<P: HashCodec>(codec: P, capacity: usize) -> Result<Self::Table<P>, Error> {
            let config = Config { max_load: 0.95, ..Config::default() };
            Table::checked(crate::memory::Checked, codec, config, capacity)
        }
    }

    impl<B: BlockSizes, const ORDERED: bool> Unshadowed for CheckedIceberg<B, ORDERED> {}
    impl<S, B, const ORDERED: bool> HashesWith<S> for CheckedIceberg<B, ORDERED>
    where
        S: BuildHasher + Send + Sync + 'static,
        B: BlockSizes,
    {
    }
}
