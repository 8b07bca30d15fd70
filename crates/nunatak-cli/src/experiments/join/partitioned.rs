//! A radix join: both relations are partitioned by bits of the key, so that each part of the build
//! relation fits into a cache. Each thread partitions its share into memory of its own, and then
//! joins parts of all threads (the chunked join of Schuh, Chen and Dittrich, 2016).

use super::relations::{Joined, Relations, Together, Tuple};
use crate::threads::{CheckFailed, throughput};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, OnceLock};

/// How many tuples of the build relation a part has: with its table, about 200 KiB.
const PART: usize = 1 << 13;

/// The most bits of one pass. More parts would be more pages than a core translates at once.
const MOST_BITS: u32 = 11;

/// Returns by how many bits of the key a build relation of so many tuples is partitioned.
pub(super) fn bits(tuples: usize) -> u32 {
    tuples.div_ceil(PART).next_power_of_two().ilog2().min(MOST_BITS)
}

/// A thread's tuples of one relation, by part.
struct Partitioned {
    tuples: Vec<Tuple>,
    /// Where each part ends.
    ends: Vec<usize>,
}

impl Partitioned {
    /// Partitions tuples by the lowest bits of their keys.
    fn new(tuples: &[Tuple], bits: u32) -> Self {
        let part_of = |key: u64| (key & ((1 << bits) - 1)) as usize;
        let mut ends = vec![0; 1 << bits];
        tuples.iter().for_each(|tuple| ends[part_of(tuple.0)] += 1);
        // From sizes to where each part begins. Writing its tuples moves this to where it ends.
        let mut next = 0;
        for end in &mut ends {
            let begin = next;
            next += *end;
            *end = begin;
        }
        let mut partitioned = vec![(0, 0); tuples.len()];
        for &tuple in tuples {
            let at = &mut ends[part_of(tuple.0)];
            partitioned[*at] = tuple;
            *at += 1;
        }
        Self { tuples: partitioned, ends }
    }

    fn part(&self, part: usize) -> &[Tuple] {
        let begin = if part == 0 { 0 } else { self.ends[part - 1] };
        &self.tuples[begin..self.ends[part]]
    }
}

/// The hash table of one part: chains of tuples, by their positions plus one.
#[derive(Default)]
struct Chains {
    tuples: Vec<Tuple>,
    first: Vec<u32>,
    next: Vec<u32>,
    mask: usize,
}

impl Chains {
    fn bucket(&self, key: u64, bits: u32) -> usize {
        // The lowest bits are those of the part. Keys are random, so no hash is needed.
        (key >> bits) as usize & self.mask
    }

    fn build<'t>(&mut self, parts: impl Iterator<Item = &'t [Tuple]>, bits: u32) {
        self.tuples.clear();
        parts.for_each(|tuples| self.tuples.extend_from_slice(tuples));
        self.mask = self.tuples.len().next_power_of_two() - 1;
        self.first.clear();
        self.first.resize(self.mask + 1, 0);
        self.next.clear();
        for at in 0..self.tuples.len() {
            let bucket = self.bucket(self.tuples[at].0, bits);
            self.next.push(self.first[bucket]);
            self.first[bucket] = at as u32 + 1;
        }
    }

    fn probe(&self, tuples: &[Tuple], bits: u32, joined: &mut Joined) {
        for &(key, payload) in tuples {
            let mut at = self.first[self.bucket(key, bits)] as usize;
            while at > 0 {
                let (other, value) = self.tuples[at - 1];
                if other == key {
                    joined.add(payload, value);
                }
                at = self.next[at - 1] as usize;
            }
        }
    }
}

/// Joins the relations and returns millions of tuples of both a second.
pub(super) fn join(relations: &Relations, threads: usize) -> Result<f64, CheckFailed> {
    let bits = bits(relations.build.len());
    let all = Together::default();
    let (is_partitioned, next) = (Barrier::new(threads), AtomicUsize::new(0));
    let of_threads: Vec<OnceLock<[Partitioned; 2]>> =
        (0..threads).map(|_| OnceLock::new()).collect();
    let rate = throughput(threads, |worker| {
        let shares = relations.of_thread(worker.number, threads);
        let mut joined = Joined::default();
        let span = worker.once(|| {
            of_threads[worker.number]
                .get_or_init(|| shares.map(|tuples| Partitioned::new(tuples, bits)));
            is_partitioned.wait();
            let parts = || of_threads.iter().filter_map(OnceLock::get);
            let mut chains = Chains::default();
            loop {
                // Relaxed: the barrier orders the tuples; this only hands out numbers.
                let part = next.fetch_add(1, Relaxed);
                if part >> bits > 0 {
                    break;
                }
                chains.build(parts().map(|[build, _]| build.part(part)), bits);
                for [_, probe] in parts() {
                    chains.probe(probe.part(part), bits, &mut joined);
                }
            }
            shares.iter().map(|tuples| tuples.len() as u64).sum()
        });
        all.add(joined);
        Ok(span)
    })?;
    relations.check(&all)?;
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tuple_is_in_the_part_of_its_bits() {
        let tuples: Vec<Tuple> = (0..1000).map(|at| (at * 7919 % 1009, at)).collect();
        for bits in [0, 3, 11] {
            let partitioned = Partitioned::new(&tuples, bits);
            let mut seen = 0;
            for part in 0..1 << bits {
                for (key, _) in partitioned.part(part) {
                    assert_eq!(*key as usize % (1 << bits), part);
                    seen += 1;
                }
            }
            assert_eq!(seen, tuples.len());
        }
    }

    #[test]
    fn parts_fit_into_a_cache() {
        assert_eq!([1, PART, PART + 1, 1 << 20, 1 << 30].map(bits), [0, 0, 1, 7, MOST_BITS]);
    }
}
