//! The figures of the paper that hold on any machine, and the states that the public interface does
//! not show.

use super::layout::{BinState, Header};
use super::{Config, Table};
use crate::hash::{HashCodec, Hashing, IdentityCodec, RandomState, WordCodec};
use crate::memory::touched::lines_of;
use crate::sync::{Ordering, Shadowing, Shared, SingleThread};
use crate::table::shared::room::Room;
use crate::table::{ByEntry, ByWord, Change, PairTable};
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex};

type Words = Table<WordCodec<RandomState>, Shared>;

fn words(config: Config, capacity: usize) -> Words {
    let codec = RandomState::default().into_codec().unwrap();
    Table::new(codec, config, capacity).unwrap()
}

fn put(table: &Words, word: u64, value: u64) -> Option<u64> {
    table.apply(word, &ByWord, Some(value), |_| Change::To(value))
}

/// Returns the `i`th word of a sequence without order: a permutation of the words that is unrelated
/// to the default hash.
fn random(i: u64) -> u64 {
    let mut word = i.wrapping_add(0x9E37_79B9_7F4A_7C15);
    for (shift, factor) in [(30, 0xBF58_476D_1CE4_E5B9), (27, 0x94D0_49BB_1331_11EB)] {
        word = (word ^ word >> shift).wrapping_mul(factor);
    }
    word ^ word >> 31
}

/// Fills a table until it grows. Returns its keys per slot at that moment (three slots a bin, four
/// a link bucket), and its keys per bin.
fn occupancy_until_resize(bins: usize, bins_per_link: usize) -> (f64, f64) {
    let config = Config { initial_bins: bins, bins_per_link, ..Config::default() };
    let table = words(config, 0);
    let slots = table.stats().slots as f64;
    let keys = (0..)
        .find(|&key| {
            put(&table, random(key), key);
            table.root_bins() != bins || table.is_growing()
        })
        .unwrap();
    (keys as f64 / slots, keys as f64 / bins as f64)
}

#[test]
fn occupancy_exceeds_a_faithful_layout() {
    // The paper (section 5.1.5) says 61–72 %. With its links of one and two
    // whole buckets a simulation gives 59.8 % for one link bucket in five bins
    // and 54.0 % for one in eight; with a first link of half a bucket:
    for (bins_per_link, faithful, expected) in [(5, 0.598, 0.711), (8, 0.540, 0.649)] {
        for bins in [1 << 14, 1 << 18] {
            // One table of a hundred grows before its links are used up, because a bin got its 16th
            // key. The median of five is not such a table.
            let mut tables: Vec<_> =
                (0..5).map(|_| occupancy_until_resize(bins, bins_per_link)).collect();
            tables.sort_by(|one, other| one.0.total_cmp(&other.0));
            let (occupancy, keys_per_bin) = tables[2];
            println!("{bins} bins, 1/{bins_per_link}: {occupancy:.3}, {keys_per_bin:.2} a bin");
            assert!(occupancy > faithful, "{occupancy} with links for {bins_per_link} bins");
            assert!((occupancy - expected).abs() < 0.01, "{occupancy}, expected {expected}");
        }
    }
}

#[test]
fn growth_multiplies_by_8_4_and_2() {
    let table = words(Config { initial_bins: 16, ..Config::default() }, 0);
    let mut sizes = vec![table.root_bins()];
    for key in 0..200_000 {
        put(&table, key, key);
        if table.root_bins() != *sizes.last().unwrap() {
            sizes.push(table.root_bins());
        }
    }
    assert_eq!(sizes, [16, 128, 1024, 8192, 32_768, 131_072]);
}

#[test]
fn a_get_touches_one_line_unless_its_bin_has_links() {
    let table = words(Config::default(), 100_000);
    (0..100_000).for_each(|key| {
        put(&table, key, !key);
    });
    let index = table.hold_root();
    let mut by_lines = [0; 6];
    for key in 0..300_000_u64 {
        let hash = table.codec.hash(key);
        let bin = index.bins.at(table.place(hash, &index));
        let header = Header(bin.header.load(Ordering::Relaxed));
        let lines = lines_of(|| {
            assert_eq!(table.find(key, &ByWord), (key < 100_000).then_some(!key));
        });
        if !header.has_linked_slots() {
            assert_eq!(lines, 1, "key {key}");
        }
        by_lines[lines] += 1;
    }
    let share = f64::from(by_lines[1]) / 300_000.0;
    assert!(share > 0.9, "lines per get: {by_lines:?}");
}

