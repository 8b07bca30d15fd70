//! How an arena in a file learns which places are taken: from the words that were stored when the
//! file was closed, or after a crash from all entries that name a place.
//!
//! Until all entries have been found, no place that was there before is given out. In a medium of
//! epochs such places wait for the next sync, too: the last durable epoch may name other places.

use super::classes::{CLASSES, SPAN, class_of, size_of_class};
use super::spans::{Class, Owner, Search, Span, Totals};
use super::{Arena, SHARDS};
use crate::memory::{Buddies, BuddyExtent, MOST_SIZE, Medium, Region};
use crate::seeded::{Bug, seeded};
use core::sync::atomic::Ordering::Relaxed;
use std::collections::BTreeMap;

/// The spans in use, and the taken places of spans with a class.
type Known = BTreeMap<usize, (Owner, Option<Span>)>;

impl<M: Medium> Arena<M> {
    /// Begins the search for all places that entries name.
    pub(crate) fn begin_search(&self) -> Result<(), crate::Error> {
        let end = self.region.committed() / SPAN;
        self.owners.grow(end)?;
        *self.runs.lock() = Buddies::all_used(end);
        *self.search.lock() = Search::Marking { end };
        self.is_searched.store(true, Relaxed);
        Ok(())
    }

    /// Learns that a place of so many bytes is taken. Returns false if there can be no such place,
    /// or if it was taken before.
    pub(crate) fn mark(&self, offset: usize, bytes: usize) -> bool {
        let search = self.search.lock();
        let Search::Marking { end } = *search else { return false };
        let at = offset / SPAN;
        let Some(class) = class_of(bytes) else {
            let spans = bytes.div_ceil(SPAN);
            let is_free = |at| self.owner(at) == Owner::Nobody;
            if !offset.is_multiple_of(SPAN) || at + spans > end || !(at..at + spans).all(is_free) {
                return false;
            }
            self.set_owner(at, Owner::Alone { spans });
            (at + 1..at + spans).for_each(|at| self.set_owner(at, Owner::Inside));
            self.own_shard().lock().totals.add(bytes, Self::placed(bytes));
            return true;
        };
        let (size, within) = (size_of_class(class), offset % SPAN);
        if at >= end || !within.is_multiple_of(size) {
            return false;
        }
        let shard = match self.owner(at) {
            Owner::Nobody => at % SHARDS,
            Owner::Class { shard, class: other, .. } if other == class => shard,
            _ => return false,
        };
        let mut held = self.shards[shard].lock();
        let index = match self.owner(at) {
            Owner::Class { index, .. } => index,
            _ => {
                let mut span = Span::new(at, class, self.medium.epoch());
                span.is_held = true;
                let index = held.classes[class].insert(span);
                self.set_owner(at, Owner::Class { shard, class, index });
                index
            }
        };
        let is_taken = held.classes[class].mark(index, within / size);
        if is_taken {
            held.totals.add(bytes, size);
        }
        is_taken
    }

    /// Ends the search: all entries were found.
    pub(crate) fn end_search(&self) {
        {
            let mut search = self.search.lock();
            let Search::Marking { end } = *search else { return };
            let epoch = if seeded(Bug::PlaceNotKept) { 0 } else { self.medium.epoch() };
            *search = Search::Ended { end, epoch };
        }
        self.settle_search(self.medium.settled());
    }

    /// Lets free places be used if the last durable epoch is late enough.
    pub(super) fn settle_search(&self, settled: u64) {
        let mut search = self.search.lock();
        let Search::Ended { end, epoch } = *search else { return };
        if epoch > settled {
            return;
        }
        *search = Search::Over;
        self.is_searched.store(false, Relaxed);
        for at in (0..end).filter(|&at| self.owner(at) == Owner::Nobody) {
            self.runs.lock().give_back(BuddyExtent { first: at, size: 0 }, 0);
        }
        for shard in &self.shards {
            for class in &mut shard.lock().classes {
                let held = class.spans_that(|span| span.is_held);
                held.into_iter().for_each(|index| self.let_go(class, index));
            }
        }
    }

    /// Whether it is unknown yet which places may be used.
    #[inline(always)]
    pub(crate) fn is_searched(&self) -> bool {
        self.is_searched.load(Relaxed)
    }

    /// Whether places only wait for a sync before they can be used.
    pub(crate) fn waits_for_sync(&self) -> bool {
        let settled = self.medium.settled();
        matches!(*self.search.lock(), Search::Ended { epoch, .. } if epoch > settled)
    }

    fn let_go(&self, class: &mut Class, index: usize) {
        if class.let_go(index) {
            self.free_span(class, index);
        }
    }

    /// Returns as words which places are taken, for the next process that opens the file; nothing
    /// if this is unknown.
    pub(crate) fn to_words(&self) -> Option<Vec<u64>> {
        if *self.search.lock() != Search::Over {
            return None;
        }
        let len = self.runs.lock().len;
        let mut words = vec![len as u64];
        let mut at = 0;
        while at < len {
            let owner = self.owner(at);
            at += match owner {
                Owner::Alone { spans } => spans,
                _ => 1,
            };
            if let Owner::Class { shard, class, .. } = owner {
                words.push(Owner::Class { shard, class, index: 0 }.word());
                self.of_span(at - 1, |span| words.extend(span.taken()))?;
            } else {
                words.push(owner.word());
            }
        }
        Some(words)
    }

