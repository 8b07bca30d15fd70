//! The algorithms over slots of two words, and the interface that they share.
//!
//! A table stores pairs of words, found by the first word. Public maps are generic over a
//! [`Design`], so each method is written once, and compiles to the same code as in a map written
//! for one table.

pub(crate) mod dlht;
pub(crate) mod growing;
pub(crate) mod iceberg;
pub(crate) mod pea;
mod shared;
mod stages;
#[cfg(all(test, not(modelled)))]
mod tests;
pub(crate) mod turbo;
pub(crate) mod wide;

pub(crate) use shared::full_disk::permit_or;
#[cfg(durable)]
pub(crate) use shared::full_disk::{is_refused, permit};
#[cfg(durable)]
pub(crate) use shared::paged;
#[cfg(durable)]
pub(crate) use shared::undo_log;

pub(crate) use shared::room::Room;

pub use shared::moves::ResizeTimes;

pub use dlht::{Dlht, DlhtShadows};
pub use iceberg::Iceberg;
pub use pea::Pea;
pub use turbo::Turbo;
#[cfg(modelled)]
pub use {
    iceberg::CheckedIceberg,
    pea::CheckedPea,
    turbo::{CheckedTurbo, GrowingTurbo},
};

use crate::error::Error;
use crate::hash::{HashCodec, Hashing};
use crate::memory::{Medium, MemoryUsage};
use crate::sync::{GuardPin, Registry};

/// Returns the bytes of addresses for mapping a file whose pages are copied: more than a table
/// takes.
#[cfg(durable)]
pub(crate) fn file_addresses() -> usize {
    let share = crate::memory::Addresses::share() as usize;
    (share + share / 4).next_multiple_of(1 << 20)
}

/// A test that tells a key from another key with the same word.
pub trait KeyTest {
    /// Whether the word is the key, so that no test is needed.
    const BY_WORD: bool;

    /// Whether a test runs the caller's code, which may panic, wait, and use the map. A table runs
    /// such a test while the thread holds nothing and has announced no operation.
    const RUNS_CALLERS_CODE: bool = false;

    /// Returns whether the entry behind a value word is the key's.
    fn accepts(&self, value_word: u64) -> bool;

    /// Returns whether a hidden key of this word is the key; `None` if that is not settled yet.
    fn is_hidden(&self) -> Option<bool> {
        Some(true)
    }

    /// Returns whether the test was asked about a value word that it does not know. Then results
    /// that rest on its answers are void.
    #[inline(always)]
    fn has_unknown(&self) -> bool {
        false
    }
}

/// The error of an insert whose key is hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shadowed;

impl From<Shadowed> for Error {
    fn from(Shadowed: Shadowed) -> Self {
        Self::Shadowed
    }
}

/// The test for words that are the keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByWord;

impl KeyTest for ByWord {
    const BY_WORD: bool = true;

    #[inline(always)]
    fn accepts(&self, _second: u64) -> bool {
        true
    }
}

/// The test for words that are hashes: a function compares the entry behind the value word.
#[derive(Clone, Copy)]
pub(crate) struct ByEntry<F>(pub(crate) F);

impl<F: Fn(u64) -> bool> KeyTest for ByEntry<F> {
    const BY_WORD: bool = false;

    fn accepts(&self, value_word: u64) -> bool {
        (self.0)(value_word)
    }
}

/// As [`ByEntry`], for a function that runs the caller's code: its `Eq`.
#[derive(Clone, Copy)]
pub(crate) struct ByCaller<F>(pub(crate) F);

impl<F: Fn(u64) -> bool> KeyTest for ByCaller<F> {
    const BY_WORD: bool = false;
    const RUNS_CALLERS_CODE: bool = true;

    fn accepts(&self, value_word: u64) -> bool {
        (self.0)(value_word)
    }
}

/// The change of a present key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Keep,
    To(u64),
    Remove,
}

/// Changes that operations of maps ask for. As closures they would have a type for each type parameter of the operation,
/// and the table's code would be compiled anew for each closure of a caller.
impl Change {
    #[inline]
    pub(crate) fn keep(_: u64) -> Self {
        Self::Keep
    }

    #[inline]
    pub(crate) fn remove(_: u64) -> Self {
        Self::Remove
    }

    /// This change if the value is `current`; otherwise none.
    #[inline]
    pub(crate) fn of_exactly(self, current: u64) -> impl Fn(u64) -> Self + Copy {
        move |word| if word == current { self } else { Self::Keep }
    }
}

