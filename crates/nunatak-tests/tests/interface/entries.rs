//! Entries, counters, columns, sets of any keys, and what the standard library's maps implement, on
//! every design.

use nunatak::entry::{Inline, InlineKey};
use nunatak::{boxed, inline, wide, *};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

const THREADS: u64 = 4;
const ROUNDS: u64 = if cfg!(miri) { 20 } else { 20_000 };

/// Runs a function with a number in each of a few threads.
fn in_threads(run: impl Fn(u64) + Sync) {
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let run = &run;
            scope.spawn(move || run(thread));
        }
    });
}

macro_rules! for_designs {
    ($($test:ident: $inline:ident $set:ident $boxed:ident $boxed_set:ident;)*) => {$(
        mod $test {
            use super::*;

            #[test]
            fn counts_by_entries_lose_nothing() {
                let map: $inline<u64, u64> = $inline::new();
                in_threads(|_| {
                    for round in 0..ROUNDS {
                        map.entry(round % 3).and_modify(|count| *count += 1).or_insert(1);
                        // The key is absent again, and there are vacant entries to meet.
                        if round % 64 == 0 {
                            let taken = map.remove(&(round % 3)).unwrap_or(0);
                            map.fetch_add(100 + round % 3, taken);
                        }
                    }
                });
                assert_eq!(map.values().sum::<u64>(), THREADS * ROUNDS);
            }

            #[test]
            fn counts_by_entries_of_boxed_maps_lose_nothing() {
                let map: $boxed<String, Vec<u64>> = $boxed::new();
                in_threads(|thread| {
                    for round in 0..ROUNDS / 20 {
                        let key = format!("key {}", round % 16);
                        map.entry(key).and_modify(|seen| seen.push(thread)).or_insert(vec![thread]);
                    }
                });
                let all: Vec<u64> = map.values().flatten().collect();
                assert_eq!(all.len() as u64, THREADS * (ROUNDS / 20));
                let counts = (0..THREADS).map(|thread| all.iter().filter(|&&t| t == thread).count());
                assert!(counts.into_iter().all(|count| count as u64 == ROUNDS / 20));
            }

            #[test]
            fn matched_entries_refuse_what_has_changed() {
                let map: $inline<u64, u64> = [(1, 10)].into();
                let inline::Entry::Occupied(old) = map.entry(1) else { panic!("present") };
                map.insert(1, 11);
                let inline::Entry::Occupied(newer) = old.insert(12).unwrap_err() else {
                    panic!("present")
                };
                assert_eq!((newer.key(), newer.get(), map.get(&1)), (1, 11, Some(11)));
                map.remove(&1);
                let inline::Entry::Vacant(vacant) = newer.remove().unwrap_err() else {
                    panic!("absent")
                };
                assert!(vacant.insert(13).is_ok());
                assert_eq!(map.get(&1), Some(13));

                let map: $boxed<String, u64> = [("a".to_string(), 10)].into();
                let boxed::Entry::Occupied(old) = map.entry("a".into()) else { panic!("present") };
                map.insert("a".into(), 11);
                assert_eq!(*old.get(), 10);
                let (entry, refused) = old.insert(12).unwrap_err();
                let boxed::Entry::Occupied(newer) = entry else { panic!("present") };
                assert_eq!((newer.key().as_str(), *newer.get(), refused), ("a", 11, 12));
                // Equal values are not the same entry.
                map.insert("a".into(), 11);
                assert!(newer.remove().is_err());
                map.remove("a");
                let boxed::Entry::Vacant(vacant) = map.entry("a".into()) else { panic!("absent") };
                map.insert("a".into(), 14);
                let (present, refused) = vacant.insert(15).unwrap_err();
                assert_eq!((*present.get(), refused), (14, 15));
                assert_eq!(present.remove().unwrap().into_owned().unwrap(), ("a".into(), 14));
            }

            #[test]
            fn one_thread_wins_a_vacant_entry() {
                let map: $boxed<u64, u64> = $boxed::new();
                let wins = AtomicUsize::new(0);
                in_threads(|thread| {
                    for key in 0..ROUNDS / 10 {
                        if let boxed::Entry::Vacant(vacant) = map.entry(key) {
                            wins.fetch_add(usize::from(vacant.insert(thread).is_ok()), Relaxed);
                        }
                    }
                });
                assert_eq!(wins.into_inner() as u64, ROUNDS / 10);
            }

            #[test]
            fn integers_are_added_in_place() {
                let map: $inline<u64, i64> = $inline::new();
                in_threads(|thread| {
                    let entries: Vec<_> = (0..64).map(|at| (at % 8, 1)).collect();
                    let (keys, ones): (Vec<u64>, Vec<i64>) = entries.iter().copied().unzip();
                    let mut previous = [None; 64];
                    for _ in 0..ROUNDS / 64 {
                        match thread % 3 {
                            0 => drop(map.fetch_add_many(&entries, &mut previous)),
                            1 => drop(map.fetch_add_columns(&keys, &ones)),
                            _ => keys.iter().for_each(|&key| {
                                map.fetch_sub(key, -1);
                            }),
                        }
                    }
                });
                assert_eq!(map.values().sum::<i64>() as u64, THREADS * (ROUNDS / 64) * 64);
                assert_eq!((map.fetch_max(90, 5), map.fetch_max(90, 4)), (None, Some(5)));
                assert_eq!((map.fetch_min(90, 4), map.fetch_min(90, 7)), (Some(5), Some(4)));
                map.insert(91, i64::MAX);
                assert_eq!((map.fetch_add(91, 1), map.get(&91)), (Some(i64::MAX), Some(i64::MIN)));
            }

            #[test]
            fn columns_agree_with_single_operations() {
                let (map, single): ($inline<u64, u64>, $inline<u64, u64>) = Default::default();
                let keys: Vec<u64> = (0..1000).map(|at| at * 7 % 600).collect();
                let values: Vec<u64> = (0..1000).collect();
                let new = keys.iter().zip(&values).filter(|&(&k, &v)| single.insert(k, v).is_none());
                assert_eq!(map.insert_columns(&keys, &values), Ok(new.count()));
                assert_eq!(map, single);
                let wanted: Vec<u64> = (0..1000).collect();
                let (mut found, mut present) = (vec![u64::MAX; 1000], vec![u64::MAX; 16]);
                assert_eq!(map.get_columns(&wanted, &mut found, &mut present), Ok(600));
                for key in 0..1000_usize {
                    let is_present = present[key / 64] >> (key % 64) & 1 == 1;
                    assert_eq!(is_present.then_some(found[key]), single.get(&(key as u64)));
                    assert!(is_present || found[key] == u64::MAX);
                }
                assert_eq!(present[15] >> 40, u64::MAX >> 40, "bits behind the last key");
                assert!(map.get_columns(&wanted, &mut found[..999], &mut present).is_err());
                assert!(map.get_columns(&wanted, &mut found, &mut present[..15]).is_err());
                assert!(map.insert_columns(&keys[..1], &values).is_err());
                assert!(map.fetch_add_columns(&keys, &values[..1]).is_err());
                assert_eq!(map.get_columns(&[], &mut [], &mut []), Ok(0));
            }

            #[test]
            fn maps_are_copied_compared_and_taken_apart() {
                let map: $inline<u64, u64> = (0..2000).map(|key| (key, key * key)).collect();
                let copy = map.clone();
                assert_eq!(map, copy);
                copy.insert(7, 0);
                assert_ne!(map, copy);
                copy.remove(&7);
                assert_ne!(map, copy);
                let pairs: BTreeMap<u64, u64> = (&map).into_iter().collect();
                assert!(pairs.iter().all(|(key, value)| key * key == *value));
                assert_eq!(map.keys().collect::<BTreeSet<_>>(), pairs.keys().copied().collect());
                let mut extended: $inline<u64, u64> = $inline::new();
                extended.extend(&pairs);
                assert_eq!(extended, map);
                let odd = map.extract_if(|key, _| key % 2 == 1);
                assert_eq!(odd.map(|(key, _)| key).collect::<BTreeSet<_>>().len(), 1000);
                assert_eq!(map.drain().take(10).count(), 10);
                let rest: BTreeMap<u64, u64> = map.into_iter().collect();
                assert_eq!(rest.len(), 990);
                assert!(rest.keys().all(|key| key % 2 == 0));
            }

            #[test]
            fn boxed_maps_are_copied_compared_and_taken_apart() {
                let map: $boxed<String, Arc<u64>> =
                    (0..500).map(|key| (key.to_string(), Arc::new(key))).collect();
                let copy = map.clone();
                assert_eq!(map, copy);
                assert_eq!(Arc::strong_count(&map.get("7").unwrap()), 3);
                copy.insert("7".into(), Arc::new(8));
                assert_ne!(map, copy);
                drop(copy);
                let kept = map.get("7").unwrap();
                assert_eq!(map.extract_if(|key, _| key.len() == 1).count(), 10);
                assert_eq!(map.keys().count(), 490);
                assert_eq!(map.values().map(|value| *value).min(), Some(10));
                // Half of the rest is yielded, the other half is dropped with the iterator.
                let last = map.get("499").unwrap();
                let mut entries = map.into_iter();
                assert_eq!(entries.by_ref().take(245).collect::<HashMap<_, _>>().len(), 245);
                drop(entries);
                assert_eq!((Arc::strong_count(&kept), Arc::strong_count(&last)), (1, 1));
            }

            #[test]
            fn sets_of_any_keys() {
                let set: $boxed_set<String> = (0..500).map(|key| key.to_string()).collect();
                let other: $boxed_set<String> = (400..600).map(|key| key.to_string()).collect();
                assert_eq!(set.intersection(&other).count(), 100);
                assert_eq!(set.union(&other).collect::<BTreeSet<_>>().len(), 600);
                assert_eq!(set.difference(&other).count(), 400);
                assert_eq!(set.symmetric_difference(&other).count(), 500);
                assert!(!set.is_subset(&other) && !set.is_disjoint(&other));
                let part: $boxed_set<String> = set.intersection(&other).collect();
                assert!(part.is_subset(&set) && set.is_superset(&part));
                assert_eq!(set, set.clone());
                assert_eq!(set.take("7"), Some("7".into()));
                let keys: Vec<String> = ["7", "8", "x"].map(String::from).into();
                let mut before = [None; 3];
                assert_eq!(set.insert_many(&keys, &mut before), Ok(2));
                assert_eq!(before, [None, Some(()), None]);
                assert_eq!(set.contains_many(&keys, &mut before), Ok(3));
                assert_eq!(set.remove_many(&keys, &mut before), Ok(3));
                set.retain(|key| key.len() == 3);
                assert_eq!((&set).into_iter().count(), 400);
                assert!(set.snapshot().unwrap().all(|key| key.len() == 3));
                let wins = AtomicUsize::new(0);
                in_threads(|_| {
                    for key in 0..ROUNDS / 20 {
                        wins.fetch_add(usize::from(set.insert(format!("n{key}"))), Relaxed);
                    }
                });
                assert_eq!(wins.into_inner() as u64, ROUNDS / 20);
                set.clear();
                assert!(set.is_empty() && set.reclaim() == 0 && set.into_iter().next().is_none());
            }

            #[test]
            fn inline_sets_are_copied_and_taken_apart() {
                let set: $set<u64> = (0..1000).collect();
                assert_eq!(set, set.clone());
                assert_eq!((&set).into_iter().sum::<u64>(), 499_500);
                let mut more: $set<u64> = [1000].into();
                more.extend(&[1, 2]);
                assert_ne!(set, more);
                assert_eq!(set.into_iter().collect::<BTreeSet<_>>().len(), 1000);
            }
        }
    )*};
}

