//! Opens tables in durable memory; see [`durable`](super::durable).
//!
//! Loads of descriptors and slots are relaxed: either no map has the table yet, or the structure's
//! lock keeps other threads from an unrestored segment.

use super::directory::Found;
use super::durable::{DEPTH_SHIFT, HALVES, LIVE};
use super::geometry::{Entry, MOST_DEPTH, Strategy, fingerprint, first_bucket, second_bucket};
use super::multi::log::{Location, Log, Store};
use super::multi::values::Pointer;
use super::multi::{Chained, Duplicates};
use super::segments::STASH;
use super::{Config, Table};
use crate::error::{Error, FileError};
use crate::hash::HashCodec;
use crate::memory::durable::Paged;
use crate::memory::{Finder, Medium};
use crate::seeded::{Bug, seeded};
use crate::sync::{Ordering::Relaxed, Shared};
use crate::table::shared::Recovery;
use crate::table::shared::bucket::{Flag, Header, Layout, mark_of_half};
use crate::table::shared::files::IsPair;
use crate::table::shared::paged::{
    PagedTable, has_first_room, paged_parts, refuse_fork, take_back_at_open,
};
use crate::table::{ByEntry, ByWord};
use core::ops::RangeInclusive;
use std::sync::Arc;

const STRATEGY_SHIFT: u32 = 16;
/// In place of a strategy: the segment was not restored since a crash.
const UNKNOWN: u64 = 0xFF;

/// The contents of a descriptor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Described {
    pub(super) segment: usize,
    pub(super) hash: u64,
    pub(super) depth: u32,
    pub(super) strategy: u64,
}

impl Described {
    /// Reads a descriptor. Returns nothing if its segment has no hashes.
    fn of(segment: usize, first: u64, hash: u64) -> Result<Option<Self>, Error> {
        let corrupt = Err(FileError::corrupt("a segment is of no hashes").into());
        let depth = (first >> DEPTH_SHIFT) as u8 as u32;
        let strategy = first >> STRATEGY_SHIFT;
        if first == 0 {
            return Ok(None);
        }
        if first & 0xFF != LIVE || !(1..=MOST_DEPTH).contains(&depth) || strategy > UNKNOWN {
            return corrupt;
        }
        if hash << depth != 0 {
            return corrupt;
        }
        Ok(Some(Self { segment, hash, depth, strategy }))
    }

    fn width(&self) -> u64 {
        1 << (64 - self.depth)
    }

    pub(super) fn last(&self) -> u64 {
        self.hash + (self.width() - 1)
    }
}

/// Chooses, of segments that cover the same hashes, the segment of the smallest depth, which has
/// all pairs. Returns the chosen segments by their hashes, and the other segments.
fn choose(mut all: Vec<Described>) -> (Vec<Described>, Vec<Described>) {
    all.sort_by_key(|one| (one.hash, one.depth, one.segment));
    if seeded(Bug::ShallowestNotTaken) {
        all.sort_by_key(|one| (one.hash, core::cmp::Reverse(one.depth)));
    }
    let (mut chosen, mut others): (Vec<Described>, Vec<Described>) = Default::default();
    for one in all {
        match chosen.last() {
            // By the order, the last one begins at the same hash or earlier and is at least as
            // wide.
            Some(last) if last.last() >= one.hash => others.push(one),
            _ => chosen.push(one),
        }
    }
    (chosen, others)
}

/// Returns the hashes that none of the chosen segments has.
fn gaps_of(chosen: &[Described]) -> Vec<RangeInclusive<u64>> {
    let mut gaps = Vec::new();
    let mut next = Some(0);
    for one in chosen {
        if let Some(first) = next.filter(|&first| first < one.hash) {
            gaps.push(first..=one.hash - 1);
        }
        next = one.last().checked_add(1);
    }
    gaps.extend(next.map(|first| first..=u64::MAX));
    gaps
}

impl<P: HashCodec> Table<P, Paged> {
    /// Creates a table in an empty medium.
    pub(crate) fn create(
        medium: Paged,
        codec: P,
        config: Config,
        capacity: usize,
    ) -> Result<Self, Error> {
        medium.end_recovery()?;
        let table = Self::new_in(medium, codec, config, capacity)?;
        has_first_room(&table)?;
        Ok(table)
    }

