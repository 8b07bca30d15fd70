//! Checks for maps in which a key has any number of values.

use crate::effort::scaled;
use crate::history::{Clock, Recorder, Sequential};
use crate::random::Random;
use crate::record::check_rounds;
use crate::stress::{Running, together};
use nunatak::PeaMultiMap;
use nunatak::hash::Hashing;

/// A map of keys with any number of values.
pub trait MultiMap: Sync {
    /// Adds a value to a key.
    fn insert(&self, key: u64, value: u64);
    /// Adds a value to a key that does not have it, and returns whether it was added.
    fn insert_unique(&self, key: u64, value: u64) -> bool;
    /// Adds values to keys that do not have them, and returns how many were added.
    fn insert_unique_many(&self, pairs: &[(u64, u64)]) -> usize;
    /// Adds values to keys.
    fn insert_many(&self, pairs: &[(u64, u64)]);
    /// Returns all values of a key.
    fn all(&self, key: u64) -> Vec<u64>;
    /// Returns all values of each key.
    fn all_of_many(&self, keys: &[u64]) -> Vec<Vec<u64>>;
    /// Returns how many values a key has.
    fn count(&self, key: u64) -> usize;
    /// Returns one value of a key.
    fn get(&self, key: u64) -> Option<u64>;
    /// Returns whether a key has a value.
    fn contains_pair(&self, key: u64, value: u64) -> bool;
    /// Removes one value of a key and returns whether it was present.
    fn remove_one(&self, key: u64, value: u64) -> bool;
    /// Removes all values of a key and returns how many there were.
    fn remove_all(&self, key: u64) -> usize;
    /// Removes all values of a key and returns them.
    fn drain(&self, key: u64) -> Vec<u64>;
    /// Returns all pairs.
    fn pairs(&self) -> Vec<(u64, u64)>;
    /// Returns each key with its values.
    fn keys_with_values(&self) -> Vec<(u64, Vec<u64>)>;
    /// Returns each key with the number of its values.
    fn keys_with_counts(&self) -> Vec<(u64, usize)>;
    /// Returns all pairs of a cut.
    fn cut(&self) -> Vec<(u64, u64)>;
    /// Returns how many pairs there are.
    fn len(&self) -> usize;
    /// Returns whether the map has no pairs.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Makes the map as small as it can be.
    fn shrink(&self);
}

/// Implements the methods; `$done` unwraps the result of a change.
macro_rules! impl_multi_map {
    ($done:expr) => {
        fn insert(&self, key: u64, value: u64) {
            $done(self.insert(key, value));
        }

        fn insert_unique(&self, key: u64, value: u64) -> bool {
            $done(self.insert_unique(key, value))
        }

        fn insert_unique_many(&self, pairs: &[(u64, u64)]) -> usize {
            $done(self.insert_unique_many(pairs))
        }

        fn insert_many(&self, pairs: &[(u64, u64)]) {
            $done(self.insert_many(pairs));
        }

        fn all(&self, key: u64) -> Vec<u64> {
            self.get_all(&key).collect()
        }

        fn all_of_many(&self, keys: &[u64]) -> Vec<Vec<u64>> {
            let (mut values, mut ends) = (Vec::new(), vec![0; keys.len()]);
            self.copy_all_many(keys, &mut values, &mut ends).expect("as many ends");
            let starts = core::iter::once(&0).chain(&ends);
            starts.zip(&ends).map(|(&start, &end)| values[start..end].to_vec()).collect()
        }

        fn count(&self, key: u64) -> usize {
            self.count(&key)
        }

        fn get(&self, key: u64) -> Option<u64> {
            self.get(&key)
        }

        fn contains_pair(&self, key: u64, value: u64) -> bool {
            self.contains_pair(&key, &value)
        }

        fn remove_one(&self, key: u64, value: u64) -> bool {
            $done(self.remove_one(&key, &value))
        }

        fn remove_all(&self, key: u64) -> usize {
            $done(self.remove_all(&key))
        }

        fn drain(&self, key: u64) -> Vec<u64> {
            $done(self.drain(&key)).collect()
        }

        fn pairs(&self) -> Vec<(u64, u64)> {
            self.iter().collect()
        }

        fn keys_with_values(&self) -> Vec<(u64, Vec<u64>)> {
            self.iter_all().collect()
        }

        fn keys_with_counts(&self) -> Vec<(u64, usize)> {
            self.distinct_keys().collect()
        }

        fn cut(&self) -> Vec<(u64, u64)> {
            self.snapshot().expect("memory for a cut").collect()
        }

        fn len(&self) -> usize {
            self.len()
        }

        fn shrink(&self) {
            self.shrink_to_fit().expect("memory for a merge");
        }
    };
}

