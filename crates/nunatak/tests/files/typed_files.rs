//! Typed maps in files: schemas, what can't be decoded, crashes, threads, futures.

use crate::encodings::Loose;
use crate::temporary::{Temporary, error};
use nunatak::durable::{
    Durability, Encoding, FileKind, KeyEncoding, Options, Persistency, Simulation, TurboBlobMap,
    TypedMap,
};
use nunatak::{Compute, Error, FileError, Schema};
use std::fs;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

fn small() -> Options {
    Options::new().shards(2)
}

#[test]
fn another_schema_is_refused_by_names() {
    let directory = Temporary::new();
    let path = directory.path();
    let options = small().schema("sessions", 3);
    let map: TypedMap<String, u64> = TypedMap::create_with(&path, &options).unwrap();
    map.insert("a", &1).unwrap();
    map.close().unwrap();
    let before = fs::read(&path).unwrap();
    let found = Schema::of(&path).unwrap().unwrap();
    assert_eq!((found.name(), found.version()), ("sessions", 3));
    assert_eq!((found.keys(), found.values()), ("str", "u64"));
    let is_refused = |opened: Result<(), Error>, expected: &str| {
        let Err(Error::File(FileError::OtherSchema { found, expected: named })) = opened else {
            panic!("{opened:?}")
        };
        assert_eq!(found.to_string(), "`sessions` version 3 (str to u64)");
        assert_eq!(named.to_string(), expected);
        let text = opened.unwrap_err().to_string();
        assert!(text.contains(&found.to_string()) && text.contains(expected), "{text}");
    };
    type Right = TypedMap<String, u64>;
    for options in [options.clone(), options.clone().read_only(true)] {
        let named = |name, version| options.clone().schema(name, version);
        let opened = Right::open_with(&path, &named("session", 3)).map(drop);
        is_refused(opened, "`session` version 3 (str to u64)");
        let opened = Right::open_with(&path, &named("sessions", 4)).map(drop);
        is_refused(opened, "`sessions` version 4 (str to u64)");
        let opened = TypedMap::<String, i64>::open_with(&path, &options).map(drop);
        is_refused(opened, "`sessions` version 3 (str to i64)");
        let opened = TypedMap::<Vec<u8>, u64>::open_with(&path, &options).map(drop);
        is_refused(opened, "`sessions` version 3 (bytes to u64)");
    }
    let opened = Right::open_beside(&path, &small()).map(drop);
    is_refused(opened, "`` version 0 (str to u64)");
    let opened = Right::open(&path).map(drop);
    is_refused(opened, "`` version 0 (str to u64)");
    assert!(fs::read(&path).unwrap() == before, "a refused file is as it was");
    assert_eq!(Right::open_with(&path, &options).unwrap().get("a"), Ok(Some(1)));
}

/// A map of byte strings reads the file, and changes nothing. A file without a schema is none of a
/// typed map.
#[test]
fn a_typed_file_is_not_changed_as_bytes() {
    let directory = Temporary::new();
    let path = directory.path();
    let map: TypedMap<String, u16> = TypedMap::create_with(&path, &small()).unwrap();
    map.insert("a", &258).unwrap();
    map.close().unwrap();
    let before = fs::read(&path).unwrap();
    assert_eq!(FileKind::of(&path), Ok(FileKind::TurboBlobs));
    let opened = TurboBlobMap::open(&path).map(drop);
    assert!(matches!(opened, Err(Error::File(FileError::OtherKind { .. }))), "{opened:?}");
    assert!(opened.unwrap_err().to_string().contains("schema"));
    assert!(fs::read(&path).unwrap() == before, "a refused file is as it was");
    let bytes = TurboBlobMap::open_with(&path, &small().read_only(true)).unwrap();
    assert_eq!(bytes.get(b"a"), Some(vec![2, 1]));
    assert_eq!(TurboBlobMap::open_beside(&path).unwrap().get(b"a"), Some(vec![2, 1]));
    let copy = path.with_extension("copy");
    assert_eq!(bytes.backup(&copy), Ok(1));
    drop(bytes);
    assert_eq!(TypedMap::<String, u16>::open(&copy).unwrap().get("a"), Ok(Some(258)));

    let plain = path.with_extension("plain");
    drop(TurboBlobMap::create_with(&plain, &small()).unwrap());
    assert_eq!(Schema::of(&plain), Ok(None));
    let opened = TypedMap::<Vec<u8>, Vec<u8>>::open(&plain).map(drop);
    assert!(matches!(opened, Err(Error::File(FileError::OtherKind { .. }))), "{opened:?}");
    assert!(opened.unwrap_err().to_string().contains("no schema"));
}

