//! What a crash of a simulated file may leave.

use super::persistency::Persistency;
use crate::memory::durable::{Event, Recorder};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::thread::ThreadId;

/// The stores to one unit (a cache line or a sector) of a file.
#[derive(Debug, Default)]
struct Unit {
    /// The event, the offset and the word of each store.
    stores: Vec<(usize, u64, u64)>,
    /// How many of the stores are certainly durable.
    durable: usize,
}

/// A change of the blocks that the file has.
#[derive(Debug, Clone, Copy)]
enum Resize {
    To(u64),
    GivenBack { from: u64, to: u64, is_last: bool },
}

/// All that a crash at one moment may leave.
///
/// ```
/// # use nunatak::durable::{IcebergMap, Options, Persistency, Simulation};
/// let simulation = Simulation::new(Persistency::Pages);
/// let map: IcebergMap<u64, u64> = simulation.create(&Options::new())?;
/// map.insert(7, 49)?;
/// let crash = simulation.crash(simulation.moment());
/// assert_eq!(crash.possibilities(), 3, "nothing, the value, the value and the key");
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug)]
pub struct Crash {
    before: Arc<Vec<u8>>,
    /// The units by their numbers.
    units: BTreeMap<u64, Unit>,
    resizes: Vec<(usize, Resize)>,
    durable_resizes: usize,
}

impl Crash {
    pub(super) fn new(
        recorder: &Recorder,
        moment: usize,
        persistency: Persistency,
        before: Arc<Vec<u8>>,
    ) -> Self {
        let mut units: BTreeMap<u64, Unit> = BTreeMap::new();
        let (mut resizes, mut durable_resizes) = (Vec::new(), 0);
        // For each thread the units that it has flushed and not yet fenced, with the number of
        // their stores at the flush.
        let mut flushed: HashMap<ThreadId, Vec<(u64, usize)>> = HashMap::new();
        for (at, event) in recorder.events()[..moment].iter().enumerate() {
            // Words of one unit.
            let mut store = |offset: u64, words: &[u64]| {
                let unit = units.entry(offset / persistency.unit()).or_default();
                let offsets = (offset..).step_by(8);
                unit.stores.extend(offsets.zip(words).map(|(offset, &word)| (at, offset, word)));
            };
            match *event {
                Event::Store { offset, word } => store(offset, &[word]),
                Event::Page { offset, number } => {
                    let (page, size) = (recorder.page(number), persistency.unit());
                    let (mut offset, mut rest) = (offset, &page[..]);
                    while !rest.is_empty() {
                        let words = (size - offset % size) as usize / 8;
                        let (unit, others) = rest.split_at(words.min(rest.len()));
                        store(offset, unit);
                        (offset, rest) = (offset + 8 * unit.len() as u64, others);
                    }
                }
                Event::Flush { offset, thread } if persistency == Persistency::Lines => {
                    let unit = offset / persistency.unit();
                    let stores = units.get(&unit).map_or(0, |unit| unit.stores.len());
                    flushed.entry(thread).or_default().push((unit, stores));
                }
                Event::Fence { thread } => {
                    for (unit, stores) in flushed.remove(&thread).unwrap_or_default() {
                        if let Some(unit) = units.get_mut(&unit) {
                            unit.durable = unit.durable.max(stores);
                        }
                    }
                }
                Event::BarrierEnded { began } => {
                    for unit in units.values_mut() {
                        let stores = unit.stores.partition_point(|&(at, ..)| at < began);
                        unit.durable = unit.durable.max(stores);
                    }
                    let count = resizes.partition_point(|&(at, _)| at < began);
                    durable_resizes = durable_resizes.max(count);
                }
                Event::RangeSynced { from, to } => {
                    let size = persistency.unit();
                    for unit in units.range_mut(from / size..to.div_ceil(size)) {
                        unit.1.durable = unit.1.stores.len();
                    }
                }
                Event::Resized { bytes } => resizes.push((at, Resize::To(bytes))),
                Event::GivenBack { from, to, is_last } => {
                    resizes.push((at, Resize::GivenBack { from, to, is_last }));
                }
                Event::Flush { .. } | Event::BarrierBegan => {}
            }
        }
        Self { before, units, resizes, durable_resizes }
    }

    /// Returns how many images are possible. Some of them may be equal.
    ///
    /// ```
    /// # use nunatak::durable::{Persistency, Simulation};
    /// assert_eq!(Simulation::new(Persistency::Lines).crash(0).possibilities(), 1);
    /// ```
    pub fn possibilities(&self) -> u64 {
        self.options().fold(1, |all: u64, options| all.saturating_mul(options as u64))
    }

    /// Yields the number of choices for the sizes, and for each unit.
    fn options(&self) -> impl Iterator<Item = usize> {
        let resizes = self.resizes.len() - self.durable_resizes + 1;
        let units = self.units.values().map(|unit| unit.stores.len() - unit.durable + 1);
        core::iter::once(resizes).chain(units)
    }