impl<S: Hashing> MultiMap for PeaMultiMap<u64, u64, S> {
    impl_multi_map!(core::convert::identity);
}

/// Unwraps the result of a change, which must not be refused.
#[cfg(target_os = "linux")]
fn done<T>(change: Result<T, nunatak::Error>) -> T {
    change.expect("no change is refused")
}

#[cfg(target_os = "linux")]
impl MultiMap for nunatak::durable::PeaMultiMap<u64, u64> {
    impl_multi_map!(done);
}

pub(crate) fn sorted(mut values: Vec<u64>) -> Vec<u64> {
    values.sort_unstable();
    values
}

/// A call on a key with any number of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MultiCall {
    /// Adds a value.
    Insert(u64),
    /// Adds a value that the key does not have.
    InsertUnique(u64),
    /// Removes a value.
    RemoveOne(u64),
    /// Removes all values.
    RemoveAll,
    /// Reads all values.
    All,
    /// Counts the values.
    Count,
    /// Asks whether the key has a value.
    ContainsPair(u64),
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiAnswer {
    /// No answer.
    Done,
    /// Whether the value was present, or was added.
    Was(bool),
    /// How many values there were.
    Count(usize),
    /// All values, sorted.
    All(Vec<u64>),
}

impl Sequential for MultiCall {
    /// The key's values, sorted.
    type State = Vec<u64>;
    type Answer = MultiAnswer;

    fn apply(&self, state: &Vec<u64>) -> (Vec<u64>, MultiAnswer) {
        let mut after = state.clone();
        let add = |after: &mut Vec<u64>, value| {
            after.insert(after.partition_point(|of| of < value), *value);
        };
        let answer = match self {
            Self::Insert(value) => {
                add(&mut after, value);
                MultiAnswer::Done
            }
            Self::InsertUnique(value) => {
                let is_absent = !after.contains(value);
                if is_absent {
                    add(&mut after, value);
                }
                MultiAnswer::Was(is_absent)
            }
            Self::RemoveOne(value) => {
                let at = after.iter().position(|of| of == value);
                at.inspect(|&at| {
                    after.remove(at);
                });
                MultiAnswer::Was(at.is_some())
            }
            Self::RemoveAll => MultiAnswer::Count(core::mem::take(&mut after).len()),
            Self::All => MultiAnswer::All(after.clone()),
            Self::Count => MultiAnswer::Count(after.len()),
            Self::ContainsPair(value) => MultiAnswer::Was(after.contains(value)),
        };
        (after, answer)
    }
}

impl MultiCall {
    pub(crate) fn run<M: MultiMap>(self, map: &M, key: u64) -> MultiAnswer {
        match self {
            Self::Insert(value) => {
                map.insert(key, value);
                MultiAnswer::Done
            }
            Self::InsertUnique(value) => MultiAnswer::Was(map.insert_unique(key, value)),
            Self::RemoveOne(value) => MultiAnswer::Was(map.remove_one(key, value)),
            Self::RemoveAll => MultiAnswer::Count(map.remove_all(key)),
            Self::All => MultiAnswer::All(sorted(map.all(key))),
            Self::Count => MultiAnswer::Count(map.count(key)),
            Self::ContainsPair(value) => MultiAnswer::Was(map.contains_pair(key, value)),
        }
    }
}

