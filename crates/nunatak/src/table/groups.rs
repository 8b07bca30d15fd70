//! The operations of a batch in groups, each of which goes through some stages: what one stage
//! has fetched the next one finds, since there are other groups between.
//!
//! A prefetch whose page's address is not at hand does not retire before the address is. So
//! one of them among the hundred instructions of an operation holds up all of these, while
//! those that follow each other wait side by side. (Gets of TurboHash, 2^22 items in 128 MiB:
//! 79 million a second in groups of 16, 70 with the same stages for each operation by itself,
//! 76 in groups of 8, 77 in groups of 32.)

use core::ops::Range;

/// How many operations go through a stage together.
pub(super) const GROUP: usize = 16;

/// The groups of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Groups {
    count: usize,
}

impl Groups {
    pub(super) fn new(count: usize) -> Self {
        Self { count }
    }

    /// The turns that it takes until all groups have been at a stage that lags so far behind
    /// the first one.
    #[inline(always)]
    pub(super) fn turns(self, lag: usize) -> Range<usize> {
        0..self.count.div_ceil(GROUP) + lag
    }

    /// The operations that are at such a stage at a turn.
    #[inline(always)]
    pub(super) fn at(self, turn: usize, lag: usize) -> Range<usize> {
        let first = turn.checked_sub(lag).map_or(self.count, |group| group * GROUP);
        first.min(self.count)..(first + GROUP).min(self.count)
    }
}

/// The length of a ring for what is known of the operations between the first stage and one
/// that lags so far behind.
pub(super) const fn ring(lag: usize) -> usize {
    ((lag + 1) * GROUP).next_power_of_two()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::hash::HashPlacement;
    use crate::table::{ByWord, Change, Design, Dlht, Iceberg, PairTable, Pea, Turbo};

    /// What was fetched ahead is a hint: each lookup finds what is there when its turn comes.
    fn a_batch_sees_what_happens_while_it_runs<D: Design>() {
        const COUNT: u64 = 200;
        // Enough for all tables to grow.
        const MANY: usize = 1 << 18;
        let table = D::table(HashPlacement, 0).unwrap();
        // Words of which a placement by hashes needs no mixing.
        let word = |number: u64| (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let put = |number, value| {
            let _ = table.apply(word(number), &ByWord, Some(value), |_| Change::To(value));
        };
        (0..COUNT - 1).for_each(|number| put(number, number));
        let mut turns = 0;
        table.find_many(
            COUNT as usize,
            |at| word(at as u64),
            |_| ByWord,
            |at, found| {
                let at = at as u64;
                match at {
                    // Every place, then every value, a key that goes and one that comes.
                    0 => {
                        assert_eq!(found, Some(0));
                        table.reserve(MANY).unwrap();
                        (0..COUNT).for_each(|number| put(number, number + 1000));
                        table.apply(word(70), &ByWord, None, |_| Change::Remove);
                    }
                    70 => assert_eq!(found, None),
                    _ => assert_eq!(found, Some(at + 1000)),
                }
                turns += 1;
            },
        );
        assert_eq!(turns, COUNT);
    }

    #[test]
    fn batches_see_what_happens_while_they_run() {
        a_batch_sees_what_happens_while_it_runs::<Dlht>();
        a_batch_sees_what_happens_while_it_runs::<Iceberg>();
        a_batch_sees_what_happens_while_it_runs::<Pea>();
        a_batch_sees_what_happens_while_it_runs::<Turbo>();
    }

    #[test]
    fn every_operation_is_at_every_stage_once_and_in_order() {
        for count in [0, 1, 15, 16, 17, 100, 1000] {
            for lag in 0..5 {
                let groups = Groups::new(count);
                let turns = || groups.turns(4);
                let seen: Vec<_> = turns().flat_map(|turn| groups.at(turn, lag)).collect();
                assert_eq!(seen, (0..count).collect::<Vec<_>>());
                let last = turns().flat_map(|turn| groups.at(turn, lag).map(move |_| turn)).last();
                assert_eq!(last, count.checked_sub(1).map(|at| at / GROUP + lag));
            }
        }
    }

    #[test]
    fn a_ring_holds_all_that_is_between() {
        for lag in 0..10 {
            let groups = Groups::new(1000);
            for turn in groups.turns(lag) {
                let (first, last) = (groups.at(turn, lag).start, groups.at(turn, 0).end);
                assert!(last - first.min(last) <= ring(lag) && ring(lag).is_power_of_two());
            }
        }
    }
}