    /// Opens the table of a medium. After a crash a segment is restored at its first use. The
    /// finder learns what slots name.
    pub(crate) fn open(
        medium: Paged,
        codec: P,
        config: Config,
        finder: Option<Arc<dyn Finder>>,
    ) -> Result<(Self, Recovery), Error> {
        let was_closed = medium.pool().was_closed();
        let mut table = Self::within(medium, codec, config, 1)?;
        table.medium.end_recovery()?;
        table.medium.find_lost_pages();
        let is_known = table.find_buffers(was_closed)? && was_closed && finder.is_none();
        let dropped = table.find_segments(is_known)?;
        table.finder = finder;
        table.medium.pool().tolerate(table.repeat_log(), || ())?;
        let mut recovery = Recovery { was_closed, ..Recovery::default() };
        if is_known && let Some(record) = table.segments.record() {
            let pairs = record.load_first(Relaxed);
            recovery.items = usize::try_from(pairs).unwrap_or(0);
            table.registry.count::<Shared>(recovery.items as i64);
        }
        for segment in dropped {
            table.forget(segment.segment)?;
        }
        if table.medium.was_cut() && !table.medium.is_read_only() {
            // A new table may have got segments after its last sync.
            table.populate()?;
        }
        // The chains count as one item, since they may name buffers and places, too.
        table.restoring.begin(1);
        recovery.dropped = table.restore_chains();
        if table.undo.is_some() {
            let taken_back = take_back_at_open(&table, |replaced, found| {
                if let Some(finder) = &table.finder {
                    replaced.tell(found, &**finder);
                }
            });
            table.medium.pool().tolerate(taken_back, || ())?;
        }
        table.end_one();
        // If the disk is full, changes that find no room are refused.
        let _ = has_first_room(&table);
        Ok((table, recovery))
    }

    /// Builds the directory. Returns the segments that were replaced, or that never replaced their
    /// parent.
    fn find_segments(&mut self, was_closed: bool) -> Result<Vec<Described>, Error> {
        let (described, held) = self.segments.held();
        let mut all = Vec::new();
        for segment in 0..described {
            if let Some(descriptor) = self.segments.descriptor(segment) {
                let words = (descriptor.load_first(Relaxed), descriptor.load_second(Relaxed));
                let described = Described::of(segment, words.0, words.1);
                all.extend(self.medium.pool().tolerate(described, || None)?);
            }
        }
        if self.medium.is_forced() {
            self.leave_out_doubtful(&mut all, held);
        }
        let (mut chosen, others) = choose(all);
        let gaps = gaps_of(&chosen);
        if !gaps.is_empty() {
            let lost = Err(FileError::corrupt("hashes are of no segment").into());
            self.medium.pool().tolerate(lost, || ())?;
            let filled = self.fill_gaps(&chosen, &gaps, held);
            chosen.extend(filled);
        }
        let named = chosen.iter().map(|one| one.segment + 1).max().unwrap_or(0);
        if named > held && self.medium.has_fences() {
            return Err(FileError::corrupt("a segment is not in the file").into());
        }
        // Other segments in the file may hold the rest of interrupted changes.
        let len = named.max(held.min(described));
        let mut used = vec![false; len];
        chosen.iter().for_each(|one| used[one.segment] = true);
        self.segments.restore(len, &used)?;
        if self.medium.pool().forced().is_some()
            && !self.medium.was_cut()
            && chosen.iter().any(|one| self.segments.lacks_page(one.segment))
        {
            let lost = FileError::corrupt("a page is in no page map").into();
            self.medium.pool().note_damage(lost);
        }
        let depth = chosen.iter().map(|one| one.depth).max().unwrap_or(1);
        self.directories = super::directory::Directories::new(depth)?;
        let structure = self.directories.change();
        let mut left = 0;
        for one in chosen {
            let is_known = was_closed && one.strategy <= Strategy::Stash as u64;
            let strategy = Strategy::of(if is_known { one.strategy } else { 0 });
            let entry = Entry::new(one.segment as u32, 0, one.depth, strategy);
            left += usize::from(!is_known);
            let entry = if is_known { entry } else { entry.unrestored() };
            structure.current().publish(one.hash, entry);
        }
        drop(structure);
        self.restoring.begin(left);
        Ok(others)
    }

    /// Clears a segment's descriptor, durably.
    fn forget(&self, segment: usize) -> Result<(), Error> {
        self.segments.make_descriptor_writable(segment)?;
        if let Some(descriptor) = self.segments.descriptor(segment) {
            self.medium.store_first(descriptor, 0, Relaxed);
            self.medium.flush(descriptor, 1);
            self.medium.fence();
        }
        if segment < self.segments.len() {
            self.segments.make_stash_writable(segment)?;
            self.note_given_back(segment);
        }
        Ok(())
    }