/// Checks that histories of two keys with few values are linearizable. Meanwhile other keys come
/// and go, so that segments are split and merged and buckets compacted.
///
/// # Panics
/// If a history is not linearizable; the message has its operations.
pub fn histories_are_linearizable<M: MultiMap>(build: impl Fn() -> M) {
    let rounds = scaled(300);
    check_rounds(rounds, rounds / 20, |round| {
        let map = &build();
        let threads = 3;
        let (clock, running) = (Clock::default(), Running::new(threads));
        let histories = together(threads + 1, |thread| {
            let mut random = Random::new(round << 8 | thread as u64);
            if thread == threads {
                while running.any() {
                    disturb(map, &mut random);
                }
                return Vec::new();
            }
            let _run = running.one();
            let mut recorder = Recorder::new(&clock, thread);
            for _ in 0..14 + random.below(10) {
                let (key, call) = MultiCall::draw(&mut random);
                recorder.record([(key, call)], || vec![call.run(map, key)]);
            }
            recorder.into_operations()
        });
        histories.concat()
    });
}

impl MultiCall {
    /// Draws one of two keys, and a call.
    pub(crate) fn draw(random: &mut Random) -> (u64, Self) {
        let value = random.below(5);
        let call = match random.below(12) {
            0..=2 => Self::Insert(value),
            3..=4 => Self::InsertUnique(value),
            5..=6 => Self::RemoveOne(value),
            7 if random.once_in(3) => Self::RemoveAll,
            8 => Self::Count,
            9 => Self::ContainsPair(value),
            _ => Self::All,
        };
        (random.below(2), call)
    }
}

/// Inserts and removes other keys.
fn disturb<M: MultiMap>(map: &M, random: &mut Random) {
    let first = 1000 + random.below(50);
    for key in first..first + 60 {
        (0..random.below(8)).for_each(|value| map.insert(key, value));
    }
    if random.once_in(3) {
        (1000..1110).for_each(|key| {
            map.remove_all(key);
        });
        if random.once_in(3) {
            map.shrink();
        }
    }
}

/// Checks that every reader finds the values that stay, while other values of their keys and other
/// keys change, and that a reader of a key finds only its values.
///
/// # Panics
/// If a reader misses a value or finds one of another key.
pub fn values_stay_visible<M: MultiMap>(build: impl Fn() -> M) {
    const KEYS: u64 = 24;
    /// Makes the n-th value of a key. The high bits are the key.
    fn value(key: u64, n: u64) -> u64 {
        key << 32 | n
    }
    let map = &build();
    // Keys have no, one, some, or many values that stay.
    let staying = |key: u64| [0, 1, 5, 40, 300][key as usize % 5];
    for key in 0..KEYS {
        (0..staying(key)).for_each(|n| map.insert(key, value(key, n)));
    }
    let writers = 2;
    let running = Running::new(writers);
    together(writers + 2, |thread| {
        let mut random = Random::new(thread as u64);
        if thread >= writers {
            while running.any() {
                let key = random.below(KEYS);
                let found = sorted(map.all(key));
                assert!(found.iter().all(|of| of >> 32 == key), "a value of another key");
                let stayed = found.iter().take_while(|&&of| of & 0xFFFF_FFFF < 1000).count();
                assert_eq!(stayed as u64, staying(key), "of key {key}");
                assert!(map.count(key) as u64 >= staying(key));
                if staying(key) > 0 {
                    let n = random.below(staying(key));
                    assert!(map.contains_pair(key, value(key, n)));
                    assert!(map.get(key).is_some());
                }
            }
            return;
        }
        let _run = running.one();
        for _ in 0..scaled(400) {
            let key = random.below(KEYS);
            let first = 1000 * (thread as u64 + 1);
            let count = random.below(90);
            for n in first..first + count {
                map.insert(key, value(key, n));
            }
            for n in first..first + count {
                assert!(map.remove_one(key, value(key, n)), "somebody else's");
            }
            let other = 1000 + random.below(400) * 2 + thread as u64;
            (0..random.below(40)).for_each(|n| map.insert(other, value(other, n)));
            if random.once_in(2) {
                map.remove_all(other);
            }
        }
    });
    for key in 0..KEYS {
        assert_eq!(map.all(key).len() as u64, staying(key));
    }
    assert_eq!(map.pairs().len(), map.len());
}