#[test]
#[cfg(all(unix, not(miri)))]
fn a_get_dirties_no_line() {
    let table = words(Config::default(), 10_000);
    (0..20_000).for_each(|key| {
        put(&table, key, !key);
    });
    table.complete_migration();
    let index = table.hold_root();
    // From here on a store to a bin is a segmentation fault.
    index.bins.forbid_stores();
    for key in 0..40_000 {
        assert_eq!(table.find(key, &ByWord), (key < 20_000).then_some(!key));
    }
    let mut found = 0;
    table.find_many(
        20_000,
        |at| at as u64,
        |_| ByWord,
        |_, value| found += usize::from(value.is_some()),
    );
    assert_eq!(found, 20_000);
}

#[test]
fn churn_at_constant_population_does_not_grow() {
    let table = words(Config { initial_bins: 256, ..Config::default() }, 0);
    let population = 250;
    for key in 0..1_000_000_u64 {
        put(&table, key, key);
        if key >= population {
            assert!(table.apply(key - population, &ByWord, None, |_| Change::Remove).is_some());
        }
    }
    // Links are never taken off a bin: the index is copied at the same size.
    assert_eq!(table.root_bins(), 256);
    assert_eq!(table.len(), population as usize);
    assert_eq!(table.stats().delegated_bins, 0, "a copy has links for all bins");
}

/// At the number of keys that the index was made for.
#[test]
fn churn_at_the_planned_population_doubles_the_index_at_most() {
    let churn = |room| {
        let table = words(Config { room, ..Config::default() }, 10_000);
        let bins = table.root_bins();
        for key in 0..300_000_u64 {
            put(&table, random(key), key);
            if key >= 10_000 {
                let removed = table.apply(random(key - 10_000), &ByWord, None, |_| Change::Remove);
                assert_eq!(removed, Some(key - 10_000));
            }
        }
        assert_eq!((table.len(), table.stats().delegated_bins), (10_000, 0));
        table.root_bins() as f64 / bins as f64
    };
    assert_eq!(churn(Room::default()), 2.0);
    assert_eq!(churn(Room::of(10_001)), 1.0, "copies of the same size");
}

#[test]
fn a_slot_is_free_again_when_its_key_is_gone() {
    let table = words(Config { initial_bins: 64, ..Config::default() }, 0);
    put(&table, 7, 7);
    assert_eq!(table.stats().bins_by_entries[..2], [63, 1]);
    assert_eq!(table.apply(7, &ByWord, None, |_| Change::Remove), Some(7));
    assert_eq!(table.stats().bins_by_entries[..2], [64, 0], "removed");

    let codec = RandomState::default().into_codec().unwrap();
    let table: Table<_, Shadowing> =
        Table::new(codec, Config { initial_bins: 64, ..Config::default() }, 0).unwrap();
    let key = table.hashed(7);
    assert_eq!(table.hide(key, &ByWord), Ok(None));
    assert_eq!(table.stats().bins_by_entries[..2], [63, 1]);
    assert!(table.unhide(key, None));
    assert_eq!(table.stats().bins_by_entries[..2], [64, 0], "hidden, and aborted");
}

#[test]
fn shrinking_leaves_room_for_the_keys_and_no_more() {
    let table = words(Config::default(), 1000);
    (0..1000).for_each(|key| {
        put(&table, key, key);
    });
    let bins = table.root_bins();
    for factor in [2, 8] {
        table.reserve(1000 * (factor - 1)).unwrap();
        assert_eq!(table.root_bins(), factor * bins);
        let index = table.hold_root();
        table.reserve(1000 * (factor - 1)).unwrap();
        assert!(Arc::ptr_eq(&index, &table.hold_root()), "there was room");
        table.shrink_to_fit().unwrap();
        assert_eq!(table.root_bins(), bins);
        assert!((0..1000).all(|key| table.find(key, &ByWord) == Some(key)));
    }
    assert_eq!(table.stats().delegated_bins, 0);
}

#[test]
fn keys_are_found_while_a_migration_is_under_way() {
    let config =
        Config { initial_bins: 64, chunk_bins: 1, growth_factor: Some(2), ..Config::default() };
    let table = words(config, 0);
    let mut inserted_meanwhile = 0;
    for key in 0..2000 {
        assert_eq!(put(&table, key, !key), None);
        if table.is_growing() {
            inserted_meanwhile += 1;
            assert!((0..=key).all(|key| table.find(key, &ByWord) == Some(!key)), "{key}");
        }
    }
    assert!(inserted_meanwhile > 100);
}

