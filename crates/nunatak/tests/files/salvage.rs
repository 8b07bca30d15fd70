//! What is read from a damaged file, by `Options::forced` and by `salvage`: all that is not damaged,
//! and nothing that was never stored.

use crate::effort::some_of;
use crate::kinds::{Kind, Test, for_each_kind, small};
use crate::sampling::one_in;
use nunatak::durable::{
    BlobDesign, BlobsInFile, FileMap, Forced, InFile, InPages, MapInFile, Options, PeaMap,
    PeaMultiMap, TurboMap,
};
use nunatak::{Error, FileError, Iceberg, Pea, Turbo};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const KEYS: u64 = 200;
const HEADER: usize = 4096;
const EXTENTS: usize = 2 * HEADER;
const EXTENT_BYTES: usize = 512 * 32;
const PAGE: usize = 64 << 10;

/// A file, and the place of a new one.
struct Files {
    path: PathBuf,
    new: PathBuf,
    image: Vec<u8>,
    keys: u64,
    _directory: tempfile::TempDir,
}

impl Files {
    fn new<T: MapInFile>(kind: &Kind<T>) -> Self {
        Self::with(kind, KEYS)
    }

    fn with<T: MapInFile>(kind: &Kind<T>, keys: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (path, new) = (directory.path().join("map"), directory.path().join("new"));
        kind.create(&path, keys).close().unwrap();
        let image = fs::read(&path).unwrap();
        Self { path, new, image, keys, _directory: directory }
    }

    /// Salvages these bytes. Returns the keys that are left, and whether any damage was found.
    fn salvage<T: MapInFile>(&self, kind: &Kind<T>, image: &[u8]) -> Result<(u64, bool), Error> {
        fs::write(&self.path, image).unwrap();
        let _ = fs::remove_file(&self.new);
        let found = FileMap::<T>::salvage(&self.path, &self.new)?;
        assert!(fs::read(&self.path).unwrap() == image, "{}: the file was changed", kind.name);
        let map = kind.open(&self.new).unwrap();
        assert_eq!(map.verify(), Ok(found.sure + found.doubtful), "{}", kind.name);
        let left = (0..self.keys).filter(|&key| (kind.has)(&map, key)).count() as u64;
        Ok((left, !found.damages.is_empty()))
    }
}

struct Whole;

impl Test for Whole {
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let files = Files::new(kind);
        assert_eq!(files.salvage(kind, &files.image), Ok((KEYS, false)), "{}", kind.name);
        let salvaged = kind.open(&files.new).unwrap();
        assert!(kind.is_whole(&salvaged, KEYS), "{}: {} keys", kind.name, salvaged.len());
        // The new file has its name only when it is whole, and takes no other's.
        let again = FileMap::<T>::salvage(&files.path, &files.new).map(drop);
        assert_eq!(again, Err(Error::File(FileError::Exists)));
        let left = fs::read_dir(files.path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 2, "{}: nothing else is left behind", kind.name);
    }
}

#[test]
fn a_whole_file_is_salvaged_whole() {
    for_each_kind(&Whole);
}

struct Header;

impl Test for Header {
    /// Words of the header that change are lost in both copies.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let files = Files::new(kind);
        for field in [128, 192, 200, 256, 264, 320] {
            let mut image = files.image.clone();
            image[field..field + 8].fill(0xA5);
            image[HEADER + field..HEADER + field + 8].fill(0x5A);
            fs::write(&files.path, &image).unwrap();
            assert!(kind.open(&files.path).is_err(), "{} field {field}", kind.name);
            let salvaged = files.salvage(kind, &image);
            assert_eq!(salvaged, Ok((KEYS, true)), "{} field {field}", kind.name);
        }
        // Without the hash of its keys a file can't be read at all.
        let mut image = files.image.clone();
        image[30..40].fill(1);
        image[HEADER + 30..HEADER + 40].fill(1);
        assert!(files.salvage(kind, &image).is_err());
    }
}

#[test]
fn a_damaged_header_loses_nothing() {
    for_each_kind(&Header);
}

struct Sectors;

