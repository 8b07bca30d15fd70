//! An index: the bins of one generation, and the links that they share.
//!
//! Each group of [`GROUP_BINS`] bins has its own half buckets. Second links are taken from the top,
//! first and third links from the bottom. So a second link never straddles two cache lines.
//!
//! Invariants
//! 1. The migration pointer is null, [`STARTING`], or came from a box. Only the thread that claimed
//!    the migration replaces `STARTING`. A published migration stays until the index is dropped.

use super::layout::{
    Bin, HalfBucket, LINK_HALVES, LINK_STARTS, MAX_GROUP_HALVES, PRIMARY_SLOTS, Slot, link,
    link_of_slot, with_link,
};
use super::migration::Migration;
use super::overflow::Overflow;
use super::sizes;
use super::tags::Ways;
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::{MemoryUsage, Slab};
use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, Mutex, Ordering};
use core::ptr;

/// The number of bins that share links. Threads that take links of a group store to one word, and an insert into a full
/// index takes one of eight times (`.ci/instructions`), so there are many groups. The number of links that a group needs
/// varies by a hundredth, and so does the load at which the first group has none left. (A link has 21 bits; 2^22 bins could
/// share.)
pub(super) const GROUP_BINS: usize = 1 << 16;
/// Enough links that the first collision does not fill a tiny index.
const MIN_GROUP_HALVES: usize = 8;
/// The planned number of keys in a bin when the caller names a capacity. Three of four bins then
/// have room in their first bucket; even an unlucky group has links for all others.
pub(super) const PLANNED_KEYS_PER_BIN: f64 = 1.5;

/// Returns the number of bins of an index for so many keys.
pub(super) fn bins_for(keys: usize) -> Result<usize, Error> {
    // Small indexes vary more: four standard deviations of slack.
    sizes::bins_for(keys, PLANNED_KEYS_PER_BIN, 2.0)
}

#[derive(Debug)]
pub(super) struct Index {
    pub(super) bins: Slab<Bin>,
    halves: Slab<HalfBucket>,
    halves_per_group: usize,
    /// The last group may have fewer bins.
    halves_in_last: usize,
    cursors: Box<[LinkCursor]>,
    pub(super) overflow: Mutex<Overflow>,
    pub(super) tag_ways: Ways,
    /// Null, [`STARTING`], or the migration that empties this index.
    migration: AtomicPtr<Migration<Index>>,
}

/// What is taken of a group.
#[derive(Debug, Default)]
#[repr(align(64))]
struct LinkCursor {
    /// The half buckets that are taken: low 32 bits from the bottom, high 32 from the top.
    taken: AtomicU64,
    /// How many were taken when this index became the root.
    at_birth: AtomicUsize,
}

impl LinkCursor {
    fn halves(&self) -> usize {
        // Relaxed: a statistic.
        let taken = self.taken.load(Ordering::Relaxed);
        ((taken & u64::from(u32::MAX)) + (taken >> 32)) as usize
    }
}

/// The migration pointer while a thread prepares the migration.
const STARTING: *mut Migration<Index> = ptr::without_provenance_mut(1);

/// The state of an index's migration.
pub(super) enum Migrating<'i> {
    No,
    Starting,
    To(&'i Migration<Index>),
}

impl Index {
    /// Makes an index of `bins` bins (an even number) with links of `bins / bins_per_link` buckets.
    pub(super) fn new(bins: usize, bins_per_link: usize) -> Result<Self, Error> {
        debug_assert!(bins >= 2 && bins.is_multiple_of(2));
        let groups = bins.div_ceil(GROUP_BINS);
        let halves_for = |bins: usize| {
            let halves = (bins * 2 / bins_per_link).next_multiple_of(2);
            halves.clamp(MIN_GROUP_HALVES, MAX_GROUP_HALVES as usize & !1)
        };
        let halves_per_group = halves_for(bins.min(GROUP_BINS));
        // What a small group needs varies more: four standard deviations of slack, or it would be the first without links.
        let last = bins - (groups - 1) * GROUP_BINS;
        let slack = (3.0 * (last as f64).sqrt()) as usize;
        let halves_in_last = halves_for(last) + slack.next_multiple_of(2);
        let halves_in_last =
            if groups == 1 { halves_per_group } else { halves_in_last.min(halves_per_group) };
        Ok(Self {
            bins: Slab::new(bins)?,
            halves: Slab::new((groups - 1) * halves_per_group + halves_in_last)?,
            halves_per_group,
            halves_in_last,
            cursors: (0..groups).map(|_| LinkCursor::default()).collect(),
            overflow: Mutex::new(Overflow::default()),
            tag_ways: Ways::detect(),
            migration: AtomicPtr::new(ptr::null_mut()),
        })
    }

    /// Returns the number of slots: three a bin, two a half bucket.
    pub(super) fn slots(&self) -> usize {
        self.bins.len() * PRIMARY_SLOTS + self.halves.len() * 2
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        self.bins.usage() + self.halves.usage()
    }

