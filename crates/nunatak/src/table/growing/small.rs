//! A few pairs in slots that any number of threads read, and one thread at a time changes.
//!
//! A slot holds a word and a value word. The word is stored exclusive-or a constant of the slot, so
//! that zero is an empty slot; the one word that equals the constant goes to other slots. A lookup
//! goes through all slots, so it needs no hash. Slots come in blocks: the first has a few, and each
//! further one makes the slots four times as many.
//!
//! Invariants
//! 1. Only the thread that holds the lock stores to a slot or adds a block. A block stays as long as
//!    the slots do.
//! 2. A pair stays in its slot until it is removed. So a lookup that goes through all slots finds a
//!    pair that is present throughout. If it finds none, a key of one slot was absent at an instant
//!    of the lookup. (A key of several slots may have had another one at each instant: a lookup of
//!    such keys rests on invariant 4.)
//! 3. A slot's value word is stored before its word. Pairs are loaded whole.
//! 4. The number of changes is odd while a slot is being changed. So a thread that finds the same even
//!    number before and after it has gone through the slots has seen them as of one moment.
//! 5. A slot never has the word that equals its [`constant`]: it would look empty.

use crate::seeded::{Bug, seeded};
use crate::sync::pairs_load_whole;
use crate::sync::{AtomicPair, AtomicPtr, AtomicU64, Mutex, MutexGuard, Ordering};
use core::ptr;

/// Slots of the first block.
const FIRST: usize = if cfg!(modelled) { 1 } else { 8 };

/// The number of attempts before a reader of several slots takes the lock.
const ATTEMPTS: usize = if cfg!(modelled) { 2 } else { 64 };

/// Returns the constant of a slot: a word that is hardly ever a key.
#[inline]
fn constant(number: usize) -> u64 {
    0x6E75_6E61_7461_6B00 + number as u64
}

/// Returns the word of what a slot stores, if it is not empty.
#[inline]
fn word_of(number: usize, first: u64) -> Option<u64> {
    (first != 0).then_some(first ^ constant(number))
}

#[derive(Debug)]
struct Block {
    slots: Box<[AtomicPair]>,
    next: AtomicPtr<Block>,
}

/// What only the holder of the lock uses.
#[derive(Debug, Default)]
pub(super) struct Changing {
    /// All slots.
    pub(super) slots: usize,
    /// Whether changes must wait for a larger table, which some thread needs.
    pub(super) must_grow: bool,
}

#[derive(Debug)]
pub(super) struct Small {
    first: AtomicPtr<Block>,
    changing: Mutex<Changing>,
    /// Twice the number of changes to the slots; invariant 4.
    changes: AtomicU64,
    pairs_load_whole: bool,
}

/// Walks the blocks.
struct Blocks<'s>(&'s AtomicPtr<Block>);

impl<'s> Iterator for Blocks<'s> {
    type Item = &'s Block;

    #[inline]
    fn next(&mut self) -> Option<&'s Block> {
        // Acquire: pairs with the release that adds a block.
        let block = self.0.load(Ordering::Acquire);
        // SAFETY: invariant 1: null, or a block that came from a box and lives as long as `'s`.
        let block = unsafe { block.as_ref() }?;
        self.0 = &block.next;
        Some(block)
    }
}

