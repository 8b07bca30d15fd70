//! Guards on the entries of a boxed map, and entries that were removed from it.

use crate::entry::{Entry, Retired};
use crate::hash::RandomState;
use crate::map::boxed::{BoxedMap, Pointer};
use crate::sync::GuardPin;
use crate::table::{Design, Dlht, PairTable};
use core::fmt;
use core::hash::{BuildHasher, Hash};
use equivalent::Equivalent;

/// A guard on the entries of a [`BoxedMap`]; see
/// [`pin`](BoxedMap::pin).
///
/// ```
/// use nunatak::DlhtBoxedMap;
/// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
/// map.insert("a".into(), 1);
/// let guard = map.pin();
/// let (one, none) = (guard.get("a"), guard.get("b"));
/// assert_eq!((one, none), (Some(&1), None));
/// ```
pub struct BoxedGuard<'m, K, V, S = RandomState, D: Design = Dlht> {
    map: &'m BoxedMap<K, V, S, D>,
    pin: GuardPin<'m>,
}

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> BoxedMap<K, V, S, D> {
    /// Returns a guard, which keeps the map's entries for as long as it lives: references that are
    /// taken through it stay valid, whatever happens to their keys. Memory that is freed meanwhile
    /// waits for the guard; [`unreclaimed`](Self::unreclaimed) returns how many entries wait. (Old
    /// indexes of DLHT, which growth leaves behind, wait, too.)
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, String> = DlhtBoxedMap::new();
    /// map.insert("a".into(), "b".into());
    /// assert_eq!(map.pin().get("a").map(String::as_str), Some("b"));
    /// ```
    pub fn pin(&self) -> BoxedGuard<'_, K, V, S, D> {
        BoxedGuard { map: self, pin: self.guard() }
    }
}

impl<'m, K, V, S, D: Design> BoxedGuard<'m, K, V, S, D> {
    pub(in crate::map) fn map(&self) -> &'m BoxedMap<K, V, S, D> {
        self.map
    }

    /// Returns the key and the value behind a value word that was read under this guard.
    pub(in crate::map) fn entry(&self, word: u64) -> (&K, &V) {
        // SAFETY: the table holds addresses of entries only; read under this guard,
        // which outlives the reference.
        let entry = unsafe { Pointer::<K, V>::from_word(word).entry() };
        (&entry.key, &entry.value)
    }
}

impl<K, V, S, D: Design> fmt::Debug for BoxedGuard<'_, K, V, S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedGuard").finish_non_exhaustive()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> BoxedGuard<'_, K, V, S, D> {
    /// Returns a reference to the key's value.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// assert_eq!(map.pin().get("a"), None);
    /// ```
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.find_entry(&self.pin, key).map(|entry| &entry.value)
    }

    /// Returns references to the stored key and its value.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// assert_eq!(map.pin().get_key_value("a"), Some((&"a".into(), &1)));
    /// ```
    pub fn get_key_value<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.find_entry(&self.pin, key).map(|entry| (&entry.key, &entry.value))
    }

    /// Iterates over references to all entries, weakly consistent.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// assert_eq!(map.pin().iter().map(|(_, value)| value).sum::<u64>(), 1);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.map.table.iter().map(|(_, word)| self.entry(word))
    }
}

/// An entry that was removed from a [`BoxedMap`]. Other threads may be reading it under guards that
/// they took before.
///
/// ```
/// use nunatak::DlhtBoxedMap;
/// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
/// map.insert("a".into(), 1);
/// let guard = map.pin();
/// let removed = map.remove_entry("a").unwrap();
/// let removed = removed.into_owned().unwrap_err(); // the guard may see it
/// drop(guard);
/// assert_eq!(removed.into_owned().unwrap(), ("a".into(), 1));
/// ```
pub struct Removed<'m, K, V, S = RandomState, D: Design = Dlht> {
    map: &'m BoxedMap<K, V, S, D>,
    entry: Option<Retired<K, V>>,
}

impl<K: fmt::Debug, V: fmt::Debug, S, D: Design> fmt::Debug for Removed<'_, K, V, S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Removed").field(&self.entry.as_ref().map(Retired::entry)).finish()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> BoxedMap<K, V, S, D> {
    pub(super) fn removed(&self, taken_out: Pointer<K, V>) -> Removed<'_, K, V, S, D> {
        // SAFETY: the caller's change took it out; `Removed` frees it by way of limbo, or after it
        // made sure that no thread can see it.
        let entry = unsafe { Retired::new(taken_out) };
        Removed { map: self, entry: Some(entry) }
    }
}

impl<K, V, S, D: Design> Removed<'_, K, V, S, D> {
    fn entry(&self) -> &Entry<K, V> {
        self.entry.as_ref().map(Retired::entry).expect("taken by consuming calls only")
    }

    /// Returns the key that was removed.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// assert_eq!(map.remove_entry("a").unwrap().key(), "a");
    /// ```
    pub fn key(&self) -> &K {
        &self.entry().key
    }

    /// Returns the value that was removed.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// assert_eq!(map.remove_entry("a").unwrap().value(), &1);
    /// ```
    pub fn value(&self) -> &V {
        &self.entry().value
    }

    /// Returns the key and the value by value, if no guard can see them. Interrupts every processor
    /// that runs this process, for about a microsecond.
    ///
    /// # Errors
    /// The entry itself, to try again or to drop, if a guard may see it.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// assert_eq!(map.remove_entry("a").unwrap().into_owned().unwrap(), ("a".into(), 1));
    /// ```
    pub fn into_owned(mut self) -> Result<(K, V), Self> {
        if !self.map.table.registry().is_unseen() {
            return Err(self);
        }
        let entry = self.entry.take().expect("taken by consuming calls only");
        // SAFETY: no guard that was taken before the entry was unlinked lives (R4).
        let Entry { key, value } = unsafe { entry.into_entry() };
        Ok((key, value))
    }
}

impl<K, V, S, D: Design> Drop for Removed<'_, K, V, S, D> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.map.limbo.retire(self.map.table.registry(), entry, 0);
        }
    }
}
