//! Opens tables in durable memory; see [`durable`](super::durable).
//!
//! Loads of descriptors and slots are relaxed: either no map has the table yet, or the shard's lock
//! keeps other threads away.

use super::find::PASSED;
use super::geometry::{Descriptor, MOST_SHARDS, fingerprint};
use super::shards::Counts;
use super::shards::ShardGuard;
use super::{Config, Table};
use crate::error::{Error, FileError};
use crate::hash::HashCodec;
use crate::memory::durable::Paged;
use crate::memory::{BuddyExtent, Finder, Medium};
use crate::seeded::{Bug, seeded};
use crate::sync::{Ordering::Relaxed, Shared};
use crate::table::ByEntry;
use crate::table::shared::Recovery;
use crate::table::shared::bucket::{Flag, Header, Layout, UPPER_HALF};
use crate::table::shared::files::IsPair;
use crate::table::shared::paged::{
    PagedTable, has_first_room, paged_parts, refuse_fork, take_back_at_open,
};
use std::sync::Arc;

/// In place of counts: the shard was not restored since a crash.
const UNKNOWN: u64 = u64::MAX;

pub(super) fn corrupt(what: &'static str) -> Error {
    FileError::corrupt(what).into()
}

impl Config {
    /// Returns the words that store the options in a file.
    pub(crate) fn to_words(&self) -> [u64; 4] {
        let shards = self.shards.unwrap_or(0) as u64;
        [shards, self.scope as u64, self.tombstones.to_bits(), u64::from(self.first_size)]
    }

    /// Returns the options of a file's words.
    pub(crate) fn of_words(words: [u64; 4]) -> Result<Self, Error> {
        let word = |at: usize| usize::try_from(words[at]).unwrap_or(MOST_SHARDS + 1);
        let config = Self {
            shards: Some(word(0)),
            scope: word(1),
            tombstones: f64::from_bits(words[2]),
            first_size: word(3) as u32,
            ..Self::default()
        };
        match config.check() {
            Ok(()) if word(3) <= crate::memory::MOST_SIZE as usize => Ok(config),
            _ => Err(corrupt("a constant is none")),
        }
    }
}

impl<P: HashCodec> Table<P, Paged> {
    pub(crate) fn config_for(config: Config, capacity: usize) -> Result<Config, Error> {
        Ok(config.made_for(capacity, Self::SLOTS)?.0)
    }

    /// Creates a table in an empty medium.
    pub(crate) fn create(medium: Paged, codec: P, config: Config) -> Result<Self, Error> {
        medium.end_recovery()?;
        let table = Self::new_in(medium, codec, config, 0)?;
        has_first_room(&table)?;
        Ok(table)
    }

    /// Opens the table of a medium. After a crash a shard is restored at its first use. The finder
    /// learns what slots name.
    pub(crate) fn open(
        medium: Paged,
        codec: P,
        config: Config,
        finder: Option<Arc<dyn Finder>>,
    ) -> Result<(Self, Recovery), Error> {
        let was_closed = medium.pool().was_closed();
        let shards = config.shards.unwrap_or(0);
        let mut table = Self::within(medium, codec, config, shards)?;
        table.medium.end_recovery()?;
        table.medium.find_lost_pages();
        let known = table.find_runs(was_closed && finder.is_none())?;
        table.finder = finder;
        table.registry.count::<Shared>(known as i64);
        let mut recovery = Recovery { was_closed, items: known, ..Recovery::default() };
        // The chains count as one item, since they may name places of the finder, too.
        table.restoring.begin(1);
        recovery.dropped = table.restore_chains();
        let taken_back = take_back_at_open(&table, |replaced, found| {
            if let Some(finder) = &table.finder {
                replaced.tell(found, &**finder);
            }
        });
        table.medium.pool().tolerate(taken_back, || ())?;
        table.end_one();
        // If the disk is full, changes that find no room are refused.
        let _ = has_first_room(&table);
        Ok((table, recovery))
    }

