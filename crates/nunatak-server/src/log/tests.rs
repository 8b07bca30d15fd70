//! The log by itself, without a server.

use super::*;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn log(map: &Path, segment_bytes: u64) -> Log {
    Log::create(Files::lock(map).unwrap(), 1, Sizes::of_segments(segment_bytes)).unwrap()
}

/// Returns the keys that are replayed after a power cut; `None` if nothing is left of the log.
fn replayed(map: &Path) -> Option<Vec<Vec<u8>>> {
    let files = Files::lock(map).unwrap();
    let left = Left::read(&files).unwrap()?;
    assert!(left.is_needed(&files, (false, true, 1)).unwrap());
    let mut keys = Vec::new();
    left.replay(&files, |step| {
        match step {
            Step::Store(records) => keys.extend(records.iter().map(|(key, _)| key.to_vec())),
            Step::Change(changes) => keys.extend(changes.iter().map(|(key, _)| key.to_vec())),
            Step::Clear => {}
        }
        Ok(())
    })
    .unwrap();
    Some(keys)
}

#[test]
fn what_the_map_has_refused_is_not_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("data.map");
    let log = log(&map, 200);
    for (at, key) in [b"a", b"b", b"c", b"d"].into_iter().enumerate() {
        let pending = log.append(&[(key, Some(&[0; 50]))]).unwrap();
        log.finish(pending, at % 2 == 0);
    }
    log.commit().unwrap();
    assert!(log.full_before(0) > Some(1), "in several segments");
    drop(log);
    assert_eq!(replayed(&map).unwrap(), [b"a", b"c"]);
}

/// Records that are appended together are replayed one by one, and if the map has refused one of them, none
/// is.
#[test]
fn records_are_appended_together() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("data.map");
    let log = log(&map, 400);
    for (keys, is_done) in [([b"a", b"b", b"c"], true), ([b"d", b"e", b"f"], false)] {
        let records = keys.map(|key| (&key[..], &[0; 50][..]));
        let pending = log.append_each(&records).unwrap();
        log.finish_each(pending, is_done);
    }
    log.finish(log.append(&[(b"g", None)]).unwrap(), true);
    log.commit().unwrap();
    assert!(log.full_before(0) > Some(1), "in several segments");
    log.wait_for_changes(u64::MAX);
    drop(log);
    assert_eq!(replayed(&map).unwrap(), [b"a", b"b", b"c", b"g"]);
}

#[test]
fn what_was_not_committed_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("data.map");
    let log = log(&map, 4096);
    let append = |key: &[u8]| log.finish(log.append(&[(key, None)]).unwrap(), true);
    append(b"a");
    log.commit().unwrap();
    append(b"b");
    drop(log);
    assert_eq!(replayed(&map).unwrap(), [b"a"]);
}

/// A record that is longer than segments are gets a longer segment.
#[test]
fn long_records_have_room() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("data.map");
    let log = log(&map, 4096);
    let long = vec![b'x'; 100_000];
    for key in [b"a", b"b"] {
        log.finish(log.append(&[(key, Some(&long))]).unwrap(), true);
    }
    log.commit().unwrap();
    drop(log);
    assert_eq!(replayed(&map).unwrap(), [b"a", b"b"]);
}

/// Segments wait for changes that are in them, and perhaps not in the map.
#[test]
fn segments_wait_for_their_changes() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("data.map");
    let log = log(&map, 4096);
    let pending = log.append(&[(b"first", None)]).unwrap();
    while log.full_before(0).is_none() {
        log.finish(log.append(&[(b"other", None)]).unwrap(), true);
    }
    let number = log.full_before(0).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            is_done.store(true, Ordering::SeqCst);
            log.finish(pending, true);
        });
        log.wait_for_changes(number);
        assert!(is_done.load(Ordering::SeqCst));
    });
    log.truncate_before(number, 1).unwrap();
    assert_eq!(log.full_before(0), None);
    drop(log);
    assert!(replayed(&map).unwrap().iter().all(|key| key == b"other"));
}

