//! Guards on the entries of a map of byte strings; they return values without copies.

use crate::entry::{Entries, KeyOf, KeyRef};
use crate::map::bytes::ByteMap;
use crate::sync::GuardPin;
use crate::table::{Design, PairTable};
use core::fmt;

/// A guard on the entries of a [`ByteMap`]; see [`pin`](ByteMap::pin).
///
/// ```
/// use nunatak::TurboBlobMap;
/// let map = TurboBlobMap::new();
/// map.put(b"a", b"1")?;
/// let guard = map.pin();
/// let (one, none) = (guard.get(b"a"), guard.get(b"b"));
/// assert_eq!((one, none), (Some(&b"1"[..]), None));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub struct ByteGuard<'m, E: Entries, D: Design> {
    pub(super) map: &'m ByteMap<E, D>,
    pin: GuardPin<'m>,
}

impl<E: Entries, D: Design> ByteMap<E, D> {
    /// Returns a guard, which keeps the map's entries for as long as it lives: slices that are
    /// taken through it stay valid, whatever happens to their keys. Memory that is freed meanwhile
    /// waits for the guard; [`unreclaimed`](Self::unreclaimed) returns how many bytes wait. (Old
    /// indexes of DLHT, which growth leaves behind, wait, too.)
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.pin().get(b"a"), Some(&b"1"[..]));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn pin(&self) -> ByteGuard<'_, E, D> {
        ByteGuard { map: self, pin: self.guard() }
    }
}

impl<'m, E: Entries, D: Design> ByteGuard<'m, E, D> {
    pub(super) fn pin(&self) -> &GuardPin<'m> {
        &self.pin
    }

    /// Iterates over all keys with their values, weakly consistent.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.pin().iter().collect::<Vec<_>>(), [(&b"a"[..], &b"1"[..])]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (E::Found<'_>, E::Value<'_>)> {
        // SAFETY: the table holds words of these entries only, read under the guard.
        let found = |word, value_word| unsafe { self.map.entries.found(word, value_word) };
        let pairs = self.map.table.iter();
        pairs.map(move |(word, value_word)| {
            (found(word, value_word), self.map.value(&self.pin, value_word))
        })
    }

    /// Calls `found` for each entry of one part of the map, with a word that orders the entries of
    /// the part, and returns whether there are parts behind this one. So a walk can stop after any
    /// part, and go on later, under another guard.
    ///
    /// A key stays in its part, and its word stays the same. Each part is read as
    /// [`iter`](Self::iter) reads the map. A walk over all parts finds every key that is present
    /// throughout. In a TurboHash a part is a shard; a map of few entries, and a map of another
    /// design, is one part.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// (0..1000_u32).try_for_each(|key| map.put(&key.to_le_bytes(), b"").map(drop))?;
    /// let (mut part, mut count) = (0, 0);
    /// while map.pin().for_each_of_part(part, |_word, _key, _value| count += 1) {
    ///     part += 1;
    /// }
    /// assert!(count == 1000 && part > 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn for_each_of_part(
        &self,
        part: usize,
        mut found: impl FnMut(u64, E::Found<'_>, E::Value<'_>),
    ) -> bool {
        let mut pairs = Vec::new();
        let are_more = self.map.table.read_part(part, &mut pairs);
        for (word, value_word) in pairs {
            // SAFETY: the table holds words of these entries only, read under the guard.
            let key = unsafe { self.map.entries.found(word, value_word) };
            found(word, key, self.map.value(&self.pin, value_word));
        }
        are_more
    }
}

impl<E: Entries, D: Design> fmt::Debug for ByteGuard<'_, E, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteGuard").finish_non_exhaustive()
    }
}

impl<E: Entries, D: Design> ByteGuard<'_, E, D> {
    /// Returns the key's value, without a copy.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// assert_eq!(TurboBlobMap::new().pin().get(b"a"), None);
    /// ```
    // Always inlined: the caller may know the key's length, and the processor overlaps more short
    // lookups.
    #[inline(always)]
    pub fn get(&self, key: KeyRef<'_, E>) -> Option<E::Value<'_>> {
        self.map.find_value(&self.pin, key)
    }

    /// Looks up many keys, in order, with overlapped memory latencies. `found` gets the index of
    /// each key and its value.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// let (guard, mut lengths) = (map.pin(), vec![]);
    /// guard.get_many(&["b", "a"], |_, value| lengths.push(value.map(<[u8]>::len)));
    /// assert_eq!(lengths, [None, Some(1)]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get_many<'g, K: KeyOf<E::Naming>>(
        &'g self,
        keys: &[K],
        found: impl FnMut(usize, Option<E::Value<'g>>),
    ) {
        self.map.find_many(&self.pin, keys, found);
    }
}
