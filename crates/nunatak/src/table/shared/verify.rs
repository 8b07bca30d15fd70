//! What looking through a durable table has in common, whatever its design.

use crate::error::{Error, FileError};
use crate::table::{ByEntry, PairTable};

/// Whether a key's and a value's word are of their types.
pub(in crate::table) type IsPair<'f> = &'f (dyn Fn(u64, u64) -> bool + Sync);

pub(in crate::table) const NO_PAIR: &str = "a pair is of no key or value of these types";

/// An error that says what is wrong, unless a condition holds.
pub(in crate::table) fn ensure(condition: bool, what: &'static str) -> Result<(), Error> {
    if condition { Ok(()) } else { Err(FileError::Corrupt { what }.into()) }
}

/// Whether a pair is one, and is found, with the value that it has.
pub(in crate::table) fn verify_pair(
    table: &impl PairTable,
    (word, second): (u64, u64),
    is_pair: IsPair<'_>,
) -> Result<(), Error> {
    ensure(is_pair(word, second), NO_PAIR)?;
    // The very pair: of words that are no keys others may have the same.
    let found = table.find(word, &ByEntry(|other| other == second));
    ensure(found.is_some(), "a pair is not found where it is")
}