for_designs! {
    dlht: DlhtMap DlhtSet DlhtBoxedMap DlhtBoxedSet;
    iceberg: IcebergMap IcebergSet IcebergBoxedMap IcebergBoxedSet;
    pea: PeaMap PeaSet PeaBoxedMap PeaBoxedSet;
    turbo: TurboMap TurboSet TurboBoxedMap TurboBoxedSet;
}

/// Key and value types follow from use, as with the standard library's maps.
#[test]
fn types_are_inferred() {
    let map = DlhtMap::new();
    map.insert(1_u64, 2_u32);
    let map = IcebergMap::with_capacity(10);
    map.insert('a', 0.5_f32);
    let (map, set) = (TurboBoxedMap::new(), PeaSet::new());
    map.insert("a".to_string(), vec![1]);
    set.insert(7_u8);
    let names = IcebergBoxedSet::with_capacity(10);
    assert!(names.insert("ice"));
}

/// Keys that are found by a pair of references, of which no key can lend one.
#[derive(Hash, PartialEq, Eq)]
struct Owned(String, u32);

#[derive(Hash)]
struct Lent<'a>(&'a str, u32);

impl Equivalent<Owned> for Lent<'_> {
    fn equivalent(&self, key: &Owned) -> bool {
        self.0 == key.0 && self.1 == key.1
    }
}

