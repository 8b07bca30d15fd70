//! [`TurboBlobMap`] in a file: batches, iteration, and the map as a whole.

use super::blob::{FileBlobs, TurboBlobMap};
use super::concurrent::{batch, done};
use crate::entry::Entries;
use crate::error::{BatchError, Error};
use crate::map::{Compute, ConcurrentMap, Op, Request, Stop, fetch_by_compute};
use crate::memory::{BlobStats, MemoryUsage};
use crate::table::turbo::TurboStats;

type Bytes = Vec<u8>;

/// How many entries of a batch are done between looks at the room that is left.
const PORTION: usize = 256;

impl TurboBlobMap {
    /// [`BlobMap::put_many`](crate::BlobMap::put_many): how many keys were new. Acknowledged as
    /// one; a crash may keep a part of it.
    ///
    /// # Errors
    /// As [`put`](Self::put), for the first entry that can't be stored; those before it are.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// assert_eq!(map.put_many(&[("a", "1"), ("b", "2"), ("a", "3")])?, 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: &[(K, V)],
    ) -> Result<usize, Error> {
        let mut fresh = 0;
        for entries in entries.chunks(PORTION) {
            let mut stored = 0;
            self.store_unsynced(|| {
                let done = self.map.put_until(&entries[stored..], &mut fresh);
                done.map_err(|(more, error)| {
                    stored += more;
                    error
                })
            })?;
        }
        self.session.acknowledge(self.file(), fresh)
    }

    /// [`BlobMap::delete_many`](crate::BlobMap::delete_many): how many keys were present.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.delete_many(&["a", "b"])?, 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn delete_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<usize, Error> {
        self.change(|| self.map.delete_many(keys))
    }

    /// [`BlobMap::prefetch`](crate::BlobMap::prefetch).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// TurboBlobMap::create(&path)?.prefetch(b"a");
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn prefetch(&self, key: &[u8]) {
        self.map.prefetch(key);
    }

    /// [`BlobMap::iter`](crate::BlobMap::iter): copies of all entries.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [(b"a".to_vec(), b"1".to_vec())]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (Bytes, Bytes)> {
        self.map.iter()
    }

    /// [`BlobMap::snapshot`](crate::BlobMap::snapshot): copies of a consistent cut.
    ///
    /// # Errors
    /// If there is no memory for it.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.snapshot()?.count(), 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<impl Iterator<Item = (Bytes, Bytes)>, Error> {
        self.map.snapshot()
    }

    /// [`BlobMap::retain`](crate::BlobMap::retain).
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", b"1")?;
    /// map.retain(|_, value| value.is_empty())?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn retain<F: FnMut(&[u8], &[u8]) -> bool>(&self, keep: F) -> Result<(), Error> {
        self.change(|| self.map.retain(keep))
    }

    /// [`BlobMap::clear`](crate::BlobMap::clear).
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// TurboBlobMap::create(&path)?.clear()?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn clear(&self) -> Result<(), Error> {
        self.change(|| self.map.clear())
    }

    /// [`BlobMap::len`](crate::BlobMap::len).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TurboBlobMap::create(&path)?.len(), 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there is no entry.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert!(TurboBlobMap::create(&path)?.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// [`BlobMap::reserve`](crate::BlobMap::reserve), of the table.
    ///
    /// # Errors
    /// If the disk is full, or the file was opened to be read.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// TurboBlobMap::create(&path)?.reserve(1000)?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn reserve(&self, additional: usize) -> Result<(), Error> {
        self.change(|| self.map.reserve(additional))?
    }

    /// [`BlobMap::shrink_to_fit`](crate::BlobMap::shrink_to_fit): makes the table smaller, moves
    /// blobs, and gives blocks of the file back.
    ///
    /// # Errors
    /// As [`sync`](Self::sync); the map is as it was, or smaller.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", &[0; 1 << 20])?;
    /// map.delete(b"a")?;
    /// map.shrink_to_fit()?;
    /// assert!(map.file_bytes() < 1 << 20);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn shrink_to_fit(&self) -> Result<(), Error> {
        self.change(|| ())?;
        // All shards are looked at, so that it is known which places are free.
        self.map.len();
        self.settle()?;
        self.map.shrink_to_fit()?;
        // What was moved is free where it was.
        self.settle()?;
        self.map.entries.trim();
        Ok(())
    }

    /// Has room again where blobs were taken out.
    fn settle(&self) -> Result<(), Error> {
        self.map.reclaim();
        self.sync()?;
        self.map.entries.settle();
        Ok(())
    }

    /// [`BlobMap::reclaim`](crate::BlobMap::reclaim): how many bytes wait for guards.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TurboBlobMap::create(&path)?.reclaim(), 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn reclaim(&self) -> usize {
        self.map.reclaim()
    }

    /// [`BlobMap::load_factor`](crate::BlobMap::load_factor).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TurboBlobMap::create(&path)?.load_factor(), 0.0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn load_factor(&self) -> f64 {
        self.map.load_factor()
    }

    /// [`BlobMap::memory_usage`](crate::BlobMap::memory_usage): of the file's pages in memory,
    /// and of RAM.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert!(TurboBlobMap::create(&path)?.memory_usage().mapped > 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn memory_usage(&self) -> MemoryUsage {
        self.map.memory_usage()
    }

    /// [`BlobMap::stats`](crate::BlobMap::stats), of the table.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TurboBlobMap::create(&path)?.stats().len, 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn stats(&self) -> TurboStats {
        self.map.stats()
    }

    /// What the blobs take: after a crash, those that were found.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TurboBlobMap::create(&path)?.blob_stats().blobs, 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn blob_stats(&self) -> BlobStats {
        self.map.blob_stats()
    }
}

