//! [`TryConcurrentMap`] on maps in RAM and in files, against a model; and that it reports what the
//! other trait can't.

use nunatak::{Compute, DlhtBoxedMap, Error, IcebergMap, TryConcurrentMap, TurboBlobMap, durable};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Runs ten thousand operations on a map and on a model.
fn behaves<K, V, M>(map: &M, key: impl Fn(u64) -> K, value: impl Fn(u64) -> V)
where
    K: Clone + Ord + Debug,
    V: Clone + PartialEq + Debug,
    M: TryConcurrentMap<K, V>,
    M::Error: PartialEq,
{
    let mut model: BTreeMap<K, V> = BTreeMap::new();
    let mut random = 1_u64;
    for _ in 0..10_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let (key, new, other) = (key(random >> 40 & 63), value(random >> 50), value(random >> 60));
        let before = model.get(&key).cloned();
        match random >> 34 & 15 {
            0 => assert_eq!(map.insert(key.clone(), new.clone()), Ok(model.insert(key, new))),
            1 => {
                let expected = before.map_or(Ok(()), Err);
                assert_eq!(map.try_insert(key.clone(), new.clone()), Ok(expected));
                model.entry(key).or_insert(new);
            }
            2 => {
                assert_eq!(map.update(&key, new.clone()), Ok(before));
                model.entry(key).and_modify(|value| *value = new);
            }
            3 => {
                let is_equal = before.as_ref() == Some(&other);
                let expected = if is_equal { Ok(other.clone()) } else { Err(before) };
                assert_eq!(map.compare_exchange(&key, &other, new.clone()), Ok(expected));
                if is_equal {
                    model.insert(key, new);
                }
            }
            4 => {
                let declines = new == other;
                let result = map.fetch_update(&key, |_| (!declines).then(|| new.clone()));
                let expected = if declines { Err(before) } else { before.ok_or(None) };
                assert_eq!(result, Ok(expected));
                if !declines {
                    model.entry(key).and_modify(|value| *value = new);
                }
            }
            5 => {
                let decided = map.compute(key.clone(), |present| match present {
                    Some(value) if *value == other => Compute::Remove,
                    Some(_) => Compute::Keep,
                    None => Compute::Put(new.clone()),
                });
                assert_eq!(decided, Ok(before.clone()));
                match before {
                    Some(value) if value == other => drop(model.remove(&key)),
                    Some(_) => {}
                    None => drop(model.insert(key, new)),
                }
            }
            6 => {
                let got = map.get_or_insert_with(key.clone(), || new.clone());
                assert_eq!(got, Ok(model.entry(key).or_insert(new).clone()));
            }
            7 => assert_eq!(map.remove(&key), Ok(model.remove(&key))),
            8 => {
                let removed = map.remove_if(&key, |value| *value == other);
                assert_eq!(removed, Ok(before.filter(|value| *value == other)));
                model.retain(|its, value| *its != key || *value != other);
            }
            9 => {
                map.retain(|its, _| *its != key).unwrap();
                model.remove(&key);
            }
            10 => assert_eq!(map.contains_key(&key), Ok(before.is_some())),
            _ => assert_eq!(map.get(&key), Ok(before)),
        }
        assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
    }
    assert_eq!(map.iter().collect::<BTreeMap<_, _>>(), model);
    assert_eq!((map.reserve(1000), map.shrink_to_fit()), (Ok(()), Ok(())));
    map.clear().unwrap();
    assert!(map.is_empty());
}

fn number(of: u64) -> u64 {
    of & 3
}

fn bytes(of: u64) -> Vec<u8> {
    vec![of as u8 & 3; 9 * (of as usize & 3)]
}

#[test]
fn maps_in_ram_behave() {
    behaves(&IcebergMap::<u64, u64>::new(), |key| key, number);
    behaves(&DlhtBoxedMap::new(), |key| key.to_string(), bytes);
    behaves(&TurboBlobMap::new(), |key| key.to_le_bytes().to_vec(), bytes);
}

#[test]
fn maps_in_files_behave() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    behaves(&durable::IcebergMap::<u64, u64>::create(path("iceberg")).unwrap(), |key| key, number);
    behaves(&durable::PeaMap::create(path("pea")).unwrap(), |key| key, number);
    behaves(&durable::TurboMap::create(path("turbo")).unwrap(), |key| key, number);
    let map = durable::TurboBlobMap::create(path("turbo-blobs")).unwrap();
    behaves(&map, |key| key.to_le_bytes().to_vec(), bytes);
    let map = durable::PeaBlobMap::create(path("pea-blobs")).unwrap();
    behaves(&map, |key| key.to_le_bytes().to_vec(), bytes);
}

#[test]
fn a_file_has_the_room_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let map = durable::PeaMap::<u64, u64>::create(folder.path().join("map")).unwrap();
    let before = map.file_bytes();
    TryConcurrentMap::reserve(&map, 100_000).unwrap();
    let reserved = map.file_bytes();
    assert!(reserved > before + 16 * 100_000);
    TryConcurrentMap::shrink_to_fit(&map).unwrap();
    assert!(map.file_bytes() < reserved);
}

#[test]
fn a_file_that_is_only_read_refuses_changes() {
    fn changes<M: TryConcurrentMap<u64, u64>>(map: &M) -> Result<(), M::Error> {
        map.insert(2, 20)?;
        Ok(())
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    let map = durable::PeaMap::<u64, u64>::create(&path).unwrap();
    map.insert(1, 10).unwrap();
    map.close().unwrap();
    let options = durable::Options::new().read_only(true);
    let map = durable::PeaMap::<u64, u64>::open_with(&path, &options).unwrap();
    assert!(matches!(changes(&map), Err(Error::File(_))), "{:?}", changes(&map));
    assert_eq!(TryConcurrentMap::get(&map, &1), Ok(Some(10)));
}
