//! [`Ref`]: a reference that keeps its entry.

use crate::map::boxed::{BoxedMap, Pointer};
use crate::sync::GuardPin;
use crate::table::Design;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use core::ops::Deref;
use equivalent::Equivalent;

/// A reference to an entry of a [`BoxedMap`], which keeps the entry while it lives, also if the key
/// is removed meanwhile. It derefs to the value.
///
/// It holds a guard, as [`pin`](BoxedMap::pin) does, and waits for nothing and nobody.
///
/// ```
/// use nunatak::DlhtBoxedMap;
/// let map: DlhtBoxedMap<String, Vec<u8>> = DlhtBoxedMap::new();
/// map.insert("a".into(), vec![1, 2]);
/// let value = map.get_ref("a").unwrap();
/// map.remove("a");
/// assert_eq!((value.key().as_str(), value.len()), ("a", 2));
/// ```
pub struct Ref<'m, K, V> {
    entry: Pointer<K, V>,
    _guard: GuardPin<'m>,
    entries: PhantomData<&'m (K, V)>,
}

impl<'m, K, V> Ref<'m, K, V> {
    /// The entry was found under the guard.
    pub(super) fn new(entry: Pointer<K, V>, guard: GuardPin<'m>) -> Self {
        Self { entry, _guard: guard, entries: PhantomData }
    }

    /// Returns the stored key.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1)].into();
    /// assert_eq!(map.get_ref("a").unwrap().key(), "a");
    /// ```
    pub fn key(&self) -> &K {
        // SAFETY: found under the guard, which lives as long as `self` (R3).
        &unsafe { self.entry.entry() }.key
    }

    /// Returns the value; so does dereferencing.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1)].into();
    /// assert_eq!(map.get_ref("a").unwrap().value(), &1);
    /// ```
    pub fn value(&self) -> &V {
        // SAFETY: as in `key`.
        &unsafe { self.entry.entry() }.value
    }
}

impl<K, V> Deref for Ref<'_, K, V> {
    type Target = V;

    fn deref(&self) -> &V {
        self.value()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Ref<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ref").field("key", self.key()).field("value", self.value()).finish()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> BoxedMap<K, V, S, D> {
    /// Returns a reference to the key's entry, which keeps the entry. Many lookups in a row cost
    /// less through one guard: see [`pin`](Self::pin).
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1)].into();
    /// assert_eq!(map.get_ref("a").map(|value| *value + 1), Some(2));
    /// ```
    pub fn get_ref<Q>(&self, key: &Q) -> Option<Ref<'_, K, V>>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let guard = self.guard();
        let found = self.find(&guard, key)?;
        Some(Ref::new(found, guard))
    }
}
