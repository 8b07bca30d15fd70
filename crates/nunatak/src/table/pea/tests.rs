//! The figures of the paper that do not depend on the machine, and edge cases.

mod edges;

use super::{Config, PeaStats, Strategy, Table};
use crate::effort::some_of;
use crate::hash::{HashCodec as _, WordCodec};
use crate::memory::touched::lines_of;
use crate::table::shared::bucket::{Header as _, Layout as _};
use crate::table::{ByWord, Change, PairTable};
use core::hash::BuildHasher as _;
use foldhash::fast::FixedState;

type Words = Table<WordCodec<FixedState>>;

fn words(config: Config, capacity: usize) -> Words {
    seeded(config, capacity, 1)
}

/// Creates a table whose figures are the same in each run.
fn seeded(config: Config, capacity: usize, seed: u64) -> Words {
    Table::new(WordCodec::new(FixedState::with_seed(seed)), config, capacity).unwrap()
}

fn put(table: &Words, word: u64) -> Option<u64> {
    table.apply(word, &ByWord, Some(!word), |_| Change::To(!word))
}

fn of(strategies: &[Strategy]) -> Config {
    Config { strategies: strategies.to_vec(), ..Config::default() }
}

/// Returns the mean load of a segment's buckets at which an event happens.
fn load_at(rounds: u32, config: &Config, happens: impl Fn(&PeaStats) -> bool) -> f64 {
    let loads = (0..rounds).map(|round| {
        let table = seeded(config.clone(), 0, u64::from(round));
        let of_first = |word: &u64| table.codec.hash(*word) >> 63 == 0;
        let mut count = 0;
        // Dense words would spread more evenly than chance does.
        let random = |number: u64| FixedState::with_seed(round.into()).hash_one(number);
        (0..).map(random).filter(of_first).find(|&word| {
            put(&table, word);
            count += 1;
            happens(&table.stats())
        });
        f64::from(count) / (2048.0 * 15.0)
    });
    loads.sum::<f64>() / f64::from(rounds)
}

/// The loads at which strategies give up, of all slots. Simulated: single hashing 0.389, 2-choice
/// hashing 0.874, stash 0.921; from the start 2-choice 0.879, stash 0.925. (Over many segments the
/// first is 0.382 with a standard deviation of 0.042: hence the many rounds with fixed seeds.)
#[test]
fn strategies_give_up_at_the_loads_of_the_paper() {
    use Strategy::{Single, Stash, TwoChoice};
    let all = Config::default();
    let [many, some] = [500, 24].map(|rounds| some_of(rounds) as u32);
    let single = load_at(many, &all, |stats| stats.strategies[0] < 2);
    let two_choice = load_at(some, &all, |stats| stats.strategies[2] > 0);
    let stash = load_at(some, &all, |stats| stats.splits > 0);
    let pure_two_choice = load_at(some, &of(&[TwoChoice]), |stats| stats.splits > 0);
    let pure_stash = load_at(some, &of(&[Stash]), |stats| stats.splits > 0);
    let pure_single = load_at(many, &of(&[Single]), |stats| stats.splits > 0);
    println!("{single:.3} {two_choice:.3} {stash:.3}");
    println!("{pure_two_choice:.3} {pure_stash:.3} {pure_single:.3}");
    for (load, expected) in [
        (single, 0.389),
        (two_choice, 0.874),
        (stash, 0.921),
        (pure_two_choice, 0.879),
        (pure_stash, 0.925),
        (pure_single, 0.389),
    ] {
        let spread = 0.01 * (500.0 / f64::from(many)).sqrt();
        assert!((load - expected).abs() < spread, "{load} instead of {expected}");
    }
}

/// Figure 4(f): about half of the memory is used on average, and 92 % of the slots at most.
/// Simulated over 12.5 million inserts from 8 segments: 0.485 of all bytes, headers included (as
/// 2.2.2 defines it), and 0.915 of the slots. By 3.2 of the paper at most 0.6 % of the splits leave
/// single hashing.
#[test]
fn half_of_the_memory_is_used_on_average() {
    let table = words(Config::default(), 8 * 2048 * 15 * 60 / 100);
    assert_eq!(table.stats().segments, 8);
    let (mut sum, mut most, mut looks) = (0.0, 0.0_f64, 0);

    for word in 0..12_500_000 {
        put(&table, word);
        if word % 12_500 == 12_499 {
            let load = table.load_factor();
            (sum, most, looks) = (sum + load, most.max(load), looks + 1);
        }
    }
    let mean = sum / f64::from(looks) * 15.0 / 16.0;
    let stats = table.stats();
    println!("{mean:.3} {most:.3} {stats:?}");
    assert!((mean - 0.485).abs() < 0.012, "{mean}");
    assert!(most > 0.90, "{most}");
    assert!(stats.crowded_splits as f64 <= 0.006 * stats.splits as f64 + 2.0);
    assert_eq!((stats.segments - 8) / 3, stats.splits);
}

