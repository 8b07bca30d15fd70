//! The algorithms over 16-byte slots of two words, and what they have in common.
//!
//! A table stores pairs of words, found by the first. Public maps are generic over
//! a [`Design`], so that each method is written once, and compile to what a map
//! written for one table would be.

pub(crate) mod dlht;
pub(crate) mod iceberg;
pub(crate) mod pea;
mod shared;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
pub(crate) mod turbo;

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
pub(crate) use shared::paged;

use crate::error::Error;
use crate::hash::{Hashing, Placement};
use crate::memory::{Heap, Medium, MemoryUsage};
use crate::mode::{Mode, Shared};
use crate::sync::Shadowing;
use crate::sync::{GuardPin, Registry};
use core::hash::BuildHasher;
use core::marker::PhantomData;
use iceberg::{BlockSizes, Blocks};
use shared::bucket::{Entry16, EntrySize};

/// In how many bytes of addresses a file is mapped whose pages are copied: more than a
/// table takes.
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
pub(crate) fn file_addresses() -> usize {
    let share = crate::memory::Addresses::share() as usize;
    (share + share / 4).next_multiple_of(1 << 20)
}

/// What tells a key from another whose word is the same.
pub trait KeyTest {
    /// Whether the word is the key, so that there is nothing to test.
    const BY_WORD: bool;

    /// Whether a test runs code of the caller's, which may panic, wait, and use the map: a
    /// table asks it while it holds nothing and no operation is announced.
    const RUNS_CALLERS_CODE: bool = false;

    /// Whether the entry behind a value word is the key's.
    fn accepts(&self, second: u64) -> bool;

    /// Whether a hidden key of this word is the key; `None` if that is not settled yet.
    fn is_hidden(&self) -> Option<bool> {
        Some(true)
    }

    /// Whether it was asked for what it does not know: then what came of its answers counts for
    /// nothing.
    #[inline(always)]
    fn has_unknown(&self) -> bool {
        false
    }
}

/// A key can't be inserted, since it is hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shadowed;

impl From<Shadowed> for Error {
    fn from(Shadowed: Shadowed) -> Self {
        Self::Shadowed
    }
}

/// The word is the key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByWord;

impl KeyTest for ByWord {
    const BY_WORD: bool = true;

    #[inline(always)]
    fn accepts(&self, _second: u64) -> bool {
        true
    }
}

/// The word is a hash, and the caller looks behind the value word.
#[derive(Clone, Copy)]
pub(crate) struct ByEntry<F>(pub(crate) F);

impl<F: Fn(u64) -> bool> KeyTest for ByEntry<F> {
    const BY_WORD: bool = false;

    fn accepts(&self, second: u64) -> bool {
        (self.0)(second)
    }
}

/// The same, where looking behind the value word runs code of the caller's: its `Eq`.
#[derive(Clone, Copy)]
pub(crate) struct ByCaller<F>(pub(crate) F);

impl<F: Fn(u64) -> bool> KeyTest for ByCaller<F> {
    const BY_WORD: bool = false;
    const RUNS_CALLERS_CODE: bool = true;

    fn accepts(&self, second: u64) -> bool {
        (self.0)(second)
    }
}

/// What shall become of a key that is present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Keep,
    To(u64),
    Remove,
}

/// A table of pairs of words that any number of threads may use.
///
/// Operations on one word are linearizable. A word is present once, but for
/// words of which a [`KeyTest`] knows more keys than one.
#[allow(private_interfaces, reason = "the trait is sealed: its module is private")]
pub trait PairTable: Send + Sized {
    /// What the table reports of itself.
    type Stats: core::fmt::Debug + Clone;
    /// Yields every pair that is present throughout once, others at most once.
    type Iter<'t>: Iterator<Item = (u64, u64)>
    where
        Self: 't;
    /// Yields the pairs of a cut.
    type Snapshot: Iterator<Item = (u64, u64)> + 'static;

    /// The value word of a key.
    fn find<T: KeyTest>(&self, word: u64, test: &T) -> Option<u64>;

    /// The same under a guard of the table's registry, which keeps what a lookup reads as
    /// well as an operation of its own. (The test by value: who looks no further than the
    /// first bucket then has no use for it in memory.)
    #[inline(always)]
    fn find_guarded<T: KeyTest + Copy>(
        &self,
        _guard: &GuardPin<'_>,
        word: u64,
        test: T,
    ) -> Option<u64> {
        self.find(word, &test)
    }

