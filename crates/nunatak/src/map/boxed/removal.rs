//! [`BoxedMap`]: entries that are taken out, and when they are freed.

use crate::entry::{Entry, Unpublished};
use crate::map::boxed::guard::Removed;
use crate::map::boxed::{BoxedMap, Pointer};
#[cfg(doc)]
use crate::map::{ConcurrentMap, Sealable};
use crate::table::{Change, Design, PairTable};
use core::hash::{BuildHasher, Hash};
use equivalent::Equivalent;

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> BoxedMap<K, V, S, D> {
    /// Stores the value and returns the entry that it replaced.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// struct NotClone(u64);
    /// let map: DlhtBoxedMap<String, NotClone> = DlhtBoxedMap::new();
    /// assert!(map.put("a".into(), NotClone(1)).is_none());
    /// assert_eq!(map.put("a".into(), NotClone(2)).unwrap().value().0, 1);
    /// ```
    pub fn put(&self, key: K, value: V) -> Option<Removed<'_, K, V, S, D>> {
        let entry = Unpublished::new(key, value);
        let guard = self.guard();
        let new = entry.ptr().to_word();
        let replaced = self.apply(&guard, entry.key(), Some(entry.ptr()), |_| Change::To(new));
        entry.published();
        replaced.map(|replaced| self.removed(replaced))
    }

    /// Removes the key and returns a copy of its value; [`remove_entry`](Self::remove_entry) makes
    /// no copy.
    ///
    /// The entry itself is dropped later: see [when entries are
    /// dropped](Self#when-entries-are-dropped).
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// assert_eq!((map.remove("a"), map.remove("a")), (Some(1), None));
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        self.remove_entry(key).map(|removed| removed.value().clone())
    }

    /// Removes the key and returns its entry. [`Removed::into_owned`] returns the entry by value
    /// when no other thread can see it.
    ///
    /// Threads that found the entry before may go on changing its value in place. Sealing a
    /// [`Sealable`] value prevents that.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, Vec<u8>> = DlhtBoxedMap::new();
    /// map.insert("a".into(), vec![1, 2, 3]);
    /// let removed = map.remove_entry("a").unwrap();
    /// let (key, value): (String, Vec<u8>) = removed.into_owned().unwrap();
    /// ```
    pub fn remove_entry<Q>(&self, key: &Q) -> Option<Removed<'_, K, V, S, D>>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let guard = self.guard();
        self.apply(&guard, key, None, Change::remove).map(|taken_out| self.removed(taken_out))
    }

    /// Removes the key if `condition` holds for its entry. `condition` may run more than once, each
    /// time on a newer entry.
    ///
    /// The removed entry is the very one that `condition` saw. But its value may have been changed
    /// in place in between, by [`get_with`](Self::get_with) or under a guard: such a change does
    /// not make `condition` run again. Changes that must not be lost need a [`Sealable`] value and
    /// [`remove_sealed_if`](Self::remove_sealed_if); see [the
    /// guide](crate::guide::values_in_place).
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// assert!(map.remove_entry_if("a", |_, value| *value > 1).is_none());
    /// ```
    pub fn remove_entry_if<Q, F>(
        &self,
        key: &Q,
        mut condition: F,
    ) -> Option<Removed<'_, K, V, S, D>>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        F: FnMut(&K, &V) -> bool,
    {
        let guard = self.guard();
        let mut present = self.find(&guard, key);
        loop {
            let current = present?;
            // SAFETY: found under the guard (R3).
            let entry = unsafe { current.entry() };
            if !condition(&entry.key, &entry.value) {
                return None;
            }
            match self.replace_entry(&guard, key, current, Change::Remove) {
                Ok(()) => return Some(self.removed(current)),
                Err(newer) => present = newer,
            }
        }
    }

    /// [`ConcurrentMap::remove_if`]: as [`remove_entry_if`](Self::remove_entry_if), but `condition`
    /// sees the value alone. Returns a copy of the value.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// assert_eq!(map.remove_if("a", |value| *value > 1), None);
    /// assert_eq!(map.remove_if("a", |value| *value > 0), Some(1));
    /// ```
    pub fn remove_if<Q, F>(&self, key: &Q, mut condition: F) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
        F: FnMut(&V) -> bool,
    {
        let removed = self.remove_entry_if(key, |_, value| condition(value))?;
        Some(removed.value().clone())
    }

    /// [`ConcurrentMap::retain`]: removes the entries that `keep` rejects, and drops them as
    /// [`clear`](Self::clear) does.
    ///
    /// `keep` runs once for each entry that it is shown. It runs again for a key only if the key
    /// has another entry by the time of the removal. A value that was changed in place is still the
    /// same entry: changes that must not be lost need [`retain_unsealed`](Self::retain_unsealed).
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// map.retain(|_, value| *value > 1);
    /// assert!(map.is_empty());
    /// ```
    pub fn retain<F: FnMut(&K, &V) -> bool>(&self, mut keep: F) {
        // Retired after the guard ends, which would hold them back: every 128th would interrupt all
        // processors in vain.
        let mut removed = Vec::new();
        {
            let guard = self.guard();
            for (_, word) in self.table.iter() {
                // SAFETY: the table holds addresses of entries only.
                let mut judged = unsafe { Pointer::<K, V>::from_word(word) };
                loop {
                    // SAFETY: found under the guard (R3).
                    let Entry { key, value } = unsafe { judged.entry() };
                    if keep(key, value) {
                        break;
                    }
                    match self.replace_entry(&guard, key, judged, Change::Remove) {
                        Ok(()) => {
                            removed.push(self.removed(judged));
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

    /// [`ConcurrentMap::clear`]: removes every entry that the walk reaches, and drops all entries
    /// that no guard can see. If any entry waits, it interrupts all processors that run this
    /// process at the end, for about a microsecond.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// # use std::sync::Arc;
    /// let (map, value) = (DlhtBoxedMap::<String, Arc<u64>>::new(), Arc::new(1));
    /// map.insert("a".into(), value.clone());
    /// map.clear();
    /// assert!(map.is_empty() && Arc::strong_count(&value) == 1);
    /// ```
    pub fn clear(&self) {
        // As in `retain`.
        let mut removed = Vec::new();
        {
            let guard = self.guard();
            for (_, word) in self.table.iter() {
                // SAFETY: the table holds addresses of entries only, found under the guard.
                let entry = unsafe { Pointer::<K, V>::from_word(word).entry() };
                let taken_out = self.apply(&guard, &entry.key, None, Change::remove);
                removed.extend(taken_out.map(|taken_out| self.removed(taken_out)));
            }
        }
        drop(removed);
        self.limbo.collect(self.table.registry());
    }
}

impl<K, V, S, D: Design> BoxedMap<K, V, S, D> {
    /// Drops the replaced and removed entries that no guard can see, and returns how many wait for
    /// guards.
    ///
    /// Interrupts all processors that run this process for about a microsecond, if any entry waits.
    /// Entries that no call reclaims are dropped later [as the map
    /// says](Self#when-entries-are-dropped).
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// map.insert("a".into(), 2);
    /// assert_eq!(map.reclaim(), 0);
    /// ```
    pub fn reclaim(&self) -> usize {
        self.table.free_retired();
        self.limbo.collect(self.table.registry());
        self.limbo.len()
    }

    /// Returns how many replaced and removed entries wait to be dropped.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// assert_eq!(DlhtBoxedMap::<String, u64>::new().unreclaimed(), 0);
    /// ```
    pub fn unreclaimed(&self) -> usize {
        self.limbo.len()
    }
}
