//! [`ByteMap`]: removals, and when the memory of removed entries is used again.

use crate::entry::{Entries, KeyRef};
#[cfg(doc)]
use crate::map::ConcurrentMap;
use crate::map::bytes::ByteMap;
use crate::map::bytes::detached::Detached;
use crate::table::{Change, Design, PairTable};

impl<E: Entries, D: Design> ByteMap<E, D> {
    /// Removes the key and returns a copy of its value.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// assert_eq!((map.remove(b"a"), map.remove(b"a")), (Some(b"1".to_vec()), None));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn remove(&self, key: KeyRef<'_, E>) -> Option<Vec<u8>> {
        let guard = self.guard();
        let word = self.apply(&guard, key, Change::remove)?;
        Some(self.take_out(&guard, word))
    }

    /// Removes the key, and returns whether it was present.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// assert!(!TurboBlobMap::new().delete(b"a"));
    /// ```
    pub fn delete(&self, key: KeyRef<'_, E>) -> bool {
        let guard = self.guard();
        let word = self.apply(&guard, key, Change::remove);
        word.map(|word| self.retire(word)).is_some()
    }

    /// Removes the key and returns its entry, whose memory the caller gives back.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.detach(b"a").unwrap().value(), b"1");
    /// assert!(map.detach(b"a").is_none());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn detach(&self, key: KeyRef<'_, E>) -> Option<Detached<'_, E, D>> {
        let guard = self.guard();
        let word = self.apply(&guard, key, Change::remove)?;
        Some(Detached::new(self, word))
    }

    /// Removes the key if `condition` holds for its value, and returns a copy of the value.
    /// `condition` may run more than once, each time on a newer entry.
    ///
    /// The removed entry is the very one that `condition` saw. But a [record that is changed in
    /// place](crate::entry::InPlace) may have been changed in between: such a change does not make
    /// `condition` run again.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.remove_if(b"a", |value| value.is_empty()), None);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn remove_if<F>(&self, key: KeyRef<'_, E>, mut condition: F) -> Option<Vec<u8>>
    where
        F: FnMut(E::Value<'_>) -> bool,
    {
        let guard = self.guard();
        let mut present = self.find_word(&guard, key);
        loop {
            let current = present?;
            if !condition(self.value(&guard, current)) {
                return None;
            }
            match self.replace(&guard, key, current, Change::Remove) {
                Ok(()) => return Some(self.take_out(&guard, current)),
                Err(newer) => present = newer,
            }
        }
    }

    /// [`ConcurrentMap::retain`]: removes the entries that `keep` rejects, and gives their memory
    /// back as [`clear`](Self::clear) does.
    ///
    /// `keep` runs once for each entry that it is shown. It runs again for a key only if the key
    /// has another entry by the time of the removal. A [record that is changed in
    /// place](crate::entry::InPlace) is still the same entry.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// map.retain(|_, value| value.is_empty());
    /// assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn retain<F: FnMut(KeyRef<'_, E>, E::Value<'_>) -> bool>(&self, mut keep: F) {
        // Retired after the guard ends, which would hold them back: every 128th would interrupt all
        // processors in vain.
        let mut removed = Vec::new();
        {
            let guard = self.guard();
            for (word, value_word) in self.table.iter() {
                // SAFETY: the table holds words of these entries only, read under the guard.
                let found = unsafe { self.entries.found(word, value_word) };
                let (key, mut judged) = (E::key(&found), value_word);
                while !keep(key, self.value(&guard, judged)) {
                    match self.replace(&guard, key, judged, Change::Remove) {
                        Ok(()) => {
                            removed.push(Detached::new(self, judged));
                            break;
                        }
                        Err(Some(newer)) => judged = newer,
                        Err(None) => break,
                    }
                }
            }
        }
        drop(removed);
        self.limbo.collect(self.table.registry());
    }

    /// [`ConcurrentMap::clear`]: removes every entry that the walk reaches, and gives back all
    /// memory that no guard can see. If any entry waits, it interrupts all processors that run this
    /// process at the end, for about a microsecond.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// map.clear();
    /// assert_eq!((map.len(), map.unreclaimed()), (0, 0));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn clear(&self) {
        // As in `retain`.
        let mut removed = Vec::new();
        {
            let guard = self.guard();
            for (word, value_word) in self.table.iter() {
                // SAFETY: the table holds words of these entries only, read under the guard.
                let found = unsafe { self.entries.found(word, value_word) };
                let taken_out = self.apply(&guard, E::key(&found), Change::remove);
                removed.extend(taken_out.map(|word| Detached::new(self, word)));
            }
        }
        drop(removed);
        self.limbo.collect(self.table.registry());
    }

    /// Gives back the memory of replaced and removed entries that no guard can see, and returns how
    /// many bytes wait for guards.
    ///
    /// Interrupts all processors that run this process for about a microsecond, if any entry waits.
    /// Memory that no call reclaims is given back later [as the map
    /// says](Self#when-memory-is-given-back).
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// map.put(b"a", b"2")?;
    /// assert_eq!(map.reclaim(), 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn reclaim(&self) -> usize {
        self.table.free_retired();
        self.limbo.collect(self.table.registry());
        self.limbo.weight()
    }

    /// Returns how many bytes of replaced and removed entries wait to be used again.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// assert_eq!(TurboBlobMap::new().unreclaimed(), 0);
    /// ```
    pub fn unreclaimed(&self) -> usize {
        self.limbo.weight()
    }
}
