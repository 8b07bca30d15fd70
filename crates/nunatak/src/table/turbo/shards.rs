//! Shards: small tables of neighbouring buckets. Each shard has a lock for changes.
//!
//! The buckets of all shards are in one reserved array of addresses, so that the system can use
//! huge pages. A shard's buckets are an [extent](crate::memory::BuddyExtent) of the array.
//!
//! Invariants
//! 1. Only the holder of a shard's lock stores anything in the shard's buckets, counts and
//!    descriptors, other than the lock's bit.
//! 2. An extent that a descriptor names holds all pairs of its shard, except the pairs in chains.
//!    An extent that no descriptor names any more stays as it is until no thread can know it.
//! 3. If a descriptor is the same before and after a thread reads the shard's extent, the shard had
//!    this extent all the time: each descriptor has another generation.
//! 4. In a medium of pages, an allocated extent has its pages. A bucket is changed only after the
//!    present operation made it writable.
//! 5. There are two to the power of `bits` shards.

use super::geometry::{Descriptor, MOST_BUCKETS, bucket};
use crate::error::Error;
use crate::memory::Addresses;
use crate::memory::{Buddies, BuddyExtent, Medium, MemoryUsage, Part, ReservedArray};
use crate::sync::{
    AtomicPair, AtomicU64, AtomicUsize, Backoff, Mutex, Ordering, fence, operations_ended,
    retire_tag,
};
use crate::table::shared::bucket::{Layout, look_at};
use crate::table::shared::moves::Moves;

#[derive(Debug, Default)]
#[repr(C, align(32))]
pub(super) struct Shard {
    descriptor: AtomicU64,
    /// The holder of the lock loads and stores the counts. For other threads they are a hint.
    counts: AtomicU64,
    /// The last snapshot that has a copy of the shard. The same holds as for the counts.
    copied: AtomicU64,
    /// The size of the shard's first extent, below which removals do not make it.
    first_size: u32,
}