#[test]
fn a_name_that_does_not_fit_is_refused() {
    for name in ["a\nb", &"n".repeat(2048)] {
        let directory = Temporary::new();
        let options = small().schema(name, 1);
        let created = TypedMap::<u64, u64>::create_with(directory.path(), &options).map(drop);
        assert!(matches!(created, Err(Error::InvalidOption { option: "schema", .. })));
        assert!(!directory.path().exists());
    }
}

/// One damaged copy of the schema is mended, both are an error; nothing else of the file changes.
#[test]
fn a_damaged_schema_is_mended_or_refused() {
    let directory = Temporary::new();
    let path = directory.path();
    let options = small().schema("sessions", 3);
    let map: TypedMap<u64, u64> = TypedMap::create_with(&path, &options).unwrap();
    map.insert(&1, &10).unwrap();
    map.close().unwrap();
    let image = fs::read(&path).unwrap();
    let at = |text: &[u8]| image.windows(text.len()).position(|bytes| bytes == text).unwrap();
    let first = at(b"sessions\n3\nu64\nu64");
    for byte in [first - 8, first - 4, first, first + 12, first + 100] {
        let mut damaged = image.clone();
        damaged[byte] ^= 4;
        for copy in [&damaged, &{
            let mut second = image.clone();
            second[byte + 4096] ^= 4;
            second
        }] {
            fs::write(&path, copy).unwrap();
            assert_eq!(Schema::of(&path).unwrap().unwrap().version(), 3);
            let map: TypedMap<u64, u64> = TypedMap::open_with(&path, &options).unwrap();
            assert_eq!(map.get(&1), Ok(Some(10)));
            map.close().unwrap();
            let mended = fs::read(&path).unwrap();
            for copy in [byte, byte + 4096] {
                assert_eq!(mended[copy], image[byte], "byte {copy}");
            }
        }
        damaged[byte + 4096] ^= 4;
        fs::write(&path, &damaged).unwrap();
        let opened = TypedMap::<u64, u64>::open_with(&path, &options).map(drop);
        assert!(matches!(opened, Err(Error::File(FileError::Corrupt { .. }))), "{opened:?}");
        assert!(Schema::of(&path).is_err());
        assert!(fs::read(&path).unwrap() == damaged);
    }
}

/// `u64` by `u64` in a file, whose values of keys from 90 on are not what they should be: they have
/// seven bytes.
fn with_short_values(path: &std::path::Path) -> TypedMap<u64, u64> {
    let map: TypedMap<u64, Loose> = TypedMap::create_with(path, &small()).unwrap();
    for key in 0..100_u64 {
        let bytes = key.to_le_bytes();
        map.insert(&key, if key < 90 { &bytes } else { &bytes[..7] }).unwrap();
    }
    map.close().unwrap();
    TypedMap::open_with(path, &small()).unwrap()
}

