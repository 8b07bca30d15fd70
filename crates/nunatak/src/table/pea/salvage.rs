//! Reads a damaged table: segments for hashes that no descriptor names.
//!
//! The lost descriptor's segment is still in the file. Its pairs tell which hashes it had, but for
//! the highest bit. That is noted in each bucket that has pairs, and in the segment: without it, the
//! pairs of a segment that was given back, or of an earlier page, would seem to be others.
//!
//! The segment also says whether it was given back. If the page that says so is lost, or an earlier
//! one, the segment may have been given back since: its pairs are doubtful, and its pointers name the
//! values that they have named only if these have not changed since.

use super::Table;
use super::durable::HALVES;
use super::geometry::{MOST_DEPTH, first_bucket, second_bucket};
use super::recovery::Described;
use super::split::SPARSE;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::memory::durable::{Forced, Paged};
use crate::table::shared::bucket::{Header, Layout, SLOTS};
use core::cmp::Reverse;
use core::ops::RangeInclusive;
use std::collections::{BTreeMap, HashSet};

/// What a segment of a damaged file says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Usage {
    InUse,
    /// The page that says so is of this epoch, and there was a later one.
    InUseUntil(u64),
    GivenBack,
    Unknown,
}

/// The hashes of the pairs that a segment seems to have.
struct Candidate {
    segment: usize,
    usage: Usage,
    hashes: Vec<u64>,
}

impl Candidate {
    /// Returns how many bits all hashes have in common.
    fn common_bits(&self) -> u32 {
        let first = self.hashes.first().copied().unwrap_or(0);
        let differ = self.hashes.iter().fold(0, |bits, hash| bits | (hash ^ first));
        differ.leading_zeros()
    }

    /// Returns the depth of the segment, if it has enough pairs to tell: the pairs of one in a
    /// thousand seem to be of a deeper segment.
    fn depth(&self) -> Option<u32> {
        (self.hashes.len() > 10).then(|| self.common_bits())
    }
}

/// Returns the range that a hash is in. The ranges are in order and apart.
fn gap_of(gaps: &[RangeInclusive<u64>], hash: u64) -> Option<&RangeInclusive<u64>> {
    let next = gaps.partition_point(|gap| *gap.end() < hash);
    gaps.get(next).filter(|gap| gap.contains(&hash))
}

/// Segments by their first hashes, which have no hash in common.
#[derive(Default)]
struct Filled(BTreeMap<u64, Described>);

impl Filled {
    /// Returns the last segment that begins at a hash or before it.
    fn before(&self, hash: u64) -> Option<Described> {
        self.0.range(..=hash).next_back().map(|(_, &one)| one)
    }

    fn has_room_for(&self, new: &Described) -> bool {
        self.before(new.last()).is_none_or(|one| one.last() < new.hash)
    }
}

/// Returns the depth beyond which segments of that many are no usual ones: a split that made the directory
/// sparser was refused, but pairs may have been removed since. Pairs in chains can have made it deeper.
fn deepest_of(held: usize) -> u32 {
    (held.max(1).ilog2() + 2 * SPARSE.ilog2()).min(MOST_DEPTH)
}

impl<P: HashCodec> Table<P, Paged> {
    /// Returns segments for the hashes in the gaps, among those that no descriptor names. Each gap
    /// is filled.
    pub(super) fn fill_gaps(
        &self,
        chosen: &[Described],
        gaps: &[RangeInclusive<u64>],
        held: usize,
    ) -> Vec<Described> {
        let is_chosen: HashSet<usize> = chosen.iter().map(|one| one.segment).collect();
        let free = (0..held).filter(|segment| !is_chosen.contains(segment));
        let mut candidates: Vec<Candidate> = free
            .map(|segment| (segment, self.usage_of(segment)))
            .filter(|&(_, usage)| self.may_count(usage))
            .map(|(segment, usage)| Candidate {
                segment,
                usage,
                hashes: self.hashes_within(segment, gaps),
            })
            .collect();
        // Segments that were split may still have their pairs: those that took their place are
        // deeper.
        candidates.sort_by_key(|one| {
            let is_in_use = one.usage == Usage::InUse;
            Reverse((is_in_use, one.depth().unwrap_or(0), one.hashes.len()))
        });
        // No lost segment is deeper than its neighbours: those were made by the same split.
        let of_chosen = chosen.iter().map(|one| one.depth).max();
        let of_candidates = || candidates.iter().find_map(Candidate::depth);
        let of_pairs = || of_candidates().map_or(1, |depth| depth.clamp(1, deepest_of(held)));
        let most = of_chosen.unwrap_or_else(of_pairs);
        let mut filled = Filled::default();
        candidates.retain(|candidate| {
            let Some(&first) = candidate.hashes.first() else { return true };
            let depth = candidate.common_bits().clamp(1, most);
            let hash = first >> (64 - depth) << (64 - depth);
            let one = Described { segment: candidate.segment, hash, depth, strategy: 0 };
            let is_in = gap_of(gaps, hash).is_some_and(|gap| gap.contains(&one.last()));
            let fits = is_in && filled.has_room_for(&one);
            if fits {
                self.doubt(one.segment, candidate.usage);
                filled.0.insert(hash, one);
            }
            !fits
        });
        // Nothing is known of the rest. Segments without pairs there stand for it.
        let mut others = candidates.into_iter().rev();
        let absent = self.segments.first_absent();
        let mut stand_in = |hash: u64| {
            let is_of_half =
                |&segment: &usize| self.half_of(segment) == Some((hash >> 63) as usize);
            let named = chosen.iter().map(|one| one.segment);
            let any = named.filter(|&segment| segment < held).find(is_of_half);
            let other = others.find(|one| is_of_half(&one.segment)).map(|one| {
                self.doubt(one.segment, one.usage);
                one.segment
            });
            other.or(any).unwrap_or(absent)
        };
        // Damaged hashes may have any number of bits in common, so the depths of stand-ins follow
        // from the number of segments.
        let usual = most.min(held.max(2).next_power_of_two().ilog2());
        for gap in gaps {
            let mut next = Some(*gap.start());
            while let Some(hash) = next.filter(|hash| gap.contains(hash)) {
                let here = filled.before(hash).filter(|one| one.last() >= hash);
                let one = here.unwrap_or_else(|| {
                    let of = |depth| Described { segment: 0, hash, depth, strategy: 0 };
                    let is_free = |one: &Described| {
                        one.hash << one.depth == 0
                            && gap.contains(&one.last())
                            && filled.has_room_for(one)
                    };
                    // Gaps and segments begin where segments of the greatest depth do.
                    let widest = (usual..most).map(of).find(is_free).unwrap_or_else(|| of(most));
                    let one = Described { segment: stand_in(hash), ..widest };
                    filled.0.insert(hash, one);
                    one
                });
                next = one.last().checked_add(1);
            }
        }
        filled.0.into_values().collect()
    }

