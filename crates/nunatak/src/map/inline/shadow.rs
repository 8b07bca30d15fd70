//! [`DlhtShadowMap`]: a map whose inserts may be hidden until a transaction commits.

use crate::entry::{Inline, InlineKey};
use crate::error::Error;
use crate::hash::{Hashing, RandomState};
use crate::map::Compute;
use crate::map::batch::{Op, Request, Stop};
use crate::map::inline::InlineMap;
use crate::table::{ByWord, Change, DlhtShadows, PairTable};
use core::fmt;
use core::mem::ManuallyDrop;

/// A [`DlhtMap`](crate::DlhtMap) for transactions: a key can be inserted *hidden*, which locks it.
/// When the transaction commits the key is shown with its value; when it aborts the key is removed
/// (DLHT, section 3.2.2).
///
/// While a key is hidden, gets, updates, removals, iterators, snapshots and `len` treat it as
/// absent. Inserts and a second shadow insert fail with [`Error::Shadowed`]. Growth moves hidden
/// keys as it moves others. A refused insert never waits, so no deadlock comes of it; the
/// transaction decides what to do then (mostly to abort).
///
/// All operations except inserts are those of any [`InlineMap`], and as fast. An insert is slower,
/// since it reads its bin's slots one by one.
///
/// ```
/// use nunatak::{DlhtShadowMap, Error};
///
/// let accounts: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
/// let account = accounts.shadow_insert(7)?;
/// assert_eq!(accounts.get(&7), None);
/// assert_eq!(accounts.insert(7, 1), Err(Error::Shadowed));
/// account.commit(100);
/// assert_eq!(accounts.get(&7), Some(100));
/// # Ok::<(), Error>(())
/// ```
pub type DlhtShadowMap<K, V, S = RandomState> = InlineMap<K, V, S, DlhtShadows>;

/// The index of the first operation that could not be done, and the reason.
type Refused = (usize, Error);

impl<K: InlineKey, V: Inline, S: Hashing> InlineMap<K, V, S, DlhtShadows> {
    /// Applies a change that may insert the key, and returns the value before.
    fn apply_or_insert(
        &self,
        key: K,
        value: V,
        change: impl Fn(u64) -> Change,
    ) -> Result<Option<V>, Error> {
        let (word, fresh) = (key.to_word(), Some(value.to_word()));
        let before = self.table.apply_unless_shadowed(word, &ByWord, fresh, change)?;
        Ok(before.map(V::from_word))
    }

