//! The limit: how many random cache lines this machine can read, modify, or compare and swap in a
//! second, and how fast it follows pointers.
//!
//! A map whose operations each access a line in memory can't do more operations than that. So the
//! throughput of each operation is reported as a share of the limit. The addresses come from a
//! counter and two multiplications, never from loaded data. Each line is prefetched a number of
//! accesses ahead; the best prefetch distance counts.

use crate::statistics::Summary;
use crate::threads::{CheckFailed, Worker, throughput};
use crate::workloads::AccessClass;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::hint::black_box;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Prefetch distances to try, in accesses; zero means no prefetch. The largest exceed what
/// processors keep in flight, so the best distance is in the list.
const DISTANCES: [u64; 9] = [0, 8, 16, 24, 32, 48, 64, 96, 128];

/// How many accesses a thread does between two looks at the clock.
const BLOCK: u64 = 8192;

const HUGE_PAGE: usize = 2 << 20;

/// A cache line. Accesses modify the first word; the last word is the number of the next line in
/// the chase.
#[repr(C, align(64))]
struct Line {
    modified: AtomicU64,
    unused: [AtomicU64; 6],
    next: AtomicU64,
}

/// Anonymous memory in huge pages, all of it touched.
pub(crate) struct Probe {
    base: NonNull<c_void>,
    mapped: usize,
    lines: NonNull<[Line]>,
    samples: BTreeMap<usize, Samples>,
}

// SAFETY: the probe owns the mapping, and the lines are atomics.
unsafe impl Sync for Probe {}

/// The measurements with one number of threads.
#[derive(Debug, Default)]
struct Samples {
    accesses: BTreeMap<(AccessClass, u64), Vec<f64>>,
    chases: Vec<f64>,
    pairs: BTreeMap<u64, Vec<f64>>,
    second_level: BTreeMap<u64, Vec<f64>>,
}

/// The limits with one number of threads, in millions a second: medians of the
/// repetitions at the best prefetch distance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Limit {
    pub(crate) reads_mops: f64,
    pub(crate) rmw_mops: f64,
    pub(crate) cas_mops: f64,
    pub(crate) chase_mops: f64,
    /// The prefetch distance of the reads, in accesses.
    pub(crate) best_distance: u64,
    pub(crate) rmw_best_distance: u64,
    pub(crate) cas_best_distance: u64,
    /// Reads a second without prefetching, for comparison.
    pub(crate) unprefetched_reads_mops: f64,
    /// Reads of a line that names a second line, and of the second line, as in a map with
    /// fingerprints. At the best prefetch distance, and without prefetching.
    #[serde(default)]
    pub(crate) pairs_mops: f64,
    #[serde(default)]
    pub(crate) unprefetched_pairs_mops: f64,
    /// Reads of lines that are prefetched into the second-level cache, at the best distance. Some
    /// processors have room for more outstanding lines there.
    #[serde(default)]
    pub(crate) second_level_reads_mops: f64,
}

impl Limit {
    pub(crate) fn of(&self, class: AccessClass) -> f64 {
        match class {
            AccessClass::Reads => self.reads_mops,
            AccessClass::Rmw => self.rmw_mops,
            AccessClass::Cas => self.cas_mops,
        }
    }
}