/// Table 3: a split moves all pairs of its segment. The pair that finds no room comes after it.
#[test]
fn splits_count_what_they_move() {
    let table = words(Config::default(), 0);
    let of_first = |word: &u64| table.codec.hash(*word) >> 63 == 0;
    let mut stored = 0;
    let splits = |word: &u64| {
        stored += usize::from(put(&table, *word).is_none());
        table.splits.splits.so_far().moves > 0
    };
    assert!((0..).filter(of_first).find(splits).is_some());
    let stats = table.stats();
    assert_eq!((stats.splits, stats.moved), (1, stored - 1));
    assert!(!stats.split_time.is_zero() && stats.split_time == stats.longest_split);
}

/// A lookup touches one bucket while the segment hashes singly.
#[test]
fn lookups_touch_one_bucket() {
    // As many segments as single hashing needs.
    let table = words(Config::default(), 300_000);
    (0..100_000).for_each(|word| assert_eq!(put(&table, word), None));
    let mean = |first: u64| {
        let lines: usize = (first..first + 10_000)
            .map(|word| lines_of(|| assert_eq!(table.find(word, &ByWord).is_some(), first == 0)))
            .sum();
        lines as f64 / 10_000.0
    };
    // Three slots are in the header's line.
    let (hits, misses) = (mean(0), mean(1 << 40));
    assert!((1.0..1.8).contains(&hits) && misses < 1.05, "{hits} {misses}");
}

#[test]
fn an_emptied_table_is_as_small_as_a_new_one() {
    let table = words(Config { buckets: 16, ..Config::default() }, 0);
    for _ in 0..3 {
        (0..50_000).for_each(|word| assert_eq!(put(&table, word), None));
        assert!(table.stats().segments > 100);
        for word in 0..50_000 {
            let removed = table.apply(word, &ByWord, None, |_| Change::Remove);
            assert_eq!(removed, Some(!word));
        }
        table.shrink_to_fit().unwrap();
        let stats = table.stats();
        assert_eq!((stats.segments, stats.depth, stats.len), (2, 1, 0));
    }
}

/// An insert finds a key in the stash, even if the key's bucket has room again. Otherwise the key
/// would be stored twice.
#[test]
fn a_stashed_key_is_not_stored_twice() {
    let table = words(Config { buckets: 2, ..Config::default() }, 0);
    let words = 0..2000;
    words.clone().for_each(|word| assert_eq!(put(&table, word), None));
    assert!(table.stats().stashed > 0);
    let remove = |word: u64| table.apply(word, &ByWord, None, |_| Change::Remove);
    // Removing half of the keys makes room; no other key is stored again.
    words.clone().step_by(2).for_each(|word| assert_eq!(remove(word), Some(!word)));
    words.clone().skip(1).step_by(2).for_each(|word| assert_eq!(put(&table, word), Some(!word)));
    assert_eq!(table.len(), 1000);
    for word in words.skip(1).step_by(2) {
        assert_eq!(remove(word), Some(!word));
        assert_eq!(table.find(word, &ByWord), None, "{word} was there twice");
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
pub(super) type InPages = Table<crate::hash::StableCodec, crate::memory::durable::Paged>;

/// Creates a table whose pages are copied before a change.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn in_pages(config: Config) -> InPages {
    use crate::hash::{StableCodec, StableHash};
    use crate::memory::durable::{Backing, Kind, Paged, Pool, Recorder, Wanted};
    let recorder = std::sync::Arc::new(Recorder::default());
    let backing = Backing::simulated(&[], false, true, recorder).unwrap();
    let pool = Pool::create(backing, Kind::Pea, &[0; 12], Wanted::default()).unwrap();
    let medium = Paged::new(pool, 1 << 30).unwrap();
    let codec = StableCodec::new(StableHash::EXAMPLE.multipliers);
    Table::create(medium, codec, config, 0).unwrap()
}

/// A read does not count if its page was reused meanwhile.
#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn a_read_of_a_page_that_is_used_again_does_not_count() {
    use crate::table::{Change, KeyTest};
    use core::cell::Cell;

    /// Accepts the value at the second call. The first call lets pages be copied and reused.
    struct Meddling<'t>(&'t InPages, Cell<bool>);

    impl KeyTest for Meddling<'_> {
        const BY_WORD: bool = false;

        fn accepts(&self, second: u64) -> bool {
            assert_eq!(second, 10);
            if self.1.replace(true) {
                return true;
            }
            for round in 0..3 {
                self.0.apply(2, &ByWord, Some(round), |_| Change::To(round));
                self.0.sync().unwrap();
            }
            false
        }
    }

    let table = in_pages(Config { buckets: 2, ..Config::default() });
    table.apply(1, &ByWord, Some(10), |_| Change::Keep);
    assert_eq!(table.find(1, &Meddling(&table, Cell::new(false))), Some(10));
}

