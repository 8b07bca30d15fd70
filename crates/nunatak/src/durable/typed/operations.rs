//! [`TypedMap`]: operations on keys.

use super::{Encoding, KeyEncoding, TypedGuard, TypedMap, encoded};
use crate::error::Error;
use crate::map::Compute;
use crate::seeded::{Bug, seeded};
use std::borrow::{Borrow, Cow};

/// Operations on keys. An error of any of them means that nothing was changed, unless it says that
/// the map is poisoned: then it is unknown whether the change is durable.
impl<K: KeyEncoding, V: Encoding> TypedMap<K, V> {
    /// Returns a guard, which keeps the map's entries for as long as it lives: what is read through
    /// it stays valid. Memory that is freed meanwhile waits for the guard.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, String> = TypedMap::create(&path)?;
    /// map.insert("a", "b")?;
    /// assert_eq!(map.pin().get("a")?, Some("b"));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn pin(&self) -> TypedGuard<'_, K, V> {
        TypedGuard { map: self, guard: self.bytes.pin() }
    }

    /// Returns the key's value.
    ///
    /// # Errors
    /// [`FileError::Undecodable`](crate::FileError::Undecodable) if the bytes in the file are not
    /// those of a value; [`Error::Unencodable`] if the key can't be encoded.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// assert_eq!(map.get("a")?, None);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get(&self, key: &K::Ref) -> Result<Option<V::Owned>, Error> {
        self.get_with(key, V::to_owned)
    }

    /// Runs `f` on the key's value. Strings and byte strings are read in place, without a copy.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<u64, String> = TypedMap::create(&path)?;
    /// map.insert(&1, "stands still")?;
    /// assert_eq!(map.get_with(&1, |value: &str| value.len())?, Some(12));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get_with<R>(
        &self,
        key: &K::Ref,
        f: impl FnOnce(V::View<'_>) -> R,
    ) -> Result<Option<R>, Error> {
        let key = encoded::<K>(key)?;
        self.bytes.get_with(&key, |value| self.value(value).map(f)).transpose()
    }

    /// Returns whether the key is present.
    ///
    /// # Errors
    /// [`Error::Unencodable`] if the key can't be encoded.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// assert!(!map.contains_key("a")?);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn contains_key(&self, key: &K::Ref) -> Result<bool, Error> {
        Ok(self.bytes.contains_key(&encoded::<K>(key)?))
    }

    /// Stores the value, and returns the value that it replaced. Decodes that one first: if it can't
    /// be decoded, nothing is stored. [`put`](Self::put) does not look at it.
    ///
    /// # Errors
    /// As [`get`](Self::get). If the value can't be encoded, the key or the value has more than
    /// 2^32 - 1 bytes, the file was opened only for reading, the disk is full, or the map is
    /// poisoned. This holds for all methods that store something.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// assert_eq!((map.insert("a", &1)?, map.insert("a", &2)?), (None, Some(1)));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn insert(&self, key: &K::Ref, value: &V::Ref) -> Result<Option<V::Owned>, Error> {
        let before = self.insert_unsynced(key, value)?;
        self.bytes.acknowledge(before)
    }

    pub(super) fn insert_unsynced(
        &self,
        key: &K::Ref,
        value: &V::Ref,
    ) -> Result<Option<V::Owned>, Error> {
        let (key, value) = (encoded::<K>(key)?, encoded::<V>(value)?);
        self.change(&key, |_| Ok(Compute::Put(value.to_vec())))
    }

    /// Changes a key as `f` decides, and returns the value before. If that can't be decoded, or `f`
    /// returns an error, nothing is changed. Does not acknowledge.
    fn change<F>(&self, key: &[u8], mut f: F) -> Result<Option<V::Owned>, Error>
    where
        F: FnMut(Option<&V::Owned>) -> Result<Compute<Vec<u8>>, Error>,
    {
        let mut last = Ok(None);
        self.bytes.compute_unsynced(key, |present| {
            // Of the last call, which counts, the value is what is replaced.
            last = present.map(|value| self.owned(value)).transpose();
            let change = match &last {
                Ok(before) => f(before.as_ref()),
                Err(_) if seeded(Bug::UndecodableReplaced) => f(None),
                Err(_) => return Compute::Keep,
            };
            change.unwrap_or_else(|error| {
                last = Err(error);
                Compute::Keep
            })
        })?;
        last
    }

    /// Stores the value, and returns whether it replaced one. It does not decode the replaced value.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), except for what can't be decoded.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// assert_eq!((map.put("a", &1)?, map.put("a", &2)?), (false, true));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn put(&self, key: &K::Ref, value: &V::Ref) -> Result<bool, Error> {
        self.bytes.put(&encoded::<K>(key)?, &encoded::<V>(value)?)
    }

    /// Stores the value if the key is absent, and returns the present value otherwise.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// assert_eq!((map.try_insert("a", &1)?, map.try_insert("a", &2)?), (Ok(()), Err(1)));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn try_insert(&self, key: &K::Ref, value: &V::Ref) -> Result<Result<(), V::Owned>, Error> {
        match self.bytes.try_insert(&encoded::<K>(key)?, &encoded::<V>(value)?)? {
            Ok(()) => Ok(Ok(())),
            Err(present) => Ok(Err(self.owned(&present)?)),
        }
    }

    /// Replaces the value if the key is present, and returns the value that it replaced.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// assert_eq!(map.update("a", &1)?, None);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn update(&self, key: &K::Ref, value: &V::Ref) -> Result<Option<V::Owned>, Error> {
        let (key, value) = (encoded::<K>(key)?, encoded::<V>(value)?);
        let before = self.change(&key, |present| {
            Ok(present.map_or(Compute::Keep, |_| Compute::Put(value.to_vec())))
        })?;
        self.bytes.acknowledge(before)
    }

    /// Keeps, replaces or removes the key's value as `f` decides, atomically, and returns the value
    /// before. `f` may run more than once; its last answer counts.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// # use nunatak::{Compute, durable::TypedMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// let count = |count: Option<&u64>| Compute::Put(count.unwrap_or(&0) + 1);
    /// assert_eq!((map.compute("a", count)?, map.compute("a", count)?), (None, Some(1)));
    /// assert_eq!(map.get("a")?, Some(2));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn compute<F>(&self, key: &K::Ref, mut f: F) -> Result<Option<V::Owned>, Error>
    where
        F: FnMut(Option<&V::Owned>) -> Compute<V::Owned>,
    {
        let before = self.change(&encoded::<K>(key)?, |present| {
            Ok(match f(present) {
                Compute::Keep => Compute::Keep,
                Compute::Remove => Compute::Remove,
                Compute::Put(new) => Compute::Put(encoded::<V>(V::borrow(&new))?.into_owned()),
            })
        })?;
        self.bytes.acknowledge(before)
    }

    /// Replaces the value by the result of `f`, and returns the value before. `f` may run more than
    /// once, each time on a newer value. If it returns `None` nothing changes.
    ///
    /// # Errors
    /// As [`insert`](Self::insert). The inner result is an error if nothing was replaced: the value
    /// for which `f` returned `None`, or `None` if the key is absent.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// map.insert("a", &1)?;
    /// assert_eq!(map.fetch_update("a", |value| value.checked_add(1))?, Ok(1));
    /// assert_eq!(map.fetch_update("b", |value| value.checked_add(1))?, Err(None));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[allow(clippy::type_complexity, reason = "the type of the map in RAM, in a result")]
    pub fn fetch_update<F>(
        &self,
        key: &K::Ref,
        mut f: F,
    ) -> Result<Result<V::Owned, Option<V::Owned>>, Error>
    where
        F: FnMut(&V::Owned) -> Option<V::Owned>,
    {
        let mut is_changed = false;
        let before = self.compute(key, |present| {
            let new = present.and_then(&mut f);
            is_changed = new.is_some();
            new.map_or(Compute::Keep, Compute::Put)
        })?;
        Ok(match before {
            Some(before) if is_changed => Ok(before),
            declined => Err(declined),
        })
    }

    /// Replaces a value that is equal to `current` by its `PartialEq`, and returns it.
    ///
    /// # Errors
    /// As [`insert`](Self::insert). The inner result is an error if nothing was replaced: the value
    /// that is present instead, or `None` if the key is absent.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, String> = TypedMap::create(&path)?;
    /// map.insert("a", "1")?;
    /// assert_eq!(map.compare_exchange("a", "1", "2")?, Ok("1".into()));
    /// assert_eq!(map.compare_exchange("a", "1", "3")?, Err(Some("2".into())));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[allow(clippy::type_complexity, reason = "the type of the map in RAM, in a result")]
    pub fn compare_exchange(
        &self,
        key: &K::Ref,
        current: &V::Ref,
        new: &V::Ref,
    ) -> Result<Result<V::Owned, Option<V::Owned>>, Error>
    where
        V::Ref: PartialEq,
    {
        let (key, new) = (encoded::<K>(key)?, encoded::<V>(new)?);
        let is_current = |present: &V::Owned| V::borrow(present) == current;
        let mut is_changed = false;
        let before = self.change(&key, |present| {
            is_changed = present.is_some_and(is_current);
            Ok(if is_changed { Compute::Put(new.to_vec()) } else { Compute::Keep })
        })?;
        let before = self.bytes.acknowledge(before)?;
        Ok(match before {
            Some(before) if is_changed => Ok(before),
            other => Err(other),
        })
    }

    /// Returns the key's value, which is made and stored first if the key is absent. `make` runs at
    /// most once. Its value is dropped if another thread stored one meanwhile, so all threads
    /// return the same value.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// assert_eq!(map.get_or_insert_with("a", || 1)?, 1);
    /// assert_eq!(map.get_or_insert_with("a", || 2)?, 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get_or_insert_with(
        &self,
        key: &K::Ref,
        make: impl FnOnce() -> V::Owned,
    ) -> Result<V::Owned, Error> {
        if let Some(present) = self.get(key)? {
            // Another thread may have stored it, and not have synced yet.
            return self.bytes.acknowledge(present);
        }
        let value = make();
        Ok(self.try_insert(key, V::borrow(&value))?.err().unwrap_or(value))
    }

    /// Removes the key, and returns its value. If that can't be decoded, the key stays:
    /// [`delete`](Self::delete) does not look at it.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), except for a full disk.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// map.insert("a", &1)?;
    /// assert_eq!((map.remove("a")?, map.remove("a")?), (Some(1), None));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn remove(&self, key: &K::Ref) -> Result<Option<V::Owned>, Error> {
        self.remove_if(key, |_| true)
    }

    /// Removes the key if `condition` holds for its value, and returns the value. `condition` may
    /// run more than once.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// map.insert("a", &1)?;
    /// assert_eq!(map.remove_if("a", |value| *value > 1)?, None);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn remove_if<F>(&self, key: &K::Ref, condition: F) -> Result<Option<V::Owned>, Error>
    where
        F: FnMut(&V::Owned) -> bool,
    {
        let removed = self.remove_unsynced(key, condition)?;
        self.bytes.acknowledge(removed)
    }

    pub(super) fn remove_unsynced<F>(
        &self,
        key: &K::Ref,
        mut condition: F,
    ) -> Result<Option<V::Owned>, Error>
    where
        F: FnMut(&V::Owned) -> bool,
    {
        let mut last = Ok(None);
        let removed = self.bytes.remove_if_unsynced(&encoded::<K>(key)?, |value| {
            last = self.owned(value).map(Some);
            matches!(&last, Ok(Some(value)) if condition(value))
        })?;
        last.map(|value| value.filter(|_| removed.is_some()))
    }

    /// Removes the key, and returns whether it was present. It does not decode the value.
    ///
    /// # Errors
    /// As [`remove`](Self::remove), except for what can't be decoded.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert!(!TypedMap::<String, u64>::create(&path)?.delete("a")?);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn delete(&self, key: &K::Ref) -> Result<bool, Error> {
        self.bytes.delete(&encoded::<K>(key)?)
    }
}

