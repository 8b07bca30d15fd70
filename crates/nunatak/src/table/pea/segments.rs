//! Segments: tables of buckets, which are split one at a time.
//!
//! All segments are in one reserved array of addresses, by their numbers, so that the system can
//! use huge pages. Their stash buckets, two for each, are in another such array.
//!
//! Invariants
//! 1. A segment that was given back is not given out again before every operation has ended that
//!    may have known it. Its generation has changed by then, so a reader without an announced
//!    operation notices.
//! 2. A segment that is given out is empty, whatever an earlier session left in its pages.
//! 3. The lowest numbers are given out first, so that the end of the reserved array can be given
//!    back to the system.
//! 4. With duplicate keys, and in durable tables, a bucket is locked by the version of its group,
//!    and a segment's stash buckets by one version. In other tables the lock is the bit in the
//!    bucket's header.

use super::geometry::{Entry, Strategy};
use super::multi::version::Version;
use crate::error::Error;
use crate::memory::Addresses;
use crate::memory::{Medium, MemoryUsage, Part, ReservedArray};
use crate::sync::{
    AtomicPair, AtomicU64, AtomicUsize, Mutex, Ordering, operations_ended, retire_tag,
};
use crate::table::shared::bucket::{Bucket, Layout, look_at};
use crate::table::shared::moves::Moves;
use std::collections::BTreeMap;

/// The number of a segment's stash buckets.
pub(super) const STASH: usize = 2;

/// The number of neighbouring buckets that share a version.
const GROUP: usize = if cfg!(modelled) { 1 } else { 16 };

#[derive(Debug)]
pub(super) struct Segments<M: Medium, L: Layout = Bucket> {
    medium: M,
    buckets: ReservedArray<L, M>,
    stash: ReservedArray<L, M>,
    /// For tables of duplicate keys, and for durable tables.
    versions: Option<ReservedArray<Version>>,
    /// The descriptors of a durable table's segments: see [`durable`](super::durable).
    descriptors: Option<ReservedArray<AtomicPair, M>>,
    /// The last cut that has a copy of each segment.
    copied: ReservedArray<AtomicU64>,
    /// Buckets of a segment: a power of two.
    pub(super) per_segment: usize,
    most: usize,
    numbers: Mutex<Numbers>,
    _addresses: Addresses,
}

/// Which segments are in use.
#[derive(Debug, Default)]
struct Numbers {
    /// Free segments by number, with the epochs in which they were given back.
    free: BTreeMap<u32, u64>,
    /// The number of segments that there is memory for.
    len: usize,
    /// The generations of all segments so far.
    generations: Vec<u16>,
}

/// A segment that no other thread knows yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fresh {
    pub(super) number: u32,
    generation: u16,
}

impl Fresh {
    pub(super) fn entry(self, depth: u32, strategy: Strategy) -> Entry {
        Entry::new(self.number, self.generation, depth, strategy)
    }
}

/// What has happened to segments. Statistics of the paper, counted and read relaxed.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) splits: Moves,
    /// Splits after which some new segment needs more than single hashing.
    pub(super) crowded: AtomicUsize,
    pub(super) merges: AtomicUsize,
}

