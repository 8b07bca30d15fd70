//! [`TurboBlobMap`], [`PeaBlobMap`]: byte strings of any length in a file.
//!
//! Blobs are in a part of the file whose pages are not copied. The bytes of a place are written
//! once, and the place is used again when nothing durable refers to it any more.

use super::blob_designs::BlobDesign;
use super::content::{MapInFile, create_whole};
use super::designs::{InFile, InPages};
use super::handle::FileMap;
use super::options::Options;
use super::session::admit;
use super::table::FileTable;
use crate::entry::{Blobs, Entries};
use crate::error::{Error, FileError};
use crate::hash::{IdentityCodec, StableBytes, StableCodec};
use crate::map::BlobMap;
use crate::memory::durable::{Backing, Description, Paged, Pool};
use crate::memory::{Finder, MemoryUsage, Saved};
use crate::table::iceberg::Recovery;
use crate::table::paged::PagedTable;
use crate::table::{Iceberg, Pea, Turbo, file_addresses};
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

type Bytes = Vec<u8>;

/// The map in the file.
pub(super) type Inner<D> = BlobMap<StableBytes, D>;

/// The entries of that map.
pub(super) type FileBlobs = Blobs<StableBytes, Paged>;

/// The most words that a file keeps about taken places: enough for a file of some TiB.
const MOST_SAVED: usize = 1 << 32;

/// After a crash, one of so many changes searches a shard that no operation has used yet.
const CHANGES: usize = 16;

/// The first change after a crash searches shards of about so many entries, which takes less than a
/// millisecond. So the taken places of a small file are known before the file would grow.
const AT_ONCE: usize = 4096;

/// While places are searched, a file may have so many bytes for blobs, beyond twice what they took
/// when their places were known last. So files do not grow from crash to crash.
const SLACK: usize = 4 << 20;

/// Byte strings of 0 to 4 GiB each by byte strings, in a file (sections 3.3 to 3.7 of the paper):
/// the [`TurboBlobMap`](crate::TurboBlobMap) in RAM, made durable.
///
/// A change writes the new blob, then the slot that refers to it. On persistent memory it makes two
/// write-backs and two fences (a removal only the second), and no crash shows a blob that is not
/// whole. A get reads what a get in RAM reads, and checks that the lengths that it finds are within
/// the file.
///
/// Each blob has a checksum of 32 bits in the file. [`verify`](Self::verify) compares all of them,
/// [`get_verified`](Self::get_verified) one; other gets do not.
///
/// The place of a replaced blob is used again when no guard can see it. In the page cache the state
/// that a power cut would leave must not refer to it either: that is so after the next
/// [sync](Self::sync), or at once if no sync has run since the blob was stored.
///
/// Closing a file stores which places are taken. After a crash this is found out by reading all
/// slots, shard by shard: when an operation uses a shard; by the first change, for some thousand
/// entries; and by one of 16 changes, for one more shard. In the page cache such a change syncs
/// when all shards are known. Until then new blobs are stored behind the others; a change that finds
/// twice as many bytes as the blobs took last, and 4 MiB, searches all that is left.
///
/// The options `max_load`, `max_capacity`, `threads`, `journal` and `segment_buckets` have no
/// effect.
///
/// ```
/// use nunatak::durable::TurboBlobMap;
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map = TurboBlobMap::open_or_create(&path)?;
/// map.put(b"nunatak", b"stands still")?;
/// map.close()?;
/// let map = TurboBlobMap::open(&path)?;
/// assert_eq!(map.pin().get(b"nunatak"), Some(&b"stands still"[..]));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub type TurboBlobMap = FileMap<BlobsInFile>;

