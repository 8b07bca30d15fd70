//! [`ByteMap`] as a collection: iteration, the map as a whole, the traits.

use super::ByteMap;
use crate::entry::{Entries, Naming, OwnedKey, Plain};
use crate::error::{BatchError, Error};
use crate::map::batch::{Op, Request, Stop, check_batch};
use crate::map::interface::{by_own_methods, whole_map};
use crate::map::{Compute, ConcurrentMap};
use crate::memory::{BlobStats, MemoryUsage};
use crate::sync::GuardPin;
use crate::table::{Design, PairTable, Unshadowed};

type Bytes = Vec<u8>;

impl<E: Entries, D: Design> ByteMap<E, D> {
    /// [`ConcurrentMap::iter`]: iterates over copies of all entries; a guard's
    /// [`iter`](crate::ByteGuard::iter) makes no copies.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [(b"a".to_vec(), b"1".to_vec())]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (OwnedKey<E>, Bytes)> {
        let guard = self.guard();
        self.table.iter().map(move |pair| self.entry(&guard, pair))
    }

    /// Copies the entry of a slot that was read under a guard.
    pub(in crate::map) fn entry(
        &self,
        guard: &GuardPin<'_>,
        (word, value_word): (u64, u64),
    ) -> (OwnedKey<E>, Bytes) {
        // SAFETY: read under the guard (R3).
        let found = unsafe { self.entries.found(word, value_word) };
        (E::Naming::own(E::key(&found)), E::copy(self.value(guard, value_word)))
    }

    /// [`ConcurrentMap::snapshot`]: takes a consistent cut of all entries. The iterator copies each
    /// entry when it yields it, and holds a guard until it is dropped.
    ///
    /// # Errors
    /// If memory for the cut is refused.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// let snapshot = map.snapshot()?;
    /// map.delete(b"a");
    /// assert_eq!(snapshot.count(), 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<impl Iterator<Item = (OwnedKey<E>, Bytes)>, Error> {
        let guard = self.guard();
        let pairs = self.table.snapshot()?;
        Ok(pairs.map(move |pair| self.entry(&guard, pair)))
    }

    /// [`ConcurrentMap::shrink_to_fit`]: makes the table smaller, moves blobs out of spans of
    /// memory that are less than half full or far behind, and gives free memory behind the last
    /// blob back. (Records stay where the caller's allocator put them.)
    ///
    /// # Errors
    /// If memory for a move is refused; the map is as it was, or smaller.
    ///
    /// ```standalone_crate
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// (0..10_000_u32).try_for_each(|key| map.put(&key.to_le_bytes(), &[0; 100]).map(drop))?;
    /// let before = map.memory_usage().mapped;
    /// map.retain(|key, _| key[0] == 0);
    /// map.shrink_to_fit()?;
    /// assert!(map.memory_usage().mapped < before / 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn shrink_to_fit(&self) -> Result<(), Error> {
        self.table.shrink_to_fit()?;
        self.reclaim();
        {
            let guard = self.guard();
            for pair in self.table.iter() {
                self.relocate(&guard, pair)?;
            }
        }
        self.reclaim();
        self.entries.trim();
        Ok(())
    }

    whole_map! {
        "TurboBlobMap", "TurboBlobMap::new()", "entries", table, D::Stats:
        len is_empty reserve load_factor stats
    }

    /// [`ConcurrentMap::memory_usage`]: includes the memory of the entries.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", &[0; 1 << 20])?;
    /// assert!(map.memory_usage().mapped > 1 << 20);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn memory_usage(&self) -> MemoryUsage {
        self.table.memory_usage() + self.entries.usage()
    }

    /// Returns how much memory the entries take.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// assert_eq!(TurboBlobMap::new().blob_stats().blobs, 0);
    /// ```
    pub fn blob_stats(&self) -> BlobStats {
        BlobStats { retired_bytes: self.limbo.weight(), ..self.entries.stats() }
    }
}

