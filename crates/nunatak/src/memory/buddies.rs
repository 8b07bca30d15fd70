//! Allocates extents of elements with a buddy system. An extent has a power of two of elements.
//!
//! Invariants
//! 1. An extent begins at a multiple of its length.
//! 2. An extent that was given back is used again only after every operation that may know it has
//!    ended.
//! 3. The lowest fitting extent is allocated first, so that the end can be given back to the
//!    system.

use crate::error::Error;
use crate::sync::operations_ended;
use std::collections::BTreeMap;

/// An extent has at most two to the power of this many elements.
pub(crate) const MOST_SIZE: u32 = 24;

/// Neighbouring elements; their number is a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BuddyExtent {
    pub(crate) first: usize,
    /// The logarithm of the number of elements.
    pub(crate) size: u32,
}

impl BuddyExtent {
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        1 << self.size
    }
}

#[derive(Debug, Default)]
pub(crate) struct Buddies {
    /// Free extents by size: the first element, and the epoch in which the extent was given back.
    free: [BTreeMap<usize, u64>; MOST_SIZE as usize + 1],
    /// The number of elements, free ones included.
    pub(crate) len: usize,
    /// The largest number of elements so far.
    pub(crate) ever: usize,
    /// No operation knows extents that were given back in this epoch or an earlier one.
    ended: u64,
}

impl Buddies {
    /// Restores the extents of `len` elements, of which `used` are in use. No operation knows the
    /// others. Returns nothing if the extents are not valid.
    #[cfg(durable)]
    pub(crate) fn restore(len: usize, mut used: Vec<BuddyExtent>) -> Option<Self> {
        used.sort_by_key(|extent| extent.first);
        let mut extents = Self { len, ever: len, ..Self::default() };
        let mut end = 0;
        for extent in used {
            let is_sound = extent.size <= MOST_SIZE && extent.first % extent.len() == 0;
            if !is_sound || extent.first < end || extent.first + extent.len() > len {
                return None;
            }
            extents.give_back_all(end..extent.first, 0);
            end = extent.first + extent.len();
        }
        extents.give_back_all(end..len, 0);
        Some(extents)
    }

    /// Creates extents for `len` elements, all of which are in use.
    #[cfg(durable)]
    pub(crate) fn all_used(len: usize) -> Self {
        Self { len, ever: len, ..Self::default() }
    }

    /// Allocates an extent of a size. Also returns whether the extent was used before. `grow` makes
    /// room for a total number of elements.
    pub(crate) fn allocate(
        &mut self,
        size: u32,
        grow: impl FnOnce(usize) -> Result<(), Error>,
    ) -> Result<(BuddyExtent, bool), Error> {
        if size > MOST_SIZE {
            return Err(Error::CapacityOverflow);
        }
        // `ask` interrupts every processor of the process, so extents that are known to be free
        // come first. (Fewer calls of `ask` make tables two fifths larger, and slower by that.)
        let found = self.lowest(size).or_else(|| self.ask(size).then(|| self.lowest(size))?);
        let (first, was) = match found {
            Some(found) => found,
            None => {
                let first = self.len.next_multiple_of(1 << size);
                grow(first + (1 << size))?;
                let gap = self.len;
                self.len = first + (1 << size);
                let is_used = first < self.ever;
                self.ever = self.ever.max(self.len);
                self.give_back_all(gap..first, 0);
                return Ok((BuddyExtent { first, size }, is_used));
            }
        };
        let tag = self.free[was as usize].remove(&first).unwrap_or(0);
        // Gives back the rest of a larger extent.
        for half in size..was {
            self.free[half as usize].insert(first + (1 << half), tag);
        }
        Ok((BuddyExtent { first, size }, true))
    }

    /// Finds the lowest extent of a size or more that no operation knows any more. Returns it with
    /// its size.
    fn lowest(&self, size: u32) -> Option<(usize, u32)> {
        let of_size = |size: u32| {
            // Looks at few extents only: many may have been given back lately.
            let mut free = self.free[size as usize].iter().take(8);
            let (&first, _) = free.find(|&(_, &tag)| tag <= self.ended)?;
            Some((first, size))
        };
        (size..=MOST_SIZE).filter_map(of_size).min()
    }

    /// Asks whether operations still know free extents of a size or more. Returns true if no
    /// operation does.
    fn ask(&mut self, size: u32) -> bool {
        let tags = self.free[size as usize..].iter().flat_map(|free| free.values().take(8));
        tags.copied().max().is_some_and(|newest| self.is_unknown(newest))
    }

    /// Returns whether every operation has ended that may know an extent given back in epoch `tag`.
    /// No operation knows an extent of epoch zero.
    fn is_unknown(&mut self, tag: u64) -> bool {
        if tag > self.ended && operations_ended(tag, false) {
            self.ended = tag;
        }
        tag <= self.ended
    }

    /// Gives back neighbouring elements, as [`give_back`](Self::give_back) does.
    pub(crate) fn give_back_all(&mut self, range: core::ops::Range<usize>, tag: u64) {
        let mut from = range.start;
        while from < range.end {
            let size = from.trailing_zeros().min((range.end - from).ilog2()).min(MOST_SIZE);
            self.give_back(BuddyExtent { first: from, size }, tag);
            from += 1 << size;
        }
    }

    /// Gives back an extent that no further operation can find. `tag` is the present epoch.
    pub(crate) fn give_back(&mut self, extent: BuddyExtent, tag: u64) {
        let BuddyExtent { mut first, mut size } = extent;
        let mut tag = tag;
        while size < MOST_SIZE
            && let Some(other) = self.free[size as usize].remove(&(first ^ (1 << size)))
        {
            tag = tag.max(other);
            first &= !(1 << size);
            size += 1;
        }
        self.free[size as usize].insert(first, tag);
    }