/// Changes panic where the map's own methods return an error.
impl ConcurrentMap<Bytes, Bytes> for TurboBlobMap {
    type Stats = TurboStats;

    fn get(&self, key: &Bytes) -> Option<Bytes> {
        self.get(key)
    }

    fn contains_key(&self, key: &Bytes) -> bool {
        self.contains_key(key)
    }

    fn insert(&self, key: Bytes, value: Bytes) -> Option<Bytes> {
        done(self.insert(&key, &value))
    }

    fn try_insert(&self, key: Bytes, value: Bytes) -> Result<(), Bytes> {
        done(self.try_insert(&key, &value)).map_or(Ok(()), Err)
    }

    fn update(&self, key: &Bytes, value: Bytes) -> Option<Bytes> {
        done(self.update(key, &value))
    }

    fn compare_exchange(
        &self,
        key: &Bytes,
        current: &Bytes,
        new: Bytes,
    ) -> Result<Bytes, Option<Bytes>> {
        self.fetch_update(key, |present| (present == current).then(|| new.clone()))
    }

    fn fetch_update<F>(&self, key: &Bytes, f: F) -> Result<Bytes, Option<Bytes>>
    where
        F: FnMut(&Bytes) -> Option<Bytes>,
    {
        done(fetch_by_compute::<FileBlobs, _>(f, |decide| self.compute(key, decide)))
    }

    fn compute<F>(&self, key: Bytes, mut f: F) -> Option<Bytes>
    where
        F: FnMut(Option<&Bytes>) -> Compute<Bytes>,
    {
        done(self.compute(&key, |value| f(value.map(<[u8]>::to_vec).as_ref())))
    }

    fn remove(&self, key: &Bytes) -> Option<Bytes> {
        done(self.remove(key))
    }

    fn remove_if<F: FnMut(&Bytes) -> bool>(&self, key: &Bytes, mut condition: F) -> Option<Bytes> {
        done(self.remove_if(key, |value| condition(&value.to_vec())))
    }

    fn get_many(&self, keys: &[Bytes], values: &mut [Option<Bytes>]) -> Result<usize, BatchError> {
        self.map.get_many(keys, values)
    }

    fn insert_many(
        &self,
        entries: &[(Bytes, Bytes)],
        previous: &mut [Option<Bytes>],
    ) -> Result<usize, BatchError> {
        batch(entries.len(), previous.len())?;
        let mut fresh = 0;
        for ((key, value), previous) in entries.iter().zip(previous) {
            *previous = done(self.store_unsynced(|| self.map.insert(key, value)));
            fresh += usize::from(previous.is_none());
        }
        Ok(done(self.session.acknowledge(self.file(), fresh)))
    }

    fn remove_many(
        &self,
        keys: &[Bytes],
        removed: &mut [Option<Bytes>],
    ) -> Result<usize, BatchError> {
        batch(keys.len(), removed.len())?;
        done(self.change(|| self.map.remove_many(keys, removed)))
    }

    fn execute(&self, operations: &mut [Op<Bytes, Bytes>], stop: Stop) -> usize {
        let mut executed = 0;
        for Op { request, outcome } in operations {
            let before = match &request {
                Request::Get(key) => self.get(key),
                Request::Insert(key, value) => done(self.insert(key, value)),
                Request::TryInsert(key, value) => done(self.try_insert(key, value)),
                Request::Update(key, value) => done(self.update(key, value)),
                Request::Remove(key) => done(self.remove(key)),
            };
            *outcome = request.outcome(before);
            executed += 1;
            if stop != Stop::Never && !outcome.is_success() {
                break;
            }
        }
        executed
    }

    fn prefetch(&self, key: &Bytes) {
        self.prefetch(key);
    }

    fn iter(&self) -> impl Iterator<Item = (Bytes, Bytes)> {
        self.iter()
    }

    fn snapshot(&self) -> Result<impl Iterator<Item = (Bytes, Bytes)>, Error> {
        self.snapshot()
    }

    fn retain<F: FnMut(&Bytes, &Bytes) -> bool>(&self, mut keep: F) {
        done(self.retain(|key, value| keep(&key.to_vec(), &value.to_vec())));
    }

    fn clear(&self) {
        done(self.clear());
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn reserve(&self, additional: usize) -> Result<(), Error> {
        self.reserve(additional)
    }

    fn shrink_to_fit(&self) -> Result<(), Error> {
        self.shrink_to_fit()
    }

    fn load_factor(&self) -> f64 {
        self.load_factor()
    }

    fn memory_usage(&self) -> MemoryUsage {
        self.memory_usage()
    }

    fn stats(&self) -> TurboStats {
        self.stats()
    }
}
