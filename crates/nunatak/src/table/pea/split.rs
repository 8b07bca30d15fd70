//! When a segment's strategy has no more room: the next strategy, or a split (section 3.2). Also
//! merges, which the paper does not have.

use super::Table;
use super::directory::Found;
use super::geometry::{Entry, MOST_DEPTH, Strategy, first_bucket, second_bucket};
use super::multi::values::Pointer;
use super::segments::{Fresh, STASH};
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::memory::prefetch::prefetch_to_write;
use crate::seeded::{Bug, seeded};
use crate::sync::Ordering::Relaxed;
use crate::sync::{Backoff, MutexGuard, operations_ended, retire_tag};
use crate::table::shared::bucket::{Bucket, Flag, Header, Item, Layout};
use crate::table::shared::full_disk::shrink_if_room;
use crate::table::shared::rehashed::{Rehashed, Unhashed};
use crate::table::stages::{Figures, Resizing};
use core::any::Any;
use std::time::Instant;

/// The most entries of a directory, as a multiple of the segments that its pairs need. Beyond this,
/// pairs without room go to chains: otherwise hashes that agree in many bits could make the
/// directory as large as memory.
pub(super) const SPARSE: usize = 64;

impl<P: HashCodec, M: Medium, L: Layout> Resizing for Table<P, M, L> {
    /// Splits segments until there is room for `additional` more pairs.
    fn reserve(&self, additional: usize) -> Result<(), Error> {
        let all = self.len().checked_add(additional).ok_or(Error::CapacityOverflow)?;
        let wanted = self.config.segments_for(all, L::SLOTS, M::IS_DURABLE).max(1.0);
        if wanted > (1_u64 << MOST_DEPTH) as f64 {
            return Err(Error::CapacityOverflow);
        }
        let depth = (wanted as u64).next_power_of_two().ilog2();
        self.segments.check_depth(depth)?;
        let (mut hash, mut hashes) = (0_u64, Rehashed::default());
        loop {
            // Announced, so that the segment is not reused before it is locked.
            let pin = self.cut.enter();
            let found = self.locate(hash);
            let entry = found.entry;
            if entry.depth() < depth {
                match self.split(found, hash, &mut hashes)? {
                    Ok(()) => hashes = Rehashed::default(),
                    Err(Unhashed) => {
                        drop(pin);
                        hashes.learn(&self.codec);
                    }
                }
                continue;
            }
            let Some(next) = hash.checked_add(1 << (64 - entry.depth())) else { return Ok(()) };
            hash = next;
        }
    }

