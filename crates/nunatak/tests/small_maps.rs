//! Maps of few entries: they take no mapping of their own, and become large maps without a change
//! that a caller could notice. A process of its own, since it counts the process's mappings.
#![cfg(all(target_os = "linux", not(modelled)))]

use nunatak::*;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, DefaultHasher};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Runs one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// The bytes of addresses, and of resident memory.
fn bytes() -> (usize, usize) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let mut pages = statm.split_whitespace().map(|pages| pages.parse::<usize>().unwrap());
    (pages.next().unwrap() * 4096, pages.next().unwrap() * 4096)
}

/// What a test does with a map: puts a number, asks for one, and asks how many there are.
struct Kind<M> {
    new: fn() -> M,
    put: fn(&M, u64),
    has: fn(&M, u64) -> bool,
    len: fn(&M) -> usize,
    usage: fn(&M) -> MemoryUsage,
    /// How many tables the map has.
    tables: usize,
}

trait Test {
    fn run<M>(&self, name: &str, kind: &Kind<M>);
}

fn for_each_kind(test: &impl Test) {
    macro_rules! kind {
        ($type:ty, $put:expr, $has:expr) => {
            test.run(
                stringify!($type),
                &Kind::<$type> {
                    new: <$type>::new,
                    put: $put,
                    has: $has,
                    len: |map| map.len(),
                    usage: |map| map.memory_usage(),
                    tables: if stringify!($type).contains("BlobMulti") { 2 } else { 1 },
                },
            );
        };
    }
    macro_rules! inline {
        ($($type:ident)*) => { $(kind!($type<u64, u64>,
            |map, n| _ = map.insert(n, !n), |map, n| map.get(&n) == Some(!n));)* };
    }
    macro_rules! sets {
        ($($type:ident)*) => { $(kind!($type<u64>,
            |map, n| _ = map.insert(n), |map, n| map.contains(&n));)* };
    }
    macro_rules! boxed {
        ($($type:ident)*) => { $(kind!($type<String, u64>,
            |map, n| _ = map.insert(n.to_string(), n),
            |map, n| map.get(n.to_string().as_str()) == Some(n));)* };
    }
    macro_rules! bytes {
        ($($type:ty)*) => { $(kind!($type,
            |map, n| _ = map.put(n.to_string().as_bytes(), &n.to_ne_bytes()).unwrap(),
            |map, n| map.get(n.to_string().as_bytes()) == Some(n.to_ne_bytes().to_vec()));)* };
    }
    inline!(DlhtMap DlhtLocalMap IcebergMap PeaMap TurboMap);
    sets!(DlhtSet IcebergSet PeaSet TurboSet);
    boxed!(DlhtBoxedMap IcebergBoxedMap PeaBoxedMap TurboBoxedMap);
    bytes!(TurboBlobMap DlhtRecordMap);
    kind!(
        DlhtWideMap<u64, (u64, u64)>,
        |map, n| _ = map.insert(n, (n, !n)),
        |map, n| map.get(&n) == Some((n, !n))
    );
    kind!(
        IcebergWideMap<u64, (u64, u64)>,
        |map, n| _ = map.insert(n, (n, !n)),
        |map, n| map.get(&n) == Some((n, !n))
    );
    kind!(DlhtWideSet<u128>, |map, n| _ = map.insert(u128::from(n) << 64), |map, n| map
        .contains(&(u128::from(n) << 64)));
    kind!(IcebergWideSet<u128>, |map, n| _ = map.insert(u128::from(n) << 64), |map, n| map
        .contains(&(u128::from(n) << 64)));
    kind!(
        DlhtShadowMap<u64, u64>,
        |map, n| _ = map.insert(n, !n).unwrap(),
        |map, n| map.get(&n) == Some(!n)
    );
    kind!(
        PeaMultiMap<u64, u64>,
        |map, n| map.insert(n, !n),
        |map, n| map.get_all(&n).eq([!n])
    );
    kind!(
        PeaBlobMultiMap<u64>,
        |map, n| map.insert(n.to_string().as_bytes(), !n).unwrap(),
        |map, n| map.get_all(n.to_string().as_bytes()).eq([!n])
    );
    kind!(
        PeaMap12<u32, u64>,
        |map, n| _ = map.insert(n as u32, !n),
        |map, n| map.get(&(n as u32)) == Some(!n)
    );
    kind!(
        PeaMap8<u32, u32>,
        |map, n| _ = map.insert(n as u32, n as u32),
        |map, n| map.get(&(n as u32)) == Some(n as u32)
    );
}

