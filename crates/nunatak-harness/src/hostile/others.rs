//! Victims that are no `ConcurrentMap`: sets, multimaps, and maps whose keys may be hidden or in
//! namespaces.

use super::hooks::{Event, fire, hashes_were_wrong};
use super::victim::{Victim, belongs, key_of};
use crate::sample::Sample;
use nunatak::alloc::Global;
use nunatak::entry::{Format, Named, VARIABLE};
use nunatak::hash::Hashing;
use nunatak::{
    Compute, DlhtShadowMap, DlhtShadowRecordMap, HashesWith, InlineSet, Namespace, Op, PeaMultiMap,
    RecordMap, Request, Stop, Unshadowed,
};

/// Code that the kinds below share.
macro_rules! common {
    () => {
        fn clear(&self) {
            self.0.clear();
        }

        fn len(&self) -> usize {
            self.0.len()
        }

        fn reserve(&self, additional: usize) {
            let _ = self.0.reserve(additional);
        }

        fn shrink(&self) {
            let _ = self.0.shrink_to_fit();
        }

        fn look(&self) {
            assert!(self.0.memory_usage().mapped > 0);
            let _ = format!("{:?}", self.0.stats());
        }
    };
}

/// A set.
#[derive(Debug)]
pub struct Keys<S: Hashing, D: HashesWith<S> + Unshadowed>(pub InlineSet<u64, S, D>);

impl<S: Hashing, D: HashesWith<S> + Unshadowed> Victim for Keys<S, D> {
    common!();

    fn put(&self, key: u64) {
        self.0.insert(key);
    }

    fn try_put(&self, key: u64) {
        self.0.insert(key);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.0.contains(&key).then_some(key)
    }

    fn remove(&self, key: u64) {
        self.0.remove(&key);
    }

    fn decide(&self, key: u64) {
        self.put(key);
    }

    fn batch(&self, keys: &[u64]) {
        let mut out = vec![None; keys.len()];
        self.0.contains_many(keys, &mut out).expect("room");
        self.0.remove_many(keys, &mut out).expect("room");
        let request = |&key| Op::new(Request::TryInsert(key, ()));
        self.0.execute(&mut keys.iter().map(request).collect::<Vec<_>>(), Stop::AtFirstFailure);
        self.0.insert_many(keys, &mut out).expect("room");
        // Other threads change it meanwhile, so either answer is right.
        std::hint::black_box((self.0.is_subset(&self.0), self.0.is_empty()));
    }

    fn iterate(&self) -> Vec<u64> {
        self.0.iter().collect()
    }

    fn cut(&self) -> Vec<u64> {
        self.0.snapshot().map(Iterator::collect).unwrap_or_default()
    }

    fn retain(&self, keep: &mut dyn FnMut(u64) -> bool) {
        self.0.retain(|&key| (fire(Event::Closure), keep(key)).1);
    }

    fn reclaim(&self, _key: u64) {}
}

/// A map with any number of values a key; here one to three.
#[derive(Debug)]
pub struct Many<S: Hashing>(pub PeaMultiMap<u64, u64, S>);

/// Returns how many values a key gets.
fn values(key: u64) -> u64 {
    1 + key % 3
}

