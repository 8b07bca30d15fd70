//! Backups of maps that are changed meanwhile.

use crate::kinds::{Kind, Test, for_each_kind};
use nunatak::durable::MapInFile;
use nunatak::{Error, FileError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

struct UnderLoad;

impl Test for UnderLoad {
    /// One thread adds keys in their order: each backup has all keys up to one of them.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let map = kind.create(&path("map"), 2000);
        let is_over = AtomicBool::new(false);
        let counts: Vec<usize> = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let keys = (2000..).take_while(|_| !is_over.load(Ordering::Relaxed));
                keys.map(|key| {
                    (kind.put)(&map, key).unwrap();
                    if key % 64 == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                })
                .count()
            });
            let back_up = |n: usize| map.backup(path(&format!("copy-{n}")));
            let counts: Vec<_> = (0..5).map(back_up).collect();
            is_over.store(true, Ordering::Relaxed);
            assert!(writer.join().unwrap() > 0);
            counts.into_iter().map(Result::unwrap).collect()
        });
        for (n, &count) in counts.iter().enumerate() {
            let copy = kind.open(&path(&format!("copy-{n}"))).unwrap();
            assert!(copy.recovery().was_closed && count >= 2000, "{}", kind.name);
            assert!(kind.is_whole(&copy, count as u64), "{}: {count}", kind.name);
            assert_eq!(copy.verify(), Ok(count), "{}", kind.name);
        }
        assert!(counts.is_sorted() && counts[0] < counts[4], "{}: {counts:?}", kind.name);
        // A backup takes no other file's place, and leaves nothing behind.
        let exists = Err(Error::File(FileError::Exists));
        assert_eq!(map.backup(path("copy-1")), exists, "{}", kind.name);
        assert!(map.backup(path("none").join("copy")).is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 6, "{}", kind.name);
        // Files that are read only can be backed up, too.
        drop(map);
        let options = nunatak::durable::Options::new().read_only(true);
        let map = nunatak::durable::FileMap::<T>::open_with(path("map"), &options).unwrap();
        assert_eq!(map.backup(path("last")), Ok(map.len()));
        let (copy, bytes) = (kind.open(&path("last")).unwrap(), map.file_bytes());
        assert!(copy.file_bytes() <= 2 * bytes, "{}", kind.name);
    }
}

#[test]
fn a_backup_is_of_one_instant() {
    for_each_kind(&UnderLoad);
}
