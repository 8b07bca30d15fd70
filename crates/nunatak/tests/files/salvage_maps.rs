//! What is read from a file whose page maps are damaged: they say where in the file the pages of a
//! table are. Lost are words, sectors, pages, and whole maps.

use crate::effort::some_of;
use crate::kinds::{Kind, Test, for_each_kind, small};
use nunatak::durable::{
    self, BlobDesign, BlobsInFile, DurableDesign, FileMap, InFile, InPages, MapInFile, Options,
    PeaMap, PeaMultiMap, Salvaged, TurboMap,
};
use nunatak::{Error, Iceberg, Pea, Turbo};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::path::PathBuf;

const EXTENTS: usize = 8192;
const EXTENT: usize = 32;
const PAGE: usize = 64 << 10;

/// Numbers of parts of a file.
const PAGES: u8 = 8;
const SUMS: u8 = 18;
const SEGMENTS_MAP: u8 = 13;
/// The maps of `Front`, `Back`, `Chains` and `Segments`.
const MAPS: [u8; 4] = [9, 10, 11, SEGMENTS_MAP];

fn word(image: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(image[at..at + 8].try_into().unwrap())
}

/// Returns where the bytes of a part are.
fn extents_of(image: &[u8], part: u8) -> Vec<Range<usize>> {
    let entries = (EXTENTS..EXTENTS + 512 * EXTENT).step_by(EXTENT);
    let of_part = entries.filter(|&at| (word(image, at) >> 52) as u8 == part);
    let range = |at: usize| {
        let start = (word(image, at) & ((1 << 52) - 1)) as usize * PAGE;
        start..start + (word(image, at + 8) & ((1 << 48) - 1)) as usize * PAGE
    };
    of_part.map(range).collect()
}

/// Returns the pieces of so many bytes of a part that are not all zero.
fn used_pieces(image: &[u8], part: u8, bytes: usize) -> Vec<Range<usize>> {
    let all = extents_of(image, part).into_iter().flat_map(|range| range.step_by(bytes));
    let pieces = all.map(|at| at..at + bytes);
    pieces.filter(|piece| image[piece.clone()].iter().any(|&byte| byte != 0)).collect()
}

/// Returns where the last version of a page is, by its entry in a map.
fn last_page(image: &[u8], entry: &Range<usize>) -> Range<usize> {
    let versions = entry.clone().step_by(8).map(|at| word(image, at));
    let number = versions.max().unwrap() as usize & ((1 << 28) - 1);
    let mut pages = extents_of(image, PAGES).into_iter().flat_map(|range| range.step_by(4096));
    let at = pages.nth(number).unwrap();
    at..at + 4096
}

/// A file that is damaged again and again.
struct File {
    path: PathBuf,
    new: PathBuf,
    image: Vec<u8>,
    _directory: tempfile::TempDir,
}

impl File {
    fn new<T: MapInFile>(map: impl FnOnce(PathBuf) -> FileMap<T>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (path, new) = (directory.path().join("map"), directory.path().join("new"));
        map(path.clone()).close().unwrap();
        let image = fs::read(&path).unwrap();
        Self { path, new, image, _directory: directory }
    }

    /// Salvages the file without these bytes. The first ones are replaced by something else, the
    /// others by zeros.
    fn salvage<T: MapInFile>(&self, lost: &[Range<usize>], fill: u8) -> (FileMap<T>, Salvaged) {
        let mut image = self.image.clone();
        lost.iter().for_each(|range| image[range.clone()].fill(0));
        image[lost[0].clone()].fill(fill);
        fs::write(&self.path, image).unwrap();
        let _ = fs::remove_file(&self.new);
        let salvaged = FileMap::<T>::salvage(&self.path, &self.new).unwrap();
        let map = FileMap::<T>::open(&self.new).unwrap();
        assert_eq!(map.verify(), Ok(salvaged.sure + salvaged.doubtful), "{lost:?}");
        (map, salvaged)
    }
}

struct Places;

