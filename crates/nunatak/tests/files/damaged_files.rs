//! Damaged files of every kind: one that can't be opened is left as it was, byte for byte; one
//! that can is whole, or `verify` says that it is not.

use crate::kinds::{Kind, Test, for_each_kind};
use crate::sampling::one_in;
use nunatak::durable::{FileMap, MapInFile, Options};
use nunatak::{Error, FileError};
use std::fs;
use std::path::{Path, PathBuf};

const KEYS: u64 = 200;
const HEADER: usize = 4096;
const EXTENTS: usize = 2 * HEADER;
const BOTH_EXTENTS: usize = 512 * 32;
const PAGE: usize = 64 << 10;
/// A prime: its multiples modulo the length of a list visit the list's elements all over.
const SCATTER: usize = 1_000_003;

/// A file that is damaged again and again.
struct Damaged<'k, T: MapInFile> {
    kind: &'k Kind<T>,
    path: PathBuf,
    /// The contents, of a file that was closed or not.
    image: Vec<u8>,
    _directory: tempfile::TempDir,
}

/// How a damaged file was found.
#[derive(Debug, PartialEq)]
enum Found {
    Refused(Error),
    /// All keys and nothing else are there.
    Whole,
    /// `verify` has found the damage.
    Verified(Error),
    /// Keys or values are other ones, and `verify` sees nothing.
    Other,
}

impl<'k, T: MapInFile> Damaged<'k, T> {
    fn new(kind: &'k Kind<T>, is_closed: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        let map = kind.create(&path, KEYS);
        let killed = fs::read(&path).unwrap();
        map.close().unwrap();
        let image = if is_closed { fs::read(&path).unwrap() } else { killed };
        Self { kind, path, image, _directory: directory }
    }

    /// Opens the file with these contents.
    fn open(&self, image: &[u8], options: &Options) -> Found {
        fs::write(&self.path, image).unwrap();
        match FileMap::<T>::open_with(&self.path, options) {
            Err(error) => {
                assert!(
                    fs::read(&self.path).unwrap() == image,
                    "{}: {error}, and the file was changed",
                    self.kind.name
                );
                Found::Refused(error)
            }
            Ok(map) => match map.verify() {
                Err(error) => Found::Verified(error),
                Ok(_) if self.kind.is_whole(&map, KEYS) => Found::Whole,
                Ok(_) => Found::Other,
            },
        }
    }

    fn damage(&self, damage: impl FnOnce(&mut Vec<u8>)) -> Found {
        let mut image = self.image.clone();
        damage(&mut image);
        self.open(&image, &Options::new())
    }
}

/// The used bytes of the first copy of the header and of the extents, with the distance to the
/// second copy.
fn bytes_of_header(image: &[u8]) -> Vec<(usize, usize)> {
    let header = (0..HEADER).map(|at| (at, HEADER));
    let is_entry = |entry: &usize| image[*entry..entry + 8] != [0; 8];
    let entries = (EXTENTS..EXTENTS + BOTH_EXTENTS).step_by(32).filter(is_entry);
    let extents = entries.flat_map(|entry| (entry..entry + 24).map(|at| (at, BOTH_EXTENTS)));
    header.chain(extents).filter(|&(at, _)| image[at] != 0).collect()
}

struct OneCopy;

impl Test for OneCopy {
    /// Whatever is wrong in one copy is known from the other.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        for is_closed in [true, false] {
            let damaged = Damaged::new(kind, is_closed);
            for (at, distance) in bytes_of_header(&damaged.image).into_iter().step_by(one_in(3)) {
                for at in [at, at + distance] {
                    let found = damaged.damage(|image| image[at] ^= 1 << (at % 8));
                    assert_eq!(found, Found::Whole, "{} byte {at}", kind.name);
                }
            }
            let is_used = |sector: &usize| damaged.image[*sector..sector + 512] != [0; 512];
            let sectors = (0..EXTENTS + 2 * BOTH_EXTENTS).step_by(512).filter(is_used);
            for sector in sectors.step_by(one_in(1)) {
                let found = damaged.damage(|image| image[sector..sector + 512].fill(0));
                assert_eq!(found, Found::Whole, "{} sector {sector}", kind.name);
                let found = damaged.damage(|image| image[sector..sector + 512].fill(0xA5));
                assert_eq!(found, Found::Whole, "{} sector {sector}", kind.name);
            }
            // Opening it mends it: the other copy may be damaged next.
            damaged.damage(|image| image[..HEADER].fill(0));
            let mut mended = fs::read(&damaged.path).unwrap();
            mended[HEADER..EXTENTS].fill(0);
            assert_eq!(damaged.open(&mended, &Options::new()), Found::Whole, "{}", kind.name);
        }
    }
}

