//! The answers that an operation has about value words whose hash is its key's.

use crate::table::KeyTest;
use core::cell::{Cell, RefCell};
use std::collections::HashMap;

/// The known answers about value words whose hash is the key's. The caller's code that answers must
/// not run under a lock. Most operations meet one such word or none.
#[derive(Debug, Default)]
pub(in crate::table) struct KeyTestAnswers {
    first: Option<(u64, bool)>,
    others: Option<Box<Answers>>,
}

/// None, for keys that are known by their words.
pub(in crate::table) static NO_ANSWERS: KeyTestAnswers =
    KeyTestAnswers { first: None, others: None };

type Answers = HashMap<u64, bool, foldhash::fast::FixedState>;

/// A key test that remembers its answers.
pub(in crate::table) struct Learning<'t, T>(&'t T, RefCell<&'t mut KeyTestAnswers>);

impl<T: KeyTest> KeyTest for Learning<'_, T> {
    const BY_WORD: bool = false;

    fn accepts(&self, value_word: u64) -> bool {
        if let Some(is) = self.1.borrow().is::<T>(value_word) {
            return is;
        }
        let is = self.0.accepts(value_word);
        self.1.borrow_mut().insert(value_word, is);
        is
    }
}

/// A key test that never runs the caller's code. It gives the known answers, and keeps a value word
/// whose answer is unknown.
pub(in crate::table) struct MemoisedKeyTest<'t, T> {
    test: &'t T,
    known: &'t KeyTestAnswers,
    unknown: Cell<Option<u64>>,
}

impl<'t, T: KeyTest> MemoisedKeyTest<'t, T> {
    #[inline(always)]
    pub(in crate::table) fn new(test: &'t T, known: &'t KeyTestAnswers) -> Self {
        Self { test, known, unknown: Cell::new(None) }
    }

    /// Returns a value word whose answer is unknown.
    #[inline(always)]
    pub(in crate::table) fn unknown(&self) -> Option<u64> {
        self.unknown.get()
    }
}

impl<T: KeyTest> KeyTest for MemoisedKeyTest<'_, T> {
    const BY_WORD: bool = T::BY_WORD;

    #[inline(always)]
    fn accepts(&self, value_word: u64) -> bool {
        if !T::RUNS_CALLERS_CODE {
            return self.test.accepts(value_word);
        }
        self.known.is::<T>(value_word).unwrap_or_else(|| {
            self.unknown.set(Some(value_word));
            false
        })
    }

    fn is_hidden(&self) -> Option<bool> {
        self.test.is_hidden()
    }

    #[inline(always)]
    fn has_unknown(&self) -> bool {
        T::RUNS_CALLERS_CODE && self.unknown.get().is_some()
    }
}

impl KeyTestAnswers {
    #[inline(always)]
    pub(in crate::table) fn is<T: KeyTest>(&self, value_word: u64) -> Option<bool> {
        if T::BY_WORD {
            return Some(true);
        }
        match self.first {
            Some((first, is)) if first == value_word => Some(is),
            _ => self.others.as_ref()?.get(&value_word).copied(),
        }
    }

    /// Returns the key's slot and value word, among the slots with its fingerprint; fails with a
    /// value word whose answer is unknown. No other thread may change the key: then the words of a
    /// slot with its tag are one pair.
    #[inline(always)]
    pub(in crate::table) fn slot_of<T: KeyTest>(
        &self,
        tag: u64,
        slots: impl Iterator<Item = usize>,
        pair: impl Fn(usize) -> (u64, u64),
    ) -> Result<Option<(usize, u64)>, u64> {
        for slot in slots {
            let (first, value_word) = pair(slot);
            if first == tag && self.is::<T>(value_word).ok_or(value_word)? {
                return Ok(Some((slot, value_word)));
            }
        }
        Ok(None)
    }

    pub(in crate::table) fn insert(&mut self, value_word: u64, is: bool) {
        match self.first {
            None => self.first = Some((value_word, is)),
            Some((first, _)) if first == value_word => self.first = Some((value_word, is)),
            Some(_) => {
                self.others.get_or_insert_default().insert(value_word, is);
            }
        }
    }

    /// Asks a test about all value words that a lookup meets.
    pub(in crate::table) fn learn<T: KeyTest>(
        &mut self,
        test: &T,
        look_up: impl FnOnce(&Learning<'_, T>),
    ) {
        look_up(&Learning(test, RefCell::new(self)));
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    /// Accepts even words, and counts how often it is asked.
    struct Even<const IS_CALLERS: bool>(Cell<usize>);

    impl<const IS_CALLERS: bool> KeyTest for Even<IS_CALLERS> {
        const BY_WORD: bool = false;
        const RUNS_CALLERS_CODE: bool = IS_CALLERS;

        fn accepts(&self, value_word: u64) -> bool {
            self.0.set(self.0.get() + 1);
            value_word.is_multiple_of(2)
        }
    }

    #[test]
    fn every_value_word_has_its_own_answer() {
        let test = Even::<true>(Cell::new(0));
        let mut known = KeyTestAnswers::default();
        for _ in 0..2 {
            known.learn(&test, |learning| {
                assert_eq!(
                    [4, 5, 6, 7].map(|word| learning.accepts(word)),
                    [true, false, true, false]
                );
            });
            assert_eq!(test.0.get(), 4, "answers are remembered");
        }
        known.insert(4, false);
        known.insert(5, true);
        let answers = [4, 5, 6, 7, 8].map(|word| known.is::<Even<true>>(word));
        assert_eq!(answers, [Some(false), Some(true), Some(true), Some(false), None]);
        let pairs = [(1, 6), (2, 4), (2, 7), (2, 5), (2, 8)];
        let slot_of = |slots| known.slot_of::<Even<true>>(2, slots, |slot| pairs[slot]);
        assert_eq!(slot_of(0..5), Ok(Some((3, 5))));
        assert_eq!(slot_of(0..3), Ok(None));
        assert_eq!(slot_of(4..5), Err(8));
    }

    #[test]
    fn the_callers_code_does_not_run_under_a_lock() {
        let known = KeyTestAnswers::default();
        let callers = Even::<true>(Cell::new(0));
        let test = MemoisedKeyTest::new(&callers, &known);
        assert!(!test.has_unknown() && !test.accepts(4) && test.has_unknown());
        assert_eq!((test.unknown(), callers.0.get()), (Some(4), 0));
        let ours = Even::<false>(Cell::new(0));
        let test = MemoisedKeyTest::new(&ours, &known);
        assert!(test.accepts(4) && !test.accepts(5) && !test.has_unknown());
    }
}
