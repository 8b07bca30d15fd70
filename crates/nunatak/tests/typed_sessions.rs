//! Typed maps: futures, killed processes, other processes, types of serde.
#![cfg(all(target_os = "linux", not(modelled)))]

mod temporary;

use nunatak::durable::{Options, Persistency, Simulation, TypedMap};
use nunatak::{Error, FileError};
use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use temporary::Temporary;

fn small() -> Options {
    Options::new().shards(2)
}

struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unparks(std::thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// What an asynchronous insert or removal has stored survives a power cut when its future ends, at
/// the level `Process`, too.
#[test]
fn what_a_future_has_stored_survives_a_power_cut() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: TypedMap<u64, String> = simulation.create_typed(&small()).unwrap();
    let cut = || {
        let images: Vec<_> = simulation.crash(simulation.moment()).images(4, 0).collect();
        images.into_iter().map(|image| {
            let again = Simulation::of(&image, Persistency::Pages);
            again.open_typed::<u64, String>(&small()).unwrap().get(&1).unwrap()
        })
    };
    for text in ["a", "b"] {
        let before = block_on(map.insert_async(&1, text)).unwrap();
        assert_eq!(before.is_some(), text == "b");
        assert!(cut().all(|found| found.as_deref() == Some(text)));
    }
    assert_eq!(block_on(map.remove_async(&1)), Ok(Some("b".into())));
    assert!(cut().all(|found| found.is_none()));
    map.write_batch(&[(1, Some("c"))]).unwrap();
    assert!(cut().any(|found| found.is_none()), "not durable without a sync");
    block_on(map.sync_async()).unwrap();
    assert!(cut().all(|found| found.as_deref() == Some("c")));
    // A sync that fails is the error of the future.
    simulation.fail_sync_after(0);
    assert!(block_on(map.insert_async(&2, "d")).is_err());
    assert_eq!(block_on(map.insert_async(&2, "d")), Err(Error::File(FileError::Poisoned)));
}