    /// Merges neighbours that fit one segment by single hashing, and makes the directory as shallow
    /// as the segments allow.
    fn shrink_to_fit(&self) -> Result<(), Error> {
        let held = &mut Some(self.exclusive.lock());
        let mut hash = 0_u64;
        loop {
            let depth = self.locate(hash).entry.depth();
            let width = 1_u64 << (64 - depth);
            let mut merge = || shrink_if_room::<M, _>(|| self.sync(), || self.merge(hash, held));
            if depth > self.least_depth && hash & width == 0 && merge()? {
                // The merged segment may fit its other neighbour.
                let depth = depth - 1;
                hash &= !(1_u64 << (64 - depth));
                continue;
            }
            let Some(next) = hash.checked_add(width) else { break };
            hash = next;
        }
        let mut structure = self.directories.change();
        let mut deepest = self.least_depth;
        self.each_segment(|_, entry| deepest = deepest.max(entry.depth()));
        structure.set_depth(deepest)?;
        drop(structure);
        shrink_if_room::<M, _>(|| self.sync(), || self.compact(held))?;
        self.release_pages()
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    pub(super) fn last_strategy(&self) -> Strategy {
        self.config.strategies[self.config.strategies.len() - 1]
    }

    /// Returns whether splitting the segment of a hash is not worth a deeper directory.
    pub(super) fn is_degenerate(&self, hash: u64) -> bool {
        let depth = self.locate(hash).entry.depth() + self.config.split_into.ilog2();
        let quarter = self.segments.per_segment * L::SLOTS / 4;
        // An unrestored segment has an unknown number of pairs, so it counts as one needed segment.
        let needed = self.counted() / quarter + self.unrestored() + 1;
        depth > MOST_DEPTH || 1_usize << depth > SPARSE * needed.next_power_of_two()
    }

    /// Gives the segment of a hash the next strategy or splits it, unless another thread has.
    /// Returns an error if memory is refused. The caller holds no lock, and
    /// [learns](Rehashed::learn) missing hashes afterwards.
    #[cold]
    pub(super) fn make_room(
        &self,
        found: Found<'_>,
        hash: u64,
        hashes: &mut Rehashed,
    ) -> Result<(), Error> {
        let strategies = &self.config.strategies;
        let entry = found.entry;
        let at = strategies.iter().position(|&strategy| strategy == entry.strategy());
        match at.and_then(|at| strategies.get(at + 1)) {
            Some(&next) => {
                let structure = self.directories.change();
                if self.directories.is_still(found) {
                    structure.current().publish(hash, entry.with(next));
                }
                Ok(())
            }
            None if self.config.room.is_fixed() => Err(Error::Full),
            // If hashes are missing, the caller learns them and tries again.
            None => self.split(found, hash, hashes).map(|_| ()),
        }
    }

    fn tags(&self, segment: usize) -> impl Iterator<Item = u64> {
        let items = move |bucket: &L| bucket.items(self.marking()).collect::<Vec<_>>();
        self.segments.all(segment).flat_map(items).map(|item| item.tag)
    }

    fn split(
        &self,
        found: Found<'_>,
        hash: u64,
        hashes: &mut Rehashed,
    ) -> Result<Result<(), Unhashed>, Error> {
        let (segment, begin) = (found.entry.segment(), Instant::now());
        let part = (hash, found.entry.depth());
        if P::runs_callers_code() {
            // Before the lock, so that only tags stored in between lack a hash under the lock.
            let tags: Vec<u64> = self.tags(segment).collect();
            if self.directories.is_still(found) && !hashes.has_all::<P>(part, tags.into_iter()) {
                return Ok(Err(Unhashed));
            }
        }
        // Before the lock, since getting memory takes as long as moving the pairs.
        let children = self.take_children(self.config.split_into)?;
        let ready = self.segments.make_replaceable(segment);
        ready.inspect_err(|_| self.drop_children(&children))?;
        self.segments.lock(segment);
        let split = if !self.directories.is_still(found) {
            self.drop_children(&children);
            Ok(Ok(()))
        } else if !hashes.has_all::<P>(part, self.tags(segment)) {
            self.drop_children(&children);
            Ok(Err(Unhashed))
        } else {
            let moved = self.taken(segment);
            let split = self.split_locked(found.entry, hash, children, hashes);
            split.inspect(|()| self.splits.splits.count(moved, begin)).map(Ok)
        };
        self.segments.unlock(segment);
        split
    }

    /// Returns how many slots of a locked segment are taken.
    fn taken(&self, segment: usize) -> usize {
        let taken = |bucket: &L| L::SLOTS - bucket.header().free_slots() as usize;
        self.segments.all(segment).map(taken).sum()
    }

    /// Allocates `count` empty segments, or none.
    fn take_children(&self, count: usize) -> Result<Vec<Child>, Error> {
        // Asks first, so that a full disk costs nothing.
        self.medium.has_room(count * self.segments.bytes())?;
        let mut children = Vec::with_capacity(count);
        for _ in 0..count {
            let taken = self.segments.allocate().and_then(|fresh| {
                children.push(Child::new(fresh, self.config.strategies[0]));
                self.segments.populate(fresh)
            });
            taken.inspect_err(|_| self.drop_children(&children))?;
        }
        Ok(children)
    }

    /// Gives back segments that were never published.
    fn drop_children(&self, children: &[Child]) {
        self.segments.give_back(children.iter().map(|child| child.fresh.number as usize));
    }

    fn split_locked(
        &self,
        entry: Entry,
        hash: u64,
        mut children: Vec<Child>,
        hashes: &Rehashed,
    ) -> Result<(), Error> {
        let (segment, depth) = (entry.segment(), entry.depth());
        let by = self.config.split_into.ilog2();
        let prefix = hash >> (64 - depth) << (64 - depth);
        let half = (hash >> 63) as usize;
        let child_of = |hash| (hash >> (64 - depth - by)) as usize & ((1 << by) - 1);
        let number = self.cut.number();
        self.copy_locked(entry, hash, number);
        let made = self.fill(&mut children, entry, (half, hashes), child_of)?;
        let is_crowded = children.iter().any(|child| child.strategy > self.config.strategies[0]);
        let hash_of = |number: usize| prefix | (number as u64) << (64 - depth - by);
        let children: Vec<_> =
            children.into_iter().enumerate().map(|(at, child)| (hash_of(at), child)).collect();
        let published = self.publish(depth + by, children, &[segment]);
        published.inspect_err(|_| self.free_buffers(&made))?;
        self.splits.crowded.fetch_add(usize::from(is_crowded), Relaxed);
        Ok(())
    }

    /// Publishes the filled child segments in the directory, replacing their locked parents. Each
    /// child comes with its lowest hash. If this fails, nothing has changed.
    fn publish(
        &self,
        depth: u32,
        children: Vec<(u64, Child)>,
        parents: &[usize],
    ) -> Result<(), Error> {
        let number = self.cut.number();
        for (hash, child) in &children {
            self.note_half(child.fresh.number as usize, *hash);
            // A cut that has a copy of the parents has a copy of the children.
            self.segments.set_copied(child.fresh.number as usize, number);
            self.segments.flush(child.fresh.number as usize);
        }
        let mut structure = self.directories.change();
        let deep = structure.current().depth.max(depth);
        let published = structure.set_depth(deep);
        if published.is_err() {
            drop(structure);
            let numbers = children.iter().map(|(_, child)| child.fresh.number as usize);
            numbers.clone().for_each(|number| self.note_given_back(number));
            self.segments.give_back(numbers);
            return published;
        }
        self.commit(depth, &children, parents);
        for (hash, child) in children {
            structure.current().publish(hash, child.fresh.entry(depth, child.strategy));
        }
        drop(structure);
        self.segments.give_back(parents.iter().copied());
        Ok(())
    }

    /// Stores all pairs of a locked segment in new segments that no other thread knows. Returns the
    /// value buffers that were made.
    fn fill(
        &self,
        children: &mut [Child],
        entry: Entry,
        hashes: (usize, &Rehashed),
        child_of: impl Fn(u64) -> usize + Copy,
    ) -> Result<Vec<Pointer>, Error> {
        let mut made = Vec::new();
        if !self.move_to(children, entry.segment(), hashes, child_of, &mut made) {
            self.free_buffers(&made);
            made.clear();
            self.move_as_it_is(children, entry, hashes, child_of)?;
        }
        Ok(made)
    }

    /// Stores all pairs of a locked segment in new segments, by the simplest strategies. Returns
    /// false if a pair finds no room, which is possible only because the pairs were inserted in
    /// another order. Appends the value buffers that were made.
    #[must_use]
    fn move_to(
        &self,
        children: &mut [Child],
        segment: usize,
        (half, hashes): (usize, &Rehashed),
        child_of: impl Fn(u64) -> usize,
        made: &mut Vec<Pointer>,
    ) -> bool {
        // Stores the items of one bucket while the places of the next bucket's items are fetched.
        let (mut waiting, mut next) = (Vec::with_capacity(L::SLOTS), Vec::with_capacity(L::SLOTS));
        let mut is_stored = true;
        for bucket in self.segments.all(segment) {
            for mut item in bucket.items(self.marking()) {
                item.is_pointer &= !seeded(Bug::PointersMovedAsValues);
                let hash = hashes.hash(&self.codec, item.tag, half);
                let child = child_of(hash);
                let number = children[child].fresh.number as usize;
                prefetch_to_write(self.segments.address(number, first_bucket(hash, self.mask())));
                next.push((child, hash, item));
            }
            for (child, hash, item) in waiting.drain(..) {
                is_stored &= self.store_in(&mut children[child], hash, item, made);
            }
            core::mem::swap(&mut waiting, &mut next);
        }
        for (child, hash, item) in waiting {
            is_stored &= self.store_in(&mut children[child], hash, item, made);
        }
        // Pairs in chains stay there.
        for bucket in 0..self.segments.per_segment {
            let flags = self.segments.bucket(segment, bucket).flags() & Flag::Chained as u64;
            if flags != 0 && !seeded(Bug::ChainedNotInherited) {
                for child in children.iter() {
                    let number = child.fresh.number as usize;
                    self.segments.bucket(number, bucket).add_flags(&self.medium, flags);
                }
            }
        }
        is_stored
    }

    /// Stores all pairs of a locked segment in new segments, each in its former bucket, which
    /// always has room.
    fn move_as_it_is(
        &self,
        children: &mut [Child],
        entry: Entry,
        (half, hashes): (usize, &Rehashed),
        child_of: impl Fn(u64) -> usize,
    ) -> Result<(), Error> {
        for child in children.iter() {
            let emptied = self.segments.empty(child.fresh.number as usize);
            // Emptying may have moved its pages.
            let ready = emptied.and_then(|()| self.segments.populate(child.fresh));
            ready.inspect_err(|_| self.drop_children(children))?;
        }
        for (at, bucket) in self.segments.all(entry.segment()).enumerate() {
            for child in children.iter_mut() {
                child.strategy = entry.strategy();
                let number = child.fresh.number as usize;
                self.segments.any(number, at).add_flags(&self.medium, bucket.flags());
            }
            for item in bucket.items(self.marking()) {
                let hash = hashes.hash(&self.codec, item.tag, half);
                let number = children[child_of(hash)].fresh.number as usize;
                let bucket = self.segments.any(number, at);
                bucket.note_half(&self.medium, hash);
                let added = bucket.add(&self.medium, self.marking(), item);
                debug_assert!(added.is_some());
            }
        }
        Ok(())
    }

    /// Gives back value buffers whose pointers were never published.
    fn free_buffers(&self, made: &[Pointer]) {
        if let Some(duplicates) = &self.duplicates {
            made.iter().for_each(|&pointer| duplicates.values.free(pointer));
        }
    }

    /// Stores a pair in a segment that no other thread knows, by the simplest strategy with room.
    /// Returns whether there was room.
    #[must_use]
    fn store_in(&self, child: &mut Child, hash: u64, item: Item, made: &mut Vec<Pointer>) -> bool {
        let (segment, mask) = (child.fresh.number as usize, self.mask());
        let first = self.segments.bucket(segment, first_bucket(hash, mask));
        let second = self.segments.bucket(segment, second_bucket(hash, mask));
        let mut put = |bucket: &L| {
            bucket.note_half(&self.medium, hash);
            let add = || bucket.add(&self.medium, self.marking(), item).is_some();
            // Only buckets with entries of 16 bytes hold pointers to the values of a key.
            let wide = (bucket as &dyn Any).downcast_ref::<Bucket>();
            add() || wide.is_some_and(|wide| self.compact_new(wide, made)) && add()
        };
        if child.strategy > Strategy::Single
            && second.header().free_slots() > first.header().free_slots()
            && put(second)
        {
            first.set(&self.medium, Flag::Second);
            return true;
        }
        if put(first) {
            return true;
        }
        while let Some(&next) =
            self.config.strategies.iter().find(|&&strategy| strategy > child.strategy)
        {
            child.strategy = next;
            if put(second) {
                first.set(&self.medium, Flag::Second);
                return true;
            }
        }
        if child.strategy == Strategy::Stash && self.segments.stash(segment).into_iter().any(put) {
            first.set(&self.medium, Flag::Stashed);
            return true;
        }
        false
    }

    /// Learns hashes from the caller's hasher. Releases the lock that keeps snapshots out
    /// meanwhile, since the hasher may take a snapshot.
    fn ask_exclusively<'t>(&'t self, held: &mut Option<MutexGuard<'t, ()>>, hashes: &mut Rehashed) {
        *held = None;
        hashes.learn(&self.codec);
        *held = Some(self.exclusive.lock());
    }