#[test]
fn keys_are_found_by_equivalent_ones() {
    let map: DlhtBoxedMap<Owned, u64> = [(Owned("a".into(), 1), 10)].into();
    assert_eq!(map.get(&Lent("a", 1)), Some(10));
    assert_eq!(map.get(&Lent("a", 2)), None);
    assert_eq!(map.remove(&Lent("a", 1)), Some(10));
}

#[test]
fn keys_are_made_only_if_they_are_absent() {
    #[derive(PartialEq, Eq, Hash)]
    struct Counted(String);
    static MADE: AtomicUsize = AtomicUsize::new(0);
    impl From<&str> for Counted {
        fn from(name: &str) -> Self {
            MADE.fetch_add(1, Relaxed);
            Self(name.into())
        }
    }
    impl std::borrow::Borrow<str> for Counted {
        fn borrow(&self) -> &str {
            &self.0
        }
    }
    // The hash of a structure of one string is the hash of the string.
    let map: DlhtBoxedMap<Counted, u64> = DlhtBoxedMap::new();
    for round in 0..10 {
        assert_eq!(map.get_or_insert_by_ref("a", || round), 0);
    }
    assert_eq!((MADE.load(Relaxed), map.len()), (1, 1));
}

/// Keys that all collide: entries, and what is equal, rest on `Eq` alone.
#[derive(Default)]
struct Same;