/// Byte strings of 0 to 4 GiB each by byte strings, in a file, found by Pea Hash (section 3.4 of the
/// paper): the [`PeaBlobMap`](crate::BlobMap) in RAM, made durable. What [`TurboBlobMap`] says of
/// changes, checksums, places and crashes holds for it, with segments in the place of shards.
///
/// Of the two this one has fewer and larger parts: a segment of 512 KiB has up to 30,000 keys, and
/// is split into four. [`shrink_to_fit`](FileMap::shrink_to_fit) merges segments. After a crash the
/// first operation in a segment reads its slots and the lengths of its blobs.
///
/// The options `max_load`, `max_capacity`, `threads`, `journal`, `shards`, `scope` and `tombstones`
/// have no effect.
///
/// ```
/// use nunatak::durable::PeaBlobMap;
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map = PeaBlobMap::open_or_create(&path)?;
/// map.put(b"nunatak", b"stands still")?;
/// map.close()?;
/// let map = PeaBlobMap::open(&path)?;
/// assert_eq!(map.pin().get(b"nunatak"), Some(&b"stands still"[..]));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub type PeaBlobMap = FileMap<BlobsInFile<InFile<Pea>>>;

/// Byte strings of 0 to 4 GiB each by byte strings, in a file, found by IcebergHT: the
/// [`BlobMap`](crate::BlobMap) over [`Iceberg`] in RAM, made durable. What [`TurboBlobMap`] says of
/// changes, checksums, places and crashes holds for it.
///
/// Its slots take the least memory of the three: 85 % of their bytes are in use. But the table
/// doubles as a whole, and opening a file reads all slots, and after a crash the lengths of all
/// blobs. Unlike an [`IcebergMap`](crate::durable::IcebergMap) it is in a file whose pages are
/// copied before they change: a power cut leaves the state of the last sync.
///
/// The options `max_capacity`, `threads`, `journal`, `segment_buckets`, `shards`, `scope` and
/// `tombstones` have no effect.
///
/// ```
/// use nunatak::durable::IcebergBlobMap;
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map = IcebergBlobMap::open_or_create(&path)?;
/// map.put(b"nunatak", b"stands still")?;
/// map.close()?;
/// let map = IcebergBlobMap::open(&path)?;
/// assert_eq!(map.pin().get(b"nunatak"), Some(&b"stands still"[..]));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub type IcebergBlobMap = FileMap<BlobsInFile<InPages<Iceberg>>>;

/// The content of a [`TurboBlobMap`], [`PeaBlobMap`] or [`IcebergBlobMap`]: byte strings, and the places of the file
/// that they take. `D` is the table's design.
///
/// ```
/// use nunatak::durable::{BlobsInFile, FileMap};
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map: FileMap<BlobsInFile> = FileMap::create(&path)?;
/// # drop(map);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[allow(private_bounds, reason = "the trait is sealed: its parts are internal")]
pub struct BlobsInFile<D: BlobDesign = InFile<Turbo>> {
    pub(super) map: Inner<D>,
    saved: Saved<Paged>,
    /// About how many changes were made while places were searched: counted relaxed.
    changes: AtomicUsize,
    /// The size of the arena when the header was last told how many bytes the blobs take.
    told: AtomicUsize,
}

impl<D: BlobDesign> fmt::Debug for BlobsInFile<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.map.fmt(f)
    }
}

impl<D: BlobDesign> BlobsInFile<D> {
    fn of(table: D::Table<IdentityCodec>, blobs: Arc<FileBlobs>, saved: Saved<Paged>) -> Self {
        let (changes, told) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { map: BlobMap::of(table, blobs), saved, changes, told }
    }

    /// Makes the places of removed blobs free.
    pub(super) fn sync_and_reuse(&self) -> Result<(), Error> {
        self.map.reclaim();
        FileTable::sync(&self.map.table)?;
        self.map.entries.reuse_synced();
        Ok(())
    }

    /// Does what precedes every change that may store something.
    #[inline(always)]
    pub(super) fn prepare_to_store(&self) -> Result<(), Error> {
        if self.map.entries.are_searched() {
            admit(&self.map.table)?;
            return self.search();
        }
        self.tell_growth();
        Ok(())
    }

