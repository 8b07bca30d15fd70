//! Edges that the public interface seldom shows: the room of a capacity, long batches, compaction
//! of a bucket with every sort of key, hashes at the beginning of a segment, the log's records.

use super::{Strategy, Words, of, put, seeded, words};
use crate::hash::HashCodec as _;
use crate::memory::Heap;
use crate::table::pea::geometry::first_bucket;
use crate::table::pea::iterate::Hashes;
use crate::table::pea::{Config, Table};
use crate::table::shared::bucket::{Flag, Layout};
use crate::table::{ByWord, Change, PairTable};

/// A segment is full by single hashing, by two choices, and with the stash, in this order. Keys of
/// one value fill a table of many values as far. (The loads of the paper are of larger segments:
/// see `strategies_give_up_at_the_loads_of_the_paper`.)
#[test]
fn each_strategy_fills_a_segment_further() {
    use Strategy::{Single, Stash, TwoChoice};
    for duplicates in [false, true] {
        let filled = |strategy| {
            let config = Config { buckets: 64, duplicates, ..of(&[strategy]) };
            let loads = (0..8).map(|seed| {
                let table = seeded(config.clone(), 0, seed);
                let mut stashed = 0;
                let is_full = |&word: &u64| {
                    stashed = stashed.max(table.stats().stashed);
                    match duplicates {
                        true => table.insert_value(word, !word).unwrap(),
                        false => assert_eq!(put(&table, word), None),
                    }
                    table.stats().splits > 0
                };
                let pairs = (0..).find(is_full).unwrap();
                assert_eq!(stashed > 0, strategy == Stash, "{duplicates}");
                pairs as f64 / (2.0 * 64.0 * 15.0)
            });
            loads.sum::<f64>() / 8.0
        };
        let [single, two_choice, stash] = [Single, TwoChoice, Stash].map(filled);
        println!("{single:.3} {two_choice:.3} {stash:.3}");
        assert!(single < 0.6 && two_choice > 0.82 && stash > two_choice + 0.01, "{duplicates}");
    }
}

/// Of 64 buckets a segment has room for 745 pairs by all strategies, and for 345 by single hashing.
#[test]
fn a_capacity_gets_the_segments_that_it_needs() {
    let reserved = |config: Config, pairs: u64| {
        let table = words(Config { buckets: 64, split_into: 2, ..config }, 0);
        table.reserve(pairs as usize).unwrap();
        let segments = table.stats().segments;
        (0..pairs).for_each(|word| assert_eq!(put(&table, word), None));
        assert_eq!(table.stats().segments, segments, "{pairs} pairs split a segment");
        segments
    };
    assert_eq!(reserved(Config::default(), 23_800), 32);
    // Half as many segments would hold the mean, but some of them get more.
    assert_eq!(reserved(Config::default(), 27_000), 64);
    assert_eq!(reserved(of(&[Strategy::Single]), 20_000), 64);
}

/// A batch may have any number of keys, whatever the length of the ring of those on their way.
#[test]
fn a_batch_may_be_long() {
    // Lookups fetch the second buckets of some keys, too.
    let table = words(Config { buckets: 64, ..of(&[Strategy::TwoChoice]) }, 0);
    let (keys, word) = (40_000, |at: usize| at as u64);
    let mut done = 0;
    for is_there in [false, true] {
        table.apply_many(
            keys,
            word,
            |_| ByWord,
            |at| Some(!word(at)),
            |_, _| Change::Keep,
            |at, before| {
                assert_eq!(before, is_there.then_some(!word(at)));
                done += 1;
                true
            },
        );
    }
    assert_eq!((done, table.len()), (2 * keys, keys));
    let mut found = 0;
    table.find_many(
        keys + 9,
        word,
        |_| ByWord,
        |at, second| {
            assert_eq!(second, (at < keys).then_some(!word(at)));
            found += 1;
        },
    );
    assert_eq!(found, keys + 9);
}