#[test]
fn figures_count_slots_links_and_delegated_keys() {
    let table: Table<IdentityCodec, Shared> =
        Table::new(IdentityCodec, Config { initial_bins: 64, ..Config::default() }, 0).unwrap();
    let insert =
        |value: u64| table.apply(42, &ByEntry(|word| word == value), Some(value), |_| Change::Keep);
    assert!((1..=6).all(|value| insert(value).is_none()));
    let stats = table.stats();
    assert_eq!((stats.bins, stats.link_buckets, stats.slots), (64, 8, 3 * 64 + 4 * 8));
    assert!((stats.link_buckets_taken - 1.5).abs() < 1e-9, "{stats:?}");
    assert!((stats.occupancy - 6.0 / 224.0).abs() < 1e-9, "{stats:?}");
    assert_eq!((stats.bins_by_entries[0], stats.bins_by_entries[6]), (63, 1));
    assert!((7..=20).all(|value| insert(value).is_none()));
    let stats = table.stats();
    assert_eq!((stats.bins, stats.delegated_bins, stats.bins_by_entries[0]), (64, 1, 63));
    // A delegated key has a slot of its own.
    assert!((stats.occupancy - 20.0 / 244.0).abs() < 1e-9, "{stats:?}");
}

#[test]
fn colliding_hashes_are_delegated_and_return() {
    // Boxed entries with one hash; the key test tells them apart.
    let table: Table<IdentityCodec, Shared> =
        Table::new(IdentityCodec, Config::default(), 0).unwrap();
    let insert =
        |value: u64| table.apply(42, &ByEntry(|word| word == value), Some(value), |_| Change::Keep);
    for value in 1..=1000 {
        assert_eq!(insert(value), None);
        assert_eq!(insert(value), Some(value));
    }
    assert_eq!((table.len(), table.stats().delegated_bins), (1000, 1));
    assert!(table.root_bins() <= 256, "growing does not help, so it does not grow");
    assert_eq!(table.iter().count(), 1000);
    assert_eq!(table.snapshot().unwrap().count(), 1000);
    table.reserve(100_000).unwrap();
    assert_eq!((table.len(), table.iter().count()), (1000, 1000));
    for value in 1..=1000 {
        let test = ByEntry(|word| word == value);
        assert_eq!(table.find(42, &test), Some(value));
        assert_eq!(table.apply(42, &test, None, |_| Change::Remove), Some(value));
        assert_eq!(table.find(42, &test), None);
    }
    table.reserve(1_000_000).unwrap();
    assert_eq!(table.stats().delegated_bins, 0, "an empty bin is not delegated any more");
}

/// A hasher that gathers keys in a part of the index uses the links of one group up. A copy would need them all again.
#[test]
fn gathered_keys_copy_an_index_once() {
    let bins = 4 * super::index::GROUP_BINS as u64;
    let config = Config { initial_bins: bins as usize, ..Config::default() };
    let table: Table<_, Shared> = Table::new(IdentityCodec, config, 0).unwrap();
    let (mut copies, mut index) = (0, Arc::as_ptr(&table.hold_root()));
    // Five keys in each of the first bins.
    let keys = || (0..5).flat_map(|n| (0..bins / 8).map(move |bin| bin << 46 | n << 10));
    for key in keys() {
        assert_eq!(table.apply(key, &ByWord, Some(!key), |_| Change::Keep), None);
        let root = Arc::as_ptr(&table.hold_root());
        copies += usize::from(root != index);
        index = root;
    }
    assert_eq!((copies, table.root_bins() as u64), (1, bins));
    assert!(table.stats().delegated_bins > 1000, "{:?}", table.stats());
    assert!(keys().all(|key| table.find(key, &ByWord) == Some(!key)));
}

#[test]
fn changes_that_insert_nothing_end_a_migration_that_stands_still() {
    let table = words(Config { chunk_bins: 4096, ..Config::default() }, 20_000);
    let mut keys = 0;
    while !table.is_growing() {
        put(&table, keys, 0);
        keys += 1;
    }
    let mut round = 0;
    while table.is_growing() {
        round += 1;
        assert!(round < 1000, "the migration stands still");
        for key in 0..keys {
            let before = table.apply(key, &ByWord, None, |_| Change::To(round));
            assert_eq!(before, Some(round - 1));
        }
    }
    assert!((0..keys).all(|key| table.find(key, &ByWord) == Some(round)));
}