    /// Learns which value buffers are in use, if the table has any and the file says it. Returns
    /// false if the file does not.
    fn find_buffers(&self, was_closed: bool) -> Result<bool, Error> {
        let Some(Duplicates { values, log: Some(log) }) = &self.duplicates else { return Ok(true) };
        values.find_segments()?;
        let saved = if was_closed { log.saved() } else { None };
        Ok(saved.is_some_and(|words| values.learn(&words)))
    }

    /// Repeats the changes in the log.
    fn repeat_log(&self) -> Result<(), Error> {
        let Some(log) = self.duplicates.as_ref().and_then(|d| d.log.as_ref()) else {
            return Ok(());
        };
        for record in log.records() {
            let located = |&(place, word): &Store| {
                let location = place.location().filter(|&location| self.is_there(location));
                let what = "the log names what is not there";
                location.map(|location| (location, word)).ok_or(FileError::corrupt(what))
            };
            let stores: Vec<_> = record.iter().map(located).collect::<Result<_, _>>()?;
            for &(location, _) in &stores {
                self.open_location(location)?;
            }
            if !seeded(Bug::LogNotRepeated) {
                self.store_words(&stores);
            }
        }
        log.empty()
    }

    fn is_there(&self, location: Location) -> bool {
        let per_segment = self.segments.per_segment;
        match location {
            Location::Bucket { bucket, .. } => bucket / per_segment < self.segments.len(),
            Location::Stash { bucket, .. } => bucket / STASH < self.segments.len(),
            Location::Chain { slot, .. } => slot < self.chains.slots().len(),
            Location::Value(word) => word < self.values().words(),
        }
    }

    fn open_location(&self, location: Location) -> Result<(), Error> {
        let per_segment = self.segments.per_segment;
        match location {
            Location::Bucket { bucket, .. } => {
                self.segments.make_writable(bucket / per_segment, bucket % per_segment)
            }
            Location::Stash { bucket, .. } => self.segments.make_stash_writable(bucket / STASH),
            Location::Chain { slot, .. } => {
                self.chains.slots().make_writable(slot as u32).map_err(|_| FileError::Full.into())
            }
            Location::Value(word) => self.values().open(word),
        }
    }

    /// Restores the chains. Returns the number of dropped pairs: pairs that are not valid, and, if
    /// keys are unique, pairs that are also in a segment.
    fn restore_chains(&self) -> usize {
        let slots = self.chains.slots();
        self.chains.restore_or_drop(|slot, (word, second)| {
            let tag = self.marking().tag(word);
            let hash = self.codec.hash_of_tag(tag, slots.half(slot));
            let is_pointer = self.marking().is_pointer(word);
            let is_sound = match &self.duplicates {
                None => {
                    // Compares the value too: another key may have the same tag.
                    let is_it = ByEntry(|other| other == second);
                    let is_there = || match P::WORDS_ARE_KEYS {
                        true => self.find_tag::<true, _>(hash, tag, &ByWord).is_some(),
                        false => self.find_tag::<true, _>(hash, tag, &is_it).is_some(),
                    };
                    self.codec.is_tag(tag) && !is_there() && self.is_found(second)
                }
                // A closed file may have said already that the buffer is in use.
                Some(of) => {
                    let (pointer, place) = (Pointer(second), slots.at(slot));
                    !is_pointer
                        || place.is_some_and(|place| of.values.claim(pointer, place))
                        || of.values.blocks(pointer).is_some()
                }
            };
            if !is_sound {
                return None;
            }
            let segment = self.locate(hash).entry.segment();
            let bucket = first_bucket(hash, self.mask());
            self.medium.while_nothing_moves(|| {
                self.segments.bucket(segment, bucket).set(&self.medium, Flag::Chained);
            });
            let pairs = self.pairs_of(is_pointer, second);
            self.registry.count::<Shared>(pairs as i64);
            self.restoring.add(pairs);
            Some(self.filed(Chained { hash, tag, value_word: second, is_pointer }))
        })
    }

