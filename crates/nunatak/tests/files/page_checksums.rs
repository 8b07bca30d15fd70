//! Checksums of the pages of files: which damage they notice, and when. A page has one from the end
//! of the sync on that makes its last change durable.

use crate::kinds::{Kind, Test, for_each_kind, small};
use crate::sampling::one_in;
use nunatak::durable::{FileMap, MapInFile, Options, PeaMap, TurboMap};
use nunatak::{Error, FileError};
use std::fs;
use std::path::Path;

const KEYS: u64 = 200;
const PAGE: usize = 64 << 10;

fn is_corrupt(error: Error) -> bool {
    matches!(error, Error::File(FileError::Corrupt { .. }))
}

/// Whether opening the file, or `verify`, says that it is damaged. If not, all keys are there.
fn is_noticed<T: MapInFile>(kind: &Kind<T>, path: &Path) -> bool {
    match kind.open(path).and_then(|map| map.verify().map(|_| map)) {
        Err(error) => is_corrupt(error),
        Ok(map) => {
            assert!(kind.is_whole(&map, KEYS), "{}: unnoticed damage", kind.name);
            false
        }
    }
}

/// Runs a test for every kind whose pages have checksums.
struct WithChecksums<R>(R);

trait Run {
    fn run<T: MapInFile>(&self, kind: &Kind<T>, path: &Path);
}

impl<R: Run> Test for WithChecksums<R> {
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let directory = tempfile::tempdir().unwrap();
        if kind.name != "iceberg" {
            self.0.run(kind, &directory.path().join("map"));
        }
    }
}

struct Flipped;

impl Run for Flipped {
    fn run<T: MapInFile>(&self, kind: &Kind<T>, path: &Path) {
        kind.create(path, KEYS).close().unwrap();
        let image = fs::read(path).unwrap();
        let used: Vec<usize> = (PAGE..image.len()).filter(|&at| image[at] != 0).collect();
        let (mut noticed, mut tried) = (0, 0);
        for &at in used.iter().step_by(one_in(used.len() / 400 + 1)) {
            let mut damaged = image.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(path, damaged).unwrap();
            noticed += usize::from(is_noticed(kind, path));
            tried += 1;
        }
        println!("{}: {noticed} of {tried}", kind.name);
        // What is left are words that no longer count.
        assert!(10 * noticed > 8 * tried, "{}: {noticed} of {tried}", kind.name);
    }
}

/// A flipped bit anywhere is noticed, or changes no key and no value.
#[test]
fn a_flipped_bit_is_noticed() {
    for_each_kind(&WithChecksums(Flipped));
}

struct Killed;

impl Run for Killed {
    fn run<T: MapInFile>(&self, kind: &Kind<T>, path: &Path) {
        let map = kind.create(path, KEYS / 2);
        map.sync().unwrap();
        (KEYS / 2..KEYS).for_each(|key| (kind.put)(&map, key).unwrap());
        // As a process that was killed here would leave it.
        let killed = fs::read(path).unwrap();
        drop(map);
        fs::write(path, killed).unwrap();
        let map = kind.open(path).unwrap();
        assert!(!map.recovery().was_closed && kind.is_whole(&map, KEYS));
        let before = map.page_checksums().unwrap();
        assert!(before.changed > 0, "{}: {before:?}", kind.name);
        assert!(map.verify().is_ok());
        map.sync().unwrap();
        let after = map.page_checksums().unwrap();
        assert_eq!(after.changed, 0, "{}", kind.name);
        assert!(map.verify().is_ok(), "{}: pages of the killed process have checksums", kind.name);
        map.close().unwrap();
        assert!(!is_noticed(kind, path));
    }
}

#[test]
fn pages_of_a_killed_process_get_theirs_at_the_next_sync() {
    for_each_kind(&WithChecksums(Killed));
}

/// Creates a map of several pages, and returns its image and the bytes of one value.
fn with_value<T: MapInFile>(map: FileMap<T>, path: &Path, value: u64) -> (Vec<u8>, usize) {
    map.close().unwrap();
    let image = fs::read(path).unwrap();
    let bytes = value.to_ne_bytes();
    let places: Vec<usize> =
        (PAGE..image.len()).step_by(8).filter(|&at| image[at..at + 8] == bytes).collect();
    assert_eq!(places.len(), 1);
    (image, places[0])
}

#[test]
fn a_damaged_page_is_noticed_at_its_first_use() {
    const KEYS: u64 = 20_000;
    const VALUE: u64 = 0x0123_4567_89AB_CDEF;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let map = PeaMap::<u64, u64>::create_with(&path, &small()).unwrap();
    (0..KEYS).for_each(|key| {
        map.insert(key, key).unwrap();
    });
    // Last, so that no split leaves it in another place, too.
    map.insert(7, VALUE).unwrap();
    let (mut image, at) = with_value(map, &path, VALUE);
    image[at] ^= 4;
    fs::write(&path, &image).unwrap();
    let map = PeaMap::<u64, u64>::open(&path).unwrap();
    assert_eq!(map.damage(), None);
    map.insert(KEYS, 1).unwrap();
    // The page is used, and the value is not what was stored.
    assert_eq!(map.get(&7), Some(VALUE ^ 4));
    let damage = map.damage().unwrap();
    let page = at as u64 / 4096 * 4096;
    let what = "a page is not as its checksum says";
    assert_eq!(damage, FileError::Corrupt { what, at: Some(page) }.into());
    // Nothing is changed any more.
    assert_eq!(map.insert(KEYS + 1, 1), Err(damage));
    assert_eq!(map.sync(), Err(damage));
    assert_eq!(map.close(), Err(damage));
    let map = PeaMap::<u64, u64>::open(&path).unwrap();
    assert_eq!(map.verify(), Err(damage));
}

