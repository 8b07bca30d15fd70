//! One interface for all kinds of maps, so that checks need no types.

use super::hooks::{Event, Witness, fire, hashes_were_wrong};
use crate::sample::Sample;
use nunatak::entry::{Entries, Plain};
use nunatak::{
    BoxedMap, ByteMap, Compute, ConcurrentMap, Design, HashesWith, InlineMap, Op, Request, Stop,
    Unshadowed,
};
use std::cell::Cell;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// A map under attack. Keys are numbers, and each key's value is its number, so that another key's
/// value is noticed. Errors for lack of memory or room are ignored.
///
/// ```
/// use nunatak_harness::hostile::victim::{Single, Victim, works};
/// let map: nunatak::DlhtMap<u64, u64> = nunatak::DlhtMap::new();
/// let map = Single::<u64, u64, _>::new(map);
/// map.batch(&[1, 2]);
/// assert_eq!(map.len(), 2);
/// works(&map, 0);
/// ```
pub trait Victim {
    /// Stores the key, whether it is present or not.
    fn put(&self, key: u64);
    /// Stores the key if it is absent.
    fn try_put(&self, key: u64);
    /// Returns the key's value.
    fn get(&self, key: u64) -> Option<u64>;
    /// Removes the key.
    fn remove(&self, key: u64);
    /// Runs every operation that takes a closure; each call of it is an event. In the end the key
    /// is present.
    fn decide(&self, key: u64);
    /// Runs every kind of batch. In the end all keys are present.
    fn batch(&self, keys: &[u64]);
    /// Returns all keys.
    fn iterate(&self) -> Vec<u64>;
    /// Returns all keys of a snapshot.
    fn cut(&self) -> Vec<u64>;
    /// Removes the keys for which `keep` is false.
    fn retain(&self, keep: &mut dyn FnMut(u64) -> bool);
    /// Removes all keys.
    fn clear(&self);
    /// Returns how many keys there are.
    fn len(&self) -> usize;
    /// Whether there are no keys.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Makes room for so many more keys.
    fn reserve(&self, additional: usize);
    /// Gives memory back.
    fn shrink(&self);
    /// Frees entries that wait, and reads the key under a guard, where there are guards.
    fn reclaim(&self, key: u64);
    /// Reads the map's statistics.
    fn look(&self);
}

/// A victim of many threads.
pub type Shared = Arc<dyn Victim + Send + Sync>;

/// A victim of one thread.
pub type Local = Rc<dyn Victim>;

/// A victim that hooks can share.
pub trait Handle: Clone + 'static {
    /// Returns the victim.
    fn victim(&self) -> &dyn Victim;
}

impl Handle for Shared {
    fn victim(&self) -> &dyn Victim {
        &**self
    }
}

impl Handle for Local {
    fn victim(&self) -> &dyn Victim {
        &**self
    }
}

/// A key or a value of a victim.
pub trait Part: Clone + Eq + Debug + 'static {
    /// Makes the part of this number.
    fn part(number: u64) -> Self;
    /// Returns its number.
    fn of(&self) -> u64;
}

macro_rules! sampled_parts {
    ($($part:ty),*) => {$(
        impl Part for $part {
            fn part(number: u64) -> Self {
                Self::sample(number)
            }

            fn of(&self) -> u64 {
                self.number()
            }
        }
    )*};
}

sampled_parts!(u32, u64, Vec<u8>);

impl Part for Witness {
    fn part(number: u64) -> Self {
        Self::new(number)
    }

    fn of(&self) -> u64 {
        self.number()
    }
}

/// Without synchronization, so that a map that shares it between threads is wrong.
impl Part for Rc<Witness> {
    fn part(number: u64) -> Self {
        Self::new(Witness::new(number))
    }

    fn of(&self) -> u64 {
        self.number()
    }
}

