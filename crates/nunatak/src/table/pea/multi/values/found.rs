//! Value buffers of a file: which are in use.
//!
//! A closed table says it. After a crash they are the buffers that pointers name, which is known
//! after all segments of buckets were restored.

use super::{Old, PAGE_WORDS, Pointer, Segment, State, Values, WORDS};
use crate::error::Error;
use crate::memory::Medium;
use std::collections::BTreeSet;

/// In place of the words of a segment: the segment is unused.
const FREE: u64 = u64::MAX;

const KIND_SHIFT: u32 = 32;

impl<M: Medium> Values<M> {
    /// Returns the number of words that there are pages for.
    pub(in crate::table::pea) fn words(&self) -> usize {
        self.words.len()
    }

    /// Learns of the medium's segments. Which buffers are in use is not known yet.
    pub(in crate::table::pea) fn find_segments(&self) -> Result<(), Error> {
        let words = self.per_segment * WORDS;
        let len = self.words.len().div_ceil(words).min(self.most);
        self.words.grow(len * words)?;
        self.set_old((0..len).map(|_| Old::default()).collect());
        Ok(())
    }

    fn set_old(&self, segments: Vec<Old>) {
        let mut state = self.state.lock();
        state.old = segments.len();
        state.segments = segments.iter().map(|_| Segment::default()).collect();
        *self.old.lock() = segments;
    }

    /// Marks the buffers of a pointer as used. Returns false if the pointer is not valid, or if the
    /// buffers of a damaged file are not those that it has named. `place` is where it is.
    pub(in crate::table::pea) fn claim<T>(&self, pointer: Pointer, place: &T) -> bool {
        let mut old = self.old.lock();
        let mut marked = Vec::new();
        let mut next = Some(pointer);
        while let Some(buffer) = next {
            if !self.may_belong(buffer, place) || !self.mark_buffer(&mut old, buffer) {
                drop(old);
                for buffer in marked {
                    let (number, block) = self.split(buffer);
                    self.unmark(number, block >> buffer.kind());
                }
                return false;
            }
            marked.push(buffer);
            next = self.before(buffer);
        }
        true
    }

    fn may_belong<T>(&self, buffer: Pointer, place: &T) -> bool {
        let first = buffer.block() * WORDS;
        let mut pages = (first..first + (WORDS << buffer.kind())).step_by(PAGE_WORDS);
        !self.medium.is_forced()
            || self.is_mapped(buffer)
                && pages.all(|word| self.medium.may_belong(self.word(word), place))
    }

    fn mark_buffer(&self, old: &mut [Old], buffer: Pointer) -> bool {
        let (number, block) = self.split(buffer);
        let kind = buffer.kind();
        let is_sound = self.is_mapped(buffer) && buffer.count() > 0;
        let Some(segment) = old.get_mut(number).filter(|_| is_sound) else { return false };
        if segment.used == 0 {
            segment.kind = kind;
            segment.marks = vec![0; (self.per_segment >> kind).div_ceil(64)];
        }
        let bit = 1 << ((block >> kind) % 64);
        let is_other = segment.kind != kind || !block.is_multiple_of(1 << kind);
        if is_other || segment.marks[(block >> kind) / 64] & bit != 0 {
            return false;
        }
        segment.marks[(block >> kind) / 64] |= bit;
        segment.used += 1;
        true
    }

    /// Returns the segment of a buffer, and the buffer's first block in it.
    fn split(&self, buffer: Pointer) -> (usize, usize) {
        (buffer.block() / self.per_segment, buffer.block() % self.per_segment)
    }

    /// Ends the search: all buffers in use were found.
    pub(in crate::table::pea) fn end_search(&self) {
        let mut state = self.state.lock();
        let old = core::mem::take(&mut *self.old.lock());
        let State { segments, free, with_room, old: count } = &mut *state;
        *count = 0;
        for (number, old) in old.into_iter().enumerate() {
            if old.used == 0 {
                free.insert(number);
                self.discard(number);
                continue;
            }
            let Old { kind, used, marks } = old;
            let is_free = |&buffer: &usize| marks[buffer / 64] >> (buffer % 64) & 1 == 0;
            let buffers = (0..self.per_segment >> kind).rev().filter(is_free);
            let free: Vec<u16> = buffers.map(|buffer| buffer as u16).collect();
            if !free.is_empty() {
                with_room[kind].insert(number);
            }
            segments[number] = Segment { kind, used, free };
        }
    }

    /// Returns the first blocks of a pointer's buffers. Returns nothing if the pointer is not
    /// valid, or if a buffer's type is not its segment's.
    pub(in crate::table::pea) fn blocks(&self, pointer: Pointer) -> Option<Vec<usize>> {
        let is_sound = |buffer: &Pointer| {
            let (number, block) = self.split(*buffer);
            let state = self.state.lock();
            let segment = state.segments.get(number);
            let is_of_type = segment.is_some_and(|one| one.used > 0 && one.kind == buffer.kind());
            is_of_type
                && buffer.count() > 0
                && self.is_mapped(*buffer)
                && block.is_multiple_of(1 << buffer.kind())
        };
        let mut blocks = BTreeSet::new();
        let mut next = Some(pointer);
        while let Some(buffer) = next {
            if !is_sound(&buffer) || !blocks.insert(buffer.block()) {
                return None;
            }
            next = self.before(buffer);
        }
        Some(blocks.into_iter().collect())
    }

    /// Returns words that say which buffers are in use. Returns nothing if this is not known.
    pub(in crate::table::pea) fn to_words(&self) -> Option<Vec<u64>> {
        let state = self.state.lock();
        if state.old > 0 {
            return None;
        }
        let mut words = Vec::new();
        for segment in &state.segments {
            if segment.used == 0 {
                words.push(FREE);
                continue;
            }
            words.push((segment.kind as u64) << KIND_SHIFT | segment.used as u64);
            let buffers = self.per_segment >> segment.kind;
            let mut marks = vec![0_u64; buffers.div_ceil(64)];
            (0..buffers).for_each(|buffer| marks[buffer / 64] |= 1 << (buffer % 64));
            for &buffer in &segment.free {
                marks[buffer as usize / 64] &= !(1 << (buffer % 64));
            }
            words.extend(marks);
        }
        Some(words)
    }

    /// Learns from words which buffers are in use. Returns false if the words are not valid.
    pub(in crate::table::pea) fn learn(&self, words: &[u64]) -> bool {
        let mut rest = words.iter().copied();
        let mut segments = Vec::new();
        while let Some(said) = rest.next() {
            if said == FREE {
                segments.push(Old::default());
                continue;
            }
            let (kind, used) = ((said >> KIND_SHIFT) as usize, said as u32 as usize);
            if kind > self.last_kind() {
                return false;
            }
            let count = (self.per_segment >> kind).div_ceil(64);
            let marks: Vec<u64> = rest.by_ref().take(count).collect();
            let marked: u32 = marks.iter().map(|word| word.count_ones()).sum();
            if marks.len() < count || marked as usize != used || used == 0 {
                return false;
            }
            segments.push(Old { kind, used, marks });
        }
        // There may be pages for further segments, which are unused.
        let len = segments.len().max(self.state.lock().old);
        segments.resize_with(len, Old::default);
        if len > self.most || self.words.grow(len * self.per_segment * WORDS).is_err() {
            return false;
        }
        self.set_old(segments);
        self.end_search();
        true
    }
}