    /// Returns whether a free extent lies below an element.
    pub(crate) fn has_below(&mut self, size: u32, element: usize) -> bool {
        self.ask(size);
        self.lowest(size).is_some_and(|(first, _)| first < element)
    }

    /// Removes the free extents at the end that no operation knows. Returns whether there were any.
    pub(crate) fn trim(&mut self) -> bool {
        let before = self.len;
        loop {
            let last = (0..=MOST_SIZE).find_map(|size| {
                let (&first, &tag) = self.free[size as usize].last_key_value()?;
                (first + (1 << size) == self.len).then_some((size, tag))
            });
            let last = last.and_then(|(size, tag)| self.is_unknown(tag).then_some(size));
            let Some(size) = last else { return self.len < before };
            self.len -= 1 << size;
            self.free[size as usize].remove(&self.len);
        }
    }

    /// Returns the number of free elements.
    pub(crate) fn free(&self) -> usize {
        (0..).zip(&self.free).map(|(size, free)| free.len() << size).sum()
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn runs_are_apart_and_all_come_back() {
        let mut extents = Buddies::default();
        let mut taken: Vec<BuddyExtent> = Vec::new();
        let mut random = 1_u64;
        for round in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if random >> 63 == 0 || taken.is_empty() {
                let size = (random >> 50) as u32 % 6;
                let (extent, _) = extents.allocate(size, |_| Ok(())).unwrap();
                assert_eq!((extent.size, extent.first % extent.len()), (size, 0));
                let is_apart = |other: &BuddyExtent| {
                    extent.first + extent.len() <= other.first
                        || other.first + other.len() <= extent.first
                };
                assert!(taken.iter().all(is_apart), "{extent:?} overlaps another");
                taken.push(extent);
            } else {
                let extent = taken.swap_remove((random >> 20) as usize % taken.len());
                extents.give_back(extent, 0);
            }
            if round % 64 == 0 {
                let used: usize = taken.iter().map(|extent| extent.len()).sum();
                assert_eq!(used + extents.free(), extents.len);
            }
        }
        taken.drain(..).for_each(|extent| extents.give_back(extent, 0));
        assert!(extents.trim());
        assert_eq!((extents.len, extents.free()), (0, 0));
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn what_was_in_use_is_not_given_out_again() {
        let used = [BuddyExtent { first: 8, size: 2 }, BuddyExtent { first: 1, size: 0 }];
        let mut extents = Buddies::restore(13, used.to_vec()).unwrap();
        assert_eq!((extents.len, extents.free()), (13, 8));
        let mut taken = used.to_vec();
        for _ in 0..8 {
            let (extent, is_used) = extents.allocate(0, |_| Ok(())).unwrap();
            let is_apart = |other: &BuddyExtent| {
                !(other.first..other.first + other.len()).contains(&extent.first)
            };
            assert!(is_used && taken.iter().all(is_apart), "{extent:?}");
            taken.push(extent);
        }
        assert_eq!(
            extents.allocate(0, |_| Ok(())).unwrap(),
            (BuddyExtent { first: 13, size: 0 }, false)
        );
        let refused = [
            vec![BuddyExtent { first: 2, size: 2 }],
            vec![BuddyExtent { first: 4, size: 2 }, BuddyExtent { first: 5, size: 0 }],
            vec![BuddyExtent { first: 12, size: 1 }],
            vec![BuddyExtent { first: 0, size: MOST_SIZE + 1 }],
        ];
        for used in refused {
            assert!(Buddies::restore(13, used.clone()).is_none(), "{used:?}");
        }
    }

    #[test]
    fn there_are_extents_of_the_largest_size_and_no_larger_ones() {
        let mut extents = Buddies::default();
        let largest =
            [0, 1].map(|number| BuddyExtent { first: number << MOST_SIZE, size: MOST_SIZE });
        for extent in largest {
            assert_eq!(extents.allocate(MOST_SIZE, |_| Ok(())), Ok((extent, false)));
        }
        largest.into_iter().for_each(|extent| extents.give_back(extent, 0));
        assert_eq!(extents.free(), 2 << MOST_SIZE);
        #[cfg(durable)]
        assert!(Buddies::restore(1 << MOST_SIZE, vec![largest[0]]).is_some());
    }

    #[test]
    fn neighbours_become_one_in_any_order() {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
            let mut extents = Buddies::default();
            for _ in 0..4 {
                extents.allocate(0, |_| Ok(())).unwrap();
            }
            for first in order {
                extents.give_back(BuddyExtent { first, size: 0 }, 0);
            }
            let all = (BuddyExtent { first: 0, size: 2 }, true);
            assert_eq!(extents.allocate(2, |_| Ok(())), Ok(all), "{order:?}");
        }
    }

    #[test]
    fn what_has_no_room_takes_nothing() {
        let mut extents = Buddies::default();
        extents.allocate(0, |_| Ok(())).unwrap();
        let refused = extents.allocate(3, |_| Err(Error::CapacityOverflow));
        assert_eq!(refused, Err(Error::CapacityOverflow));
        assert_eq!((extents.len, extents.free()), (1, 0));
        assert_eq!(extents.allocate(MOST_SIZE + 1, |_| Ok(())), Err(Error::CapacityOverflow));
        assert_eq!(
            extents.allocate(1, |_| Ok(())).unwrap(),
            (BuddyExtent { first: 2, size: 1 }, false)
        );
        // The gap before the larger extent.
        assert_eq!(
            extents.allocate(0, |_| Ok(())).unwrap(),
            (BuddyExtent { first: 1, size: 0 }, true)
        );
    }
}
