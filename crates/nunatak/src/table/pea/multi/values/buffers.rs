//! Value buffers: which are in use.
//!
//! Invariants
//! 1. A segment has a type while any of its buffers is in use, and lists its free buffers.
//! 2. The lowest segments are used first, so that the end of the reserved array can be given back
//!    to the system.
//! 3. After a crash it is not known which buffers are in use until all segments of buckets were
//!    restored. Until then *old* segments, all that are in the file, mark the buffers that were
//!    found. No buffer of an old segment is given out.
//! 4. Locks are taken in this order: the state, the locks of the medium, the old segments.

use super::{Pointer, Segment, State, Values, WORDS};
use crate::error::Error;
use crate::memory::Medium;
use crate::sync::Ordering;
use crate::table::pea::segments::room;

impl<M: Medium> Values<M> {
    /// Allocates an empty buffer. If it is for a chain, links it to the buffer before it. The link
    /// is durable with the first value.
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
            // Relaxed: the release of the pointer or of the lock comes later.
            self.medium.store_word(word, link, Ordering::Relaxed);
            self.medium.flush(word, 1);
        }
        Ok(pointer)
    }

    /// Takes back a buffer that no pointer names any more.
    pub(super) fn give_back(&self, pointer: Pointer) {
        let number = pointer.block() / self.per_segment;
        let buffer = (pointer.block() % self.per_segment) >> pointer.kind();
        if M::IS_DURABLE && self.unmark(number, buffer) {
            return;
        }
        let mut state = self.state.lock();
        let State { segments, free, with_room, .. } = &mut *state;
        // In a damaged file the pointer may name no buffer.
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

    /// Unmarks a buffer of an old segment. Returns false if its segment is not old.
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

    /// Gives up the pages of an empty segment. Only late readers use it, and they ask afterwards
    /// whether pages were reused.
    pub(super) fn discard(&self, number: usize) {
        let words = self.per_segment * WORDS;
        if M::IS_PAGED && !self.medium.is_read_only() {
            self.words.discard(number * words..(number + 1) * words);
        }
    }

    /// Returns the memory of the last segments to the system, if they are free.
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

    /// Returns the number of segments in use, and of buffers in use by type.
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