#[test]
fn what_cannot_be_decoded_is_an_error_and_stays() {
    let directory = Temporary::new();
    let path = directory.path();
    let map = with_short_values(&path);
    let image = fs::read(&path).unwrap();
    let is_undecodable = |error: Error| {
        let Error::File(FileError::Undecodable { what: "value", at }) = error else {
            panic!("{error:?}")
        };
        at
    };
    // The error names the value's place.
    let at = is_undecodable(map.get(&95).unwrap_err()).unwrap() as usize;
    assert_eq!(image[at..at + 7], 95_u64.to_le_bytes()[..7]);
    let verified = is_undecodable(map.verify().unwrap_err()).unwrap() as usize;
    assert!((90..100).contains(&image[verified]));
    let guard = map.pin();
    is_undecodable(guard.get(&95).unwrap_err());
    assert_eq!(guard.iter().filter(Result::is_ok).count(), 90);
    drop(guard);
    for entries in [map.iter().collect::<Vec<_>>(), map.snapshot().unwrap().collect()] {
        let failed = entries.iter().filter_map(|entry| entry.err_place());
        assert_eq!((entries.len(), failed.count()), (100, 10));
    }
    is_undecodable(map.get_many(&[1, 95]).unwrap_err());
    // Nothing is changed by what returns such an error.
    is_undecodable(map.insert(&95, &1).unwrap_err());
    is_undecodable(map.try_insert(&95, &1).unwrap_err());
    is_undecodable(map.update(&95, &1).unwrap_err());
    is_undecodable(map.compute(&95, |_| Compute::Remove).unwrap_err());
    is_undecodable(map.fetch_update(&95, |_| Some(1)).unwrap_err());
    is_undecodable(map.compare_exchange(&95, &95, &1).unwrap_err());
    is_undecodable(map.get_or_insert_with(&95, || 1).unwrap_err());
    is_undecodable(map.remove(&95).unwrap_err());
    is_undecodable(map.remove_if(&95, |_| true).unwrap_err());
    is_undecodable(map.retain(|key, _| key >= 10).unwrap_err());
    is_undecodable(map.get(&95).unwrap_err());
    assert_eq!((map.len(), map.contains_key(&95)), (90, Ok(true)));
    let no_copy = path.with_extension("copy");
    is_undecodable(map.migrate::<u64, u64>(&no_copy, &small(), |k, v| Some((k, v))).unwrap_err());
    assert!(!no_copy.exists());
    // These do not look at the value.
    assert_eq!((map.put(&95, &1), map.get(&95)), (Ok(true), Ok(Some(1))));
    assert_eq!((map.delete(&96), map.delete(&96)), (Ok(true), Ok(false)));
    map.write_batch(&[(97, Some(2)), (98, None)]).unwrap();
    assert_eq!(map.insert_many(&[(99, 3)]), Ok(0));
    assert_eq!(map.remove_many(&[90, 91, 92, 93, 94]), Ok(5));
    assert_eq!((map.len(), map.verify()), (83, Ok(83)));
}

/// The place in the error of an entry.
trait ErrPlace {
    fn err_place(&self) -> Option<u64>;
}

impl<T> ErrPlace for Result<T, Error> {
    fn err_place(&self) -> Option<u64> {
        match self {
            Err(Error::File(FileError::Undecodable { what: "value", at })) => *at,
            _ => None,
        }
    }
}

/// A key whose encoding is not canonical is stored twice, as the documentation says; one that is
/// stored as other bytes than it is encoded to is found by `verify`.
#[test]
fn keys_are_compared_by_their_bytes() {
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct AnyCase(String);
    impl Encoding for AnyCase {
        type Owned = Self;
        type Ref = Self;
        type View<'b> = Self;
        fn name() -> String {
            "any case".into()
        }
        fn encode(item: &Self, bytes: &mut Vec<u8>) -> Result<(), Error> {
            <String as Encoding>::encode(&item.0, bytes)
        }
        /// Not the inverse of `encode`.
        fn decode(bytes: &[u8]) -> Option<Self> {
            Some(Self(<String as Encoding>::decode(bytes)?.to_lowercase()))
        }
        fn to_owned(view: Self) -> Self {
            view
        }
        fn borrow(owned: &Self) -> &Self {
            owned
        }
    }
    impl KeyEncoding for AnyCase {}
    let directory = Temporary::new();
    let map: TypedMap<AnyCase, u64> = TypedMap::create_with(directory.path(), &small()).unwrap();
    map.insert(&AnyCase("ada".into()), &1).unwrap();
    assert_eq!(map.verify(), Ok(1));
    map.insert(&AnyCase("Ada".into()), &2).unwrap();
    assert_eq!(map.len(), 2);
    let verified = map.verify();
    let Err(Error::File(FileError::Corrupt { at: Some(at), .. })) = verified else {
        panic!("{verified:?}")
    };
    map.close().unwrap();
    assert_eq!(fs::read(directory.path()).unwrap()[at as usize..][..3], *b"Ada");
}