/// Batches. Each is acknowledged as one operation, with one sync.
impl<K: KeyEncoding, V: Encoding> TypedMap<K, V> {
    /// Returns the values of several keys, in order. The cache misses of the lookups overlap.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// map.insert_many(&[("a", 1), ("b", 2)])?;
    /// assert_eq!(map.get_many(&["b", "c", "a"])?, [Some(2), None, Some(1)]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get_many<Q: Borrow<K::Ref>>(&self, keys: &[Q]) -> Result<Vec<Option<V::Owned>>, Error> {
        let keys = keys.iter().map(|key| encoded::<K>(key.borrow()));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let mut values = Vec::with_capacity(keys.len());
        let mut failed = Ok(());
        values.resize_with(keys.len(), || None);
        self.bytes.pin().get_many(&keys, |at, value| {
            match value.map(|value| self.owned(value)).transpose() {
                Ok(value) => values[at] = value,
                Err(error) => failed = Err(error),
            }
        });
        failed.map(|()| values)
    }

    /// Stores several values, and returns how many keys were new. A crash may keep a part of them:
    /// [`write_batch`](Self::write_batch) is atomic.
    ///
    /// # Errors
    /// As [`put`](Self::put). If an entry can't be encoded, none is stored. If one can't be stored,
    /// the entries before it are stored.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// assert_eq!(map.insert_many(&[("a", 1), ("b", 2), ("a", 3)])?, 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn insert_many<Q, W>(&self, entries: &[(Q, W)]) -> Result<usize, Error>
    where
        Q: Borrow<K::Ref>,
        W: Borrow<V::Ref>,
    {
        let both = |(key, value): &'_ (Q, W)| -> Result<(Vec<u8>, Vec<u8>), Error> {
            Ok((owned_bytes::<K>(key.borrow())?, owned_bytes::<V>(value.borrow())?))
        };
        self.bytes.put_many(&entries.iter().map(both).collect::<Result<Vec<_>, _>>()?)
    }

    /// Removes several keys, and returns how many were present. Values are not decoded.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<u64, String> = TypedMap::create(&path)?;
    /// map.insert(&1, "a")?;
    /// assert_eq!(map.remove_many(&[1, 2])?, 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn remove_many<Q: Borrow<K::Ref>>(&self, keys: &[Q]) -> Result<usize, Error> {
        let keys = keys.iter().map(|key| encoded::<K>(key.borrow()));
        self.bytes.delete_many(&keys.collect::<Result<Vec<Cow<'_, [u8]>>, _>>()?)
    }

    /// Changes several keys as a whole: `Some` stores a value, `None` removes the key. A crash at
    /// any instant leaves all of the changes or none. They are made in order, so the last change of
    /// a key counts.
    ///
    /// Changes of other threads wait until the batch has ended; [snapshots](Self::snapshot) show all
    /// of it or nothing. Reads do not wait: a get may find a key changed, and then another one not
    /// changed yet.
    ///
    /// # Errors
    /// As [`put`](Self::put). Then nothing has changed.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let accounts: TypedMap<String, i64> = TypedMap::create(&path)?;
    /// accounts.write_batch(&[("Ada", Some(70)), ("Bea", Some(80)), ("Cem", None)])?;
    /// assert_eq!(accounts.get("Bea")?, Some(80));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn write_batch<Q, W>(&self, changes: &[(Q, Option<W>)]) -> Result<(), Error>
    where
        Q: Borrow<K::Ref>,
        W: Borrow<V::Ref>,
    {
        let both = |(key, value): &(Q, Option<W>)| -> Result<(Vec<u8>, Option<Vec<u8>>), Error> {
            let value = value.as_ref().map(|value| owned_bytes::<V>(value.borrow()));
            Ok((owned_bytes::<K>(key.borrow())?, value.transpose()?))
        };
        self.bytes.write_batch(&changes.iter().map(both).collect::<Result<Vec<_>, _>>()?)
    }
}

fn owned_bytes<E: Encoding>(item: &E::Ref) -> Result<Vec<u8>, Error> {
    encoded::<E>(item).map(Cow::into_owned)
}
