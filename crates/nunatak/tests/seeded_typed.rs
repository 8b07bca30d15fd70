//! The seeded bugs of typed maps: each is switched on in turn, and the check that belongs to it must
//! fail.
//!
//! ```sh
//! RUSTFLAGS="--cfg nunatak_seeded_bugs" cargo test --release -p nunatak --test seeded_typed
//! ```
#![cfg(all(nunatak_seeded_bugs, target_os = "linux", not(loom), not(shuttle)))]

mod encodings;
mod seeds;

use encodings::{Loose, OneByte};
use nunatak::durable::{Encoding, KeyEncoding, Options, Persistency, Simulation, TypedMap};
use nunatak::seeded::Bug;
use nunatak::{Error, FileError};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Thread, current, park};

fn small() -> Options {
    Options::new().shards(2)
}

fn created<K: KeyEncoding, V: Encoding>(options: &Options) -> (Simulation, TypedMap<K, V>) {
    let simulation = Simulation::new(Persistency::Pages);
    let map = simulation.create_typed(options).unwrap();
    (simulation, map)
}

/// Returns what a power cut leaves now.
fn cut(simulation: &Simulation) -> Simulation {
    let image = simulation.crash(simulation.moment()).images(1, 0).next().unwrap();
    Simulation::of(&image, Persistency::Pages)
}

/// A file of numbers is not read as one of other numbers, nor as one of another version.
fn another_schema_is_refused() -> bool {
    let (simulation, map) = created::<u64, u64>(&small().schema("ages", 1));
    map.insert(&1, &u64::MAX).unwrap();
    map.sync().unwrap();
    let cut = cut(&simulation);
    let is_refused = |opened: Result<(), Error>| {
        matches!(opened, Err(Error::File(FileError::OtherSchema { .. })))
    };
    is_refused(cut.open_typed::<u64, i64>(&small().schema("ages", 1)).map(drop))
        && is_refused(cut.open_typed::<u64, u64>(&small().schema("ages", 2)).map(drop))
        && is_refused(cut.open_typed::<u64, u64>(&small().schema("wages", 1)).map(drop))
}

/// Two keys have the same bytes only if they are equal, whatever an encoding says of its width.
fn different_keys_stay_apart() -> bool {
    let (_, map) = created::<(OneByte, String), u64>(&small());
    let key = |first: &str, second: &str| (first.to_string(), second.to_string());
    map.insert(&key("1", "23"), &1).unwrap();
    let replaced = map.insert(&key("12", "3"), &2);
    map.get(&key("1", "23")) == Ok(Some(1)) && replaced != Ok(Some(1))
}

/// A change that returns that a value can't be decoded has left the value as it was.
fn what_cannot_be_decoded_stays() -> bool {
    let (simulation, map) = created::<u64, Loose>(&small());
    map.insert(&1, b"seven b").unwrap();
    map.sync().unwrap();
    let cut = cut(&simulation);
    let map: TypedMap<u64, u64> = cut.open_typed(&small()).unwrap();
    let is_undecodable = |changed: Result<_, Error>| {
        matches!(changed, Err(Error::File(FileError::Undecodable { .. })))
    };
    let fails_once = is_undecodable(map.insert(&1, &7).map(drop));
    fails_once && is_undecodable(map.get(&1).map(drop))
}

type Task = Pin<Box<dyn Future<Output = Result<Option<u64>, Error>> + Send>>;

struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a task once, for a thread that waits for its end.
struct Polls {
    task: Arc<Mutex<Task>>,
    waiting: Waker,
}

impl Wake for Polls {
    fn wake(self: Arc<Self>) {
        let polled =
            self.task.lock().unwrap().as_mut().poll(&mut Context::from_waker(&self.waiting));
        assert!(polled.is_pending());
        self.waiting.wake_by_ref();
    }
}

/// A change that is made when a sync has ended is durable when its own future ends: its insert is
/// begun by a waker, in the thread that syncs.
fn what_a_future_has_stored_is_durable() -> bool {
    let (simulation, map) = created::<u64, u64>(&small());
    let map = Arc::new(map);
    let insert = |key: u64| -> Task {
        let map = Arc::clone(&map);
        Box::pin(async move { map.insert_async(&key, &key).await })
    };
    let waiting = Waker::from(Arc::new(Unparks(current())));
    let second = Arc::new(Mutex::new(insert(2)));
    let polls =
        Waker::from(Arc::new(Polls { task: Arc::clone(&second), waiting: waiting.clone() }));
    let mut first = pin!(insert(1));
    assert!(first.as_mut().poll(&mut Context::from_waker(&polls)).is_pending());
    while map.get(&2) != Ok(Some(2)) {
        park();
    }
    let mut context = Context::from_waker(&waiting);
    while second.lock().unwrap().as_mut().poll(&mut context) == Poll::Pending {
        park();
    }
    let cut = cut(&simulation).open_typed::<u64, u64>(&small()).unwrap();
    cut.get(&1) == Ok(Some(1)) && cut.get(&2) == Ok(Some(2))
}

#[test]
fn every_seeded_bug_is_found() {
    seeds::each_is_found(&[
        (Bug::SchemaNotCompared, another_schema_is_refused),
        (Bug::WidthNotCompared, different_keys_stay_apart),
        (Bug::UndecodableReplaced, what_cannot_be_decoded_stays),
        (Bug::TicketsTakenAfterSync, what_a_future_has_stored_is_durable),
    ]);
}