    /// Changes a key by its value word, or inserts it, and returns the value
    /// word that was present when the operation took effect. `change` must
    /// depend on its argument only; it may be called more than once.
    fn apply<T: KeyTest>(
        &self,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64>;

    /// [`apply`](Self::apply) in a table whose keys may be hidden. Only what would insert its
    /// key can find it so.
    fn apply_unless_shadowed<T: KeyTest>(
        &self,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Result<Option<u64>, Shadowed> {
        Ok(self.apply(word, test, fresh, change))
    }

    /// Looks up many keys, in order.
    fn find_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        found: impl FnMut(usize, Option<u64>),
    );

    /// Applies many changes, in order: of each operation the value word to
    /// insert if its key is absent, and what becomes of it if it is present.
    /// `done` may end the batch by returning false.
    fn apply_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        fresh: impl Fn(usize) -> Option<u64>,
        change: impl Fn(usize, u64) -> Change,
        done: impl FnMut(usize, Option<u64>) -> bool,
    );

    /// Prefetches what an operation on a word looks at first.
    fn prefetch(&self, word: u64);

    /// All pairs, weakly consistent.
    fn iter(&self) -> Self::Iter<'_>;

    /// Tells every value word of a table that nobody else has any more, without the caller's
    /// hasher where that can be done.
    fn for_each_left(&mut self, each: impl FnMut(u64)) {
        self.iter().map(|(_, second)| second).for_each(each);
    }

    /// A consistent cut of all pairs.
    fn snapshot(&self) -> Result<Self::Snapshot, Error>;

    /// Who is inside, for guards on what value words point to.
    fn registry(&self) -> &Registry;

    /// Frees memory of its own that nobody can reach any more.
    fn free_retired(&self);

    fn len(&self) -> usize;

    fn reserve(&self, additional: usize) -> Result<(), Error>;

    fn shrink_to_fit(&self) -> Result<(), Error>;

    /// The share of the slots that hold a pair.
    fn load_factor(&self) -> f64;

    fn memory_usage(&self) -> MemoryUsage;

    fn stats(&self) -> Self::Stats;
}

/// A table's design, by which the generic maps choose it: [`Dlht`], [`DlhtShadows`],
/// [`Iceberg`], [`Pea`] or [`Turbo`]. It has no values.
///
/// ```
/// use nunatak::{Dlht, InlineMap, RandomState};
/// let map: InlineMap<u64, u64, RandomState, Dlht> = InlineMap::new();
/// # assert!(map.is_empty());
/// ```
#[allow(private_bounds, private_interfaces, reason = "the trait is sealed: tables are internal")]
pub trait Design: Sized + 'static {
    /// The quantities that the table's paper reports.
    ///
    /// ```
    /// use nunatak::{Design, Dlht, DlhtMap};
    /// let stats: <Dlht as Design>::Stats = DlhtMap::<u64, u64>::new().stats();
    /// assert_eq!(stats.len, 0);
    /// ```
    type Stats: core::fmt::Debug + Clone;

    /// Of how many bits a key's word may be, and a value's.
    #[doc(hidden)]
    const WORD_BITS: (u32, u32) = (64, 64);

    #[doc(hidden)]
    type Table<P: Placement>: PairTable<Stats = Self::Stats>;

    /// Where byte strings are.
    #[doc(hidden)]
    type Medium: Medium;

    #[doc(hidden)]
    #[allow(missing_docs)]
    fn table<P: Placement>(placement: P, capacity: usize) -> Result<Self::Table<P>, Error>;
}

/// A design whose tables can place inline keys with the hashing `S`.
///
/// ```
/// use nunatak::{InlineMap, Places, hash::Hashing};
/// fn count<S: Hashing, D: Places<S>>(map: &InlineMap<u64, u64, S, D>) -> usize {
///     map.len()
/// }
/// assert_eq!(count(&nunatak::DlhtShadowMap::<u64, u64>::new()), 0);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't hash with `{S}`",
    note = "DLHT takes any `BuildHasher` and `Modulo`, the others any `BuildHasher`"
)]
pub trait Places<S: Hashing>: Design {}

/// A design that [places](Places) keys with the hashing `S`, and whose keys are all visible,
/// so that an insert needs no answer but what it replaced: any but [`DlhtShadows`].
///
/// ```
/// use nunatak::{Hashes, InlineMap, hash::Hashing};
/// fn put<S: Hashing, D: Hashes<S>>(map: &InlineMap<u64, u64, S, D>) {
///     map.insert(1, 10);
/// }
/// put(&nunatak::DlhtMap::<u64, u64>::new());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't hash with `{S}`, or its keys may be hidden",
    note = "DLHT takes any `BuildHasher` and `Modulo`, the others any `BuildHasher`; inserts of \
            keys that may be hidden are others"
)]
pub trait Hashes<S: Hashing>: Places<S> + Visible {}