    /// Returns how many half buckets are taken, and how many there are.
    pub(super) fn links_taken(&self) -> (usize, usize) {
        (self.cursors.iter().map(LinkCursor::halves).sum(), self.halves.len())
    }

    /// Notes how many links the transfer to this index has taken.
    pub(super) fn note_birth(&self) {
        for cursor in &self.cursors {
            // Relaxed, here and below: it only decides between ways to make room.
            cursor.at_birth.store(cursor.halves(), Ordering::Relaxed);
        }
    }

    /// Returns whether a copy of this index has free links for a bin: at most half of its group's were taken at birth.
    pub(super) fn links_suffice_after_copy(&self, at: usize) -> bool {
        let group = at / GROUP_BINS;
        2 * self.cursors[group].at_birth.load(Ordering::Relaxed) <= self.halves_in(group)
    }

    /// Returns how many half buckets a group has, an even number.
    fn halves_in(&self, group: usize) -> usize {
        if group + 1 == self.cursors.len() { self.halves_in_last } else { self.halves_per_group }
    }

    /// Returns the byte offset of a hash's bin; the bin's number is [`HashCodec::place`].
    #[inline(always)]
    pub(super) fn offset_of<P: HashCodec>(&self, hash: u64) -> usize {
        P::offset(hash, self.bins.bytes(), size_of::<Bin>())
    }

    #[inline(always)]
    pub(super) fn bin_address_of<P: HashCodec>(&self, hash: u64) -> *const Bin {
        self.bins.address_at_offset(self.offset_of::<P>(hash))
    }

    /// Returns a slot of a bin. The slot's link must be set in `links`.
    #[inline(always)]
    pub(super) fn slot<'i>(&'i self, at: usize, bin: &'i Bin, links: u64, slot: usize) -> &'i Slot {
        if slot < PRIMARY_SLOTS { &bin.slots[slot] } else { self.linked_slot(at, links, slot) }
    }

    /// Returns the half bucket behind the first link of the bin at this offset, if the link is set.
    #[inline(always)]
    pub(super) fn first_link_of(&self, offset: usize, links: u64) -> Option<&HalfBucket> {
        let half = (link(links, 0) as usize).checked_sub(1)?;
        let group = offset / (GROUP_BINS * size_of::<Bin>()) * self.halves_per_group;
        Some(self.halves.at(group + half))
    }

    #[inline]
    fn linked_slot(&self, at: usize, links: u64, slot: usize) -> &Slot {
        let which = link_of_slot(slot);
        let within = slot - LINK_STARTS[which];
        let half = link(links, which) as usize - 1 + within / 2;
        let group = at / GROUP_BINS * self.halves_per_group;
        &self.halves.at(group + half).slots[within % 2]
    }

    /// Returns the address of the first link of the bin at this offset, if it has a link.
    #[inline(always)]
    pub(super) fn first_link(&self, offset: usize) -> Option<*const HalfBucket> {
        // Relaxed: a hint. An outdated link word only prefetches a line in vain.
        let links = self.bins.at_offset(offset).links.load(Ordering::Relaxed);
        let half = (link(links, 0) as usize).checked_sub(1)?;
        let group = offset / (GROUP_BINS * size_of::<Bin>()) * self.halves_per_group;
        Some(self.halves.address(group + half))
    }

    /// Sets a slot's link if need be, and returns the link word; `None` if no half buckets are
    /// left.
    pub(super) fn ensure_link(&self, at: usize, bin: &Bin, slot: usize) -> Option<u64> {
        // Acquire: pairs with the release below.
        let mut links = bin.links.load(Ordering::Acquire);
        if slot < PRIMARY_SLOTS {
            return Some(links);
        }
        let which = link_of_slot(slot);
        if link(links, which) != 0 {
            return Some(links);
        }
        let group = at / GROUP_BINS;
        let half = self.take_halves(group, which)?;
        loop {
            let chained = with_link(links, which, half);
            // Release: a thread that follows the link finds it whole. The slots behind it have been
            // zero since the index was made.
            match bin.links.compare_exchange(links, chained, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(chained),
                Err(newer) if link(newer, which) != 0 => {
                    self.give_back(group, which, half);
                    return Some(newer);
                }
                Err(newer) => links = newer,
            }
        }
    }

    fn take_halves(&self, group: usize, which: usize) -> Option<u64> {
        let (cursor, count) = (&self.cursors[group].taken, LINK_HALVES[which]);
        let all = self.halves_in(group) as u64;
        let mut taken = cursor.load(Ordering::Relaxed);
        loop {
            let (bottom, top) = (taken & u64::from(u32::MAX), taken >> 32);
            if bottom + top + count > all {
                return None;
            }
            let (next, half) = if which == 1 {
                (taken + (count << 32), all - top - count)
            } else {
                (taken + count, bottom)
            };
            // Relaxed: the cursor only divides the half buckets among threads.
            match cursor.compare_exchange_weak(taken, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(half + 1),
                Err(newer) => taken = newer,
            }
        }
    }