    /// Does this change's share of the search for taken places, after a crash.
    #[cold]
    fn search(&self) -> Result<(), Error> {
        // Relaxed: an approximate count suffices.
        let change = self.changes.fetch_add(1, Ordering::Relaxed);
        let known = usize::try_from(FileTable::pool(&self.map.table).items()).unwrap_or(usize::MAX);
        let is_large = self.map.entries.committed() > known.saturating_mul(2) + SLACK;
        if is_large || change.is_multiple_of(CHANGES) {
            let pairs = match change {
                _ if is_large => usize::MAX,
                0 => AT_ONCE,
                _ => 1,
            };
            D::restore_some(&self.map.table, pairs);
            if self.map.entries.wait_for_sync() {
                FileTable::sync(&self.map.table)?;
                self.map.entries.reuse_synced();
            }
            if !self.map.entries.are_searched() {
                self.tell_bytes();
            }
        }
        Ok(())
    }

    /// Tells the header how many bytes the blobs take when the file has grown.
    #[inline(always)]
    fn tell_growth(&self) {
        // Relaxed: a hint.
        if self.told.load(Ordering::Relaxed) != self.map.entries.committed() {
            self.tell_bytes();
        }
    }

    /// Tells sessions after a crash how many bytes the blobs take.
    #[cold]
    fn tell_bytes(&self) {
        // Relaxed: a hint.
        self.told.store(self.map.entries.committed(), Ordering::Relaxed);
        FileTable::pool(&self.map.table).set_items(self.map.entries.stats().placed_bytes);
    }
}

#[allow(private_interfaces, reason = "the trait is sealed: its parts are internal")]
impl<D: BlobDesign> MapInFile for BlobsInFile<D> {
    type Stats = D::Stats;
    type Entry = (Bytes, Bytes);
    type Table = D::Table<IdentityCodec>;

    const REHEARSES: bool = true;

    fn create(backing: Backing, options: &Options) -> Result<Self, Error> {
        let mut description = D::describe(options)?;
        // A simulation must do the same every time.
        let seed = if backing.is_simulated() { 1 } else { StableCodec::draw()[0] };
        let hash = StableBytes { seed };
        description[D::HASH_AT] = StableBytes::VERSION;
        description[D::HASH_AT + 1] = hash.seed;
        let wanted = options.wanted_by_copies();
        create_whole(backing, D::KIND, &description, wanted, |pool| {
            let medium = Paged::new(pool, file_addresses())?;
            let saved = Saved::new(&medium, MOST_SAVED)?;
            let blobs = Arc::new(Blobs::new(&medium, hash)?);
            let table = D::create(medium, &description, options.capacity)?;
            Ok(Self::of(table, blobs, saved))
        })
    }

    fn open(backing: Backing, options: &Options) -> Result<(Self, Recovery), Error> {
        let pool = Pool::open(backing, D::KIND, options.wanted_by_copies())?;
        let description = *pool.description();
        if description[D::HASH_AT] != StableBytes::VERSION {
            return Err(FileError::OtherKind { what: "hash" }.into());
        }
        let hash = StableBytes { seed: description[D::HASH_AT + 1] };
        let was_closed = pool.was_closed();
        let medium = Paged::new(pool, file_addresses())?;
        // Before any page is taken: the pages that `Saved` has are not free.
        let saved = Saved::new(&medium, MOST_SAVED)?;
        let blobs = Arc::new(Blobs::new(&medium, hash)?);
        let words = if was_closed { saved.saved() } else { None };
        let finder = match words.is_some_and(|words| blobs.learn(&words)) {
            true => None,
            false => {
                blobs.begin_search()?;
                Some(Arc::clone(&blobs) as Arc<dyn Finder>)
            }
        };
        let (table, recovery) = D::open(medium, &description, finder)?;
        Ok((Self::of(table, blobs, saved), recovery))
    }

    #[inline(always)]
    fn table(&self) -> &D::Table<IdentityCodec> {
        &self.map.table
    }