/// The counts of a shard's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// The number of slots that hold pairs.
    pub(super) live: u32,
    /// The number of free slots in passed buckets. The paper calls them deleted.
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
        // Acquire: pairs with the release of the thread that filled the extent.
        Descriptor(self.descriptor.load(Ordering::Acquire))
    }

    /// Loads the descriptor again after the caller read from the extent.
    #[inline(always)]
    pub(super) fn descriptor_after(&self) -> Descriptor {
        // Acquire: pairs with the release of a thread that published another extent. So if the
        // caller read from an extent that was not the shard's any more, the descriptor tells.
        fence(Ordering::Acquire);
        // Relaxed: a thread that acts on a newer extent releases its own stores.
        Descriptor(self.descriptor.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(super) fn try_lock(&self) -> Option<Descriptor> {
        // Acquire: pairs with `unlock`.
        let before = self.descriptor.fetch_or(Descriptor::lock_bit(), Ordering::Acquire);
        (!Descriptor(before).is_locked()).then_some(Descriptor(before))
    }

    /// Locks the shard if it has this descriptor and no other thread holds the lock.
    #[inline(always)]
    pub(super) fn try_lock_with(&self, descriptor: Descriptor) -> bool {
        let before = descriptor.unlocked().0;
        let locked = before | Descriptor::lock_bit();
        // Acquire: pairs with `unlock`. Relaxed: a failure tells nothing.
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        self.descriptor.compare_exchange(before, locked, success, failure).is_ok()
    }

    /// Locks the shard. Returns its descriptor from before.
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

    /// Unlocks the shard, and makes this its descriptor.
    #[inline(always)]
    pub(super) fn unlock(&self, descriptor: Descriptor) {
        self.set(descriptor.unlocked());
    }

    /// Publishes where the shard's buckets are. Keeps the lock.
    pub(super) fn publish(&self, descriptor: Descriptor) {
        self.set(Descriptor(descriptor.0 | Descriptor::lock_bit()));
    }

    /// Stores the descriptor. The caller holds the lock.
    #[inline(always)]
    fn set(&self, descriptor: Descriptor) {
        // Release: the next holder of the lock sees what was done, and readers of the extent see
        // its contents. As in the front yard of IcebergHT: loom does not know that other threads'
        // stores since the locking came before this one.
        #[cfg(loom)]
        self.descriptor.swap(descriptor.0, Ordering::Release);
        #[cfg(not(loom))]
        self.descriptor.store(descriptor.0, Ordering::Release);
    }

    #[inline(always)]
    pub(super) fn counts(&self) -> Counts {
        // Relaxed: the lock orders it, or it is a hint.
        Counts::of(self.counts.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(super) fn set_counts(&self, counts: Counts) {
        // Relaxed: the lock orders it.
        self.counts.store(counts.word(), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn first_size(&self) -> u32 {
        self.first_size
    }

    /// Returns whether snapshot `number` has a copy of the shard. The caller holds the lock.
    pub(super) fn is_copied(&self, number: u64) -> bool {
        // Relaxed: the lock orders it.
        self.copied.load(Ordering::Relaxed) == number
    }

    /// Notes that snapshot `number` has a copy of the shard. The caller holds the lock.
    pub(super) fn set_copied(&self, number: u64) {
        // Relaxed: the lock orders it.
        self.copied.store(number, Ordering::Relaxed);
    }
}

/// A locked shard, and the descriptor that it gets when it is unlocked.
pub(super) struct ShardGuard<'t> {
    pub(super) shard: &'t Shard,
    pub(super) descriptor: Descriptor,
}

impl Drop for ShardGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.shard.unlock(self.descriptor);
    }
}

/// What has happened to shards. Statistics, counted and read relaxed.
#[derive(Debug, Default)]
pub(super) struct Happened {
    /// Rehashes of shards that had buckets, into other buckets.
    pub(super) rehashes: Moves,
    pub(super) grown: AtomicUsize,
    /// Shards that lost their tombstones and kept their size.
    pub(super) collected: AtomicUsize,
    pub(super) shrunk: AtomicUsize,
}

/// What was found in a damaged file.
#[cfg(durable)]
#[derive(Debug)]
pub(super) struct Left {
    /// The word of each shard's descriptor.
    pub(super) descriptors: Vec<u64>,
    /// Whether buckets have the mark of their half of the hashes.
    pub(super) has_marks: bool,
}

#[derive(Debug)]
pub(super) struct Shards<M: Medium, L: Layout> {
    medium: M,
    all: Box<[Shard]>,
    /// The logarithm of the number of shards.
    pub(super) bits: u32,
    buckets: ReservedArray<L, M>,
    /// The descriptors of a durable table: see [`durable`](super::durable).
    descriptors: Option<ReservedArray<AtomicPair, M>>,
    /// What a damaged file has left.
    #[cfg(durable)]
    pub(super) left: std::sync::OnceLock<Left>,
    extents: Mutex<Buddies>,
    /// The number of buckets that there are addresses for.
    most: usize,
    _addresses: Addresses,
}

impl<M: Medium, L: Layout> Shards<M, L> {
    /// Creates `count` shards, a power of two, in as many addresses as the machine could need. Only
    /// buckets in the medium exist already. The first extent of each shard has `first_size`.
    pub(super) fn new(medium: &M, count: usize, first_size: u32) -> Result<Self, Error> {
        debug_assert!(count.is_power_of_two() && count > 1);
        let mut all = Vec::new();
        let bytes = count * size_of::<Shard>();
        all.try_reserve_exact(count).map_err(|_| Error::OutOfMemory { bytes })?;
        all.extend((0..count).map(|_| Shard { first_size, ..Shard::default() }));
        let descriptors = || ReservedArray::within(medium, Part::Segments, 0, count);
        let descriptors = M::IS_DURABLE.then(descriptors).transpose()?;
        let least = if cfg!(loom) { 64 } else { 512 };
        let mut most = (Addresses::share() as usize / size_of::<L>()).clamp(least, MOST_BUCKETS);
        loop {
            match ReservedArray::within(medium, Part::Front, 0, most) {
                Ok(buckets) => {
                    most = most.max(buckets.len());
                    return Ok(Self {
                        medium: medium.clone(),
                        all: all.into(),
                        bits: count.ilog2(),
                        buckets,
                        descriptors,
                        #[cfg(durable)]
                        left: std::sync::OnceLock::new(),
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

    /// Gives each shard another size of its first extent.
    pub(super) fn set_first_sizes(
        &mut self,
        size: impl Fn(usize) -> Result<u32, Error>,
    ) -> Result<(), Error> {
        let mut all = self.all.iter_mut().enumerate();
        all.try_for_each(|(number, shard)| size(number).map(|size| shard.first_size = size))
    }

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
        let number = self.number(hash);
        debug_assert!(number < self.all.len());
        // SAFETY: invariant 5: the number is one of `bits` bits.
        unsafe { self.all.get_unchecked(number) }
    }

    #[inline(always)]
    pub(super) fn bucket(&self, at: usize) -> &L {
        self.buckets.at(at)
    }

    #[inline(always)]
    pub(super) fn address(&self, at: usize) -> *const L {
        self.buckets.address(at)
    }

    /// Returns the bucket that is `distance` buckets behind the bucket of a hash.
    #[inline(always)]
    pub(super) fn place(&self, extent: BuddyExtent, hash: u64, distance: usize) -> usize {
        bucket(extent, hash, self.bits, distance)
    }

    /// Returns an error if there are not enough addresses for so many buckets. `reserve` asks before
    /// any shard takes memory.
    pub(super) fn check_buckets(&self, buckets: usize) -> Result<(), Error> {
        if buckets > self.most { Err(Error::CapacityOverflow) } else { Ok(()) }
    }

    /// Returns the first bucket of a key in an extent.
    pub(super) fn home(&self, extent: BuddyExtent, hash: u64) -> &L {
        self.bucket(self.place(extent, hash, 0))
    }

    pub(super) fn all(&self, extent: BuddyExtent) -> impl Iterator<Item = &L> {
        (extent.first..extent.first + extent.len()).map(|at| self.bucket(at))
    }

    /// Loads a slot: see [`Layout::pair`].
    #[inline(always)]
    pub(super) fn pair(&self, bucket: &L, slot: usize, whole: bool) -> (u64, u64) {
        look_at::<M, L>(bucket, slot);
        bucket.pair(slot, whole)
    }

    /// Loads a slot of a locked shard: see [`Layout::held_pair`].
    #[inline(always)]
    pub(super) fn held_pair(&self, bucket: &L, slot: usize) -> (u64, u64) {
        look_at::<M, L>(bucket, slot);
        bucket.held_pair(slot)
    }

    /// Allocates an extent of empty buckets that no other thread knows.
    pub(super) fn allocate(&self, size: u32) -> Result<BuddyExtent, Error> {
        // Asks first, so that a full disk costs nothing. Two more pages are for the descriptor and
        // the rest.
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

    /// Makes a bucket writable. This may change its address.
    #[inline(always)]
    pub(super) fn make_writable(&self, at: usize) -> Result<(), Error> {
        self.buckets.make_writable(at)
    }

    /// Makes all buckets of an extent writable, so that they have pages.
    fn make_extent_writable(&self, extent: BuddyExtent) -> Result<(), Error> {
        if !M::IS_PAGED {
            return Ok(());
        }
        first_of_pages::<L>(extent).try_for_each(|at| self.make_writable(at))
    }

    /// Starts to make an extent durable.
    pub(super) fn flush(&self, extent: BuddyExtent) {
        if M::IS_DURABLE {
            // Flushes bucket by bucket, since they may be in different pages.
            self.all(extent).for_each(|bucket| self.medium.flush(bucket, 1));
        }
    }

    /// Returns the durable descriptor of a shard: its buckets, and, if the table was closed, its
    /// counts.
    pub(super) fn durable(&self, number: usize) -> Option<&AtomicPair> {
        self.descriptors.as_ref().map(|descriptors| descriptors.at(number))
    }

    /// Makes the durable descriptor of a shard writable.
    pub(super) fn make_durable_writable(&self, number: usize) -> Result<(), Error> {
        let descriptors = self.descriptors.as_ref();
        descriptors.map_or(Ok(()), |descriptors| descriptors.make_writable(number))
    }

    /// Allocates the descriptors of all shards of a new durable table.
    pub(super) fn make_descriptors(&self) -> Result<(), Error> {
        let Some(descriptors) = &self.descriptors else { return Ok(()) };
        descriptors.grow(self.len())?;
        let of_page = 4096 / size_of::<AtomicPair>();
        (0..self.len()).step_by(of_page).try_for_each(|number| descriptors.make_writable(number))
    }

    /// Takes back an extent that no further operation can find.
    pub(super) fn give_back(&self, extent: BuddyExtent) {
        let tag = retire_tag();
        self.extents.lock().give_back(extent, tag);
    }

    /// Returns whether a free extent of the same size lies below an extent.
    pub(super) fn has_below(&self, extent: BuddyExtent) -> bool {
        self.extents.lock().has_below(extent.size, extent.first)
    }

    /// Waits until the extents that were given back can be used again. Then returns the memory of
    /// free buckets at the end to the system.
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

    /// Gives back what the medium knows of pages behind the last bucket.
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

#[cfg(durable)]
impl<M: Medium, L: Layout> Shards<M, L> {
    /// Returns the number of shards that the medium holds descriptors for.
    pub(super) fn described(&self) -> usize {
        self.descriptors.as_ref().map_or(0, ReservedArray::len)
    }

    /// Learns which extents are in use. Returns false if they are not valid.
    pub(super) fn restore(&self, used: Vec<BuddyExtent>) -> bool {
        match Buddies::restore(self.buckets.len(), used) {
            Some(extents) => {
                *self.extents.lock() = extents;
                true
            }
            None => false,
        }
    }

    /// Returns the number of buckets that there are.
    pub(super) fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    /// Sets a shard's descriptor and counts. No other thread has the table yet.
    pub(super) fn set(&self, number: usize, descriptor: Descriptor, counts: Counts) {
        self.shard(number).set_counts(counts);
        self.shard(number).set(descriptor);
    }
}

#[cfg(durable)]
impl<L: Layout> Shards<crate::memory::durable::Paged, L> {
    /// Returns the durable descriptor of a shard of a damaged file, if its page is there.
    pub(super) fn descriptor_left(&self, number: usize) -> Option<&AtomicPair> {
        let descriptors = self.descriptors.as_ref().filter(|all| number < all.len())?;
        let is_absent = descriptors.region().is_absent(number * size_of::<AtomicPair>());
        (!is_absent).then(|| descriptors.at(number))
    }

    /// Whether an extent lacks one of its pages.
    pub(super) fn lacks_page(&self, extent: BuddyExtent) -> bool {
        first_of_pages::<L>(extent).any(|at| self.buckets.region().is_absent(at * size_of::<L>()))
    }

    /// Returns an error if a map names pages that are not in the file.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.buckets.region().check()?;
        self.descriptors.as_ref().map_or(Ok(()), |descriptors| descriptors.region().check())
    }
}

/// Iterates over the first bucket of each page of an extent.
fn first_of_pages<L>(extent: BuddyExtent) -> impl Iterator<Item = usize> {
    let page = if cfg!(modelled) { 1 } else { 4096 / size_of::<L>() };
    (extent.first..extent.first + extent.len()).step_by(page)
}

/// Returns how many buckets to reserve memory for if `needed` are needed. The system can find and
/// clear two MiB at once, which is little for a large table.
fn room<L>(needed: usize) -> usize {
    const PIECE: usize = 2 << 20;
    let bytes = needed * size_of::<L>();
    if cfg!(modelled) || bytes < 4 * PIECE {
        return needed;
    }
    bytes.next_multiple_of(PIECE) / size_of::<L>()
}