#[test]
fn a_batch_of_keys_with_many_values_may_be_long() {
    const KEYS: usize = 20_000;
    let config = Config { buckets: 64, duplicates: true, ..Config::default() };
    let table: Words = words(config, 0);
    let word = |at: usize| at as u64;
    // Key `n` has the values `n` and one more than `n % 7` others.
    for round in 0..8 {
        let keys: Vec<u64> = (0..KEYS as u64).filter(|key| key % 7 + 1 >= round).collect();
        table.insert_values(keys.len(), |at| (keys[at], round << 32 | keys[at])).unwrap();
    }
    let values = |at: usize| if at < KEYS { at % 7 + 2 } else { 0 };
    let expected = |at: usize| (0..values(at) as u64).map(move |round| round << 32 | at as u64);
    let (mut all, mut ends) = (vec![99_u64], vec![1]);
    table.copy_values_of(KEYS + 9, word, &mut all, |at, end| {
        assert_eq!(at + 1, ends.len());
        ends.push(end);
    });
    assert_eq!((ends.len(), all[0]), (KEYS + 10, 99));
    for at in 0..KEYS + 9 {
        let of_key = &mut all[ends[at]..ends[at + 1]];
        of_key.sort_unstable();
        assert!(of_key.iter().copied().eq(expected(at)), "{at}");
    }
    let mut counts = Vec::new();
    table.count_values_of(KEYS + 9, word, |_, count| counts.push(count));
    assert!(counts.into_iter().eq((0..KEYS + 9).map(values)));
    for key in [0, 6, 7, 19_999] {
        let mut to = vec![1_u64, 2, 3];
        assert_eq!(table.copy_values(key, &mut to), values(key as usize));
        assert_eq!((to.len(), &to[..3]), (3 + values(key as usize), &[1, 2, 3][..]));
        assert!(expected(key as usize).all(|value| table.contains_value(key, value)));
        assert!(!table.contains_value(key, 8 << 32 | key) && !table.contains_value(key, 99));
    }
    let mut removed = Vec::new();
    table.remove_values_of(KEYS + 9, word, |_, count| removed.push(count));
    assert!(removed.into_iter().eq((0..KEYS + 9).map(values)));
    assert_eq!((table.len(), table.count_values(3)), (0, 0));
}

/// A hash may be the lowest of its segment: the key is in this segment and in no other.
#[test]
fn a_chained_key_of_a_segments_lowest_hash_is_returned_once() {
    let table = words(Config { buckets: 2, ..Config::default() }, 0);
    assert_eq!(table.stats().segments, 2);
    let lowest = 1 << 63;
    for hash in [lowest - 1, lowest] {
        let bucket = first_bucket(hash, table.mask());
        table.segments.bucket(table.locate(hash).entry.segment(), bucket).set(&Heap, Flag::Chained);
        table.chains.push(hash, (1, hash)).unwrap();
    }
    let mut values: Vec<u64> = table.iter().map(|(_, value)| value).collect();
    values.sort_unstable();
    assert_eq!(values, [lowest - 1, lowest]);
}

/// After a merge an iterator goes on in the middle of a segment, with the first hash that it has
/// not read, and the iterator that was split off from one ends there.
#[test]
fn an_iterator_goes_on_with_the_first_hash_that_it_has_not_read() {
    let table = words(Config { buckets: 2, ..Config::default() }, 0);
    (0..10).for_each(|word| assert_eq!(put(&table, word), None));
    for word in 0..10 {
        let hash = table.codec.hash(word);
        let has_it = |hashes| {
            let mut pairs = vec![(77, 88)];
            let left = table.read_segment(hashes, Table::push_pairs, &mut pairs);
            assert_eq!(pairs[0], (77, 88));
            assert!(hashes.end.is_none() || left.is_none(), "nothing is left behind the end");
            pairs.contains(&(word, !word))
        };
        assert_eq!(
            [hash, hash + 1].map(|from| has_it(Hashes::from(from))),
            [true, false],
            "{word}"
        );
        let until = |end| Hashes { from: hash & !0xFFFF, end: Some(end) };
        assert_eq!([hash, hash + 1].map(|end| has_it(until(end))), [false, true], "{word}");
    }
}