impl Test for Sectors {
    /// A lost sector loses what was in it: 32 slots, or the places of 16 pages. One sector may have the places of
    /// all pages of values that a small multimap has.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        const KEYS: u64 = 3000;
        let files = Files::with(kind, KEYS);
        let is_used = |sector: &usize| files.image[*sector..sector + 512].iter().any(|&b| b != 0);
        let sectors: Vec<usize> = (PAGE..files.image.len()).step_by(512).filter(is_used).collect();
        let mut left = Vec::new();
        for &sector in sectors.iter().step_by(sectors.len() / some_of(40) + 1) {
            left.push([0, 0xA5].map(|fill| {
                let mut image = files.image.clone();
                image[sector..sector + 512].fill(fill);
                files.salvage(kind, &image).unwrap().0
            }));
        }
        left.sort_unstable();
        let others = left[1..].as_flattened();
        let mean = others.iter().sum::<u64>() / others.len() as u64;
        println!("{}: {:?} of {KEYS} at least, {mean} on average", kind.name, left[0]);
        assert!(mean > KEYS * 9 / 10, "{}: {mean} on average", kind.name);
    }
}

#[test]
fn a_lost_sector_loses_little() {
    for_each_kind(&Sectors);
}

struct Short;

impl Test for Short {
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let files = Files::new(kind);
        let bytes = files.image.len();
        for left in [bytes - 1, bytes - 5000, bytes - bytes / 4, bytes / 2] {
            let salvaged = files.salvage(kind, &files.image[..left]).map(|found| found.1);
            assert_eq!(salvaged, Ok(true), "{}: {left} of {bytes} bytes", kind.name);
        }
        for left in [0, PAGE - 1, PAGE, PAGE + 1] {
            // There may be nothing to begin with.
            match files.salvage(kind, &files.image[..left]) {
                Ok((0, true)) | Err(Error::File(_)) => {}
                other => panic!("{}: {other:?} of {left} bytes", kind.name),
            }
        }
        let (left, _) = files.salvage(kind, &files.image[..bytes - 1]).unwrap();
        assert!(left > KEYS * 3 / 4, "{}: {left} after one byte was lost", kind.name);
    }
}

#[test]
fn a_truncated_file_is_read_as_far_as_it_goes() {
    for_each_kind(&Short);
}

struct Extents;

impl Test for Extents {
    /// Neither panics nor invents anything. What an entry of the list of extents named is lost.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let files = Files::new(kind);
        let is_used = |entry: &usize| files.image[*entry..entry + 8] != [0; 8];
        let entries = (EXTENTS..EXTENTS + EXTENT_BYTES).step_by(32).filter(is_used);
        for entry in entries {
            let mut image = files.image.clone();
            image[entry] ^= 1;
            image[entry + EXTENT_BYTES] ^= 2;
            match files.salvage(kind, &image) {
                Ok((_, is_damaged)) => assert!(is_damaged, "{} entry {entry}", kind.name),
                Err(error) => assert!(matches!(error, Error::File(_)), "{error}"),
            }
        }
    }
}

#[test]
fn lost_extents_are_survived() {
    for_each_kind(&Extents);
}

/// Damages descriptors of a map, one at a time: words of the pages that opening the file reads.
fn after_damage_to_descriptors<T>(create: impl Fn(&Path) -> FileMap<T>)
where
    T: MapInFile<Entry = (u64, u64)>,
{
    const KEYS: usize = 20_000;
    let directory = tempfile::tempdir().unwrap();
    let (path, new) = (directory.path().join("map"), directory.path().join("new"));
    create(&path).close().unwrap();
    let image = fs::read(&path).unwrap();
    let is_used = |at: &usize| image[*at..at + 8].iter().any(|&byte| byte != 0);
    let is_refused = |at: usize| {
        let mut damaged = image.clone();
        damaged[at + 1] ^= 0xFF;
        fs::write(&path, &damaged).unwrap();
        FileMap::<T>::open(&path).is_err()
    };
    let words_of = |page: usize| (page..page + 4096).step_by(8).filter(is_used);
    let pages = (PAGE..image.len()).step_by(4096);
    let read = pages.filter(|&page| words_of(page).next().is_some_and(is_refused));
    let read: Vec<usize> = read.collect();
    let words: Vec<usize> = read.iter().copied().flat_map(words_of).collect();
    assert!(words.len() > 50, "{}", words.len());
    let salvage = |damaged: &[u8]| {
        fs::write(&path, damaged).unwrap();
        let _ = fs::remove_file(&new);
        let salvaged = FileMap::<T>::salvage(&path, &new).unwrap();
        let all = salvaged.sure + salvaged.doubtful;
        let map = FileMap::<T>::open(&new).unwrap();
        assert_eq!(map.verify(), Ok(all));
        let is_wrong = |&(key, value): &(u64, u64)| key >= KEYS as u64 || value != !key;
        (all, map.iter().filter(is_wrong).count(), salvaged)
    };
    for &at in words.iter().step_by(words.len() / some_of(40)) {
        let mut damaged = image.clone();
        damaged[at + 7] ^= 0x80;
        damaged[at + 1] ^= 0xFF;
        let (all, wrong, salvaged) = salvage(&damaged);
        assert!(all >= KEYS - 1 && wrong == 0, "byte {at}: {all}, {wrong} wrong: {salvaged:?}");
    }
    // Neighbours are lost together, so also shards, or segments, that differ in their highest bit.
    for bytes in [512, 4096] {
        let areas = read.iter().flat_map(|&page| (page..page + 4096).step_by(bytes));
        let used = areas.filter(|&at| (at..at + bytes).step_by(8).any(|at| is_used(&at)));
        for at in used.step_by(one_in(1)) {
            for fill in [0, 0xA5] {
                let mut damaged = image.clone();
                damaged[at..at + bytes].fill(fill);
                let (all, wrong, salvaged) = salvage(&damaged);
                assert!(all >= KEYS - 1 && wrong == 0, "{at}: {all}, {wrong} wrong: {salvaged:?}");
            }
        }
    }
}

