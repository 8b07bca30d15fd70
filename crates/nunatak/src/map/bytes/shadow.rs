//! [`DlhtShadowRecordMap`]: records that may be hidden until a transaction commits.

use crate::alloc::{Allocator, Global};
use crate::entry::{Entries, Format, KeyRef, ListedKey, Naming, OwnedKey, RecordFormat, Records};
use crate::error::Error;
use crate::hash::{Hashing, RandomState};
use crate::map::bytes::ByteMap;
use crate::table::{DlhtShadows, KeyTest};
use core::fmt;

/// A [`DlhtRecordMap`](crate::DlhtRecordMap) for transactions: a record can be inserted *hidden*,
/// which locks its key. The record is shown when the transaction commits, and removed when it
/// aborts (DLHT, section 3.2.2); see [`DlhtShadowMap`](crate::DlhtShadowMap).
///
/// The record is stored when it is hidden, so a commit allocates nothing and can't fail. An
/// operation that would insert a hidden key fails with [`Error::Shadowed`].
///
/// ```
/// use nunatak::{DlhtShadowRecordMap, Error};
/// let map: DlhtShadowRecordMap = DlhtShadowRecordMap::new();
/// let row = map.shadow_insert(b"a row", b"its columns")?;
/// assert_eq!(map.get(b"a row"), None);
/// assert_eq!(map.put(b"a row", b"others"), Err(Error::Shadowed));
/// row.commit();
/// assert_eq!(map.get(b"a row"), Some(b"its columns".to_vec()));
/// # Ok::<(), Error>(())
/// ```
pub type DlhtShadowRecordMap<F = Format, A = Global, S = RandomState> =
    ByteMap<Records<F, A, S>, DlhtShadows>;

/// Tests a key that the calling thread is hiding: the list of hidden keys has it already, by the
/// thread's own entry, so `is_hidden` is false.
struct NotHidden<T>(T);

impl<T: KeyTest> KeyTest for NotHidden<T> {
    const BY_WORD: bool = T::BY_WORD;

    fn accepts(&self, value_word: u64) -> bool {
        self.0.accepts(value_word)
    }

    fn is_hidden(&self) -> Option<bool> {
        Some(false)
    }
}

impl<F, A, S> ByteMap<Records<F, A, S>, DlhtShadows>
where
    F: RecordFormat,
    A: Allocator + Send + Sync + 'static,
    S: Hashing,
{
    /// Stores a record hidden, which makes other inserts of its key fail.
    ///
    /// # Errors
    /// [`Error::Present`] if the key is present, [`Error::Shadowed`] if it is hidden already;
    /// or as [`put`](Self::put).
    ///
    /// ```
    /// # use nunatak::{DlhtShadowRecordMap, Error};
    /// let map: DlhtShadowRecordMap = DlhtShadowRecordMap::new();
    /// let shadow = map.shadow_insert(b"a", b"1")?;
    /// assert_eq!(map.shadow_insert(b"a", b"2").unwrap_err(), Error::Shadowed);
    /// shadow.commit();
    /// assert_eq!(map.shadow_insert(b"a", b"2").unwrap_err(), Error::Present);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn shadow_insert(
        &self,
        key: KeyRef<'_, Records<F, A, S>>,
        value: &[u8],
    ) -> Result<RecordShadow<'_, F, A, S>, Error> {
        let guard = self.guard();
        let fresh = self.entries.store(key, value)?;
        // While the key is about to be hidden, others wait for it: the caller's hasher, which may use
        // the map, runs before.
        let listed = self.entries.hidden(key);
        let hashed = self.table.hashed(self.entries.word(key));
        if !listed.enter() {
            return Err(Error::Shadowed);
        }
        // The key is taken off the list if a later step fails.
        let mut struck = Struck(Some(listed));
        let hidden = self.table.hide(hashed, &NotHidden(self.is(&guard, key)))?;
        if hidden.is_some() {
            return Err(Error::Present);
        }
        struck.0.take().into_iter().for_each(|listed| listed.keep(fresh.word()));
        fresh.published();
        Ok(RecordShadow { map: self, key: Some(F::Naming::own(key)) })
    }

    /// Shows a hidden record whose [`RecordShadow`] was [kept](RecordShadow::keep).
    ///
    /// # Errors
    /// [`Error::NotShadowed`] if the key is not hidden.
    ///
    /// ```
    /// # use nunatak::{DlhtShadowRecordMap, Error};
    /// let map: DlhtShadowRecordMap = DlhtShadowRecordMap::new();
    /// let key = map.shadow_insert(b"a", b"1")?.keep();
    /// map.commit_shadow(&key)?;
    /// assert_eq!(map.abort_shadow(&key), Err(Error::NotShadowed));
    /// assert!(map.contains_key(b"a"));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn commit_shadow(&self, key: KeyRef<'_, Records<F, A, S>>) -> Result<(), Error> {
        self.unhide(key, true)
    }

    /// Removes a hidden record whose [`RecordShadow`] was [kept](RecordShadow::keep).
    ///
    /// # Errors
    /// [`Error::NotShadowed`] if the key is not hidden.
    ///
    /// ```
    /// # use nunatak::{DlhtShadowRecordMap, Error};
    /// let map: DlhtShadowRecordMap = DlhtShadowRecordMap::new();
    /// let key = map.shadow_insert(b"a", b"1")?.keep();
    /// map.abort_shadow(&key)?;
    /// assert_eq!(map.commit_shadow(&key), Err(Error::NotShadowed));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn abort_shadow(&self, key: KeyRef<'_, Records<F, A, S>>) -> Result<(), Error> {
        self.unhide(key, false)
    }

    fn unhide(&self, key: KeyRef<'_, Records<F, A, S>>, commits: bool) -> Result<(), Error> {
        if !Records::<F, A, S>::fits(key) {
            return Err(Error::NotShadowed);
        }
        // As in `shadow_insert`: the caller's hasher runs before others wait for the key.
        let listed = self.entries.hidden(key);
        let hashed = self.table.hashed(self.entries.word(key));
        let record = listed.take().ok_or(Error::NotShadowed)?;
        // The record is kept again if the key is not found, or a step panics.
        let mut taken = Taken { listed, record: Some(record) };
        let was_hidden = self.table.unhide(hashed, commits.then_some(record));
        if !was_hidden {
            // No other thread ends a record that this one has taken, so the caller's hasher answers
            // otherwise than when the key was hidden. The record stays on the list.
            return Err(Error::NotShadowed);
        }
        taken.record = None;
        // After the table's change: a thread that still finds the key hidden must not insert it.
        taken.listed.strike();
        if !commits {
            // SAFETY: no slot has had the word, and it is on no list any more.
            unsafe { self.entries.give_back(record) };
        }
        Ok(())
    }
}

