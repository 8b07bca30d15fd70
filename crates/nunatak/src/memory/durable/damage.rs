//! Damage of a file: what was noticed, and what becomes of it.
//!
//! A file that is damaged is refused, or closed to changes. Who wants what is left of it opens it
//! [`Forced`]: only to be read, mapped privately, with whatever is wrong left out.

use crate::error::{Error, FileError};
use crate::sync::Mutex;

/// How a damaged file is read, by [`Options::forced`](crate::durable::Options::forced).
///
/// ```
/// use nunatak::durable::{Forced, Options};
/// let options = Options::new().forced(Forced::Intact);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forced {
    /// All that can be read, also from pages that are not as their checksums say.
    Everything,
    /// Only what is in pages that are as their checksums say, or that have none.
    Intact,
}

/// The most findings that are kept.
const MOST: usize = 1000;

/// The damage that was noticed since a file was opened.
#[derive(Debug, Default)]
pub(super) struct Damages(Mutex<Vec<Error>>);

impl Damages {
    pub(super) fn note(&self, error: Error) {
        let mut all = self.0.lock();
        if all.len() < MOST && !all.contains(&error) {
            all.push(error);
        }
    }

    pub(super) fn first(&self) -> Option<Error> {
        self.0.lock().first().copied()
    }

    pub(super) fn all(&self) -> Vec<Error> {
        self.0.lock().clone()
    }
}

/// Whether an error says that the file's contents are damaged, and not that it can't be used.
pub(super) fn is_damage(error: &Error) -> bool {
    matches!(error, Error::File(FileError::Corrupt { .. } | FileError::Truncated { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_kept_once_each_and_not_without_end() {
        let damages = Damages::default();
        let error = |at: usize| FileError::corrupt_at("a word", at as u64).into();
        assert_eq!((damages.first(), damages.all()), (None, vec![]));
        for at in (0..2 * MOST).map(|at| at / 2).chain(0..MOST + 1) {
            damages.note(error(at));
        }
        assert_eq!(damages.first(), Some(error(0)));
        assert_eq!(damages.all(), (0..MOST).map(error).collect::<Vec<_>>());
        assert!(is_damage(&error(0)) && !is_damage(&FileError::Full.into()));
    }
}