    /// Allocates all pages that the segments in use may need, so that no insert is refused a page.
    pub(crate) fn populate(&self) -> Result<(), Error> {
        let log = self.duplicates.as_ref().and_then(|duplicates| duplicates.log.as_ref());
        let _pin = self.cut.enter();
        let mut result = log.map_or(Ok(()), Log::make_present);
        self.each_entry(|_, entry| {
            if result.is_ok() {
                result = self.segments.make_present(entry.segment());
            }
        });
        result
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
        let mut result = Ok(());
        self.each_entry(|_, entry| {
            let strategy = if entry.is_unrestored() { UNKNOWN } else { entry.strategy() as u64 };
            let first = strategy << STRATEGY_SHIFT | u64::from(entry.depth()) << DEPTH_SHIFT | LIVE;
            let Some(descriptor) = self.segments.descriptor(entry.segment()) else { return };
            if descriptor.load_first(Relaxed) == first || result.is_err() {
                return;
            }
            result = self.with_room(|| self.segments.make_descriptor_writable(entry.segment()));
            if let (Ok(()), Some(descriptor)) = (&result, self.segments.descriptor(entry.segment()))
            {
                self.medium.store_first(descriptor, first, Relaxed);
            }
        });
        result?;
        if let Some(Duplicates { values, log: Some(log) }) = &self.duplicates {
            let words = values.to_words();
            // If the words have no room, the next open looks for all buffers again.
            self.with_room(|| log.save(words.as_deref()))
                .or_else(|_| self.with_room(|| log.save(None)))?;
        }
        self.with_room(|| self.segments.make_record_writable())?;
        if let Some(record) = self.segments.record() {
            // Opening the table counts the chains.
            let chained = self.all_chained();
            let chained = chained.map(|one| self.pairs_of(one.is_pointer, one.value_word));
            let pairs = self.counted().saturating_sub(chained.sum());
            self.medium.store_first(record, pairs as u64, Relaxed);
        }
        Ok(())
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Restores all segments that were not restored since a crash.
    pub(super) fn restore_all(&self) {
        if self.unrestored() > 0 {
            let mut entries = Vec::new();
            self.each_entry(|hash, _| entries.push(hash));
            for hash in entries {
                self.locate(hash);
            }
        }
    }

    /// Restores the headers of a segment, unless another thread has.
    #[cold]
    pub(super) fn restore(&self, found: Found<'_>, hash: u64) {
        let structure = self.directories.change();
        if !self.directories.is_still(found) {
            return;
        }
        refuse_fork(&self.medium);
        let depth = found.entry.depth();
        let hash = hash >> (64 - depth) << (64 - depth);
        // In place, in any epoch: headers count only if the table was closed.
        let (pairs, strategy) =
            self.medium.while_nothing_moves(|| self.restore_headers(found.entry, hash));
        let number = found.entry.segment() as u32;
        let entry = Entry::new(number, 0, depth, strategy);
        self.registry.count::<Shared>(pairs as i64);
        self.restoring.add(pairs);
        structure.current().publish(hash, entry);
        drop(structure);
        self.end_one();
    }

    /// Restores segments until they hold `pairs` pairs more, or until every segment is restored.
    pub(crate) fn restore_some(&self, pairs: usize) {
        let enough = self.restoring.found().saturating_add(pairs);
        let mut next = Some(0_u64);
        while let Some(hash) = next
            && self.restoring.left() > 0
            && self.restoring.found() < enough
        {
            let entry = self.locate(hash).entry;
            next = hash.checked_add(1 << (64 - entry.depth()));
        }
    }

    /// Counts one restored item. After the last one the search for buffers or places ends.
    fn end_one(&self) {
        if !self.restoring.end_one() {
            return;
        }
        if let Some(duplicates) = &self.duplicates
            && !seeded(Bug::BuffersNotFound)
        {
            duplicates.values.end_search();
        }
        if let Some(finder) = &self.finder {
            finder.end();
        }
    }

    /// Tells the finder what a slot holds. Returns whether the slot may hold it.
    fn is_found(&self, second: u64) -> bool {
        let is_found = |finder: &Arc<dyn Finder>| seeded(Bug::BlobsNotFound) || finder.find(second);
        self.finder.as_ref().is_none_or(is_found)
    }

    /// Returns the number of pairs of a slot, in a bucket or in the chains.
    fn pairs_of(&self, is_pointer: bool, second: u64) -> usize {
        match &self.duplicates {
            Some(duplicates) if is_pointer => duplicates.values.count(Pointer(second), || true),
            _ => 1,
        }
    }

    /// Whether a bucket's pairs may be of this half of the hashes. Buckets of earlier builds do not say it, and an
    /// earlier page may be of a segment's earlier use.
    pub(super) fn may_be_of_half(&self, bucket: &L, half: usize) -> bool {
        let noted = bucket.header().half();
        noted.map_or_else(|| !self.medium.may_be_earlier(bucket), |noted| noted == half)
    }

    /// Builds the headers of a segment again. Returns the number of its pairs, and its strategy.
    fn restore_headers(&self, entry: Entry, prefix: u64) -> (usize, Strategy) {
        let (segment, mask, half) = (entry.segment(), self.mask(), (prefix >> 63) as usize);
        let per_segment = self.segments.per_segment;
        let mut flags = vec![0_u64; per_segment];
        let (mut pairs, mut strategy) = (0, self.config.strategies[0]);
        let mut fingerprints = vec![vec![0_u8; L::SLOTS]; per_segment + STASH];
        for (at, bucket) in self.segments.all(segment).enumerate() {
            if self.medium.is_forced() && P::WORDS_ARE_KEYS && !self.may_be_of_half(bucket, half) {
                continue;
            }
            for (slot, fingerprint_of_slot) in fingerprints[at].iter_mut().enumerate() {
                let (word, stored) = bucket.pair(slot, self.pairs_load_whole);
                let marking = self.marking();
                let tag = marking.tag(word);
                if word == 0 || !self.codec.is_tag(tag) {
                    continue;
                }
                let hash = self.codec.hash_of_tag(tag, half);
                let (first, second) = (first_bucket(hash, mask), second_bucket(hash, mask));
                let is_of_segment = (hash ^ prefix) >> (64 - entry.depth()) == 0;
                let needed = match at {
                    _ if !is_of_segment => continue,
                    at if at == first => Strategy::Single,
                    at if at == second => Strategy::TwoChoice,
                    at if at >= per_segment && !seeded(Bug::StashNotRestored) => Strategy::Stash,
                    // A damaged file may hold such a pair.
                    _ => continue,
                };
                flags[first] |= match needed {
                    Strategy::Single => 0,
                    Strategy::TwoChoice => Flag::Second as u64,
                    Strategy::Stash => Flag::Stashed as u64,
                };
                if let Some(duplicates) = &self.duplicates
                    && marking.is_pointer(word)
                    && !duplicates.values.claim(Pointer(stored), bucket)
                {
                    continue;
                }
                if self.duplicates.is_none() && !self.is_found(stored) {
                    continue;
                }
                strategy = strategy.max(needed);
                *fingerprint_of_slot = fingerprint(hash);
                pairs += self.pairs_of(marking.is_pointer(word), stored);
            }
        }
        flags.resize(per_segment + STASH, 0);
        flags[per_segment] = HALVES[half] as u64;
        let headers = fingerprints.into_iter().zip(flags);
        let restore = |(bucket, (fingerprints, flags)): (&L, (Vec<u8>, u64))| {
            let has_pairs = fingerprints.iter().any(|&fingerprint| fingerprint != 0);
            let mark = if has_pairs { mark_of_half(half) } else { 0 };
            bucket.restore(&self.medium, &fingerprints, flags | mark);
        };
        self.segments.all(segment).zip(headers).for_each(restore);
        // The first strategy of the table that contains the needed one.
        let strategies = &self.config.strategies;
        let used = strategies.iter().copied().find(|&used| used >= strategy);
        (pairs, used.unwrap_or(self.last_strategy()))
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::table::pea::tests::in_pages;

    /// The log of a damaged file may name anything.
    #[test]
    fn what_is_behind_the_end_is_not_there() {
        let table = in_pages(Config { buckets: 32, duplicates: true, ..Config::default() });
        (0..40).for_each(|value| table.insert_value(7, value).unwrap());
        let bucket = |bucket| Location::Bucket { bucket, slot: 0, word: 0 };
        let stash = |bucket| Location::Stash { bucket, slot: 0, word: 0 };
        let chain = |slot| Location::Chain { slot, word: 0 };
        let segments = table.segments.len();
        let ends = [
            bucket(32 * segments),
            stash(STASH * segments),
            chain(table.chains.slots().len()),
            Location::Value(table.values().words()),
        ];
        assert!(ends.iter().all(|&end| !table.is_there(end)), "{ends:?}");
        let lasts = [
            bucket(32 * segments - 1),
            stash(STASH * segments - 1),
            Location::Value(table.values().words() - 1),
        ];
        assert!(lasts.iter().all(|&last| table.is_there(last)), "{lasts:?}");
    }
}