/// A design whose keys are all visible. (For who is generic over designs [`Hashes`] says so;
/// this one has no parameter, so that nobody can add it to [`DlhtShadows`].)
///
/// ```
/// fn is_visible<D: nunatak::Visible>() {}
/// is_visible::<nunatak::Dlht>();
/// ```
pub trait Visible: Design {}

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
    type Stats = dlht::DlhtStats;
    type Table<P: Placement> = dlht::Table<P, Shadowing>;
    type Medium = Heap;

    fn table<P: Placement>(placement: P, capacity: usize) -> Result<Self::Table<P>, Error> {
        dlht::Table::new(placement, dlht::Config::default(), capacity)
    }
}

impl<S: Hashing> Places<S> for DlhtShadows {}

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
    type Stats = dlht::DlhtStats;
    type Table<P: Placement> = dlht::Table<P, M>;
    type Medium = Heap;

    fn table<P: Placement>(placement: P, capacity: usize) -> Result<Self::Table<P>, Error> {
        dlht::Table::new(placement, dlht::Config::default(), capacity)
    }
}

impl<M: Mode> Visible for Dlht<M> {}
impl<S: Hashing, M: Mode> Places<S> for Dlht<M> {}
impl<S: Hashing, M: Mode> Hashes<S> for Dlht<M> {}

/// The design of [`IcebergMap`](crate::IcebergMap); `B` says how large its blocks
/// are.
///
/// ```
/// use nunatak::{Blocks, Iceberg, IcebergMap, InlineMap, RandomState};
/// let map: InlineMap<u64, u64, RandomState, Iceberg<Blocks<64, 8>>> = IcebergMap::new();
/// # assert!(map.is_empty());
/// ```
#[derive(Debug)]
pub struct Iceberg<B: BlockSizes = Blocks>(PhantomData<B>);

impl<B: BlockSizes> Design for Iceberg<B> {
    type Stats = iceberg::IcebergStats;
    type Table<P: Placement> = iceberg::Table<P, B>;
    type Medium = Heap;

    fn table<P: Placement>(placement: P, capacity: usize) -> Result<Self::Table<P>, Error> {
        iceberg::Table::new(placement, iceberg::Config::default(), capacity)
    }
}

impl<B: BlockSizes> Visible for Iceberg<B> {}
impl<S, B> Places<S> for Iceberg<B>
where
    S: BuildHasher + Send + Sync + 'static,
    B: BlockSizes,
{
}
impl<S, B> Hashes<S> for Iceberg<B>
where
    S: BuildHasher + Send + Sync + 'static,
    B: BlockSizes,
{
}

/// The design of [`PeaMap`](crate::PeaMap); `E` says how large its entries are.
///
/// ```
/// use nunatak::{InlineMap, Pea, PeaMap, RandomState};
/// let map: InlineMap<u64, u64, RandomState, Pea> = PeaMap::new();
/// # assert!(map.is_empty());
/// ```
#[derive(Debug)]
pub struct Pea<E: EntrySize = Entry16>(PhantomData<E>);

impl<E: EntrySize> Design for Pea<E> {
    type Stats = pea::PeaStats;
    const WORD_BITS: (u32, u32) = (E::KEY_BITS, E::VALUE_BITS);
    type Table<P: Placement> = pea::Table<E::Placement<P>, Heap, E::Layout>;
    type Medium = Heap;

    fn table<P: Placement>(placement: P, capacity: usize) -> Result<Self::Table<P>, Error> {
        pea::Table::new(E::placement(placement), pea::Config::default(), capacity)
    }
}

impl<E: EntrySize> Visible for Pea<E> {}
impl<S: BuildHasher + Send + Sync + 'static, E: EntrySize> Places<S> for Pea<E> {}
impl<S: BuildHasher + Send + Sync + 'static, E: EntrySize> Hashes<S> for Pea<E> {}

/// The design of [`TurboMap`](crate::TurboMap); `E` says how large its entries are.
///
/// ```
/// use nunatak::{InlineMap, RandomState, Turbo, TurboMap};
/// let map: InlineMap<u64, u64, RandomState, Turbo> = TurboMap::new();
/// # assert!(map.is_empty());
/// ```
#[derive(Debug)]
pub struct Turbo<E: EntrySize = Entry16>(PhantomData<E>);

