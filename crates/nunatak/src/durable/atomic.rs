//! Batches that a crash leaves done or undone, as a whole.
//!
//! The thread of a batch keeps the changes of other threads out. It notes what each change replaces
//! in the file, then makes the change; at the end one store discards the notes. A file with notes is
//! put back to the state before the batch when it is opened. So the file is never without room for
//! what recovery has to do: it stores what was there before.

use super::blob_designs::BlobDesign;
use super::blobs::BlobsInFile;
use super::designs::{DurableDesign, InFile};
use super::handle::FileMap;
use super::pairs::Map;
use super::session::{Room, admit, admit_new};
use super::table::FileTable;
use crate::entry::{Entries, Inline, InlineKey};
use crate::error::{Error, FileError};
use crate::hash::StableCodec;
use crate::table::paged::{PagedTable, take_back};
use crate::table::undo_log::Replaced;
use crate::table::{ByWord, Change, KeyTest, PairTable, Pea, Turbo, permit};

/// A design whose maps in files have atomic batches: [`InFile<Pea>`](InFile) and
/// [`InFile<Turbo>`](InFile).
///
/// ```
/// use nunatak::durable::{AtomicBatches, Map};
/// fn swap<D: AtomicBatches>(map: &Map<u64, u64, D>, a: u64, b: u64) -> Result<(), nunatak::Error> {
///     map.write_batch(&[(a, map.get(&b)), (b, map.get(&a))])
/// }
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map = nunatak::durable::PeaMap::create(&path)?;
/// map.insert(1, 10)?;
/// swap(&map, 1, 2)?;
/// assert_eq!((map.get(&1), map.get(&2)), (None, Some(10)));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub trait AtomicBatches: DurableDesign {
    /// Sets these words to these value words, or removes them.
    #[doc(hidden)]
    fn write_together(
        table: &Self::Table<StableCodec>,
        changes: &[(u64, Option<u64>)],
    ) -> Result<(), Error>;
}

macro_rules! impl_atomic_batches {
    ($design:ty) => {
        #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
        impl AtomicBatches for InFile<$design> {
            fn write_together(
                table: &Self::Table<StableCodec>,
                changes: &[(u64, Option<u64>)],
            ) -> Result<(), Error> {
                let change = |at: usize| {
                    let (word, after) = changes[at];
                    Ok((word, ByWord, after))
                };
                change_together(table, changes.len(), change, &mut Vec::new())
            }
        }
    };
}

impl_atomic_batches!(Pea);
impl_atomic_batches!(Turbo);

/// Makes changes that a crash leaves done or undone as a whole. Each has the word of a key, a test
/// for the key, and its value word from then on. `made` gets what was replaced, also by changes that
/// were taken back after an error.
pub(super) fn change_together<T, K>(
    table: &T,
    count: usize,
    change: impl FnMut(usize) -> Result<(u64, K, Option<u64>), Error>,
    made: &mut Vec<Replaced>,
) -> Result<(), Error>
where
    T: FileTable + PagedTable + PairTable,
    K: KeyTest,
{
    admit(table)?;
    let bytes = count.saturating_mul(size_of::<Replaced>());
    made.try_reserve_exact(count).map_err(|_| Error::OutOfMemory { bytes })?;
    table.alone(|| {
        let unended = Unended(table);
        let result = make_all(table, count, change, made);
        if result.is_ok() || take_back(table, |_, _| {}).is_ok() {
            core::mem::forget(unended);
        }
        result
    })
}

/// A batch whose log was not emptied. The file says that it has not ended, so further changes would
/// be lost when it is opened: if this is dropped, also by a panic, there are none.
struct Unended<'t, T: PagedTable>(&'t T);

impl<T: PagedTable> Drop for Unended<'_, T> {
    fn drop(&mut self) {
        PagedTable::pool(self.0).poison();
    }
}

fn make_all<T, K>(
    table: &T,
    count: usize,
    mut change: impl FnMut(usize) -> Result<(u64, K, Option<u64>), Error>,
    made: &mut Vec<Replaced>,
) -> Result<(), Error>
where
    T: FileTable + PagedTable + PairTable,
    K: KeyTest,
{
    let log = table.undo_log()?;
    table.with_room(|| log.reserve(count))?;
    for at in 0..count {
        let (word, test, after) = change(at)?;
        let before = table.find(word, &test);
        if before == after {
            continue;
        }
        let replaced = Replaced { word, before, after };
        let noted = made.len();
        made.push(replaced);
        table.with_room(|| {
            let _pin = table.enter();
            log.push(noted, &replaced)
        })?;
        let apply = || {
            table.apply(word, &test, after, |_| after.map_or(Change::Remove, Change::To));
            Ok(())
        };
        match admit_new(table)? {
            Room::Enough => apply(),
            Room::Little => permit(apply),
        }?;
    }
    table.with_room(|| {
        let _pin = table.enter();
        log.clear()
    })
}