/// Further operations of some maps.
pub trait Besides<K> {
    /// See [`Victim::reclaim`].
    fn reclaim(&self, _key: &K) {}
}

impl<V, S: nunatak::hash::Hashing, D: HashesWith<S> + Unshadowed, K> Besides<K>
    for InlineMap<K, V, S, D>
{
}

impl<K: Hash + Eq + Part, V: Part, S: BuildHasher, D: Design> Besides<K> for BoxedMap<K, V, S, D> {
    fn reclaim(&self, key: &K) {
        let guard = self.pin();
        let found = guard.get_key_value(key);
        let removed = self.remove_entry(key);
        BoxedMap::reclaim(self);
        if let Some((found, value)) = found {
            assert_eq!((found.of(), value.of()), (key.of(), key.of()));
        }
        drop(removed.map(nunatak::Removed::into_owned));
        drop(guard);
        BoxedMap::reclaim(self);
        drop(self.put(key.clone(), V::part(key.of())));
    }
}

impl<E: Entries<Naming = Plain>, D: Design> Besides<Vec<u8>> for ByteMap<E, D> {
    fn reclaim(&self, key: &Vec<u8>) {
        let guard = self.pin();
        let found = guard.get(key);
        drop(self.detach(key));
        ByteMap::reclaim(self);
        if let Some(value) = found {
            belongs(key.number(), E::copy(value).number());
        }
        drop(guard);
        ByteMap::reclaim(self);
        let _ = self.put(key, &Vec::sample(key.number()));
    }
}

/// A map with one value a key.
#[derive(Debug)]
pub struct Single<K, V, M> {
    map: M,
    parts: PhantomData<fn() -> (K, V)>,
}

impl<K, V, M> Single<K, V, M> {
    /// Makes a victim of this map.
    pub fn new(map: M) -> Self {
        Self { map, parts: PhantomData }
    }
}

/// Returns the key, and checks that the value is the key's.
pub(super) fn key_of<K: Part, V: Part>((key, value): (K, V)) -> u64 {
    belongs(key.of(), value.of());
    key.of()
}

/// Checks that a value is its key's, unless hashes were wrong. It is a stored value in any case.
pub(super) fn belongs(key: u64, value: u64) {
    assert!(key == value || hashes_were_wrong(), "{value} is a value of another key than {key}");
}

impl<K: Part, V: Part, M: ConcurrentMap<K, V> + Besides<K>> Victim for Single<K, V, M> {
    fn put(&self, key: u64) {
        drop(self.map.insert(K::part(key), V::part(key)));
    }

    fn try_put(&self, key: u64) {
        drop(self.map.try_insert(K::part(key), V::part(key)));
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.map.get(&K::part(key)).map(|value| value.of())
    }

    fn remove(&self, key: u64) {
        drop(self.map.remove(&K::part(key)));
    }

    fn decide(&self, number: u64) {
        let (key, value) = (K::part(number), V::part(number));
        let decides = || fire(Event::Closure);
        drop(self.map.fetch_update(&key, |value| (decides(), Some(value.clone())).1));
        drop(self.map.remove_if(&key, |found| (decides(), *found == value).1));
        self.map.compute(key.clone(), |found| {
            decides();
            if found.is_some() { Compute::Remove } else { Compute::Put(value.clone()) }
        });
        drop(self.map.compare_exchange(&key, &value, V::part(number)));
        drop(self.map.update(&key, V::part(number)));
        drop(self.map.get_or_insert_with(key.clone(), || (decides(), V::part(number)).1));
        drop(self.map.insert(key, value));
    }