impl<M: Medium, L: Layout> Segments<M, L> {
    /// Creates the segments, of `per_segment` buckets each, in as many addresses as the machine
    /// could need. The medium may hold some already.
    pub(super) fn new(medium: &M, per_segment: usize, duplicates: bool) -> Result<Self, Error> {
        debug_assert!(per_segment.is_power_of_two() && per_segment >= 2);
        let bytes = (per_segment + STASH) * size_of::<L>();
        // A scenario may allocate 280 segments while one operation, which keeps every segment from
        // being reused, stands still.
        let least = if cfg!(shuttle) { 512 } else { 8 };
        let mut most = (Addresses::share() as usize / bytes).clamp(least, 1 << 31);
        loop {
            let front = ReservedArray::within(medium, Part::Front, 0, most * per_segment);
            let stretches = front.and_then(|buckets| {
                // A file may have more than the machine, or the limit of the process, lets expect.
                let most = most.max(buckets.len() / per_segment);
                let stash = ReservedArray::within(medium, Part::Back, 0, most * STASH)?;
                let versions = most * versions_of(per_segment);
                let has_versions = duplicates || M::IS_DURABLE;
                let versions = has_versions.then(|| ReservedArray::new(0, versions)).transpose()?;
                let descriptors = || ReservedArray::within(medium, Part::Segments, 0, most + 1);
                let descriptors = M::IS_DURABLE.then(descriptors).transpose()?;
                let copied = ReservedArray::new(0, most)?;
                Ok((buckets, stash, versions, descriptors, copied, most))
            });
            match stretches {
                Ok((buckets, stash, versions, descriptors, copied, most)) => {
                    return Ok(Self {
                        medium: medium.clone(),
                        buckets,
                        stash,
                        versions,
                        descriptors,
                        copied,
                        per_segment,
                        most,
                        numbers: Mutex::default(),
                        _addresses: Addresses::count((most * bytes) as u64),
                    });
                }
                // The system may limit the addresses of a process.
                Err(_) if most > 8 => most /= 2,
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns an error if there are not enough addresses for all segments of a directory of this
    /// depth. Callers ask before any segment takes memory.
    pub(super) fn check_depth(&self, depth: u32) -> Result<(), Error> {
        if 1 << depth > self.most as u64 { Err(Error::CapacityOverflow) } else { Ok(()) }
    }

    #[inline(always)]
    pub(super) fn bucket(&self, segment: usize, bucket: usize) -> &L {
        self.buckets.at(segment * self.per_segment + bucket)
    }

    /// Loads a slot: see [`Layout::pair`].
    #[inline(always)]
    pub(super) fn pair(&self, bucket: &L, slot: usize, whole: bool) -> (u64, u64) {
        look_at::<M, L>(bucket, slot);
        bucket.pair(slot, whole)
    }

    /// Loads a slot of a locked bucket: see [`Layout::held_pair`].
    #[inline(always)]
    pub(super) fn held_pair(&self, bucket: &L, slot: usize) -> (u64, u64) {
        look_at::<M, L>(bucket, slot);
        bucket.held_pair(slot)
    }

    #[inline(always)]
    pub(super) fn address(&self, segment: usize, bucket: usize) -> *const L {
        self.buckets.address(segment * self.per_segment + bucket)
    }

    pub(super) fn stash(&self, segment: usize) -> [&L; STASH] {
        core::array::from_fn(|at| self.stash.at(segment * STASH + at))
    }

    /// Iterates over all buckets of a segment, in locking order.
    pub(super) fn all(&self, segment: usize) -> impl Iterator<Item = &L> + Clone {
        let buckets = (0..self.per_segment).map(move |bucket| self.bucket(segment, bucket));
        buckets.chain(self.stash(segment))
    }

    /// Returns a bucket by its place in this order.
    pub(super) fn any(&self, segment: usize, at: usize) -> &L {
        match at.checked_sub(self.per_segment) {
            None => self.bucket(segment, at),
            Some(at) => self.stash(segment)[at],
        }
    }

    /// Returns whether cut `number` has a copy of a segment.
    pub(super) fn is_copied(&self, segment: usize, number: u64) -> bool {
        // Acquire: the loads of the copy came before.
        self.copied.at(segment).load(Ordering::Acquire) == number
    }

    /// Notes that cut `number` has a copy of a segment. The caller has locked the segment, or no
    /// other thread knows it.
    pub(super) fn set_copied(&self, segment: usize, number: u64) {
        // Release: after the copy.
        self.copied.at(segment).store(number, Ordering::Release);
    }

    /// Locks all buckets of a segment. Readers do not notice.
    pub(super) fn lock(&self, segment: usize) {
        match self.versions(segment) {
            Some(versions) => versions.for_each(Version::hold_still),
            None => self.all(segment).for_each(L::lock),
        }
    }

    pub(super) fn unlock(&self, segment: usize) {
        match self.versions(segment) {
            Some(versions) => versions.for_each(Version::let_go),
            None => self.all(segment).for_each(L::unlock),
        }
    }

    /// Iterates over the versions of a segment, in locking order.
    fn versions(&self, segment: usize) -> Option<impl Iterator<Item = &Version>> {
        let count = versions_of(self.per_segment);
        let versions = self.versions.as_ref()?;
        Some((0..count).map(move |at| versions.at(segment * count + at)))
    }

    /// Returns the version of a bucket's group, and the group's number in the segment.
    #[inline(always)]
    pub(super) fn version(&self, segment: usize, bucket: usize) -> (usize, &Version) {
        self.version_at(segment, bucket / GROUP)
    }

    pub(super) fn stash_version(&self, segment: usize) -> &Version {
        self.version_at(segment, versions_of(self.per_segment) - 1).1
    }

    #[inline(always)]
    fn version_at(&self, segment: usize, at: usize) -> (usize, &Version) {
        match &self.versions {
            Some(versions) => (at, versions.at(segment * versions_of(self.per_segment) + at)),
            None => unreachable!("the keys of the table are unique"),
        }
    }

    pub(super) fn allocate(&self) -> Result<Fresh, Error> {
        let mut numbers = self.numbers.lock();
        // Looks at few segments, since asking is expensive, unless there is no new one. The thread's
        // own operation does not count: it changes no free segment.
        let looks = if numbers.len < self.most { 4 } else { usize::MAX };
        let mut free = numbers.free.iter().take(looks);
        let unknown = free.find(|&(_, &tag)| operations_ended(tag, false));
        let number = match unknown.map(|(&number, _)| number) {
            Some(number) => {
                numbers.free.remove(&number);
                number as usize
            }
            None if numbers.len >= self.most => return Err(Error::CapacityOverflow),
            None => {
                let number = numbers.len;
                let bytes = self.per_segment * size_of::<L>();
                let room = if M::IS_DURABLE { number + 1 } else { room(number + 1, bytes) };
                self.buckets.grow(room * self.per_segment)?;
                self.stash.grow((number + 1) * STASH)?;
                self.copied.grow(number + 1)?;
                if let Some(versions) = &self.versions {
                    versions.grow((number + 1) * versions_of(self.per_segment))?;
                }
                if let Some(descriptors) = &self.descriptors {
                    descriptors.grow(place_of(number) + 1)?;
                }
                numbers.len += 1;
                number
            }
        };
        let is_new = number == numbers.generations.len();
        if is_new {
            numbers.generations.push(0);
        }
        let generation = &mut numbers.generations[number];
        *generation = generation.wrapping_add(u16::from(!is_new));
        let fresh = Fresh { number: number as u32, generation: *generation };
        drop(numbers);
        let emptied = match is_new {
            // An earlier session of the file may have had this segment: the page of its stash
            // stayed, if lower segments' stashes are in it.
            true if M::IS_DURABLE => self.empty_stash(number),
            true => Ok(()),
            false => self.empty(number),
        };
        emptied.inspect_err(|_| self.give_back([number])).map(|()| fresh)
    }

    /// Empties a segment that no other thread knows.
    pub(super) fn empty(&self, segment: usize) -> Result<(), Error> {
        let first = segment * self.per_segment;
        let is_discarded = self.buckets.discard(first..first + self.per_segment);
        let mut empty = |bucket: usize| -> Result<(), Error> {
            self.make_writable(segment, bucket)?;
            self.bucket(segment, bucket).empty(&self.medium);
            Ok(())
        };
        (0..self.per_segment).take_while(|_| !is_discarded).try_for_each(&mut empty)?;
        self.empty_stash(segment)
    }

    fn empty_stash(&self, segment: usize) -> Result<(), Error> {
        self.make_stash_writable(segment)?;
        self.stash(segment).iter().for_each(|bucket| bucket.empty(&self.medium));
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        // Two pages more, for the rest of a page of its stash and of its descriptor.
        self.per_segment * size_of::<L>() + (2 << 12)
    }

    /// Makes a new segment resident, so that moving pairs there does not wait for pages or run out
    /// of them.
    pub(super) fn populate(&self, fresh: Fresh) -> Result<(), Error> {
        let segment = fresh.number as usize;
        for bucket in self.first_of_pages() {
            self.make_writable(segment, bucket)?;
            if !M::IS_PAGED {
                self.bucket(segment, bucket).touch(&self.medium);
            }
        }
        self.make_stash_writable(segment)?;
        if !M::IS_PAGED {
            self.stash(segment)[0].touch(&self.medium);
        }
        self.make_descriptor_writable(segment)
    }

    /// Allocates the pages of a segment in use.
    #[cfg(durable)]
    pub(super) fn make_present(&self, segment: usize) -> Result<(), Error> {
        for bucket in self.first_of_pages() {
            self.buckets.make_present(segment * self.per_segment + bucket)?;
        }
        (0..STASH).try_for_each(|at| self.stash.make_present(segment * STASH + at))
    }

    /// Iterates over the first bucket of each page of a segment.
    fn first_of_pages(&self) -> impl Iterator<Item = usize> + use<M, L> {
        let page = if cfg!(modelled) { 1 } else { 4096 / size_of::<L>() };
        (0..self.per_segment).step_by(page)
    }

    /// Makes a bucket writable. This may change its address.
    #[inline(always)]
    pub(super) fn make_writable(&self, segment: usize, bucket: usize) -> Result<(), Error> {
        self.buckets.make_writable(segment * self.per_segment + bucket)
    }

    pub(super) fn make_stash_writable(&self, segment: usize) -> Result<(), Error> {
        (0..STASH).try_for_each(|at| self.stash.make_writable(segment * STASH + at))
    }

    pub(super) fn make_descriptor_writable(&self, segment: usize) -> Result<(), Error> {
        match &self.descriptors {
            Some(descriptors) => descriptors.make_writable(place_of(segment)),
            None => Ok(()),
        }
    }

    /// Makes writable what changes when a segment is replaced.
    pub(super) fn make_replaceable(&self, segment: usize) -> Result<(), Error> {
        if M::IS_DURABLE {
            self.make_stash_writable(segment)?;
        }
        self.make_descriptor_writable(segment)
    }

    pub(super) fn descriptor(&self, segment: usize) -> Option<&AtomicPair> {
        self.descriptors.as_ref().map(|descriptors| descriptors.at(place_of(segment)))
    }

    /// Returns the record that a durable table stores when it is closed.
    #[cfg(durable)]
    pub(super) fn record(&self) -> Option<&AtomicPair> {
        self.descriptors.as_ref().map(|descriptors| descriptors.at(0))
    }

    #[cfg(durable)]
    pub(super) fn make_record_writable(&self) -> Result<(), Error> {
        self.descriptors.as_ref().map_or(Ok(()), |descriptors| descriptors.make_writable(0))
    }

    /// Learns of `len` segments of a medium, and which of them are in use.
    #[cfg(durable)]
    pub(super) fn restore(&self, len: usize, used: &[bool]) -> Result<(), Error> {
        self.buckets.grow(len * self.per_segment)?;
        self.stash.grow(len * STASH)?;
        self.copied.grow(len)?;
        if let Some(versions) = &self.versions {
            versions.grow(len * versions_of(self.per_segment))?;
        }
        let mut numbers = self.numbers.lock();
        numbers.len = len;
        numbers.generations = vec![0; len];
        let is_free = |&number: &usize| !used.get(number).copied().unwrap_or(false);
        // No operation knows any of them.
        numbers.free = (0..len).filter(is_free).map(|number| (number as u32, 0)).collect();
        Ok(())
    }

    /// Returns the number of segments that there are pages for.
    #[cfg(durable)]
    pub(super) fn len(&self) -> usize {
        self.numbers.lock().len
    }

    /// Returns for how many segments the medium holds descriptors, and for how many it holds
    /// buckets. (Buckets that were never written may have no pages.)
    #[cfg(durable)]
    pub(super) fn held(&self) -> (usize, usize) {
        let of_descriptors =
            self.descriptors.as_ref().map_or(0, ReservedArray::len).saturating_sub(1);
        let of_buckets = self.buckets.len() / self.per_segment;
        (of_descriptors.min(self.most), of_buckets.min(self.stash.len() / STASH))
    }

    /// Returns the lowest number of a segment of which the medium holds nothing.
    #[cfg(durable)]
    pub(super) fn first_absent(&self) -> usize {
        let of_buckets = self.buckets.len().div_ceil(self.per_segment);
        of_buckets.max(self.stash.len().div_ceil(STASH))
    }

    /// Starts to make a segment durable.
    pub(super) fn flush(&self, segment: usize) {
        if M::IS_DURABLE {
            // Flushes bucket by bucket, since they may be in different pages.
            self.all(segment).for_each(|bucket| self.medium.flush(bucket, 1));
        }
    }

    #[inline(always)]
    pub(super) fn lock_bucket(&self, segment: usize, bucket: usize) {
        if M::IS_DURABLE {
            self.version(segment, bucket).1.lock();
        } else {
            self.bucket(segment, bucket).lock();
        }
    }

    #[inline(always)]
    pub(super) fn try_lock_bucket(&self, segment: usize, bucket: usize) -> bool {
        if M::IS_DURABLE {
            self.version(segment, bucket).1.try_lock()
        } else {
            self.bucket(segment, bucket).try_lock()
        }
    }

    #[inline(always)]
    pub(super) fn unlock_bucket(&self, segment: usize, bucket: usize) {
        if M::IS_DURABLE {
            self.version(segment, bucket).1.unlock();
        } else {
            self.bucket(segment, bucket).unlock();
        }
    }

    pub(super) fn lock_stash(&self, segment: usize, at: usize) {
        if M::IS_DURABLE {
            self.stash_version(segment).lock();
        } else {
            self.stash(segment)[at].lock();
        }
    }

    pub(super) fn unlock_stash(&self, segment: usize, at: usize) {
        if M::IS_DURABLE {
            self.stash_version(segment).unlock();
        } else {
            self.stash(segment)[at].unlock();
        }
    }

    /// Returns whether two buckets share a lock.
    #[inline(always)]
    pub(super) fn share_lock(&self, one: usize, other: usize) -> bool {
        M::IS_DURABLE && one / GROUP == other / GROUP
    }

    /// Takes back segments that no further operation can find.
    pub(super) fn give_back(&self, segments: impl IntoIterator<Item = usize>) {
        let tag = retire_tag();
        let mut numbers = self.numbers.lock();
        numbers.free.extend(segments.into_iter().map(|segment| (segment as u32, tag)));
    }

    /// Returns the memory of the last segments to the system, if they are free and no operation
    /// knows them any more.
    pub(super) fn trim(&self) {
        let mut numbers = self.numbers.lock();
        let before = numbers.len;
        while let Some((&last, &tag)) = numbers.free.last_key_value()
            && last as usize + 1 == numbers.len
            && operations_ended(tag, false)
        {
            numbers.free.remove(&last);
            numbers.len -= 1;
        }
        if numbers.len < before {
            self.buckets.shrink(numbers.len * self.per_segment);
            self.stash.shrink(numbers.len * STASH);
            if let Some(descriptors) = &self.descriptors {
                descriptors.shrink(place_of(numbers.len));
            }
            if let Some(versions) = &self.versions {
                // Versions of new segments start at zero again, but the generation differs.
                versions.shrink(numbers.len * versions_of(self.per_segment));
            }
        }
    }

    /// Gives back what the medium knows of pages behind the last segment.
    pub(super) fn trim_maps(&self) -> Result<(), Error> {
        self.buckets.trim_map()?;
        self.stash.trim_map()?;
        self.descriptors.as_ref().map_or(Ok(()), ReservedArray::trim_map)
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        let versions =
            self.versions.as_ref().map_or_else(MemoryUsage::default, ReservedArray::usage);
        let descriptors = self.descriptors.as_ref();
        let descriptors = descriptors.map_or_else(MemoryUsage::default, ReservedArray::usage);
        self.buckets.usage() + self.stash.usage() + self.copied.usage() + versions + descriptors
    }
}

impl<M: Medium> Segments<M> {
    /// Returns a slot, and counts its lines.
    #[inline(always)]
    pub(super) fn slot<'b>(&self, bucket: &'b Bucket, slot: usize) -> &'b AtomicPair {
        look_at::<M, _>(bucket, slot);
        bucket.slot(slot)
    }
}

/// Returns the place of a segment's descriptor. The table's own record comes first.
fn place_of(segment: usize) -> usize {
    segment + 1
}

/// Returns how many segments to reserve memory for if `needed` are needed. The system can find and
/// clear two MiB at once, which is little for a large table.
pub(super) fn room(needed: usize, bytes: usize) -> usize {
    const PIECE: usize = 2 << 20;
    if needed * bytes < 4 * PIECE {
        return needed;
    }
    needed.next_multiple_of((PIECE / bytes).max(1))
}

/// Returns the number of versions of a segment. The last one is the stash's.
#[inline(always)]
fn versions_of(per_segment: usize) -> usize {
    per_segment.div_ceil(GROUP) + 1
}

#[cfg(durable)]
impl Segments<crate::memory::durable::Paged> {
    /// Whether a segment lacks one of its pages.
    pub(super) fn lacks_page(&self, segment: usize) -> bool {
        let bucket = size_of::<crate::table::shared::bucket::Bucket>();
        let (buckets, stash) = (self.buckets.region(), self.stash.region());
        self.first_of_pages()
            .any(|at| buckets.is_absent((segment * self.per_segment + at) * bucket))
            || (0..STASH).any(|at| stash.is_absent((segment * STASH + at) * bucket))
    }

    /// Returns an error if a map names pages that are not in the file.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.buckets.region().check()?;
        self.stash.region().check()?;
        self.descriptors.as_ref().map_or(Ok(()), |descriptors| descriptors.region().check())
    }
}