impl<S: Hashing> Many<S> {
    fn keys(pairs: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
        let mut keys: Vec<u64> = pairs.map(key_of).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

impl<S: Hashing> Victim for Many<S> {
    fn put(&self, key: u64) {
        self.0.remove_all(&key);
        (0..values(key)).for_each(|_| self.0.insert(key, key));
    }

    fn try_put(&self, key: u64) {
        if !self.0.contains_key(&key) {
            self.put(key);
        }
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.0.get_all(&key).for_each(|value| belongs(key, value));
        self.0.get(&key)
    }

    fn remove(&self, key: u64) {
        self.0.remove_one(&key, &key);
        self.0.drain(&key).for_each(|value| belongs(key, value));
    }

    fn decide(&self, key: u64) {
        self.put(key);
    }

    fn batch(&self, keys: &[u64]) {
        let mut counts = vec![0; keys.len()];
        self.0.count_many(keys, &mut counts).expect("room");
        self.0.remove_all_many(keys, &mut counts).expect("room");
        self.0.insert_many(&keys.iter().map(|&key| (key, key)).collect::<Vec<_>>());
        keys.iter().for_each(|&key| self.put(key));
    }

    fn iterate(&self) -> Vec<u64> {
        Self::keys(self.0.iter())
    }

    fn cut(&self) -> Vec<u64> {
        self.0.snapshot().map(Self::keys).unwrap_or_default()
    }

    fn retain(&self, keep: &mut dyn FnMut(u64) -> bool) {
        self.0.retain(|key, value| {
            fire(Event::Closure);
            belongs(*key, *value);
            keep(*key)
        });
    }

    fn clear(&self) {
        self.0.clear();
    }

    fn len(&self) -> usize {
        // The map's own count is of values.
        let (values, keys) = (self.0.len(), self.iterate().len());
        assert!(values == 0 || keys > 0 || hashes_were_wrong(), "{values} values of no keys");
        keys
    }

    fn reserve(&self, additional: usize) {
        let _ = self.0.reserve(additional);
    }

    fn shrink(&self) {
        let _ = self.0.shrink_to_fit();
    }

    fn reclaim(&self, _key: u64) {}

    fn look(&self) {
        let _ = format!("{:?} {:?}", self.0.memory_usage(), self.0.stats());
    }
}

/// A map whose inserts may be hidden.
#[derive(Debug)]
pub struct Hidden<S: Hashing>(pub DlhtShadowMap<u64, u64, S>);

impl<S: Hashing> Victim for Hidden<S> {
    common!();

    fn put(&self, key: u64) {
        // Another thread may hide the key.
        let _ = self.0.insert(key, key);
    }

    fn try_put(&self, key: u64) {
        if let Ok(shadow) = self.0.shadow_insert(key) {
            if key.is_multiple_of(2) { shadow.commit(key) } else { shadow.abort() }
        }
        let _ = self.0.try_insert(key, key);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key)
    }

    fn remove(&self, key: u64) {
        self.0.remove(&key);
    }

    fn decide(&self, key: u64) {
        let decides = || fire(Event::Closure);
        let _ = self.0.fetch_update(&key, |&value| (decides(), Some(value)).1);
        let _ = self.0.compute(key, |_| (decides(), Compute::Put(key)).1);
        let _ = self.0.remove_if(&key, |_| (decides(), true).1);
        let _ = self.0.get_or_insert_with(key, || (decides(), key).1);
    }

    fn batch(&self, keys: &[u64]) {
        let mut out = vec![None; keys.len()];
        self.0.get_many(keys, &mut out).expect("room");
        self.0.remove_many(keys, &mut out).expect("room");
        drop(self.0.shadow_insert_many(keys));
        let _ = self.0.insert_many(&keys.iter().map(|&key| (key, key)).collect::<Vec<_>>());
    }

    fn iterate(&self) -> Vec<u64> {
        self.0.iter().map(key_of).collect()
    }

    fn cut(&self) -> Vec<u64> {
        self.0.snapshot().map(|cut| cut.map(key_of).collect()).unwrap_or_default()
    }

    fn retain(&self, keep: &mut dyn FnMut(u64) -> bool) {
        self.0.retain(|&key, _| (fire(Event::Closure), keep(key)).1);
    }

    fn reclaim(&self, _key: u64) {}
}

/// Code that the maps of byte strings share that are no `ConcurrentMap`.
macro_rules! bytes {
    ($key:ident => $given:expr, $found:ident => $own:expr) => {
        common!();

        fn put(&self, $key: u64) {
            let _ = self.0.put($given, &Vec::sample($key));
        }

        fn get(&self, $key: u64) -> Option<u64> {
            self.0.get($given).map(|value| value.number())
        }

        fn remove(&self, $key: u64) {
            self.0.delete($given);
        }

        fn decide(&self, $key: u64) {
            let decides = || fire(Event::Closure);
            let put = || Compute::Put(Vec::sample($key));
            let _ = self.0.remove_if($given, |_| (decides(), true).1);
            let _ = self.0.compute($given, |_| (decides(), put()).1);
        }

        fn iterate(&self) -> Vec<u64> {
            self.0.iter().map(|($found, value)| key_of(($own, value))).collect()
        }

        fn cut(&self) -> Vec<u64> {
            match self.0.snapshot() {
                Ok(cut) => cut.map(|($found, value)| key_of(($own, value))).collect(),
                Err(_) => Vec::new(),
            }
        }

        fn reclaim(&self, $key: u64) {
            let guard = self.0.pin();
            let found = guard.get($given);
            drop(self.0.detach($given));
            self.0.reclaim();
            found.into_iter().for_each(|value| belongs($key, value.to_vec().number()));
            let _ = self.0.put($given, &Vec::sample($key));
        }
    };
}

/// Records that may be hidden.
#[derive(Debug)]
pub struct HiddenRecords<S: Hashing>(pub DlhtShadowRecordMap<Format, Global, S>);

impl<S: Hashing> Victim for HiddenRecords<S> {
    bytes!(key => &Vec::sample(key), found => found);

