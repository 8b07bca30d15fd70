//! Shards: small tables of buckets side by side, each with a lock for who changes it.
//!
//! The buckets of all shards are in one reserved array of addresses, so that the system can back
//! them by huge pages; a shard's are an [extent](crate::memory::BuddyExtent) of them.
//!
//! Invariants
//! 1. Who holds the lock of a shard is the only one to store anything in its buckets, its
//!    counts and its descriptors, but for the lock's bit.
//! 2. An extent that a descriptor names holds all pairs of its shard, but for those in chains.
//!    One that it does not name any more is left as it is until nobody can know it.
//! 3. A descriptor that was read before and after something was read in its run had that
//!    run in between: each has another generation.
//! 4. In a medium of pages, those of an extent that was taken are there; and nothing is stored
//!    in a bucket that was not made writable in the present operation.

use super::geometry::{Descriptor, MOST_BUCKETS, bucket};
use crate::error::Error;
use crate::memory::Addresses;
use crate::memory::{Buddies, BuddyExtent, Medium, MemoryUsage, Part, ReservedArray};
use crate::sync::{
    AtomicPair, AtomicU64, Backoff, Mutex, Ordering, fence, operations_ended, retire_tag,
};
use crate::table::shared::bucket::Layout;

#[derive(Debug, Default)]
#[repr(C, align(32))]
pub(super) struct Shard {
    descriptor: AtomicU64,
    /// Who holds the lock loads and stores it; for others it is a hint.
    counts: AtomicU64,
    /// The last snapshot that has a copy of the shard; as the counts.
    copied: AtomicU64,
}

/// What is known of a shard's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// How many hold pairs.
    pub(super) live: u32,
    /// How many are free in buckets that searches go on behind: what the paper calls
    /// deleted.
    pub(super) tombstones: u32,
}

impl Counts {
    pub(super) fn of(word: u64) -> Self {
        Self { live: word as u32, tombstones: (word >> 32) as u32 }
    }

    pub(super) fn word(self) -> u64 {
        u64::from(self.live) | u64::from(self.tombstones) << 32
    }
}

impl Shard {
    #[inline(always)]
    pub(super) fn descriptor(&self) -> Descriptor {
        // Acquire: pairs with the release of who filled the extent.
        Descriptor(self.descriptor.load(Ordering::Acquire))
    }

