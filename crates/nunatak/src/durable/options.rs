//! Options with which a durable map is created and opened.

use crate::Schema;
use crate::error::Error;
use crate::memory::durable::{Forced, Media, Wanted};
use crate::table::pea::Strategy;
use core::time::Duration;

/// What an operation that was acknowledged survives; the
/// [module](crate::durable#what-an-acknowledged-operation-is-worth) has the table.
///
/// ```
/// use nunatak::durable::{Durability, Options};
/// use std::time::Duration;
/// let options = Options::new().durability(Durability::Interval(Duration::from_millis(100)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// The operation survives the process. [`sync`](crate::durable::FileMap::sync) makes all of
    /// them survive a power cut.
    #[default]
    Process,
    /// As `Process`, with a sync in the background whenever this time has passed since the last one
    /// began. So a change survives a power cut that comes later than this time and two syncs after
    /// it: the sync under way, if it takes longer than the interval, and the next one.
    Interval(Duration),
    /// The operation survives a power cut: every change, or batch of changes, returns after a sync.
    /// Threads that change the map at the same time share a sync.
    Synced,
    /// The operation survives a power cut: the file is on persistent memory (a file system that is
    /// mounted with `dax`), and every change writes its cache line back. What a read returns
    /// survives as well.
    PersistentMemory,
}

/// Options with which a durable map is created or opened.
///
/// ```
/// use nunatak::durable::{IcebergMap, Options};
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let options = Options::new().capacity(100_000).max_load(0.95);
/// let map: IcebergMap<u64, u64> = IcebergMap::create_with(&path, &options)?;
/// # drop(map);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(super) capacity: usize,
    pub(super) max_load: f64,
    pub(super) max_capacity: Option<usize>,
    pub(super) durability: Durability,
    /// How much longer a line takes that is written back, if persistent memory is emulated.
    pub(super) emulated: Option<Duration>,
    pub(super) read_only: bool,
    pub(super) answer_readers: bool,
    pub(super) threads: Option<usize>,
    pub(super) journal: Option<u64>,
    pub(super) huge_pages: bool,
    pub(super) after_power_cut: bool,
    pub(super) page_checksums: bool,
    pub(super) forced: Option<Forced>,
    pub(super) segment_buckets: usize,
    pub(super) strategies: Vec<Strategy>,
    pub(super) turbo: crate::table::turbo::Config,
    /// The name and the version that the program has chosen.
    pub(super) named: (String, u32),
    /// The schema that the file must have; a typed map makes it.
    pub(super) schema: Option<&'static Schema>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            capacity: 0,
            max_load: crate::table::iceberg::Config::default().max_load,
            max_capacity: None,
            durability: Durability::default(),
            emulated: None,
            read_only: false,
            answer_readers: false,
            threads: None,
            journal: None,
            huge_pages: false,
            after_power_cut: false,
            page_checksums: true,
            forced: None,
            segment_buckets: crate::table::pea::Config::default().buckets,
            strategies: crate::table::pea::Config::default().strategies,
            turbo: crate::table::turbo::Config::default(),
            named: (String::new(), 0),
            schema: None,
        }
    }
}

impl Options {
    /// The default options, which [`create`](crate::durable::FileMap::create) and
    /// [`open`](crate::durable::FileMap::open) use.
    ///
    /// ```
    /// # use nunatak::durable::Options;
    /// let options = Options::new();
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for so many entries when the file is created.
    ///
    /// ```
    /// # use nunatak::durable::Options;
    /// let options = Options::new().capacity(1_000_000);
    /// ```
    #[must_use]
    pub fn capacity(mut self, entries: usize) -> Self {
        self.capacity = entries;
        self
    }

    /// Sets the share of the slots that entries may take before an
    /// [`IcebergMap`](crate::durable::IcebergMap) doubles: 0.1 to 0.95, by default 0.91. A file
    /// keeps the value that it was created with.
    ///
    /// ```
    /// # use nunatak::durable::Options;
    /// let options = Options::new().max_load(0.85);
    /// ```
    #[must_use]
    pub fn max_load(mut self, share: f64) -> Self {
        self.max_load = share;
        self
    }