impl<E: EntrySize> Design for Turbo<E> {
    type Stats = turbo::TurboStats;
    const WORD_BITS: (u32, u32) = (E::KEY_BITS, E::VALUE_BITS);
    type Table<P: Placement> = turbo::Table<E::Placement<P>, Heap, E::Layout>;
    type Medium = Heap;

    fn table<P: Placement>(placement: P, capacity: usize) -> Result<Self::Table<P>, Error> {
        turbo::Table::new(E::placement(placement), turbo::Config::default(), capacity)
    }
}

impl<E: EntrySize> Visible for Turbo<E> {}
impl<S: BuildHasher + Send + Sync + 'static, E: EntrySize> Places<S> for Turbo<E> {}
impl<S: BuildHasher + Send + Sync + 'static, E: EntrySize> Hashes<S> for Turbo<E> {}

/// An [`Iceberg`] in a durable medium that is ordered or not, for model checkers.
#[cfg(any(loom, shuttle))]
#[derive(Debug)]
pub struct CheckedIceberg<B: BlockSizes, const ORDERED: bool>(PhantomData<B>);

#[cfg(any(loom, shuttle))]
impl<B: BlockSizes, const ORDERED: bool> Design for CheckedIceberg<B, ORDERED> {
    type Stats = iceberg::IcebergStats;
    type Table<P: Placement> = iceberg::Table<P, B, crate::memory::Checked<ORDERED>>;
    type Medium = Heap;

    fn table<P: Placement>(placement: P, capacity: usize) -> Result<Self::Table<P>, Error> {
        let config = iceberg::Config { max_load: 0.95, ..iceberg::Config::default() };
        iceberg::Table::checked(crate::memory::Checked, placement, config, capacity)
    }
}

#[cfg(any(loom, shuttle))]
impl<B: BlockSizes, const ORDERED: bool> Visible for CheckedIceberg<B, ORDERED> {}
#[cfg(any(loom, shuttle))]
impl<S, B, const ORDERED: bool> Places<S> for CheckedIceberg<B, ORDERED>
where
    S: BuildHasher + Send + Sync + 'static,
    B: BlockSizes,
{
}
#[cfg(any(loom, shuttle))]
impl<S, B, const ORDERED: bool> Hashes<S> for CheckedIceberg<B, ORDERED>
where
    S: BuildHasher + Send + Sync + 'static,
    B: BlockSizes,
{
}

/// A [`Pea`] in a durable medium, for model checkers.
#[cfg(any(loom, shuttle))]
#[derive(Debug)]
pub struct CheckedPea(());

#[cfg(any(loom, shuttle))]
impl Design for CheckedPea {
    type Stats = pea::PeaStats;
    type Table<P: Placement> = pea::Table<P, crate::memory::Checked<true>>;
    type Medium = Heap;

    fn table<P: Placement>(placement: P, capacity: usize) -> Result<Self::Table<P>, Error> {
        let config = pea::Config::default();
        pea::Table::new_in(crate::memory::Checked, placement, config, capacity)
    }
}

#[cfg(any(loom, shuttle))]
impl Visible for CheckedPea {}
#[cfg(any(loom, shuttle))]
impl<S: BuildHasher + Send + Sync + 'static> Places<S> for CheckedPea {}
#[cfg(any(loom, shuttle))]
impl<S: BuildHasher + Send + Sync + 'static> Hashes<S> for CheckedPea {}

/// A [`Turbo`] in a durable medium, for model checkers.
#[cfg(any(loom, shuttle))]
#[derive(Debug)]
pub struct CheckedTurbo(());

#[cfg(any(loom, shuttle))]
impl Design for CheckedTurbo {
    type Stats = turbo::TurboStats;
    type Table<P: Placement> = turbo::Table<P, crate::memory::Checked<true>>;
    type Medium = Heap;

    fn table<P: Placement>(placement: P, capacity: usize) -> Result<Self::Table<P>, Error> {
        let config = turbo::Config::default();
        turbo::Table::new_in(crate::memory::Checked, placement, config, capacity)
    }
}

#[cfg(any(loom, shuttle))]
impl Visible for CheckedTurbo {}
#[cfg(any(loom, shuttle))]
impl<S: BuildHasher + Send + Sync + 'static> Places<S> for CheckedTurbo {}
#[cfg(any(loom, shuttle))]
impl<S: BuildHasher + Send + Sync + 'static> Hashes<S> for CheckedTurbo {}
