//! Damage to what a crash has left: opening returns an error and changes not one byte, or the map is
//! whole or `verify` says what is wrong. Slots have no checksums, so a changed number may be seen by
//! nobody (docs/operating.md): such images are counted.

use crate::effort::effort;
use crate::kinds::{Kind, Test, for_each_kind, small};
use nunatak::FileError;
use nunatak::durable::{FileMap, MapInFile, Options, Persistency, Simulation};
use std::fs;
use std::path::Path;

const SECTOR: usize = 512;
const PAGE: usize = 4096;

/// Damaged images of each kind of map and of damage. The variable of the harness multiplies it.
fn rounds() -> u64 {
    (12.0 * effort()).ceil() as u64
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let bits = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ bits >> 31) % end.max(1) as u64) as usize
    }
}

#[derive(Debug, Clone, Copy)]
enum Damage {
    Bits,
    Zeros,
    Truncation,
    /// Pages of an older image among those of this.
    OldPages,
    /// Sectors in the places of others.
    Misplaced,
}

const DAMAGES: [Damage; 5] =
    [Damage::Bits, Damage::Zeros, Damage::Truncation, Damage::OldPages, Damage::Misplaced];

impl Damage {
    fn make(self, image: &mut Vec<u8>, older: &[u8], random: &mut Random) {
        // Some damage is everywhere, some in the header and the extents.
        let range = if random.below(3) == 0 { image.len().min(40 << 10) } else { image.len() };
        let times = 1 + random.below(6);
        match self {
            Self::Bits => {
                (0..times).for_each(|_| image[random.below(range)] ^= 1 << random.below(8))
            }
            Self::Zeros => (0..times).for_each(|_| {
                let at = random.below(range) / SECTOR * SECTOR;
                image[at..at + SECTOR].fill(0);
            }),
            Self::Truncation => {
                let bytes = random.below(image.len());
                let unit = [1, SECTOR, PAGE, 16 * PAGE][random.below(4)];
                image.truncate(bytes / unit * unit);
            }
            Self::OldPages => {
                let share = 1 + random.below(8);
                let pages = image.chunks_exact_mut(PAGE).zip(older.chunks_exact(PAGE));
                for (page, old) in pages {
                    if random.below(9) < share {
                        page.copy_from_slice(old);
                    }
                }
            }
            Self::Misplaced => (0..times).for_each(|_| {
                let from = random.below(range) / SECTOR * SECTOR;
                let to = random.below(range) / SECTOR * SECTOR;
                image.copy_within(from..from + SECTOR, to);
            }),
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    refused: usize,
    whole: usize,
    verified: usize,
    /// Of these `verify` has seen nothing.
    other: usize,
}

struct Damaged(Persistency);

impl Test for Damaged {
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let simulation = Simulation::new(self.0);
        let map: FileMap<T> = simulation.create(&small()).unwrap();
        let mut images = Vec::new();
        let mut moments = vec![0];
        for part in 0..4 {
            (part * 120..(part + 1) * 120).for_each(|key| (kind.put)(&map, key).unwrap());
            moments.push(simulation.moment());
            map.sync().unwrap();
            moments.push(simulation.moment());
            let removed = part * 120..part * 120 + 60;
            removed.for_each(|key| assert_eq!((kind.remove)(&map, key), Ok(true)));
        }
        moments.push(simulation.moment());
        map.close().unwrap();
        moments.push(simulation.moment());
        for &moment in &moments[1..] {
            images.push(simulation.crash(moment).latest());
            images.extend(simulation.crash(moment).images(3, moment as u64));
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        let mut random = Random(7);
        for damage in DAMAGES {
            let mut counts = Counts::default();
            // A truncation leaves fewer files that are opened than other damage.
            let times = if matches!(damage, Damage::Truncation) { 5 } else { 1 };
            for round in 0..times * rounds() {
                let number = random.below(images.len());
                let mut image = images[number].clone();
                damage.make(&mut image, &images[random.below(number + 1)], &mut random);
                let what = format!("{}, {damage:?}, round {round}", kind.name);
                open(kind, &path, &image, &mut counts, random.below(3) == 0, &what);
            }
            println!("{} {:?} {damage:?}: {counts:?}", kind.name, self.0);
        }
    }
}

fn open<T: MapInFile>(
    kind: &Kind<T>,
    path: &Path,
    image: &[u8],
    counts: &mut Counts,
    is_read_only: bool,
    what: &str,
) {
    fs::write(path, image).unwrap();
    // Images were made by other starts of the machine.
    let options = Options::new().threads(1).read_only(is_read_only);
    let map = match FileMap::<T>::open_with(path, &options) {
        Ok(map) => map,
        Err(error) => {
            let is_unchanged = fs::read(path).unwrap() == image;
            assert!(is_unchanged, "{what}: {error}, and the file was changed");
            assert!(matches!(error, nunatak::Error::File(_)), "{what}: {error}");
            assert!(
                !matches!(error, nunatak::Error::File(FileError::Io { .. })),
                "{what}: {error} is no error of the disk"
            );
            counts.refused += 1;
            return;
        }
    };
    let verified = map.verify();
    let found = (0..480).filter(|&key| (kind.has)(&map, key)).count();
    match verified {
        Err(_) => counts.verified += 1,
        Ok(pairs) if pairs == found && map.len() == found => counts.whole += 1,
        Ok(_) => counts.other += 1,
    }
    if !is_read_only {
        // It may refuse changes, but does not crash.
        for key in 1000..1040 {
            let _ = (kind.put)(&map, key);
            let _ = (kind.remove)(&map, key - 900);
        }
        let _ = map.shrink_to_fit();
        let _ = map.close();
    }
}

#[test]
fn damaged_images_of_the_page_cache() {
    for_each_kind(&Damaged(Persistency::Pages));
}

#[test]
fn damaged_images_of_persistent_memory() {
    for_each_kind(&Damaged(Persistency::Lines));
}