    /// Learns the shards' extents, and their counts if the table was closed. Returns the number of
    /// pairs in shards with known counts.
    fn find_runs(&self, was_closed: bool) -> Result<usize, Error> {
        if self.medium.pool().forced().is_some() {
            self.find_what_is_left();
            return Ok(0);
        }
        if self.shards.described() < self.shards.len() {
            return Err(corrupt("a shard has no descriptor"));
        }
        let (mut used, mut pairs, mut left) = (Vec::new(), 0, 0);
        for number in 0..self.shards.len() {
            let Some(durable) = self.shards.durable(number) else { continue };
            let described = Descriptor::of_word(durable.load_first(Relaxed));
            let descriptor = described.ok_or_else(|| corrupt("a descriptor is none"))?;
            let Some(extent) = descriptor.extent() else { continue };
            used.push(extent);
            let word = durable.load_second(Relaxed);
            let counts = Counts::of(word);
            let slots = extent.len() * Self::SLOTS;
            let is_known = was_closed
                && word != UNKNOWN
                && counts.live as usize + counts.tombstones as usize <= slots;
            if is_known {
                pairs += counts.live as usize;
                self.shards.set(number, descriptor, counts);
            } else {
                left += 1;
                self.shards.set(number, Descriptor::UNRESTORED, Counts::default());
            }
        }
        self.restoring.begin(left);
        if !self.shards.restore(used) {
            return Err(corrupt("buckets are of no shard or of two"));
        }
        Ok(pairs)
    }

    /// Restores the chains. Returns the number of dropped pairs: pairs that are not valid, and
    /// pairs that are also in a shard.
    fn restore_chains(&self) -> usize {
        self.chains.restore_or_drop(|slot, (tag, second)| {
            let hash = self.codec.hash_of_tag(tag, self.chains.slots().half(slot));
            // Compares the value too: another key may have the same tag.
            let is_it = ByEntry(|other| other == second);
            let is_there = || self.find_tag::<true, _>(hash, tag, &is_it).is_some();
            if !self.codec.is_tag(tag) || is_there() || !self.is_found(second) {
                return None;
            }
            if let Some(extent) = self.hold(hash).descriptor.extent() {
                self.medium.while_nothing_moves(|| {
                    self.shards.home(extent, hash).set(&self.medium, Flag::Chained);
                });
            }
            self.registry.count::<Shared>(1);
            self.restoring.add(1);
            Some((hash, (tag, second)))
        })
    }
}

#[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
impl<P: HashCodec> PagedTable for Table<P, Paged> {
    paged_parts!();

    fn sync(&self) -> Result<(), Error> {
        self.sync()
    }

    fn verify(&self, is_pair: IsPair<'_>) -> Result<usize, Error> {
        self.verify(is_pair)
    }