    /// Stores the value and returns the value that it replaced.
    ///
    /// # Errors
    /// If the key is hidden; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtShadowMap;
    /// let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    /// assert_eq!((map.insert(1, 10), map.insert(1, 11)), (Ok(None), Ok(Some(10))));
    /// ```
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        let word = value.to_word();
        self.apply_or_insert(key, value, |_| Change::To(word))
    }

    /// Stores the value if the key is absent. The inner error is the present value.
    ///
    /// # Errors
    /// If the key is hidden; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtShadowMap;
    /// let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    /// assert_eq!((map.try_insert(1, 10), map.try_insert(1, 11)), (Ok(Ok(())), Ok(Err(10))));
    /// ```
    pub fn try_insert(&self, key: K, value: V) -> Result<Result<(), V>, Error> {
        Ok(self.apply_or_insert(key, value, Change::keep)?.map_or(Ok(()), Err))
    }

    /// Returns the key's value, made and stored first if the key is absent.
    ///
    /// # Errors
    /// If the key is hidden.
    ///
    /// ```
    /// # use nunatak::DlhtShadowMap;
    /// let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    /// assert_eq!(map.get_or_insert_with(1, || 10), Ok(10));
    /// ```
    pub fn get_or_insert_with<F: FnOnce() -> V>(&self, key: K, make: F) -> Result<V, Error> {
        match self.get(&key) {
            Some(value) => Ok(value),
            None => {
                let value = make();
                Ok(self.try_insert(key, value)?.err().unwrap_or(value))
            }
        }
    }

    /// Keeps, replaces or removes the key's value as `f` decides, atomically, and returns the value
    /// before. `f` may run more than once; its last answer counts.
    ///
    /// # Errors
    /// If the key would be inserted, but is hidden.
    ///
    /// ```
    /// # use nunatak::{Compute, DlhtShadowMap};
    /// let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    /// map.compute(1, |count| Compute::Put(count.map_or(1, |count| count + 1)))?;
    /// assert_eq!(map.get(&1), Some(1));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn compute<F>(&self, key: K, mut f: F) -> Result<Option<V>, Error>
    where
        F: FnMut(Option<&V>) -> Compute<V>,
    {
        let mut present = self.get(&key);
        loop {
            let attempt = match (f(present.as_ref()), present) {
                (Compute::Keep, _) | (Compute::Remove, None) => return Ok(present),
                (Compute::Put(new), None) => self.try_insert(key, new)?.map_err(Some),
                (Compute::Put(new), Some(current)) => {
                    self.replace(key, current, Change::To(new.to_word()))
                }
                (Compute::Remove, Some(current)) => self.replace(key, current, Change::Remove),
            };
            match attempt {
                Ok(()) => return Ok(present),
                Err(newer) => present = newer,
            }
        }
    }

    fn replace(&self, key: K, current: V, change: Change) -> Result<(), Option<V>> {
        let replaced = self.replace_word(key, current.to_word(), change);
        replaced.map_err(|newer| newer.map(V::from_word))
    }

    /// Stores all entries, in order, up to the first whose key is hidden, and returns how many keys
    /// were new.
    ///
    /// # Errors
    /// The index of the first entry whose key is hidden; the entries before it are stored.
    ///
    /// ```
    /// # use nunatak::{DlhtShadowMap, Error};
    /// let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    /// let shadow = map.shadow_insert(2)?;
    /// assert_eq!(map.insert_many(&[(1, 10), (2, 20)]), Err((1, Error::Shadowed)));
    /// assert_eq!(map.get(&1), Some(10));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn insert_many(&self, entries: &[(K, V)]) -> Result<usize, Refused> {
        let mut new = 0;
        self.in_order(
            entries.len(),
            |at| entries[at].0,
            |at| {
                let (key, value) = entries[at];
                new += usize::from(self.insert(key, value)?.is_none());
                Ok(true)
            },
        )?;
        Ok(new)
    }

    /// Executes mixed operations in the caller's order and returns how many were executed, as
    /// [`ConcurrentMap::execute`](crate::ConcurrentMap::execute).
    ///
    /// # Errors
    /// The index of the first insert whose key is hidden; the operations before it are executed.
    ///
    /// ```
    /// # use nunatak::{DlhtShadowMap, Op, Outcome, Request, Stop};
    /// let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    /// let mut batch = [Op::new(Request::Insert(1, 10)), Op::new(Request::Get(1))];
    /// assert_eq!(map.execute(&mut batch, Stop::AtFirstFailure), Ok(2));
    /// assert_eq!(batch[1].outcome, Outcome::Found(10));
    /// ```
    pub fn execute(&self, operations: &mut [Op<K, V>], stop: Stop) -> Result<usize, Refused> {
        let keys: Vec<K> = operations.iter().map(|operation| *operation.request.key()).collect();
        let mut executed = 0;
        let ended = self.in_order(
            operations.len(),
            |at| keys[at],
            |at| {
                let Op { request, outcome } = &mut operations[at];
                let before = match request {
                    Request::Get(key) => self.get(key),
                    Request::Insert(key, value) => self.insert(*key, *value)?,
                    Request::TryInsert(key, value) => self.try_insert(*key, *value)?.err(),
                    Request::Update(key, value) => self.update(key, *value),
                    Request::Remove(key) => self.remove(key),
                };
                *outcome = request.outcome(before);
                executed += 1;
                Ok(stop == Stop::Never || outcome.is_success())
            },
        );
        ended.map(|()| executed)
    }

    /// Runs `each` for every key, in order, until it fails or returns false. The bins of later keys
    /// are prefetched meanwhile.
    fn in_order(
        &self,
        count: usize,
        key: impl Fn(usize) -> K,
        mut each: impl FnMut(usize) -> Result<bool, Error>,
    ) -> Result<(), Refused> {
        /// How many keys before its operation a key's bin is prefetched.
        const DISTANCE: usize = 32;
        (0..count.min(DISTANCE)).for_each(|at| self.prefetch(&key(at)));
        for at in 0..count {
            if at + DISTANCE < count {
                self.prefetch(&key(at + DISTANCE));
            }
            if !each(at).map_err(|error| (at, error))? {
                break;
            }
        }
        Ok(())
    }

    /// Inserts a key hidden, which makes other inserts of the key fail. Costs two atomic
    /// read-modify-writes on one or two cache lines.
    ///
    /// # Errors
    /// [`Error::Present`] if the key is present, [`Error::Shadowed`] if it is hidden already.
    ///
    /// ```
    /// # use nunatak::{DlhtShadowMap, Error};
    /// let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    /// let shadow = map.shadow_insert(1)?;
    /// assert_eq!(map.shadow_insert(1).unwrap_err(), Error::Shadowed);
    /// drop(shadow);
    /// assert!(map.insert(1, 10).is_ok());
    /// assert_eq!(map.shadow_insert(1).unwrap_err(), Error::Present);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn shadow_insert(&self, key: K) -> Result<Shadow<'_, K, V, S>, Error> {
        match self.table.hide(self.table.hashed(key.to_word()), &ByWord)? {
            None => Ok(Shadow { map: self, key }),
            Some(_) => Err(Error::Present),
        }
    }

    /// Inserts all keys hidden, in order, or none of them: for two-phase locking, in an order that
    /// all transactions agree on. Memory latencies are overlapped.
    ///
    /// # Errors
    /// The index of the first key that is present or hidden, and which of both it is; none of the
    /// other keys stays hidden.
    ///
    /// ```
    /// # use nunatak::{DlhtShadowMap, Error};
    /// let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    /// let shadows = map.shadow_insert_many(&[1, 2, 3]).unwrap();
    /// assert_eq!(map.shadow_insert_many(&[0, 2]).unwrap_err(), (1, Error::Shadowed));
    /// shadows.into_iter().for_each(|shadow| shadow.commit(7));
    /// assert_eq!((map.get(&0), map.get(&2)), (None, Some(7)));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn shadow_insert_many(&self, keys: &[K]) -> Result<Vec<Shadow<'_, K, V, S>>, Refused> {
        let mut shadows = Vec::with_capacity(keys.len());
        self.in_order(
            keys.len(),
            |at| keys[at],
            |at| {
                shadows.push(self.shadow_insert(keys[at])?);
                Ok(true)
            },
        )?;
        Ok(shadows)
    }

    /// Shows a hidden key whose [`Shadow`] was [kept](Shadow::keep).
    ///
    /// # Errors
    /// [`Error::NotShadowed`] if the key is not hidden.
    ///
    /// ```
    /// # use nunatak::{DlhtShadowMap, Error};
    /// let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    /// let key = map.shadow_insert(1)?.keep();
    /// map.commit_shadow(&key, 10)?;
    /// assert_eq!(map.commit_shadow(&key, 11), Err(Error::NotShadowed));
    /// assert_eq!(map.get(&1), Some(10));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn commit_shadow(&self, key: &K, value: V) -> Result<(), Error> {
        self.unhide(*key, Some(value))
    }

    /// Removes a hidden key whose [`Shadow`] was [kept](Shadow::keep).
    ///
    /// # Errors
    /// [`Error::NotShadowed`] if the key is not hidden.
    ///
    /// ```
    /// # use nunatak::{DlhtShadowMap, Error};
    /// let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    /// let key = map.shadow_insert(1)?.keep();
    /// map.abort_shadow(&key)?;
    /// assert_eq!(map.commit_shadow(&key, 10), Err(Error::NotShadowed));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn abort_shadow(&self, key: &K) -> Result<(), Error> {
        self.unhide(*key, None)
    }

    fn unhide(&self, key: K, value: Option<V>) -> Result<(), Error> {
        let is_done = self.table.unhide(self.table.hashed(key.to_word()), value.map(V::to_word));
        if is_done { Ok(()) } else { Err(Error::NotShadowed) }
    }
}

