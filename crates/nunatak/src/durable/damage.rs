//! Damage: what is noticed of it, and a new file of all that can still be read from a damaged one.

use super::content::MapInFile;
use super::handle::FileMap;
use super::options::Options;
use super::table::FileTable;
use crate::error::Error;
use crate::memory::durable::{Forced, Unpublished};
use std::path::Path;

/// How many entries are stored at once.
const BATCH: usize = 1024;

/// What [`FileMap::salvage`] has found in a damaged file.
///
/// ```
/// use nunatak::durable::{Salvaged, TurboMap};
/// # let directory = tempfile::tempdir().unwrap();
/// # let (path, new) = (directory.path().join("map"), directory.path().join("new"));
/// # TurboMap::<u64, u64>::create(&path)?.insert(1, 10)?;
/// let found: Salvaged = TurboMap::<u64, u64>::salvage(&path, &new)?;
/// assert_eq!((found.sure, found.doubtful, found.damages), (1, 0, vec![]));
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvaged {
    /// Entries that nothing speaks against: they are where their keys belong, and in pages, or
    /// byte strings, that are as their checksums say, if they have any.
    pub sure: usize,
    /// Entries whose keys were found only in pages that are not as their checksums say. Most of them
    /// are right: a wrong page has up to 240 entries.
    pub doubtful: usize,
    /// What is wrong with the file: the first thousand findings.
    pub damages: Vec<Error>,
}

/// How many pages of 4 KiB of a file have a checksum.
///
/// ```
/// use nunatak::durable::{PageChecksums, TurboMap};
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map: TurboMap<u64, u64> = TurboMap::create(&path)?;
/// let PageChecksums { compared, changed, .. } = map.page_checksums().unwrap();
/// assert!(compared + changed > 0);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageChecksums {
    /// Pages that `verify` compares with their checksums.
    pub compared: usize,
    /// Pages that have changed since the last sync. They have no checksum yet.
    pub changed: usize,
}

/// Damaged files.
impl<T: MapInFile> FileMap<T> {
    /// Makes a new file of all that can still be read from a damaged one, which is not changed. The
    /// new file has the map's constants, and gets its name when it is whole.
    ///
    /// Each entry is looked for where its key belongs. A lost descriptor of a segment or a shard is
    /// found again from its entries; a lost byte string is left out. A key may have an earlier
    /// value, and a key that was removed may be there again.
    ///
    /// Reads the file twice. Takes as long as inserting the entries, and 16 bytes of RAM for each.
    ///
    /// # Errors
    /// If both copies of the header's first bytes are damaged: without them nobody knows how keys
    /// are stored. If there is a file of the new name, or it can't be made. If the damaged file can't
    /// be read, is open to be changed, or is of another kind.
    ///
    /// ```
    /// # use nunatak::durable::PeaMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let (path, new) = (directory.path().join("map"), directory.path().join("new"));
    /// let map: PeaMap<u64, u64> = PeaMap::create(&path)?;
    /// (0..1000).try_for_each(|key| map.insert(key, key).map(drop))?;
    /// map.close()?;
    /// let mut bytes = std::fs::read(&path).unwrap();
    /// let half = bytes.len() / 2;
    /// bytes[half..half + 512].fill(0xA5);
    /// std::fs::write(&path, bytes).unwrap();
    /// let found = PeaMap::<u64, u64>::salvage(&path, &new)?;
    /// assert!(found.sure + found.doubtful > 900);
    /// assert_eq!(PeaMap::<u64, u64>::open(&new)?.verify(), Ok(found.sure + found.doubtful));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn salvage(path: impl AsRef<Path>, new: impl AsRef<Path>) -> Result<Salvaged, Error> {
        let (path, new) = (path.as_ref(), new.as_ref());
        let unpublished = Unpublished::new(new, "salvage")?;
        let intact = Self::open_with(path, &Options::new().forced(Forced::Intact))?;
        let pool = intact.table().pool();
        let options = Options { schema: pool.schema(), ..Options::default() };
        let options = T::constants(pool.description(), &options);
        let copy = Self::create_with(unpublished.temporary(), &options)?;
        let store = |from: &Self, is_wanted: &dyn Fn(&T::Entry) -> bool| {
            let mut batch = Vec::with_capacity(BATCH);
            for entry in from.map.whole_entries().filter(is_wanted) {
                batch.push(entry);
                if batch.len() == BATCH {
                    T::store_all(&copy, &mut batch)?;
                }
            }
            T::store_all(&copy, &mut batch)?;
            Ok::<usize, Error>(copy.len())
        };
        let sure = store(&intact, &|_| true)?;
        let mut damages = intact.damages();
        drop(intact);
        let everything = Self::open_with(path, &Options::new().forced(Forced::Everything))?;
        let all = store(&everything, &|entry| !copy.map.has_entry(entry))?;
        let more = everything.damages().into_iter().filter(|one| !damages.contains(one));
        let more: Vec<Error> = more.collect();
        damages.extend(more);
        copy.close()?;
        unpublished.publish()?;
        Ok(Salvaged { sure, doubtful: all - sure, damages })
    }

    /// Returns the first damage that was noticed since the file was opened. A page whose checksum is
    /// wrong is noticed at its first use. From then on changes and syncs return this error, so that
    /// the file stays as it was at the last sync. Reads go on.
    ///
    /// ```
    /// # use nunatak::durable::PeaMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMap<u64, u64> = PeaMap::create(&path)?;
    /// assert_eq!(map.damage(), None);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn damage(&self) -> Option<Error> {
        self.table().pool().damage()
    }

    /// Returns the error of the write that failed, or of the file that another process has cut,
    /// after which changes and syncs return [`Poisoned`](crate::FileError::Poisoned). A sync in the
    /// background tells it nobody else. `None` if a batch could not be taken back.
    ///
    /// ```
    /// # use nunatak::durable::PeaMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMap<u64, u64> = PeaMap::create(&path)?;
    /// assert_eq!(map.failure(), None);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn failure(&self) -> Option<Error> {
        self.table().pool().failure()
    }

    /// Returns how many pages of the file [`verify`](Self::verify) compares with their checksums.
    /// Nothing if the file keeps no checksums of pages.
    ///
    /// ```
    /// # use nunatak::durable::PeaMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMap<u64, u64> = PeaMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert!(map.page_checksums().is_some_and(|pages| pages.changed > 0));
    /// map.sync()?;
    /// assert!(map.page_checksums().is_some_and(|pages| pages.changed == 0));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn page_checksums(&self) -> Option<PageChecksums> {
        let (pages, compared) = self.table().checksums()?;
        Some(PageChecksums { compared, changed: pages - compared })
    }

    /// Returns the damage that was noticed since the file was opened, at most a thousand findings.
    /// With [`Options::forced`] that is what is wrong with the parts that were read.
    ///
    /// ```
    /// # use nunatak::durable::PeaMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMap<u64, u64> = PeaMap::create(&path)?;
    /// assert!(map.damages().is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn damages(&self) -> Vec<Error> {
        self.table().pool().damages()
    }
}
