//! The operations of a batch, in groups (see `docs/batches.md`). Each group goes through some
//! stages. A stage finds the lines that the stage before has fetched, because other groups run in
//! between.
//!
//! A prefetch whose page address is not cached does not retire before that address arrives. One
//! such prefetch among the hundred instructions of an operation holds all of them up; a row of such
//! prefetches waits side by side.
//!
//! # Prefetch distance
//! A fetched line must still be in the first-level cache at its turn. Headers of buckets of 256
//! bytes use a quarter of its sets, so a cache of 32 KiB needs a shorter distance.
//!
//! The first-level cache also limits the lines on their way; the second level allows twice as many. Of two caches
//! of more than 32 KiB that were measured, Intel's keeps some 18 lines on their way, AMD's 58.
//! So there DLHT, whose bins are one line each, prefetches into the second level. Buckets of four
//! lines gain nothing by it: such prefetches do nothing if all are for the same line of four.

use crate::memory::prefetch::{prefetch, prefetch_to_second_level};
use core::ops::Range;
use std::sync::OnceLock;

/// The best distance between the prefetch of an operation's lines and its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::table) enum PrefetchDistance {
    Near,
    Far,
}

impl PrefetchDistance {
    pub(in crate::table) fn here() -> Self {
        static HERE: OnceLock<PrefetchDistance> = OnceLock::new();
        *HERE.get_or_init(|| match first_level_bytes() {
            Some(..=0x8000) => Self::Near,
            _ if is_intel() => Self::Near,
            _ => Self::Far,
        })
    }

    pub(in crate::table) fn choose<T>(self, near: T, far: T) -> T {
        match self {
            Self::Near => near,
            Self::Far => far,
        }
    }

    /// Fetches a line that is one of many, side by side. `Near` fetches into the second-level
    /// cache, so that twice as many lines can be on their way. (Not for the same line of each
    /// bucket of four.)
    #[inline(always)]
    pub(in crate::table) fn fetch<T>(self, address: *const T) {
        match self {
            Self::Near => prefetch_to_second_level(address),
            Self::Far => prefetch(address),
        }
    }

    /// Fetches several lines as [`fetch`](Self::fetch) does.
    #[inline(always)]
    pub(in crate::table) fn fetch_all<T, const N: usize>(self, addresses: [*const T; N]) {
        match self {
            Self::Near => addresses.into_iter().for_each(prefetch_to_second_level),
            Self::Far => addresses.into_iter().for_each(prefetch),
        }
    }

    /// Returns how many operations go through a stage together.
    const fn group(self) -> usize {
        match self {
            Self::Near => 8,
            Self::Far => 16,
        }
    }
}

/// Returns whether Intel made the processor.
fn is_intel() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        #[allow(unused_unsafe, reason = "newer compilers call it safe")]
        // SAFETY: each processor of 64 bits has the instruction, and leaf 0.
        let leaf = unsafe { core::arch::x86_64::__cpuid(0) };
        [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes).as_flattened() == b"GenuineIntel"
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

/// Returns the size of the first-level data cache, if the system reports it.
fn first_level_bytes() -> Option<usize> {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    {
        // SAFETY: `sysconf` takes a number, returns a number, and touches no memory of ours.
        let bytes = unsafe { libc::sysconf(libc::_SC_LEVEL1_DCACHE_SIZE) };
        usize::try_from(bytes).ok().filter(|&bytes| bytes > 0)
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
    None
}

/// The delay of each stage behind the first, in groups, for both distances. The last stage executes
/// the operations.
#[derive(Debug)]
pub(in crate::table) struct StageDelays<const STAGES: usize> {
    pub(in crate::table) near: [usize; STAGES],
    pub(in crate::table) far: [usize; STAGES],
}

impl<const STAGES: usize> StageDelays<STAGES> {
    /// Returns the length of a ring for the operations between the first stage and the last.
    pub(in crate::table) const fn ring(&self) -> usize {
        let near = (self.near[STAGES - 1] + 1) * PrefetchDistance::Near.group();
        let far = (self.far[STAGES - 1] + 1) * PrefetchDistance::Far.group();
        (if near > far { near } else { far }).next_power_of_two()
    }

    /// Returns the groups of a batch, and the delays of its stages.
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

#[derive(Debug, Clone, Copy)]
pub(in crate::table) struct Groups {
    count: usize,
    group: usize,
    last: usize,
}

impl Groups {
    /// Returns the turns until every group has passed every stage.
    #[inline(always)]
    pub(in crate::table) fn turns(self) -> Range<usize> {
        0..self.count.div_ceil(self.group) + self.last
    }

    /// Returns the operations that are, at a turn, in the stage with this delay.
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

    #[cfg(target_os = "linux")]
    #[test]
    fn the_maker_is_that_of_the_system() {
        let told = std::fs::read_to_string("/proc/cpuinfo").expect("the system tells");
        assert_eq!(is_intel(), told.contains("GenuineIntel"));
        if is_intel() {
            assert_eq!(PrefetchDistance::here(), PrefetchDistance::Near);
        }
    }

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
