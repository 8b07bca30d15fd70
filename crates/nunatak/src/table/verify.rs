//! What looking through a durable table has in common, whatever its design.

use super::{ByWord, PairTable};
use crate::error::{Error, FileError};

/// Whether a key's and a value's word are of their types.
pub(super) type IsPair<'f> = &'f (dyn Fn(u64, u64) -> bool + Sync);

pub(super) const NO_PAIR: &str = "a pair is of no key or value of these types";

/// An error that says what is wrong, unless a condition holds.
pub(super) fn ensure(condition: bool, what: &'static str) -> Result<(), Error> {
    if condition { Ok(()) } else { Err(FileError::Corrupt { what }.into()) }
}

/// Whether a pair is one, and is found, with the value that it has.
pub(super) fn verify_pair(
    table: &impl PairTable,
    (word, second): (u64, u64),
    is_pair: IsPair<'_>,
) -> Result<(), Error> {
    ensure(is_pair(word, second), NO_PAIR)?;
    ensure(table.find(word, &ByWord) == Some(second), "a pair is not found where it is")
}
