//! The pairs of a table that belongs to its iterator.
//!
//! Invariants
//! 1. The table came from a box, and is freed when the iterator over it has been dropped, and not
//!    before.
//! 2. No other thread has the table.

use crate::table::PairTable;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

pub(in crate::map) struct OwnedPairs<T: PairTable + 'static> {
    pairs: ManuallyDrop<T::Iter<'static>>,
    table: NonNull<T>,
}

impl<T: PairTable + 'static> OwnedPairs<T> {
    pub(in crate::map) fn new(table: T) -> Self {
        let table = NonNull::from(Box::leak(Box::new(table)));
        // SAFETY: the table lives as long as the iterator (invariant 1), which is not handed out.
        let pairs = unsafe { table.as_ref() }.iter();
        Self { pairs: ManuallyDrop::new(pairs), table }
    }
}

impl<T: PairTable + 'static> Iterator for OwnedPairs<T> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        self.pairs.next()
    }
}

impl<T: PairTable + 'static> Drop for OwnedPairs<T> {
    fn drop(&mut self) {
        // SAFETY: neither is used afterwards; the iterator goes first (invariant 1).
        unsafe {
            ManuallyDrop::drop(&mut self.pairs);
            drop(Box::from_raw(self.table.as_ptr()));
        }
    }
}

impl<T: PairTable + 'static> fmt::Debug for OwnedPairs<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedPairs").finish_non_exhaustive()
    }
}
