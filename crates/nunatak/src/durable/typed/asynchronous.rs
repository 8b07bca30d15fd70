//! [`TypedMap`]: changes whose futures end when a sync has made them durable.

use super::syncer::Syncer;
use super::{Encoding, KeyEncoding, TypedMap};
use crate::durable::session::admit;
use crate::error::{Error, FileError};
use std::sync::Arc;

/// Durable changes for asynchronous code, of any executor. The change itself is made when the future
/// is polled first, as fast as at the level [`Process`](crate::durable::Durability::Process); then
/// the future waits for a sync, which a thread of the map makes for all futures that wait. So what
/// has ended survives a power cut, at every level of durability.
///
/// The executor does not wait for the disk, with the exceptions of a page of the file that has to be
/// read, and of a file that grows. A change may also wait for the microseconds in which a sync begins
/// an epoch.
///
/// The first of these methods starts the thread (`nunatak-async`). It ends when the map is closed.
/// A future that is dropped after it was polled leaves its change made; it is unknown whether the
/// change is durable, as for every change without a sync.
impl<K: KeyEncoding, V: Encoding> TypedMap<K, V> {
    /// [`insert`](Self::insert), durable when the future ends.
    ///
    /// # Errors
    /// As [`insert`](Self::insert). If the sync fails, the map is poisoned, and it is unknown
    /// whether the change is durable.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     use std::{pin::pin, sync::Arc, task::{Context, Poll, Wake}, thread::{self, Thread}};
    /// #     struct Unparks(Thread);
    /// #     impl Wake for Unparks {
    /// #         fn wake(self: Arc<Self>) { self.0.unpark() }
    /// #     }
    /// #     let waker = Arc::new(Unparks(thread::current())).into();
    /// #     let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    /// #     loop {
    /// #         match future.as_mut().poll(&mut context) {
    /// #             Poll::Ready(output) => return output,
    /// #             Poll::Pending => thread::park(),
    /// #         }
    /// #     }
    /// # }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// block_on(async {
    ///     assert_eq!(map.insert_async("a", &1).await?, None);
    ///     assert_eq!(map.insert_async("a", &2).await?, Some(1));
    ///     Ok::<(), nunatak::Error>(())
    /// })?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub async fn insert_async(
        &self,
        key: &K::Ref,
        value: &V::Ref,
    ) -> Result<Option<V::Owned>, Error> {
        let before = self.insert_unsynced(key, value)?;
        self.sync_async().await?;
        Ok(before)
    }

    /// [`remove`](Self::remove), durable when the future ends.
    ///
    /// # Errors
    /// As [`remove`](Self::remove), and as [`insert_async`](Self::insert_async) if the sync fails.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// async fn log_out(sessions: &TypedMap<u64, String>, id: u64) -> Result<bool, nunatak::Error> {
    ///     Ok(sessions.remove_async(&id).await?.is_some())
    /// }
    /// ```
    pub async fn remove_async(&self, key: &K::Ref) -> Result<Option<V::Owned>, Error> {
        let removed = self.remove_unsynced(key, |_| true)?;
        self.sync_async().await?;
        Ok(removed)
    }

    /// [`sync`](Self::sync): ends when all changes are durable that were made before its first poll.
    /// So any change of a map of the level `Process`, and this, is a durable change for asynchronous
    /// code: a [batch](Self::write_batch), for example.
    ///
    /// # Errors
    /// If the thread can't be started, or the system could not write; the map is poisoned then.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// async fn transfer(accounts: &TypedMap<u64, i64>) -> Result<(), nunatak::Error> {
    ///     accounts.write_batch(&[(1, Some(70)), (2, Some(80))])?;
    ///     accounts.sync_async().await
    /// }
    /// ```
    pub async fn sync_async(&self) -> Result<(), Error> {
        match self.pool().backing().is_read_only() {
            true => Ok(()),
            false => {
                admit(self.bytes.table())?;
                self.syncer()?.synced().await
            }
        }
    }

    fn syncer(&self) -> Result<&Syncer, Error> {
        if let Some(syncer) = self.syncer.get() {
            return Ok(syncer);
        }
        // Of threads that start one at once, one keeps its own.
        let started = Syncer::start(Arc::clone(&self.bytes.map), self.bytes.session.group())?;
        let _ = self.syncer.set(started);
        self.syncer.get().ok_or_else(|| FileError::Poisoned.into())
    }
}
