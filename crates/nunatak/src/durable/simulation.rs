//! A simulated file that can lose its power at any instant, for tests.

use super::content::MapInFile;
use super::crash::Crash;
use super::handle::FileMap;
use super::options::{Durability, Options};
use super::persistency::Persistency;
use crate::error::Error;
use crate::memory::durable::{Backing, Event, Recorder};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A file in memory that records every store, flush and fence, so that it can produce what a crash
/// at any instant could have left.
///
/// ```
/// use nunatak::durable::{IcebergMap, Options, Persistency, Simulation};
///
/// let simulation = Simulation::new(Persistency::Lines);
/// let map: IcebergMap<u64, u64> = simulation.create(&Options::new())?;
/// let before = simulation.moment();
/// map.insert(7, 49)?;
/// for moment in before..=simulation.moment() {
///     for image in simulation.crash(moment).images(100, 0) {
///         let again = Simulation::of(&image, Persistency::Lines);
///         let map: IcebergMap<u64, u64> = again.open(&Options::new())?;
///         let is_there = map.get(&7) == Some(49);
///         assert!(is_there || map.is_empty() && moment < simulation.moment());
///     }
/// }
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Simulation {
    recorder: Arc<Recorder>,
    persistency: Persistency,
    before: Arc<Vec<u8>>,
    was_started_again: bool,
}

impl Simulation {
    /// Makes an empty file.
    ///
    /// ```
    /// # use nunatak::durable::{Persistency, Simulation};
    /// assert_eq!(Simulation::new(Persistency::Pages).moment(), 0);
    /// ```
    pub fn new(persistency: Persistency) -> Self {
        Self::of(&[], persistency)
    }

    /// Makes a file with these contents, all of them durable, as after a power cut.
    ///
    /// ```
    /// # use nunatak::durable::{IcebergMap, Options, Persistency, Simulation};
    /// let nonsense = Simulation::of(&[7; 100_000], Persistency::Lines);
    /// let map: Result<IcebergMap<u64, u64>, _> = nonsense.open(&Options::new());
    /// assert!(map.is_err());
    /// ```
    pub fn of(contents: &[u8], persistency: Persistency) -> Self {
        Self {
            recorder: Arc::default(),
            persistency,
            before: Arc::new(contents.to_vec()),
            was_started_again: true,
        }
    }