/// A segment that is not whole ends the log: the next one was not durable either.
#[test]
fn a_segment_without_an_end_is_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("data.map");
    let log = log(&map, 300);
    for key in 0..20_u8 {
        log.finish(log.append(&[(&[key], Some(&[0; 40]))]).unwrap(), true);
    }
    log.commit().unwrap();
    let first = log.files.segment(1);
    drop(log);
    assert_eq!(replayed(&map).unwrap().len(), 20);
    let mut bytes = std::fs::read(&first).unwrap();
    let of_first: Vec<Position> = record::Records::of(1, &bytes).map(|it| it.0).collect();
    // Its end, which says that the log goes on.
    bytes[of_first[of_first.len() - 1].offset as usize..].fill(0);
    std::fs::write(&first, bytes).unwrap();
    let keys = replayed(&map).unwrap();
    assert_eq!(keys.len(), of_first.len() - 1, "{keys:?}");
}

/// A power cut during the first write of a segment: what follows the header is there, the header is not.
/// The next segment was made already.
#[test]
fn a_segment_without_a_header_ends_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("data.map");
    let log = log(&map, 300);
    for key in 0..20_u8 {
        log.finish(log.append(&[(&[key], Some(&[0; 40]))]).unwrap(), true);
    }
    log.commit().unwrap();
    let last = log.full_before(0).unwrap();
    let paths = [last - 1, last].map(|number| log.files.segment(number));
    drop(log);
    let first = std::fs::read(&paths[0]).unwrap();
    let count = record::Records::of(last - 1, &first).count();
    std::fs::write(&paths[0], [&[0; HEADER][..], &first[HEADER..]].concat()).unwrap();
    std::fs::write(&paths[1], [0; 300]).unwrap();
    let keys = replayed(&map).unwrap();
    assert!(keys.len() >= 20 - 2 * count && keys.len() < 20 && count > 1, "{keys:?}");
    // A header that is wrong in another way is damage.
    std::fs::write(&paths[0], [&[1; HEADER][..], &first[HEADER..]].concat()).unwrap();
    let files = Files::lock(&map).unwrap();
    assert!(matches!(Left::read(&files), Err(LogError::Unknown(_))));
}

/// A log that can't be written refuses changes from then on.
#[test]
fn a_failed_write_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("data.map");
    let log = log(&map, 4096);
    log.finish(log.append(&[(b"a", None)]).unwrap(), true);
    // No file for writing.
    log.state.lock().segments[0].file = Arc::new(File::open(log.files.control()).unwrap());
    let failed = log.commit().unwrap_err();
    assert!(matches!(failed, Error::File(FileError::Io { action: "write the log", .. })));
    assert_eq!(log.append(&[(b"b", None)]).unwrap_err(), failed);
    assert_eq!((log.commit(), log.end()), (Err(failed), Err(failed)));
}

#[test]
fn a_map_is_synced_when_the_log_is_as_large() {
    let sizes = Sizes::default();
    assert_eq!(
        [0, 1 << 30, u64::MAX].map(|map| sizes.before_sync(map)),
        [128 << 20, 1 << 30, 2 << 30]
    );
    let folder = tempfile::tempdir().unwrap();
    let log = log(&folder.path().join("data.map"), 4096);
    // Three segments are full, and one is begun.
    while log.full_before(3 * 4096).is_none() {
        assert!(log.full_before(0).is_none_or(|last| last < 4));
        log.finish(log.append(&[(b"key", Some(&[0; 100]))]).unwrap(), true);
    }
    assert_eq!((log.full_before(3 * 4096), log.full_before(3 * 4096 + 1)), (Some(4), None));
    assert!(log.wait(Duration::from_secs(1000), 3 * 4096), "it does not wait");
}

/// Without room for the next segment, the full ones are not needed for long.
#[test]
fn a_log_without_room_asks_for_a_sync() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("data.map");
    let log = log(&map, 4096);
    // It is in the way.
    let in_the_way = folder.path().join("data.map.log.3");
    std::fs::create_dir(&in_the_way).unwrap();
    let append =
        || log.append(&[(b"key", Some(&[0; 100]))]).map(|pending| log.finish(pending, true));
    while append().is_ok() {
        assert_eq!(log.full_before(u64::MAX), None);
    }
    assert!(append().is_err());
    assert_eq!(log.full_before(u64::MAX), Some(2));
    assert!(log.wait(Duration::from_secs(1000), u64::MAX), "it does not wait");
    log.truncate_before(2, 1).unwrap();
    assert_eq!(log.full_before(0), None);
    std::fs::remove_dir(&in_the_way).unwrap();
    append().unwrap();
    assert_eq!((log.full_before(u64::MAX), log.full_before(0)), (None, Some(3)));
}
