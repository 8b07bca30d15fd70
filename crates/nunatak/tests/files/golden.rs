//! Files that an earlier build has written can be read and changed. With `NUNATAK_WRITE=1` writes
//! the files of the present version of the format, if there are none.

use crate::kinds::{Kind, Test, for_each_kind};
use nunatak::durable::{Encoding, FileMap, IcebergMap, KeyEncoding, MapInFile, Options, TypedMap};
use nunatak::{Error, FileError, Schema};
use std::fs;
use std::path::{Path, PathBuf};

const KEYS: u64 = 500;

fn golden(name: &str, version: u32) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden.join(format!("{name}-{version}.map"))
}

/// The versions that can be read, and the one that is written.
const VERSIONS: [u32; 2] = [2, PRESENT];
const PRESENT: u32 = 3;

struct Reading(u32);

/// The first version that a kind of map was written in.
fn first_version(kind: &str) -> u32 {
    if kind == "iceberg-blobs" { 3 } else { 2 }
}

impl Test for Reading {
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        if self.0 < first_version(kind.name) {
            return;
        }
        let golden = golden(kind.name, self.0);
        let is_present = self.0 == PRESENT;
        if std::env::var_os("NUNATAK_WRITE").is_some() && is_present && !golden.exists() {
            kind.create(&golden, KEYS).close().unwrap();
        }
        let map = FileMap::<T>::open_with(&golden, &Options::new().read_only(true)).unwrap();
        assert!(kind.is_whole(&map, KEYS), "{}", kind.name);
        assert_eq!(map.verify(), Ok(KEYS as usize), "{}", kind.name);
        assert_eq!((kind.remove)(&map, 1), Err(Error::File(FileError::ReadOnly)));
        let has_checksums = is_present && kind.name != "iceberg";
        assert_eq!(map.page_checksums().is_some(), has_checksums, "{}", kind.name);
        // A copy can be changed, too.
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        fs::copy(&golden, &path).unwrap();
        let map = kind.open(&path).unwrap();
        assert!(map.recovery().was_closed);
        (KEYS..5 * KEYS).for_each(|key| (kind.put)(&map, key).unwrap());
        assert!(kind.is_whole(&map, 5 * KEYS), "{}", kind.name);
        assert_eq!((kind.remove)(&map, 1), Ok(true));
        assert_eq!(map.verify(), Ok(5 * KEYS as usize - 1), "{}", kind.name);
    }
}

#[test]
fn files_of_earlier_versions_are_read() {
    VERSIONS.iter().for_each(|&version| for_each_kind(&Reading(version)));
}

/// Version 1 was never published.
#[test]
fn a_file_of_version_1_is_refused() {
    let opened = IcebergMap::<u64, u64>::open(golden("iceberg", 1));
    let older = FileError::OlderVersion { found: 1, known: 2 };
    assert_eq!(opened.map(drop), Err(Error::File(older)));
}

/// Reads the golden file of a typed map, and changes a copy. The bytes of keys and values are those
/// of the build that has written the file: no key is found whose encoding has changed, and no value
/// is equal.
fn typed_file_is_read<K, V>(
    name: &str,
    options: &Options,
    entry: impl Fn(u64) -> (K::Owned, V::Owned),
) where
    K: KeyEncoding,
    V: Encoding<Owned: core::fmt::Debug + PartialEq>,
{
    let golden = golden(name, PRESENT);
    let put = |map: &TypedMap<K, V>, n: u64| {
        let (key, value) = entry(n);
        map.put(K::borrow(&key), V::borrow(&value))
    };
    let is_whole = |map: &TypedMap<K, V>, keys: u64| {
        let has = |n: u64| {
            let (key, value) = entry(n);
            map.get(K::borrow(&key)) == Ok(Some(value))
        };
        map.len() as u64 == keys && (0..keys).all(has)
    };
    if std::env::var_os("NUNATAK_WRITE").is_some() && !golden.exists() {
        let map = TypedMap::<K, V>::create_with(&golden, options).unwrap();
        (0..KEYS).for_each(|n| assert_eq!(put(&map, n), Ok(false)));
        map.close().unwrap();
    }
    let read_only = options.clone().read_only(true);
    let map = TypedMap::<K, V>::open_with(&golden, &read_only).unwrap();
    assert!(is_whole(&map, KEYS), "{name}");
    assert_eq!(map.verify(), Ok(KEYS as usize), "{name}");
    let other = TypedMap::<K, V>::open_with(&golden, &read_only.schema(name, 8)).map(drop);
    assert!(matches!(other, Err(Error::File(FileError::OtherSchema { .. }))), "{other:?}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    fs::copy(&golden, &path).unwrap();
    let map = TypedMap::<K, V>::open_with(&path, options).unwrap();
    (KEYS / 2..2 * KEYS).for_each(|n| assert_eq!(put(&map, n), Ok(n < KEYS)));
    assert!(is_whole(&map, 2 * KEYS) && map.verify() == Ok(2 * KEYS as usize), "{name}");
}

fn schema(name: &str) -> Options {
    crate::kinds::small().schema(name, 7)
}

#[test]
fn a_typed_file_is_read() {
    type Key = (String, Option<i64>);
    type Value = ((u16, f64, bool), (char, [u8; 3], ()), Vec<u8>, Option<(i128, String)>);
    let letters = |n: u64| "étude".chars().cycle().take(n as usize % 7).collect::<String>();
    typed_file_is_read::<Key, Value>("typed", &schema("all encodings"), |n| {
        let numbers = (n as u16, n as f64 / 3.0, n % 2 == 1);
        let letter = char::from_u32(n as u32 + 0x100).unwrap();
        let last = (n % 3 > 0).then(|| (-i128::from(n) << 70, letters(n / 2)));
        let value = (numbers, (letter, [n as u8; 3], ()), vec![n as u8; n as usize % 50], last);
        ((letters(n), (n != 5).then_some(500 - n as i64)), value)
    });
    let schema = Schema::of(golden("typed", PRESENT)).unwrap().unwrap().to_string();
    let keys = "(str, i64?)";
    let values = "((u16, f64, bool), (char, bytes3, ()), bytes, (i128, str)?)";
    assert_eq!(schema, format!("`all encodings` version 7 ({keys} to {values})"));
}

/// Another version of the crate `postcard` writes the same bytes.
#[cfg(feature = "serde")]
#[test]
fn a_typed_file_of_serde_is_read() {
    use nunatak::durable::Postcard;
    use serde::{Deserialize, Serialize};
    use std::collections::BTreeMap;

    #[derive(PartialEq, Eq, Hash, Serialize, Deserialize)]
    enum Name {
        Number(u64),
        Path { parts: Vec<String>, is_absolute: bool },
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Account {
        balance: i64,
        rate: Option<f32>,
        names: BTreeMap<String, (u8, char)>,
    }

    let entry = |n: u64| {
        let name = match n % 2 {
            0 => Name::Number(n << (n % 3 * 20)),
            _ => Name::Path {
                parts: vec![n.to_string(), "é".into()],
                is_absolute: n.is_multiple_of(3),
            },
        };
        let names = (0..n % 4).map(|at| (at.to_string(), (n as u8, 'ß'))).collect();
        let rate = (!n.is_multiple_of(5)).then_some(n as f32 / 7.0);
        (name, Account { balance: 100 - (n * n) as i64, rate, names })
    };
    let schema = schema("accounts");
    typed_file_is_read::<Postcard<Name>, Postcard<Account>>("typed-postcard", &schema, entry);
}