    /// Turns the power cut before into a killed process: the machine has run since the contents
    /// were stored.
    ///
    /// ```
    /// # use nunatak::durable::{IcebergMap, Options, Persistency, Simulation};
    /// let simulation = Simulation::new(Persistency::Pages);
    /// let map: IcebergMap<u64, u64> = simulation.create(&Options::new())?;
    /// map.insert(7, 49)?;
    /// let image = simulation.crash(simulation.moment()).latest();
    /// let again = Simulation::of(&image, Persistency::Pages).of_killed();
    /// let map: IcebergMap<u64, u64> = again.open(&Options::new())?;
    /// assert_eq!(map.get(&7), Some(49));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn of_killed(mut self) -> Self {
        self.was_started_again = false;
        self
    }

    /// Makes another simulation of the same kind with other contents.
    ///
    /// ```
    /// # use nunatak::durable::{Persistency, Simulation};
    /// let again = Simulation::new(Persistency::Pages).again(&[]);
    /// assert_eq!(again.persistency(), Persistency::Pages);
    /// ```
    #[must_use]
    pub fn again(&self, contents: &[u8]) -> Self {
        let was_started_again = self.was_started_again;
        Self { was_started_again, ..Self::of(contents, self.persistency) }
    }

    /// Returns what a power cut leaves.
    ///
    /// ```
    /// # use nunatak::durable::{Persistency, Simulation};
    /// assert_eq!(Simulation::new(Persistency::Lines).persistency(), Persistency::Lines);
    /// ```
    pub fn persistency(&self) -> Persistency {
        self.persistency
    }

    fn backing(&self) -> Result<Backing, Error> {
        let is_ordered = self.persistency == Persistency::Lines;
        let recorder = Arc::clone(&self.recorder);
        Backing::simulated(&self.before, is_ordered, self.was_started_again, recorder)
    }

    fn options(&self, options: &Options) -> Options {
        let options = options.clone();
        match self.persistency {
            Persistency::Lines => options.durability(Durability::PersistentMemory),
            Persistency::Pages => options,
        }
    }

    /// Creates a map in the file, whose contents are ignored.
    ///
    /// # Errors
    /// As [`FileMap::create_with`].
    ///
    /// ```
    /// # use nunatak::durable::{IcebergMap, Options, Persistency, Simulation};
    /// let simulation = Simulation::new(Persistency::Lines);
    /// let map: IcebergMap<u64, u64> = simulation.create(&Options::new())?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn create<T: MapInFile>(&self, options: &Options) -> Result<FileMap<T>, Error> {
        FileMap::create_in(self.backing()?, &self.options(options))
    }

    /// Opens the map that the file held at the beginning.
    ///
    /// # Errors
    /// As [`FileMap::open_with`].
    ///
    /// ```
    /// # use nunatak::durable::{Options, Persistency, Simulation, TurboBlobMap};
    /// let simulation = Simulation::new(Persistency::Lines);
    /// let map: TurboBlobMap = simulation.create(&Options::new())?;
    /// map.close()?;
    /// let image = simulation.crash(simulation.moment()).latest();
    /// let again = Simulation::of(&image, Persistency::Lines);
    /// let map: TurboBlobMap = again.open(&Options::new())?;
    /// assert!(map.recovery().was_closed);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open<T: MapInFile>(&self, options: &Options) -> Result<FileMap<T>, Error> {
        FileMap::open_in(self.backing()?, &self.options(options))
    }

    /// Delays every flush of a line by this time, like a slow device.
    ///
    /// ```
    /// # use nunatak::durable::{IcebergMap, Options, Persistency, Simulation};
    /// use std::time::{Duration, Instant};
    /// let simulation = Simulation::new(Persistency::Lines);
    /// let map: IcebergMap<u64, u64> = simulation.create(&Options::new())?;
    /// simulation.set_latency(Duration::from_millis(2));
    /// let begin = Instant::now();
    /// map.insert(7, 49)?;
    /// assert!(begin.elapsed() >= Duration::from_millis(2));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn set_latency(&self, latency: core::time::Duration) {
        self.recorder.set_latency(latency);
    }

    /// Makes the sync fail that comes after so many others.
    ///
    /// ```
    /// # use nunatak::durable::{IcebergMap, Options, Persistency, Simulation};
    /// let simulation = Simulation::new(Persistency::Pages);
    /// let map: IcebergMap<u64, u64> = simulation.create(&Options::new())?;
    /// simulation.fail_sync_after(0);
    /// assert!(map.sync().is_err());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn fail_sync_after(&self, syncs: usize) {
        self.recorder.fail_after(syncs);
    }

    /// Fills the disk when the file has so many bytes; with `None` the disk has room again.
    ///
    /// ```
    /// # use nunatak::durable::{IcebergMap, Options, Persistency, Simulation};
    /// let simulation = Simulation::new(Persistency::Pages);
    /// let map: IcebergMap<u64, u64> = simulation.create(&Options::new())?;
    /// simulation.fill_disk_at(Some(map.file_bytes()));
    /// assert!(map.reserve(1_000_000).is_err());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn fill_disk_at(&self, bytes: Option<u64>) {
        self.recorder.full_at(bytes);
    }

    /// Refuses growths of the file by their numbers, counted from now on: the disk is full for a
    /// moment.
    ///
    /// ```
    /// # use nunatak::durable::{Options, PeaMap, Persistency, Simulation};
    /// let simulation = Simulation::new(Persistency::Pages);
    /// let map: PeaMap<u64, u64> = simulation.create(&Options::new())?;
    /// simulation.refuse_growths(0..1);
    /// assert!(map.reserve(1_000_000).is_err());
    /// map.reserve(1_000_000)?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn refuse_growths(&self, numbers: core::ops::Range<usize>) {
        self.recorder.refuse(numbers);
    }

    /// Returns how often the file was to grow since the last
    /// [`refuse_growths`](Self::refuse_growths), or since the beginning.
    ///
    /// ```
    /// # use nunatak::durable::{Persistency, Simulation};
    /// assert_eq!(Simulation::new(Persistency::Pages).growths(), 0);
    /// ```
    pub fn growths(&self) -> usize {
        self.recorder.growths()
    }

    /// Returns how many events were recorded. Moment 0 is before the first event, moment 1 after
    /// it, and so on.
    ///
    /// ```
    /// # use nunatak::durable::{IcebergMap, Options, Persistency, Simulation};
    /// let simulation = Simulation::new(Persistency::Lines);
    /// let map: IcebergMap<u64, u64> = simulation.create(&Options::new())?;
    /// let before = simulation.moment();
    /// map.insert(7, 49)?;
    /// assert_eq!(simulation.moment() - before, 4, "value, key, flush, fence");
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn moment(&self) -> usize {
        self.recorder.len()
    }

    /// Counts the events between two moments.
    ///
    /// ```
    /// # use nunatak::durable::{IcebergMap, Options, Persistency, Simulation};
    /// let simulation = Simulation::new(Persistency::Lines);
    /// let map: IcebergMap<u64, u64> = simulation.create(&Options::new())?;
    /// let before = simulation.moment();
    /// map.insert(7, 49)?;
    /// let counts = simulation.count(before..simulation.moment());
    /// assert_eq!((counts.lines_written, counts.lines_flushed, counts.fences), (1, 1, 1));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn count(&self, moments: core::ops::Range<usize>) -> Counts {
        let mut counts = Counts::default();
        let (mut lines, mut blocks) = (BTreeMap::new(), BTreeMap::new());
        self.recorder.each_event(moments, |event| match event {
            Event::Store { offset, .. } => {
                counts.stores += 1;
                lines.insert(offset / 64, ());
                blocks.insert(offset / 256, ());
            }
            Event::Page { offset, number } => {
                let words = self.recorder.page(number).len() as u64;
                counts.stores += words as usize;
                lines.extend((0..words * 8).step_by(64).map(|at| ((offset + at) / 64, ())));
                blocks.extend((0..words * 8).step_by(256).map(|at| ((offset + at) / 256, ())));
            }
            Event::Flush { .. } => counts.lines_flushed += 1,
            Event::Fence { .. } => counts.fences += 1,
            Event::BarrierEnded { .. } | Event::RangeSynced { .. } => counts.syncs += 1,
            Event::BarrierBegan | Event::Resized { .. } | Event::GivenBack { .. } => {}
        });
        (counts.lines_written, counts.blocks_written) = (lines.len(), blocks.len());
        counts
    }

    /// Returns all that a crash at a moment may leave.
    ///
    /// ```
    /// # use nunatak::durable::{IcebergMap, Options, Persistency, Simulation};
    /// let simulation = Simulation::new(Persistency::Lines);
    /// let map: IcebergMap<u64, u64> = simulation.create(&Options::new())?;
    /// map.insert(7, 49)?;
    /// assert_eq!(simulation.crash(simulation.moment()).possibilities(), 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn crash(&self, moment: usize) -> Crash {
        let before = Arc::clone(&self.before);
        Crash::new(&self.recorder, moment, self.persistency, before)
    }
}

/// Counts of the events of a file.
///
/// ```
/// # use nunatak::durable::Counts;
/// assert_eq!(Counts::default().stores, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Words that were stored.
    pub stores: usize,
    /// Lines of 64 bytes, each counted once.
    pub lines_written: usize,
    /// Blocks of 256 bytes, each counted once: the unit of some persistent memories.
    pub blocks_written: usize,
    /// Lines that were written back, counted each time.
    pub lines_flushed: usize,
    /// Fences.
    pub fences: usize,
    /// Syncs of the file, or of a part of it.
    pub syncs: usize,
}