/// Few entries are in no segment, but in slots of their own, of which some are taken.
#[test]
fn the_load_of_a_small_map_is_the_share_of_its_slots() {
    let map = crate::PeaMap::<u64, u64>::new();
    assert_eq!(map.stats().load_factor.to_bits(), 0);
    (0..16).for_each(|key| assert_eq!(map.insert(key, key), None));
    let stats = map.stats();
    assert_eq!((stats.segments, stats.len), (0, 16));
    assert!((stats.load_factor * stats.slots as f64 - 16.0).abs() < 1e-9, "{stats:?}");
}

#[cfg(all(target_os = "linux", not(miri)))]
mod in_pages {
    use super::super::{InPages, in_pages};
    use super::*;
    use crate::hash::HashCodec;
    use crate::memory::Medium;
    use crate::table::pea::geometry::second_bucket;
    use crate::table::pea::multi::log::{Location, Log, Place, Store};
    use crate::table::pea::multi::values::Pointer;
    use crate::table::shared::bucket::{Bucket, Header, Item};

    /// Single hashing finds a key in one page.
    #[test]
    fn a_capacity_of_a_file_gets_room_for_single_hashing() {
        let table = in_pages(Config { buckets: 64, split_into: 2, ..Config::default() });
        table.reserve(20_000).unwrap();
        assert_eq!(table.stats().segments, 64);
    }

    /// What the last sync has made durable stays as it is until the next one: the page of a key's
    /// second bucket is copied before a change, if it is another one than the first bucket's.
    #[test]
    fn the_page_of_a_second_bucket_is_copied_before_a_change() {
        let table = in_pages(Config { buckets: 32, ..of(&[Strategy::TwoChoice]) });
        let places = |word: u64| {
            let hash = table.codec.hash(word);
            (hash >> 63, first_bucket(hash, 31), second_bucket(hash, 31))
        };
        // The buckets of these words are in two pages. A few of them fill the first bucket.
        let is_one = |&word: &u64| matches!(places(word), (0, 3, 16..));
        let mut words = (0..).filter(is_one);
        let segment = table.locate(table.codec.hash(words.next().unwrap())).entry.segment();
        let address =
            |bucket| core::ptr::from_ref::<Bucket>(table.segments.bucket(segment, bucket));
        let taken = |bucket| 15 - table.segments.bucket(segment, bucket).header().free_slots();
        let apply = |word, fresh, change: fn(u64) -> Change| {
            table.apply(word, &ByWord, fresh, change);
        };
        let (word, second) = loop {
            let word = words.next().unwrap();
            let second = places(word).2;
            table.sync().unwrap();
            let (before, in_second) = (address(second), taken(second));
            apply(word, Some(1), |_| Change::Keep);
            if taken(second) > in_second {
                assert_ne!(address(second), before, "an insert");
                break (word, second);
            }
        };
        for (change, name) in [
            ((|_| Change::To(2)) as fn(u64) -> Change, "an update"),
            (|_| Change::Remove, "a removal"),
        ] {
            table.sync().unwrap();
            let before = address(second);
            apply(word, None, change);
            assert_ne!(address(second), before, "{name}");
        }
        assert_eq!(table.find(word, &ByWord), None);
    }

