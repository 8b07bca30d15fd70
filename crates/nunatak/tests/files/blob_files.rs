//! Files of durable maps of byte strings: their contents, damage, refusals of the system, and what
//! operations write.

use crate::full_disk;
use crate::sampling::one_in;
use crate::temporary::{Temporary, error};
use nunatak::durable::{
    BlobDesign, BlobsInFile, Counts, Durability, FileKind, FileMap, InFile, InPages, Options,
    Persistency, Simulation, TurboBlobMap, TurboMap,
};
use nunatak::{Error, FileError, Iceberg, Pea, Turbo};
use std::fs;

type Of<D> = FileMap<BlobsInFile<D>>;

/// A design whose maps are tested here.
trait Tested: BlobDesign {
    const FILE_KIND: FileKind;
}

impl Tested for InFile<Turbo> {
    const FILE_KIND: FileKind = FileKind::TurboBlobs;
}

impl Tested for InFile<Pea> {
    const FILE_KIND: FileKind = FileKind::PeaBlobs;
}

impl Tested for InPages<Iceberg> {
    const FILE_KIND: FileKind = FileKind::IcebergBlobs;
}

/// Makes tests of the named functions for a design.
macro_rules! tests_of {
    ($($name:ident: $design:ty),*) => {
        $(
            mod $name {
                use super::*;
                tests_of!(@
                    $design,
                    a_map_is_there_again
                    a_changed_byte_of_a_blob_is_found
                    lengths_from_nothing_to_megabytes_are_kept
                    a_key_is_contained_until_it_is_removed
                    files_of_other_kinds_are_refused
                    places_are_used_again
                    sessions_leave_nothing_behind
                    places_that_wait_for_the_last_sync_are_free_again
                    places_are_read_only_if_their_checksum_is_right
                    an_emptied_map_returns_its_file_to_the_disk
                    a_full_disk_is_an_error
                    a_failed_sync_poisons_the_map
                    damaged_files_are_refused_or_used
                    wrong_names_are_found
                    a_name_of_a_free_place_is_found
                    a_change_writes_the_blob_and_one_line
                    a_power_cut_leaves_the_last_sync
                );
            }
        )*
    };
    (@ $design:ty, $($test:ident)*) => {
        $(
            #[test]
            fn $test() {
                super::$test::<$design>();
            }
        )*
    };
}

tests_of!(turbo: InFile<Turbo>, pea: InFile<Pea>, iceberg: InPages<Iceberg>);

fn small() -> Options {
    Options::new().shards(2).segment_buckets(8)
}

fn key(n: u32) -> Vec<u8> {
    let mut key = n.to_le_bytes().to_vec();
    key.resize(4 + n as usize % 40, 7);
    key
}

/// Lengths of all size classes; some strings have spans of their own.
fn value(n: u32) -> Vec<u8> {
    let length = match n % 1000 {
        0 => 300_000,
        1 => 40_000,
        other => (other * other / 50) as usize,
    };
    (0..length).map(|at| (n as usize + at) as u8).collect()
}

fn fill<D: BlobDesign>(map: &Of<D>, keys: core::ops::Range<u32>) {
    keys.for_each(|n| assert_eq!(map.put(&key(n), &value(n)), Ok(false)));
}

fn is_there<D: BlobDesign>(map: &Of<D>, mut keys: core::ops::Range<u32>) -> bool {
    let guard = map.pin();
    keys.all(|n| guard.get(&key(n)) == Some(&value(n)))
}

fn a_map_is_there_again<D: Tested>() {
    let directory = Temporary::new();
    let map = Of::<D>::create_with(directory.path(), &small()).unwrap();
    assert_eq!(FileKind::of(directory.path()), Ok(D::FILE_KIND));
    fill(&map, 0..5000);
    let (stats, killed) = (map.blob_stats(), fs::read(directory.path()).unwrap());
    map.close().unwrap();
    for was_closed in [true, true, false] {
        if !was_closed {
            fs::write(directory.path(), &killed).unwrap();
        }
        let map = Of::<D>::open(directory.path()).unwrap();
        assert_eq!(map.recovery().was_closed, was_closed);
        let of = |stats: nunatak::BlobStats| (stats.blobs, stats.live_bytes, stats.placed_bytes);
        if was_closed {
            assert_eq!(of(map.blob_stats()), of(stats), "they are known before anything is read");
        }
        assert!(is_there(&map, 0..5000));
        assert_eq!((map.len(), map.verify(), map.recovery().items), (5000, Ok(5000), 5000));
        assert_eq!(of(map.blob_stats()), of(stats));
    }
}