    /// Undoes the last taking after a lost race to chain. If another thread has taken half buckets
    /// since, the given ones stay unused until the next generation.
    fn give_back(&self, group: usize, which: usize, half: u64) {
        let (cursor, count) = (&self.cursors[group].taken, LINK_HALVES[which]);
        let taken = cursor.load(Ordering::Relaxed);
        let all = self.halves_in(group) as u64;
        let (last, before) = if which == 1 {
            (all - (taken >> 32) + 1, taken.wrapping_sub(count << 32))
        } else {
            ((taken & u64::from(u32::MAX)).wrapping_sub(count) + 1, taken.wrapping_sub(count))
        };
        if last == half {
            let _ = cursor.compare_exchange(taken, before, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    pub(super) fn migration(&self) -> Migrating<'_> {
        // Acquire: pairs with the release in `set_migration`.
        let migration = self.migration.load(Ordering::Acquire);
        if migration.is_null() {
            Migrating::No
        } else if migration == STARTING {
            Migrating::Starting
        } else {
            // SAFETY: invariant 1: the pointer came from a box, and lives as long as this index.
            Migrating::To(unsafe { &*migration })
        }
    }

    /// Returns whether a bin becomes several bins. Then the hashes divide its keys.
    pub(super) fn grows_by(&self, migration: &Migration<Self>) -> bool {
        migration.target.bins.len() > self.bins.len()
    }

    /// Claims the right to start the migration. Returns false if another thread has it.
    pub(super) fn claim_migration(&self) -> bool {
        // Relaxed: the claim publishes nothing.
        self.migration
            .compare_exchange(ptr::null_mut(), STARTING, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Publishes the migration, or takes the claim back.
    pub(super) fn set_migration(&self, migration: Option<Box<Migration<Index>>>) {
        let migration = migration.map_or(ptr::null_mut(), Box::into_raw);
        // Release: a thread that finds the migration finds the new index initialised.
        self.migration.store(migration, Ordering::Release);
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        let migration = self.migration.load(Ordering::Relaxed);
        if !migration.is_null() && migration != STARTING {
            // SAFETY: invariant 1: the pointer came from a box. `&mut self` proves that no other
            // thread uses it.
            drop(unsafe { Box::from_raw(migration) });
        }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn links_are_disjoint_until_they_run_out() {
        let index = Index::new(64, 8).unwrap();
        let (mut taken, mut seen) = (0, std::collections::HashSet::new());
        'all: for at in 0..64 {
            for slot in [3, 5, 9] {
                let Some(links) = index.ensure_link(at, index.bins.at(at), slot) else {
                    break 'all;
                };
                taken += LINK_HALVES[link_of_slot(slot)] as usize;
                for slot in slot..LINK_STARTS[link_of_slot(slot) + 1] {
                    assert!(seen.insert(ptr::from_ref(index.linked_slot(at, links, slot))));
                }
            }
        }
        assert_eq!(index.links_taken(), (taken, 16));
        assert!(taken >= 14, "at most a third link is left over");
    }

    #[test]
    fn the_links_of_the_largest_group_have_numbers() {
        let index = Index::new(GROUP_BINS, 4).unwrap();
        assert!(index.halves_per_group as u64 <= MAX_GROUP_HALVES);
        // Second links are taken from the top.
        let links = index.ensure_link(0, index.bins.at(0), 5).unwrap();
        assert_eq!(link(links, 1) as usize, index.halves_per_group - 1);
        assert_eq!((link(links, 0), link(links, 2)), (0, 0));
    }

    #[test]
    fn a_small_last_group_has_its_own_links_and_some_more() {
        let bins = 2 * GROUP_BINS + 400;
        let index = Index::new(bins, 8).unwrap();
        assert_eq!((index.halves_per_group, index.halves_in_last), (GROUP_BINS / 4, 100 + 60));
        let links = index.ensure_link(bins - 1, index.bins.at(bins - 1), 5).unwrap();
        assert_eq!(link(links, 1), 159);
        let last = ptr::from_ref(index.linked_slot(bins - 1, links, 8)).addr();
        let end = index.halves.address(index.halves.len()).addr();
        assert_eq!((last + size_of::<Slot>(), last % 64), (end, 48));
        let taken = (0..).take_while(|_| index.take_halves(2, 0).is_some()).count();
        assert_eq!((taken, index.links_taken().0), (158, 160));
    }

    #[test]
    fn a_second_link_is_one_cache_line() {
        let index = Index::new(1024, 5).unwrap();
        for at in 0..20 {
            index.ensure_link(at, index.bins.at(at), 3).unwrap();
            let links = index.ensure_link(at, index.bins.at(at), 5).unwrap();
            assert_eq!(ptr::from_ref(index.linked_slot(at, links, 5)).addr() % 64, 0);
        }
    }

    #[test]
    fn the_loser_of_a_race_gives_its_half_bucket_back() {
        let index = Index::new(64, 8).unwrap();
        for which in 0..3 {
            let before = index.links_taken();
            let half = index.take_halves(0, which).unwrap();
            index.give_back(0, which, half);
            assert_eq!(index.links_taken(), before);
        }
    }
}