    /// Compacts a bucket that has a key of four values, one of a pointer and four values, one of
    /// three values and one of one.
    fn compacts<P: HashCodec, M: Medium>(table: &Table<P, M>) {
        let (marking, segment) = (table.marking(), table.locate(0).entry.segment());
        table.segments.make_writable(segment, 0).unwrap();
        let bucket = table.segments.bucket(segment, 0);
        let tag = |key: u64| 1 << 63 | key;
        let add = |key: u64, value_word: u64, is_pointer| {
            let fingerprint = key as u8;
            let item = Item { fingerprint, tag: tag(key), value_word, is_pointer };
            bucket.add(&table.medium, marking, item).unwrap();
        };
        for value in 0..3 {
            (1..4).for_each(|key| add(key, 10 * key + value, false));
        }
        add(4, 40, false);
        add(2, table.values().store(&[24, 25, 26]).unwrap().0, true);
        (1..3).for_each(|key| add(key, 10 * key + 3, false));
        // The values of each key, and how many slots it has.
        let contents = || {
            [1, 2, 3, 4].map(|key| {
                let (mut values, mut slots) = (Vec::new(), 0);
                for item in bucket.items(marking).filter(|item| item.tag == tag(key)) {
                    assert_eq!(item.fingerprint, key as u8);
                    slots += 1;
                    match item.is_pointer {
                        true => table.values().each(
                            Pointer(item.value_word),
                            || true,
                            |value| values.push(value),
                        ),
                        false => values.push(item.value_word),
                    }
                }
                values.sort_unstable();
                (values, slots)
            })
        };
        let expected = |slots_of_first| {
            [
                ((10..14).collect(), slots_of_first),
                ((20..27).collect(), 5),
                ((30..33).collect(), 3),
                (vec![40], 1),
            ]
        };
        assert_eq!(contents(), expected(4));
        let mut made = Vec::new();
        assert!(table.compact_new(bucket, &mut made), "there is room");
        assert_eq!((made.len(), contents()), (1, expected(1)));
        assert!(!table.compact_new(bucket, &mut made), "there is no more");
        assert_eq!((made.len(), contents()), (1, expected(1)));
    }

    #[test]
    fn compaction_keeps_every_value() {
        let config = Config { buckets: 2, duplicates: true, ..Config::default() };
        compacts(&words(config.clone(), 0));
        compacts(&in_pages(config));
    }

    /// The log has all words of a change while they are stored, and none afterwards; recovery
    /// empties it.
    #[test]
    fn the_log_says_what_is_being_stored() {
        let table: InPages = in_pages(Config { buckets: 2, duplicates: true, ..Config::default() });
        let log: &Log<_> = table.duplicates.as_ref().unwrap().log.as_ref().unwrap();
        let said = |hash: usize| log.records()[hash].clone();
        for (hash, words) in [(0, 1), (3, 3), (5, 4), (15, 255)] {
            let stores: Vec<Store> =
                (0..words).map(|at| (Place::of(Location::Value(at)), 7 + at as u64)).collect();
            log.make_writable(hash).unwrap();
            log.run(hash, &stores, || assert_eq!(said(hash as usize), stores));
            assert_eq!(said(hash as usize), []);
            log.run(hash, &stores, || {
                log.empty().unwrap();
                assert_eq!(said(hash as usize), []);
            });
        }
        for words in [&[][..], &[1], &[1, 2, 3]] {
            log.save(Some(words)).unwrap();
            assert_eq!(log.saved().as_deref(), Some(words));
        }
        log.save(None).unwrap();
        assert_eq!(log.saved(), None);
    }
}

/// All slots of all segments count, those of the stash, too.
#[test]
fn slots_are_those_of_buckets_and_stash() {
    let table = words(Config { buckets: 8, ..Config::default() }, 0);
    (0..5000).for_each(|word| assert_eq!(put(&table, word), None));
    let stats = table.stats();
    assert_eq!(stats.slots, stats.segments * (8 + crate::table::pea::segments::STASH) * 15);
    assert_eq!(stats.load_factor, 5000.0 / stats.slots as f64);
}

/// A merge that finds no room after all gives its new segment back.
#[test]
fn merges_that_fail_take_no_memory() {
    let config = Config { buckets: 16, strategies: vec![Strategy::Single], ..Config::default() };
    let table = words(config, 0);
    (0..20_000).for_each(|word| assert_eq!(put(&table, word), None));
    table.shrink_to_fit().unwrap();
    let (before, merges) = (table.memory_usage(), table.stats().merges);
    (0..20).for_each(|_| table.shrink_to_fit().unwrap());
    assert_eq!(table.stats().merges, merges);
    // It may be less: a later call frees what an earlier one could not free yet.
    let after = table.memory_usage();
    assert!(after.mapped <= before.mapped && after.resident <= before.resident, "{after:?}");
}