#[test]
fn old_indexes_are_freed() {
    let table = words(Config { chunk_bins: 4, ..Config::default() }, 0);
    (0..100_000).for_each(|key| {
        put(&table, key, key);
    });
    // Operations of other tests, on other tables, may be under way.
    let free_all = || {
        while table.stats().retired_indexes != 0 {
            table.free_retired();
            std::thread::yield_now();
        }
    };
    free_all();
    let held = table.iter();
    table.reserve(1_000_000).unwrap();
    // The iterator holds the index itself; the table gives its share up.
    free_all();
    assert_eq!(held.count(), 100_000);
}

/// A thread that keeps the number of entries as it is frees the copies that its removals and inserts make.
#[test]
fn copies_at_a_constant_number_of_entries_are_freed() {
    const KEYS: u64 = 1_009;
    let table = words(Config::default(), 1_400);
    (0..KEYS).for_each(|key| {
        put(&table, key, key);
    });
    let (mut copies, mut most) = (0, 0);
    let mut root = table.root.load(Ordering::Relaxed);
    for key in 0..2_000_000 {
        table.remove(key);
        put(&table, key + KEYS, key);
        let now = table.root.load(Ordering::Relaxed);
        copies += usize::from(now != root);
        root = now;
        most = most.max(table.retired.count());
    }
    // Operations of other tests may be under way for a while.
    assert!(copies > 4 && most < copies.div_ceil(2), "{most} of {copies} indexes waited");
}

#[test]
fn operations_and_resizes_free_old_indexes() {
    const MANY: usize = 1 << 20;
    let table = words(Config::default(), 0);
    // Not a multiple of the number of changes after which changes free indexes.
    (0..1001).for_each(|key| {
        put(&table, key, key);
    });
    let retired = || table.retired.count();
    // An operation of another test may hold an index for longer than a resize waits.
    let frees = || {
        table.reserve(100_000).unwrap();
        let after_growth = retired();
        table.shrink_to_fit().unwrap();
        after_growth == 0 && retired() == 0
    };
    assert!((0..20).any(|_| frees()), "resizes");

    let table = words(Config::default(), 1000);
    let retired = || table.retired.count();
    let mut keys = 0;
    while retired() == 0 && keys < 1 << 20 {
        put(&table, keys, keys);
        keys += 1;
    }
    assert_ne!(retired(), 0, "growth retires an index");
    let is_freed = (0..MANY).any(|_| {
        put(&table, keys, 0);
        keys += 1;
        if keys.is_multiple_of(64) {
            std::thread::yield_now();
        }
        retired() == 0
    });
    assert!(is_freed, "changes");
}

#[test]
fn a_dropped_table_gives_its_indexes_up() {
    let table = words(Config::default(), 0);
    put(&table, 7, 7);
    let old = table.hold_root();
    table.reserve(100_000).unwrap();
    let index = table.hold_root();
    drop(table);
    assert_eq!(Arc::strong_count(&old), 1);
    drop(old);
    assert_eq!(Arc::strong_count(&index), 1, "the old index gives up the one it moved to");
}

#[test]
fn operations_and_guards_hold_old_indexes() {
    const MANY: usize = 1 << 20;
    let table = words(Config::default(), 0);
    (0..1000).for_each(|key| {
        put(&table, key, key);
    });
    // Operations of other tests may be running; they will end.
    let is_freed = |rounds| {
        (0..rounds).any(|_| {
            table.free_retired();
            std::thread::yield_now();
            table.retired.count() == 0
        })
    };
    assert!(is_freed(MANY));
    let table = &table;
    let (taken, is_taken) = std::sync::mpsc::channel();
    let (done, is_done) = std::sync::mpsc::channel();
    // The closure takes the sender, so that the other thread ends if this one panics.
    std::thread::scope(move |scope| {
        scope.spawn(move || {
            let guard = table.registry.guard();
            taken.send(()).unwrap();
            is_done.recv().unwrap();
            assert!((0..1000).all(|key| table.find_guarded(&guard, key, ByWord) == Some(key)));
        });
        is_taken.recv().unwrap();
        table.reserve(100_000).unwrap();
        assert!(!is_freed(100));
        done.send(()).unwrap();
    });
    assert!(is_freed(MANY));
    // The thread's own guard does not delay the freeing; its own operation does.
    let guard = table.registry.guard();
    table.reserve(300_000).unwrap();
    assert!(is_freed(MANY));
    drop(guard);
    let pin = table.enter();
    table.reserve(1_000_000).unwrap();
    assert!(!is_freed(100));
    drop(pin);
    assert!(is_freed(MANY));
}