    /// Returns the image in which everything has arrived: what a killed process leaves.
    ///
    /// ```
    /// # use nunatak::durable::{Persistency, Simulation};
    /// assert!(Simulation::new(Persistency::Lines).crash(0).latest().is_empty());
    /// ```
    pub fn latest(&self) -> Vec<u8> {
        self.image(|options| options - 1)
    }

    /// Returns the image in which only what is certainly durable has arrived.
    ///
    /// ```
    /// # use nunatak::durable::{Persistency, Simulation};
    /// assert!(Simulation::new(Persistency::Lines).crash(0).earliest().is_empty());
    /// ```
    pub fn earliest(&self) -> Vec<u8> {
        self.image(|_| 0)
    }

    /// Yields all images if there are at most so many, and otherwise as many, drawn at random, with
    /// the earliest and the latest among them.
    ///
    /// ```
    /// # use nunatak::durable::{IcebergMap, Options, Persistency, Simulation};
    /// let simulation = Simulation::new(Persistency::Pages);
    /// let map: IcebergMap<u64, u64> = simulation.create(&Options::new())?;
    /// (0..100).for_each(|key| drop(map.insert(key, key)));
    /// assert_eq!(simulation.crash(simulation.moment()).images(10, 7).count(), 10);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn images(&self, most: u64, seed: u64) -> impl Iterator<Item = Vec<u8>> {
        let all = self.possibilities();
        let draw = foldhash::fast::FixedState::with_seed(seed);
        (0..all.min(most)).map(move |number| {
            if all <= most {
                let mut rest = number;
                return self.image(|options| {
                    let choice = rest % options as u64;
                    rest /= options as u64;
                    choice as usize
                });
            }
            match number {
                0 => self.earliest(),
                1 => self.latest(),
                _ => {
                    // Some images are nearly the latest, some nearly the earliest.
                    let share = number % 8;
                    let mut at = 0_u64;
                    self.image(|options| {
                        use core::hash::BuildHasher;
                        at += 1;
                        let drawn = draw.hash_one((number, at));
                        match (drawn >> 32) % 8 {
                            side if side < share => options - 1,
                            side if side == share => drawn as u32 as usize % options,
                            _ => 0,
                        }
                    })
                }
            }
        })
    }

    fn image(&self, mut choose: impl FnMut(usize) -> usize) -> Vec<u8> {
        let arrived = self.durable_resizes + choose(self.resizes.len() - self.durable_resizes + 1);
        let mut image = Vec::clone(&self.before);
        for (at, (_, resize)) in self.resizes.iter().enumerate() {
            match *resize {
                Resize::To(bytes) if at < arrived => {
                    grow(&mut image, bytes as usize);
                }
                Resize::GivenBack { from, to, is_last } if at < arrived => {
                    let (from, to) = (from as usize, image.len().min(to as usize));
                    if is_last {
                        image.truncate(from);
                    } else if from < to {
                        image[from..to].fill(0);
                    }
                }
                _ => {}
            }
        }
        for unit in self.units.values() {
            let stores = unit.durable + choose(unit.stores.len() - unit.durable + 1);
            for &(at, offset, word) in &unit.stores[..stores] {
                if self.is_there(at, offset, arrived) {
                    let end = offset as usize + 8;
                    if image.len() < end {
                        // The first page, which a new file has from the beginning.
                        if end > 64 << 10 {
                            continue;
                        }
                        grow(&mut image, 64 << 10);
                    }
                    image[offset as usize..end].copy_from_slice(&word.to_ne_bytes());
                }
            }
        }
        image
    }

    /// Whether a store went to bytes that the file still has after so many resizes.
    fn is_there(&self, store: usize, offset: u64, arrived: usize) -> bool {
        self.resizes.iter().enumerate().all(|(number, (at, resize))| match *resize {
            Resize::GivenBack { from, to, .. } if (from..to).contains(&offset) => {
                if number < arrived { store > *at } else { store < *at }
            }
            _ => true,
        })
    }
}

/// Appends zeros, up to so many bytes. `Vec::resize` would store them one by one in code that is optimised little, as
/// tests are: a fifth of the time of those that crash maps.
fn grow(image: &mut Vec<u8>, bytes: usize) {
    if image.len() < bytes {
        let mut grown = vec![0; bytes];
        grown[..image.len()].copy_from_slice(image);
        *image = grown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grows_keeps_what_it_had() {
        let resizes = vec![(0, Resize::To(200)), (1, Resize::To(150))];
        let units = BTreeMap::new();
        let crash = Crash { before: Arc::new(vec![7; 100]), units, resizes, durable_resizes: 0 };
        assert_eq!(crash.earliest(), [7; 100]);
        assert_eq!(crash.latest(), [[7; 100], [0; 100]].concat());
    }
}
