//! Counts which cache lines of tables an operation touches.

use core::cell::RefCell;
use std::collections::BTreeSet;

thread_local! {
    /// Lines, and whether they are durable.
    static LINES: RefCell<BTreeSet<(usize, bool)>> = const { RefCell::new(BTreeSet::new()) };
}

pub(crate) fn record(address: usize, is_durable: bool) {
    LINES.with_borrow_mut(|lines| lines.insert((address / 64, is_durable)));
}

/// Returns the lines that `operation` touches, and whether they are durable.
pub(crate) fn places_of(operation: impl FnOnce()) -> BTreeSet<(usize, bool)> {
    LINES.with_borrow_mut(BTreeSet::clear);
    operation();
    LINES.take()
}

/// Returns how many lines `operation` touches.
#[cfg(test)]
pub(crate) fn lines_of(operation: impl FnOnce()) -> usize {
    places_of(operation).len()
}

/// Returns how many durable lines `operation` touches.
#[cfg(all(test, target_os = "linux", not(miri)))]
pub(crate) fn durable_lines_of(operation: impl FnOnce()) -> usize {
    places_of(operation).into_iter().filter(|(_, is_durable)| *is_durable).count()
}