/// Checks that of threads that insert the same pairs at once, each pair is inserted by one, and that
/// each key that stays comes once, with all its values, while the map grows.
///
/// # Panics
/// If a pair is inserted twice or not at all, or an iteration leaves a key out or repeats it.
pub fn pairs_are_unique_and_keys_come_once<M: MultiMap>(build: impl Fn() -> M) {
    const STAYING: u64 = 20;
    let map = &build();
    let values = |key: u64| 1 + key * key;
    for key in 0..STAYING {
        (0..values(key)).for_each(|value| assert!(map.insert_unique(key, value)));
    }
    let keys = scaled(3000) as u64;
    let running = Running::new(2);
    let inserted = together(3, |thread| {
        if thread < 2 {
            let _run = running.one();
            // Many pairs of a key, so that a thread often finds it changing.
            let pairs = (0..keys).flat_map(|n| [(1000 + n / 8, n % 8), (1000, n)]);
            return pairs.filter(|&(key, value)| map.insert_unique(key, value)).count();
        }
        loop {
            let is_last = !running.any();
            let (mut with_values, mut with_counts) =
                (map.keys_with_values(), map.keys_with_counts());
            with_values.sort_unstable();
            with_counts.sort_unstable();
            assert!(with_values.is_sorted_by(|one, next| one.0 < next.0), "a key comes twice");
            assert!(with_counts.is_sorted_by(|one, next| one.0 < next.0), "a key comes twice");
            for key in 0..STAYING {
                let (of, found) = &with_values[key as usize];
                assert_eq!((*of, sorted(found.clone())), (key, (0..values(key)).collect()));
                assert_eq!(with_counts[key as usize], (key, values(key) as usize));
            }
            if is_last {
                return 0;
            }
        }
    });
    // Key 1000 gets the same small values twice.
    let distinct = 2 * keys - keys.min(8);
    assert_eq!(inserted.iter().sum::<usize>() as u64, distinct);
    let staying: u64 = (0..STAYING).map(values).sum();
    assert_eq!(map.len() as u64, distinct + staying);
}

/// Checks that a cut that has a pair also has the pairs inserted before it.
///
/// # Panics
/// If a pair is missing.
pub fn cuts_are_consistent<M: MultiMap>(build: impl Fn() -> M) {
    let map = &build();
    let running = Running::new(1);
    together(2, |thread| {
        if thread == 0 {
            let _run = running.one();
            for n in 0..scaled(30_000) as u64 {
                map.insert(n % 7, n);
                map.insert(7 + n % 900, n);
            }
            return;
        }
        while running.any() {
            let cut = map.cut();
            let [first, second] = [true, false]
                .map(|is_first| cut.iter().filter(|(key, _)| (*key < 7) == is_first).count());
            assert!(first == second || first == second + 1, "{first} and {second}");
        }
    });
}

/// Checks that a map that was emptied is as small as a new one.
///
/// # Panics
/// If it is larger, as measured by `size`.
pub fn an_emptied_map_is_small<M: MultiMap>(build: impl Fn() -> M, size: impl Fn(&M) -> usize) {
    let map = build();
    let before = size(&map);
    for _ in 0..2 {
        for n in 0..scaled(60_000) as u64 {
            map.insert(n % 5, n);
            map.insert(10 + n % 3000, n);
            map.insert(5000 + n, n);
        }
        assert!(size(&map) > before);
        let keys: std::collections::BTreeSet<u64> =
            map.pairs().into_iter().map(|(key, _)| key).collect();
        for key in keys {
            if key == 1 {
                for value in map.all(key) {
                    assert!(map.remove_one(key, value));
                }
            } else {
                assert!(map.remove_all(key) > 0);
            }
        }
        assert!(map.is_empty());
        map.shrink();
        assert!(size(&map) <= before, "{} and {before}", size(&map));
    }
}
