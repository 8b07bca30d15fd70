//! How maps choose Pea Hash.

use super::{Config, Entry16, EntrySize, PeaStats, Table};
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::Heap;
use crate::table::growing::{self, Grown};
use crate::table::{Design, HashesWith, Unshadowed};
use core::hash::BuildHasher;
use core::marker::PhantomData;

/// The design of [`PeaMap`](crate::PeaMap). `E` is the size of its entries.
///
/// ```
/// use nunatak::{InlineMap, Pea, PeaMap, RandomState};
/// let map: InlineMap<u64, u64, RandomState, Pea> = PeaMap::new();
/// # assert!(map.is_empty());
/// ```
#[derive(Debug)]
pub struct Pea<E: EntrySize = Entry16>(PhantomData<E>);

impl<E: EntrySize> Design for Pea<E> {
    type Stats = PeaStats;
    const WORD_BITS: (u32, u32) = (E::KEY_BITS, E::VALUE_BITS);
    type Table<P: HashCodec> =
        Grown<Table<<E::HashCodec<P> as HashCodec>::Shared, Heap, E::Layout>>;
    type Medium = Heap;

    fn table<P: HashCodec>(codec: P, capacity: usize) -> Result<Self::Table<P>, Error> {
        growing::build(E::codec(codec).into_shared(), Config::default(), capacity)
    }
}

impl<E: EntrySize> Unshadowed for Pea<E> {}
impl<S: BuildHasher + Send + Sync + 'static, E: EntrySize> HashesWith<S> for Pea<E> {}

#[cfg(modelled)]
pub use checked::CheckedPea;

/// A design for model checkers.
#[cfg(modelled)]
mod checked {
    use super::*;

    /// A [`Pea`](super::Pea) in a durable medium, for model checkers.
    #[derive(Debug)]
    pub struct CheckedPea(());

    impl Design for CheckedPea {
        type Stats = PeaStats;
        type Table<P: HashCodec> = Table<P, crate::memory::Checked<true>>;
        type Medium = Heap;

        fn table<P: HashCodec>(codec: P, capacity: usize) -> Result<Self::Table<P>, Error> {
            let config = Config::default();
            Table::new_in(crate::memory::Checked, codec, config, capacity)
        }
    }

    impl Unshadowed for CheckedPea {}
    impl<S: BuildHasher + Send + Sync + 'static> HashesWith<S> for CheckedPea {}
}