/// A key that was inserted hidden. Dropping its shadow aborts it.
///
/// ```
/// # use nunatak::DlhtShadowMap;
/// let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
/// drop(map.shadow_insert(1)?);
/// assert!(map.shadow_insert(1).is_ok());
/// # Ok::<(), nunatak::Error>(())
/// ```
#[must_use = "a shadow that is dropped is aborted"]
pub struct Shadow<'m, K: InlineKey, V: Inline, S: Hashing = RandomState> {
    map: &'m DlhtShadowMap<K, V, S>,
    key: K,
}

impl<K: InlineKey, V: Inline, S: Hashing> Shadow<'_, K, V, S> {
    /// Returns the key.
    ///
    /// ```
    /// # use nunatak::DlhtShadowMap;
    /// let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    /// assert_eq!(map.shadow_insert(1)?.key(), 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn key(&self) -> K {
        self.key
    }

    /// Shows the key with its value. Costs one atomic read-modify-write.
    ///
    /// ```
    /// # use nunatak::DlhtShadowMap;
    /// let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    /// map.shadow_insert(1)?.commit(10);
    /// assert_eq!(map.get(&1), Some(10));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn commit(self, value: V) {
        let this = ManuallyDrop::new(self);
        // The key is hidden, unless the caller ended it by its key: then there is nothing to do.
        let _ = this.map.unhide(this.key, Some(value));
    }

    /// Removes the key, as dropping the shadow does.
    ///
    /// ```
    /// # use nunatak::DlhtShadowMap;
    /// let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    /// map.shadow_insert(1)?.abort();
    /// assert_eq!(map.insert(1, 10), Ok(None));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn abort(self) {
        drop(self);
    }

    /// Leaves the key hidden. Later [`commit_shadow`](InlineMap::commit_shadow) or
    /// [`abort_shadow`](InlineMap::abort_shadow) ends it by its key, once.
    ///
    /// ```
    /// # use nunatak::DlhtShadowMap;
    /// let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    /// let key = map.shadow_insert(1)?.keep();
    /// assert!(map.insert(1, 10).is_err());
    /// map.abort_shadow(&key)?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn keep(self) -> K {
        ManuallyDrop::new(self).key
    }
}

impl<K: InlineKey + fmt::Debug, V: Inline, S: Hashing> fmt::Debug for Shadow<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<K: InlineKey, V: Inline, S: Hashing> Drop for Shadow<'_, K, V, S> {
    fn drop(&mut self) {
        let _ = self.map.unhide(self.key, None);
    }
}
