//! Changes: one function inserts, replaces and removes.

use super::Table;
use super::find::PASSED;
use super::geometry::fingerprint;
use super::shards::{Counts, ShardGuard};
use crate::error::{Error, FileError};
use crate::hash::HashCodec;
use crate::memory::prefetch::prefetch_bucket_to_write;
use crate::memory::{BuddyExtent, Medium};
use crate::seeded::{Bug, seeded};
use crate::sync::{FastPin, Shared};
use crate::table::shared::attempts::{Obstacle, Request};
use crate::table::shared::bucket::{Flag, Header, Layout, clear_slot, put_into_slot};
use crate::table::shared::full_disk::refuse;
use crate::table::shared::memoised_key_test::{KeyTestAnswers, Learning, NO_ANSWERS};
use crate::table::shared::rehashed::Rehashed;
use crate::table::stages::Changes;
use crate::table::{Change, KeyTest};

/// The result of an attempt under the lock of a key's shard.
enum Attempt {
    /// The value word from before, and the change of the number of pairs.
    Done(Option<u64>, i64),
    /// This value word has the key's tag. Whether the key is the same is not known yet.
    Unknown(u64),
    /// There is no room for a copy of a page.
    NoRoom,
    /// Only a chain has room, and its slots are for other operations.
    Refused,
    /// The shard must be rehashed, which needs hashes from the caller's hasher.
    Unhashed,
}

#[derive(Clone, Copy)]
enum Place {
    /// The bucket, and the slot in it.
    Slot(usize, usize),
    Chain,
}

/// The result of a search under the lock.
enum Searched {
    /// The place of the key, and its value word.
    Found(Place, u64),
    /// The key is absent. `end` is the distance from its first bucket to the bucket that ends the
    /// search. `free` is the first free slot on the way: the bucket's number, and the slot in it.
    Absent { end: usize, free: Option<(usize, usize)> },
    /// A value word with the key's tag. Whether the key is the same is not known yet.
    Unknown(u64),
}

