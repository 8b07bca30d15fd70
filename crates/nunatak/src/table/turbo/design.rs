//! How maps choose TurboHash.

use super::{Config, Table, TurboStats};
use crate::error::Error;
use crate::hash::{HashCodec, StaggeredCodec};
use crate::memory::Heap;
use crate::table::growing::{self, Grown};
use crate::table::shared::bucket::{Entry16, EntrySize};
use crate::table::{Design, HashesWith, Unshadowed};
use core::hash::BuildHasher;
use core::marker::PhantomData;

/// The design of [`TurboMap`](crate::TurboMap). `E` is the size of its entries.
///
/// ```
/// use nunatak::{InlineMap, RandomState, Turbo, TurboMap};
/// let map: InlineMap<u64, u64, RandomState, Turbo> = TurboMap::new();
/// # assert!(map.is_empty());
/// ```
#[derive(Debug)]
pub struct Turbo<E: EntrySize = Entry16>(PhantomData<E>);

impl<E: EntrySize> Design for Turbo<E> {
    type Stats = TurboStats;
    const WORD_BITS: (u32, u32) = (E::KEY_BITS, E::VALUE_BITS);
    type Table<P: HashCodec> =
        Grown<Table<StaggeredCodec<<E::HashCodec<P> as HashCodec>::Shared>, Heap, E::Layout>>;
    type Medium = Heap;

    fn table<P: HashCodec>(codec: P, capacity: usize) -> Result<Self::Table<P>, Error> {
        let codec = StaggeredCodec::new(E::codec(codec).into_shared());
        growing::build(codec, Config::default(), capacity)
    }
}

impl<E: EntrySize> Unshadowed for Turbo<E> {}
impl<S: BuildHasher + Send + Sync + 'static, E: EntrySize> HashesWith<S> for Turbo<E> {}

#[cfg(modelled)]
pub use checked::{CheckedTurbo, GrowingTurbo};

/// Designs for model checkers.
#[cfg(modelled)]
mod checked {
    use super::*;
    use crate::table::growing::Growing;

    /// A [`Turbo`](super::Turbo) that begins small, as maps in RAM do, for model checkers.
    #[derive(Debug)]
    pub struct GrowingTurbo(());

    impl Design for GrowingTurbo {
        type Stats = TurboStats;
        type Table<P: HashCodec> = Growing<Table<P::Shared>>;
        type Medium = Heap;

        fn table<P: HashCodec>(codec: P, capacity: usize) -> Result<Self::Table<P>, Error> {
            Growing::with(codec.into_shared(), Config::default(), capacity)
        }
    }

    impl Unshadowed for GrowingTurbo {}
    impl<S: BuildHasher + Send + Sync + 'static> HashesWith<S> for GrowingTurbo {}

    /// A [`Turbo`](super::Turbo) in a durable medium, for model checkers.
    #[derive(Debug)]
    pub struct CheckedTurbo(());

    impl Design for CheckedTurbo {
        type Stats = TurboStats;
        type Table<P: HashCodec> = Table<P, crate::memory::Checked<true>>;
        type Medium = Heap;

        fn table<P: HashCodec>(codec: P, capacity: usize) -> Result<Self::Table<P>, Error> {
            let config = Config::default();
            Table::new_in(crate::memory::Checked, codec, config, capacity)
        }
    }

    impl Unshadowed for CheckedTurbo {}
    impl<S: BuildHasher + Send + Sync + 'static> HashesWith<S> for CheckedTurbo {}
}