    /// Reserves addresses for so many entries of an [`IcebergMap`](crate::durable::IcebergMap),
    /// which does not grow beyond them. By default more than the machine has memory for.
    ///
    /// ```
    /// # use nunatak::durable::Options;
    /// let options = Options::new().max_capacity(1 << 40);
    /// ```
    #[must_use]
    pub fn max_capacity(mut self, entries: usize) -> Self {
        self.max_capacity = Some(entries);
        self
    }

    /// Sets what an acknowledged operation survives.
    ///
    /// ```
    /// # use nunatak::durable::{Durability, Options};
    /// let options = Options::new().durability(Durability::Synced);
    /// ```
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Accepts a file on any file system for [`Durability::PersistentMemory`], to measure what that
    /// level costs where there is no persistent memory. **A power cut may leave anything.**
    ///
    /// Every change executes the write-backs and the fences of persistent memory, but they reach the
    /// page cache's RAM. Each line that is written back takes `latency` longer (Optane: about 100 ns);
    /// with zero nothing waits. Changes survive the process. The file is laid out for persistent
    /// memory, so it must be opened with this level again. At other levels the option has no effect.
    ///
    /// ```
    /// use nunatak::durable::{Durability, Options, PeaMap};
    /// use std::time::{Duration, Instant};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let latency = Duration::from_micros(100);
    /// let options = Options::new()
    ///     .durability(Durability::PersistentMemory)
    ///     .emulate_persistent_memory(latency);
    /// let map: PeaMap<u64, u64> = PeaMap::create_with(&path, &options)?;
    /// let begin = Instant::now();
    /// map.insert(7, 49)?;
    /// assert!(begin.elapsed() >= latency);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn emulate_persistent_memory(mut self, latency: Duration) -> Self {
        self.emulated = Some(latency);
        self
    }

    /// Opens the file only for reading. Nothing in it is changed, not even by recovery, and other
    /// maps may read it, too. Changes return errors.
    ///
    /// ```
    /// # use nunatak::durable::Options;
    /// let options = Options::new().read_only(true);
    /// ```
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Answers other processes that want to read the file while this one changes it, by
    /// [`open_beside`](crate::durable::FileMap::open_beside): a thread makes a snapshot for them. By
    /// default nobody answers.
    ///
    /// For an [`IcebergMap`](crate::durable::IcebergMap), and for files on persistent memory. Other
    /// files need nobody's help, and get no such thread.
    ///
    /// The thread sleeps until a reader asks. A snapshot costs what a
    /// [`backup`](crate::durable::FileMap::backup) costs, in this process. It is in a file without a
    /// name, beside the map, and nothing of it is left when the reader has ended. Only processes of
    /// the same user, or of root, are answered. Closing the map ends a snapshot that is being made.
    ///
    /// ```
    /// # use nunatak::durable::{IcebergMap, Options};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = Options::new().answer_readers(true);
    /// let map: IcebergMap<u64, u64> = IcebergMap::create_with(&path, &options)?;
    /// map.insert(1, 10)?;
    /// // In another process:
    /// let snapshot: IcebergMap<u64, u64> = IcebergMap::open_beside(&path)?;
    /// assert_eq!(snapshot.get(&1), Some(10));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn answer_readers(mut self, answer_readers: bool) -> Self {
        self.answer_readers = answer_readers;
        self
    }

    /// Sets how many threads scan the file of an [`IcebergMap`](crate::durable::IcebergMap) when it
    /// is opened; by default as many as there are processors.
    ///
    /// ```
    /// # use nunatak::durable::Options;
    /// let options = Options::new().threads(1);
    /// ```
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Sets how many bytes of the file are a journal. With a journal a sync writes 24 bytes for
    /// each slot that was changed since the last one, until the journal is full, instead of every
    /// page that has such a slot. By default 16 MiB if the durability is
    /// [`Synced`](Durability::Synced) or [`Interval`](Durability::Interval), and 0 (no journal,
    /// unless the file has one) otherwise. It costs a change some nanoseconds. Opening a file that
    /// was not closed takes the time to read it. Persistent memory needs no journal.
    ///
    /// ```
    /// # use nunatak::durable::Options;
    /// let options = Options::new().journal(64 << 20);
    /// ```
    #[must_use]
    pub fn journal(mut self, bytes: u64) -> Self {
        self.journal = Some(bytes);
        self
    }

    /// Asks the system to keep the file in large pages (2 MiB), where it can: as they come in RAM.
    /// Batches that change a large map are a third faster. But the system then writes changes back
    /// by such pages, too: use it for maps that are synced seldom, or have a
    /// [`journal`](Self::journal).
    ///
    /// ```
    /// # use nunatak::durable::Options;
    /// let options = Options::new().huge_pages(true);
    /// ```
    #[must_use]
    pub fn huge_pages(mut self, huge_pages: bool) -> Self {
        self.huge_pages = huge_pages;
        self
    }

    /// Opens a file as one that the power cut has left, whatever its header says: its maps are in
    /// the state of the last sync, or (an [`IcebergMap`](crate::durable::IcebergMap)) later.
    ///
    /// This is for an image of a whole disk, or of a virtual machine, that was made while the file
    /// was open and the machine ran on. A file that was copied, or that is in a snapshot of a file
    /// system, is recognized by itself: it has another inode or is on another device.
    /// A file that was closed is opened as it is.
    ///
    /// ```
    /// # use nunatak::durable::Options;
    /// let options = Options::new().after_power_cut(true);
    /// ```
    #[must_use]
    pub fn after_power_cut(mut self, after_power_cut: bool) -> Self {
        self.after_power_cut = after_power_cut;
        self
    }

    /// Opens a damaged file, only to read it: whatever is wrong is left out, and
    /// [`damages`](crate::durable::FileMap::damages) tells it. Nothing in the file is changed.
    ///
    /// What was in a lost part is absent. A key may have an earlier value, and a key that was removed
    /// may be there again. [`salvage`](crate::durable::FileMap::salvage) makes a new file of it.
    ///
    /// ```
    /// # use nunatak::durable::{Forced, Options, PeaMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// # PeaMap::<u64, u64>::create(&path)?.insert(1, 10)?;
    /// let map: PeaMap<u64, u64> =
    ///     PeaMap::open_with(&path, &Options::new().forced(Forced::Everything))?;
    /// assert_eq!((map.get(&1), map.damages().len()), (Some(10), 0));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn forced(mut self, forced: Forced) -> Self {
        self.forced = Some(forced);
        self.read_only(true)
    }

    /// Sets whether a new file keeps a checksum for each of its pages of 4 KiB; by default it does.
    /// A sync computes the checksums of the pages that have changed since the last one: 0.2 % of
    /// the file. [`verify`](crate::durable::FileMap::verify) compares all of them, and the first use
    /// of a page since the file was opened compares that page's
    /// ([`damage`](crate::durable::FileMap::damage)). A file keeps what it was created with. An
    /// [`IcebergMap`](crate::durable::IcebergMap), and files on persistent memory, have none.
    ///
    /// ```
    /// # use nunatak::durable::{Options, PeaMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = Options::new().page_checksums(false);
    /// let map: PeaMap<u64, u64> = PeaMap::create_with(&path, &options)?;
    /// assert!(map.page_checksums().is_none());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn page_checksums(mut self, page_checksums: bool) -> Self {
        self.page_checksums = page_checksums;
        self
    }

    /// Sets how many buckets of 256 bytes a segment of Pea Hash has, such as in a
    /// [`PeaMap`](crate::durable::PeaMap): a power of two from 2 to 65,536, by default 2048. A file
    /// keeps the value that it was created with.
    ///
    /// ```
    /// # use nunatak::durable::{Options, PeaMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = Options::new().segment_buckets(64);
    /// let map: PeaMap<u64, u64> = PeaMap::create_with(&path, &options)?;
    /// # drop(map);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn segment_buckets(mut self, buckets: usize) -> Self {
        self.segment_buckets = buckets;
        self
    }

    /// Sets the strategies that a segment of Pea Hash goes through before it is split: see
    /// [`PeaBuilder::strategies`](crate::PeaBuilder::strategies). A file keeps what it was created
    /// with.
    ///
    /// ```
    /// # use nunatak::{Strategy, durable::{Options, PeaMap}};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = Options::new().strategies(&[Strategy::TwoChoice]);
    /// drop(PeaMap::<u64, u64>::create_with(&path, &options)?);
    /// let map: PeaMap<u64, u64> = PeaMap::open(&path)?;
    /// assert_eq!(map.stats().strategies, [0, 2, 0]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn strategies(mut self, strategies: &[Strategy]) -> Self {
        self.strategies = strategies.to_vec();
        self
    }

    /// Sets how many shards a [`TurboMap`](crate::durable::TurboMap) has: see
    /// [`TurboBuilder::shards`](crate::TurboBuilder::shards). A file keeps the value that it was
    /// created with.
    ///
    /// ```
    /// # use nunatak::durable::{Options, TurboMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = Options::new().shards(64);
    /// let map: TurboMap<u64, u64> = TurboMap::create_with(&path, &options)?;
    /// assert_eq!(map.stats().shards, 64);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.turbo.shards = Some(shards);
        self
    }

    /// Sets in how many neighbouring buckets an entry of a [`TurboMap`](crate::durable::TurboMap)
    /// may be: see [`TurboBuilder::scope`](crate::TurboBuilder::scope). A file keeps the value that
    /// it was created with.
    ///
    /// ```
    /// # use nunatak::durable::Options;
    /// let options = Options::new().scope(8);
    /// ```
    #[must_use]
    pub fn scope(mut self, buckets: usize) -> Self {
        self.turbo.scope = buckets;
        self
    }

    /// Sets the share of tombstones among the slots of a shard of a
    /// [`TurboMap`](crate::durable::TurboMap): see
    /// [`TurboBuilder::tombstones`](crate::TurboBuilder::tombstones). A file keeps the value that
    /// it was created with.
    ///
    /// ```
    /// # use nunatak::durable::Options;
    /// let options = Options::new().tombstones(0.05);
    /// ```
    #[must_use]
    pub fn tombstones(mut self, share: f64) -> Self {
        self.turbo.tombstones = share;
        self
    }

    /// Names the schema of a [`TypedMap`](crate::durable::TypedMap), and its version. A new file
    /// gets them; an existing file must have them, otherwise opening it returns
    /// [`FileError::OtherSchema`](crate::FileError::OtherSchema). By default the name is empty and
    /// the version zero. Other maps have no schema.
    ///
    /// ```
    /// use nunatak::durable::{Options, TypedMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = Options::new().schema("ages", 1);
    /// drop(TypedMap::<String, u32>::create_with(&path, &options)?);
    /// let later = TypedMap::<String, u32>::open_with(&path, &options.schema("ages", 2));
    /// assert_eq!(
    ///     later.unwrap_err().to_string(),
    ///     "the file has the schema `ages` version 1 (str to u32), \
    ///      and `ages` version 2 (str to u32) was expected"
    /// );
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn schema(mut self, name: &str, version: u32) -> Self {
        self.named = (name.to_owned(), version);
        self
    }

    pub(super) fn media(&self) -> Media {
        match (self.durability, self.emulated) {
            (Durability::PersistentMemory, None) => Media::PersistentMemory,
            (Durability::PersistentMemory, Some(latency)) => Media::Emulated(latency),
            _ => Media::PageCache,
        }
    }

    /// Of a file whose pages are copied: no journal, since a sync writes the copied pages.
    pub(super) fn wanted_by_copies(&self) -> Wanted {
        Wanted { journal: 0, ..self.wanted() }
    }

    pub(super) fn wanted(&self) -> Wanted {
        let by_default = match self.durability {
            Durability::Synced | Durability::Interval(_) => 16 << 20,
            Durability::Process | Durability::PersistentMemory => 0,
        };
        Wanted {
            journal: self.journal.unwrap_or(by_default),
            huge_pages: self.huge_pages,
            after_power_cut: self.after_power_cut,
            page_checksums: self.page_checksums,
            forced: self.forced,
            schema: self.schema,
        }
    }

    /// The constants of a new table of Pea Hash.
    pub(super) fn pea(&self) -> crate::table::pea::Config {
        let strategies = self.strategies.clone();
        crate::table::pea::Config {
            buckets: self.segment_buckets,
            strategies,
            ..Default::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if !(0.1..=0.95).contains(&self.max_load) {
            return Err(Error::InvalidOption { option: "max_load", expected: "from 0.1 to 0.95" });
        }
        if self.durability == Durability::Interval(Duration::ZERO) {
            return Err(Error::InvalidOption {
                option: "durability",
                expected: "an interval that is not zero",
            });
        }
        self.pea().check()?;
        self.turbo.check()?;
        if self.threads == Some(0) {
            return Err(Error::InvalidOption { option: "threads", expected: "one or more" });
        }
        Ok(())
    }

    pub(super) fn threads_to_open(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(all)
    }
}