    fn verify(&self) -> Result<usize, Error> {
        self.saved.check()?;
        let guard = self.map.guard();
        let entries = &self.map.entries;
        let damaged = OnceLock::new();
        let verified = PagedTable::verify(&self.map.table, &|word, second| {
            if !entries.is_placed(second) {
                return false;
            }
            // SAFETY: a slot has had the word since the guard was taken, which is dropped below.
            let (is_whole, key) = unsafe { (entries.is_whole(second), entries.get(second).0) };
            if !is_whole {
                // The first one is reported. (Of a blob that is whole the slot is wrong.)
                let _ = damaged.set(entries.address(second).addr());
            }
            is_whole && entries.word(key) == word
        });
        drop(guard);
        verified.map_err(|error| match (damaged.get(), error) {
            // The table may have said where the slot is.
            (Some(&address), Error::File(FileError::Corrupt { what, .. })) => {
                let pool = PagedTable::pool(&self.map.table);
                let address = core::ptr::without_provenance::<u8>(address);
                pool.locate(address, FileError::corrupt(what).into())
            }
            (_, error) => error,
        })
    }

    fn prepare_close(&self) -> Result<(), Error> {
        // Recovers all parts of the table, so that the taken places are known: otherwise files that are never
        // open for long would grow and grow.
        self.map.len();
        // Places that wait for a sync are free after it.
        self.sync_and_reuse()?;
        self.tell_bytes();
        let words = self.map.entries.to_words();
        let table = &self.map.table;
        // If the words find no room, the next open searches all blobs again.
        table
            .with_room(|| self.saved.save(words.as_deref()))
            .or_else(|_| table.with_room(|| self.saved.save(None)))?;
        FileTable::prepare_close(table)
    }

    fn constants(description: &Description, options: &Options) -> Options {
        D::constants(description, options)
    }

    fn store_all(file: &FileMap<Self>, entries: &mut Vec<Self::Entry>) -> Result<(), Error> {
        file.put_many(entries)?;
        entries.clear();
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = Self::Entry> {
        self.map.iter()
    }

    fn whole_entries(&self) -> impl Iterator<Item = Self::Entry> {
        // Each byte string is compared with its checksum.
        self.map.iter().filter(|(key, value)| {
            let guard = self.map.guard();
            self.map.find_word(&guard, key).is_some_and(|word| {
                let entries = &self.map.entries;
                // SAFETY: the word was read under the guard, which is dropped last.
                let (is_whole, stored) = unsafe { (entries.is_whole(word), entries.value(word)) };
                is_whole && stored == value.as_slice()
            })
        })
    }

    fn has_entry(&self, (key, _): &Self::Entry) -> bool {
        self.map.contains_key(key)
    }

    fn snapshot(&self) -> Result<impl Iterator<Item = Self::Entry>, Error> {
        self.map.snapshot()
    }

    fn clear(&self) {
        self.map.clear();
    }

    fn len(&self) -> usize {
        self.map.len()
    }

    fn reserve(&self, additional: usize) -> Result<(), Error> {
        self.map.reserve(additional)
    }

    fn shrink_to_fit(&self) -> Result<(), Error> {
        // Recovers all parts of the table, so that the free places are known.
        self.map.len();
        self.sync_and_reuse()?;
        self.map.shrink_to_fit()?;
        // The sync frees the places that moved blobs left.
        self.sync_and_reuse()?;
        self.map.entries.trim();
        Ok(())
    }

    fn load_factor(&self) -> f64 {
        self.map.load_factor()
    }

    fn memory_usage(&self) -> MemoryUsage {
        self.map.memory_usage()
    }

    fn stats(&self) -> D::Stats {
        self.map.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::{Persistency, Simulation};

    /// An entry of a damaged file replaces no entry of its key that is not damaged.
    #[test]
    fn a_map_has_an_entry_of_each_of_its_keys() {
        let map: TurboBlobMap =
            Simulation::new(Persistency::Pages).create(&Options::new()).unwrap();
        map.put(b"a", b"1").unwrap();
        let has = |key: &[u8], value: &[u8]| map.map.has_entry(&(key.to_vec(), value.to_vec()));
        assert!(has(b"a", b"1") && has(b"a", b"2") && !has(b"b", b"1"));
    }
}
