//! What becomes of a shard when a key finds no room in its scope, or when too much of it
//! is free: its pairs are stored in other buckets, more of them, as many or fewer (sections
//! 3.5 and 4.6).
//!
//! Readers go on in the buckets before, which stay as they are; nobody else can change the
//! shard meanwhile, and nobody waits who changes another one.

use super::Exclusive;
use super::Table;
use super::apply::ShardGuard;
use super::shards::{Counts, Shards};
use crate::error::{Error, FileError};
use crate::hash::HashCodec;
use crate::memory::{BuddyExtent, MOST_SIZE, Medium};
use crate::seeded::{Bug, seeded};
use crate::sync::AtomicUsize;
use crate::sync::Ordering::Relaxed;
use crate::table::shared::bucket::{Flag, Header, Layout, Marking};
use crate::table::shared::rehashed::Rehashed;
use crate::table::stages::{Figures, Resizing};

/// What has happened to shards: counted and read relaxed, statistics.
#[derive(Debug, Default)]
pub(super) struct Happened {
    /// Those that became larger.
    pub(super) grown: AtomicUsize,
    /// Those that kept their size, and lost their tombstones.
    pub(super) collected: AtomicUsize,
    /// Those that became smaller.
    pub(super) shrunk: AtomicUsize,
}

/// A shard may have so many times the slots that its keys need, before those that find no
/// room go to chains instead: hashes that agree in many bits could otherwise make it as
/// large as memory.
const SPARSE: usize = 32;

/// The share of a shard's slots that its keys take at most when it is made to fit them.
const FITTING: f64 = 0.75;

/// A shard is made smaller when less than this share of its slots are taken.
const EMPTY: usize = 8;

/// The size of a shard for so many keys, of buckets of so many slots.
fn fitting(keys: usize, slots: usize) -> u32 {
    let buckets = (keys as f64 / (slots as f64 * FITTING)).ceil().max(1.0);
    (buckets as usize).next_power_of_two().ilog2()
}

/// The size of each of so many shards for so many pairs in all.
pub(super) fn size_for(pairs: usize, shards: usize, slots: usize) -> Result<u32, Error> {
    // Some shards have more than others.
    let mean = pairs as f64 / shards as f64;
    let size = fitting((mean + 4.0 * mean.sqrt()).ceil() as usize, slots);
    if size > MOST_SIZE { Err(Error::CapacityOverflow) } else { Ok(size) }
}

/// A pair that finds no room in an extent, and its hash.
type Homeless = (u64, (u64, u64));

/// Buckets that are given back unless they are kept.
struct Taken<'t, M: Medium, L: Layout> {
    shards: &'t Shards<M, L>,
    extent: BuddyExtent,
    is_kept: bool,
}