/// A key that is on the list and is not hidden yet. It is taken off when this is dropped.
struct Struck<'h>(Option<ListedKey<'h>>);

impl Drop for Struck<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(ListedKey::strike);
    }
}

/// A record that this thread has taken to show or abort it. It is kept again when this is dropped.
struct Taken<'h> {
    listed: ListedKey<'h>,
    record: Option<u64>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.record.into_iter().for_each(|record| self.listed.keep(record));
    }
}

/// A record that was inserted hidden. Dropping its shadow aborts it.
///
/// ```
/// # use nunatak::DlhtShadowRecordMap;
/// let map: DlhtShadowRecordMap = DlhtShadowRecordMap::new();
/// drop(map.shadow_insert(b"a", b"1")?);
/// assert!(map.shadow_insert(b"a", b"1").is_ok());
/// # Ok::<(), nunatak::Error>(())
/// ```
#[must_use = "a shadow that is dropped is aborted"]
pub struct RecordShadow<'m, F = Format, A = Global, S = RandomState>
where
    F: RecordFormat,
    A: Allocator + Send + Sync + 'static,
    S: Hashing,
{
    map: &'m DlhtShadowRecordMap<F, A, S>,
    /// `None` after the end.
    key: Option<OwnedKey<Records<F, A, S>>>,
}

impl<F, A, S> RecordShadow<'_, F, A, S>
where
    F: RecordFormat,
    A: Allocator + Send + Sync + 'static,
    S: Hashing,
{
    /// Shows the record.
    ///
    /// ```
    /// # use nunatak::DlhtShadowRecordMap;
    /// let map: DlhtShadowRecordMap = DlhtShadowRecordMap::new();
    /// map.shadow_insert(b"a", b"1")?.commit();
    /// assert_eq!(map.get(b"a"), Some(b"1".to_vec()));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn commit(mut self) {
        self.end(true);
    }

    /// Removes the record, as dropping the shadow does.
    ///
    /// ```
    /// # use nunatak::DlhtShadowRecordMap;
    /// let map: DlhtShadowRecordMap = DlhtShadowRecordMap::new();
    /// map.shadow_insert(b"a", b"1")?.abort();
    /// assert_eq!(map.put(b"a", b"1"), Ok(false));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn abort(self) {
        drop(self);
    }

    /// Leaves the record hidden. Later [`commit_shadow`](ByteMap::commit_shadow) or
    /// [`abort_shadow`](ByteMap::abort_shadow) ends it by its key, once.
    ///
    /// ```
    /// # use nunatak::DlhtShadowRecordMap;
    /// let map: DlhtShadowRecordMap = DlhtShadowRecordMap::new();
    /// let key = map.shadow_insert(b"a", b"1")?.keep();
    /// assert!(map.put(b"a", b"2").is_err());
    /// map.abort_shadow(&key)?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn keep(mut self) -> OwnedKey<Records<F, A, S>> {
        match self.key.take() {
            Some(key) => key,
            None => unreachable!("it is taken when this goes"),
        }
    }

    fn end(&mut self, commits: bool) {
        if let Some(key) = self.key.take() {
            // The key is hidden, unless the caller ended it by its key: then there is nothing to
            // do.
            let _ = self.map.unhide(F::Naming::of_owned(&key), commits);
        }
    }
}

impl<F, A, S> fmt::Debug for RecordShadow<'_, F, A, S>
where
    F: RecordFormat,
    A: Allocator + Send + Sync + 'static,
    S: Hashing,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordShadow").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<F, A, S> Drop for RecordShadow<'_, F, A, S>
where
    F: RecordFormat,
    A: Allocator + Send + Sync + 'static,
    S: Hashing,
{
    fn drop(&mut self) {
        self.end(false);
    }
}