#[test]
fn values_of_no_byte_and_of_a_mebibyte_are_kept() {
    let directory = Temporary::new();
    let large: String = ('a'..='z').cycle().take(1 << 20).collect();
    let map: TypedMap<(), String> = TypedMap::create_with(directory.path(), &small()).unwrap();
    map.insert(&(), "").unwrap();
    assert_eq!(map.get(&()), Ok(Some(String::new())));
    assert_eq!(map.insert(&(), &large), Ok(Some(String::new())));
    map.close().unwrap();
    let map: TypedMap<(), String> = TypedMap::open(directory.path()).unwrap();
    assert_eq!(map.get_with(&(), |value: &str| value == large), Ok(Some(true)));
    assert_eq!(map.pin().get(&()), Ok(Some(&*large)));
    assert!(map.remove(&()).unwrap().unwrap() == large);

    let nothing = directory.path().with_extension("nothing");
    let set: TypedMap<String, ()> = TypedMap::create_with(&nothing, &small()).unwrap();
    assert_eq!((set.insert(&large, &()), set.insert("", &())), (Ok(None), Ok(None)));
    set.close().unwrap();
    let set: TypedMap<String, ()> = TypedMap::open(&nothing).unwrap();
    assert_eq!(
        (set.get(&large), set.get(""), set.get("a")),
        (Ok(Some(())), Ok(Some(())), Ok(None))
    );
    assert_eq!(set.verify(), Ok(2));
}

/// A string is read where it is in the file, and stays there for the guard.
#[test]
fn strings_are_read_in_place() {
    let directory = Temporary::new();
    let map: TypedMap<u64, String> = TypedMap::create_with(directory.path(), &small()).unwrap();
    map.insert(&1, "stands still").unwrap();
    let guard = map.pin();
    let value = guard.get(&1).unwrap().unwrap();
    map.get_with(&1, |again: &str| assert!(core::ptr::eq(value, again))).unwrap();
    map.insert(&1, "moves").unwrap();
    map.remove(&1).unwrap();
    (2..3000).for_each(|key| assert_eq!(map.put(&key, "other"), Ok(false)));
    assert_eq!(value, "stands still");
}

#[test]
fn an_entry_that_cannot_be_encoded_changes_nothing() {
    #[derive(Debug)]
    struct Even;
    impl Encoding for Even {
        type Owned = u64;
        type Ref = u64;
        type View<'b> = u64;
        fn name() -> String {
            "even".into()
        }
        fn encode(item: &u64, bytes: &mut Vec<u8>) -> Result<(), Error> {
            match item % 2 {
                0 => u64::encode(item, bytes),
                _ => Err(Error::Unencodable { what: "value" }),
            }
        }
        fn decode(bytes: &[u8]) -> Option<u64> {
            u64::decode(bytes)
        }
        fn to_owned(view: u64) -> u64 {
            view
        }
        fn borrow(owned: &u64) -> &u64 {
            owned
        }
    }
    impl KeyEncoding for Even {}
    let refused = Error::Unencodable { what: "value" };
    let directory = Temporary::new();
    let map: TypedMap<Even, Even> = TypedMap::create_with(directory.path(), &small()).unwrap();
    map.insert(&2, &4).unwrap();
    assert_eq!(map.insert(&2, &5), Err(refused));
    assert_eq!(map.insert(&3, &4), Err(refused));
    assert_eq!(map.fetch_update(&2, |value| Some(value + 1)), Err(refused));
    assert_eq!(map.compute(&4, |_| Compute::Put(1)), Err(refused));
    assert_eq!(map.get_or_insert_with(&4, || 1), Err(refused));
    assert_eq!(map.insert_many(&[(6, 2), (8, 3)]), Err(refused));
    assert_eq!(map.write_batch(&[(2, None), (8, Some(3))]), Err(refused));
    assert_eq!((map.get(&3), map.contains_key(&3)), (Err(refused), Err(refused)));
    let entries: Vec<_> = map.iter().collect();
    assert_eq!(entries, [Ok((2, 4))]);
}