/// A batch that has ended leaves its records. They count no more, but their pages have checksums as all
/// others.
#[test]
fn a_damaged_page_of_an_ended_batch_is_noticed() {
    const VALUE: u64 = 0x0123_4567_89AB_CDEF;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let map = PeaMap::<u64, u64>::create_with(&path, &small()).unwrap();
    let mut changes: Vec<_> = (0..300).map(|key| (key, Some(key))).collect();
    // The first page of the log is read when the file is opened.
    changes.extend([(7, Some(VALUE)), (7, Some(7))]);
    map.write_batch(&changes).unwrap();
    map.close().unwrap();
    let mut image = fs::read(&path).unwrap();
    let is_value = |at: &usize| image[*at..at + 8] == VALUE.to_ne_bytes();
    let places: Vec<usize> = (PAGE..image.len()).step_by(8).filter(is_value).collect();
    assert_eq!(places.len(), 2, "one record has stored the value, and one has replaced it");
    image[places[0]] ^= 4;
    fs::write(&path, &image).unwrap();
    let map = PeaMap::<u64, u64>::open(&path).unwrap();
    assert_eq!((map.len(), map.get(&7)), (300, Some(7)));
    let what = "a page is not as its checksum says";
    let at = Some(places[0] as u64 / 4096 * 4096);
    assert_eq!(map.verify(), Err(FileError::Corrupt { what, at }.into()));
}

/// A page that is not where its map says, as after a write that went astray.
#[test]
fn exchanged_pages_are_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let map = TurboMap::<u64, u64>::create_with(&path, &small()).unwrap();
    const VALUES: [u64; 2] = [0x0123_4567_89AB_CDEF, 0x1123_4567_89AB_CDEF];
    for key in 0..20_000 {
        map.insert(key, key).unwrap();
    }
    // Last, so that no rehash leaves them in other places, too.
    for (key, value) in (0..).zip(VALUES) {
        map.insert(key, value).unwrap();
    }
    let (mut image, first) = with_value(map, &path, VALUES[0]);
    let second = (PAGE..image.len() - 8)
        .step_by(8)
        .find(|&at| image[at..at + 8] == VALUES[1].to_ne_bytes())
        .unwrap();
    let (first, second) = (first / 4096 * 4096, second / 4096 * 4096);
    assert_ne!(first, second);
    for at in 0..4096 {
        image.swap(first + at, second + at);
    }
    fs::write(&path, &image).unwrap();
    let verified = TurboMap::<u64, u64>::open(&path).and_then(|map| map.verify());
    assert!(verified.is_err_and(is_corrupt));
}

struct AllSlots;

impl Test for AllSlots {
    /// Flips a bit in the second slot of every page, and in the first slot of the pages whose checksum
    /// shows that.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        if kind.name != "iceberg-blobs" {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        kind.create(&path, KEYS).close().unwrap();
        let image = fs::read(&path).unwrap();
        let open = |at: usize| {
            let mut damaged = image.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).unwrap();
            kind.open(&path).map(drop)
        };
        let what = "a page is not as its checksum says";
        let of_page = |page| FileError::Corrupt { what, at: Some(page as u64) }.into();
        let pages = (PAGE..image.len()).step_by(4096);
        let used = pages.filter(|page| image[page + 24..page + 32] != [0; 8]);
        let with_slots = used.filter(|page| open(page + 24) == Err(of_page(*page)));
        let pages: Vec<usize> = with_slots.collect();
        assert!(pages.len() > 2, "{pages:?}");
        pages.iter().for_each(|page| assert!(open(page + 8).is_err_and(is_corrupt), "{page}"));
    }
}

/// Blocks of IcebergHT have no headers that checksums must leave out, as buckets have.
#[test]
fn checksums_are_of_all_slots_of_a_block() {
    for_each_kind(&AllSlots);
}

struct Unwanted;

impl Test for Unwanted {
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        let options = small().page_checksums(false);
        let map = FileMap::<T>::create_with(&path, &options).unwrap();
        (0..KEYS).for_each(|key| (kind.put)(&map, key).unwrap());
        map.sync().unwrap();
        assert_eq!(map.page_checksums(), None, "{}", kind.name);
        map.close().unwrap();
        // A file keeps what it was created with.
        let map = FileMap::<T>::open_with(&path, &Options::new()).unwrap();
        assert!(map.page_checksums().is_none() && kind.is_whole(&map, KEYS));
    }
}

#[test]
fn checksums_can_be_left_out() {
    for_each_kind(&Unwanted);
}