/// Every byte of a blob is covered by its checksum, and `verify` looks at all of them.
fn a_changed_byte_of_a_blob_is_found<D: Tested>() {
    let directory = Temporary::new();
    let map = Of::<D>::create_with(directory.path(), &small()).unwrap();
    let (key, value) = (b"a key that is nowhere else", b"a value that is nowhere else, either");
    map.put(key, value).unwrap();
    map.put(b"", b"").unwrap();
    map.close().unwrap();
    let image = fs::read(directory.path()).unwrap();
    let at = image.windows(key.len()).position(|bytes| bytes == key).unwrap();
    // The lengths before the key change where the blob ends, and may be refused earlier.
    for byte in at - 8..at + key.len() + value.len() + 4 {
        let mut damaged = image.clone();
        damaged[byte] ^= 1 << (byte % 8);
        fs::write(directory.path(), &damaged).unwrap();
        let opened = Of::<D>::open(directory.path());
        if let Ok(map) = &opened {
            // A key is absent if it is damaged, or its lengths are.
            let got = map.get_verified(key);
            let is_before_value = byte < at + key.len();
            assert!(is_before_value && got == Ok(None) || got.is_err(), "byte {byte}: {got:?}");
            assert_eq!(map.get_verified(b""), Ok(Some(Vec::new())));
        }
        let verified = opened.and_then(|map| map.verify());
        let Err(Error::File(FileError::Corrupt { at: place, .. })) = verified else {
            panic!("byte {byte}: {verified:?}")
        };
        if byte >= at {
            assert_eq!(place, Some(at as u64 - 8), "byte {byte}");
        }
    }
    fs::write(directory.path(), &image).unwrap();
    assert_eq!(Of::<D>::open(directory.path()).unwrap().verify(), Ok(2));
}

fn lengths_from_nothing_to_megabytes_are_kept<D: Tested>() {
    let directory = Temporary::new();
    let lengths = [0, 1, 8, 127, 129, 32_767, 32_769, 65_536, 1 << 20, 5 << 20];
    let bytes = |length: usize| (0..length).map(|at| (at * 7) as u8).collect::<Vec<u8>>();
    let map = Of::<D>::create(directory.path()).unwrap();
    for key in lengths {
        map.put(&bytes(key), &bytes(lengths[lengths.len() - 1] - key)).unwrap();
    }
    map.close().unwrap();
    let map = Of::<D>::open(directory.path()).unwrap();
    for key in lengths {
        let found = map.get(&bytes(key)).unwrap();
        assert!(found == bytes(lengths[lengths.len() - 1] - key), "{key}");
    }
    assert_eq!(map.verify(), Ok(lengths.len()));
}

fn a_key_is_contained_until_it_is_removed<D: Tested>() {
    let path = Temporary::new();
    let map = Of::<D>::create(path.path()).unwrap();
    assert!(map.is_empty() && !map.contains_key(&key(1)));
    fill(&map, 1..3);
    assert!(!map.is_empty() && map.contains_key(&key(1)) && !map.contains_key(&key(3)));
    map.remove(&key(1)).unwrap();
    assert!(!map.contains_key(&key(1)) && map.contains_key(&key(2)));
}

fn files_of_other_kinds_are_refused<D: Tested>() {
    let directory = Temporary::new();
    drop(TurboMap::<u64, u64>::create(directory.path()).unwrap());
    let other = error(FileError::OtherKind { what: "kind of map" });
    assert_eq!(Of::<D>::open(directory.path()).unwrap_err(), other);
    let directory = Temporary::new();
    drop(Of::<D>::create(directory.path()).unwrap());
    assert_eq!(TurboMap::<u64, u64>::open(directory.path()).unwrap_err(), other);
}

