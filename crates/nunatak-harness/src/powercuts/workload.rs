//! What the guest does with a map of each kind, and the contents that follow from it.

use crate::crashable::Crashable;
use crate::crashes::{Batches, MultiAction, MultiContents, apply_changes, changes_of};
use crate::random::Random;
use nunatak::durable::{Durability, IcebergBlobMap, InFile, Map, Options, PeaBlobMap};
use nunatak::durable::{PeaMap, PeaMultiMap, TurboBlobMap, TurboMap};
use nunatak::{Blocks, Error, Iceberg};
use std::path::Path;
use std::time::Duration;

/// The sorted values of each key; in most maps a key has one value.
pub type Held = MultiContents;

/// A map whose operations follow from their numbers.
pub trait Workload: Sized {
    /// Whether a power cut leaves the map at one instant. If not, each key has a value that it had
    /// at the last sync or since.
    const ONE_INSTANT: bool = true;

    /// Opens or creates the file.
    ///
    /// # Errors
    /// Errors of the map.
    fn open_or_create(path: &Path, options: &Options) -> Result<Self, Error>;

    /// Runs the operation of this number.
    ///
    /// # Errors
    /// Errors of the map.
    fn run(&self, number: u64) -> Result<(), Error>;

    /// Applies the operation of this number to the contents.
    fn apply(number: u64, held: &mut Held);

    /// Makes all operations durable.
    ///
    /// # Errors
    /// Errors of the map.
    fn sync(&self) -> Result<(), Error>;

    /// Returns the verified contents.
    ///
    /// # Panics
    /// If `verify` finds damage, or counts another number of pairs.
    fn held(&self) -> Held;
}

type Small = Map<u64, u64, InFile<Iceberg<Blocks<32, 4>>>>;

/// Operations of a map with one value a key.
#[derive(Debug)]
struct Single<M>(M);

/// The same of a map without pages that are copied.
#[derive(Debug)]
struct KeyByKey(Small);

/// Operations with atomic batches among them.
#[derive(Debug)]
struct Together<M>(M);

/// Operations of a map of many values.
#[derive(Debug)]
struct Many(PeaMultiMap<u64, u64>);

/// How many operations there are until the map grows again after it has shrunk.
const PHASE: u64 = 1500;

/// Returns the key and a number that chooses the operation.
fn choose(number: u64) -> (u64, u64) {
    let mut random = Random::new(number);
    let (keys, shift) = if (number / PHASE).is_multiple_of(2) { (3000, 0) } else { (1500, 4) };
    (random.below(keys), (random.below(10) + shift).min(9))
}

fn run_single<M: Crashable>(map: &M, number: u64) -> Result<(), Error> {
    let (key, action) = choose(number);
    match action {
        _ if number % PHASE == PHASE - 1 => map.shrink(),
        0..=5 => map.put(key, number).map(drop),
        6 | 7 => map.take(key).map(drop),
        _ => map.replace(key, number).map(drop),
    }
}

fn apply_single(number: u64, held: &mut Held) {
    let (key, action) = choose(number);
    match action {
        _ if number % PHASE == PHASE - 1 => {}
        0..=5 => drop(held.insert(key, vec![number])),
        6 | 7 => drop(held.remove(&key)),
        _ => {
            if let Some(values) = held.get_mut(&key) {
                *values = vec![number];
            }
        }
    }
}

fn held_single<M: Crashable>(map: &M) -> Held {
    let found = map.contents();
    assert_eq!(map.check(), Ok(found.len()), "{}", map.inside());
    found.into_iter().map(|(key, value)| (key, vec![value])).collect()
}

/// Implements a workload over a map with one value a key.
macro_rules! over_single {
    ($map:ty) => {
        fn open_or_create(path: &Path, options: &Options) -> Result<Self, Error> {
            <$map>::open_or_create_file(path, options).map(Self)
        }

        fn sync(&self) -> Result<(), Error> {
            self.0.make_durable()
        }

        fn held(&self) -> Held {
            held_single(&self.0)
        }
    };
}

impl<M: Crashable> Workload for Single<M> {
    over_single!(M);

    fn run(&self, number: u64) -> Result<(), Error> {
        run_single(&self.0, number)
    }

    fn apply(number: u64, held: &mut Held) {
        apply_single(number, held);
    }
}

impl Workload for KeyByKey {
    const ONE_INSTANT: bool = false;
    over_single!(Small);

    fn run(&self, number: u64) -> Result<(), Error> {
        run_single(&self.0, number)
    }

    fn apply(number: u64, held: &mut Held) {
        apply_single(number, held);
    }
}

/// Returns the changes of a batch, if the operation of this number is one.
fn batch(number: u64) -> Option<Vec<(u64, Option<u64>)>> {
    number.is_multiple_of(3).then(|| changes_of(number, 60))
}

impl<M: Batches> Workload for Together<M> {
    over_single!(M);

    fn run(&self, number: u64) -> Result<(), Error> {
        match batch(number) {
            Some(changes) => self.0.change_together(&changes),
            None => run_single(&self.0, number),
        }
    }