#[test]
fn a_migration_is_whole_or_absent() {
    let directory = Temporary::new();
    let path = directory.path();
    let (first, second) = (small().schema("ages", 1), small().schema("ages", 2));
    let old: TypedMap<String, u8> = TypedMap::create_with(&path, &first).unwrap();
    let entries: Vec<_> = (0..3000_u32).map(|n| (n.to_string(), n as u8)).collect();
    old.insert_many(&entries).unwrap();
    let new = path.with_extension("new");
    let change = |name: String, age: u8| {
        (age != 7).then(|| ((name.parse().unwrap(), name.len() as u8), age.to_string()))
    };
    let migrated = old.migrate::<(u32, u8), String>(&new, &second, change).unwrap();
    assert_eq!(migrated, entries.iter().filter(|entry| entry.1 != 7).count());
    let map: TypedMap<(u32, u8), String> = TypedMap::open_with(&new, &second).unwrap();
    assert!(map.recovery().was_closed);
    assert_eq!((map.len(), map.verify()), (migrated, Ok(migrated)));
    assert_eq!(map.get(&(2999, 4)), Ok(Some((2999_u32 as u8).to_string())));
    assert_eq!(map.get(&(7, 1)), Ok(None));
    // It takes no file's place.
    let again = old.migrate::<(u32, u8), String>(&new, &second, change);
    assert_eq!(again, Err(error(FileError::Exists)));
    assert_eq!(old.len(), 3000);
    drop((old, map));
    fs::rename(&new, &path).unwrap();
    assert!(TypedMap::<String, u8>::open_with(&path, &first).is_err());
    assert!(TypedMap::<(u32, u8), String>::open_with(&path, &second).is_ok());
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

/// `make` runs at most once for each call, and all threads get the value that was stored.
#[test]
fn threads_agree_on_what_was_inserted() {
    const THREADS: usize = 8;
    const KEYS: u64 = 200;
    let directory = Temporary::new();
    let map: TypedMap<u64, String> = TypedMap::create_with(directory.path(), &small()).unwrap();
    let (barrier, made) = (Barrier::new(THREADS), AtomicUsize::new(0));
    let of_thread = |thread: usize| {
        barrier.wait();
        let get = |key: u64| {
            let mut calls = 0;
            let value = map.get_or_insert_with(&key, || {
                calls += 1;
                made.fetch_add(1, Ordering::Relaxed);
                format!("{key} by {thread}")
            });
            assert!(calls <= 1);
            value.unwrap()
        };
        (0..KEYS).map(get).collect::<Vec<_>>()
    };
    let found: Vec<Vec<String>> = std::thread::scope(|scope| {
        let of_thread = &of_thread;
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || of_thread(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for key in 0..KEYS {
        let stored = map.get(&key).unwrap().unwrap();
        assert!(found.iter().all(|found| found[key as usize] == stored), "{key}");
    }
    assert!(made.load(Ordering::Relaxed) >= KEYS as usize);
    // Updates are not lost either.
    let directory = Temporary::new();
    let counts: TypedMap<String, u64> = TypedMap::create_with(directory.path(), &small()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let counts = &counts;
            scope.spawn(move || {
                for n in 0..500 {
                    let key = ["a", "b", "c"][(n % 3) as usize];
                    counts.compute(key, |n| Compute::Put(n.unwrap_or(&0) + 1)).unwrap();
                    let own = (thread + 1).to_string();
                    let before = counts.insert(&own, &n).unwrap();
                    assert_eq!(before, n.checked_sub(1), "of its own key a thread sees its own");
                }
            });
        }
    });
    let sum: u64 = ["a", "b", "c"].iter().map(|key| counts.get(key).unwrap().unwrap()).sum();
    assert_eq!(sum, THREADS as u64 * 500);
}

/// A power cut leaves the last sync of a typed map, with its schema.
#[test]
fn a_power_cut_leaves_the_last_sync() {
    for persistency in [Persistency::Pages, Persistency::Lines] {
        let simulation = Simulation::new(persistency);
        let options = small().schema("stock", 2);
        type Stock = TypedMap<(String, u8), i32>;
        let map: Stock = simulation.create_typed(&options).unwrap();
        let key = |n: i32| (n.to_string(), n as u8);
        (0..20).for_each(|n| assert_eq!(map.insert(&key(n), &n), Ok(None)));
        map.sync().unwrap();
        let begin = simulation.moment();
        map.write_batch(&(0..6).map(|n| (key(n), Some(-n - 1))).collect::<Vec<_>>()).unwrap();
        let batch = simulation.moment();
        map.remove(&key(19)).unwrap();
        map.sync().unwrap();
        let end = simulation.moment();
        let step = ((end - begin) / 60).max(1);
        let mut outcomes = [false; 2];
        for moment in (begin..end).step_by(step).chain([batch, end]) {
            for image in simulation.crash(moment).images(6, moment as u64) {
                let again = Simulation::of(&image, persistency);
                let other = again.open_typed::<(String, u8), i64>(&options).map(drop);
                let is_other = matches!(other, Err(Error::File(FileError::OtherSchema { .. })));
                assert!(is_other, "{other:?}");
                let map: Stock = again.open_typed(&options).unwrap();
                let changed = map.get(&key(0)) == Ok(Some(-1));
                for n in 0..19 {
                    let expected = if changed && n < 6 { -n - 1 } else { n };
                    assert_eq!(map.get(&key(n)), Ok(Some(expected)), "moment {moment}");
                }
                assert!(changed || moment < end);
                assert!(map.verify().is_ok());
                outcomes[usize::from(changed)] = true;
            }
        }
        assert_eq!(outcomes, [true; 2]);
        let closed = simulation.crash(end).latest();
        let again = Simulation::of(&closed, persistency);
        let map: Stock = again.open_typed(&options).unwrap();
        assert_eq!((map.len(), map.get(&key(19))), (19, Ok(None)));
    }
}

/// A level that syncs by itself acknowledges typed changes, too.
#[test]
fn synced_changes_survive_a_power_cut() {
    let simulation = Simulation::new(Persistency::Pages);
    let options = small().durability(Durability::Synced);
    type Names = TypedMap<u64, String>;
    let map: Names = simulation.create_typed(&options).unwrap();
    type Change<'c> = (&'c str, &'c dyn Fn(&Names), Option<&'c str>);
    let changes: [Change<'_>; 11] = [
        ("insert", &|map| drop(map.insert(&1, "a").unwrap()), Some("a")),
        ("put", &|map| assert!(map.put(&1, "b").unwrap()), Some("b")),
        ("update", &|map| drop(map.update(&1, "c").unwrap()), Some("c")),
        ("compute", &|map| drop(map.compute(&1, |_| Compute::Put("d".into())).unwrap()), Some("d")),
        ("exchange", &|map| drop(map.compare_exchange(&1, "d", "e").unwrap()), Some("e")),
        ("fetch", &|map| drop(map.fetch_update(&1, |_| Some("f".into())).unwrap()), Some("f")),
        ("remove", &|map| drop(map.remove(&1).unwrap()), None),
        ("try", &|map| drop(map.try_insert(&1, "g").unwrap()), Some("g")),
        ("retain", &|map| map.retain(|_, _| false).unwrap(), None),
        ("get or", &|map| drop(map.get_or_insert_with(&1, || "h".into()).unwrap()), Some("h")),
        ("batch", &|map| map.write_batch(&[(1, Some("i"))]).unwrap(), Some("i")),
    ];
    for (name, change, expected) in changes {
        change(&map);
        for image in simulation.crash(simulation.moment()).images(4, 0) {
            let again = Simulation::of(&image, Persistency::Pages);
            let map: Names = again.open_typed(&small()).unwrap();
            assert_eq!(map.get(&1).unwrap().as_deref(), expected, "{name}");
        }
    }
}