/// Unwraps the result of an operation of [`ConcurrentMap`], which can't report errors.
///
/// # Panics
/// If the operation failed.
fn stored<T>(result: Result<T, Error>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

/// Panics where memory is refused; the map's own methods return an error.
impl<E, D> ConcurrentMap<Bytes, Bytes> for ByteMap<E, D>
where
    E: Entries<Naming = Plain>,
    D: Design + Unshadowed,
{
    fn insert(&self, key: Bytes, value: Bytes) -> Option<Bytes> {
        stored(self.insert(&key, &value))
    }

    fn try_insert(&self, key: Bytes, value: Bytes) -> Result<(), Bytes> {
        stored(self.try_insert(&key, &value))
    }

    fn update(&self, key: &Bytes, value: Bytes) -> Option<Bytes> {
        stored(self.update(key, &value))
    }

    fn compare_exchange(
        &self,
        key: &Bytes,
        current: &Bytes,
        new: Bytes,
    ) -> Result<Bytes, Option<Bytes>> {
        stored(self.compare_exchange(key, current, &new))
    }

    fn fetch_update<F>(&self, key: &Bytes, mut f: F) -> Result<Bytes, Option<Bytes>>
    where
        F: FnMut(&Bytes) -> Option<Bytes>,
    {
        stored(self.fetch_update(key, |value| f(&E::copy(value))))
    }

    fn compute<F>(&self, key: Bytes, mut f: F) -> Option<Bytes>
    where
        F: FnMut(Option<&Bytes>) -> Compute<Bytes>,
    {
        stored(self.compute(&key, |value| f(value.map(E::copy).as_ref())))
    }

    fn remove_if<F>(&self, key: &Bytes, mut condition: F) -> Option<Bytes>
    where
        F: FnMut(&Bytes) -> bool,
    {
        self.remove_if(key, |value| condition(&E::copy(value)))
    }

    fn get_many(&self, keys: &[Bytes], values: &mut [Option<Bytes>]) -> Result<usize, BatchError> {
        check_batch(keys.len(), values.len())?;
        let (guard, mut present) = (self.pin(), 0);
        guard.get_many(keys, |at, value| {
            present += usize::from(value.is_some());
            values[at] = value.map(E::copy);
        });
        Ok(present)
    }

    fn insert_many(
        &self,
        entries: &[(Bytes, Bytes)],
        previous: &mut [Option<Bytes>],
    ) -> Result<usize, BatchError> {
        check_batch(entries.len(), previous.len())?;
        let mut fresh = 0;
        self.for_each_fetched::<true>(entries.iter().map(|(key, _)| &**key), |at| {
            let (key, value) = &entries[at];
            previous[at] = stored(self.insert(key, value));
            fresh += usize::from(previous[at].is_none());
            true
        });
        Ok(fresh)
    }

    fn update_many(
        &self,
        entries: &[(Bytes, Bytes)],
        previous: &mut [Option<Bytes>],
    ) -> Result<usize, BatchError> {
        check_batch(entries.len(), previous.len())?;
        let mut present = 0;
        self.for_each_fetched::<false>(entries.iter().map(|(key, _)| &**key), |at| {
            let (key, value) = &entries[at];
            previous[at] = stored(self.update(key, value));
            present += usize::from(previous[at].is_some());
            true
        });
        Ok(present)
    }

    fn remove_many(
        &self,
        keys: &[Bytes],
        removed: &mut [Option<Bytes>],
    ) -> Result<usize, BatchError> {
        check_batch(keys.len(), removed.len())?;
        let mut present = 0;
        self.for_each_fetched::<false>(keys.iter().map(Vec::as_slice), |at| {
            removed[at] = self.remove(&keys[at]);
            present += usize::from(removed[at].is_some());
            true
        });
        Ok(present)
    }

    fn execute(&self, operations: &mut [Op<Bytes, Bytes>], stop: Stop) -> usize {
        let keys: Vec<Bytes> =
            operations.iter().map(|operation| operation.request.key().clone()).collect();
        let mut executed = 0;
        self.for_each_fetched::<true>(keys.iter().map(Vec::as_slice), |at| {
            let Op { request, outcome } = &mut operations[at];
            let before = match &request {
                Request::Get(key) => self.get(key),
                Request::Insert(key, value) => stored(self.insert(key, value)),
                Request::TryInsert(key, value) => stored(self.try_insert(key, value)).err(),
                Request::Update(key, value) => stored(self.update(key, value)),
                Request::Remove(key) => self.remove(key),
            };
            *outcome = request.outcome(before);
            executed += 1;
            stop == Stop::Never || outcome.is_success()
        });
        executed
    }

    fn retain<F: FnMut(&Bytes, &Bytes) -> bool>(&self, mut keep: F) {
        self.retain(|key, value| keep(&key.to_vec(), &E::copy(value)));
    }

    by_own_methods! {
        Bytes, Bytes, D::Stats:
        get contains_key remove prefetch iter snapshot clear len reserve shrink_to_fit load_factor
        memory_usage stats
    }
}