    fn batch(&self, keys: &[u64]) {
        let entries: Vec<(K, V)> = keys.iter().map(|&key| (K::part(key), V::part(key))).collect();
        let keys: Vec<K> = entries.iter().map(|(key, _)| key.clone()).collect();
        let mut out = vec![None; keys.len()];
        let room = "room for all";
        self.map.get_many(&keys, &mut out).expect(room);
        for (key, value) in keys.iter().zip(&out) {
            value.iter().for_each(|value| belongs(key.of(), value.of()));
        }
        self.map.remove_many(&keys, &mut out).expect(room);
        let mut batch: Vec<_> = entries
            .iter()
            .cloned()
            .enumerate()
            .map(|(at, (key, value))| match at % 4 {
                0 => Request::TryInsert(key, value),
                1 => Request::Get(key),
                2 => Request::Update(key, value),
                _ => Request::Remove(key),
            })
            .map(Op::new)
            .collect();
        self.map.execute(&mut batch, Stop::Never);
        self.map.insert_many(&entries, &mut out).expect(room);
    }

    fn iterate(&self) -> Vec<u64> {
        self.map.iter().map(key_of).collect()
    }

    fn cut(&self) -> Vec<u64> {
        self.map.snapshot().map(|cut| cut.map(key_of).collect()).unwrap_or_default()
    }

    fn retain(&self, keep: &mut dyn FnMut(u64) -> bool) {
        self.map.retain(|key, value| {
            fire(Event::Closure);
            belongs(key.of(), value.of());
            keep(key.of())
        });
    }

    fn clear(&self) {
        self.map.clear();
    }

    fn len(&self) -> usize {
        self.map.len()
    }

    fn reserve(&self, additional: usize) {
        let _ = self.map.reserve(additional);
    }

    fn shrink(&self) {
        let _ = self.map.shrink_to_fit();
    }

    fn reclaim(&self, key: u64) {
        self.map.reclaim(&K::part(key));
    }

    fn look(&self) {
        let (load, usage) = (self.map.load_factor(), self.map.memory_usage());
        assert!(load >= 0.0 && usage.mapped > 0, "{load}, {usage:?}");
        let _ = format!("{:?}", self.map.stats());
    }
}

/// Checks that new keys can be inserted, found, and removed.
///
/// # Panics
/// If the map fails the check.
pub fn works(map: &dyn Victim, seed: u64) {
    let first = (1 << 20) + (seed % 1024) * 1024;
    let keys = first..first + 400;
    let own = |found: Vec<u64>| {
        let mut own: Vec<u64> = found.into_iter().filter(|key| keys.contains(key)).collect();
        own.sort_unstable();
        own
    };
    keys.clone().for_each(|key| map.put(key));
    keys.clone().for_each(|key| assert_eq!(map.get(key), Some(key)));
    assert!(own(map.iterate()).into_iter().eq(keys.clone()), "an iterator misses or repeats");
    assert!(own(map.cut()).into_iter().eq(keys.clone()), "a snapshot misses or repeats");
    map.batch(&keys.clone().collect::<Vec<_>>());
    keys.clone().for_each(|key| map.decide(key));
    map.reserve(100);
    map.shrink();
    map.reclaim(first);
    map.look();
    keys.clone().for_each(|key| assert_eq!(map.get(key), Some(key), "after it shrank"));
    map.retain(&mut |key| !keys.contains(&key) || key.is_multiple_of(2));
    keys.clone().for_each(|key| assert_eq!(map.get(key).is_some(), key % 2 == 0));
    keys.clone().for_each(|key| map.remove(key));
    keys.clone().for_each(|key| assert_eq!(map.get(key), None));
}

/// A victim's count of calls, for hooks that act now and then.
#[derive(Debug, Default, Clone)]
pub struct Count(Rc<Cell<u64>>);

impl Count {
    /// Counts one call, and returns the count before.
    ///
    /// ```
    /// use nunatak_harness::hostile::victim::Count;
    /// let count = Count::default();
    /// assert_eq!((count.next(), count.clone().next()), (0, 1));
    /// ```
    pub fn next(&self) -> u64 {
        self.0.replace(self.0.get() + 1)
    }

    /// Resets the count to zero.
    pub fn reset(&self) {
        self.0.set(0);
    }
}