    /// What the descriptor is after what was read of its run.
    #[inline(always)]
    pub(super) fn descriptor_after(&self) -> Descriptor {
        // Acquire: pairs with the releases of who has published another run, so that what was
        // read of one that is not the shard's any more is told by its descriptor.
        fence(Ordering::Acquire);
        // Relaxed: who acts on a newer run releases what it does.
        Descriptor(self.descriptor.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<Descriptor> {
        // Acquire: pairs with the unlocking.
        let before = self.descriptor.fetch_or(Descriptor::lock_bit(), Ordering::Acquire);
        (!Descriptor(before).is_locked()).then_some(Descriptor(before))
    }

    /// Keeps everybody from changing the shard; what it was then.
    #[inline(always)]
    pub(super) fn lock(&self) -> Descriptor {
        let mut backoff = Backoff::new();
        loop {
            if let Some(descriptor) = self.try_lock() {
                return descriptor;
            }
            // Relaxed: only a hint.
            while Descriptor(self.descriptor.load(Ordering::Relaxed)).is_locked() {
                backoff.wait();
            }
        }
    }

    /// Lets others change the shard, whose descriptor is this one from now on.
    #[inline(always)]
    pub(super) fn unlock(&self, descriptor: Descriptor) {
        self.set(descriptor.unlocked());
    }

    /// Makes known where the shard's buckets are, and keeps the lock.
    pub(super) fn publish(&self, descriptor: Descriptor) {
        self.set(Descriptor(descriptor.0 | Descriptor::lock_bit()));
    }

    /// The caller holds the lock.
    #[inline(always)]
    fn set(&self, descriptor: Descriptor) {
        // Release: who locks it next sees what was done, who reads the extent what is in it.
        // As in the front yard of IcebergHT: loom does not know that what others have
        // stored since the locking they stored in its place.
        #[cfg(loom)]
        self.descriptor.swap(descriptor.0, Ordering::Release);
        #[cfg(not(loom))]
        self.descriptor.store(descriptor.0, Ordering::Release);
    }

    #[inline(always)]
    pub(super) fn counts(&self) -> Counts {
        // Relaxed: by the lock, or a hint.
        Counts::of(self.counts.load(Ordering::Relaxed))
    }

    /// The caller holds the lock.
    #[inline(always)]
    pub(super) fn set_counts(&self, counts: Counts) {
        // Relaxed: by the lock.
        self.counts.store(counts.word(), Ordering::Relaxed);
    }

    /// Whether a snapshot has a copy of the shard. The caller holds the lock.
    pub(super) fn is_copied(&self, number: u64) -> bool {
        // Relaxed: by the lock.
        self.copied.load(Ordering::Relaxed) == number
    }

    /// The caller holds the lock.
    pub(super) fn set_copied(&self, number: u64) {
        // Relaxed: by the lock.
        self.copied.store(number, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(super) struct Shards<M: Medium, L: Layout> {
    medium: M,
    all: Box<[Shard]>,
    /// The logarithm of how many there are.
    pub(super) bits: u32,
    buckets: ReservedArray<L, M>,
    /// Of a durable table: see [`durable`](super::durable).
    descriptors: Option<ReservedArray<AtomicPair, M>>,
    extents: Mutex<Buddies>,
    /// How many buckets there are addresses for.
    most: usize,
    _addresses: Addresses,
}

impl<M: Medium, L: Layout> Shards<M, L> {
    /// As many as a power of two, without buckets but for those that a medium holds, in as
    /// many addresses as the machine could need.
    pub(super) fn new(medium: &M, count: usize) -> Result<Self, Error> {
        debug_assert!(count.is_power_of_two() && count > 1);
        let mut all = Vec::new();
        let bytes = count * size_of::<Shard>();
        all.try_reserve_exact(count).map_err(|_| Error::OutOfMemory { bytes })?;
        all.extend((0..count).map(|_| Shard::default()));
        let descriptors = || ReservedArray::within(medium, Part::Segments, 0, count);
        let descriptors = M::IS_DURABLE.then(descriptors).transpose()?;
        let least = if cfg!(loom) { 64 } else { 512 };
        let mut most = (Addresses::share() as usize / size_of::<L>()).clamp(least, MOST_BUCKETS);
        loop {
            match ReservedArray::within(medium, Part::Front, 0, most) {
                Ok(buckets) => {
                    return Ok(Self {
                        medium: medium.clone(),
                        all: all.into(),
                        bits: count.ilog2(),
                        buckets,
                        descriptors,
                        extents: Mutex::default(),
                        most,
                        _addresses: Addresses::count((most * size_of::<L>()) as u64),
                    });
                }
                // The system may limit the addresses of a process.
                Err(_) if most > least => most = (most / 2).max(least),
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The number of the shard of a hash.
    #[inline(always)]
    pub(super) fn number(&self, hash: u64) -> usize {
        (hash >> (64 - self.bits)) as usize
    }

    #[inline(always)]
    pub(super) fn shard(&self, number: usize) -> &Shard {
        &self.all[number]
    }

    #[inline(always)]
    pub(super) fn of(&self, hash: u64) -> &Shard {
        self.shard(self.number(hash))
    }

    #[inline(always)]
    pub(super) fn bucket(&self, at: usize) -> &L {
        self.buckets.at(at)
    }

    #[inline(always)]
    pub(super) fn address(&self, at: usize) -> *const L {
        self.buckets.address(at)
    }

    /// The bucket of an extent that is so far behind that of a hash.
    #[inline(always)]
    pub(super) fn place(&self, extent: BuddyExtent, hash: u64, distance: usize) -> usize {
        bucket(extent, hash, self.bits, distance)
    }

    /// Whether there are addresses for so large an extent of every shard: asked before any of them
    /// takes memory.
    pub(super) fn check_size(&self, size: u32) -> Result<(), Error> {
        if self.all.len() > self.most >> size { Err(Error::CapacityOverflow) } else { Ok(()) }
    }

    /// The bucket of an extent that a key is in if there is room.
    pub(super) fn home(&self, extent: BuddyExtent, hash: u64) -> &L {
        self.bucket(self.place(extent, hash, 0))
    }

    /// All buckets of an extent.
    pub(super) fn all(&self, extent: BuddyExtent) -> impl Iterator<Item = &L> {
        (extent.first..extent.first + extent.len()).map(|at| self.bucket(at))
    }

    /// What is in a slot: see [`Layout::pair`].
    #[inline(always)]
    pub(super) fn pair(&self, bucket: &L, slot: usize, whole: bool) -> (u64, u64) {
        // Of a bucket the line of its header is counted, and that of a slot.
        #[cfg(any(test, feature = "accounting"))]
        for address in bucket.addresses(slot) {
            crate::memory::touched::record(address.addr(), M::IS_DURABLE);
        }
        bucket.pair(slot, whole)
    }

    /// Empty buckets that nobody else knows.
    pub(super) fn allocate(&self, size: u32) -> Result<BuddyExtent, Error> {
        // So that a full disk costs nothing. And pages for the descriptor and the rest.
        self.medium.has_room((size_of::<L>() << size) + (2 << 12))?;
        let mut extents = self.extents.lock();
        let room = |len| if M::IS_DURABLE { len } else { room::<L>(len) };
        let (extent, is_used) = extents.allocate(size, |len| self.buckets.grow(room(len)))?;
        drop(extents);
        let emptied = if is_used { self.empty(extent) } else { Ok(()) };
        let ready = emptied.and_then(|()| self.make_extent_writable(extent));
        ready.inspect_err(|_| self.give_back(extent)).map(|()| extent)
    }

    fn empty(&self, extent: BuddyExtent) -> Result<(), Error> {
        if self.buckets.discard(extent.first..extent.first + extent.len()) {
            return Ok(());
        }
        self.make_extent_writable(extent)?;
        self.all(extent).for_each(|bucket| bucket.empty(&self.medium));
        Ok(())
    }

    /// Sees to it that a bucket may be changed. Its address may be another one then.
    #[inline(always)]
    pub(super) fn make_writable(&self, at: usize) -> Result<(), Error> {
        self.buckets.make_writable(at)
    }

    /// Sees to it that all buckets of an extent may be changed, and have pages.
    fn make_extent_writable(&self, extent: BuddyExtent) -> Result<(), Error> {
        if !M::IS_PAGED {
            return Ok(());
        }
        first_of_pages::<L>(extent).try_for_each(|at| self.make_writable(at))
    }

    /// Starts to make all of an extent durable.
    pub(super) fn flush(&self, extent: BuddyExtent) {
        if M::IS_DURABLE {
            // Bucket by bucket, since they may be in different pages.
            self.all(extent).for_each(|bucket| self.medium.flush(bucket, 1));
        }
    }

    /// What is durable of a shard: its buckets, and, if the table was closed, its counts.
    pub(super) fn durable(&self, number: usize) -> Option<&AtomicPair> {
        self.descriptors.as_ref().map(|descriptors| descriptors.at(number))
    }

    /// Sees to it that this may be changed.
    pub(super) fn make_durable_writable(&self, number: usize) -> Result<(), Error> {
        let descriptors = self.descriptors.as_ref();
        descriptors.map_or(Ok(()), |descriptors| descriptors.make_writable(number))
    }

    /// Has room for the descriptors of all shards, of a new table that is durable.
    pub(super) fn make_descriptors(&self) -> Result<(), Error> {
        let Some(descriptors) = &self.descriptors else { return Ok(()) };
        descriptors.grow(self.len())?;
        let of_page = 4096 / size_of::<AtomicPair>();
        (0..self.len()).step_by(of_page).try_for_each(|number| descriptors.make_writable(number))
    }

    /// Takes buckets back that nobody comes to know any more.
    pub(super) fn give_back(&self, extent: BuddyExtent) {
        let tag = retire_tag();
        self.extents.lock().give_back(extent, tag);
    }

    /// Whether an extent of a size is to be had before a bucket.
    pub(super) fn has_below(&self, extent: BuddyExtent) -> bool {
        self.extents.lock().has_below(extent.size, extent.first)
    }

    /// Waits until what was given back can be used again, and gives the memory of the last
    /// buckets back to the system if they are free.
    pub(super) fn trim(&self) {
        let tag = retire_tag();
        let mut backoff = Backoff::new();
        while !operations_ended(tag, false) {
            backoff.wait();
        }
        let mut extents = self.extents.lock();
        if extents.trim() {
            self.buckets.shrink(extents.len);
        }
    }

    /// Gives what is known of pages behind the last bucket back.
    pub(super) fn trim_map(&self) -> Result<(), Error> {
        self.buckets.trim_map()
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        let bytes = self.all.len() * size_of::<Shard>();
        let descriptors = self.descriptors.as_ref();
        let descriptors = descriptors.map_or_else(MemoryUsage::default, ReservedArray::usage);
        self.buckets.usage() + descriptors + MemoryUsage { mapped: bytes, resident: bytes }
    }
}

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
impl<M: Medium, L: Layout> Shards<M, L> {
    /// For how many shards a medium holds descriptors.
    pub(super) fn described(&self) -> usize {
        self.descriptors.as_ref().map_or(0, ReservedArray::len)
    }

    /// Learns which buckets of a medium are in use; whether that can be.
    pub(super) fn restore(&self, used: Vec<BuddyExtent>) -> bool {
        match Buddies::restore(self.buckets.len(), used) {
            Some(extents) => {
                *self.extents.lock() = extents;
                true
            }
            None => false,
        }
    }

    /// Makes known what a shard's descriptor and counts are, before anybody has the table.
    pub(super) fn set(&self, number: usize, descriptor: Descriptor, counts: Counts) {
        self.shard(number).set_counts(counts);
        self.shard(number).set(descriptor);
    }
}

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
impl<L: Layout> Shards<crate::memory::durable::Paged, L> {
    /// An error if it is said of pages that they are where none are.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.buckets.region().check()?;
        self.descriptors.as_ref().map_or(Ok(()), |descriptors| descriptors.region().check())
    }
}

/// A bucket of each page of an extent.
fn first_of_pages<L>(extent: BuddyExtent) -> impl Iterator<Item = usize> {
    let page = if cfg!(any(loom, shuttle)) { 1 } else { 4096 / size_of::<L>() };
    (extent.first..extent.first + extent.len()).step_by(page)
}

/// For how many buckets there shall be memory if so many are needed: the system finds and
/// clears two MiB at once if it may, and of a large table that is little.
fn room<L>(needed: usize) -> usize {
    const PIECE: usize = 2 << 20;
    let bytes = needed * size_of::<L>();
    if cfg!(any(loom, shuttle)) || bytes < 4 * PIECE {
        return needed;
    }
    bytes.next_multiple_of(PIECE) / size_of::<L>()
}