impl Test for Places {
    /// What is lost of a map is found again, and nothing is found twice or that was never stored.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        const KEYS: u64 = 3000;
        if kind.name == "iceberg" {
            return;
        }
        let file = File::new(|path| {
            let map = kind.create(&path, KEYS / 3);
            map.sync().unwrap();
            (KEYS / 3..KEYS).for_each(|key| (kind.put)(&map, key).unwrap());
            map
        });
        for bytes in [32, 512, 4096] {
            let (mut least, mut sum, mut tried) = (KEYS, 0, 0);
            for part in MAPS {
                let pieces = used_pieces(&file.image, part, bytes);
                let some = pieces.iter().step_by(pieces.len() / 6 + 1);
                for (piece, fill) in some.zip([0, 0xA5].into_iter().cycle()) {
                    let (map, salvaged) = file.salvage::<T>(core::slice::from_ref(piece), fill);
                    let what = format!("{}: part {part}, {piece:?}: {salvaged:?}", kind.name);
                    let left = (0..KEYS).filter(|&key| (kind.has)(&map, key)).count();
                    assert_eq!(left, salvaged.sure + salvaged.doubtful, "{what}");
                    let left = left as u64;
                    assert_eq!(left, KEYS, "{what}");
                    let is_noticed = !salvaged.damages.is_empty();
                    assert!(is_noticed || salvaged.sure as u64 == KEYS, "{what}");
                    (least, sum, tried) = (least.min(left), sum + left, tried + 1);
                }
            }
            let (name, mean) = (kind.name, sum / tried);
            println!("{name}, {bytes} bytes: {least} of {KEYS} at least, {mean} on average");
        }
    }
}

#[test]
fn lost_places_of_pages_are_found() {
    for_each_kind(&Places);
}

fn is_read_without_descriptors<T: MapInFile<Entry = (u64, u64)>>(
    keys: u64,
    create: impl FnOnce(PathBuf) -> FileMap<T>,
) {
    let file = File::new(create);
    for fill in [0, 0xA5] {
        let lost = extents_of(&file.image, SEGMENTS_MAP);
        assert_eq!(lost.len(), 1);
        let (map, salvaged) = file.salvage::<T>(&lost, fill);
        assert!(map.iter().all(|(key, value)| key < keys && value == !key), "{salvaged:?}");
        assert!(map.len() as u64 >= keys - 1, "{salvaged:?}");
        assert!(!salvaged.damages.is_empty());
    }
}

/// Neither the map of the descriptors nor their page is there: the buckets tell which shard they are
/// of.
#[test]
fn a_file_without_descriptors_of_shards_is_read() {
    const KEYS: u64 = 20_000;
    for shards in [2, 64, 1024] {
        is_read_without_descriptors(KEYS, |path| {
            let options = Options::new().shards(shards);
            let map = TurboMap::<u64, u64>::create_with(path, &options).unwrap();
            (0..KEYS).try_for_each(|key| map.insert(key, !key).map(drop)).unwrap();
            map
        });
    }
}

/// Loses the place of each page of buckets, and its last version, after each of many syncs. Where an
/// earlier version is found, it may be of another shard or segment, and of the other half of the hashes.
fn earlier_pages_show_no_other_keys<T: MapInFile<Entry = (u64, u64)>>(
    keys: u64,
    create: impl FnOnce(&PathBuf) -> FileMap<T>,
    insert: impl Fn(&FileMap<T>, u64),
) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let map = create(&path);
    let mut earlier = 0;
    for key in 0..keys {
        insert(&map, key);
        if key % 60 != 59 || key < 200 {
            continue;
        }
        map.sync().unwrap();
        let image = fs::read(&path).unwrap();
        for entry in used_pieces(&image, MAPS[0], 32) {
            let mut damaged = image.clone();
            damaged[entry.clone()].fill(0);
            damaged[last_page(&image, &entry)].fill(0);
            let (copy, new) = (path.with_extension("copy"), path.with_extension("new"));
            fs::write(&copy, damaged).unwrap();
            let _ = fs::remove_file(&new);
            let salvaged = FileMap::<T>::salvage(&copy, &new).unwrap();
            let new = FileMap::<T>::open(&new).unwrap();
            let is_right = |(key, value): (u64, u64)| key < keys && value == !key;
            assert!(new.iter().all(is_right), "{key}, {entry:?}: {salvaged:?}");
            earlier += salvaged.doubtful;
        }
    }
    assert!(earlier > 100, "{earlier} entries of earlier pages");
}

