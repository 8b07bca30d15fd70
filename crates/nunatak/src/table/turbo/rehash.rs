//! Rehashes: store a shard's pairs in another extent, which is larger, as large or smaller
//! (sections 3.5 and 4.6). The reason is a key without room in its scope, or too many free slots.
//!
//! Readers go on in the old extent, which stays as it is. Changes to this shard wait meanwhile;
//! changes to other shards do not.

use super::Exclusive;
use super::Table;
use super::geometry::{fitting, size_for};
use super::shards::{Counts, ShardGuard, Shards};
use crate::error::{Error, FileError};
use crate::hash::HashCodec;
use crate::memory::{BuddyExtent, MOST_SIZE, Medium};
use crate::seeded::{Bug, seeded};
use crate::sync::Ordering::Relaxed;
use crate::table::shared::bucket::{Flag, Header, Layout, Marking, UPPER_HALF};
use crate::table::shared::full_disk::shrink_if_room;
use crate::table::shared::rehashed::Rehashed;
use crate::table::stages::{Figures, Resizing};
use std::time::Instant;

/// The most slots of a shard, as a multiple of the slots that its keys need. Beyond this, keys
/// without room go to chains: otherwise hashes that agree in many bits could make a shard as large
/// as memory.
const SPARSE: usize = 32;

/// A shard is made smaller if less than one slot of this many is in use.
const EMPTY: usize = 8;

/// A pair without room in an extent, and its hash.
type Homeless = (u64, (u64, u64));