impl Hasher for Same {
    fn finish(&self) -> u64 {
        7
    }

    fn write(&mut self, _: &[u8]) {}
}

#[test]
fn entries_of_colliding_keys_are_told_apart() {
    let map: DlhtBoxedMap<u64, u64, BuildHasherDefault<Same>> = DlhtBoxedMap::default();
    in_threads(|_| {
        for key in 0..60 {
            map.entry(key).and_modify(|count| *count += 1).or_insert(1);
        }
    });
    assert!((0..60).all(|key| map.get(&key) == Some(THREADS)));
    assert_eq!(map, map.clone());
}

#[test]
fn panics_in_entries_lose_nothing() {
    let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1)].into();
    let modify = || drop(map.entry("a".into()).and_modify(|_| panic!("in a closure")));
    assert!(catch_unwind(AssertUnwindSafe(modify)).is_err());
    let make = || drop(map.entry("b".into()).or_insert_with(|| panic!("in a closure")));
    assert!(catch_unwind(AssertUnwindSafe(make)).is_err());
    assert_eq!((map.get("a"), map.get("b"), map.reclaim()), (Some(1), None, 0));
    let map: DlhtMap<u64, u64> = [(1, 1)].into();
    let modify = || map.entry(1).and_modify(|_| panic!("in a closure")).or_insert(2);
    assert!(catch_unwind(AssertUnwindSafe(modify)).is_err());
    assert_eq!(map.get(&1), Some(1));
}