#[test]
fn one_thread_needs_no_announcement() {
    let codec = RandomState::default().into_codec().unwrap();
    let table: Table<_, SingleThread> = Table::new(codec, Config::default(), 0).unwrap();
    for key in 0..50_000_u64 {
        assert_eq!(table.apply(key, &ByWord, Some(key), |_| Change::To(key)), None);
    }
    for key in 0..50_000_u64 {
        assert_eq!(table.apply(key, &ByWord, None, |_| Change::Remove), Some(key));
    }
    assert_eq!((table.len(), table.iter().count()), (0, 0));
}

#[test]
fn headers_say_what_bins_are() {
    let table = words(Config { initial_bins: 64, ..Config::default() }, 0);
    let index = table.hold_root();
    put(&table, 7, 7);
    let snapshot = table.snapshot().unwrap();
    let states = (0..64).map(|at| Header(index.bins.at(at).header.load(Ordering::Relaxed)).state());
    assert!(states.into_iter().all(|state| state == BinState::Moved));
    assert_eq!(snapshot.collect::<Vec<_>>(), [(7, 7)]);
}

/// A hasher of the caller's that notes the words it is asked about.
#[derive(Clone, Default)]
pub(super) struct Noting(Arc<Mutex<Vec<u64>>>, u64);

impl BuildHasher for Noting {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        self.clone()
    }
}

impl Hasher for Noting {
    fn finish(&self) -> u64 {
        self.0.lock().unwrap().push(self.1);
        // The words from one million on collide.
        random(self.1.min(1_000_000))
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("words are hashed whole");
    }

    fn write_u64(&mut self, word: u64) {
        self.1 = word;
    }
}

impl Noting {
    /// Returns the words since the last call, sorted.
    fn asked(&self) -> Vec<u64> {
        let mut asked = core::mem::take(&mut *self.0.lock().unwrap());
        asked.sort_unstable();
        asked
    }
}

#[test]
fn growth_asks_a_hasher_about_each_key_once() {
    let hasher = Noting::default();
    let codec = hasher.clone().into_codec().unwrap();
    let table: Table<_, Shadowing> = Table::new(codec, Config::default(), 500).unwrap();
    for key in 0..250 {
        let value = table.apply_unless_shadowed(key, &ByWord, Some(5000 + key), |_| Change::Keep);
        assert_eq!(value, Ok(None));
        assert_eq!(table.hide(table.hashed(250 + key), &ByWord), Ok(None));
    }
    let all: Vec<u64> = (0..500).collect();
    assert!(!table.is_growing());
    hasher.asked();
    table.reserve(2000).unwrap();
    assert_eq!(hasher.asked(), all);
    // These need no hashes: a bin has one bin to go to.
    assert_eq!(table.snapshot().unwrap().count(), 250);
    assert!(hasher.asked().is_empty());
    let bins = table.root_bins();
    table.shrink_to_fit().unwrap();
    assert!(hasher.asked().is_empty());
    assert!(table.root_bins() < bins);
    assert!((0..250).all(|key| table.find(key, &ByWord) == Some(5000 + key)));
    assert_eq!(table.iter().count(), 250);
    assert!((250..500).all(|key| table.unhide(table.hashed(key), None)));
}

#[test]
fn a_bin_that_fills_twice_waits_for_hashes() {
    let codec = Noting::default().into_codec().unwrap();
    let config =
        Config { initial_bins: 64, chunk_bins: 1, growth_factor: Some(2), ..Config::default() };
    let table: Table<_, Shared> = Table::new(codec, config, 0).unwrap();
    // The bin of the last words is full in the old index and in the next one.
    for key in (0..40).chain(1_000_000..1_000_020) {
        assert_eq!(table.apply(key, &ByWord, Some(!key), |_| Change::Keep), None);
    }
    assert!(table.root_bins() > 64);
    for key in (0..40).chain(1_000_000..1_000_020) {
        assert_eq!(table.find(key, &ByWord), Some(!key));
    }
}