#[test]
fn pages_of_other_shards_show_no_other_keys() {
    earlier_pages_show_no_other_keys(
        1200,
        |path| TurboMap::<u64, u64>::create_with(path, &Options::new().shards(2)).unwrap(),
        |map, key| map.insert(key, !key).map(drop).unwrap(),
    );
}

#[test]
fn pages_of_other_segments_show_no_other_keys() {
    earlier_pages_show_no_other_keys(
        1200,
        |path| PeaMap::<u64, u64>::create_with(path, &small()).unwrap(),
        |map, key| map.insert(key, !key).map(drop).unwrap(),
    );
}

/// Draws numbers, others in each run.
struct Draw(RandomState, u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.1 += 1;
        (self.0.hash_one(self.1) % end as u64) as usize
    }
}

/// A change of the history of a file: a key, and the value that it gets, if any.
type Step = (u64, Option<u64>);

/// Changes after which pages have earlier versions, parts of the file were used for other things, and
/// some keys are gone. So many keys that follow each other become one.
fn history(draw: &mut Draw, together: u64) -> Vec<Vec<Step>> {
    const KEYS: u64 = 1500;
    let mut value = 0;
    let rounds = (0..6).map(|round| {
        let changes = (0..KEYS).filter_map(|key| {
            value += 1;
            match draw.below(if round == 0 { 1 } else { 4 }) {
                0 => Some(((key + 700 * (round % 3)) / together, Some(value))),
                1 if round % 2 == 1 && key % together == 0 => Some((key / together, None)),
                _ => None,
            }
        });
        changes.collect()
    });
    rounds.collect()
}

/// Returns all values that keys ever had.
fn stored_by(history: &[Vec<Step>]) -> HashMap<u64, Vec<u64>> {
    let mut stored: HashMap<u64, Vec<u64>> = HashMap::new();
    for &(key, value) in history.iter().flatten() {
        stored.entry(key).or_default().extend(value);
    }
    stored
}

/// Returns the entries that were never stored.
fn unknown(
    stored: &HashMap<u64, Vec<u64>>,
    entries: impl Iterator<Item = (u64, u64)>,
) -> Vec<(u64, u64)> {
    let is_known =
        |&(key, value): &(u64, u64)| stored.get(&key).is_some_and(|values| values.contains(&value));
    entries.filter(|entry| !is_known(entry)).collect()
}

/// Loses a piece of a map and other pieces of the file, in a file with a history. Only what was stored
/// once is found.
///
/// A zero in place of a word of a map is no damage that can be seen: an earlier version counts. If that is of
/// pointers, they may name buffers that have become other keys', so such a loss has more bytes there.
fn nothing_is_invented<T>(
    (together, least): (u64, usize),
    create: impl Fn(PathBuf, &[Vec<Step>]) -> FileMap<T>,
    entry: impl Fn(T::Entry) -> (u64, u64),
) where
    T: MapInFile,
{
    let mut draw = Draw(RandomState::new(), 0);
    let history = history(&mut draw, together);
    let stored = stored_by(&history);
    let file = File::new(|path| create(path, &history));
    let (mut recovered, mut sum, mut whole) = (0, 0, 0);
    for trial in 0..some_of(40) {
        let fill = [0, 0xA5][trial % 2];
        let map = MAPS[draw.below(MAPS.len())];
        let bytes = [8, 32, 512, 4096][draw.below(4)].max(if fill == 0 { least } else { 8 });
        let of_map = used_pieces(&file.image, map, bytes);
        let of_pages = used_pieces(&file.image, PAGES, [512, 4096][draw.below(2)]);
        if of_map.is_empty() {
            continue;
        }
        let mut lost = vec![of_map[draw.below(of_map.len())].clone()];
        lost.extend((0..trial % 4).map(|_| of_pages[draw.below(of_pages.len())].clone()));
        let (map, salvaged) = file.salvage::<T>(&lost, fill);
        // What else is in a page that is not as its checksum says is counted as doubtful.
        let has_wrong_page = salvaged.damages.iter().any(|it| it.to_string().contains("checksum"));
        let allowed = if has_wrong_page { salvaged.doubtful } else { 0 };
        let unknown = unknown(&stored, map.iter().map(&entry));
        assert!(
            unknown.len() <= allowed,
            "{unknown:?}: {lost:?}, filled with {fill}: {salvaged:?}"
        );
        recovered += salvaged.damages.iter().filter(|it| it.to_string().contains("place")).count();
        (sum, whole) = (sum + map.len(), whole + 1);
    }
    println!("{} of all on average, {recovered} places were found", sum / whole.max(1));
}

