//! [`BoxedMap`]: the value of a key, which is stored first if the key is absent.

use crate::entry::Unpublished;
use crate::map::boxed::BoxedMap;
use crate::table::{Change, Design};
use core::hash::{BuildHasher, Hash};
use equivalent::Equivalent;

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> BoxedMap<K, V, S, D> {
    /// Returns a copy of the key's value, or of the result of `make`, which is stored if the key is
    /// absent.
    ///
    /// `make` runs at most once. Its value is dropped if another thread stored one meanwhile. A
    /// value that is made once for all threads is a [`OnceLock`](std::sync::OnceLock):
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// # use std::sync::{Arc, OnceLock};
    /// let pages: DlhtBoxedMap<String, Arc<OnceLock<String>>> = DlhtBoxedMap::new();
    /// let load = || "expensive".to_string();
    /// let page = pages.get_or_insert_with("a".into(), Default::default);
    /// assert_eq!(page.get_or_init(load), "expensive"); // other threads wait here, not in the map
    /// ```
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> V
    where
        V: Clone,
    {
        self.get_with_or_insert(key, make, V::clone)
    }

    /// Runs `f` on the key's value, or on the result of `make`, which is stored first, if the key
    /// is absent.
    ///
    /// `make` runs at most once. Its value is dropped if another thread stored one meanwhile.
    /// Changes that `f` makes in place may be lost as with [`get_with`](Self::get_with), if other
    /// threads remove the entry; [`modify_or_insert_with`](Self::modify_or_insert_with) loses none.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// # use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// let counts: DlhtBoxedMap<String, AtomicU64> = DlhtBoxedMap::new();
    /// let count = |word: &str| {
    ///     counts.get_with_or_insert(word.into(), || AtomicU64::new(0), |n| n.fetch_add(1, Relaxed))
    /// };
    /// assert_eq!((count("ice"), count("ice")), (0, 1));
    /// ```
    pub fn get_with_or_insert<R>(
        &self,
        key: K,
        make: impl FnOnce() -> V,
        f: impl FnOnce(&V) -> R,
    ) -> R {
        let guard = self.guard();
        if let Some(entry) = self.find_entry(&guard, &key) {
            return f(&entry.value);
        }
        let entry = Unpublished::new(key, make());
        let ptr = entry.ptr();
        match self.apply(&guard, entry.key(), Some(ptr), Change::keep) {
            None => {
                entry.published();
                // SAFETY: the entry is in the table, or was taken out of it under this guard.
                f(unsafe { &ptr.entry().value })
            }
            // SAFETY: found under the guard (R3).
            Some(present) => f(unsafe { &present.entry().value }),
        }
    }

    /// As [`get_or_insert_with`](Self::get_or_insert_with), by a borrowed form of the key. The key
    /// itself is made only if it is absent.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// assert_eq!(map.get_or_insert_by_ref("a", || 1), 1);
    /// assert_eq!(map.get_or_insert_by_ref("a", || 2), 1);
    /// ```
    pub fn get_or_insert_by_ref<'q, Q>(&self, key: &'q Q, make: impl FnOnce() -> V) -> V
    where
        K: From<&'q Q>,
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        self.get_with_or_insert_by_ref(key, make, V::clone)
    }

    /// As [`get_with_or_insert`](Self::get_with_or_insert), by a borrowed form of the key. The key
    /// itself is made only if it is absent.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// # use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// let counts: DlhtBoxedMap<Box<str>, AtomicU64> = DlhtBoxedMap::new();
    /// let count = |word: &str| {
    ///     counts.get_with_or_insert_by_ref(word, AtomicU64::default, |n| n.fetch_add(1, Relaxed))
    /// };
    /// assert_eq!((count("ice"), count("ice")), (0, 1));
    /// ```
    pub fn get_with_or_insert_by_ref<'q, Q, R>(
        &self,
        key: &'q Q,
        make: impl FnOnce() -> V,
        f: impl FnOnce(&V) -> R,
    ) -> R
    where
        K: From<&'q Q>,
        Q: Hash + Equivalent<K> + ?Sized,
    {
        match self.get_ref(key) {
            Some(present) => f(&present),
            None => self.get_with_or_insert(K::from(key), make, f),
        }
    }
}
