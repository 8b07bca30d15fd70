//! Histograms of the times of calls.
//!
//! The buckets are those of an HdrHistogram of two digits, which Redis has, too: one for each nanosecond
//! below 256, then 128 for each power of two, so a time is known to a 128th. The crate `hdrhistogram` is not
//! used: its histograms are changed through `&mut`, and its `SyncHistogram` lets a reader wait for each
//! thread. Here each thread has an array of atomic counters, which it alone stores and others load at any
//! time.

use crate::stats::Counter;
use std::fmt;

/// How many buckets a power of two has, as a power of two.
const SUB_BITS: u32 = 7;
const SUBS: usize = 1 << SUB_BITS;
/// The first power of two of nanoseconds that has no buckets: 68.7 s. What is longer is in the last bucket.
const MOST_BITS: u32 = 36;
const BUCKETS: usize = SUBS * (MOST_BITS - SUB_BITS + 1) as usize;
/// The first bound of `LATENCY HISTOGRAM`, as a power of two of nanoseconds: 1 µs.
const FIRST_BOUND: u32 = 10;

/// Returns the bucket of a time.
#[inline(always)]
pub(crate) fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.min((1 << MOST_BITS) - 1);
    let shift = (nanos | 1).ilog2().saturating_sub(SUB_BITS);
    ((shift as usize) << SUB_BITS) + (nanos >> shift) as usize
}

/// Returns the shortest time of a bucket.
fn lowest_of(bucket: usize) -> u64 {
    let shift = (bucket >> SUB_BITS).saturating_sub(1);
    ((bucket - (shift << SUB_BITS)) as u64) << shift
}

/// Returns the longest time of a bucket.
fn highest_of(bucket: usize) -> u64 {
    lowest_of(bucket + 1) - 1
}

/// The times of a command's calls in one thread, which alone adds to them.
#[derive(Debug)]
pub(crate) struct TimeCounters(Box<[Counter]>);

impl Default for TimeCounters {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| Counter::default()).collect())
    }
}

impl TimeCounters {
    /// Adds a call whose time is in this bucket.
    #[inline(always)]
    pub(crate) fn add(&self, bucket: usize) {
        self.0[bucket].add(1);
    }
}

/// How many calls each bucket has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Histogram(Vec<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self(vec![0; BUCKETS])
    }
}

impl Histogram {
    /// Adds the calls of a thread.
    pub(crate) fn add_counters(&mut self, counters: &TimeCounters) {
        self.0.iter_mut().zip(&counters.0).for_each(|(sum, counter)| *sum += counter.get());
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, count)| *sum += count);
    }

    /// Returns the calls since an earlier moment.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self(
            self.0.iter().zip(&before.0).map(|(now, before)| now.saturating_sub(*before)).collect(),
        )
    }

    pub(crate) fn calls(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns how many calls took less than a power of two of nanoseconds.
    pub(crate) fn calls_below(&self, power: u32) -> u64 {
        self.0[..bucket_of(1 << power)].iter().sum()
    }

    /// Returns the time in nanoseconds that a percentage of the calls did not exceed: the longest of a
    /// bucket, as Redis rounds it; zero without calls.
    pub(crate) fn percentile(&self, percent: f64) -> u64 {
        // (A cast of a float rounds down.)
        let rank = ((percent / 100.0 * self.calls() as f64 + 0.5) as u64).max(1);
        let mut below = 0;
        let is_reached = |&(_, count): &(usize, &u64)| {
            below += *count;
            below >= rank
        };
        let found = self.0.iter().enumerate().find(is_reached);
        // Of the shortest time, Redis tells the least of its bucket.
        let bound = if percent == 0.0 { lowest_of } else { highest_of };
        found.map_or(0, |(bucket, _)| bound(bucket))
    }

    /// Returns the bounds of `LATENCY HISTOGRAM` in microseconds, each twice the one before, and how many
    /// calls did not exceed each; only those with more calls than the one before.
    ///
    /// As in Redis, the bucket of a power of two counts with it: so 33 µs follow 16 µs.
    pub(crate) fn doubling(&self) -> Vec<(u64, u64)> {
        let (mut all, mut from, mut calls) = (Vec::new(), 0, 0);
        for power in FIRST_BOUND..=MOST_BITS {
            let last = bucket_of(1 << power);
            let more: u64 = self.0[from..=last].iter().sum();
            (from, calls) = (last + 1, calls + more);
            if more > 0 {
                all.push((highest_of(last) / 1000, calls));
            }
        }
        all
    }
}