/// Makes the changes of a history, each round with a sync.
fn replay(
    history: &[Vec<Step>],
    insert: impl Fn(u64, u64) -> Result<(), Error>,
    remove: impl Fn(u64) -> Result<(), Error>,
    sync: impl Fn() -> Result<(), Error>,
) {
    for round in history {
        for &(key, value) in round {
            value.map_or_else(|| remove(key), |value| insert(key, value)).unwrap();
        }
        sync().unwrap();
    }
}

/// Makes the changes of a history in a map of numbers.
fn replayed<D: DurableDesign>(
    map: durable::Map<u64, u64, D>,
    history: &[Vec<Step>],
) -> durable::Map<u64, u64, D> {
    let insert = |key, value| map.insert(key, value).map(drop);
    replay(history, insert, |key| map.remove(&key).map(drop), || map.sync());
    map
}

#[test]
fn nothing_is_invented_in_maps_of_turbo() {
    for shards in [2, 16] {
        let create = |path, history: &[Vec<Step>]| {
            let options = Options::new().shards(shards);
            replayed(TurboMap::create_with(path, &options).unwrap(), history)
        };
        nothing_is_invented((1, 8), create, |entry| entry);
    }
}

#[test]
fn nothing_is_invented_in_maps_of_pea() {
    let create = |path, history: &[Vec<Step>]| {
        replayed(PeaMap::create_with(path, &small()).unwrap(), history)
    };
    nothing_is_invented((1, 8), create, |entry| entry);
}

/// Makes the changes of a history in a map of many values.
fn replayed_multi(path: PathBuf, history: &[Vec<Step>]) -> PeaMultiMap<u64, u64> {
    let map = PeaMultiMap::<u64, u64>::create_with(path, &small()).unwrap();
    let remove = |key| map.remove_all(&key).map(drop);
    replay(history, |key, value| map.insert(key, value), remove, || map.sync());
    assert!(map.stats().buffered > 0);
    map
}

/// Keys have about 16 values, which are in value buffers.
#[test]
fn nothing_is_invented_in_maps_of_many_values() {
    nothing_is_invented((16, 32), replayed_multi, |entry| entry);
}

/// Without descriptors, and with an earlier page of what says it or a damaged one, nobody knows which
/// segments were given back. Their pointers name buffers that have become other keys'.
#[test]
fn segments_that_were_given_back_show_no_values_of_other_keys() {
    let mut draw = Draw(RandomState::new(), 0);
    let mut found = 0;
    for _ in 0..12 {
        let history = history(&mut draw, 16);
        let stored = stored_by(&history);
        let file = File::new(|path| replayed_multi(path, &history));
        let last = |entry: &Range<usize>| last_page(&file.image, entry);
        let descriptors = last(&used_pieces(&file.image, SEGMENTS_MAP, 32)[0]);
        // Those of the segments that took their places.
        let buckets = used_pieces(&file.image, MAPS[0], 32);
        for stash in used_pieces(&file.image, MAPS[1], 32) {
            let page = last(&stash);
            let sector = page.start + 512 * draw.below(8);
            let damaged = sector..sector + 512;
            let both = [stash.clone(), page];
            for lost in [&both[..], core::slice::from_ref(&damaged)] {
                let bucket = last(&buckets[draw.below(buckets.len())]);
                let lost = [lost, &[descriptors.clone(), bucket]].concat();
                let (map, salvaged): (PeaMultiMap<u64, u64>, _) =
                    file.salvage(&lost, draw.below(256) as u8);
                let mut unknown = unknown(&stored, map.iter());
                // Other keys are of what the sector was replaced by.
                unknown.retain(|(key, _)| stored.contains_key(key));
                assert!(unknown.is_empty(), "{unknown:?}: {lost:?}: {salvaged:?}");
                found += map.len();
            }
        }
    }
    assert!(found > 0);
}

