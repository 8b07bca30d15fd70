//! The operations of a batch in groups, each of which goes through some stages: what one stage
//! has fetched the next one finds, since there are other groups between.
//!
//! A prefetch whose page's address is not at hand does not retire before the address is. So
//! one of them among the hundred instructions of an operation holds up all of these, while
//! those that follow each other wait side by side. (Gets of TurboHash, 2^22 items in 128 MiB:
//! 79 million a second in groups of 16, 70 with the same stages for each operation by itself,
//! 76 in groups of 8, 77 in groups of 32.)
//!
//! # How far ahead
//! What is fetched must still be in the first-level cache when its turn comes, and headers of
//! buckets of 256 bytes are in a quarter of its sets: on Zen 4, whose cache has 32 KiB, what is
//! fetched as far ahead as is best elsewhere is gone again. (2^22 items: Pea Hash inserts 28 million
//! a second so, and 37 in groups of 8 that are soon over.)
//!
//! Nor can many lines be on their way to that cache: a loop that does nothing else reads 97 million
//! random lines a second there, and 194 million if they are prefetched into the second level. So
//! DLHT, whose bins are one line each, does so. Headers of buckets of four lines gain nothing by it,
//! since there such prefetches do nothing if all are for the same line of four.

use crate::memory::prefetch::{prefetch, prefetch_to_second_level};
use core::ops::Range;
use std::sync::OnceLock;

/// How far ahead of its execution an operation's lines are best fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::table) enum PrefetchDistance {
    Near,
    Far,
}

impl PrefetchDistance {
    /// That of this machine.
    pub(in crate::table) fn here() -> Self {
        static HERE: OnceLock<PrefetchDistance> = OnceLock::new();
        *HERE.get_or_init(|| match first_level_bytes() {
            Some(..=0x8000) => Self::Near,
            _ => Self::Far,
        })
    }

    pub(in crate::table) fn choose<T>(self, near: T, far: T) -> T {
        match self {
            Self::Near => near,
            Self::Far => far,
        }
    }

    /// Fetches a line that is one of many, side by side: into the second-level cache if the first
    /// level bears few, so that twice as many can be under way. (Not the same line of each bucket
    /// of four: see above.)
    #[inline(always)]
    pub(in crate::table) fn fetch<T>(self, address: *const T) {
        match self {
            Self::Near => prefetch_to_second_level(address),
            Self::Far => prefetch(address),
        }
    }

    /// How many operations go through a stage together.
    const fn group(self) -> usize {
        match self {
            Self::Near => 8,
            Self::Far => 16,
        }
    }
}

/// The size of the first-level data cache, if the system tells.
fn first_level_bytes() -> Option<usize> {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    {
        // SAFETY: it takes a number, and returns one or that it knows none.
        let bytes = unsafe { libc::sysconf(libc::_SC_LEVEL1_DCACHE_SIZE) };
        usize::try_from(bytes).ok().filter(|&bytes| bytes > 0)
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
    None
}

/// How many groups later than the first one an operation is at each of the other stages, by how
/// far ahead is best. The last one executes it.
#[derive(Debug)]
pub(in crate::table) struct StageDelays<const STAGES: usize> {
    pub(in crate::table) near: [usize; STAGES],
    pub(in crate::table) far: [usize; STAGES],
}

impl<const STAGES: usize> StageDelays<STAGES> {
    /// The length of a ring for what is known of the operations between the first stage and the
    /// last one.
    pub(in crate::table) const fn ring(&self) -> usize {
        let near = (self.near[STAGES - 1] + 1) * PrefetchDistance::Near.group();
        let far = (self.far[STAGES - 1] + 1) * PrefetchDistance::Far.group();
        (if near > far { near } else { far }).next_power_of_two()
    }

    /// The groups of a batch, and the lags of its stages.
    #[inline(always)]
    pub(in crate::table) fn groups(&self, count: usize) -> (Groups, [usize; STAGES]) {
        self.groups_of(PrefetchDistance::here(), count)
    }

    #[inline(always)]
    fn groups_of(&self, reach: PrefetchDistance, count: usize) -> (Groups, [usize; STAGES]) {
        let lags = reach.choose(self.near, self.far);
        (Groups { count, group: reach.group(), last: lags[STAGES - 1] }, lags)
    }
}

/// The groups of a batch.
#[derive(Debug, Clone, Copy)]
pub(in crate::table) struct Groups {
    count: usize,
    group: usize,
    /// The lag of the last stage.
    last: usize,
}

impl Groups {
    /// The turns that it takes until all groups have been at all stages.
    #[inline(always)]
    pub(in crate::table) fn turns(self) -> Range<usize> {
        0..self.count.div_ceil(self.group) + self.last
    }

    /// The operations that are at a stage that lags so far behind the first one at a turn.
    #[inline(always)]
    pub(in crate::table) fn at(self, turn: usize, lag: usize) -> Range<usize> {
        let first = turn.checked_sub(lag).map_or(self.count, |group| group * self.group);
        first.min(self.count)..(first + self.group).min(self.count)
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    const DELAYS: StageDelays<3> = StageDelays { near: [1, 2, 3], far: [0, 2, 5] };

    #[test]
    fn every_operation_is_at_every_stage_once_and_in_order() {
        for count in [0, 1, 7, 8, 15, 16, 17, 100, 1000] {
            for reach in [PrefetchDistance::Near, PrefetchDistance::Far] {
                let (groups, lags) = DELAYS.groups_of(reach, count);
                assert_eq!(lags, reach.choose(DELAYS.near, DELAYS.far));
                for lag in lags.into_iter().chain([0]) {
                    let turns = groups.turns();
                    let seen: Vec<_> = turns.flat_map(|turn| groups.at(turn, lag)).collect();
                    assert_eq!(seen, (0..count).collect::<Vec<_>>());
                    let mut last = groups.turns().filter(|&turn| !groups.at(turn, lag).is_empty());
                    let group = count.checked_sub(1).map(|at| at / reach.group() + lag);
                    assert_eq!(last.next_back(), group);
                }
            }
        }
    }

    #[test]
    fn a_ring_holds_all_that_is_between() {
        assert!(DELAYS.ring().is_power_of_two());
        for reach in [PrefetchDistance::Near, PrefetchDistance::Far] {
            let (groups, lags) = DELAYS.groups_of(reach, 1000);
            for turn in groups.turns() {
                let (first, last) = (groups.at(turn, lags[2]).start, groups.at(turn, 0).end);
                assert!(last - first.min(last) <= DELAYS.ring());
            }
        }
    }
}