#[test]
fn lost_segments_are_found_again() {
    after_damage_to_descriptors(|path| {
        let map = PeaMap::<u64, u64>::create_with(path, &small()).unwrap();
        (0..20_000).for_each(|key| {
            map.insert(key, !key).unwrap();
        });
        map
    });
}

#[test]
fn lost_shards_are_found_again() {
    after_damage_to_descriptors(|path| {
        let options = Options::new().shards(64);
        let map = TurboMap::<u64, u64>::create_with(path, &options).unwrap();
        (0..20_000).for_each(|key| {
            map.insert(key, !key).unwrap();
        });
        map
    });
}

/// Recovery marks the half of each bucket's hashes, so that the buckets tell which shard they are of.
#[test]
fn lost_shards_of_a_recovered_map_are_found_again() {
    after_damage_to_descriptors(|path| {
        let options = Options::new().shards(64);
        let map = TurboMap::<u64, u64>::create_with(path, &options).unwrap();
        (0..20_000).for_each(|key| {
            map.insert(key, !key).unwrap();
        });
        let image = fs::read(path).unwrap();
        drop(map);
        fs::write(path, image).unwrap();
        let map = TurboMap::<u64, u64>::open(path).unwrap();
        assert_eq!((map.recovery().was_closed, map.len()), (false, 20_000));
        map
    });
}

/// Descriptors are not believed if others are damaged and their buckets hold no pair of the shard.
#[test]
fn shards_with_each_others_buckets_are_told_apart() {
    const KEYS: u64 = 20_000;
    const SHARDS: usize = 64;
    let directory = tempfile::tempdir().unwrap();
    let (path, new) = (directory.path().join("map"), directory.path().join("new"));
    let options = Options::new().shards(SHARDS);
    let map = TurboMap::<u64, u64>::create_with(&path, &options).unwrap();
    (0..KEYS).try_for_each(|key| map.insert(key, !key).map(drop)).unwrap();
    map.close().unwrap();
    let mut image = fs::read(&path).unwrap();
    // A page of descriptors: where the buckets are, and how many pairs they hold.
    let pairs =
        |at: usize| u64::from(u32::from_ne_bytes(image[at + 8..at + 12].try_into().unwrap()));
    let is_descriptors =
        |page: &usize| (*page..*page + 16 * SHARDS).step_by(16).map(pairs).sum::<u64>() == KEYS;
    let pages: Vec<usize> = (PAGE..image.len()).step_by(4096).filter(is_descriptors).collect();
    assert!(!pages.is_empty());
    for page in pages {
        image[page + 7] ^= 0x80;
        for shard in (1..SHARDS - 1).step_by(2) {
            let at = page + 16 * shard;
            image[at..at + 32].rotate_left(16);
        }
    }
    fs::write(&path, &image).unwrap();
    let salvaged = TurboMap::<u64, u64>::salvage(&path, &new).unwrap();
    let map = TurboMap::<u64, u64>::open(&new).unwrap();
    let all = salvaged.sure + salvaged.doubtful;
    assert_eq!((all as u64, map.verify()), (KEYS, Ok(all)), "{salvaged:?}");
    assert!((0..KEYS).all(|key| map.get(&key) == Some(!key)));
}