#[test]
fn one_copy_of_the_header_is_enough() {
    for_each_kind(&OneCopy);
}

struct BothCopies;

impl Test for BothCopies {
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        for is_closed in [true, false] {
            let damaged = Damaged::new(kind, is_closed);
            for (at, distance) in bytes_of_header(&damaged.image).into_iter().step_by(2) {
                let found = damaged.damage(|image| {
                    image[at] ^= 1 << (at % 8);
                    image[at + distance] ^= 2 << (at % 7);
                });
                assert!(matches!(found, Found::Refused(_)), "{} byte {at}: {found:?}", kind.name);
            }
        }
    }
}

#[test]
fn a_file_without_a_header_is_refused_and_left_alone() {
    for_each_kind(&BothCopies);
}

struct Truncated;

impl Test for Truncated {
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        for is_closed in [true, false] {
            let damaged = Damaged::new(kind, is_closed);
            let bytes = damaged.image.len();
            for left in (0..bytes).step_by(bytes / 29).chain([bytes - 1]) {
                let found = damaged.damage(|image| image.truncate(left));
                assert!(
                    matches!(found, Found::Refused(Error::File(_))),
                    "{} {left} of {bytes} bytes, closed: {is_closed}: {found:?}",
                    kind.name
                );
            }
            // Bytes that no extent has are what a growth has left that was cut off.
            assert_eq!(damaged.damage(|image| image.resize(bytes + 100_000, 7)), Found::Whole);
        }
    }
}

#[test]
fn truncated_files_are_refused_and_left_alone() {
    for_each_kind(&Truncated);
}

struct CutShort;

impl Test for CutShort {
    /// Half of the keys were synced. A power cut loses the rest, and may lose what the file has
    /// grown by since, but nothing else.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let mut damaged = Damaged::new(kind, false);
        fs::remove_file(&damaged.path).unwrap();
        let map = kind.create(&damaged.path, KEYS / 2);
        map.sync().unwrap();
        (KEYS / 2..KEYS).for_each(|key| (kind.put)(&map, key).unwrap());
        damaged.image = fs::read(&damaged.path).unwrap();
        map.close().unwrap();
        let bytes = damaged.image.len();
        let lengths = (0..bytes).step_by(PAGE).chain((0..bytes).step_by(bytes / 29));
        let (mut refused, mut whole) = (0, 0);
        for left in lengths.chain([bytes - 1, bytes]) {
            for read_only in [false, true] {
                let what = format!("{}, {left} of {bytes} bytes, {read_only}", kind.name);
                let image = &damaged.image[..left];
                fs::write(&damaged.path, image).unwrap();
                let options = Options::new().after_power_cut(true).read_only(read_only);
                let map = match FileMap::<T>::open_with(&damaged.path, &options) {
                    Err(error) => {
                        assert!(matches!(error, Error::File(_)), "{what}: {error}");
                        assert!(is_unchanged(&damaged.path, image), "{what}: {error}, changed");
                        refused += 1;
                        continue;
                    }
                    Ok(map) => map,
                };
                assert!(!read_only || is_unchanged(&damaged.path, image), "{what}: changed");
                if map.verify().is_ok() {
                    let has_synced = (0..KEYS / 2).all(|key| (kind.has)(&map, key));
                    // An `IcebergMap` may keep later keys.
                    let most = if kind.name == "iceberg" { KEYS } else { KEYS / 2 };
                    assert!(has_synced && map.len() as u64 <= most, "{what}: {} keys", map.len());
                    whole += 1;
                }
            }
        }
        assert!(refused > 20 && whole > 1, "{}: {refused} refused, {whole} whole", kind.name);
    }
}

#[test]
fn truncated_files_of_a_power_cut_are_whole_or_left_alone() {
    for_each_kind(&CutShort);
}

struct Anywhere;

impl Test for Anywhere {
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        for is_closed in [true, false] {
            let damaged = Damaged::new(kind, is_closed);
            let used = (EXTENTS..damaged.image.len()).filter(|&at| damaged.image[at] != 0);
            for at in used.step_by(one_in(401)) {
                damaged.damage(|image| image[at] ^= 1 << (at % 8));
            }
            for sector in (HEADER..damaged.image.len()).step_by(one_in(61) * 512) {
                damaged.damage(|image| image[sector..sector + 512].fill(0));
                damaged.damage(|image| image[sector..sector + 512].fill(0xFF));
            }
        }
    }
}