/// A string that is replaced between two syncs frees its place at once, unless a power cut would
/// bring the string back; then the next sync frees it. So a file does not grow, whether it is never
/// synced or always.
fn places_are_used_again<D: Tested>() {
    for syncs in [0, 1, 40] {
        let directory = Temporary::new();
        let map = Of::<D>::create_with(directory.path(), &small()).unwrap();
        fill(&map, 2..900);
        map.sync().unwrap();
        let (before, live) = (map.file_bytes(), map.blob_stats().live_bytes);
        for round in 0..40 {
            for n in 2..900 {
                assert_eq!(map.put(&key(n), &value(n)), Ok(true));
            }
            if syncs > 0 && round % (40 / syncs) == 0 {
                map.sync().unwrap();
            }
        }
        assert_eq!(map.reclaim(), 0);
        let stats = map.blob_stats();
        assert_eq!(stats.blobs, 898);
        assert!(map.file_bytes() < 4 * before, "{syncs}: {before} {}", map.file_bytes());
        assert!(stats.unsynced_bytes < 2 * live, "{syncs}: {live} {stats:?}");
        map.sync().unwrap();
        map.put(b"another", &[0; 30_000]).unwrap();
        assert_eq!((map.verify(), is_there(&map, 2..900)), (Ok(899), true));
    }
}

/// A file that is opened, changed a little, and closed or killed, many times, does not grow.
fn sessions_leave_nothing_behind<D: Tested>() {
    let directory = Temporary::new();
    let map = Of::<D>::create_with(directory.path(), &small()).unwrap();
    fill(&map, 2..900);
    map.close().unwrap();
    let bytes = || fs::metadata(directory.path()).unwrap().len();
    let first = bytes();
    for session in 0..60 {
        let map = Of::<D>::open(directory.path()).unwrap();
        for n in 2..40 {
            map.put(&key(n), &value(n)).unwrap();
        }
        let image = fs::read(directory.path()).unwrap();
        drop(map);
        if session % 2 == 0 {
            fs::write(directory.path(), image).unwrap();
        }
    }
    assert!(bytes() < 2 * first, "{first} bytes became {}", bytes());
    let map = Of::<D>::open(directory.path()).unwrap();
    assert_eq!((map.verify(), is_there(&map, 2..900)), (Ok(898), true));
}

/// The last changes of a session leave places that wait for a sync. The file does not keep them as
/// taken ones.
fn places_that_wait_for_the_last_sync_are_free_again<D: Tested>() {
    let directory = Temporary::new();
    let put = |map: &Of<D>| (0..40).for_each(|n| assert!(map.put(&key(n), &[7; 20_000]).is_ok()));
    let map = Of::<D>::create_with(directory.path(), &small()).unwrap();
    put(&map);
    map.close().unwrap();
    let bytes = || fs::metadata(directory.path()).unwrap().len();
    let first = bytes();
    for _ in 0..5 {
        let map = Of::<D>::open(directory.path()).unwrap();
        put(&map);
        map.close().unwrap();
    }
    assert!(bytes() < 3 * first, "{first} bytes became {}", bytes());
}

/// If a file is wrong about its taken places, they are searched.
fn places_are_read_only_if_their_checksum_is_right<D: Tested>() {
    let simulation = Simulation::new(Persistency::Lines);
    let map: Of<D> = simulation.create(&small()).unwrap();
    fill(&map, 2..60);
    let stats = map.blob_stats();
    map.close().unwrap();
    let mut image = simulation.crash(simulation.moment()).latest();
    let counts =
        [stats.blobs, stats.live_bytes, stats.placed_bytes].map(|n| (n as u64).to_ne_bytes());
    let is_said = |at: &usize| image[*at..at + 24] == *counts.as_flattened();
    let at = (4096..image.len() - 24).step_by(8).find(is_said).unwrap();
    image[at] ^= 1;
    let map: Of<D> = Simulation::of(&image, Persistency::Lines).open(&Options::new()).unwrap();
    assert_eq!((map.verify(), map.blob_stats().blobs), (Ok(58), 58));
}

fn an_emptied_map_returns_its_file_to_the_disk<D: Tested>() {
    let directory = Temporary::new();
    let map = Of::<D>::create(directory.path()).unwrap();
    let first = map.file_bytes();
    for _ in 0..3 {
        fill(&map, 2..20_000);
        assert!(map.file_bytes() > 30 << 20);
        map.retain(|stored, _| stored == key(7)).unwrap();
        map.shrink_to_fit().unwrap();
        assert!(map.file_bytes() <= first + (512 << 10), "{first} {}", map.file_bytes());
        assert_eq!(fs::metadata(directory.path()).unwrap().len(), map.file_bytes());
        assert!(is_there(&map, 7..8) && map.delete(&key(7)).unwrap());
    }
}