impl<M: Medium, L: Layout> Drop for Taken<'_, M, L> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.shards.give_back(self.extent);
        }
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Resizing for Table<P, M, L> {
    fn reserve(&self, additional: usize) -> Result<(), Error> {
        self.reserve(additional)
    }

    /// Makes all shards as small as their pairs allow, and gives back memory that is not
    /// needed.
    fn shrink_to_fit(&self) -> Result<(), Error> {
        let exclusive = &mut Some(self.exclusive.lock());
        for number in 0..self.shards.len() {
            self.change_hashed(number, Some(exclusive), |held, hash, hashes| {
                let Some(extent) = held.descriptor.extent() else { return Ok(()) };
                let Counts { live, tombstones } = held.shard.counts();
                if live == 0 {
                    // Those in chains are found without buckets.
                    return self.rehash(held, None, hash, hashes);
                }
                let size = fitting(live as usize, L::SLOTS).min(extent.size);
                if size < extent.size || tombstones > 0 {
                    return self.rehash(held, Some(size), hash, hashes);
                }
                Ok(())
            })?;
        }
        self.move_down(exclusive)?;
        self.release_pages()
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Makes shards larger until so many pairs more find room.
    pub(crate) fn reserve(&self, additional: usize) -> Result<(), Error> {
        let all = self.len().checked_add(additional).ok_or(Error::CapacityOverflow)?;
        let size = size_for(all, self.shards.len(), L::SLOTS)?;
        self.shards.check_size(size)?;
        for number in 0..self.shards.len() {
            self.change_hashed(number, None, |held, hash, hashes| {
                match held.descriptor.extent() {
                    Some(extent) if extent.size >= size => Ok(()),
                    _ => self.rehash(held, Some(size), hash, hashes),
                }
            })?;
        }
        Ok(())
    }

    /// Whether the hashes of a shard's keys, which is locked and which a hash is of, are known.
    #[inline(always)]
    pub(super) fn is_hashed(
        &self,
        held: &ShardGuard<'_>,
        hash: u64,
        hashes: &mut Rehashed,
    ) -> bool {
        !P::runs_callers_code() || self.has_all_hashes(held, hash, hashes)
    }

    #[cold]
    fn has_all_hashes(&self, held: &ShardGuard<'_>, hash: u64, hashes: &mut Rehashed) -> bool {
        let extent = held.descriptor.extent();
        let items = |bucket: &L| bucket.items(Marking::Place).collect::<Vec<_>>();
        let all = extent.iter().flat_map(|&extent| self.shards.all(extent)).flat_map(items);
        hashes.has_all::<P>((hash, self.shards.bits), all.map(|item| item.tag))
    }

    /// Stores a key for which there is no room in a shard, which is locked, when the shard
    /// is larger; in a chain if that does not help, or if there is no memory for it.
    #[cold]
    pub(super) fn insert_in_larger(
        &self,
        held: &mut ShardGuard<'_>,
        hash: u64,
        pair: (u64, u64),
        hashes: &Rehashed,
    ) -> Result<(), Error> {
        loop {
            let size = held.descriptor.extent().map(|extent| extent.size);
            let next = size.map_or(self.config.first_size, |size| size + 1);
            let is_refused = size.is_some() && self.is_sparse(next, held.shard.counts().live);
            if is_refused || self.rehash(held, Some(next), hash, hashes).is_err() {
                return self.chain(held, hash, pair);
            }
            self.happened.grown.fetch_add(usize::from(size.is_some()), Relaxed);
            if let Some(extent) = held.descriptor.extent() {
                let mut counts = held.shard.counts();
                let stored = self.store(extent, hash, pair, &mut counts)?;
                held.shard.set_counts(counts);
                self.persist(stored);
                if stored.is_some() {
                    return Ok(());
                }
            }
        }
    }

    /// Stores a key in a chain. Its shard is locked. (One without buckets needs none to say
    /// so: who finds none looks into the chains.)
    fn chain(&self, held: &ShardGuard<'_>, hash: u64, pair: (u64, u64)) -> Result<(), Error> {
        if let Some(extent) = held.descriptor.extent() {
            self.shards.make_writable(self.shards.place(extent, hash, 0))?;
            // Before the pair: who looks for it finds it.
            self.shards.home(extent, hash).set(&self.medium, Flag::Chained);
        }
        // In RAM there is always room in chains; a durable map asks before.
        self.chains.push(hash, pair).map_err(|_| FileError::Full.into())
    }

    /// Whether a shard, which is locked, has many free slots or many tombstones.
    #[inline(always)]
    pub(super) fn has_garbage(&self, held: &ShardGuard<'_>) -> bool {
        let Some(extent) = held.descriptor.extent() else { return false };
        let slots = L::SLOTS << extent.size;
        let Counts { live, tombstones } = held.shard.counts();
        let is_empty = EMPTY * (live as usize) < slots && extent.size > self.config.first_size;
        is_empty || f64::from(tombstones) > self.config.tombstones * slots as f64
    }

    /// Makes a shard, which is locked, as small as its keys allow, or clears it of
    /// tombstones, if it has many free slots or many of these.
    #[inline(always)]
    pub(super) fn collect_garbage(&self, held: &mut ShardGuard<'_>, hash: u64, hashes: &Rehashed) {
        if self.has_garbage(held)
            && let Some(extent) = held.descriptor.extent()
        {
            self.make_fit(held, extent, hash, hashes);
        }
    }

    /// Without memory for it the shard stays as it is.
    #[cold]
    fn make_fit(
        &self,
        held: &mut ShardGuard<'_>,
        extent: BuddyExtent,
        hash: u64,
        hashes: &Rehashed,
    ) {
        // To half of that load, so that the next keys find room.
        let fitting = fitting(2 * held.shard.counts().live as usize, L::SLOTS);
        let size = fitting.max(self.config.first_size).min(extent.size);
        if self.rehash(held, Some(size), hash, hashes).is_ok() {
            let of_size =
                if size == extent.size { &self.happened.collected } else { &self.happened.shrunk };
            of_size.fetch_add(1, Relaxed);
        }
    }

    /// Stores all pairs of a shard, which is locked and which some hash is of, in other
    /// buckets, more than a size says if they do not fit these; or gives its buckets back
    /// if none are asked for and none are needed. If there is no memory for that, the shard
    /// is as it was.
    pub(super) fn rehash(
        &self,
        held: &mut ShardGuard<'_>,
        size: Option<u32>,
        hash: u64,
        hashes: &Rehashed,
    ) -> Result<(), Error> {
        let before = held.descriptor.extent();
        let number = self.shards.number(hash);
        self.shards.make_durable_writable(number)?;
        let (extent, counts) = match size {
            None => (None, Counts::default()),
            Some(size) => {
                let (extent, counts) = self.fill(before, size, ((hash >> 63) as usize, hashes))?;
                (Some(extent), counts)
            }
        };
        self.commit(number, extent);
        held.descriptor = held.descriptor.with(extent);
        held.shard.set_counts(counts);
        // Before the buckets are given back, which may be used for something else then.
        held.shard.publish(held.descriptor);
        if let Some(before) = before {
            self.shards.give_back(before);
        }
        Ok(())
    }

    /// Stores the pairs of an extent in a new one of a size, or of the next size in which all
    /// find room; in chains those that find none however large it is.
    fn fill(
        &self,
        from: Option<BuddyExtent>,
        mut size: u32,
        hashes: (usize, &Rehashed),
    ) -> Result<(BuddyExtent, Counts), Error> {
        loop {
            let mut taken =
                Taken { shards: &self.shards, extent: self.shards.allocate(size)?, is_kept: false };
            let extent = taken.extent;
            let Some((counts, homeless)) = self.fill_extent(from, extent, hashes)? else {
                size += 1;
                continue;
            };
            self.inherit_chained(from, extent);
            self.chain_all(extent, &homeless)?;
            taken.is_kept = true;
            return Ok((extent, counts));
        }
    }

    /// Stores pairs of an extent that nobody else knows yet in chains, or none of them. (If the
    /// power fails before it is known they are where they were, too, and count there.)
    fn chain_all(&self, extent: BuddyExtent, homeless: &[Homeless]) -> Result<(), Error> {
        for (at, &(hash, pair)) in homeless.iter().enumerate() {
            self.shards.home(extent, hash).set(&self.medium, Flag::Chained);
            if self.chains.push(hash, pair).is_err() {
                for &(hash, pair) in &homeless[..at] {
                    // What this operation has stored can be changed by it.
                    let _ = self.chains.remove(hash, pair);
                }
                return Err(FileError::Full.into());
            }
        }
        Ok(())
    }

    /// The same for an extent that nobody else knows; the pairs that find no room, with their
    /// hashes, or nothing if they would in a larger one.
    fn fill_extent(
        &self,
        from: Option<BuddyExtent>,
        extent: BuddyExtent,
        (half, hashes): (usize, &Rehashed),
    ) -> Result<Option<(Counts, Vec<Homeless>)>, Error> {
        let (mut counts, mut homeless) = (Counts::default(), Vec::new());
        for bucket in from.iter().flat_map(|&from| self.shards.all(from)) {
            for item in bucket.items(Marking::Place) {
                let hash = hashes.hash(&self.codec, item.tag, half);
                let pair = (item.tag, item.value_word);
                if self.store(extent, hash, pair, &mut counts)?.is_none() {
                    if !self.is_sparse(extent.size + 1, counts.live) {
                        return Ok(None);
                    }
                    homeless.push((hash, pair));
                }
            }
        }
        Ok(Some((counts, homeless)))
    }

    /// Whether a shard of a size would be larger than so many keys are worth.
    fn is_sparse(&self, size: u32, keys: u32) -> bool {
        size > MOST_SIZE || (L::SLOTS << size) > SPARSE * (keys as usize + L::SLOTS)
    }

    /// What is in chains stays there: each bucket that a key of it may have must know.
    fn inherit_chained(&self, from: Option<BuddyExtent>, extent: BuddyExtent) {
        let Some(from) = from else {
            if self.chains.len() > 0 {
                self.shards.all(extent).for_each(|bucket| bucket.set(&self.medium, Flag::Chained));
            }
            return;
        };
        for (at, bucket) in self.shards.all(from).enumerate() {
            if !bucket.header().has(Flag::Chained) || seeded(Bug::ChainedNotInherited) {
                continue;
            }
            let (first, count) = match extent.size.checked_sub(from.size) {
                Some(larger) => (at << larger, 1 << larger),
                None => (at >> (from.size - extent.size), 1),
            };
            for at in extent.first + first..extent.first + first + count {
                self.shards.bucket(at).set(&self.medium, Flag::Chained);
            }
        }
    }

    /// Moves shards to lower addresses as long as there are any free, and gives the memory
    /// behind them back.
    fn move_down<'t>(&'t self, exclusive: &mut Exclusive<'t>) -> Result<(), Error> {
        loop {
            self.shards.trim();
            let mut is_any_moved = false;
            for number in (0..self.shards.len()).rev() {
                let exclusive = Some(&mut *exclusive);
                self.change_hashed(number, exclusive, |held, hash, hashes| -> Result<(), Error> {
                    let Some(extent) = held.descriptor.extent() else { return Ok(()) };
                    if self.shards.has_below(extent) {
                        self.rehash(held, Some(extent.size), hash, hashes)?;
                        let is_moved =
                            held.descriptor.extent().is_some_and(|now| now.first < extent.first);
                        is_any_moved |= is_moved;
                    }
                    Ok(())
                })?;
            }
            if !is_any_moved {
                return Ok(());
            }
        }
    }
}
