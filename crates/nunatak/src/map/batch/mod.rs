//! Batches: what all of them need; requests, outcomes and stop rules of mixed batches.

pub(super) mod windows;

use crate::error::BatchError;

/// Checks that the results of a batch fit.
pub(super) fn check_batch(requests: usize, results: usize) -> Result<(), BatchError> {
    if results < requests { Err(BatchError { requests, results }) } else { Ok(()) }
}

/// What an operation of a mixed batch asks for.
///
/// ```
/// use nunatak::{DlhtMap, Op, Outcome, Request, Stop};
/// let map: DlhtMap<u64, u64> = DlhtMap::new();
/// let mut batch = [Op::new(Request::TryInsert(1, 10)), Op::new(Request::Get(1))];
/// assert_eq!(map.execute(&mut batch, Stop::Never), 2);
/// assert_eq!(batch[1].outcome, Outcome::Found(10));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<K, V> {
    /// Looks the key up. Fails if it is absent.
    Get(K),
    /// Stores the value, replacing the present one. Never fails.
    Insert(K, V),
    /// Stores the value. Fails if the key is present.
    TryInsert(K, V),
    /// Replaces the value. Fails if the key is absent.
    Update(K, V),
    /// Removes the key. Fails if it is absent.
    Remove(K),
}

impl<K, V> Request<K, V> {
    /// Returns the key of the request.
    ///
    /// ```
    /// use nunatak::Request;
    /// assert_eq!(*Request::Insert(3, 4).key(), 3);
    /// ```
    pub fn key(&self) -> &K {
        match self {
            Self::Get(key)
            | Self::Insert(key, _)
            | Self::TryInsert(key, _)
            | Self::Update(key, _)
            | Self::Remove(key) => key,
        }
    }

    /// Returns the outcome of the request if `before` is the key's value: for maps that execute one
    /// request after the other.
    ///
    /// ```
    /// use nunatak::{Outcome, Request};
    /// assert_eq!(Request::TryInsert(3, 4).outcome(Some(5)), Outcome::Occupied(5));
    /// ```
    pub fn outcome<B>(&self, before: Option<B>) -> Outcome<B> {
        match (self, before) {
            (Self::Get(_), Some(value)) => Outcome::Found(value),
            (Self::Insert(..) | Self::Update(..), Some(value)) => Outcome::Replaced(value),
            (Self::TryInsert(..), Some(value)) => Outcome::Occupied(value),
            (Self::Remove(_), Some(value)) => Outcome::Removed(value),
            (Self::Insert(..) | Self::TryInsert(..), None) => Outcome::Inserted,
            (Self::Get(_) | Self::Update(..) | Self::Remove(_), None) => Outcome::Missing,
        }
    }
}

/// The outcome of an operation of a mixed batch.
///
/// ```
/// use nunatak::Outcome;
/// assert!(Outcome::Found(1).is_success());
/// assert!(!Outcome::<u64>::Missing.is_success());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome<V> {
    /// The operation was not executed.
    #[default]
    Pending,
    /// The key's value (`Get`).
    Found(V),
    /// The key is absent (`Get`, `Update`, `Remove`): a failure.
    Missing,
    /// The key is new (`Insert`, `TryInsert`).
    Inserted,
    /// The value that was replaced (`Insert`, `Update`).
    Replaced(V),
    /// The value that is present already (`TryInsert`): a failure.
    Occupied(V),
    /// The value that was removed (`Remove`).
    Removed(V),
}

impl<V> Outcome<V> {
    /// Returns whether the operation was executed and did not fail.
    ///
    /// ```
    /// use nunatak::Outcome;
    /// assert!(!Outcome::Occupied(1).is_success());
    /// ```
    pub fn is_success(&self) -> bool {
        !matches!(self, Self::Pending | Self::Missing | Self::Occupied(_))
    }
}

/// A request of a mixed batch, and its outcome once executed.
///
/// ```
/// use nunatak::{Op, Outcome, Request};
/// let op: Op<u64, u64> = Op::new(Request::Get(1));
/// assert_eq!(op.outcome, Outcome::Pending);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op<K, V> {
    /// What is asked for.
    pub request: Request<K, V>,
    /// The outcome.
    pub outcome: Outcome<V>,
}

impl<K, V> Op<K, V> {
    /// Makes an operation that is not executed yet.
    ///
    /// ```
    /// use nunatak::{Op, Request};
    /// let op: Op<u64, u64> = Op::new(Request::Remove(3));
    /// assert_eq!(op.request, Request::Remove(3));
    /// ```
    pub fn new(request: Request<K, V>) -> Self {
        Self { request, outcome: Outcome::Pending }
    }
}

/// When a mixed batch stops.
///
/// ```
/// use nunatak::{DlhtMap, Op, Outcome, Request, Stop};
/// let locks: DlhtMap<u64, u64> = DlhtMap::new();
/// locks.insert(2, 0);
/// let mut batch = [1, 2, 3].map(|key| Op::new(Request::TryInsert(key, 0)));
/// assert_eq!(locks.execute(&mut batch, Stop::AtFirstFailure), 2);
/// assert_eq!(batch[2].outcome, Outcome::Pending);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stop {
    /// Executes all operations.
    #[default]
    Never,
    /// Executes nothing after the first operation that fails.
    AtFirstFailure,
}