/// Builds many maps, each with some entries, and measures them.
struct Many {
    maps: u64,
    entries: u64,
    most_bytes: usize,
}

impl Test for Many {
    fn run<M>(&self, name: &str, kind: &Kind<M>) {
        // What the maps before have freed goes back to the system, so that it is not used again.
        // SAFETY: the call has no condition.
        unsafe { libc::malloc_trim(0) };
        let (maps_before, before) = (mappings(), bytes().1);
        let maps: Vec<M> = (0..self.maps)
            .map(|number| {
                let map = (kind.new)();
                (0..self.entries).for_each(|entry| (kind.put)(&map, number + entry));
                map
            })
            .collect();
        let more = mappings().saturating_sub(maps_before);
        let resident = bytes().1.saturating_sub(before);
        let each = resident / self.maps as usize;
        println!("{name}: {each} bytes resident for each map, {more} mappings for all");
        assert!(more < 100, "{name}: {more} mappings");
        let most_bytes = self.most_bytes * kind.tables;
        assert!(each <= most_bytes, "{name}: {each} bytes a map");
        let usage = (kind.usage)(&maps[0]);
        assert!(usage.resident <= usage.mapped && usage.mapped <= most_bytes, "{name}");
        // The memory of boxed entries, which is counted nowhere, outweighs a table of many.
        let is_counted = self.entries > 1 || usage.mapped > each / 4;
        assert!(is_counted, "{name}: {usage:?} is not the truth, {each} bytes");
        for (number, map) in (0..).zip(&maps) {
            assert!((0..self.entries).all(|entry| (kind.has)(map, number + entry)), "{name}");
            assert_eq!((kind.len)(map) as u64, self.entries, "{name}");
        }
    }
}

/// In a process of its own, as the next one: where the allocator finds room for a map depends on what other tests have
/// left.
#[test]
fn a_hundred_thousand_maps_of_one_entry_take_a_page_each_and_no_mapping() {
    in_child("child_with_maps_of_one_entry");
}

#[test]
#[ignore = "measures the process; run by another test"]
fn child_with_maps_of_one_entry() {
    for_each_kind(&Many { maps: 100_000, entries: 1, most_bytes: 6 << 10 });
}

#[test]
fn maps_of_two_dozen_entries_take_no_mapping() {
    in_child("child_with_maps_of_two_dozen_entries");
}

#[test]
#[ignore = "measures the process; run by another test"]
fn child_with_maps_of_two_dozen_entries() {
    for_each_kind(&Many { maps: 5000, entries: 24, most_bytes: 8 << 10 });
}

/// Makes, fills and drops maps in a loop.
struct Loops;

impl Test for Loops {
    fn run<M>(&self, name: &str, kind: &Kind<M>) {
        let before = mappings();
        for round in 0..20_000 {
            let map = (kind.new)();
            // Some maps become large.
            let entries = if round % 1000 == 0 { 200 } else { round % 33 };
            (0..entries).for_each(|entry| (kind.put)(&map, entry));
            assert_eq!((kind.len)(&map) as u64, entries, "{name}");
            assert!((0..entries).all(|entry| (kind.has)(&map, entry)), "{name}");
        }
        assert!(mappings() < before + 50, "{name}: mappings are left");
    }
}

#[test]
fn maps_are_made_and_dropped_in_loops() {
    let _alone = alone();
    for_each_kind(&Loops);
}

/// Fills a map, and looks at all entries at each step until the map is large.
struct Grows(u64);

impl Test for Grows {
    fn run<M>(&self, name: &str, kind: &Kind<M>) {
        let map = (kind.new)();
        for n in 0..self.0 {
            (kind.put)(&map, n);
            if n < 200 {
                assert!((0..=n).all(|n| (kind.has)(&map, n)), "{name}: {n}");
                assert!(!(kind.has)(&map, n + 1) && (kind.len)(&map) as u64 == n + 1, "{name}");
            }
        }
        assert!((0..self.0).all(|n| (kind.has)(&map, n)), "{name}");
        assert_eq!((kind.len)(&map) as u64, self.0, "{name}");
    }
}

#[test]
fn maps_grow_from_one_entry_to_many() {
    let _alone = alone();
    for_each_kind(&Grows(20_000));
}