    fn apply(number: u64, held: &mut Held) {
        let Some(changes) = batch(number) else { return apply_single(number, held) };
        let of_keys = changes.iter().map(|&(key, _)| key);
        let mut some = of_keys.filter_map(|key| Some((key, *held.get(&key)?.first()?))).collect();
        apply_changes(&changes, &mut some);
        for (key, _) in changes {
            match some.get(&key) {
                Some(&value) => held.insert(key, vec![value]),
                None => held.remove(&key),
            };
        }
    }
}

/// Draws the key of an operation: a few keys have hundreds of values, most have some.
fn key_of_many(random: &mut Random) -> u64 {
    match random.below(3) {
        0 => random.below(3),
        _ => 3 + random.below(500),
    }
}

/// Returns the operation of this number. A value is the number of the operation that stores it.
fn choose_of_many(number: u64) -> MultiAction {
    let mut random = Random::new(number);
    let key = key_of_many(&mut random);
    match random.below(100) {
        _ if number % PHASE == PHASE - 1 => MultiAction::Shrink,
        0..=59 => MultiAction::Insert(key, number),
        60 if number.is_multiple_of(3) => MultiAction::RemoveAll(key),
        61..=65 if key >= 3 => MultiAction::RemoveAll(key),
        _ => {
            // The value that an operation has stored recently, if it stored one.
            let earlier = number.saturating_sub(1 + random.below(400));
            MultiAction::RemoveOne(key_of_many(&mut Random::new(earlier)), earlier)
        }
    }
}

impl Workload for Many {
    fn open_or_create(path: &Path, options: &Options) -> Result<Self, Error> {
        PeaMultiMap::open_or_create_with(path, options).map(Self)
    }

    fn run(&self, number: u64) -> Result<(), Error> {
        match choose_of_many(number) {
            MultiAction::Insert(key, value) => self.0.insert(key, value),
            MultiAction::RemoveOne(key, value) => self.0.remove_one(&key, &value).map(drop),
            MultiAction::RemoveAll(key) => self.0.remove_all(&key).map(drop),
            MultiAction::Sync => self.0.sync(),
            MultiAction::Shrink => self.0.shrink_to_fit(),
        }
    }

    fn apply(number: u64, held: &mut Held) {
        choose_of_many(number).apply(held);
    }

    fn sync(&self) -> Result<(), Error> {
        self.0.sync()
    }

    fn held(&self) -> Held {
        let mut found = Held::new();
        for (key, value) in self.0.iter() {
            found.entry(key).or_default().push(value);
        }
        found.values_mut().for_each(|values| values.sort_unstable());
        let pairs = found.values().map(Vec::len).sum();
        assert_eq!((self.0.len(), self.0.verify()), (pairs, Ok(pairs)), "{:?}", self.0.stats());
        found
    }
}

/// Returns the number of the first operation that is not among those made durable by the sync that
/// follows `number` operations. Syncs are from one to about a hundred operations apart.
pub fn next_sync(number: u64) -> u64 {
    let is_followed = |number: &u64| Random::new(!*number).once_in(25);
    (number + 1..).find(is_followed).unwrap_or(number)
}

/// Applies operations to contents.
pub fn apply_until<W: Workload>(held: &mut Held, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| W::apply(number, held));
}

/// The names of the kinds.
pub const KINDS: [&str; 11] = [
    "iceberg",
    "iceberg-journal",
    "pea",
    "pea-multi",
    "turbo",
    "turbo-blobs",
    "pea-blobs",
    "iceberg-blobs",
    "pea-batches",
    "turbo-batches",
    "turbo-blobs-batches",
];

/// What is done with a map of a kind.
pub trait Task {
    /// The result.
    type Result;

    /// Does it.
    fn run<W: Workload>(self, kind: &str) -> Self::Result;
}

/// Does something with the kind of a name, if there is one.
pub fn with_kind<T: Task>(kind: &str, task: T) -> Option<T::Result> {
    Some(match kind {
        "iceberg" | "iceberg-journal" => task.run::<KeyByKey>(kind),
        "pea" => task.run::<Single<PeaMap<u64, u64>>>(kind),
        "pea-multi" => task.run::<Many>(kind),
        "turbo" => task.run::<Single<TurboMap<u64, u64>>>(kind),
        "turbo-blobs" => task.run::<Single<TurboBlobMap>>(kind),
        "pea-blobs" => task.run::<Single<PeaBlobMap>>(kind),
        "iceberg-blobs" => task.run::<Single<IcebergBlobMap>>(kind),
        "pea-batches" => task.run::<Together<PeaMap<u64, u64>>>(kind),
        "turbo-batches" => task.run::<Together<TurboMap<u64, u64>>>(kind),
        "turbo-blobs-batches" => task.run::<Together<TurboBlobMap>>(kind),
        _ => return None,
    })
}

/// Returns the options of a kind: with small parts, so that hundreds of keys make them grow.
pub fn options(kind: &str) -> Options {
    let options = Options::new().segment_buckets(16).shards(16).threads(1);
    match kind.ends_with("journal") {
        // The journal is so small that transactions are written and given up all the time.
        true => options.durability(Durability::Interval(Duration::from_secs(1))).journal(128 << 10),
        false => options,
    }
}
