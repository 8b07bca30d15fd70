//! [`Detached`]: an entry that was removed from its map.

use crate::entry::Entries;
use crate::map::bytes::ByteMap;
use crate::table::Design;
use core::fmt;

/// An entry that was [removed](ByteMap::detach) from a map. When it is dropped its memory waits for
/// the guards that may see it. [`free`](Self::free) gives the memory back without waiting.
///
/// ```
/// let map = nunatak::TurboBlobMap::new();
/// map.put(b"a", b"1")?;
/// let entry = map.detach(b"a").unwrap();
/// assert_eq!((entry.value(), map.len()), (&b"1"[..], 0));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub struct Detached<'m, E: Entries, D: Design> {
    map: &'m ByteMap<E, D>,
    word: u64,
}

impl<'m, E: Entries, D: Design> Detached<'m, E, D> {
    /// The caller has taken the word out of its slot.
    pub(super) fn new(map: &'m ByteMap<E, D>, word: u64) -> Self {
        Self { map, word }
    }

    /// Returns the value.
    ///
    /// ```
    /// # let map = nunatak::TurboBlobMap::new();
    /// # map.put(b"a", b"1")?;
    /// assert_eq!(map.detach(b"a").unwrap().value(), b"1");
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn value(&self) -> E::Value<'_> {
        // SAFETY: the entry is removed, and given back only after this is dropped.
        unsafe { self.map.entries.value(self.word) }
    }

    /// Gives the memory back at once: for callers who know without guards that no thread reads the
    /// entry any more, such as callers of DLHT that do not use its epochs (section 3.2.3).
    ///
    /// # Safety
    /// No slice, value or iterator of any thread's guard refers to this entry, and no operation of
    /// another thread is running that reached its key before it was removed.
    ///
    /// ```
    /// # let map = nunatak::TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// let entry = map.detach(b"a").unwrap();
    /// // SAFETY: there is one thread, which has no guard.
    /// unsafe { entry.free() };
    /// assert_eq!(map.unreclaimed(), 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub unsafe fn free(self) {
        let (map, word) = (self.map, self.word);
        core::mem::forget(self);
        // SAFETY: the entry was removed, and the caller promises that no thread sees it.
        unsafe { map.entries.give_back(word) };
    }
}

impl<E: Entries, D: Design> fmt::Debug for Detached<'_, E, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detached").field("value", &self.value()).finish()
    }
}

impl<E: Entries, D: Design> Drop for Detached<'_, E, D> {
    fn drop(&mut self) {
        self.map.retire(self.word);
    }
}