impl Probe {
    /// Maps and touches `bytes` bytes, a power of two.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let mapped = bytes + HUGE_PAGE;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, at an address that the system chooses.
        let base = unsafe { mmap_anonymous(null_mut(), mapped, protection, flags)? };
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        let to_huge_page = base.as_ptr().align_offset(HUGE_PAGE);
        // SAFETY: `to_huge_page` is at most a huge page, and the mapping has a huge page more than
        // `bytes`.
        let start = unsafe { base.byte_add(to_huge_page) };
        #[cfg(target_os = "linux")]
        // SAFETY: the range is mapped, and the advice changes no content.
        unsafe {
            // If the system grants no huge pages, the probe measures small pages.
            let _ = rustix::mm::madvise(start.as_ptr(), bytes, rustix::mm::Advice::LinuxHugepage);
        }
        let count = bytes / size_of::<Line>();
        let probe = Self {
            base,
            mapped,
            lines: NonNull::slice_from_raw_parts(start.cast(), count),
            samples: BTreeMap::new(),
        };
        for (at, line) in probe.lines().iter().enumerate() {
            line.next.store(successor(at as u64, count as u64), Relaxed);
            line.unused[0].store(1, Relaxed);
        }
        Ok(probe)
    }

    fn lines(&self) -> &[Line] {
        // SAFETY: the lines are mapped until the probe is dropped, and zeroed; all accesses are
        // atomic.
        unsafe { self.lines.as_ref() }
    }

    /// Measures everything once: one round of the interleaved repetitions.
    pub(crate) fn measure(&mut self, threads: usize, time: Duration) -> Result<(), CheckFailed> {
        let mut round = Samples::default();
        for class in AccessClass::ALL {
            for distance in DISTANCES {
                let mops =
                    throughput(threads, |worker| Ok(self.accesses(worker, class, distance, time)))?;
                round.accesses.insert((class, distance), vec![mops]);
            }
        }
        for distance in DISTANCES {
            let mops = throughput(threads, |worker| Ok(self.pairs(worker, distance, time)))?;
            round.pairs.insert(distance, vec![mops]);
            let mops = throughput(threads, |worker| {
                Ok(self.repeat(worker, distance, time, prefetch_to_second_level, read))
            })?;
            round.second_level.insert(distance, vec![mops]);
        }
        round.chases.push(throughput(threads, |worker| Ok(self.chase(worker, time)))?);
        let all = self.samples.entry(threads).or_default();
        for (key, samples) in round.accesses {
            all.accesses.entry(key).or_default().extend(samples);
        }
        for (distance, samples) in round.pairs {
            all.pairs.entry(distance).or_default().extend(samples);
        }
        for (distance, samples) in round.second_level {
            all.second_level.entry(distance).or_default().extend(samples);
        }
        all.chases.extend(round.chases);
        Ok(())
    }

    fn accesses(
        &self,
        worker: &Worker<'_>,
        class: AccessClass,
        distance: u64,
        time: Duration,
    ) -> crate::threads::Span {
        let modify = |line: &Line| {
            let value = line.modified.load(Relaxed);
            line.modified.store(value + 1, Relaxed);
            value
        };
        let swap = |line: &Line| {
            let value = line.modified.load(Relaxed);
            let swapped = line.modified.compare_exchange(value, value + 1, Relaxed, Relaxed);
            value + u64::from(swapped.is_ok())
        };
        match class {
            AccessClass::Reads => self.repeat(worker, distance, time, prefetch, read),
            AccessClass::Rmw => self.repeat(worker, distance, time, prefetch, modify),
            AccessClass::Cas => self.repeat(worker, distance, time, prefetch, swap),
        }
    }

    /// Reads without prefetching, with `N` independent instructions beside each read. With
    /// `RESULTS` each instruction has a result. This is the work of a lookup that is not in a
    /// batch.
    pub(crate) fn reads_beside<const N: usize, const RESULTS: bool>(
        &self,
        worker: &Worker<'_>,
        time: Duration,
    ) -> crate::threads::Span {
        self.repeat(worker, 0, time, prefetch, |line| {
            instructions::<N, RESULTS>(line);
            line.modified.load(Relaxed)
        })
    }

    /// Reads as batches do: prefetches sixteen lines, and reads them three such groups later, with
    /// `N` instructions beside each read that have results. With `CACHED` it uses so few lines that
    /// they stay in the processor's caches.
    pub(crate) fn reads_in_groups<const N: usize, const CACHED: bool>(
        &self,
        worker: &Worker<'_>,
        time: Duration,
    ) -> crate::threads::Span {
        const GROUP: usize = 16;
        const GROUPS: usize = 4;
        const _: () = assert!(BLOCK.is_multiple_of((GROUP * GROUPS) as u64));
        let lines = self.lines();
        let count = if CACHED { lines.len().min(1 << 12) } else { lines.len() };
        let shift = 64 - count.trailing_zeros();
        let mut at = (worker.number as u64) << 40;
        let mut groups = [[&lines[0]; GROUP]; GROUPS];
        let mut sum = 0_u64;
        let span = worker.repeat(time, || {
            for _ in 0..BLOCK / (GROUP * GROUPS) as u64 {
                for group in 0..GROUPS {
                    for line in &mut groups[group] {
                        // SAFETY: `place` returns an index below `count`, which is at most the
                        // number of lines.
                        *line = unsafe { lines.get_unchecked(place(at, shift)) };
                        prefetch(line);
                        at += 1;
                    }
                    for line in groups[(group + 1) % GROUPS] {
                        instructions::<N, true>(line);
                        sum = sum.wrapping_add(line.modified.load(Relaxed));
                    }
                }
            }
            BLOCK
        });
        black_box(sum);
        span
    }

    fn repeat(
        &self,
        worker: &Worker<'_>,
        distance: u64,
        time: Duration,
        fetch: impl Fn(&Line),
        access: impl Fn(&Line) -> u64,
    ) -> crate::threads::Span {
        let lines = self.lines();
        let shift = 64 - lines.len().trailing_zeros();
        // Distinct counters for each thread and each distance give distinct random lines.
        let mut at = ((worker.number as u64) << 40) + (distance << 32);
        let mut sum = 0u64;
        let span = worker.repeat(time, || {
            let end = at + BLOCK;
            if distance == 0 {
                for n in at..end {
                    // SAFETY: `place` returns an index below the number of lines.
                    sum = sum.wrapping_add(access(unsafe { lines.get_unchecked(place(n, shift)) }));
                }
            } else {
                for n in at..end {
                    // SAFETY: as above.
                    fetch(unsafe { lines.get_unchecked(place(n + distance, shift)) });
                    // SAFETY: as above.
                    sum = sum.wrapping_add(access(unsafe { lines.get_unchecked(place(n, shift)) }));
                }
            }
            at = end;
            BLOCK
        });
        black_box(sum);
        span
    }

    /// Accesses one word of each of `group` lines, then of the next group. Each group begins at a
    /// random line; its other lines follow it (`SEQUENTIAL`) or are random as well. With `WRITES` a
    /// fence ends each group of stores. A group of reads begins where the last one has read, if
    /// `waits`: so the time of a group is its latency. Counts groups.
    pub(crate) fn groups<const SEQUENTIAL: bool, const WRITES: bool>(
        &self,
        worker: &Worker<'_>,
        (group, waits): (usize, bool),
        time: Duration,
    ) -> crate::threads::Span {
        let lines = self.lines();
        let (shift, mask) = (64 - lines.len().trailing_zeros(), lines.len() - 1);
        let (mut at, mut sum) = ((worker.number as u64) << 40, 0_u64);
        let groups = (BLOCK / group as u64).max(1);
        // Zero, which the compiler does not know.
        let nothing = black_box(0);
        let span = worker.repeat(time, || {
            for _ in 0..groups {
                let offset = if waits { (sum & nothing) as usize } else { 0 };
                let first = place(at, shift);
                for n in 0..group {
                    let line = match SEQUENTIAL {
                        true => first + n,
                        false => place(at + n as u64, shift),
                    };
                    let line = &lines[(line + offset) & mask];
                    if WRITES {
                        line.modified.store(at, Relaxed);
                    } else {
                        sum = sum.wrapping_add(line.modified.load(Relaxed));
                    }
                }
                if WRITES {
                    // The processor has made the stores visible before the next group begins.
                    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
                }
                at += group as u64;
            }
            groups
        });
        black_box(sum);
        span
    }

    /// Reads pairs of lines. It prefetches the second line half as far ahead as the first.
    fn pairs(&self, worker: &Worker<'_>, distance: u64, time: Duration) -> crate::threads::Span {
        let lines = self.lines();
        let shift = 64 - lines.len().trailing_zeros();
        let mut at = ((worker.number as u64) << 40) + (distance << 32);
        let mut sum = 0_u64;
        // SAFETY: `place` returns an index below the number of lines, and so does each line's
        // `next`.
        let first = |n| unsafe { lines.get_unchecked(place(n, shift)) };
        // SAFETY: as above.
        let second = |n| unsafe { lines.get_unchecked(first(n).next.load(Relaxed) as usize) };
        let span = worker.repeat(time, || {
            let end = at + BLOCK;
            for n in at..end {
                if distance > 0 {
                    prefetch(first(n + distance));
                    prefetch(second(n + distance / 2));
                }
                sum = sum.wrapping_add(second(n).modified.load(Relaxed));
            }
            at = end;
            BLOCK
        });
        black_box(sum);
        span
    }

    fn chase(&self, worker: &Worker<'_>, time: Duration) -> crate::threads::Span {
        const STEPS: u64 = BLOCK / 8;
        let lines = self.lines();
        let mut at = lines.len() / 2 * (worker.number & 1);
        let span = worker.repeat(time, || {
            for _ in 0..STEPS {
                at = lines[at].next.load(Relaxed) as usize;
            }
            STEPS
        });
        black_box(at);
        span
    }

    /// Returns the limits by number of threads.
    pub(crate) fn limits(&self) -> BTreeMap<usize, Limit> {
        let limit = |samples: &Samples| {
            let median = |class, distance| {
                let samples = samples.accesses.get(&(class, distance));
                samples.and_then(|s| Summary::of(s)).map_or(0.0, |s| s.median)
            };
            let best = |class| {
                let candidates = DISTANCES.map(|distance| (median(class, distance), distance));
                candidates.into_iter().fold((0.0, 0), |best, candidate| {
                    if candidate.0 > best.0 { candidate } else { best }
                })
            };
            let at = |samples: &BTreeMap<u64, Vec<f64>>, distance| {
                let samples = samples.get(&distance);
                samples.and_then(|s| Summary::of(s)).map_or(0.0, |s| s.median)
            };
            let best_of = |samples: &BTreeMap<u64, Vec<f64>>| {
                DISTANCES.map(|distance| at(samples, distance)).into_iter().fold(0.0, f64::max)
            };
            let (reads_mops, best_distance) = best(AccessClass::Reads);
            let (rmw_mops, rmw_best_distance) = best(AccessClass::Rmw);
            let (cas_mops, cas_best_distance) = best(AccessClass::Cas);
            Limit {
                reads_mops,
                rmw_mops,
                cas_mops,
                chase_mops: Summary::of(&samples.chases).map_or(0.0, |s| s.median),
                best_distance,
                rmw_best_distance,
                cas_best_distance,
                unprefetched_reads_mops: median(AccessClass::Reads, 0),
                pairs_mops: best_of(&samples.pairs),
                unprefetched_pairs_mops: at(&samples.pairs, 0),
                second_level_reads_mops: best_of(&samples.second_level),
            }
        };
        self.samples.iter().map(|(&threads, samples)| (threads, limit(samples))).collect()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping, and nothing refers to it any more. Unmapping a whole
        // mapping can't fail.
        let _ = unsafe { munmap(self.base.as_ptr(), self.mapped) };
    }
}