/// Loses each two pages of a map of few keys. Nothing may be found that was never stored: slots do
/// not hold a hash's highest bit, so pairs in the wrong half would be of other keys.
fn after_damage_to_two_pages<T>(create: impl Fn(&Path) -> FileMap<T>)
where
    T: MapInFile<Entry = (u64, u64)>,
{
    const KEYS: u64 = 100;
    let directory = tempfile::tempdir().unwrap();
    let (path, new) = (directory.path().join("map"), directory.path().join("new"));
    create(&path).close().unwrap();
    let image = fs::read(&path).unwrap();
    let is_used = |page: &usize| image[*page..page + 4096].iter().any(|&byte| byte != 0);
    let pages: Vec<usize> = (PAGE..image.len()).step_by(4096).filter(is_used).collect();
    for (at, &first) in pages.iter().enumerate() {
        for &second in &pages[..=at] {
            let mut damaged = image.clone();
            damaged[first..first + 4096].fill(0);
            damaged[second..second + 4096].fill(0);
            fs::write(&path, &damaged).unwrap();
            let _ = fs::remove_file(&new);
            let salvaged = FileMap::<T>::salvage(&path, &new).unwrap();
            let map = FileMap::<T>::open(&new).unwrap();
            let is_right = |(key, value): (u64, u64)| key < KEYS && value == !key;
            assert!(map.iter().all(is_right), "pages {first} and {second}: {salvaged:?}");
        }
    }
}

#[test]
fn two_lost_pages_invent_nothing() {
    after_damage_to_two_pages(|path| {
        let map = PeaMap::<u64, u64>::create_with(path, &small()).unwrap();
        (0..100).try_for_each(|key| map.insert(key, !key).map(drop)).unwrap();
        map
    });
    after_damage_to_two_pages(|path| {
        let options = Options::new().shards(16);
        let map = TurboMap::<u64, u64>::create_with(path, &options).unwrap();
        (0..100).try_for_each(|key| map.insert(key, !key).map(drop)).unwrap();
        map
    });
}

struct RootPair;

impl Test for RootPair {
    /// The pair says how many rows there are, and how many keys.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        const KEYS: u64 = 3000;
        if kind.name != "iceberg-blobs" {
            return;
        }
        let files = Files::with(kind, KEYS);
        let word = |at: usize| u64::from_ne_bytes(files.image[at..at + 8].try_into().unwrap());
        let is_pair = |at: &usize| word(*at) < 1 << 33 && word(*at + 8) == KEYS + 1;
        let pairs = (PAGE..files.image.len()).step_by(4096).filter(is_pair);
        assert_eq!(pairs.clone().count(), 1);
        for lost in [0, 1, u64::MAX] {
            let mut image = files.image.clone();
            pairs.clone().for_each(|at| image[at..at + 8].copy_from_slice(&lost.to_ne_bytes()));
            assert_eq!(files.salvage(kind, &image), Ok((KEYS, true)), "{lost}");
        }
    }
}

#[test]
fn a_lost_root_pair_loses_nothing() {
    for_each_kind(&RootPair);
}

/// A value that no other word of a file is.
const VALUE: u64 = 0x0123_4567_89AB_CDEF;

/// Flips the lowest bit of a word, wherever it is: a split leaves words of entries behind that it has moved.
/// Returns how many entries may be in the damaged pages.
fn damage(path: &Path, word: u64) -> usize {
    let mut image = fs::read(path).unwrap();
    let is_it = |&at: &usize| image[at..at + 8] == word.to_ne_bytes();
    let places: Vec<usize> = (PAGE..image.len() - 7).step_by(8).filter(is_it).collect();
    places.iter().for_each(|&at| image[at] ^= 1);
    fs::write(path, &image).unwrap();
    240 * places.len()
}

