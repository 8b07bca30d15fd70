//! The calls of threads to a map, their times and their answers.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

/// Operations on a key, and their right answers in a sequential history.
pub trait Sequential: Clone + Eq + Debug {
    /// The state of a key; by default, also its state at the beginning.
    type State: Clone + Eq + Hash + Default;
    /// The answer of an operation.
    type Answer: Clone + Eq + Debug;

    /// Returns the key's state after the call, and the right answer.
    fn apply(&self, state: &Self::State) -> (Self::State, Self::Answer);
}

/// An operation on a key. Values stand for themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Returns the value.
    Get,
    /// Stores this value.
    Insert(u64),
    /// Stores this value if the key is absent.
    TryInsert(u64),
    /// Stores this value if the key is present.
    Update(u64),
    /// Removes the key.
    Remove,
    /// Stores `new` if the value is `current`.
    CompareExchange {
        /// The expected value.
        current: u64,
        /// The new value.
        new: u64,
    },
}

/// An answer of the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The value before (get, insert, update, remove).
    Before(Option<u64>),
    /// The answer of a `TryInsert`.
    Tried(Result<(), u64>),
    /// The answer of a `CompareExchange`.
    Exchanged(Result<u64, Option<u64>>),
}

impl Call {
    /// Returns the value after the call on a key with this value, and the right answer.
    ///
    /// ```
    /// use nunatak_harness::history::{Answer, Call};
    /// assert_eq!(Call::Insert(2).apply(Some(1)), (Some(2), Answer::Before(Some(1))));
    /// ```
    pub fn apply(self, value: Option<u64>) -> (Option<u64>, Answer) {
        match (self, value) {
            (Self::Get, _) => (value, Answer::Before(value)),
            (Self::Insert(new), _) => (Some(new), Answer::Before(value)),
            (Self::TryInsert(new), None) => (Some(new), Answer::Tried(Ok(()))),
            (Self::TryInsert(_), Some(present)) => (value, Answer::Tried(Err(present))),
            (Self::Update(new), _) => (value.and(Some(new)), Answer::Before(value)),
            (Self::Remove, _) => (None, Answer::Before(value)),
            (Self::CompareExchange { current, new }, Some(present)) if present == current => {
                (Some(new), Answer::Exchanged(Ok(present)))
            }
            (Self::CompareExchange { .. }, _) => (value, Answer::Exchanged(Err(value))),
        }
    }
}

impl Sequential for Call {
    type State = Option<u64>;
    type Answer = Answer;

    fn apply(&self, state: &Option<u64>) -> (Option<u64>, Answer) {
        (*self).apply(*state)
    }
}

/// A recorded operation on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation<C: Sequential = Call> {
    /// The key.
    pub key: u64,
    /// The number of the thread, for people who read the history.
    pub thread: usize,
    /// The call.
    pub call: C,
    /// A stamp from before the call.
    pub invoked: u64,
    /// A stamp from after the return, and the answer. `None` if the call never returned: it may
    /// have taken effect at any time since, or not at all.
    pub returned: Option<(u64, C::Answer)>,
}

/// One clock for all threads of a history. The earlier of two stamps is the lower one.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// Returns the next stamp.
    pub fn stamp(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// Records the operations of one thread.
#[derive(Debug)]
pub struct Recorder<'c, C: Sequential = Call> {
    clock: &'c Clock,
    thread: usize,
    operations: Vec<Operation<C>>,
}

impl<'c, C: Sequential> Recorder<'c, C> {
    /// Makes the record of a thread.
    pub fn new(clock: &'c Clock, thread: usize) -> Self {
        Self { clock, thread, operations: Vec::new() }
    }

    /// Runs operations on keys at once, in any order, and records the answers. There are as many
    /// answers as calls.
    ///
    /// If `run` panics, the operations are recorded as never returned.
    pub fn record(
        &mut self,
        calls: impl IntoIterator<Item = (u64, C)>,
        run: impl FnOnce() -> Vec<C::Answer>,
    ) {
        let first = self.operations.len();
        let invoked = self.clock.stamp();
        let thread = self.thread;
        self.operations.extend(calls.into_iter().map(|(key, call)| Operation {
            key,
            thread,
            call,
            invoked,
            returned: None,
        }));
        if let Some(answers) = crate::failures::catch(run) {
            let returned = self.clock.stamp();
            assert_eq!(answers.len(), self.operations.len() - first, "an answer a call");
            for (operation, answer) in self.operations[first..].iter_mut().zip(answers) {
                operation.returned = Some((returned, answer));
            }
        }
    }

    /// Returns the operations in the order of their calls.
    pub fn into_operations(self) -> Vec<Operation<C>> {
        self.operations
    }
}
