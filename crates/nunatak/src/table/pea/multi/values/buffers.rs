//! Which buffers are in use.
//!
//! Invariants
//! 1. A segment has a type while any of its buffers is in use; of the others it lists those
//!    that are free.
//! 2. The lowest segments are used first, so that the end of the reserved array can be given back
//!    to the system.
//! 3. After a crash nobody knows which buffers are in use before all segments of buckets
//!    were looked at: until then the *old* segments, all that there were before, have marks
//!    of those that were found, and none of the others is given out.
//! 4. Locks are taken in this order: the state, those of the medium, the old segments.

use super::{Pointer, Values, WORDS};
use crate::error::Error;
use crate::memory::Medium;
use crate::sync::Ordering;
use crate::table::pea::segments::room;
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) segments: Vec<Segment>,
    /// Segments that are not used at all.
    pub(super) free: BTreeSet<usize>,
    /// Of each type, the segments that have a free buffer.
    pub(super) with_room: Vec<BTreeSet<usize>>,
    /// How many segments are old.
    pub(super) old: usize,
}

impl State {
    pub(super) fn new(kinds: usize) -> Self {
        Self { with_room: (0..kinds).map(|_| BTreeSet::new()).collect(), ..Self::default() }
    }
}

#[derive(Debug, Default)]
pub(super) struct Segment {
    pub(super) kind: usize,
    pub(super) used: usize,
    /// Buffers that are free, by their numbers.
    pub(super) free: Vec<u16>,
}

/// A segment of which it is not known which buffers are in use, but for some.
#[derive(Debug, Default)]
pub(super) struct Old {
    /// Of those that were found.
    pub(super) kind: usize,
    pub(super) used: usize,
    /// A bit for each.
    pub(super) marks: Vec<u64>,
}

impl<M: Medium> Values<M> {
    /// An empty buffer, behind another one if it is a chain's. The link is durable with
    /// the first value.
    pub(super) fn allocate(&self, kind: usize, link: u64) -> Result<Pointer, Error> {
        let mut state = self.state.lock();
        let State { segments, free, with_room, .. } = &mut *state;
        let number = match with_room[kind].first() {
            Some(&number) => number,
            None => {
                let number = match free.pop_first() {
                    Some(number) => number,
                    None if segments.len() >= self.most => return Err(Error::CapacityOverflow),
                    None => {
                        let (len, bytes) = (segments.len() + 1, self.per_segment * WORDS * 8);
                        let room = if M::IS_DURABLE { len } else { room(len, bytes) };
                        self.words.grow(room * self.per_segment * WORDS)?;
                        segments.push(Segment::default());
                        segments.len() - 1
                    }
                };
                let buffers = (self.per_segment >> kind) as u32;
                let free = (0..buffers).rev().map(|buffer| buffer as u16).collect();
                segments[number] = Segment { kind, used: 0, free };
                with_room[kind].insert(number);
                number
            }
        };
        let segment = &mut segments[number];
        let buffer = segment.free.pop().unwrap_or_default();
        segment.used += 1;
        if segment.free.is_empty() {
            with_room[kind].remove(&number);
        }
        drop(state);
        let block = number * self.per_segment + ((buffer as usize) << kind);
        let pointer = Pointer::new(kind, 0, block);
        if kind == self.last_kind() {
            let linked = self.words.make_writable(block * WORDS);
            linked.inspect_err(|_| self.give_back(pointer))?;
            let word = self.words.at(block * WORDS);
            // Relaxed: before the release of the pointer or of the lock.
            self.medium.store_word(word, link, Ordering::Relaxed);
            self.medium.flush(word, 1);
        }
        Ok(pointer)
    }

    /// Takes a buffer back that no pointer names any more.
    pub(super) fn give_back(&self, pointer: Pointer) {
        let number = pointer.block() / self.per_segment;
        let buffer = (pointer.block() % self.per_segment) >> pointer.kind();
        if M::IS_DURABLE && self.unmark(number, buffer) {
            return;
        }
        let mut state = self.state.lock();
        let State { segments, free, with_room, .. } = &mut *state;
        // In a damaged file it may be none.
        let is_its = |segment: &&mut Segment| segment.used > 0 && segment.kind == pointer.kind();
        let Some(segment) = segments.get_mut(number).filter(is_its) else {
            debug_assert!(M::IS_DURABLE);
            return;
        };
        segment.free.push(buffer as u16);
        segment.used -= 1;
        if segment.used == 0 {
            with_room[segment.kind].remove(&number);
            segment.free = Vec::new();
            free.insert(number);
            self.discard(number);
        } else if segment.free.len() == 1 {
            with_room[segment.kind].insert(number);
        }
    }

    /// Takes a buffer back that is of an old segment, if it is.
    pub(super) fn unmark(&self, number: usize, buffer: usize) -> bool {
        let mut old = self.old.lock();
        let Some(segment) = old.get_mut(number) else { return false };
        let bit = 1 << (buffer % 64);
        if let Some(marks) = segment.marks.get_mut(buffer / 64).filter(|marks| **marks & bit != 0) {
            *marks &= !bit;
            segment.used -= 1;
        }
        true
    }

    /// Gives the pages of a segment up in which nothing is: nobody comes to them but readers
    /// who ask afterwards whether pages were given out again.
    pub(super) fn discard(&self, number: usize) {
        let words = self.per_segment * WORDS;
        if M::IS_PAGED && !self.medium.is_read_only() {
            self.words.discard(number * words..(number + 1) * words);
        }
    }

    /// Gives the memory of the last segments back to the system, if they are free.
    pub(in crate::table::pea) fn trim(&self) {
        let mut state = self.state.lock();
        let before = state.segments.len();
        while let Some(last) = state.segments.len().checked_sub(1)
            && last >= state.old
            && state.free.remove(&last)
        {
            state.segments.pop();
        }
        if state.segments.len() < before {
            self.words.shrink(state.segments.len() * self.per_segment * WORDS);
        }
    }

    /// How many segments there are, and of each type how many buffers are in use.
    pub(in crate::table::pea) fn stats(&self) -> (usize, Vec<usize>) {
        let state = self.state.lock();
        let mut buffers = vec![0; self.last_kind() + 1];
        for segment in &state.segments {
            buffers[segment.kind] += segment.used;
        }
        for old in self.old.lock().iter() {
            buffers[old.kind] += old.used;
        }
        (state.segments.len() - state.free.len(), buffers)
    }
}
