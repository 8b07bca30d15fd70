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

/// How many lines of these ranges of addresses `operation` touches.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn lines_in(ranges: &[core::ops::Range<usize>], operation: impl FnOnce()) -> usize {
    lines_of(operation);
    let is_in = |line: &&usize| ranges.iter().any(|range| range.contains(&(**line * 64)));
    LINES.with_borrow(|lines| lines.iter().filter(is_in).count())
}