impl<P: HashCodec, M: Medium, L: Layout> Changes for Table<P, M, L> {
    /// Changes a key by its value word, or inserts it; see
    /// [`PairTable::apply`](crate::table::PairTable::apply).
    #[inline(always)]
    fn apply<T: KeyTest>(
        &self,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64> {
        self.apply_hashed::<true, _>(self.codec.hash_and_tag(word), test, fresh, change)
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Applies a change to a key whose hash and tag are known. Fetches its bucket if `FETCHES`; otherwise it
    /// is on its way.
    #[inline(always)]
    pub(super) fn apply_hashed<const FETCHES: bool, T: KeyTest>(
        &self,
        (hash, tag): (u64, u64),
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64> {
        let request = Request { hash, tag, test, fresh, change: &change };
        if !T::BY_WORD {
            return self.run::<FETCHES, _, _>(&request);
        }
        match self.run_once::<FETCHES, _, _>(&request) {
            Some(before) => before,
            // A copy, here and below: a value whose address is known elsewhere is kept in memory all the time.
            None => self.run_again::<FETCHES, _, _>(&{ request }),
        }
    }

    /// Makes one attempt, which is enough for nearly all operations. A function of its own, as in
    /// Pea Hash.
    #[inline(always)]
    fn run_once<const FETCHES: bool, T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        request: &Request<'_, T, F>,
    ) -> Option<Option<u64>> {
        // Not `OpPin`, which has to remember what it found.
        let pin = FastPin::<false>::new()?;
        if self.cut.is_frozen() && !seeded(Bug::FrozenIgnored) {
            return None;
        }
        let (mut held, home) = self.hold_at_once::<FETCHES>(request.hash)?;
        self.copy_before_change(&held, request.hash);
        let mut hashes = Rehashed::default();
        match self.attempt::<FETCHES, _, _>((&mut held, home), request, &NO_ANSWERS, &mut hashes) {
            Ok(Attempt::Done(before, added)) => {
                self.end(held, pin, request.hash, added);
                Some(before)
            }
            _ => None,
        }
    }

    /// Locks the shard of a hash if it has buckets and no other thread holds the lock, and fetches its bucket meanwhile if
    /// `FETCHES`. Also returns the number of this bucket.
    #[inline(always)]
    fn hold_at_once<const FETCHES: bool>(&self, hash: u64) -> Option<(ShardGuard<'_>, usize)> {
        // Loom remembers only the last access to a word: a load before the locking would hide the loads of other threads
        // from it.
        if cfg!(loom) {
            return Some(self.hold_at_home(hash));
        }
        let shard = self.shards.of(hash);
        let descriptor = shard.descriptor();
        let home = self.shards.place(descriptor.extent()?, hash, 0);
        if FETCHES {
            // Before the lock, since no load runs ahead of it.
            prefetch_bucket_to_write(self.shards.address(home));
        }
        // A shard that still has this descriptor has the bucket still.
        let is_held = match seeded(Bug::LockedWithAnyDescriptor) {
            true => shard.try_lock().is_some(),
            false => shard.try_lock_with(descriptor),
        };
        is_held.then(|| (ShardGuard { shard, descriptor: descriptor.unlocked() }, home))
    }

    /// Locks the shard of a hash. Also returns the number of the bucket of the hash, if the shard has
    /// any.
    #[inline(always)]
    fn hold_at_home(&self, hash: u64) -> (ShardGuard<'_>, usize) {
        let held = self.hold(hash);
        let extent = held.descriptor.extent();
        let home = extent.map_or(0, |extent| self.shards.place(extent, hash, 0));
        (held, home)
    }

    /// Ends a change that `pin` announces: counts added or removed pairs, and unlocks the shard.
    #[inline(always)]
    fn end<Pin>(&self, mut held: ShardGuard<'_>, pin: Pin, hash: u64, added: i64) {
        if added != 0 {
            self.registry.count::<Shared>(added);
        }
        if added >= 0 || !self.has_garbage(&held) {
            return;
        }
        if !P::runs_callers_code() {
            return self.collect_garbage(&mut held, hash, &Rehashed::default());
        }
        drop(held);
        drop(pin);
        self.collect_asking(hash);
    }

    /// Collects the garbage of a shard, which needs the caller's hasher. The operation has taken
    /// effect already. If the hasher panics now, the garbage stays and the caller does not see the
    /// panic.
    #[cold]
    fn collect_asking(&self, hash: u64) {
        let collect = || {
            self.change_hashed(self.shards.number(hash), None, |held, hash, hashes| {
                self.collect_garbage(held, hash, hashes);
            });
        };
        let _ = std::panic::catch_unwind(core::panic::AssertUnwindSafe(collect));
    }

    /// Tries again after a failed attempt.
    #[cold]
    #[inline(never)]
    fn run_again<const FETCHES: bool, T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        request: &Request<'_, T, F>,
    ) -> Option<u64> {
        self.run::<FETCHES, _, _>(request)
    }

    fn run<const FETCHES: bool, T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        request: &Request<'_, T, F>,
    ) -> Option<u64> {
        let &Request { hash, tag, .. } = request;
        let mut hashes = Rehashed::default();
        let look_up = |test: &Learning<'_, T>| {
            self.find_tag::<FETCHES, _>(hash, tag, test);
        };
        request.repeat(look_up, |known| {
            let pin = self.cut.try_enter().ok_or(Obstacle::Wait)?;
            // Not under loom, as in `hold_at_once`.
            if FETCHES && !cfg!(loom) {
                self.prefetch_home(hash);
            }
            let (mut held, home) = self.hold_at_home(hash);
            self.copy_before_change(&held, hash);
            let attempt =
                self.attempt::<FETCHES, _, _>((&mut held, home), request, known, &mut hashes);
            match attempt.unwrap_or(Attempt::NoRoom) {
                Attempt::Done(before, added) => {
                    self.end(held, pin, hash, added);
                    return Ok(before);
                }
                Attempt::Unknown(second) => return Err(Obstacle::Unknown(second)),
                Attempt::Refused => {
                    refuse();
                    return Ok(None);
                }
                Attempt::NoRoom => {
                    drop(held);
                    drop(pin);
                    self.make_room_for_copies();
                }
                Attempt::Unhashed => {
                    drop(held);
                    drop(pin);
                    hashes.learn(&self.codec);
                }
            }
            Err(Obstacle::Gone)
        })
    }

    #[inline(always)]
    fn attempt<const FETCHES: bool, T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        (held, home): (&mut ShardGuard<'_>, usize),
        request: &Request<'_, T, F>,
        known: &KeyTestAnswers,
        hashes: &mut Rehashed,
    ) -> Result<Attempt, Error> {
        let hash = request.hash;
        let extent = held.descriptor.extent();
        let searched = match extent {
            Some(extent) => self.search((extent, home), request, known),
            None => {
                self.search_chain(request, known).unwrap_or(Searched::Absent { end: 0, free: None })
            }
        };
        Ok(match searched {
            Searched::Unknown(second) => Attempt::Unknown(second),
            Searched::Found(place, second) => match (request.change)(second) {
                Change::Keep => Attempt::Done(Some(second), 0),
                Change::To(new) => {
                    self.replace(request, (place, second), new)?;
                    Attempt::Done(Some(second), 0)
                }
                Change::Remove => {
                    self.remove::<FETCHES, _, _>(held, request, (place, second))?;
                    Attempt::Done(Some(second), -1)
                }
            },
            Searched::Absent { end, free } => match request.fresh {
                None => Attempt::Done(None, 0),
                Some(second) => {
                    let pair = (request.tag, second);
                    let is_stored = match extent {
                        Some(extent) => {
                            self.insert::<FETCHES>(held, extent, (hash, end, free), pair)?
                        }
                        None => false,
                    };
                    if !is_stored {
                        if !self.is_hashed(held, hash, hashes) {
                            return Ok(Attempt::Unhashed);
                        }
                        if !self.insert_in_larger(held, hash, pair, hashes)? {
                            return Ok(Attempt::Refused);
                        }
                    }
                    Attempt::Done(None, 1)
                }
            },
        })
    }

    /// Searches an extent for a key and for a free slot. This part looks at the first bucket, where
    /// nearly all keys are.
    #[inline(always)]
    fn search<T: KeyTest, F>(
        &self,
        (extent, at): (BuddyExtent, usize),
        request: &Request<'_, T, F>,
        known: &KeyTestAnswers,
    ) -> Searched {
        let bucket = self.shards.bucket(at);
        let header = bucket.header();
        match self.slot_of((bucket, header), request, known) {
            Err(unknown) => return Searched::Unknown(unknown),
            Ok(Some((slot, second))) => return Searched::Found(Place::Slot(at, slot), second),
            Ok(None) => {}
        }
        let free = header.matching(0).next().map(|slot| (at, slot));
        if header.has(PASSED) || header.has(Flag::Chained) {
            return self.search_behind(extent, (header, free), &{ *request }, known);
        }
        Searched::Absent { end: 0, free }
    }

    /// Searches behind the first bucket, which does not hold the key. Gets the first bucket's
    /// header and free slot.
    #[inline(never)]
    fn search_behind<T: KeyTest, F>(
        &self,
        extent: BuddyExtent,
        (mut header, mut free): (L::Header, Option<(usize, usize)>),
        request: &Request<'_, T, F>,
        known: &KeyTestAnswers,
    ) -> Searched {
        let is_chained = header.has(Flag::Chained);
        let mut end = 0;
        while header.has(PASSED) && end + 1 < self.scope(extent) {
            end += 1;
            let at = self.shards.place(extent, request.hash, end);
            let bucket = self.shards.bucket(at);
            header = bucket.header();
            match self.slot_of((bucket, header), request, known) {
                Err(unknown) => return Searched::Unknown(unknown),
                Ok(Some((slot, second))) => return Searched::Found(Place::Slot(at, slot), second),
                Ok(None) => {}
            }
            free = free.or_else(|| header.matching(0).next().map(|slot| (at, slot)));
        }
        if is_chained && let Some(searched) = self.search_chain(request, known) {
            return searched;
        }
        Searched::Absent { end, free }
    }

    /// Returns the slot and the value word of a key in a bucket; as an error, a value word that may
    /// be the key's.
    #[inline(always)]
    fn slot_of<T: KeyTest, F>(
        &self,
        (bucket, header): (&L, L::Header),
        request: &Request<'_, T, F>,
        known: &KeyTestAnswers,
    ) -> Result<Option<(usize, u64)>, u64> {
        let pair = |slot| self.shards.held_pair(bucket, slot);
        known.slot_of::<T>(request.tag, header.matching(fingerprint(request.hash)), pair)
    }

    #[cold]
    fn search_chain<T: KeyTest, F>(
        &self,
        request: &Request<'_, T, F>,
        known: &KeyTestAnswers,
    ) -> Option<Searched> {
        self.chains.of(request.hash, request.tag).into_iter().find_map(|second| {
            match known.is::<T>(second) {
                Some(true) => Some(Searched::Found(Place::Chain, second)),
                Some(false) => None,
                None => Some(Searched::Unknown(second)),
            }
        })
    }

    /// Replaces a value in place: one word.
    #[inline(always)]
    fn replace<T, F>(
        &self,
        request: &Request<'_, T, F>,
        (place, second): (Place, u64),
        new: u64,
    ) -> Result<(), Error> {
        match place {
            Place::Slot(at, slot) => {
                self.shards.make_writable(at)?;
                let bucket = self.shards.bucket(at);
                bucket.replace(&self.medium, slot, new);
                bucket.persist_value(&self.medium, slot);
            }
            Place::Chain => {
                let pair = (request.tag, second);
                self.chains.replace(request.hash, pair, new).map_err(|_| FileError::Full)?;
            }
        }
        Ok(())
    }

    /// Removes a key, which frees its slot. Flags stay, so keys behind its bucket are still found.
    #[inline(always)]
    fn remove<const FETCHES: bool, T, F>(
        &self,
        held: &ShardGuard<'_>,
        request: &Request<'_, T, F>,
        (place, second): (Place, u64),
    ) -> Result<(), Error> {
        match place {
            Place::Slot(at, slot) => {
                self.shards.make_writable(at)?;
                let bucket = self.shards.bucket(at);
                clear_slot::<FETCHES, _, _>(&self.medium, bucket, slot);
                let mut counts = held.shard.counts();
                // Counts of a damaged file may be wrong.
                counts.live = counts.live.saturating_sub(1);
                counts.tombstones += u32::from(bucket.header().has(PASSED));
                held.shard.set_counts(counts);
            }
            Place::Chain => {
                let pair = (request.tag, second);
                self.chains.remove(request.hash, pair).map_err(|_| FileError::Full)?;
            }
        }
        Ok(())
    }

    /// Stores a new key in the first free slot of its scope. If this slot is behind the bucket that
    /// ended the search, sets the flag of each bucket that is newly passed. Returns whether there
    /// was room. The caller holds the shard's lock.
    #[inline(always)]
    fn insert<const FETCHES: bool>(
        &self,
        held: &ShardGuard<'_>,
        extent: BuddyExtent,
        (hash, end, free): (u64, usize, Option<(usize, usize)>),
        pair: (u64, u64),
    ) -> Result<bool, Error> {
        let mut counts = held.shard.counts();
        let stored = self.insert_in::<FETCHES>(extent, (hash, end, free), pair, &mut counts)?;
        held.shard.set_counts(counts);
        self.persist(stored);
        Ok(stored.is_some())
    }

    /// Makes a stored slot durable.
    #[inline(always)]
    pub(super) fn persist(&self, stored: Option<(usize, usize)>) {
        if let Some((at, slot)) = stored {
            self.shards.bucket(at).persist(&self.medium, slot);
        }
    }

    /// Stores a new key in an extent, not durably, and updates the caller's counts. Returns the
    /// place of the key, if there was room.
    #[inline(always)]
    fn insert_in<const FETCHES: bool>(
        &self,
        extent: BuddyExtent,
        (hash, end, free): (u64, usize, Option<(usize, usize)>),
        pair: (u64, u64),
        counts: &mut Counts,
    ) -> Result<Option<(usize, usize)>, Error> {
        let place = |distance| self.shards.place(extent, hash, distance);
        let bucket_at = |distance| self.shards.bucket(place(distance));
        let (at, slot) = match free {
            Some(free) => free,
            None => {
                let free = (end + 1..self.scope(extent)).find_map(|distance| {
                    let slot = bucket_at(distance).header().matching(0).next()?;
                    Some((distance, slot))
                });
                let Some((distance, slot)) = free else { return Ok(None) };
                (end..distance).try_for_each(|passed| self.shards.make_writable(place(passed)))?;
                if !seeded(Bug::WayUnmarked) {
                    // Before the pair, so that every search on the way finds it.
                    (end..distance).for_each(|passed| bucket_at(passed).set(&self.medium, PASSED));
                }
                (place(distance), slot)
            }
        };
        self.shards.make_writable(at)?;
        let bucket = self.shards.bucket(at);
        counts.live += 1;
        // Counts of a damaged file may be wrong.
        counts.tombstones =
            counts.tombstones.saturating_sub(u32::from(bucket.header().has(PASSED)));
        put_into_slot::<FETCHES, _, _>(&self.medium, bucket, slot, (fingerprint(hash), pair));
        Ok(Some((at, slot)))
    }

    /// Stores an absent key, not durably. No other thread knows the extent, or the caller has
    /// locked its shard. Returns the place of the key, if there was room in its scope.
    pub(super) fn store(
        &self,
        extent: BuddyExtent,
        hash: u64,
        pair: (u64, u64),
        counts: &mut Counts,
    ) -> Result<Option<(usize, usize)>, Error> {
        let (mut end, mut free) = (0, None);
        for distance in 0..self.scope(extent) {
            let at = self.shards.place(extent, hash, distance);
            let header = self.shards.bucket(at).header();
            free = header.matching(0).next().map(|slot| (at, slot));
            end = distance;
            if free.is_some() || !header.has(PASSED) {
                break;
            }
        }
        self.insert_in::<false>(extent, (hash, end, free), pair, counts)
    }
}