    fn try_put(&self, key: u64) {
        if let Ok(shadow) = self.0.shadow_insert(&Vec::sample(key), &Vec::sample(key)) {
            if key.is_multiple_of(2) { shadow.commit() } else { shadow.abort() }
        }
        let _ = self.0.try_insert(&Vec::sample(key), &Vec::sample(key));
    }

    fn batch(&self, keys: &[u64]) {
        let keys: Vec<Vec<u8>> = keys.iter().map(|&key| Vec::sample(key)).collect();
        self.0.pin().get_many(&keys, |at, value| {
            value.iter().for_each(|value| belongs(keys[at].number(), value.to_vec().number()));
        });
        self.0.delete_many(&keys);
        let _ = self.0.put_many(&keys.iter().map(|key| (key, key)).collect::<Vec<_>>());
    }

    fn retain(&self, keep: &mut dyn FnMut(u64) -> bool) {
        self.0.retain(|key, _| (fire(Event::Closure), keep(key.to_vec().number())).1);
    }
}

/// Records in namespaces: each key is in one of seven.
#[derive(Debug)]
pub struct NamedRecords<S: Hashing, D: HashesWith<S> + Unshadowed>(
    pub RecordMap<Format<VARIABLE, VARIABLE, Named>, Global, S, D>,
);

fn space(key: u64) -> Namespace {
    Namespace::new((key % 7) as u16).expect("a small number")
}

impl<S: Hashing, D: HashesWith<S> + Unshadowed> Victim for NamedRecords<S, D> {
    bytes!(key => (space(key), &Vec::sample(key)), found => found.1);

    fn try_put(&self, key: u64) {
        let _ = self.0.try_insert((space(key), &Vec::sample(key)), &Vec::sample(key));
    }

    fn batch(&self, keys: &[u64]) {
        let of = |&key: &u64| (space(key), Vec::<u8>::sample(key));
        let keys: Vec<_> = keys.iter().map(of).collect();
        self.0.pin().get_many(&keys, |at, value| {
            value.iter().for_each(|value| belongs(keys[at].1.number(), value.to_vec().number()));
        });
        self.0.delete_many(&keys);
        let entries: Vec<_> = keys.iter().map(|key| (key.clone(), &key.1)).collect();
        let _ = self.0.put_many(&entries);
        self.0.len_of(space(3));
    }

    fn retain(&self, keep: &mut dyn FnMut(u64) -> bool) {
        self.0.retain(|(_, key), _| (fire(Event::Closure), keep(key.to_vec().number())).1);
    }
}
