//! Changes to the values of a key. The caller holds the lock of the pointer's bucket.

use super::{PAGE_WORDS, Pointer, Values, WORDS};
use crate::error::Error;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::Ordering;

/// The rest after a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::table::pea) enum Left {
    Many(Pointer),
    One(u64),
    Nothing,
}

/// The stores that a removal needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::table::pea) struct Removal {
    /// The word to store first, by its number, and the last value, which fills this hole.
    pub(in crate::table::pea) hole: Option<(usize, u64)>,
    /// What the pointer becomes.
    pub(in crate::table::pea) left: Left,
}

impl<M: Medium> Values<M> {
    /// Stores values in a new buffer, durably.
    pub(in crate::table::pea) fn store(&self, values: &[u64]) -> Result<Pointer, Error> {
        let fits = |kind: &usize| values.len() <= self.capacity(*kind);
        let kind = (0..=self.last_kind()).find(fits).ok_or(Error::CapacityOverflow)?;
        let pointer = self.allocate(kind, 0)?.with_count(values.len());
        self.fill(pointer, values.iter().copied())?;
        Ok(pointer)
    }

    /// Appends a value to a key's buffer, durably. If the returned pointer names another buffer,
    /// the caller gives the old one back by [`replaced`](Self::replaced).
    pub(in crate::table::pea) fn append(
        &self,
        before: Pointer,
        value: u64,
    ) -> Result<Pointer, Error> {
        if let Some(appended) = self.append_behind(before, value)? {
            return Ok(appended);
        }
        let kind = before.kind();
        let pointer = match kind == self.last_kind() {
            true => self.allocate(kind, before.block() as u64 + 1)?,
            false => self.copy_to(kind + 1, before, None)?,
        };
        let appended = self.append_behind(pointer, value).inspect_err(|_| self.give_back(pointer));
        match appended? {
            Some(appended) => Ok(appended),
            None => unreachable!("a larger buffer has room"),
        }
    }

    /// Appends a value if the buffer has room.
    #[inline(always)]
    pub(in crate::table::pea) fn append_behind(
        &self,
        before: Pointer,
        value: u64,
    ) -> Result<Option<Pointer>, Error> {
        let count = before.count();
        if M::IS_DURABLE && !self.is_mapped(before) {
            // A pointer of a damaged file.
            return Err(Error::CapacityOverflow);
        }
        if count >= self.capacity(before.kind()) {
            return Ok(None);
        }
        let place = self.place(before, count);
        self.words.make_writable(place)?;
        // Relaxed: the release of the pointer or of the lock comes later.
        self.medium.store_word(self.words.at(place), value, Ordering::Relaxed);
        self.persist(place, 1);
        Ok(Some(before.with_count(count + 1)))
    }

    /// Finds a value in a key's buffers. Returns the buffer and the place in it.
    pub(in crate::table::pea) fn locate(
        &self,
        pointer: Pointer,
        value: u64,
    ) -> Option<(Pointer, usize)> {
        let mut buffers = self.chain(pointer, || true);
        buffers.find_map(|buffer| Some((buffer, self.find(buffer, value)?)))
    }

    /// Plans the removal of a [located](Self::locate) value. If `keeps_one`, a single value stays
    /// in its buffer.
    pub(in crate::table::pea) fn plan_removal(
        &self,
        pointer: Pointer,
        (buffer, at): (Pointer, usize),
        keeps_one: bool,
    ) -> Removal {
        let last_place = self.place(pointer, pointer.count() - 1);
        let last = self.words.at(last_place).load(Ordering::Relaxed);
        let place = self.place(buffer, at);
        let hole = (place != last_place).then_some((place, last));
        let left = pointer.with_count(pointer.count() - 1);
        let (kind, count) = (left.kind(), left.count());
        let left = match self.before(left) {
            Some(before) if count == 0 => Left::Many(before),
            Some(_) => Left::Many(left),
            None if count == 0 => Left::Nothing,
            None if count == 1 && !keeps_one => {
                let first = self.value(pointer, 0).load(Ordering::Relaxed);
                let one = if at == 0 { last } else { first };
                return Removal { hole: None, left: Left::One(one) };
            }
            None => {
                // Half full afterwards, so that the next few changes move nothing.
                let is_sparse = kind > 0 && count <= self.capacity(kind - 1) / 2;
                let smaller = || self.copy_to(kind - 1, pointer, Some(at)).ok();
                if is_sparse && let Some(smaller) = smaller() {
                    return Removal { hole: None, left: Left::Many(smaller) };
                }
                Left::Many(left)
            }
        };
        Removal { hole, left }
    }

    /// Gives back a replaced pointer's buffer, unless the new pointer names it or has it in its
    /// chain.
    pub(in crate::table::pea) fn replaced(&self, before: Pointer, by: Pointer) {
        let is_kept = by.block() == before.block()
            || self.before(by).is_some_and(|full| full.block() == before.block());
        if !is_kept {
            self.give_back(before);
        }
    }

    /// Gives all buffers of a key back.
    pub(in crate::table::pea) fn free(&self, pointer: Pointer) {
        // The iterator loads the link of each buffer before it returns the buffer.
        self.chain(pointer, || true).for_each(|buffer| self.give_back(buffer));
    }

    /// Copies the values of a buffer to a buffer of another type. Leaves one value out if asked;
    /// the last value takes its place.
    fn copy_to(
        &self,
        kind: usize,
        from: Pointer,
        without: Option<usize>,
    ) -> Result<Pointer, Error> {
        let count = from.count() - usize::from(without.is_some());
        let to = self.allocate(kind, 0)?.with_count(count);
        let value = |at| {
            let source = if without == Some(at) { from.count() - 1 } else { at };
            self.value(from, source).load(Ordering::Relaxed)
        };
        self.fill(to, (0..count).map(value))?;
        Ok(to)
    }

    /// Stores all values of a buffer that no other thread knows, durably. Gives the buffer back if
    /// this fails.
    fn fill(&self, buffer: Pointer, values: impl Iterator<Item = u64>) -> Result<(), Error> {
        let (first, end) = (buffer.block() * WORDS, self.place(buffer, buffer.count()));
        let pages = first / PAGE_WORDS..end.div_ceil(PAGE_WORDS);
        let mut words = pages.map(|page| first.max(page * PAGE_WORDS));
        let ready = words.try_for_each(|word| self.words.make_writable(word));
        ready.inspect_err(|_| self.give_back(buffer))?;
        for (place, value) in (self.place(buffer, 0)..).zip(values) {
            // Relaxed: the release of the pointer or of the lock comes later.
            self.medium.store_word(self.words.at(place), value, Ordering::Relaxed);
        }
        self.persist(first, end - first);
        Ok(())
    }

    /// Makes the word of a value writable.
    pub(in crate::table::pea) fn open(&self, word: usize) -> Result<(), Error> {
        self.words.make_writable(word)
    }

    /// Makes words durable, before a pointer names them.
    fn persist(&self, first: usize, count: usize) {
        if M::IS_DURABLE {
            let mut next = first;
            while next < first + count {
                let words = (first + count - next).min(PAGE_WORDS - next % PAGE_WORDS);
                if !seeded(Bug::BufferUnflushed) {
                    self.medium.flush(self.words.address(next), words);
                }
                next += words;
            }
            if !seeded(Bug::BufferUnfenced) {
                self.medium.fence();
            }
        }
    }
}