/// Opening such files neither panics nor changes a file that it refuses.
#[test]
fn files_that_are_damaged_anywhere_are_opened_or_left_alone() {
    for_each_kind(&Anywhere);
}

struct Located;

impl Test for Located {
    /// Whoever looks for the reason knows where to look.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let damaged = Damaged::new(kind, true);
        let used: Vec<usize> =
            (PAGE..damaged.image.len()).filter(|&at| damaged.image[at] != 0).collect();
        // From the beginning of a slot's block, of a page with a checksum, or of the longest byte
        // string, to its end.
        let reach = match kind.name {
            "iceberg" => 256,
            name if name.ends_with("-blobs") => 71_000,
            _ => 4096,
        };
        let (mut located, mut near) = (0, 0);
        let every = match kind.name {
            // In few of its bytes damage is noticed.
            "iceberg" => used.len() / 300 + 1,
            _ => one_in(used.len() / 300 + 1),
        };
        for i in 0..used.len() / every {
            // Even steps would meet the same byte of many slots, and never another.
            let at = used[i * SCATTER % used.len()];
            let mut image = damaged.image.clone();
            image[at] ^= 1 << (at % 8);
            let (Found::Refused(error) | Found::Verified(error)) =
                damaged.open(&image, &Options::new())
            else {
                continue;
            };
            if let Error::File(FileError::Corrupt { at: Some(byte), .. }) = error {
                located += 1;
                near += usize::from(byte.abs_diff(at as u64) < reach);
            }
        }
        println!("{}: {near} of {located} were located where the damage is", kind.name);
        // Worst in a multimap, at five of six: of two entries that contradict each other it names either.
        assert!(located > 2 && 3 * near > 2 * located, "{}: {near} of {located}", kind.name);
    }
}

/// Mostly an error names a byte of the damaged page, slot or byte string. A wrong descriptor or
/// word of a page's map is noticed in a slot, and of two entries that contradict each other either
/// may be named.
#[test]
fn errors_say_where_the_damage_is() {
    for_each_kind(&Located);
}

struct Mixed;

impl Test for Mixed {
    /// Some pages are of an earlier state: the file was copied while it was changed.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        let map = kind.create(&path, KEYS / 2);
        map.sync().unwrap();
        let earlier = fs::read(&path).unwrap();
        (KEYS / 2..KEYS).for_each(|key| (kind.put)(&map, key).unwrap());
        map.close().unwrap();
        let damaged = Damaged::new(kind, true);
        let later = fs::read(&path).unwrap();
        for page in (0..earlier.len().min(later.len())).step_by(one_in(3) * 4096) {
            let mut image = later.clone();
            image[page..page + 4096].copy_from_slice(&earlier[page..page + 4096]);
            damaged.open(&image, &Options::new());
        }
    }
}

#[test]
fn files_with_pages_of_an_earlier_state_are_opened_or_left_alone() {
    for_each_kind(&Mixed);
}

fn is_unchanged(path: &Path, image: &[u8]) -> bool {
    fs::read(path).unwrap() == image
}

struct Words;

impl Test for Words {
    /// Other types, another kind, persistent memory: each is refused, and the file is as it was.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        use nunatak::durable::{Durability, IcebergMap, PeaMap, TurboMap};
        let damaged = Damaged::new(kind, false);
        let (path, image) = (&damaged.path, &damaged.image);
        fs::write(path, image).unwrap();
        assert!(IcebergMap::<u32, u64>::open(path).is_err() && is_unchanged(path, image));
        assert!(PeaMap::<u64, bool>::open(path).is_err() && is_unchanged(path, image));
        assert!(TurboMap::<u64, char>::open(path).is_err() && is_unchanged(path, image));
        let memory = Options::new().durability(Durability::PersistentMemory);
        let opened = FileMap::<T>::open_with(path, &memory).map(drop);
        assert_eq!(opened, Err(Error::File(FileError::NotPersistentMemory)));
        assert!(is_unchanged(path, image));
        let read = Options::new().read_only(true);
        assert_eq!(damaged.open(image, &read), Found::Whole);
        assert!(is_unchanged(path, image));
    }
}

#[test]
fn a_file_of_another_map_is_left_alone() {
    for_each_kind(&Words);
}
