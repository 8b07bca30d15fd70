//! Whether a history can have happened one operation at a time.
//!
//! The search of Wing and Gong with the memory of Lowe. It tries orders in which no operation comes
//! before one that had returned when it was called. It never visits the same set of done operations
//! with the same value twice. Keys are independent, so each is searched alone (Herlihy and Wing:
//! linearizability is local).

use crate::history::{Call, Operation, Sequential};
use std::collections::{BTreeMap, HashSet};

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<C: Sequential = Call> {
    /// There is an order that explains all answers.
    Linearizable,
    /// No order explains all answers.
    NotLinearizable {
        /// A key whose operations have no order.
        key: u64,
        /// As few of its operations as show this: up to the first wrong answer, which is the last
        /// one here.
        operations: Vec<Operation<C>>,
    },
    /// The search was given up.
    Unknown {
        /// The key at which the search ended.
        key: u64,
        /// The allowed number of steps.
        budget: usize,
    },
}

/// Searches for an order, in at most `budget` steps for each key. Every key was absent before the
/// history.
///
/// ```
/// use nunatak_harness::history::{Answer, Call, Operation};
/// use nunatak_harness::linearizability::{Verdict, check};
/// let get = |value| Operation {
///     key: 7, thread: 0, call: Call::Get, invoked: 0,
///     returned: Some((1, Answer::Before(value))),
/// };
/// assert_eq!(check(&[get(None)], 100), Verdict::Linearizable);
/// assert!(matches!(check(&[get(Some(1))], 100), Verdict::NotLinearizable { .. }));
/// ```
pub fn check<C: Sequential>(history: &[Operation<C>], budget: usize) -> Verdict<C> {
    let mut keys: BTreeMap<u64, Vec<Operation<C>>> = BTreeMap::new();
    for operation in history {
        keys.entry(operation.key).or_default().push(operation.clone());
    }
    let mut verdict = Verdict::Linearizable;
    for (key, mut operations) in keys {
        operations.sort_by_key(|operation| operation.invoked);
        match search(&operations, budget) {
            Some(true) => {}
            Some(false) => {
                let operations = shortest_failure(operations, budget);
                return Verdict::NotLinearizable { key, operations };
            }
            // Another key may still be found wrong, which says more.
            None => verdict = Verdict::Unknown { key, budget },
        }
    }
    verdict
}

fn returned_at<C: Sequential>(operation: &Operation<C>) -> Option<u64> {
    operation.returned.as_ref().map(|(at, _)| *at)
}

/// Returns the history until a moment: later calls are left out, and calls that had not returned
/// are open.
fn until<C: Sequential>(operations: &[Operation<C>], moment: u64) -> Vec<Operation<C>> {
    let called = operations.iter().filter(|operation| operation.invoked <= moment);
    let mut prefix: Vec<Operation<C>> = called.cloned().collect();
    for operation in &mut prefix {
        operation.returned = operation.returned.take().filter(|(at, _)| *at <= moment);
    }
    prefix
}

/// Returns the shortest prefix without an order. Every prefix of a linearizable history is
/// linearizable, so it can be bisected.
fn shortest_failure<C: Sequential>(
    operations: Vec<Operation<C>>,
    budget: usize,
) -> Vec<Operation<C>> {
    let mut returns: Vec<u64> = operations.iter().filter_map(returned_at).collect();
    returns.sort_unstable();
    let right = returns.partition_point(|&moment| {
        // A search that is given up counts as right: then the prefix is only longer.
        search(&until(&operations, moment), budget) != Some(false)
    });
    let Some(&moment) = returns.get(right) else { return operations };
    let mut shortest = until(&operations, moment);
    // Sorted by their calls as before, but the wrong answer last.
    let wrong = |operation: &Operation<C>| returned_at(operation) == Some(moment);
    shortest.sort_by_key(wrong);
    shortest
}

/// The set of done operations, as bits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Done(Box<[u64]>);

impl Done {
    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn flip(&mut self, at: usize) {
        self.0[at / 64] ^= 1 << (at % 64);
    }
}

/// Whether one key's operations, sorted by their calls, have an order; `None` if the search took
/// too long.
fn search<C: Sequential>(operations: &[Operation<C>], budget: usize) -> Option<bool> {
    let completed = operations.iter().filter(|operation| operation.returned.is_some()).count();
    let mut done = Done(vec![0; operations.len().div_ceil(64)].into());
    let mut answered = 0;
    let mut value = C::State::default();
    let mut seen = HashSet::from([(done.clone(), value.clone())]);
    // The done operations, each with the value before it.
    let mut path: Vec<(usize, C::State)> = Vec::new();
    let mut candidate = 0;
    let mut steps = 0;
    loop {
        if answered == completed {
            return Some(true);
        }
        steps += 1;
        if steps > budget {
            return None;
        }
        if let Some((at, after)) = next_step(operations, &done, &value, candidate) {
            done.flip(at);
            if seen.insert((done.clone(), after.clone())) {
                path.push((at, core::mem::replace(&mut value, after)));
                answered += usize::from(operations[at].returned.is_some());
                candidate = 0;
            } else {
                done.flip(at);
                candidate = at + 1;
            }
        } else {
            let Some((at, before)) = path.pop() else { return Some(false) };
            done.flip(at);
            answered -= usize::from(operations[at].returned.is_some());
            value = before;
            candidate = at + 1;
        }
    }
}

/// Returns the next operation, from `candidate` on, that may come next, and the value after it: it
/// was called before any operation that is left had returned, and its answer is right.
fn next_step<C: Sequential>(
    operations: &[Operation<C>],
    done: &Done,
    value: &C::State,
    candidate: usize,
) -> Option<(usize, C::State)> {
    let left = |at: &usize| !done.has(*at);
    let first_return = (0..operations.len())
        .filter(left)
        .filter_map(|at| returned_at(&operations[at]))
        .min()
        .unwrap_or(u64::MAX);
    (candidate..operations.len())
        .take_while(|&at| operations[at].invoked < first_return)
        .filter(left)
        .find_map(|at| {
            let (after, right) = operations[at].call.apply(value);
            let given = operations[at].returned.as_ref().map(|(_, answer)| answer);
            given.is_none_or(|given| *given == right).then_some((at, after))
        })
}
