//! What a crash leaves of a map of byte strings, and how its places are found again.

use crate::temporary::Temporary;
use nunatak::durable::{Options, Persistency, Simulation, TurboBlobMap};
use std::fs;

/// Before a string is flushed, a crash leaves any prefix of the words of each of its lines.
#[test]
fn lines_of_a_string_arrive_one_by_one() {
    let simulation = Simulation::new(Persistency::Lines);
    let map: TurboBlobMap = simulation.create(&Options::new().shards(2)).unwrap();
    map.put(b"first", &[1; 191]).unwrap();
    map.sync().unwrap();
    let before = simulation.moment();
    map.put(b"other", &[2; 191]).unwrap();
    let key_at = |moment: usize| {
        let image = simulation.crash(moment).latest();
        image.windows(5).position(|bytes| bytes == b"other")
    };
    let stored = (before..simulation.moment()).find(|&moment| key_at(moment).is_some()).unwrap();
    let start = key_at(stored).unwrap() - 8;
    // Its lengths, the strings, and the checksum.
    let end = start + 8 + 5 + 191 + 4;
    assert!(!start.is_multiple_of(64) && end.is_multiple_of(8));
    let words = |line: usize| end.min(64 * (line + 1)) - start.max(64 * line);
    let choices = (start / 64..end.div_ceil(64)).map(|line| words(line) as u64 / 8 + 1);
    let of = |moment| simulation.crash(moment).possibilities();
    assert_eq!(of(stored), of(stored - 1) * choices.product::<u64>());
}

/// Opening a file that was not closed reads no slot. Old places are given out again when changes
/// have looked at all shards, and a sync has ended.
#[test]
fn after_a_crash_places_are_found_shard_by_shard() {
    let directory = Temporary::new();
    let options = Options::new().shards(64);
    let map = TurboBlobMap::create_with(directory.path(), &options).unwrap();
    (0..40_000_u32).for_each(|n| assert_eq!(map.put(&n.to_le_bytes(), &[7; 96]), Ok(false)));
    (0..40_000_u32).step_by(2).for_each(|n| assert_eq!(map.delete(&n.to_le_bytes()), Ok(true)));
    map.reclaim();
    let image = fs::read(directory.path()).unwrap();
    drop(map);
    fs::write(directory.path(), &image).unwrap();
    let map = TurboBlobMap::open(directory.path()).unwrap();
    assert!(!map.recovery().was_closed && map.recovery().items == 0);
    assert_eq!(map.get(&1_u32.to_le_bytes()), Some(vec![7; 96]));
    let items = map.recovery().items;
    assert!(items > 0 && items < 2000, "{items}");
    let spans = map.blob_stats().spans;
    let put = |n: u32| map.put(&n.to_le_bytes(), &[8; 96]).unwrap();
    // In one shard: the first change looks at some others, and one change of 16 at one more.
    (0..16 * 32).for_each(|_| assert!(put(1)));
    let items = map.recovery().items;
    assert!(items > 20_000 / 2 && items < 20_000, "{items}");
    assert!(map.blob_stats().spans > spans, "nothing is used again before all is known");
    (0..16 * 24).for_each(|_| assert!(put(1)));
    assert_eq!(map.recovery().items, 20_000);
    (60_000..80_000).for_each(|n| assert!(!put(n)));
    assert!(map.blob_stats().spans <= spans, "{spans}: {:?}", map.blob_stats());
    assert_eq!(map.verify(), Ok(20_000 + 20_000));
    // So that the file does not grow from crash to crash, all shards are searched when it has become large.
    drop(map);
    fs::write(directory.path(), &image).unwrap();
    let map = TurboBlobMap::open(directory.path()).unwrap();
    for n in 0..14_u32 {
        map.put(&(90_000 + n).to_le_bytes(), &vec![9; 1 << 20]).unwrap();
        assert!(n > 2 || map.recovery().items < 20_000);
    }
    assert_eq!(map.recovery().items, 20_000);
}