/// A map as a value of a map.
#[test]
fn maps_of_maps() {
    let _alone = alone();
    let outer: TurboBoxedMap<u64, TurboMap<u64, u64>> = TurboBoxedMap::new();
    let before = mappings();
    for n in 0..10_000 {
        let inner = TurboMap::new();
        inner.insert(n, n);
        outer.put(n, inner);
    }
    assert!(mappings() < before + 100);
    let guard = outer.pin();
    assert!((0..10_000).all(|n| guard.get(&n).unwrap().get(&n) == Some(n)));
}

/// Runs a test of this file in another process.
fn in_child(test: &str) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(text.contains("1 passed"), "{text}");
    println!("{text}");
}

fn limit_addresses(bytes: Option<u64>) {
    let limit = bytes.unwrap_or(libc::RLIM_INFINITY);
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is a valid structure for the length of the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

#[test]
fn maps_grow_to_100_000_entries_in_a_gibibyte_of_addresses() {
    in_child("child_with_few_addresses");
}

#[test]
#[ignore = "limits the process; run by another test"]
fn child_with_few_addresses() {
    limit_addresses(Some(1 << 30));
    for_each_kind(&Grows(100_000));
    // Some maps at once.
    let maps: Vec<TurboMap<u64, u64>> = (0..8).map(|_| TurboMap::new()).collect();
    for map in &maps {
        (0..10_000).for_each(|n| _ = map.insert(n, n));
    }
    assert!(maps.iter().all(|map| (0..10_000).all(|n| map.get(&n) == Some(n))));
}

#[test]
fn maps_whose_large_table_is_refused_keep_everything_and_grow_later() {
    in_child("child_with_refused_tables");
}

/// The full table of a map is refused: further pairs are in the slots, until there is memory.
#[test]
#[ignore = "limits the process; run by another test"]
fn child_with_refused_tables() {
    // Memory of the allocator, for the slots.
    drop(std::hint::black_box(vec![[1_u8; 50_000]; 2]));
    fn check<M: ConcurrentMap<u64, u64>>(map: &M, is_small: impl Fn(&M::Stats) -> bool) {
        (0..20).for_each(|n| assert_eq!(map.insert(n, !n), None));
        limit_addresses(Some(bytes().0 as u64));
        (20..500).for_each(|n| assert_eq!(map.insert(n, !n), None));
        assert!(is_small(&map.stats()), "{:?}", map.stats());
        assert!(map.reserve(1000).is_err());
        assert!(map.load_factor() > 0.1);
        (0..500).step_by(7).for_each(|n| assert_eq!(map.remove(&n), Some(!n)));
        let expected = || (0..500).filter(|n| n % 7 != 0);
        let mut keys: Vec<u64> = map.iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        assert!(keys.into_iter().eq(expected()));
        limit_addresses(None);
        // The next key for which the slots have no room.
        (1000..4000).for_each(|n| assert_eq!(map.insert(n, !n), None));
        assert!(!is_small(&map.stats()), "{:?}", map.stats());
        assert!(expected().chain(1000..4000).all(|n| map.get(&n) == Some(!n)));
        assert_eq!(map.len(), expected().count() + 3000);
    }
    check(&TurboMap::<u64, u64>::new(), |stats| stats.buckets == 0);
    check(&PeaMap::<u64, u64>::new(), |stats| stats.segments == 0);
    check(&IcebergMap::<u64, u64>::new(), |stats| stats.blocks == 0);
}

/// A capacity above the small size, or a reservation, makes the full table at once.
#[test]
fn a_capacity_makes_the_full_table() {
    let _alone = alone();
    assert!(TurboMap::<u64, u64>::with_capacity(33).stats().buckets > 0);
    assert!(PeaMap::<u64, u64>::with_capacity(33).stats().segments > 0);
    assert!(IcebergMap::<u64, u64>::with_capacity(33).stats().blocks > 0);
    let map: TurboMap<u64, u64> = TurboMap::with_capacity(32);
    map.insert(1, 2);
    map.reserve(31).unwrap();
    assert_eq!((map.stats().buckets, map.stats().len), (0, 1));
    let (slots, of_stats) = (map.stats().slots, map.stats().load_factor);
    assert_eq!((slots, of_stats, map.load_factor()), (8, 0.125, 0.125));
    map.reserve(32).unwrap();
    assert!(map.stats().buckets > 0 && map.get(&1) == Some(2));
}

/// Iterators and snapshots that began while a map was small, handles, and batches over the step.
#[test]
fn what_began_in_a_small_map_goes_on_in_a_large_one() {
    let _alone = alone();
    fn check<M: ConcurrentMap<u64, u64>>(new: impl Fn() -> M) {
        let map = new();
        (0..20).for_each(|n| _ = map.insert(n, n));
        let (mut walk, cut) = (map.iter(), map.snapshot().unwrap());
        let mut seen: Vec<u64> = walk.by_ref().take(5).map(|(key, _)| key).collect();
        (100..1000).for_each(|n| _ = map.insert(n, n));
        seen.extend(walk.map(|(key, _)| key).filter(|&key| key < 20));
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..20));
        assert_eq!(cut.collect::<BTreeMap<_, _>>(), (0..20).map(|n| (n, n)).collect());

        let map = new();
        let entries: Vec<(u64, u64)> = (0..100).map(|n| (n % 50, n)).collect();
        let mut previous = vec![None; 100];
        assert_eq!(map.insert_many(&entries, &mut previous).unwrap(), 50);
        let before = |n: u64| n.checked_sub(50);
        assert!((0..100).all(|n| previous[n as usize] == before(n)));
        let keys: Vec<u64> = (0..60).collect();
        let mut values = vec![None; 60];
        assert_eq!(map.get_many(&keys, &mut values).unwrap(), 50);
        assert_eq!(map.remove_many(&keys, &mut values).unwrap(), 50);
        assert!(map.is_empty() && values[7] == Some(57));
        map.shrink_to_fit().unwrap();
    }
    check(TurboMap::<u64, u64>::new);
    check(PeaMap::<u64, u64>::new);
    check(IcebergMap::<u64, u64>::new);
    check(DlhtMap::<u64, u64>::new);

    let map: IcebergMap<u64, u64> = IcebergMap::new();
    (0..10).for_each(|n| _ = map.insert(n, !n));
    let slot = map.slot(&7).unwrap();
    map.remove(&3);
    map.insert(20, 20);
    assert_eq!((map.slot(&7), map.get_at(&slot), slot.level()), (Some(slot), Some((7, !7)), 1));
    (100..1000).for_each(|n| _ = map.insert(n, n));
    assert_eq!(map.get_at(&slot), None, "the map has changed its size");
    let slot = map.slot(&7).unwrap();
    assert_eq!(map.get_at(&slot), Some((7, !7)));
}