/// An extent that is given back unless it is kept.
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

    /// Makes all shards as small as their pairs allow, and returns unused memory.
    fn shrink_to_fit(&self) -> Result<(), Error> {
        let exclusive = &mut Some(self.exclusive.lock());
        for number in 0..self.shards.len() {
            shrink_if_room::<M, _>(|| self.sync(), || self.shrink_shard(number, exclusive))?;
        }
        shrink_if_room::<M, _>(|| self.sync(), || self.move_down(exclusive))?;
        self.release_pages()
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    fn shrink_shard<'t>(
        &'t self,
        number: usize,
        exclusive: &mut Exclusive<'t>,
    ) -> Result<(), Error> {
        self.change_hashed(number, Some(exclusive), |held, hash, hashes| {
            let Some(extent) = held.descriptor.extent() else { return Ok(()) };
            let Counts { live, tombstones } = held.shard.counts();
            if live == 0 {
                // Pairs in chains are found without buckets.
                return self.rehash(held, None, hash, hashes);
            }
            let size = fitting(live as usize, L::SLOTS).min(extent.size);
            if size < extent.size || tombstones > 0 {
                return self.rehash(held, Some(size), hash, hashes);
            }
            Ok(())
        })
    }

    /// Makes shards larger until there is room for `additional` more pairs.
    pub(crate) fn reserve(&self, additional: usize) -> Result<(), Error> {
        let all = self.len().checked_add(additional).ok_or(Error::CapacityOverflow)?;
        let shards = self.shards.len();
        let size = |number| size_for(all, P::share(number, shards), L::SLOTS);
        let buckets = |number| size(number).map(|size| 1_usize << size);
        self.shards.check_buckets((0..shards).map(buckets).sum::<Result<usize, Error>>()?)?;
        for number in 0..shards {
            let size = size(number)?;
            self.change_hashed(number, None, |held, hash, hashes| {
                match held.descriptor.extent() {
                    Some(extent) if extent.size >= size => Ok(()),
                    _ => self.rehash(held, Some(size), hash, hashes),
                }
            })?;
        }
        Ok(())
    }

    /// Returns whether the hashes of all keys of a locked shard are known. `hash` is any hash of
    /// the shard.
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

    /// Makes a locked shard larger and stores a key in it. Stores the key in a chain if a larger
    /// shard does not help, or if memory is refused. Returns false if the slots of the chains are
    /// for other operations.
    #[cold]
    pub(super) fn insert_in_larger(
        &self,
        held: &mut ShardGuard<'_>,
        hash: u64,
        pair: (u64, u64),
        hashes: &Rehashed,
    ) -> Result<bool, Error> {
        loop {
            let size = held.descriptor.extent().map(|extent| extent.size);
            let next = size.map_or(held.shard.first_size(), |size| size + 1);
            let is_fixed = self.config.room.is_fixed();
            let is_refused =
                size.is_some() && (is_fixed || self.is_sparse(next, held.shard.counts().live));
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
                    return Ok(true);
                }
            }
        }
    }

    /// Stores a key in a chain. Its shard is locked. (A shard without buckets needs no flag: a
    /// lookup that finds no buckets looks into the chains.)
    fn chain(&self, held: &ShardGuard<'_>, hash: u64, pair: (u64, u64)) -> Result<bool, Error> {
        let is_full = self.config.room.must_refuse(|| self.counted());
        if is_full || self.chains.slots().must_refuse() {
            return Ok(false);
        }
        if let Some(extent) = held.descriptor.extent() {
            self.shards.make_writable(self.shards.place(extent, hash, 0))?;
            // Before the pair, so that lookups find it.
            self.shards.home(extent, hash).set(&self.medium, Flag::Chained);
        }
        // In RAM chains always have room. A durable map asks for room before.
        self.chains.push(hash, pair).map_err(|_| FileError::Full)?;
        Ok(true)
    }

    /// Returns whether a locked shard has many free slots or many tombstones.
    #[inline(always)]
    pub(super) fn has_garbage(&self, held: &ShardGuard<'_>) -> bool {
        let Some(extent) = held.descriptor.extent() else { return false };
        let slots = L::SLOTS << extent.size;
        let Counts { live, tombstones } = held.shard.counts();
        let is_empty = EMPTY * (live as usize) < slots && extent.size > held.shard.first_size();
        // No overflow: a share is at most one, and a shard has at most 2^24 buckets.
        is_empty || (u64::from(tombstones) << 24) > self.tombstones_a_slot * slots as u64
    }

    /// Makes a locked shard as small as its keys allow, or clears it of tombstones, if it has many
    /// free slots or many tombstones.
    #[inline(always)]
    pub(super) fn collect_garbage(&self, held: &mut ShardGuard<'_>, hash: u64, hashes: &Rehashed) {
        if self.has_garbage(held)
            && let Some(extent) = held.descriptor.extent()
        {
            self.make_fit(held, extent, hash, hashes);
        }
    }

    /// Rehashes the shard. If memory is refused, the shard stays as it is.
    #[cold]
    fn make_fit(
        &self,
        held: &mut ShardGuard<'_>,
        extent: BuddyExtent,
        hash: u64,
        hashes: &Rehashed,
    ) {
        // Fills at most half of the fitting load, so that the next keys find room.
        let fitting = fitting(2 * held.shard.counts().live as usize, L::SLOTS);
        // A shard that can't grow again keeps its size.
        let size = match self.config.room.is_fixed() {
            true => extent.size,
            false => fitting.max(held.shard.first_size()).min(extent.size),
        };
        if self.rehash(held, Some(size), hash, hashes).is_ok() {
            let of_size =
                if size == extent.size { &self.happened.collected } else { &self.happened.shrunk };
            of_size.fetch_add(1, Relaxed);
        }
    }

    /// Stores all pairs of a locked shard in another extent of `size`, or of a larger size if they
    /// do not fit. Without a size, only gives the shard's buckets back, which hold no pairs. `hash`
    /// is any hash of the shard. If memory is refused, the shard stays as it was.
    pub(super) fn rehash(
        &self,
        held: &mut ShardGuard<'_>,
        size: Option<u32>,
        hash: u64,
        hashes: &Rehashed,
    ) -> Result<(), Error> {
        let (before, begin) = (held.descriptor.extent(), Instant::now());
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
        // Before the old extent is given back, since it may be reused then.
        held.shard.publish(held.descriptor);
        if let Some(before) = before {
            self.shards.give_back(before);
            if size.is_some() {
                self.happened.rehashes.count(counts.live as usize, begin);
            }
        }
        Ok(())
    }

    /// Stores the pairs of an extent in a new extent of `size`, or of the next size in which they
    /// all find room. Pairs that find room in no reasonable size go to chains.
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
            if M::IS_DURABLE && hashes.0 == 1 {
                let note = |bucket: &L| bucket.set(&self.medium, UPPER_HALF);
                self.shards.all(extent).for_each(note);
            }
            taken.is_kept = true;
            return Ok((extent, counts));
        }
    }

    /// Stores all homeless pairs in chains, or none of them. No other thread knows the extent yet.
    /// (If the power fails before the extent is published, the pairs are still in their old slots,
    /// which count.)
    fn chain_all(&self, extent: BuddyExtent, homeless: &[Homeless]) -> Result<(), Error> {
        for (at, &(hash, pair)) in homeless.iter().enumerate() {
            self.shards.home(extent, hash).set(&self.medium, Flag::Chained);
            if self.chains.push(hash, pair).is_err() {
                for &(hash, pair) in &homeless[..at] {
                    // This operation can remove what it has stored.
                    let _ = self.chains.remove(hash, pair);
                }
                return Err(FileError::Full.into());
            }
        }
        Ok(())
    }

    /// Stores the pairs of an extent in a new extent that no other thread knows. Returns the
    /// counts, and the pairs without room. Returns nothing if a larger extent would have room.
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

    /// Returns whether a shard of `size` would be too large for `keys` keys.
    fn is_sparse(&self, size: u32, keys: u32) -> bool {
        size > MOST_SIZE || (L::SLOTS << size) > SPARSE * (keys as usize + L::SLOTS)
    }

    /// Sets the flag for chains: pairs in chains stay there, so each bucket that may be their first
    /// needs it.
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

    /// Moves shards to lower addresses while there are free extents, and returns the memory behind
    /// them.
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
