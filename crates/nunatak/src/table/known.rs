//! What operations learn of value words whose hash is their key's.

use super::KeyTest;
use core::cell::RefCell;
use std::collections::HashMap;

/// What is known of value words whose hash is the key's. The caller's code that
/// tells must not run under a lock. Of most operations that is nothing, which is one word.
#[derive(Debug, Default)]
pub(super) struct Known(Option<Box<Answers>>);

type Answers = HashMap<u64, bool, foldhash::fast::FixedState>;

/// A test that remembers.
pub(super) struct Learning<'t, T>(&'t T, RefCell<&'t mut Known>);

impl<T: KeyTest> KeyTest for Learning<'_, T> {
    const BY_WORD: bool = false;

    fn accepts(&self, second: u64) -> bool {
        if let Some(is) = self.1.borrow().is::<T>(second) {
            return is;
        }
        let is = self.0.accepts(second);
        self.1.borrow_mut().insert(second, is);
        is
    }
}

impl Known {
    #[inline(always)]
    pub(super) fn is<T: KeyTest>(&self, second: u64) -> Option<bool> {
        if T::BY_WORD { Some(true) } else { self.0.as_ref()?.get(&second).copied() }
    }

    /// In which of the slots that have its fingerprint a key is that nobody else changes, so that
    /// what has its tag is its pair; and its value word. Or one that is not known to be its.
    #[inline(always)]
    pub(super) fn slot_of<T: KeyTest>(
        &self,
        tag: u64,
        slots: impl Iterator<Item = usize>,
        pair: impl Fn(usize) -> (u64, u64),
    ) -> Result<Option<(usize, u64)>, u64> {
        for slot in slots {
            let (first, second) = pair(slot);
            if first == tag && self.is::<T>(second).ok_or(second)? {
                return Ok(Some((slot, second)));
            }
        }
        Ok(None)
    }

    pub(super) fn insert(&mut self, second: u64, is: bool) {
        self.0.get_or_insert_default().insert(second, is);
    }

    /// Asks a test about all value words that a lookup comes upon.
    pub(super) fn learn<T: KeyTest>(&mut self, test: &T, look_up: impl FnOnce(&Learning<'_, T>)) {
        look_up(&Learning(test, RefCell::new(self)));
    }
}