impl Small {
    pub(super) fn new() -> Self {
        Self {
            first: AtomicPtr::new(ptr::null_mut()),
            changing: Mutex::new(Changing::default()),
            changes: AtomicU64::new(0),
            pairs_load_whole: pairs_load_whole(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Changing> {
        self.changing.lock()
    }

    fn slots(&self) -> impl Iterator<Item = (usize, &AtomicPair)> {
        Blocks(&self.first).flat_map(|block| block.slots.iter()).enumerate()
    }

    /// Returns the number and the value word of the first slot whose word is this one, and whose
    /// value word is accepted.
    #[inline]
    pub(super) fn find(&self, word: u64, accepts: impl Fn(u64) -> bool) -> Option<(usize, u64)> {
        self.slots().find_map(|(number, slot)| {
            let (first, second) = slot.load_whole(self.pairs_load_whole);
            let is_found = word_of(number, first) == Some(word) && accepts(second);
            is_found.then_some((number, second))
        })
    }

    /// Returns the word and the value word of a slot that holds a pair.
    #[cfg(not(modelled))]
    pub(super) fn pair(&self, number: usize) -> Option<(u64, u64)> {
        let (number, slot) = self.slots().nth(number)?;
        let (first, second) = slot.load_whole(self.pairs_load_whole);
        Some((word_of(number, first)?, second))
    }

    /// Copies all pairs. The caller holds the lock.
    pub(super) fn pairs(&self, _held: &Changing) -> Vec<(u64, u64)> {
        let pair = |(number, slot): (usize, &AtomicPair)| {
            let (first, second) = slot.load_whole(self.pairs_load_whole);
            Some((word_of(number, first)?, second))
        };
        self.slots().filter_map(pair).collect()
    }

    /// Returns a number that every change to the slots makes another. The caller holds the lock.
    pub(super) fn changes(&self, _held: &Changing) -> u64 {
        // Relaxed: only the holder of the lock stores it.
        self.changes.load(Ordering::Relaxed)
    }

    /// Stores to slots.
    fn change<R>(&self, held: &mut Changing, change: impl FnOnce() -> R) -> R {
        let before = self.changes(held);
        // Relaxed: the slots' stores release, so a thread that sees one of them sees this.
        self.changes.store(before + 1, Ordering::Relaxed);
        let result = change();
        // Release: a thread that sees this sees the slots' stores.
        self.changes.store(before + 2, Ordering::Release);
        result
    }

    /// Reads slots as of one moment: reads them again if a slot has changed meanwhile.
    fn at_one_moment<R>(&self, mut read: impl FnMut() -> R) -> R {
        for _ in 0..ATTEMPTS {
            // Acquire: the slots are at least as new.
            let before = self.changes.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                let result = read();
                // Relaxed: the loads of the slots acquire (invariant 4).
                if self.changes.load(Ordering::Relaxed) == before {
                    return result;
                }
            }
        }
        let _held = self.lock();
        read()
    }

    /// As [`find`](Self::find), for words that may have several slots. Such a word may be present
    /// throughout, and in other slots whenever a lookup comes to them. So all slots are looked at as
    /// of one moment.
    pub(super) fn find_any(
        &self,
        word: u64,
        accepts: impl Fn(u64) -> bool,
    ) -> Option<(usize, u64)> {
        if seeded(Bug::SmallMissNotValidated) {
            return self.find(word, accepts);
        }
        self.at_one_moment(|| self.find(word, &accepts))
    }

    /// Appends the value words of all slots of a word, as of one moment.
    pub(super) fn values(&self, word: u64, values: &mut Vec<u64>) {
        let kept = values.len();
        self.at_one_moment(|| {
            values.truncate(kept);
            for (number, slot) in self.slots() {
                let (first, second) = slot.load_whole(self.pairs_load_whole);
                if word_of(number, first) == Some(word) {
                    values.push(second);
                }
            }
        });
    }

    /// Empties all slots of a word, as one change. Returns the value words.
    pub(super) fn remove_all(&self, held: &mut Changing, word: u64) -> Vec<u64> {
        self.change(held, || {
            let mut removed = Vec::new();
            for (number, slot) in self.slots() {
                let (first, second) = slot.load_whole(self.pairs_load_whole);
                if word_of(number, first) == Some(word) {
                    // Release: as in `remove`.
                    slot.store_first(0, Ordering::Release);
                    removed.push(second);
                }
            }
            removed
        })
    }

    /// Replaces the value word of a slot.
    pub(super) fn replace(&self, held: &mut Changing, number: usize, value_word: u64) {
        let Some((_, slot)) = self.slots().nth(number) else { return };
        // Release: a lookup that finds the value word finds what it points to.
        self.change(held, || slot.store_second(value_word, Ordering::Release));
    }

    /// Empties a slot.
    pub(super) fn remove(&self, held: &mut Changing, number: usize) {
        let Some((_, slot)) = self.slots().nth(number) else { return };
        // Release: the number of changes is odd for a thread that sees this.
        self.change(held, || slot.store_first(0, Ordering::Release));
    }

    /// Stores a pair of an absent key. Returns false if no slot is free for it.
    pub(super) fn insert(&self, held: &mut Changing, (word, value_word): (u64, u64)) -> bool {
        if held.slots == 0 {
            self.add_block(held);
        }
        // Relaxed: only the holder of the lock stores.
        let is_free = |(number, slot): &(usize, &AtomicPair)| {
            slot.load_first(Ordering::Relaxed) == 0 && word != constant(*number)
        };
        let Some((number, slot)) = self.slots().find(is_free) else { return false };
        self.change(held, || {
            // Relaxed: published by the next store (invariant 3).
            slot.store_second(value_word, Ordering::Relaxed);
            // Release: a lookup that finds the word finds the value word, and what it points to.
            slot.store_first(word ^ constant(number), Ordering::Release);
        });
        true
    }

    /// Makes the slots four times as many.
    pub(super) fn add_block(&self, held: &mut Changing) {
        let more = if held.slots == 0 { FIRST } else { 3 * held.slots };
        let slots = (0..more).map(|_| AtomicPair::default()).collect();
        let block = Box::new(Block { slots, next: AtomicPtr::new(ptr::null_mut()) });
        held.slots += more;
        let end = Blocks(&self.first).last().map_or(&self.first, |last| &last.next);
        // Release: a lookup that finds the block finds its slots empty.
        end.store(Box::into_raw(block), Ordering::Release);
    }

    /// Returns how many slots there are.
    pub(super) fn slot_count(&self) -> usize {
        self.lock().slots
    }

    /// Returns how many bytes the blocks take.
    pub(super) fn bytes(&self) -> usize {
        Blocks(&self.first).map(|block| size_of::<Block>() + size_of_val(&*block.slots)).sum()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let mut next = self.first.load(Ordering::Relaxed);
        while !next.is_null() {
            // SAFETY: invariant 1: the block came from a box, and no thread uses it any more.
            let block = unsafe { Box::from_raw(next) };
            next = block.next.load(Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn slots_keep_their_pairs_and_are_used_again() {
        let small = Small::new();
        let mut held = small.lock();
        for word in 0..4 * FIRST as u64 {
            if !small.insert(&mut held, (word, !word)) {
                small.add_block(&mut held);
                assert!(small.insert(&mut held, (word, !word)));
            }
        }
        assert_eq!((held.slots, small.pairs(&held).len()), (4 * FIRST, 4 * FIRST));
        assert!(small.bytes() >= 4 * FIRST * size_of::<AtomicPair>());
        assert!(!small.insert(&mut held, (100, 1)));
        let place = |word| small.find(word, |_| true);
        assert_eq!(place(9), Some((9, !9)));
        small.replace(&mut held, 9, 5);
        small.remove(&mut held, 3);
        assert!(small.insert(&mut held, (100, 1)));
        assert_eq!((place(9), place(3), place(100)), (Some((9, 5)), None, Some((3, 1))));
        assert_eq!((small.pair(3), small.pair(4 * FIRST)), (Some((100, 1)), None));
    }

    #[test]
    fn all_values_of_a_word_are_read_and_removed() {
        let small = Small::new();
        let mut held = small.lock();
        [1, 2, 1, 1].iter().zip(0..).for_each(|(&word, second)| {
            assert!(small.insert(&mut held, (word, second)));
        });
        let mut values = vec![9];
        small.values(1, &mut values);
        assert_eq!(values, [9, 0, 2, 3]);
        assert_eq!(small.remove_all(&mut held, 1), [0, 2, 3]);
        assert_eq!((small.pairs(&held), small.changes(&held)), (vec![(2, 1)], 10));
    }

    #[test]
    fn words_that_equal_a_constant_have_other_slots() {
        let small = Small::new();
        let mut held = small.lock();
        let words = || (0..FIRST).rev().map(constant);
        assert_eq!(small.find(constant(0), |_| true), None);
        words().for_each(|word| assert!(small.insert(&mut held, (word, !word))));
        words().for_each(|word| assert_eq!(small.find(word, |_| true).unwrap().1, !word));
        let place = small.find(constant(1), |_| true).unwrap().0;
        small.remove(&mut held, place);
        assert!(!small.insert(&mut held, (constant(place), 1)));
        assert_eq!(
            (small.find(constant(place), |second| second == 1), small.pair(place)),
            (None, None)
        );
    }
}
