//! When entries expire: a heap of moments, the next one first.

use crate::clock::Nanos;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// A place in the queues, and its generation.
pub(crate) type Place = (u32, u32);

#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Nanos, Place)>>,
}

impl Timers {
    /// Whether an entry is due.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.heap.peek().is_some_and(|Reverse((at, _))| *at <= now)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Takes an entry that is due.
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<Place> {
        if !self.is_due(now) {
            return None;
        }
        self.heap.pop().map(|Reverse((_, place))| place)
    }

    /// Sets a timer. Timers of entries that are gone stay until they are due, or until they are
    /// more than the entries that `is_there`, of which there are `live`.
    pub(crate) fn push(
        &mut self,
        at: Nanos,
        place: Place,
        live: usize,
        is_there: impl Fn(Place) -> bool,
    ) {
        if self.heap.len() > 2 * live + 64 {
            self.heap.retain(|Reverse((_, place))| is_there(*place));
        }
        self.heap.push(Reverse((at, place)));
    }
}