    /// Leaves out descriptors that may be earlier ones, of segments that were given back since, and
    /// those of unusual depths in damaged pages: they could ask for a directory of gigabytes.
    pub(super) fn leave_out_doubtful(&self, all: &mut Vec<Described>, held: usize) {
        all.retain(|one| {
            let descriptor = self.segments.descriptor(one.segment);
            let is_right = || descriptor.is_some_and(|it| self.medium.epoch_of(it).is_some());
            if one.depth > deepest_of(held) && !is_right() {
                return false;
            }
            if one.segment >= held || !descriptor.is_some_and(|it| self.medium.may_be_earlier(it)) {
                return true;
            }
            let usage = self.usage_of(one.segment);
            self.doubt(one.segment, usage);
            self.may_count(usage)
        });
    }

    fn usage_of(&self, segment: usize) -> Usage {
        let stash = self.segments.stash(segment)[0];
        let header = stash.header();
        let Some(epoch) = self.medium.epoch_of(stash) else { return Usage::Unknown };
        match (HALVES.map(|half| header.has(half)), self.medium.may_be_earlier(stash)) {
            ([true, true], false) => Usage::GivenBack,
            ([true, false] | [false, true], false) => Usage::InUse,
            ([true, false] | [false, true], true) => Usage::InUseUntil(epoch),
            _ => Usage::Unknown,
        }
    }

    /// Whether the pairs of a segment are read.
    fn may_count(&self, usage: Usage) -> bool {
        let are_doubtful_read = self.medium.pool().forced() == Some(Forced::Everything);
        usage == Usage::InUse || usage != Usage::GivenBack && are_doubtful_read
    }

    /// Notes in the pages of a segment that it may have been given back.
    fn doubt(&self, segment: usize, usage: Usage) {
        let until = match usage {
            Usage::InUse => return,
            Usage::InUseUntil(epoch) => epoch,
            Usage::GivenBack | Usage::Unknown => 0,
        };
        self.segments.all(segment).for_each(|bucket| self.medium.doubt(bucket, until));
    }

    /// Returns the half of the hashes that a segment says its pairs have: most of its buckets, or in files of
    /// earlier builds its stash.
    fn half_of(&self, segment: usize) -> Option<usize> {
        let mut buckets = [0_usize; 2];
        let halves = self.segments.all(segment).filter_map(|bucket| bucket.header().half());
        halves.for_each(|half| buckets[half] += 1);
        if buckets != [0, 0] {
            return Some(usize::from(buckets[1] > buckets[0]));
        }
        let stash = self.segments.stash(segment)[0];
        if self.medium.may_be_earlier(stash) {
            return None;
        }
        let header = stash.header();
        match HALVES.map(|half| header.has(half)) {
            [true, false] => Some(0),
            [false, true] => Some(1),
            _ => None,
        }
    }

    /// Returns the hashes of a segment's pairs that are within the gaps, in buckets where such pairs
    /// may be.
    fn hashes_within(&self, segment: usize, gaps: &[RangeInclusive<u64>]) -> Vec<u64> {
        let (mask, per_segment) = (self.mask(), self.segments.per_segment);
        let mut hashes = Vec::new();
        let Some(half) = self.half_of(segment) else { return hashes };
        for (at, bucket) in self.segments.all(segment).enumerate() {
            if P::WORDS_ARE_KEYS && !self.may_be_of_half(bucket, half) {
                continue;
            }
            for slot in 0..SLOTS {
                let (word, _) = bucket.pair(slot, self.pairs_load_whole);
                let tag = self.marking().tag(word);
                if word == 0 || !self.codec.is_tag(tag) {
                    continue;
                }
                let hash = self.codec.hash_of_tag(tag, half);
                let is_there = at >= per_segment
                    || at == first_bucket(hash, mask)
                    || at == second_bucket(hash, mask);
                if is_there && gap_of(gaps, hash).is_some() {
                    hashes.push(hash);
                }
            }
        }
        hashes
    }
}