impl<K: InlineKey, V: Inline, D: AtomicBatches> Map<K, V, D> {
    /// Changes several keys as a whole: `Some` stores a value, `None` removes the key. A crash at
    /// any instant leaves all of the changes or none. They are made in order, so the last change of
    /// a key counts.
    ///
    /// Changes of other threads wait until the batch has ended; [snapshots](FileMap::snapshot) show
    /// all of it or nothing. Reads do not wait: a get may find a key changed, and then another one
    /// not changed yet.
    ///
    /// Beside the line of its slot, each change writes two lines of a log, and reads its key once
    /// more. The batch needs 32 bytes of the file for each change; the next
    /// [`shrink_to_fit`](FileMap::shrink_to_fit) gives them back.
    ///
    /// # Errors
    /// As [`insert`](Self::insert). Then nothing has changed. (If a sync fails in the middle, or
    /// the sync that acknowledges the batch, the map is poisoned, and it is unknown whether the
    /// batch is durable: but never a part of it.)
    ///
    /// ```
    /// # use nunatak::durable::PeaMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let accounts: PeaMap<u64, u64> = PeaMap::create(&path)?;
    /// accounts.write_batch(&[(1, Some(100)), (2, Some(50))])?;
    /// accounts.write_batch(&[(1, Some(70)), (2, Some(80)), (3, None)])?;
    /// assert_eq!((accounts.get(&1), accounts.get(&2)), (Some(70), Some(80)));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn write_batch(&self, changes: &[(K, Option<V>)]) -> Result<(), Error> {
        let words = |&(key, value): &(K, Option<V>)| (key.to_word(), value.map(V::to_word));
        let words: Vec<_> = changes.iter().map(words).collect();
        D::write_together(&self.map.table, &words)?;
        self.acknowledge(())
    }
}

impl<D: BlobDesign> FileMap<BlobsInFile<D>> {
    /// Changes several keys as a whole: `Some` stores a value, `None` removes the key. A crash at
    /// any instant leaves all of the changes or none. They are made in order, so the last change of
    /// a key counts.
    ///
    /// Changes of other threads wait until the batch has ended; [snapshots](FileMap::snapshot) show
    /// all of it or nothing. Reads do not wait: a get may find a key changed, and then another one
    /// not changed yet. The places of replaced byte strings are used again only after the batch.
    ///
    /// Beside what a [`put`](Self::put) writes, each change writes two lines of a log.
    ///
    /// # Errors
    /// As [`put`](Self::put). Then nothing has changed. (If a sync fails in the middle, or the sync
    /// that acknowledges the batch, the map is poisoned, and it is unknown whether the batch is
    /// durable: but never a part of it.)
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.write_batch(&[("order/7", Some("paid")), ("open/7", None)])?;
    /// assert_eq!(map.get(b"order/7"), Some(b"paid".to_vec()));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn write_batch<K, V>(&self, changes: &[(K, Option<V>)]) -> Result<(), Error>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        admit(&self.map.map.table)?;
        self.map.prepare_to_store()?;
        match self.write_together(changes) {
            Err(Error::File(FileError::Full)) => {
                self.map.sync_and_reuse()?;
                self.write_together(changes)?;
            }
            other => other?,
        }
        self.acknowledge(())
    }

    fn write_together<K, V>(&self, changes: &[(K, Option<V>)]) -> Result<(), Error>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let map = &self.map.map;
        let guard = map.guard();
        let change = |at: usize| {
            let (key, value) = (changes[at].0.as_ref(), changes[at].1.as_ref());
            let after = value.map(|value| map.entries.store(key, value.as_ref())).transpose()?;
            // From here on it is one of the entries in `made`.
            let after = after.map(|fresh| {
                let word = fresh.word();
                fresh.published();
                word
            });
            Ok((map.entries.word(key), map.is(&guard, key), after))
        };
        let mut made = Vec::new();
        let result = change_together(&map.table, changes.len(), change, &mut made);
        let lost = |replaced: &Replaced| match result {
            Ok(()) => replaced.before,
            Err(_) => replaced.after,
        };
        // Not before the end of the batch: a crash may bring the former entries back.
        made.iter().filter_map(lost).for_each(|word| map.retire(word));
        result
    }
}
