//! How the maps choose DLHT.

use super::{Config, DlhtStats, Table};
use crate::error::Error;
use crate::hash::{HashCodec, Hashing};
use crate::memory::Heap;
use crate::mode::{Mode, Shared};
use crate::sync::Shadowing;
use crate::table::{Design, Hashes, Places, Visible};
use core::marker::PhantomData;

/// The design of [`DlhtMap`](crate::DlhtMap); `M` says whether threads share it.
///
/// ```
/// use nunatak::{Dlht, DlhtLocalMap, InlineMap, RandomState, mode::SingleThread};
/// let map: InlineMap<u64, u64, RandomState, Dlht<SingleThread>> = DlhtLocalMap::new();
/// # assert!(map.is_empty());
/// ```
#[derive(Debug)]
pub struct Dlht<M: Mode = Shared>(PhantomData<M>);

impl<M: Mode> Design for Dlht<M> {
    type Stats = DlhtStats;
    type Table<P: HashCodec> = Table<P, M>;
    type Medium = Heap;

    fn table<P: HashCodec>(codec: P, capacity: usize) -> Result<Self::Table<P>, Error> {
        Table::new(codec, Config::default(), capacity)
    }
}

impl<M: Mode> Visible for Dlht<M> {}
impl<S: Hashing, M: Mode> Places<S> for Dlht<M> {}
impl<S: Hashing, M: Mode> Hashes<S> for Dlht<M> {}

/// The design of [`DlhtShadowMap`](crate::DlhtShadowMap): DLHT with keys that are hidden until
/// a transaction commits.
///
/// ```
/// use nunatak::{DlhtShadowMap, DlhtShadows, InlineMap, RandomState};
/// let map: InlineMap<u64, u64, RandomState, DlhtShadows> = DlhtShadowMap::new();
/// # assert!(map.is_empty());
/// ```
#[derive(Debug)]
pub struct DlhtShadows(());

impl Design for DlhtShadows {
    type Stats = DlhtStats;
    type Table<P: HashCodec> = Table<P, Shadowing>;
    type Medium = Heap;

    fn table<P: HashCodec>(codec: P, capacity: usize) -> Result<Self::Table<P>, Error> {
        Table::new(codec, Config::default(), capacity)
    }
}

impl<S: Hashing> Places<S> for DlhtShadows {}
