//! Storing a pair in a slot of two words.

use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicPair, Ordering};

/// Stores a pair into a slot whose tag is zero. Both words are of one cache line,
/// which persists in this order: what a crash leaves of it is all or nothing.
#[inline(always)]
pub(in crate::table) fn put_pair<M: Medium>(
    medium: &M,
    slot: &AtomicPair,
    (tag, second): (u64, u64),
) {
    if seeded(Bug::TagBeforeValue) {
        medium.store_first(slot, tag, Ordering::Release);
    }
    medium.store_second(slot, second, Ordering::Relaxed);
    // Release: who finds the tag finds the value and the fingerprint.
    medium.store_first(slot, tag, Ordering::Release);
}
