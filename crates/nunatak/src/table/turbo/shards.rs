//! Shards: small tables of buckets side by side, each with a lock for who changes it.
//!
//! The buckets of all shards are in one stretch of addresses, so that the system can back
//! them by huge pages; a shard's are a [run](crate::memory::Run) of them.
//!
//! Invariants
//! 1. Who holds the lock of a shard is the only one to store anything in its buckets, its
//!    counts and its descriptor, but for the lock's bit.
//! 2. A run that a descriptor names holds all pairs of its shard, but for those in chains.
//!    One that it does not name any more is left as it is until nobody can know it.
//! 3. A descriptor that was read before and after something was read in its run had that
//!    run in between: each has another generation.

use super::geometry::{Descriptor, MOST_BUCKETS, bucket};
use crate::error::Error;
use crate::memory::Addresses;
use crate::memory::{Medium, MemoryUsage, Part, Run, Runs, Stretch};
use crate::sync::{AtomicU64, Backoff, Mutex, Ordering, operations_ended, retire_tag};
use crate::table::pea::layout::Layout;

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
    fn of(word: u64) -> Self {
        Self { live: word as u32, tombstones: (word >> 32) as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.live) | u64::from(self.tombstones) << 32
    }
}

impl Shard {
    #[inline(always)]
    pub(super) fn descriptor(&self) -> Descriptor {
        // Acquire: pairs with the release of who filled the run.
        Descriptor(self.descriptor.load(Ordering::Acquire))
    }

    /// Whether the run is the one that it was. Loads before it must acquire.
    #[inline(always)]
    pub(super) fn is_still(&self, descriptor: Descriptor) -> bool {
        // Relaxed: who acts on a newer run releases what it does.
        let now = Descriptor(self.descriptor.load(Ordering::Relaxed));
        now.unlocked() == descriptor.unlocked()
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
        // Release: who locks it next sees what was done, who reads the run what is in it.
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
    buckets: Stretch<L, M>,
    runs: Mutex<Runs>,
    _addresses: Addresses,
}

impl<M: Medium, L: Layout> Shards<M, L> {
    /// As many as a power of two, without buckets, in as many addresses as the machine
    /// could need.
    pub(super) fn new(medium: &M, count: usize) -> Result<Self, Error> {
        debug_assert!(count.is_power_of_two() && count > 1);
        let mut all = Vec::new();
        let bytes = count * size_of::<Shard>();
        all.try_reserve_exact(count).map_err(|_| Error::OutOfMemory { bytes })?;
        all.extend((0..count).map(|_| Shard::default()));
        let least = if cfg!(loom) { 64 } else { 512 };
        let mut most = (Addresses::share() as usize / size_of::<L>()).clamp(least, MOST_BUCKETS);
        loop {
            match Stretch::within(medium, Part::Front, 0, most) {
                Ok(buckets) => {
                    return Ok(Self {
                        medium: medium.clone(),
                        all: all.into(),
                        bits: count.ilog2(),
                        buckets,
                        runs: Mutex::default(),
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

    /// The bucket of a run that is so far behind that of a hash.
    #[inline(always)]
    pub(super) fn place(&self, run: Run, hash: u64, distance: usize) -> usize {
        bucket(run, hash, self.bits, distance)
    }

    /// The bucket of a run that a key is in if there is room.
    pub(super) fn home(&self, run: Run, hash: u64) -> &L {
        self.bucket(self.place(run, hash, 0))
    }

    /// All buckets of a run.
    pub(super) fn all(&self, run: Run) -> impl Iterator<Item = &L> {
        (run.first..run.first + run.len()).map(|at| self.bucket(at))
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
    pub(super) fn take(&self, size: u32) -> Result<Run, Error> {
        let mut runs = self.runs.lock();
        let (run, is_used) = runs.take(size, |len| self.buckets.grow(room::<L>(len)))?;
        drop(runs);
        if is_used {
            self.all(run).for_each(|bucket| bucket.empty(&self.medium));
        }
        Ok(run)
    }

    /// Takes buckets back that nobody comes to know any more.
    pub(super) fn give_back(&self, run: Run) {
        let tag = retire_tag();
        self.runs.lock().give_back(run, tag);
    }

    /// Whether a run of a size is to be had before a bucket.
    pub(super) fn has_below(&self, run: Run) -> bool {
        self.runs.lock().has_below(run.size, run.first)
    }

    /// Waits until what was given back can be used again, and gives the memory of the last
    /// buckets back to the system if they are free.
    pub(super) fn trim(&self) {
        let tag = retire_tag();
        let mut backoff = Backoff::new();
        while !operations_ended(tag, false) {
            backoff.wait();
        }
        let mut runs = self.runs.lock();
        if runs.trim() {
            self.buckets.shrink(runs.len);
        }
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        let bytes = self.all.len() * size_of::<Shard>();
        self.buckets.usage() + MemoryUsage { mapped: bytes, resident: bytes }
    }
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