/// Returns the index of the n-th random line: the high bits of a product of a mixed counter.
#[inline]
fn place(n: u64, shift: u32) -> usize {
    let x = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (x >> shift) as usize
}

/// Returns the line after `at` in a random walk through all lines. The walk is a linear
/// congruential generator of full period, since the number of lines is a power of two.
fn successor(at: u64, lines: u64) -> u64 {
    let next = at.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
    next & (lines - 1)
}

fn read(line: &Line) -> u64 {
    line.modified.load(Relaxed)
}

/// Prefetches into the second-level cache only; on other architectures, as `prefetch` does.
#[inline(always)]
fn prefetch_to_second_level(line: &Line) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint, valid for any address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(line).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    prefetch(line);
}

#[inline(always)]
fn prefetch(line: &Line) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint, valid for any address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(line).cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch is a hint, valid for any address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) line, options(nostack, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

/// Whether [`Probe::reads_beside`] has its instructions on this architecture.
pub(crate) const HAS_INSTRUCTIONS: bool =
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

#[inline(always)]
fn instructions<const N: usize, const RESULTS: bool>(line: &Line) {
    macro_rules! repeated {
        ($with_result:literal) => {
            // SAFETY: the instructions compute an address, or do nothing.
            unsafe {
                if RESULTS {
                    std::arch::asm!(
                        concat!(".rept {n}\n", $with_result, "\n.endr"),
                        n = const N,
                        line = in(reg) std::ptr::from_ref(line).addr(),
                        result = out(reg) _,
                        options(nomem, nostack, preserves_flags),
                    );
                } else {
                    std::arch::asm!(
                        ".rept {n}\nnop\n.endr",
                        n = const N,
                        options(nomem, nostack, preserves_flags),
                    );
                }
            }
        };
    }
    #[cfg(target_arch = "x86_64")]
    repeated!("lea {result}, [{line} + 1]");
    #[cfg(target_arch = "aarch64")]
    repeated!("add {result}, {line}, #1");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_comes_by_all_lines() {
        let lines = 1 << 12;
        let mut at = 0;
        for step in 1..=lines {
            at = successor(at, lines);
            assert_eq!(at == 0, step == lines);
        }
    }

    #[test]
    fn places_are_spread_over_all_lines() {
        let mut hits = [0u32; 64];
        (0..64_000).for_each(|n| hits[place(n, 64 - 6)] += 1);
        assert!(hits.iter().all(|hits| (800..1200).contains(hits)), "{hits:?}");
    }

    #[test]
    fn groups_are_accessed_as_often_as_asked_for() {
        let probe = Probe::new(HUGE_PAGE).unwrap();
        let written = || {
            let all = probe.lines().iter().map(|line| line.modified.load(Relaxed));
            all.filter(|&at| at > 0).count()
        };
        let time = Duration::from_millis(2);
        let mops =
            throughput(1, |worker| Ok(probe.groups::<true, false>(worker, (64, true), time)));
        assert!(mops.unwrap() > 0.0 && written() == 0);
        for group in [1, 64] {
            let mops = throughput(1, |worker| {
                Ok(probe.groups::<false, true>(worker, (group, false), time))
            });
            assert!(mops.unwrap() > 0.0 && written() > 1000, "{}", written());
        }
    }

    #[test]
    fn every_class_has_a_limit() {
        let mut probe = Probe::new(HUGE_PAGE).unwrap();
        probe.measure(2, Duration::from_millis(1)).unwrap();
        let limits = probe.limits();
        let limit = limits[&2];
        assert!(AccessClass::ALL.iter().all(|&class| limit.of(class) > 0.0));
        assert!(limit.chase_mops > 0.0);
        assert!(limit.pairs_mops >= limit.unprefetched_pairs_mops);
        assert!(limit.unprefetched_pairs_mops > 0.0);
    }
}