/// A thread polls many futures, and never waits for the disk: they share syncs.
#[test]
fn futures_of_one_thread_share_syncs() {
    let directory = Temporary::new();
    let map: TypedMap<u64, u64> = TypedMap::create_with(directory.path(), &small()).unwrap();
    let mut futures: Vec<_> = (0..500)
        .map(|key| {
            let map = &map;
            Box::pin(async move { map.insert_async(&key, &!key).await })
        })
        .collect();
    let waker = Waker::from(Arc::new(Unparks(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut first = 0;
    while !futures.is_empty() {
        let before = futures.len();
        futures.retain_mut(|future| match future.as_mut().poll(&mut context) {
            Poll::Ready(inserted) => {
                assert_eq!(inserted, Ok(None));
                false
            }
            Poll::Pending => true,
        });
        first = first.max(before - futures.len());
        if before == futures.len() {
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
    }
    assert!(first > 1, "a sync ends several futures");
    drop(futures);
    assert_eq!(map.len(), 500);
    // A future that is dropped after its first poll leaves its change.
    {
        let mut dropped = pin!(map.insert_async(&1000, &1));
        assert!(dropped.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(map.get(&1000), Ok(Some(1)));
    map.close().unwrap();
    let map: TypedMap<u64, u64> = TypedMap::open(directory.path()).unwrap();
    assert!(map.recovery().was_closed && map.verify() == Ok(501));
}

/// Wakers that panic, or that drop the last handle of the map, disturb no other future.
#[test]
fn wakers_may_do_anything() {
    type Map = TypedMap<u64, u64>;
    type Task = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;
    struct Drops(Mutex<Option<Task>>);
    impl Wake for Drops {
        fn wake(self: Arc<Self>) {
            let task = self.0.lock().unwrap().take();
            drop(task);
        }
    }
    struct Panics(AtomicU64);
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            self.0.store(1, Ordering::SeqCst);
            std::panic::resume_unwind(Box::new(()));
        }
    }
    let directory = Temporary::new();
    let map = Arc::new(Map::create_with(directory.path(), &small()).unwrap());
    let panics = Arc::new(Panics(AtomicU64::new(0)));
    {
        let waker = Waker::from(Arc::clone(&panics));
        let mut future = pin!(map.insert_async(&1, &1));
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(block_on(map.insert_async(&2, &2)), Ok(None));
        assert_eq!(panics.0.load(Ordering::SeqCst), 1);
        assert_eq!(block_on(future), Ok(None));
    }
    // The task has the last handle, and the thread that syncs drops it.
    let drops = Arc::new(Drops(Mutex::new(Some(Box::pin(async move { map.sync_async().await })))));
    let waker = Waker::from(Arc::clone(&drops));
    if let Some(task) = &mut *drops.0.lock().unwrap() {
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let map = loop {
        match Map::open(directory.path()) {
            Ok(map) => break map,
            Err(error) => assert_eq!(error, Error::File(FileError::InUse)),
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert!(map.recovery().was_closed && map.len() == 2);
}

/// Tells the child which file it changes.
const FILE: &str = "NUNATAK_TYPED_KILLED";

/// Not a test of its own: the process that is killed.
#[test]
fn changes_until_it_is_killed() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let map: TypedMap<(String, u32), Vec<u8>> =
        TypedMap::open_or_create_with(Path::new(&path), &small().schema("killed", 1)).unwrap();
    let first = map.len() as u32;
    for n in first.. {
        map.insert(&("key".into(), n), &vec![n as u8; n as usize % 2000]).unwrap();
        // An acknowledged change.
        println!("\nstored {n}");
    }
}

/// What was acknowledged is there after the process was killed, and can be changed.
#[test]
fn a_killed_process_loses_nothing() {
    let directory = Temporary::new();
    let path = directory.path();
    for round in 0..4_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "changes_until_it_is_killed", "--nocapture"])
            .env(FILE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = std::io::BufReader::new(child.stdout.take().unwrap());
        let (mut last, mut seen) = (None, 0);
        for line in std::io::BufRead::lines(output) {
            let line = line.unwrap();
            let Some(number) = line.strip_prefix("stored ") else { continue };
            last = number.parse::<u32>().ok().or(last);
            seen += 1;
            if seen == 300 + 97 * round {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let last = last.unwrap();
        let map: TypedMap<(String, u32), Vec<u8>> =
            TypedMap::open_with(&path, &small().schema("killed", 1)).unwrap();
        assert!(!map.recovery().was_closed);
        for n in 0..=last {
            let found = map.get(&("key".into(), n)).unwrap();
            assert_eq!(found, Some(vec![n as u8; n as usize % 2000]), "{n} of {last}");
        }
        // The change under way may be there, too.
        let len = map.len() as u32;
        assert!((last + 1..=last + 2).contains(&len));
        assert_eq!(map.verify(), Ok(len as usize));
        map.close().unwrap();
    }
}

#[cfg(feature = "serde")]
mod of_serde {
    use super::*;
    use nunatak::durable::Postcard;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct First {
        name: String,
        seen: u32,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Second {
        name: Vec<String>,
        seen: u64,
        ratio: f64,
    }

    #[test]
    fn a_type_that_was_changed_is_migrated() {
        let directory = Temporary::new();
        let path = directory.path();
        let options = small().schema("people", 1);
        let old: TypedMap<u64, Postcard<First>> = TypedMap::create_with(&path, &options).unwrap();
        let person = |n: u64| First { name: format!("person {n}"), seen: n as u32 };
        (0..2000).for_each(|n| assert_eq!(old.insert(&n, &person(n)), Ok(None)));
        assert_eq!(old.get(&7), Ok(Some(person(7))));
        let new = path.with_extension("2");
        let changed = |n, First { name, seen }: First| {
            let name = name.split(' ').map(str::to_owned).collect();
            Some((n, Second { name, seen: seen.into(), ratio: 0.5 }))
        };
        let second = small().schema("people", 2);
        let migrated = old.migrate::<u64, Postcard<Second>>(&new, &second, changed);
        assert_eq!(migrated, Ok(2000));
        let opened = TypedMap::<u64, Postcard<Second>>::open_with(&path, &second).map(drop);
        // In use, and of another version afterwards.
        assert_eq!(opened, Err(Error::File(FileError::InUse)));
        old.close().unwrap();
        let opened = TypedMap::<u64, Postcard<Second>>::open_with(&path, &second).map(drop);
        assert!(matches!(opened, Err(Error::File(FileError::OtherSchema { .. }))));
        let map: TypedMap<u64, Postcard<Second>> = TypedMap::open_with(&new, &second).unwrap();
        assert_eq!(map.get(&7), Ok(changed(7, person(7)).map(|entry| entry.1)));
        assert_eq!(map.verify(), Ok(2000));
    }

    /// A type that was changed without another version: bytes that are left over, or lacking, are
    /// noticed.
    #[test]
    fn bytes_of_another_type_are_an_error() {
        let directory = Temporary::new();
        let path = directory.path();
        let map: TypedMap<u64, Postcard<(u32, u32)>> =
            TypedMap::create_with(&path, &small()).unwrap();
        map.insert(&1, &(5, 6)).unwrap();
        map.close().unwrap();
        let map: TypedMap<u64, Postcard<u32>> = TypedMap::open(&path).unwrap();
        let is_refused = |error| {
            matches!(error, Error::File(FileError::Undecodable { what: "value", at: Some(_) }))
        };
        assert!(map.get(&1).is_err_and(is_refused) && map.verify().is_err_and(is_refused));
        drop(map);
        let map: TypedMap<u64, Postcard<(u32, u32, u32)>> = TypedMap::open(&path).unwrap();
        assert!(map.get(&1).is_err_and(is_refused) && map.verify().is_err_and(is_refused));
    }

    /// A type whose `Serialize` fails.
    #[test]
    fn a_type_that_refuses_is_an_error() {
        #[derive(Debug, Clone, PartialEq, Deserialize)]
        struct Refuses;
        impl Serialize for Refuses {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("no"))
            }
        }
        let directory = Temporary::new();
        let map: TypedMap<u64, Postcard<Refuses>> =
            TypedMap::create_with(directory.path(), &small()).unwrap();
        assert!(matches!(map.insert(&1, &Refuses), Err(Error::Unencodable { .. })));
        assert_eq!(map.len(), 0);
    }
}