    /// Learns from words which places are taken, by strings of these totals. Returns false, and
    /// changes nothing, if they are not valid.
    pub(crate) fn learn(&self, words: &[u64], totals: Totals) -> bool {
        let held = self.region.committed() / SPAN;
        let Some(known) = read_words(words, held, self.medium.epoch()) else { return false };
        let used = known.iter().flat_map(|(&at, (owner, _))| {
            let spans = if let Owner::Alone { spans } = *owner { spans } else { 1 };
            runs_of(at..at + spans)
        });
        let Some(runs) = Buddies::restore(held, used.collect()) else { return false };
        if self.owners.grow(held).is_err() {
            return false;
        }
        *self.runs.lock() = runs;
        for (at, (owner, span)) in known {
            if let (Owner::Class { shard, class, .. }, Some(span)) = (owner, span) {
                let mut held = self.shards[shard].lock();
                let index = held.classes[class].insert(span);
                self.set_owner(at, Owner::Class { shard, class, index });
                self.let_go(&mut held.classes[class], index);
            } else {
                self.set_owner(at, owner);
            }
        }
        self.own_shard().lock().totals = totals;
        true
    }
}

/// Splits a range into runs.
fn runs_of(mut range: core::ops::Range<usize>) -> impl Iterator<Item = BuddyExtent> {
    core::iter::from_fn(move || {
        let most = range.len().checked_ilog2()?;
        let size = most.min(range.start.trailing_zeros()).min(MOST_SIZE);
        let run = BuddyExtent { first: range.start, size };
        range.start += run.len();
        Some(run)
    })
}

/// Reads the words of a file about at most `held` spans.
fn read_words(words: &[u64], held: usize, epoch: u64) -> Option<Known> {
    let mut known = Known::new();
    let (&len, mut rest) = words.split_first()?;
    let len = usize::try_from(len).ok().filter(|&len| len <= held)?;
    let mut at = 0;
    while at < len {
        let (&word, behind) = rest.split_first()?;
        rest = behind;
        let owner = Owner::of(word);
        let spans = match owner {
            Owner::Nobody => 1,
            Owner::Inside => return None,
            Owner::Alone { spans } => {
                known.insert(at, (owner, None));
                spans
            }
            Owner::Class { shard, class, index } => {
                if shard >= SHARDS || class >= CLASSES || index != 0 {
                    return None;
                }
                let (mut span, read) = Span::of_words(at, class, epoch, rest)?;
                span.is_held = true;
                rest = rest.get(read..)?;
                known.insert(at, (owner, Some(span)));
                1
            }
        };
        at = at.checked_add(spans.max(1)).filter(|&at| at <= len)?;
    }
    rest.is_empty().then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Heap;

    /// An arena with places of all kinds, some of which were given back.
    fn filled() -> (Arena, Vec<(usize, usize)>) {
        let arena = Arena::new(&Heap, 1 << 30).unwrap();
        let sizes = [8, 100, 40_000, 16, 300_000, 1 << 20, 100, 8, 70_000];
        let taken = (0..900).map(|n| sizes[n % sizes.len()]).map(|bytes| {
            let at = arena.allocate(bytes).unwrap();
            (at, bytes)
        });
        let (keep, give): (Vec<_>, Vec<_>) =
            taken.collect::<Vec<_>>().into_iter().partition(|(at, _)| at / 8 % 3 != 0);
        give.into_iter().for_each(|(at, bytes)| arena.give_back(at, bytes));
        (arena, keep)
    }

    fn is_known(arena: &Arena, taken: &[(usize, usize)], spans: usize) {
        assert_eq!(arena.spans(), spans);
        // No taken place is given out.
        for _ in 0..2000 {
            let at = arena.allocate(100).unwrap();
            let is_apart = |&(other, bytes): &(usize, usize)| {
                at + Arena::<Heap>::placed(100) <= other
                    || other + Arena::<Heap>::placed(bytes) <= at
            };
            assert!(taken.iter().all(is_apart), "{at} was taken");
        }
        taken.iter().for_each(|&(at, bytes)| arena.give_back(at, bytes));
    }

    #[test]
    fn what_was_said_is_learned() {
        let (arena, taken) = filled();
        arena.trim();
        let (words, spans) = (arena.to_words().unwrap(), arena.spans());
        let again = Arena::new(&Heap, 1 << 30).unwrap();
        again.region.resize(arena.region.committed()).unwrap();
        // Only words of the right length are accepted.
        let totals = arena.totals();
        assert!(!again.learn(&words[..words.len() - 1], totals) && !again.learn(&[], totals));
        assert!(again.learn(&words, totals));
        assert_eq!(again.totals(), totals);
        is_known(&again, &taken, spans);
    }

    #[test]
    fn what_is_told_is_learned() {
        let (arena, taken) = filled();
        arena.trim();
        let again = Arena::new(&Heap, 1 << 30).unwrap();
        again.region.resize(arena.region.committed()).unwrap();
        again.begin_search().unwrap();
        assert!(taken.iter().all(|&(at, bytes)| again.mark(at, bytes)));
        // Places that are taken, between two places, behind the end, or inside another place.
        assert!(!taken.iter().any(|&(at, bytes)| again.mark(at, bytes)));
        assert!(!again.mark(taken[0].0 + 4, taken[0].1) && !again.mark(1 << 29, 8));
        let large = taken.iter().find(|(_, bytes)| *bytes == 300_000).unwrap();
        assert!(!again.mark(large.0 + SPAN, 8));
        assert_eq!(again.to_words(), None);
        // Meanwhile places behind the old end are given out and given back.
        let old = arena.region.committed();
        assert!((0..100).all(|_| again.allocate(8).unwrap() >= old));
        again.end_search();
        is_known(&again, &taken, arena.spans() + 1);
    }
}
