//! Maps of every kind are saved and loaded; files that are damaged, cut, or of other entries are
//! refused, and a save that fails leaves the file before it.
#![cfg(not(modelled))]

use nunatak::entry::{Format, Named, VARIABLE};
use nunatak::save::Save;
use nunatak::{
    BlobMap, ConcurrentMap, Design, DlhtBoxedMap, DlhtMap, DlhtRecordMap, DlhtSet, Error,
    FileError, IcebergMap, Namespace, PeaBlobMultiMap, PeaMap, PeaMultiMap, TurboBlobMap, TurboMap,
};
use std::fs;
use std::path::PathBuf;

type Blobs = TurboBlobMap;
type Records = DlhtRecordMap<Format<VARIABLE, VARIABLE, Named>>;

struct Place {
    directory: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("saved");
        Self { directory, path }
    }

    /// Whether nothing but the file is there.
    fn is_clean(&self) -> bool {
        fs::read_dir(self.directory.path()).unwrap().count() == 1
    }
}

fn words_come_back<M: ConcurrentMap<u64, u64> + Save + Default>() {
    let place = Place::new();
    let map = M::default();
    for key in 0..50_000_u64 {
        map.insert(key.wrapping_mul(0x9E37_79B9_7F4A_7C15), !key);
    }
    assert_eq!(map.save(&place.path), Ok(50_000));
    let loaded = M::load(&place.path).unwrap();
    assert_eq!(loaded.len(), 50_000);
    for key in 0..50_000_u64 {
        assert_eq!(loaded.get(&key.wrapping_mul(0x9E37_79B9_7F4A_7C15)), Some(!key));
    }
    // Replaces the file, and what it held.
    map.clear();
    map.insert(7, 8);
    assert_eq!(map.save(&place.path), Ok(1));
    assert_eq!(loaded.load_more(&place.path), Ok(1));
    assert_eq!((loaded.len(), loaded.get(&7)), (50_001, Some(8)));
    assert!(place.is_clean());
    assert_eq!(M::default().save(&place.path), Ok(0));
    assert_eq!(M::load(&place.path).unwrap().len(), 0);
}