/// Puts the last version of the descriptors of an earlier image in a page that no map names, as if the page
/// had not been used again.
fn leave_descriptors(image: &mut [u8], earlier: &[u8]) {
    let number_of = |word: u64| word as usize & ((1 << 28) - 1);
    let entry = used_pieces(earlier, SEGMENTS_MAP, 32)[0].clone();
    let last = entry.step_by(8).map(|at| word(earlier, at)).max().unwrap();
    let named: HashSet<usize> = (9..18)
        .flat_map(|map| used_pieces(image, map, 8))
        .map(|range| number_of(word(image, range.start)))
        .collect();
    let free = (1..).find(|number| !named.contains(number)).unwrap();
    for (part, bytes) in [(PAGES, 4096), (SUMS, 8)] {
        let at = |image: &[u8], number: usize| {
            let mut all =
                extents_of(image, part).into_iter().flat_map(|range| range.step_by(bytes));
            all.nth(number).unwrap()
        };
        let from = at(earlier, number_of(last));
        let to = at(image, free);
        image[to..to + bytes].copy_from_slice(&earlier[from..from + bytes]);
    }
}

/// Earlier descriptors name segments that were given back since. Their pages are the last ones of
/// their places, but name buffers that have become other keys'.
#[test]
fn earlier_descriptors_show_no_values_of_other_keys() {
    let mut draw = Draw(RandomState::new(), 0);
    let directory = tempfile::tempdir().unwrap();
    let [path, copy, new] = ["map", "copy", "new"].map(|name| directory.path().join(name));
    let map = PeaMultiMap::<u64, u64>::create_with(&path, &small()).unwrap();
    let mut stored: HashMap<u64, Vec<u64>> = HashMap::new();
    let (mut images, mut found) = (Vec::new(), 0);
    for round in 0..14_u64 {
        // In every third round segments split. In all others buffers become other keys'.
        for key in 0..8000 + 200 * (round / 3) {
            if !stored.contains_key(&key) || round > 0 && draw.below(6) == 0 {
                map.remove_all(&key).unwrap();
                let values = if round == 0 { 2 } else { 1 + draw.below(12) as u64 };
                for value in (0..values).map(|value| round << 32 | key << 8 | value) {
                    map.insert(key, value).unwrap();
                    stored.entry(key).or_default().push(value);
                }
            }
        }
        map.sync().unwrap();
        images.push(fs::read(&path).unwrap());
        let Some(earlier) = images.len().checked_sub(4) else { continue };
        let mut image = images.last().unwrap().clone();
        let entry = used_pieces(&image, SEGMENTS_MAP, 32)[0].clone();
        let last = last_page(&image, &entry);
        image[entry].fill(0);
        image[last].fill(0);
        leave_descriptors(&mut image, &images[earlier]);
        fs::write(&copy, image).unwrap();
        let _ = fs::remove_file(&new);
        let salvaged = PeaMultiMap::<u64, u64>::salvage(&copy, &new).unwrap();
        let salvaged_map = PeaMultiMap::<u64, u64>::open(&new).unwrap();
        let unknown = unknown(&stored, salvaged_map.iter());
        assert!(unknown.is_empty(), "{round}: {unknown:?}: {salvaged:?}");
        found += usize::from(salvaged.damages.iter().any(|it| it.to_string().contains("place")));
    }
    assert!(map.stats().table.segments > 256, "the descriptors are several pages");
    assert_eq!(found, 11, "earlier descriptors were found each time");
}

/// Byte strings of a number each.
fn nothing_is_invented_in_blobs<D: BlobDesign>() {
    let create = |path, history: &[Vec<Step>]| {
        let map = FileMap::<BlobsInFile<D>>::create_with(path, &small()).unwrap();
        let insert =
            |key: u64, value: u64| map.put(&key.to_le_bytes(), &value.to_le_bytes()).map(drop);
        let remove = |key: u64| map.delete(&key.to_le_bytes()).map(drop);
        replay(history, insert, remove, || map.sync());
        map
    };
    let number = |bytes: Vec<u8>| u64::from_le_bytes(bytes.try_into().unwrap());
    nothing_is_invented((1, 8), create, |(key, value)| (number(key), number(value)));
}

#[test]
fn nothing_is_invented_in_byte_strings() {
    nothing_is_invented_in_blobs::<InFile<Turbo>>();
    nothing_is_invented_in_blobs::<InFile<Pea>>();
    nothing_is_invented_in_blobs::<InPages<Iceberg>>();
}
