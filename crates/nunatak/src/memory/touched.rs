//! Which cache lines of tables a test's operations touch: counted, not assumed.

use core::cell::RefCell;
use std::collections::BTreeSet;

thread_local! {
    static LINES: RefCell<BTreeSet<usize>> = const { RefCell::new(BTreeSet::new()) };
}

pub(crate) fn record(address: usize) {
    LINES.with_borrow_mut(|lines| lines.insert(address / 64));
}

/// How many lines `operation` touches.
pub(crate) fn lines_of(operation: impl FnOnce()) -> usize {
    LINES.with_borrow_mut(BTreeSet::clear);
    operation();
    LINES.with_borrow(BTreeSet::len)
}