/// The values of every key come back, and are added to those that are there.
#[test]
fn many_values_of_byte_strings_come_back() {
    let place = Place::new();
    let key = |n: u64| vec![n as u8; n as usize];
    let map: PeaBlobMultiMap<u32> = (0..20_000).map(|n| (key(n % 300), n as u32)).collect();
    assert_eq!(map.save(&place.path), Ok(20_000));
    let loaded: PeaBlobMultiMap<u32> = Save::load(&place.path).unwrap();
    loaded.insert(&key(299), 7).unwrap();
    assert_eq!(loaded.load_more(&place.path), Ok(20_000));
    for n in 0..300 {
        let twice = map.get_all(&key(n)).chain(map.get_all(&key(n)));
        let mut expected: Vec<u32> = twice.chain((n == 299).then_some(7)).collect();
        let mut found: Vec<u32> = loaded.get_all(&key(n)).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
    assert!(place.is_clean());
    // Values of another type, and maps of another kind.
    assert!(PeaBlobMultiMap::<u64>::load(&place.path).is_err());
    assert!(Blobs::load(&place.path).is_err());
    let words: PeaMultiMap<u32, u32> = PeaMultiMap::new();
    assert!(words.load_more(&place.path).is_err());
}

#[test]
fn words_of_every_table_come_back() {
    words_come_back::<DlhtMap<u64, u64>>();
    words_come_back::<IcebergMap<u64, u64>>();
    words_come_back::<PeaMap<u64, u64>>();
    words_come_back::<TurboMap<u64, u64>>();
}

fn byte_strings_come_back<D: Design>()
where
    BlobMap<nunatak::hash::RandomState, D>: Default,
{
    let place = Place::new();
    let map = BlobMap::<nunatak::hash::RandomState, D>::default();
    for length in 0..2000_usize {
        map.put(&length.to_le_bytes()[..length % 9], b"").unwrap();
        map.put(&length.to_le_bytes(), &vec![length as u8; length * length % 100_000]).unwrap();
    }
    assert_eq!(map.save(&place.path), Ok(map.len()));
    let loaded = BlobMap::<nunatak::hash::RandomState, D>::load(&place.path).unwrap();
    assert_eq!(loaded.len(), map.len());
    for (key, value) in map.iter() {
        assert!(loaded.get(&key) == Some(value));
    }
}

#[test]
fn byte_strings_of_every_table_come_back() {
    byte_strings_come_back::<nunatak::Dlht>();
    byte_strings_come_back::<nunatak::Iceberg>();
    byte_strings_come_back::<nunatak::Pea>();
    byte_strings_come_back::<nunatak::Turbo>();
}

#[test]
fn sets_many_values_boxed_entries_and_records_come_back() {
    let place = Place::new();
    let set: DlhtSet<(u32, i16)> = (0..9000).map(|key| (key, -(key as i16))).collect();
    assert_eq!(set.save(&place.path), Ok(9000));
    let loaded: DlhtSet<(u32, i16)> = Save::load(&place.path).unwrap();
    assert!(loaded.len() == 9000 && (0..9000).all(|key| loaded.contains(&(key, -(key as i16)))));

    let edges: PeaMultiMap<u32, u32> = (0..9000).map(|value| (value % 30, value)).collect();
    assert_eq!(edges.save(&place.path), Ok(9000));
    let loaded: PeaMultiMap<u32, u32> = Save::load(&place.path).unwrap();
    for key in 0..30 {
        let sorted = |map: &PeaMultiMap<u32, u32>| {
            let mut all: Vec<u32> = map.get_all(&key).collect();
            all.sort_unstable();
            all
        };
        assert!(sorted(&edges) == sorted(&loaded) && sorted(&loaded).len() == 300);
    }

    let names: DlhtBoxedMap<String, (u64, Vec<u8>)> =
        (0..3000_u64).map(|key| (key.to_string(), (key, vec![7; key as usize % 90]))).collect();
    assert_eq!(names.save(&place.path), Ok(3000));
    let loaded: DlhtBoxedMap<String, (u64, Vec<u8>)> = Save::load(&place.path).unwrap();
    assert!(names.iter().all(|(key, value)| loaded.get(&key) == Some(value)));

    let records = Records::new();
    for namespace in [0, 1, 4095] {
        let namespace = Namespace::new(namespace).unwrap();
        records.put((namespace, b"key"), &namespace.number().to_le_bytes()).unwrap();
    }
    assert_eq!(records.save(&place.path), Ok(3));
    let loaded: Records = Save::load(&place.path).unwrap();
    let last = Namespace::new(4095).unwrap();
    assert_eq!((loaded.len(), loaded.get((last, b"key"))), (3, Some(vec![0xFF, 0x0F])));
}

/// A snapshot is saved, while others write.
#[test]
fn a_map_that_changes_is_saved_as_of_one_instant() {
    let place = Place::new();
    let map: DlhtMap<u64, u64> = (0..10_000).map(|key| (key, 0)).collect();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The second key never gets ahead of the first one.
            for round in 1.. {
                map.insert(0, round);
                map.insert(9999, round);
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..20 {
            map.save(&place.path).unwrap();
            let loaded: DlhtMap<u64, u64> = Save::load(&place.path).unwrap();
            let (first, second) = (loaded.get(&0).unwrap(), loaded.get(&9999).unwrap());
            assert!(first == second || first == second + 1, "{first} {second}");
            assert_eq!(loaded.len(), 10_000);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn damaged_files_are_refused() {
    let place = Place::new();
    let map = Blobs::new();
    for key in 0..3000_u32 {
        map.put(&key.to_le_bytes(), &[key as u8; 60]).unwrap();
    }
    map.save(&place.path).unwrap();
    let whole = fs::read(&place.path).unwrap();
    let load = |bytes: &[u8]| {
        fs::write(&place.path, bytes).unwrap();
        Blobs::load(&place.path).map(|map| map.len())
    };
    assert_eq!(load(&whole), Ok(3000));
    for at in (0..whole.len()).step_by(97).chain(0..200) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(matches!(load(&damaged), Err(Error::File(_))), "byte {at}");
    }
    for length in (0..whole.len()).step_by(1009).chain(0..100) {
        let refused = load(&whole[..length]).unwrap_err();
        let is_short = matches!(refused, Error::File(FileError::Truncated { .. }));
        assert!(is_short || refused == FileError::NotAMap.into(), "{length}: {refused}");
    }
    let longer = [&whole[..], &[0]].concat();
    let at = whole.len() as u64;
    let what = "there is more behind the entries";
    assert_eq!(load(&longer), Err(FileError::Corrupt { what, at: Some(at) }.into()));
    // Blocks that changed places.
    let block = 24 + u64::from_le_bytes(whole[40..48].try_into().unwrap()) as usize;
    let second = &whole[40 + block..40 + 2 * block];
    let swapped = [&whole[..40], second, &whole[40..40 + block], &whole[40 + 2 * block..]].concat();
    assert!(load(&swapped).is_err());
}

#[test]
fn files_of_other_entries_are_refused() {
    let place = Place::new();
    let map: DlhtMap<u32, char> = [(1, 'a')].into_iter().collect();
    map.save(&place.path).unwrap();
    let other =
        |refused: Option<Error>| matches!(refused, Some(Error::File(FileError::OtherKind { .. })));
    assert!(other(DlhtMap::<u64, char>::load(&place.path).err()));
    assert!(other(DlhtMap::<u32, u64>::load(&place.path).err()));
    assert!(other(DlhtSet::<u32>::load(&place.path).err()));
    assert!(other(DlhtBoxedMap::<u32, u32>::load(&place.path).err()));
    assert!(other(Blobs::load(&place.path).err()));
    // A number that is no character.
    let map: DlhtMap<u32, u32> = [(1, 0xD800)].into_iter().collect();
    map.save(&place.path).unwrap();
    let loaded = DlhtMap::<u32, (u16, u16)>::load(&place.path).map(|map| map.get(&1));
    assert_eq!(loaded, Ok(Some((0xD800, 0))));
    let names: DlhtBoxedMap<Vec<u8>, u8> = [(vec![0xFF], 1)].into_iter().collect();
    names.save(&place.path).unwrap();
    let refused = DlhtBoxedMap::<String, u8>::load(&place.path).err();
    assert!(matches!(refused, Some(Error::File(FileError::Corrupt { .. }))));
    let missing = DlhtMap::<u32, u32>::load(place.directory.path().join("none")).err();
    assert!(matches!(missing, Some(Error::File(FileError::Io { .. }))));
}

/// Where the file can't be made, nothing is left, and the file before is as it was.
#[test]
fn a_save_that_fails_leaves_the_file_before() {
    let place = Place::new();
    let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    map.save(&place.path).unwrap();
    assert!(map.save(place.path.join("below a file")).is_err());
    assert!(map.save(place.directory.path()).is_err());
    assert!(place.is_clean());
    assert_eq!(DlhtMap::<u64, u64>::load(&place.path).unwrap().get(&1), Some(10));
}
