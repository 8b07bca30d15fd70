//! What threads asked of a map, when, and what they were told.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

/// What can be asked of a key, and what answers are right if one thing happens after the
/// other.
pub trait Sequential: Clone + Eq + Debug {
    /// What a key can hold; by default, what it holds at the beginning.
    type State: Clone + Eq + Hash + Default;
    /// What is answered.
    type Answer: Clone + Eq + Debug;

    /// What the call makes of a key that holds this, and the right answer.
    fn apply(&self, state: &Self::State) -> (Self::State, Self::Answer);
}

/// What is asked of a key. Values stand for themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// The value.
    Get,
    /// Store this value.
    Insert(u64),
    /// Store this value if the key is absent.
    TryInsert(u64),
    /// Store this value if the key is present.
    Update(u64),
    /// Take the key out.
    Remove,
    /// Store `new` if the value is `current`.
    CompareExchange {
        /// The value that must be there.
        current: u64,
        /// The value that is stored.
        new: u64,
    },
}

/// What the map answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The value before (get, insert, update, remove).
    Before(Option<u64>),
    /// Of a `TryInsert`.
    Tried(Result<(), u64>),
    /// Of a `CompareExchange`.
    Exchanged(Result<u64, Option<u64>>),
}

impl Call {
    /// What the call does to a key of this value, and the right answer.
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

/// An operation on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation<C: Sequential = Call> {
    /// Which key.
    pub key: u64,
    /// Which thread; only for people who read it.
    pub thread: usize,
    /// What was asked.
    pub call: C,
    /// A stamp from before the call.
    pub invoked: u64,
    /// A stamp from after the return, and what was answered. `None` if it never
    /// returned: it may have taken effect at any time since, or not at all.
    pub returned: Option<(u64, C::Answer)>,
}

/// One clock for all threads of a history: of two stamps the one that was
/// taken first is lower.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// The next stamp.
    pub fn stamp(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// What one thread does, as it happens.
#[derive(Debug)]
pub struct Recorder<'c, C: Sequential = Call> {
    clock: &'c Clock,
    thread: usize,
    operations: Vec<Operation<C>>,
}

impl<'c, C: Sequential> Recorder<'c, C> {
    /// A thread's record.
    pub fn new(clock: &'c Clock, thread: usize) -> Self {
        Self { clock, thread, operations: Vec::new() }
    }

    /// Does operations on keys at once, in any order, and notes the answers,
    /// of which there are as many as calls.
    ///
    /// If `run` panics, the operations are noted as never returned.
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

    /// The operations, in the order of their calls.
    pub fn into_operations(self) -> Vec<Operation<C>> {
        self.operations
    }
}