#[test]
fn closures_of_entries_may_use_the_map() {
    let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1)].into();
    let mut first = true;
    let changed = map.entry("a".into()).and_modify(|value| {
        // The first attempt is overtaken by this thread itself.
        if std::mem::take(&mut first) {
            map.insert("a".into(), 10);
        }
        *value += 1;
    });
    assert_eq!(*changed.or_insert(0), 11);
    let made = map.entry("b".into()).or_insert_with(|| map.insert("b".into(), 5).map_or(7, |_| 8));
    assert_eq!(*made, 5, "the value that came first");
}

#[test]
fn an_entry_that_vanishes_while_it_is_changed_is_stored_anew() {
    let map: DlhtMap<u64, u64> = [(1, 10)].into();
    let changed = map.entry(1).and_modify(|value| {
        map.remove(&1);
        *value += 1;
    });
    assert_eq!(changed.or_insert(5), 5);
    assert_eq!(map.get(&1), Some(5));
}

/// A count is added to what another thread has stored between the look and the insert.
#[test]
fn a_value_that_comes_before_an_insert_is_modified() {
    let map: DlhtMap<u64, u64> = DlhtMap::new();
    let entry = map.entry(1).and_modify(|value| *value += 1);
    let made = || map.insert(1, 10).unwrap_or(7);
    assert_eq!((entry.or_insert_with(made), map.get(&1)), (11, Some(11)));
    let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    let entry = map.entry("a".into()).and_modify(|value| *value += 1);
    let made = || map.insert("a".into(), 10).unwrap_or(7);
    assert_eq!((*entry.or_insert_with(made), map.get("a")), (11, Some(11)));
}

#[test]
fn maps_are_unwind_safe() {
    fn is_safe<T: UnwindSafe + RefUnwindSafe>() {}
    fn of_inline<K: InlineKey + RefUnwindSafe, V: Inline + RefUnwindSafe>() {
        is_safe::<DlhtMap<K, V>>();
        is_safe::<IcebergMap<K, V>>();
        is_safe::<PeaMap<K, V>>();
        is_safe::<TurboMap<K, V>>();
        is_safe::<PeaMultiMap<K, V>>();
        is_safe::<DlhtShadowMap<K, V>>();
        is_safe::<DlhtSet<K>>();
    }
    of_inline::<u64, u64>();
    is_safe::<DlhtBoxedMap<String, u64>>();
    is_safe::<IcebergBoxedMap<String, u64>>();
    is_safe::<PeaBoxedMap<String, u64>>();
    is_safe::<TurboBoxedMap<String, u64>>();
    is_safe::<DlhtBoxedSet<String>>();
    is_safe::<TurboBlobMap>();
    is_safe::<DlhtRecordMap>();
}

/// Maps of 16 bytes have the entries of inline maps.
fn entries_of_wide_maps<D: WideDesign>()
where
    WideMap<u64, (u64, u64), D>: Sync,
{
    let map: WideMap<u64, (u64, u64), D> = [(1, (10, 1))].into();
    let wide::Entry::Occupied(old) = map.entry(1) else { panic!("present") };
    // Only the second word differs.
    map.insert(1, (10, 2));
    let wide::Entry::Occupied(newer) = old.insert((12, 0)).unwrap_err() else { panic!("present") };
    assert_eq!((newer.key(), newer.get(), map.get(&1)), (1, (10, 2), Some((10, 2))));
    map.remove(&1);
    let wide::Entry::Vacant(vacant) = newer.remove().unwrap_err() else { panic!("absent") };
    assert!(vacant.insert((13, 0)).is_ok());
    assert_eq!(map.entry(1).or_insert((0, 0)), (13, 0));

    let map: WideMap<u64, (u64, u64), D> = WideMap::new();
    in_threads(|thread| {
        for round in 0..ROUNDS {
            let add = |(count, sum): &mut (u64, u64)| (*count, *sum) = (*count + 1, *sum + thread);
            map.entry(round % 8).and_modify(add).or_insert((1, thread));
        }
    });
    let (count, sum) = map.values().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    assert_eq!((count, sum), (THREADS * ROUNDS, ROUNDS * (0..THREADS).sum::<u64>()));
}

#[test]
fn entries_of_wide_maps_lose_nothing() {
    entries_of_wide_maps::<Dlht>();
    entries_of_wide_maps::<Iceberg>();
}