/// When the disk is full, the map returns an error, and keeps every acknowledged change. Removals
/// make room.
fn a_full_disk_is_an_error<D: Tested>() {
    for persistency in [Persistency::Pages, Persistency::Lines] {
        let simulation = Simulation::new(persistency);
        let map: Of<D> = simulation.create(&small()).unwrap();
        fill(&map, 2..200);
        simulation.fill_disk_at(Some(map.file_bytes()));
        let more = |n| map.put(&key(200 + n as u32), &value(200 + n as u32)).map(drop);
        let stored = 200 + full_disk::fill(more) as u32;
        assert_eq!(map.put(b"large", &[0; 10 << 20]), Err(error(FileError::Full)));
        assert_eq!((map.verify(), is_there(&map, 2..stored)), (Ok(stored as usize - 2), true));
        (2..stored / 2).for_each(|n| assert_eq!(map.delete(&key(n)), Ok(true)));
        for n in 2..stored / 2 {
            assert_eq!(map.put(&key(n), &value(n)), Ok(false), "{persistency:?}: {n} of {stored}");
        }
        assert!(is_there(&map, 2..stored));
        simulation.fill_disk_at(None);
        fill(&map, stored..1000);
        assert_eq!(map.verify(), Ok(998));
    }
}

/// A batch that finds no place in its middle goes on when a sync has given places back.
#[test]
fn a_batch_goes_on_behind_a_sync_that_makes_room() {
    for persistency in [Persistency::Pages, Persistency::Lines] {
        let simulation = Simulation::new(persistency);
        let map: TurboBlobMap = simulation.create(&small()).unwrap();
        fill(&map, 2..200);
        // The table gets pages to spare, so that only places for byte strings are missing.
        let names: Vec<_> = (0..20_000).map(|n| (format!("spare {n}"), "")).collect();
        for _ in 0..2 {
            map.put_many(&names).unwrap();
            map.sync().unwrap();
        }
        simulation.fill_disk_at(Some(map.file_bytes()));
        let stored = (200..).find(|&n| map.put(&key(n), &value(n)).is_err()).unwrap();
        // Places of the first eighth are free, those of the others wait for a sync.
        let (eighth, most) = (stored / 8, stored / 8 * 7);
        (2..eighth).for_each(|n| assert_eq!(map.delete(&key(n)), Ok(true)));
        map.reclaim();
        map.sync().unwrap();
        (eighth..most).for_each(|n| assert_eq!(map.delete(&key(n)), Ok(true)));
        let batch: Vec<_> = (2..most).map(|n| (key(n), value(n))).collect();
        assert_eq!(map.put_many(&batch), Ok(batch.len()), "{persistency:?}");
        assert!((2..stored).all(|n| map.get(&key(n)) == Some(value(n))));
        assert_eq!(map.verify(), Ok(stored as usize - 2 + names.len()));
    }
}

/// After a failed sync the map makes no promises.
fn a_failed_sync_poisons_the_map<D: Tested>() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: Of<D> = simulation.create(&small().durability(Durability::Synced)).unwrap();
    map.put(b"a", b"1").unwrap();
    simulation.fail_sync_after(0);
    assert!(matches!(map.put(b"b", b"2"), Err(Error::File(FileError::Io { .. }))));
    for refused in [map.put(b"c", b"3").map(drop), map.delete(b"a").map(drop), map.sync()] {
        assert_eq!(refused, Err(error(FileError::Poisoned)));
    }
    assert_eq!((map.get(b"a"), map.get(b"c")), (Some(b"1".to_vec()), None));
    assert_eq!(map.close(), Err(error(FileError::Poisoned)));
}