#[test]
fn entries_of_damaged_pages_are_doubtful() {
    let directory = tempfile::tempdir().unwrap();
    let (path, new) = (directory.path().join("map"), directory.path().join("new"));
    let map = PeaMap::<u64, u64>::create_with(&path, &small()).unwrap();
    for key in 0..5000 {
        map.insert(key, if key == 7 { VALUE } else { key }).unwrap();
    }
    map.close().unwrap();
    let most = damage(&path, VALUE);
    let found = PeaMap::<u64, u64>::salvage(&path, &new).unwrap();
    assert_eq!(found.sure + found.doubtful, 5000);
    assert!((1..=most).contains(&found.doubtful), "{found:?}");
    let open =
        |forced| PeaMap::<u64, u64>::open_with(&path, &Options::new().forced(forced)).unwrap();
    let (intact, everything) = (open(Forced::Intact), open(Forced::Everything));
    assert_eq!((intact.get(&7), everything.get(&7)), (None, Some(VALUE ^ 1)));
    assert_eq!((intact.len(), everything.len()), (found.sure, 5000));
    assert_eq!(everything.insert(1, 1), Err(Error::File(FileError::ReadOnly)));
    // In the order in which they were noticed.
    let all = |damages: &[Error]| damages.iter().map(Error::to_string).collect::<BTreeSet<_>>();
    assert_eq!(all(&everything.damages()), all(&found.damages));
}

/// A value of a damaged page is kept, and no value is kept twice.
#[test]
fn values_of_damaged_pages_are_doubtful() {
    let directory = tempfile::tempdir().unwrap();
    let (path, new) = (directory.path().join("map"), directory.path().join("new"));
    let map = PeaMultiMap::<u64, u64>::create_with(&path, &small()).unwrap();
    for key in 0..5000 {
        map.insert(key, if key == 7 { VALUE } else { key }).unwrap();
    }
    map.close().unwrap();
    let most = damage(&path, VALUE);
    let found = PeaMultiMap::<u64, u64>::salvage(&path, &new).unwrap();
    assert!((1..=most).contains(&found.doubtful), "{found:?}");
    let map = PeaMultiMap::<u64, u64>::open(&new).unwrap();
    assert_eq!((map.len(), found.sure + found.doubtful), (5000, 5000));
    let value = |key| if key == 7 { VALUE ^ 1 } else { key };
    assert!((0..5000).all(|key| map.get_all(&key).eq([value(key)])));
}

/// A blob that is not as it was written is left out. The others of a damaged page of slots are
/// doubtful.
fn after_damage_to_strings<D: BlobDesign>() {
    const BLOBS: u32 = 1000;
    const BROKEN: core::ops::Range<u32> = 7..12;
    let directory = tempfile::tempdir().unwrap();
    let (path, new) = (directory.path().join("map"), directory.path().join("new"));
    let value = |n: u32| n.wrapping_mul(0x9E37_79B1).to_le_bytes().repeat(9);
    let map = FileMap::<BlobsInFile<D>>::create_with(&path, &small()).unwrap();
    (0..BLOBS).for_each(|n| assert_eq!(map.put(&n.to_le_bytes(), &value(n)), Ok(false)));
    map.close().unwrap();
    let mut image = fs::read(&path).unwrap();
    for broken in BROKEN.map(value) {
        let at = image.windows(broken.len()).position(|bytes| bytes == broken).unwrap();
        image[at] ^= 1;
    }
    let word = |at: usize| u64::from_ne_bytes(image[at..at + 8].try_into().unwrap());
    let is_slot = |at: &usize| word(*at) >> 63 == 1 && (48..1 << 20).contains(&word(at + 8));
    // One slot of each page.
    let pages = (PAGE..image.len() - 4096).step_by(4096);
    let slot_of = |page: usize| (page..page + 4096).step_by(16).find(is_slot);
    let slots: Vec<usize> = pages.filter_map(slot_of).collect();
    slots.iter().for_each(|slot| image[slot + 8 + 7] ^= 0x80);
    fs::write(&path, image).unwrap();
    let found = FileMap::<BlobsInFile<D>>::salvage(&path, &new).unwrap();
    let map = FileMap::<BlobsInFile<D>>::open(&new).unwrap();
    assert!(found.doubtful > 0, "{found:?}");
    let left = found.sure + found.doubtful;
    let whole = BLOBS as usize - BROKEN.len();
    assert!((whole.saturating_sub(slots.len())..=whole).contains(&left), "{found:?}");
    assert_eq!(map.verify(), Ok(left));
    assert!(BROKEN.into_iter().all(|n| !map.contains_key(&n.to_le_bytes())));
    let is_right = |(key, stored): (Vec<u8>, Vec<u8>)| {
        stored == value(u32::from_le_bytes(key.try_into().unwrap()))
    };
    assert!(map.iter().all(is_right));
}

#[test]
fn broken_strings_are_not_salvaged() {
    after_damage_to_strings::<InFile<Turbo>>();
    after_damage_to_strings::<InFile<Pea>>();
    after_damage_to_strings::<InPages<Iceberg>>();
}