    fn close(&self) -> Result<(), Error> {
        for number in 0..self.shards.len() {
            let shard = self.shards.shard(number);
            let is_known = !shard.descriptor().is_unrestored();
            let counts = if is_known { shard.counts().word() } else { UNKNOWN };
            let is_said =
                |durable: &crate::sync::AtomicPair| durable.load_second(Relaxed) == counts;
            if self.shards.durable(number).is_none_or(is_said) {
                continue;
            }
            self.with_room(|| self.shards.make_durable_writable(number))?;
            if let Some(durable) = self.shards.durable(number) {
                self.medium.store_second(durable, counts, Relaxed);
            }
        }
        Ok(())
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    pub(super) const SLOTS: usize = L::SLOTS;

    /// Returns the extent that a shard's durable descriptor names.
    fn durable_run(&self, number: usize) -> Option<BuddyExtent> {
        if let Some(left) = self.shards.left.get() {
            return Descriptor::of_word(left.descriptors[number])?.extent();
        }
        let word = self.shards.durable(number)?.load_first(Relaxed);
        Descriptor::of_word(word)?.extent()
    }

    /// Restores all shards that were not restored since a crash.
    pub(super) fn restore_all(&self) {
        if self.restoring.left() > 0 {
            (0..self.shards.len())
                .filter(|&number| self.shards.shard(number).descriptor().is_unrestored())
                .for_each(|number| drop(self.hold((number as u64) << (64 - self.shards.bits))));
        }
    }

    /// Restores the headers of a locked shard. `hash` is any hash of the shard.
    #[cold]
    pub(super) fn restore(&self, held: &mut ShardGuard<'_>, hash: u64) {
        refuse_fork(&self.medium);
        let number = self.shards.number(hash);
        let extent = self.durable_run(number);
        let counts = match extent {
            // In place, in any epoch: headers count only if the table was closed.
            Some(extent) => self.medium.while_nothing_moves(|| self.restore_headers(extent, hash)),
            None => Counts::default(),
        };
        held.shard.set_counts(counts);
        held.descriptor = held.descriptor.with(extent);
        held.shard.publish(held.descriptor);
        self.registry.count::<Shared>(i64::from(counts.live));
        self.restoring.add(counts.live as usize);
        self.end_one();
    }

    /// Counts one restored item. After the last one the search ends.
    fn end_one(&self) {
        if self.restoring.end_one()
            && let Some(finder) = &self.finder
        {
            finder.end();
        }
    }

    /// Tells the finder what a slot holds. Returns whether the slot may hold it.
    fn is_found(&self, second: u64) -> bool {
        let is_found = |finder: &Arc<dyn Finder>| seeded(Bug::BlobsNotFound) || finder.find(second);
        self.finder.as_ref().is_none_or(is_found)
    }

    /// Restores shards until they hold `pairs` pairs more, or until every shard is restored.
    pub(crate) fn restore_some(&self, pairs: usize) {
        let enough = self.restoring.found().saturating_add(pairs);
        for number in 0..self.shards.len() {
            if self.restoring.left() == 0 || self.restoring.found() >= enough {
                break;
            }
            if self.shards.shard(number).descriptor().is_unrestored() {
                drop(self.hold((number as u64) << (64 - self.shards.bits)));
            }
        }
    }

    /// Whether the mark of a bucket must be that of its shard's half. Files of earlier builds have no
    /// marks; and in persistent memory a mark need not be durable.
    fn must_be_marked(&self, bucket: &L) -> bool {
        let left = self.shards.left.get().filter(|_| !self.medium.has_fences());
        left.is_some_and(|left| left.has_marks || self.medium.may_be_earlier(bucket))
    }

    /// Builds the headers of a shard's extent again, and returns its counts. `hash` is any hash of
    /// the shard.
    fn restore_headers(&self, extent: BuddyExtent, hash: u64) -> Counts {
        let (number, half) = (self.shards.number(hash), (hash >> 63) as usize);
        let mask = extent.len() - 1;
        let mut counts = Counts::default();
        let mut fingerprints = vec![0_u8; extent.len() * L::SLOTS];
        let mut flags = vec![0_u64; extent.len()];
        for (at, bucket) in self.shards.all(extent).enumerate() {
            // Of a damaged file, an earlier page may have been of a shard of the other half.
            let is_of_half = || bucket.header().has(UPPER_HALF) == (half == 1);
            if P::WORDS_ARE_KEYS && self.must_be_marked(bucket) && !is_of_half() {
                continue;
            }
            for slot in 0..L::SLOTS {
                let (tag, second) = bucket.pair(slot, self.pairs_load_whole);
                if tag == 0 || !self.codec.is_tag(tag) {
                    continue;
                }
                let hash = self.codec.hash_of_tag(tag, half);
                let home = self.shards.place(extent, hash, 0) - extent.first;
                let distance = at.wrapping_sub(home) & mask;
                if self.shards.number(hash) != number || distance >= self.scope(extent) {
                    // A damaged file may hold such a pair.
                    continue;
                }
                if !self.is_found(second) {
                    continue;
                }
                if !seeded(Bug::WayNotRestored) {
                    (home..home + distance).for_each(|on| flags[on & mask] |= PASSED as u64);
                }
                fingerprints[at * L::SLOTS + slot] = fingerprint(hash);
                counts.live += 1;
            }
        }
        let headers = fingerprints.chunks(L::SLOTS).zip(flags);
        let of_half = if half == 1 { UPPER_HALF as u64 } else { 0 };
        for (bucket, (fingerprints, flags)) in self.shards.all(extent).zip(headers) {
            bucket.restore(&self.medium, fingerprints, flags | of_half);
            if flags != 0 {
                let free = fingerprints.iter().filter(|&&fingerprint| fingerprint == 0);
                counts.tombstones += free.count() as u32;
            }
        }
        counts
    }
}