/// Damages every bit of the header and random words of the rest. Opening fails, or the map reports
/// the damage, or the map is whole. It can be used in any case.
fn damaged_files_are_refused_or_used<D: Tested>() {
    for was_closed in [true, false] {
        let simulation = Simulation::new(Persistency::Lines);
        let map: Of<D> = simulation.create(&small()).unwrap();
        fill(&map, 2..60);
        let killed = simulation.crash(simulation.moment()).latest();
        map.close().unwrap();
        let closed = simulation.crash(simulation.moment()).latest();
        let mut image = if was_closed { closed } else { killed };
        let whole = image.clone();
        let try_image = |image: &[u8]| {
            let simulation = Simulation::of(image, Persistency::Lines);
            let opened: Result<Of<D>, Error> = simulation.open(&Options::new());
            match opened {
                Err(Error::File(_) | Error::CapacityOverflow | Error::OutOfMemory { .. }) => {}
                Err(other) => panic!("{other}"),
                Ok(map) => {
                    let sound = map.verify();
                    // Values of other keys may be missing or mixed up.
                    (60..90).for_each(|n| {
                        let _ = map.put(&key(n), &value(n));
                    });
                    if sound.is_ok() {
                        assert!(map.verify().is_ok());
                    }
                    (0..90).for_each(|n| drop(map.get(&key(n))));
                }
            }
        };
        for bit in (0..1024 * 8).step_by(11) {
            image[bit / 8] ^= 1 << (bit % 8);
            try_image(&image);
            image[bit / 8] ^= 1 << (bit % 8);
        }
        let words = (4096..whole.len()).step_by(8).filter(|&at| whole[at..at + 8] != [0; 8]);
        for at in words.collect::<Vec<_>>().into_iter().step_by(13) {
            for word in [0, u64::MAX, 8, 1 << 33, 0xFFFF_FFFF] {
                image[at..at + 8].copy_from_slice(&u64::to_ne_bytes(word));
                try_image(&image);
            }
            image[at..at + 8].copy_from_slice(&whole[at..at + 8]);
        }
    }
}

/// Finds slots that name no blob, a blob that another slot names, too, or bytes that are no blob.
fn wrong_names_are_found<D: Tested>() {
    let simulation = Simulation::new(Persistency::Lines);
    let map: Of<D> = simulation.create(&small()).unwrap();
    (0..20_u8).for_each(|n| assert_eq!(map.put(&[n; 9], &[n; 30]), Ok(false)));
    map.close().unwrap();
    let image = simulation.crash(simulation.moment()).latest();
    // A slot: a hash with its highest bit, and an offset.
    let word = |at: usize| u64::from_ne_bytes(image[at..at + 8].try_into().unwrap());
    let is_slot = |at: &usize| word(*at) >> 63 == 1 && (48..64 << 10).contains(&word(at + 8));
    let slots: Vec<usize> = (4096..image.len() - 8).step_by(16).filter(is_slot).collect();
    assert!(slots.len() >= 10, "{}", slots.len());
    let other = word(slots[1] + 8);
    for wrong in [other, word(slots[0] + 8) + 8, 1 << 40, 3, u64::MAX] {
        let mut image = image.clone();
        image[slots[0] + 8..][..8].copy_from_slice(&wrong.to_ne_bytes());
        let map: Of<D> = Simulation::of(&image, Persistency::Lines).open(&Options::new()).unwrap();
        assert!(matches!(map.verify(), Err(Error::File(FileError::Corrupt { .. }))), "{wrong}");
    }
}

/// Finds a slot that names an earlier blob of its key: whole, but its place is free.
fn a_name_of_a_free_place_is_found<D: Tested>() {
    let simulation = Simulation::new(Persistency::Lines);
    let map: Of<D> = simulation.create(&small()).unwrap();
    map.put(b"one", &[1; 30]).unwrap();
    let before = simulation.crash(simulation.moment()).latest();
    map.put(b"two", &[2; 30]).unwrap();
    let earlier = simulation.crash(simulation.moment()).latest();
    map.put(b"two", &[3; 300]).unwrap();
    assert_eq!(map.reclaim(), 0);
    map.close().unwrap();
    let mut image = simulation.crash(simulation.moment()).latest();
    let word = |image: &[u8], at: usize| {
        image.get(at..at + 8).map_or(0, |word| u64::from_ne_bytes(word.try_into().unwrap()))
    };
    // The slot: a hash that is there now, which was not there at first.
    let is_slot = |&at: &usize| {
        let hash = word(&image, at);
        let is_named = |image| (48..1 << 20).contains(&word(image, at + 8));
        hash >> 63 == 1
            && hash == word(&earlier, at)
            && hash != word(&before, at)
            && is_named(&image)
            && is_named(&earlier)
    };
    let slots: Vec<usize> = (4096..image.len() - 8).step_by(16).filter(is_slot).collect();
    assert_eq!(slots.len(), 1);
    image[slots[0] + 8..][..8].copy_from_slice(&earlier[slots[0] + 8..][..8]);
    let map: Of<D> = Simulation::of(&image, Persistency::Lines).open(&Options::new()).unwrap();
    assert_eq!(map.get_verified(b"two"), Ok(Some(vec![2; 30])));
    assert!(matches!(map.verify(), Err(Error::File(FileError::Corrupt { .. }))));
}

