//! Whether a table is shared between threads or belongs to one.
//!
//! The single-thread variant runs the same algorithms. Each compare-and-swap is a comparison and a
//! store, and operations are not announced (DLHT, section 3.4.5).

use super::{AtomicPair, AtomicU64, Ordering};

/// How a table does its read-modify-writes.
pub trait Mode: 'static {
    /// Whether other threads may be in the table.
    const SHARED: bool;

    /// Whether keys may be inserted hidden.
    const SHADOWS: bool = false;

    #[doc(hidden)]
    #[allow(missing_docs)]
    fn cas(word: &AtomicU64, current: u64, new: u64, success: Ordering) -> Result<(), u64>;

    #[doc(hidden)]
    #[allow(missing_docs)]
    fn cas_pair(pair: &AtomicPair, current: (u64, u64), new: (u64, u64)) -> bool;
}

/// Any number of threads use the map.
///
/// ```
/// use nunatak::{Dlht, DlhtMap, InlineMap, RandomState, mode::Shared};
/// let map: InlineMap<u64, u64, RandomState, Dlht<Shared>> = DlhtMap::new();
/// # assert!(map.is_empty());
/// ```
#[derive(Debug)]
pub struct Shared;

impl Mode for Shared {
    const SHARED: bool = true;

    #[inline(always)]
    #[doc(hidden)]
    #[allow(missing_docs)]
    fn cas(word: &AtomicU64, current: u64, new: u64, success: Ordering) -> Result<(), u64> {
        word.compare_exchange(current, new, success, Ordering::Relaxed).map(drop)
    }

    #[inline(always)]
    fn cas_pair(pair: &AtomicPair, current: (u64, u64), new: (u64, u64)) -> bool {
        pair.compare_exchange(current, new)
    }
}

/// Any number of threads use the map, and keys may be hidden.
#[derive(Debug)]
pub struct Shadowing;

impl Mode for Shadowing {
    const SHARED: bool = true;
    const SHADOWS: bool = true;

    #[inline(always)]
    #[doc(hidden)]
    #[allow(missing_docs)]
    fn cas(word: &AtomicU64, current: u64, new: u64, success: Ordering) -> Result<(), u64> {
        Shared::cas(word, current, new, success)
    }

    #[inline(always)]
    fn cas_pair(pair: &AtomicPair, current: (u64, u64), new: (u64, u64)) -> bool {
        Shared::cas_pair(pair, current, new)
    }
}

/// One thread uses the map, which therefore is not `Sync`.
///
/// ```compile_fail
/// fn shared<T: Sync>(_: T) {}
/// shared(nunatak::DlhtLocalMap::<u64, u64>::new());
/// ```
#[derive(Debug)]
pub struct SingleThread;

impl Mode for SingleThread {
    const SHARED: bool = false;

    #[inline(always)]
    #[doc(hidden)]
    #[allow(missing_docs)]
    fn cas(word: &AtomicU64, current: u64, new: u64, _success: Ordering) -> Result<(), u64> {
        let present = word.load(Ordering::Relaxed);
        if present != current {
            return Err(present);
        }
        word.store(new, Ordering::Relaxed);
        Ok(())
    }

    #[inline(always)]
    fn cas_pair(pair: &AtomicPair, current: (u64, u64), new: (u64, u64)) -> bool {
        let present = (pair.load_first(Ordering::Relaxed), pair.load_second(Ordering::Relaxed));
        if present != current {
            return false;
        }
        pair.store_first(new.0, Ordering::Relaxed);
        pair.store_second(new.1, Ordering::Relaxed);
        true
    }
}
