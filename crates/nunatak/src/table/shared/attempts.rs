//! A change to one key, and the loop of its attempts.
//!
//! An attempt holds locks, so it runs none of the caller's code. Where it needs an answer of the
//! caller's `Eq`, it ends. The loop asks while nothing is held, and tries again (R7).

use super::memoised_key_test::{KeyTestAnswers, Learning};
use crate::sync::Backoff;
use crate::table::KeyTest;

/// An operation on one key: the change of a present key, and the value word to insert for an absent
/// one.
pub(in crate::table) struct Request<'r, T, F> {
    pub(in crate::table) hash: u64,
    pub(in crate::table) tag: u64,
    pub(in crate::table) test: &'r T,
    pub(in crate::table) fresh: Option<u64>,
    pub(in crate::table) change: &'r F,
}

impl<T, F> Clone for Request<'_, T, F> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, F> Copy for Request<'_, T, F> {}

/// The reason why an attempt failed. The attempt holds nothing any more.
pub(in crate::table) enum Obstacle {
    /// This value word has the key's tag, and it is unknown whether it belongs to the key.
    Unknown(u64),
    /// Other threads must act first.
    Wait,
    /// The obstacle is gone.
    Gone,
}

impl<T: KeyTest, F> Request<'_, T, F> {
    /// Repeats an attempt until it succeeds. `look_up` shows the test all value words that may
    /// belong to the key.
    #[inline(always)]
    pub(in crate::table) fn repeat<R>(
        &self,
        look_up: impl Fn(&Learning<'_, T>),
        mut attempt: impl FnMut(&KeyTestAnswers) -> Result<R, Obstacle>,
    ) -> R {
        let (mut known, mut backoff) = (KeyTestAnswers::default(), Backoff::new());
        loop {
            if !T::BY_WORD {
                known.learn(self.test, &look_up);
            }
            match attempt(&known) {
                Ok(result) => return result,
                Err(Obstacle::Unknown(value_word)) => {
                    known.insert(value_word, self.test.accepts(value_word))
                }
                Err(Obstacle::Wait) => backoff.wait(),
                Err(Obstacle::Gone) => {}
            }
        }
    }
}