/// After locking a bucket, a thread uses its present address, even if another thread has copied and
/// changed its page before.
#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn a_bucket_is_looked_for_when_it_is_locked() {
    use super::geometry::{first_bucket, second_bucket};
    let table = in_pages(Config { buckets: 32, ..Config::default() });
    let mask = table.segments.per_segment - 1;
    let places = |word: u64| {
        let hash = table.codec.hash(word);
        (hash >> 63, first_bucket(hash, mask), second_bucket(hash, mask))
    };
    // The second bucket of `one` and the first bucket of `other` share a page and a lock. The first
    // bucket of `one` has another page and another lock.
    let is_one = |&word: &u64| matches!(places(word), (0, 0..16, 16..));
    let is_other = |&word: &u64| matches!(places(word), (0, 16.., _));
    let (one, other) = ((0..).find(is_one).unwrap(), (0..).find(is_other).unwrap());
    let hash = table.codec.hash(one);
    let buckets = table.lock_buckets(table.locate(hash), hash, false);
    table.sync().unwrap();
    table.apply(other, &ByWord, Some(1), |_| Change::Keep);
    let second = buckets.lock_second().unwrap();
    let segment = table.locate(hash).entry.segment();
    assert!(core::ptr::eq(buckets.second(), table.segments.bucket(segment, places(one).2)));
    drop(second);
    buckets.unlock();
}

/// Values do not count if their page was reused meanwhile, by another key with another lock.
#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn values_of_a_page_that_is_used_again_do_not_count() {
    use super::geometry::first_bucket;
    use super::multi::Visitor;
    use super::multi::values::{Pointer, Values};
    use crate::memory::Medium;

    /// Lets the page be copied and reused before the first look at it.
    struct Meddling<'t> {
        table: &'t InPages,
        other: u64,
        starts: usize,
        values: Vec<u64>,
    }

    impl Visitor for Meddling<'_> {
        fn start(&mut self) {
            self.starts += 1;
            self.values.clear();
        }

        fn value(&mut self, value: u64) {
            self.values.push(value);
        }

        fn buffer<M: Medium>(
            &mut self,
            values: &Values<M>,
            pointer: Pointer,
            is_still: impl Fn() -> bool,
        ) {
            for round in 0..if self.starts == 1 { 3 } else { 0 } {
                self.table.insert_value(self.other, round).unwrap();
                self.table.sync().unwrap();
            }
            values.each(pointer, is_still, |value| self.values.push(value));
        }
    }

    let table = in_pages(Config { buckets: 32, duplicates: true, ..Config::default() });
    let group = |word: u64| {
        let hash = table.codec.hash(word);
        (hash >> 63, first_bucket(hash, 31) / 16)
    };
    let [one, other] = [0, 1].map(|of| (1..).find(|&word| group(word) == (0, of)).unwrap());
    for value in 0..20 {
        [one, other].iter().for_each(|&word| table.insert_value(word, value).unwrap());
    }
    assert_eq!(table.multi_stats().pointers, 2);
    table.sync().unwrap();
    let mut visitor = Meddling { table: &table, other, starts: 0, values: Vec::new() };
    table.visit::<true>(table.codec.hash(one), one, &mut visitor);
    visitor.values.sort_unstable();
    assert_eq!((visitor.starts, visitor.values), (2, (0..20).collect()));
}