    /// Moves segments to the lowest numbers, and returns the memory of the others.
    fn compact<'t>(&'t self, held: &mut Option<MutexGuard<'t, ()>>) -> Result<(), Error> {
        loop {
            // Segments that were given back are free once no operation knows them.
            let tag = retire_tag();
            let mut backoff = Backoff::new();
            while !operations_ended(tag, false) {
                backoff.wait();
            }
            self.segments.trim();
            if let Some(duplicates) = &self.duplicates {
                duplicates.values.trim();
            }
            let mut segments = Vec::new();
            self.each_segment(|hash, entry| segments.push((hash, entry)));
            let live = segments.len();
            segments.retain(|(_, entry)| entry.segment() >= live);
            let mut is_any_moved = false;
            for (hash, entry) in segments {
                is_any_moved |= self.move_down(hash, entry, held)?;
            }
            if !is_any_moved {
                return Ok(());
            }
        }
    }

    /// Moves a segment to a lower number, if one is free. Returns whether it did.
    fn move_down<'t>(
        &'t self,
        hash: u64,
        entry: Entry,
        held: &mut Option<MutexGuard<'t, ()>>,
    ) -> Result<bool, Error> {
        let mut hashes = Rehashed::default();
        loop {
            if let Ok(moved) = self.try_move_down(hash, entry, &mut hashes)? {
                return Ok(moved);
            }
            self.ask_exclusively(held, &mut hashes);
        }
    }

    fn try_move_down(
        &self,
        hash: u64,
        entry: Entry,
        hashes: &mut Rehashed,
    ) -> Result<Result<bool, Unhashed>, Error> {
        let _pin = self.cut.enter();
        let found = self.locate(hash);
        let segment = entry.segment();
        if found.entry != entry {
            return Ok(Ok(false));
        }
        let children = self.take_children(1)?;
        let is_lower = (children[0].fresh.number as usize) < segment;
        let ready = self.segments.make_replaceable(segment);
        self.segments.lock(segment);
        let moved = if !(is_lower && ready.is_ok() && self.directories.is_still(found)) {
            self.drop_children(&children);
            ready.map(|()| Ok(false))
        } else if !hashes.has_all::<P>((hash, entry.depth()), self.tags(segment)) {
            self.drop_children(&children);
            Ok(Err(Unhashed))
        } else {
            self.move_locked(children, entry, hash, hashes).map(|()| Ok(true))
        };
        self.segments.unlock(segment);
        moved
    }

    /// Moves all pairs of a locked segment to a new segment.
    fn move_locked(
        &self,
        mut children: Vec<Child>,
        entry: Entry,
        hash: u64,
        hashes: &Rehashed,
    ) -> Result<(), Error> {
        let made = self.fill(&mut children, entry, ((hash >> 63) as usize, hashes), |_| 0)?;
        let children = children.into_iter().map(|child| (hash, child)).collect();
        let published = self.publish(entry.depth(), children, &[entry.segment()]);
        published.inspect_err(|_| self.free_buffers(&made))
    }

    /// Merges a segment with the next one, if both have the same depth and few pairs. Returns
    /// whether it did.
    fn merge<'t>(
        &'t self,
        hash: u64,
        held: &mut Option<MutexGuard<'t, ()>>,
    ) -> Result<bool, Error> {
        let mut hashes = Rehashed::default();
        loop {
            if let Ok(merged) = self.try_merge(hash, &mut hashes)? {
                return Ok(merged);
            }
            self.ask_exclusively(held, &mut hashes);
        }
    }

    fn try_merge(&self, hash: u64, hashes: &mut Rehashed) -> Result<Result<bool, Unhashed>, Error> {
        let _pin = self.cut.enter();
        let low = self.locate(hash);
        let depth = low.entry.depth();
        if depth <= self.least_depth || hash & 1 << (64 - depth) != 0 {
            return Ok(Ok(false));
        }
        let high = self.locate(hash | 1 << (64 - depth));
        if high.entry.depth() != depth {
            return Ok(Ok(false));
        }
        let mut pair = [low.entry.segment(), high.entry.segment()];
        pair.sort_unstable();
        pair.iter().for_each(|&segment| self.segments.lock(segment));
        let is_still = self.directories.is_still(low) && self.directories.is_still(high);
        let count = |&segment: &usize| {
            let free = self.segments.all(segment).map(|bucket| bucket.header().free_slots());
            (self.segments.per_segment + STASH) * L::SLOTS - free.sum::<u32>() as usize
        };
        // If they don't fit after all, nothing is changed.
        let most = self.segments.per_segment * L::SLOTS;
        let both_tags = pair.into_iter().flat_map(|segment| self.tags(segment));
        let merged = if !is_still || pair.iter().map(count).sum::<usize>() > most {
            Ok(Ok(false))
        } else if !hashes.has_all::<P>((hash, depth - 1), both_tags) {
            Ok(Err(Unhashed))
        } else {
            self.merge_locked(pair, depth, hash, hashes).map(Ok)
        };
        pair.iter().for_each(|&segment| self.segments.unlock(segment));
        merged
    }

    fn merge_locked(
        &self,
        pair: [usize; 2],
        depth: u32,
        hash: u64,
        hashes: &Rehashed,
    ) -> Result<bool, Error> {
        let mut children = self.take_children(1)?;
        for segment in pair {
            let ready = self.segments.make_replaceable(segment);
            ready.inspect_err(|_| self.drop_children(&children))?;
        }
        let (mut made, hashes) = (Vec::new(), ((hash >> 63) as usize, hashes));
        let is_stored =
            pair.iter().all(|&from| self.move_to(&mut children, from, hashes, |_| 0, &mut made));
        if !is_stored {
            self.free_buffers(&made);
            self.drop_children(&children);
            return Ok(false);
        }
        let children = children.into_iter().map(|child| (hash, child)).collect();
        let published = self.publish(depth - 1, children, &pair);
        published.inspect_err(|_| self.free_buffers(&made))?;
        self.splits.merges.fetch_add(1, Relaxed);
        Ok(true)
    }
}

/// A segment that is being filled.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) fresh: Fresh,
    strategy: Strategy,
}

impl Child {
    fn new(fresh: Fresh, strategy: Strategy) -> Self {
        Self { fresh, strategy }
    }
}