/// A table of pairs of words that any number of threads may use: all [stages] at once. The stages
/// say what each method does.
///
/// Operations on one word are linearizable. A word is present once, except for words that a
/// [`KeyTest`] divides among several keys.
#[allow(private_interfaces, reason = "the trait is sealed: its module is private")]
pub trait PairTable: Send + Sized {
    type Stats: core::fmt::Debug + Clone;
    type Iter<'t>: Iterator<Item = (u64, u64)>
    where
        Self: 't;
    type Snapshot: Iterator<Item = (u64, u64)> + 'static;

    fn find<T: KeyTest>(&self, word: u64, test: &T) -> Option<u64>;

    fn find_guarded<T: KeyTest + Copy>(
        &self,
        guard: &GuardPin<'_>,
        word: u64,
        test: T,
    ) -> Option<u64>;

    fn apply<T: KeyTest>(
        &self,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64>;

    fn apply_unless_shadowed<T: KeyTest>(
        &self,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Result<Option<u64>, Shadowed>;

    fn apply_guarded<T: KeyTest>(
        &self,
        guard: &GuardPin<'_>,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64>;

    fn remove(&self, word: u64) -> Option<u64>;

    fn remove_guarded(&self, guard: &GuardPin<'_>, word: u64) -> Option<u64>;

    fn find_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        found: impl FnMut(usize, Option<u64>),
    );

    fn apply_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        fresh: impl Fn(usize) -> Option<u64>,
        change: impl Fn(usize, u64) -> Change,
        done: impl FnMut(usize, Option<u64>) -> bool,
    );

    fn remove_many(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        removed: impl FnMut(usize, Option<u64>),
    );

    fn prefetch(&self, word: u64);

    fn iter(&self) -> Self::Iter<'_>;

    /// Copies the pairs of one part, and returns whether there are parts behind it.
    fn read_part(&self, part: usize, pairs: &mut Vec<(u64, u64)>) -> bool;

    #[cfg(feature = "rayon")]
    fn split<'t>(iter: &mut Self::Iter<'t>) -> Option<Self::Iter<'t>>
    where
        Self: 't;

    fn for_each_left(&mut self, each: impl FnMut(u64));

    fn snapshot(&self) -> Result<Self::Snapshot, Error>;

    fn registry(&self) -> &Registry;

    fn free_retired(&self);

    fn len(&self) -> usize;

    fn reserve(&self, additional: usize) -> Result<(), Error>;

    fn shrink_to_fit(&self) -> Result<(), Error>;

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

    /// The highest number of bits of a key's word, and of a value's.
    #[doc(hidden)]
    const WORD_BITS: (u32, u32) = (64, 64);

    #[doc(hidden)]
    type Table<P: HashCodec>: PairTable<Stats = Self::Stats>;

    /// The medium of byte strings.
    #[doc(hidden)]
    type Medium: Medium;

    #[doc(hidden)]
    #[allow(missing_docs)]
    fn table<P: HashCodec>(codec: P, capacity: usize) -> Result<Self::Table<P>, Error>;
}

/// A design whose tables can place inline keys with the hashing `S`.
///
/// ```
/// use nunatak::{InlineMap, HashesWith, hash::Hashing, Unshadowed};
/// fn count<S: Hashing, D: HashesWith<S>>(map: &InlineMap<u64, u64, S, D>) -> usize {
///     map.len()
/// }
/// assert_eq!(count(&nunatak::DlhtShadowMap::<u64, u64>::new()), 0);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't hash with `{S}`",
    note = "DLHT takes any `BuildHasher` and `Modulo`, the others any `BuildHasher`"
)]
pub trait HashesWith<S: Hashing>: Design {}

/// A design whose keys are never hidden: every design except [`DlhtShadows`]. So an insert is never
/// refused for a hidden key, and returns only the value that it replaced. (The trait has no
/// parameter, so no other crate can implement it for [`DlhtShadows`].)
///
/// ```
/// use nunatak::{HashesWith, InlineMap, Unshadowed, hash::Hashing};
/// fn put<S: Hashing, D: HashesWith<S> + Unshadowed>(map: &InlineMap<u64, u64, S, D>) {
///     map.insert(1, 10);
/// }
/// put(&nunatak::DlhtMap::<u64, u64>::new());
/// ```
#[diagnostic::on_unimplemented(
    message = "keys of `{Self}` may be hidden",
    note = "maps of this design have other inserts, which return `Error::Shadowed`"
)]
pub trait Unshadowed: Design {}