/// A key that stays is returned once, wherever the iterator is when segments are split, or merged
/// into one of which it has read a part.
#[test]
fn an_iterator_keeps_its_place_while_segments_are_split_and_merged() {
    let config = Config { buckets: 2, ..Config::default() };
    let (count, stays) = (2000, |word: &u64| word.is_multiple_of(4));
    let expected: Vec<u64> = (0..count).filter(stays).collect();
    for stop in (1..count as usize).step_by(97) {
        for merges in [false, true] {
            let table = words(config.clone(), 0);
            (0..count).for_each(|word| assert_eq!(put(&table, word), None));
            let segments = table.stats().segments;
            let mut pairs = table.iter();
            let mut seen: Vec<u64> = pairs.by_ref().take(stop).map(|(word, _)| word).collect();
            if merges {
                for word in (0..count).filter(|word| !stays(word)) {
                    assert!(table.apply(word, &ByWord, None, |_| Change::Remove).is_some());
                }
                table.shrink_to_fit().unwrap();
                assert!(table.stats().segments < segments, "no segments were merged");
            } else {
                (count..4 * count).for_each(|word| assert_eq!(put(&table, word), None));
                assert!(table.stats().segments > segments, "no segment was split");
            }
            seen.extend(pairs.map(|(word, _)| word));
            seen.retain(|word| *word < count && stays(word));
            seen.sort_unstable();
            assert_eq!(seen, expected, "stopped after {stop} pairs");
        }
    }
}

#[test]
fn strategies_come_once_and_in_their_order() {
    use Strategy::{Single, Stash, TwoChoice};
    let is_valid = |strategies: &[Strategy]| of(strategies).check().is_ok();
    assert!(is_valid(&[Single, TwoChoice, Stash]) && is_valid(&[Single, Stash]));
    assert!(!is_valid(&[]) && !is_valid(&[Single, Single]) && !is_valid(&[Stash, Single]));
}

/// Reserved room is there, and not much more.
#[test]
fn a_reserved_table_does_not_split() {
    let config = Config { buckets: 64, ..Config::default() };
    let table = words(config, 0);
    table.reserve(20_000).unwrap();
    let before = table.stats();
    assert!((20_000..8 * 20_000).contains(&before.slots), "{before:?}");
    (0..20_000).for_each(|word| assert_eq!(put(&table, word), None));
    assert_eq!(table.stats().segments, before.segments);
}

/// Two segments are merged whenever one holds the pairs of both, so no table is left with segments
/// of a quarter of what was there, as a split makes them.
#[test]
fn a_shrunk_table_is_as_full_as_it_can_be() {
    let config = Config { buckets: 64, ..Config::default() };
    let table = words(config, 0);
    (0..40_000).for_each(|word| assert_eq!(put(&table, word), None));
    for left in [30_000, 20_000, 10_000, 2000] {
        (left..40_000).for_each(|word| {
            table.apply(word, &ByWord, None, |_| Change::Remove);
        });
        table.shrink_to_fit().unwrap();
        let stats = table.stats();
        assert_eq!(stats.len, left as usize);
        assert!(stats.load_factor > 0.4, "{stats:?}");
        (0..left).for_each(|word| assert_eq!(table.find(word, &ByWord), Some(!word)));
        table.shrink_to_fit().unwrap();
        // Compaction stores pairs in another order, so that two segments may fit one that did not before.
        assert!(table.stats().merges <= stats.merges + 2, "{stats:?}");
    }
}

/// Values in buffers take no slots.
#[test]
fn the_load_of_a_table_of_many_values_is_of_slots() {
    let config = Config { buckets: 64, duplicates: true, ..Config::default() };
    let table = words(config, 0);
    (0..600).for_each(|word| (0..30).for_each(|value| table.insert_value(word, value).unwrap()));
    let mut taken = 0;
    table.each_segment(|_, entry| {
        let buckets = table.segments.all(entry.segment());
        taken += buckets.map(|bucket| 15 - bucket.header().free_slots() as usize).sum::<usize>();
    });
    let stats = table.multi_stats();
    assert!(stats.pointers > 500 && stats.buffered > 15_000, "{stats:?}");
    assert_eq!(stats.table.load_factor, taken as f64 / stats.table.slots as f64);
}