/// Which percentiles `INFO latencystats` tells.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Percentiles(Vec<f64>);

impl Percentiles {
    /// Parses numbers with spaces between them. The error is a part of the reply.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let name = "latency-tracking-info-percentiles";
        let parse = |word: &str| match word.parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
            Ok(_) => Err(format!("{name} parameters should sit between [0.0,100.0]")),
            Err(_) => Err(format!("Invalid {name} parameters")),
        };
        text.split_whitespace().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Returns a histogram's percentiles in microseconds, as `INFO` writes them.
    pub(crate) fn of(&self, times: &Histogram) -> String {
        let write = |&percent: &f64| {
            let name = format!("{percent:.6}");
            let name = name.trim_end_matches('0').trim_end_matches('.');
            format!("p{name}={:.3}", times.percentile(percent) as f64 / 1000.0)
        };
        self.0.iter().map(write).collect::<Vec<_>>().join(",")
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(f64::to_string).collect();
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: &[u64]) -> Histogram {
        let (counters, mut all) = (TimeCounters::default(), Histogram::default());
        times.iter().for_each(|&nanos| counters.add(bucket_of(nanos)));
        all.add_counters(&counters);
        all
    }

    #[test]
    fn buckets_follow_each_other() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let (low, high) = (lowest_of(bucket), highest_of(bucket));
            assert_eq!((low, bucket_of(low), bucket_of(high)), (next, bucket, bucket));
            // At most a 128th of the time.
            assert!((high - low) * 128 <= low);
            next = high + 1;
        }
        assert_eq!((next, bucket_of(u64::MAX)), (1 << MOST_BITS, BUCKETS - 1));
    }

    /// What Redis 7.0.15 tells of these times.
    #[test]
    fn bounds_and_percentiles_are_those_of_redis() {
        let times = of(&[4000, 4000, 10_000]);
        assert_eq!(times.doubling(), [(4, 2), (16, 3)]);
        let percentiles = Percentiles::parse("50 99 99.123456 100 0").unwrap();
        assert_eq!(
            percentiles.of(&times),
            "p50=4.015,p99=10.047,p99.123456=10.047,p100=10.047,p0=4.000"
        );
        assert_eq!(of(&[69_000]).doubling(), [(132, 1)]);
        let all: Vec<u64> = (0..20).map(|power| 1000 << power).collect();
        let bounds = [
            1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056, 2113, 4227, 8454, 16_908, 33_816, 67_633,
            135_266, 270_532, 541_065,
        ];
        assert_eq!(of(&all).doubling(), bounds.into_iter().zip(1..).collect::<Vec<_>>());
        assert_eq!((of(&[]).doubling(), of(&[]).percentile(99.0)), (vec![], 0));
    }

    #[test]
    fn differences_and_bounds_count_calls() {
        let (before, now) = (of(&[1023]), of(&[1023, 1024, 1 << 40]));
        let later = now.since(&before);
        let counts = [10, 11, 30].map(|power| later.calls_below(power));
        assert_eq!((counts, later.calls()), ([0, 1, 1], 2));
        assert_eq!(later.doubling().len(), 2);
        let mut sum = before.clone();
        sum.add(&later);
        assert_eq!(sum, now);
    }

    #[test]
    fn percentiles_are_parsed() {
        for text in ["50 99 99.9", "", "0 100"] {
            assert_eq!(Percentiles::parse(text).unwrap().to_string(), text);
        }
        for text in ["101", "-1", "x", "nan", "50,99"] {
            assert!(Percentiles::parse(text).is_err(), "{text}");
        }
    }
}