/// Keys of which some equal a slot's constant, whatever the key is.
#[test]
fn any_word_is_a_key() {
    let _alone = alone();
    let map: TurboMap<u64, u64> = TurboMap::new();
    let first = 0x6E75_6E61_7461_6B00_u64;
    let keys = || (first..first + 10).rev().chain([0, u64::MAX, first - 1]);
    keys().for_each(|key| assert_eq!(map.insert(key, !key), None));
    keys().for_each(|key| assert_eq!(map.get(&key), Some(!key)));
    keys().for_each(|key| assert_eq!(map.remove(&key), Some(!key)));
    keys().for_each(|key| assert_eq!(map.get(&key), None));
}

/// All values of a key are read and removed at one moment, before and after the map has grown.
#[test]
fn small_multimaps_are_multimaps() {
    let _alone = alone();
    let map: PeaMultiMap<u64, u64> = PeaMultiMap::new();
    for value in 0..100 {
        map.insert(value % 3, value);
        map.insert(value % 3, value);
        let mut found: Vec<u64> = map.get_all(&(value % 3)).collect();
        found.sort_unstable();
        let twice = (0..=value).filter(|n| n % 3 == value % 3).flat_map(|n| [n, n]);
        assert!(found.into_iter().eq(twice));
        assert!(map.contains_pair(&(value % 3), &value) && map.remove_one(&(value % 3), &value));
        map.insert(value % 3, value);
    }
    let map: PeaMultiMap<u64, u64> = (0..20).map(|value| (value % 2, value)).collect();
    assert!(!map.insert_unique(0, 0) && map.insert_unique(2, 0) && map.remove_one(&2, &0));
    // The batch begins in the slots and ends in the table.
    let twice: Vec<_> = (0..200_u64).map(|n| (n % 100 / 7, n % 100)).collect();
    let once: PeaMultiMap<u64, u64> = PeaMultiMap::new();
    assert_eq!((once.insert_unique_many(&twice[..20]), once.insert_unique_many(&twice)), (20, 80));
    assert!(once.len() == 100 && once.stats().table.segments > 0);
    let mut keys: Vec<_> = map.distinct_keys().collect();
    keys.sort_unstable();
    assert_eq!(keys, [(0, 10), (1, 10)]);
    assert!(map.iter_all().all(|(key, all)| all.len() == 10 && map.contains_pair(&key, &all[9])));
    let mut counts = [0; 3];
    map.count_many(&[0, 1, 2], &mut counts).unwrap();
    assert_eq!((counts, map.remove_all(&1), map.drain(&0).len()), ([10, 10, 0], 10, 10));
    assert!(map.is_empty() && map.stats().table.segments == 0);
}