/// Section 3.3: an insert or an update writes the blob, and then the slot, with two fences; a
/// removal writes the slot. The lines of a blob are written back once.
fn a_change_writes_the_blob_and_one_line<D: Tested>() {
    let simulation = Simulation::new(Persistency::Lines);
    let map: Of<D> = simulation.create(&Options::new().capacity(5000).shards(4)).unwrap();
    let count = |change: &dyn Fn()| {
        let before = simulation.moment();
        change();
        let counts: Counts = simulation.count(before..simulation.moment());
        (counts.lines_flushed, counts.fences)
    };
    // 48 bytes lie in two lines at most.
    let is_small = |(lines, fences)| (2..=3).contains(&lines) && fences == 2;
    let mut grown = 0;
    for n in 0..1000_u32 {
        let key = n.to_le_bytes();
        // The file may have grown.
        grown += usize::from(!is_small(count(&|| assert_eq!(map.put(&key, &[1; 36]), Ok(false)))));
        grown += usize::from(!is_small(count(&|| assert_eq!(map.put(&key, &[2; 36]), Ok(true)))));
        assert_eq!(count(&|| assert_eq!(map.get(&key), Some(vec![2; 36]))), (0, 0));
        if n % 2 == 0 {
            assert_eq!(count(&|| assert_eq!(map.delete(&key), Ok(true))), (1, 1));
        }
    }
    assert!(grown <= 3, "{grown}");
    map.put(b"first", &[3; 100_000]).unwrap();
    map.delete(b"first").unwrap();
    map.reclaim();
    let (lines, fences) = count(&|| assert_eq!(map.put(b"long", &[3; 100_000]), Ok(false)));
    assert!((1563..=1566).contains(&lines) && fences == 2, "{lines} {fences}");
}

/// A power cut at any instant leaves the entries of the last sync, in the page cache; in persistent
/// memory those of the last change, or of the one under way. The table grows and shrinks meanwhile.
fn a_power_cut_leaves_the_last_sync<D: Tested>() {
    type Contents = std::collections::BTreeMap<Vec<u8>, Vec<u8>>;
    for persistency in [Persistency::Pages, Persistency::Lines] {
        let simulation = Simulation::new(persistency);
        let map: Of<D> = simulation.create(&small()).unwrap();
        let (mut now, mut synced) = (Contents::new(), Contents::new());
        let mut before = simulation.moment();
        for step in 0..1200_u32 {
            let n = step * 7 % 500;
            let is_sync = step % 40 == 39;
            let earlier = now.clone();
            match step {
                _ if is_sync => map.sync().unwrap(),
                900 => map.shrink_to_fit().unwrap(),
                _ if step % 5 == 4 || step > 700 => {
                    let is_there = map.delete(&key(n)).unwrap();
                    assert_eq!(is_there, now.remove(&key(n)).is_some());
                }
                _ => {
                    let new = value(step % 97);
                    let is_there = map.put(&key(n), &new).unwrap();
                    assert_eq!(is_there, now.insert(key(n), new).is_some());
                }
            }
            let after = simulation.moment();
            // All of some steps, and some of the longer ones, in which the table grows.
            if step % 61 == 0 || is_sync && step % 3 == 0 || after - before > 60 {
                let few = one_in((after - before) / 6 + 1);
                for moment in (before..=after).step_by(few).chain([after]) {
                    for image in simulation.crash(moment).images(2, moment as u64) {
                        let cut = Simulation::of(&image, persistency);
                        let map: Of<D> = cut.open(&small()).unwrap();
                        let found: Contents = map.iter().collect();
                        let is_right = match persistency {
                            Persistency::Lines => found == earlier || found == now,
                            _ if is_sync => found == synced || found == now,
                            // A shrink syncs.
                            _ => found == synced || step >= 900 && found == now,
                        };
                        assert!(
                            is_right,
                            "{persistency:?}, step {step}, {before} {moment} {after}"
                        );
                        assert_eq!(map.verify(), Ok(found.len()), "step {step}");
                    }
                }
            }
            if is_sync || step == 900 {
                synced = now.clone();
            }
            before = after;
        }
    }
}