/// A hasher that counts its calls, and panics when told.
#[derive(Clone, Default)]
struct Told(Arc<(AtomicBool, AtomicUsize)>);

impl BuildHasher for Told {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        self.0.1.fetch_add(1, Ordering::Relaxed);
        assert!(!self.0.0.load(Ordering::Relaxed), "told to panic");
        DefaultHasher::new()
    }
}

/// A hasher that panics while the map becomes large leaves it as it was.
#[test]
fn a_panic_at_the_step_leaves_the_map_as_it_was() {
    let _alone = alone();
    let hasher = Told::default();
    let map: TurboMap<u64, u64, Told> =
        TurboMap::<u64, u64>::builder().hasher(hasher.clone()).build().unwrap();
    (0..32).for_each(|n| _ = map.insert(n, n));
    hasher.0.0.store(true, Ordering::Relaxed);
    let insert = || _ = map.insert(32, 32);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(insert)).is_err());
    hasher.0.0.store(false, Ordering::Relaxed);
    assert!((0..32).all(|n| map.get(&n) == Some(n)) && map.get(&32).is_none() && map.len() == 32);
    assert_eq!(map.insert(33, 33), None);
    assert_eq!((map.len(), map.iter().count()), (33, 33));
}

/// Threads that insert, update, read and remove while the map becomes large.
#[test]
fn threads_meet_at_the_step() {
    let _alone = alone();
    fn check<M: ConcurrentMap<u64, u64> + Sync>(new: impl Fn() -> M) {
        for _ in 0..300 {
            let map = new();
            let start = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for thread in 0..4_u64 {
                    let (map, start) = (&map, &start);
                    scope.spawn(move || {
                        start.wait();
                        let own = |n: u64| n * 4 + thread;
                        for n in 0..30 {
                            assert_eq!(map.insert(own(n), 0), None);
                            for round in 1..4 {
                                assert_eq!(map.insert(own(n), round), Some(round - 1));
                                assert_eq!(map.get(&own(n)), Some(round));
                            }
                            if n % 3 == 0 {
                                assert_eq!(map.remove(&own(n)), Some(3));
                                assert_eq!(map.get(&own(n)), None);
                            }
                            let present = map.iter().filter(|(key, _)| key % 4 == thread).count();
                            assert_eq!(present as u64, n + 1 - (n / 3 + 1));
                        }
                    });
                }
            });
            assert_eq!((map.len(), map.iter().count()), (80, 80));
        }
    }
    check(TurboMap::<u64, u64>::new);
    check(PeaMap::<u64, u64>::new);
    check(IcebergMap::<u64, u64>::new);
    check(|| {
        let builder = TurboMap::<u64, u64>::builder().hasher(Told::default());
        let map: TurboMap<u64, u64, Told> = builder.build().unwrap();
        map
    });
}

/// A capacity takes no more memory than the entries need before and after a split, and inserting so
/// many entries splits no segment.
#[test]
fn a_capacity_of_a_pea_map_takes_what_it_needs() {
    let _alone = alone();
    for capacity in [100_000, 1 << 20, 1 << 22] {
        let map: PeaMap<u64, u64> = PeaMap::with_capacity(capacity);
        let mapped = map.memory_usage().mapped as f64 / capacity as f64;
        println!("{capacity} entries: {mapped:.1} bytes an entry");
        assert!(mapped <= 40.0 && (capacity != 1 << 22 || mapped <= 36.0), "{mapped}");
        if capacity < 1 << 22 {
            (0..capacity as u64).for_each(|n| _ = map.insert(n, n));
            assert_eq!(map.stats().splits, 0);
        }
    }
}

/// The values of a key change their slots, but the key always has one.
#[test]
fn a_key_that_always_has_a_value_is_always_found() {
    let _alone = alone();
    let map: PeaMultiMap<u64, u64> = PeaMultiMap::new();
    map.insert(1, 10);
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200_000 {
                map.insert(1, 20);
                assert!(map.remove_one(&1, &10));
                map.insert(1, 10);
                assert!(map.remove_one(&1, &20));
            }
            ends.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !ends.load(std::sync::atomic::Ordering::Relaxed) {
            assert!(map.contains_key(&1) && map.get(&1).is_some());
        }
    });
}
