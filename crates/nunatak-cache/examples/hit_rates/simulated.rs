//! Algorithms without a cache around them.

use crate::Asked;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Evicts the key that was used least recently.
pub(crate) struct Lru {
    capacity: usize,
    time: u64,
    used: HashMap<u64, u64>,
    by_time: BTreeMap<u64, u64>,
}

impl Lru {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, time: 0, used: HashMap::new(), by_time: BTreeMap::new() }
    }
}

impl Asked for Lru {
    fn ask(&mut self, key: u64) -> bool {
        self.time += 1;
        let before = self.used.insert(key, self.time);
        self.by_time.insert(self.time, key);
        match before {
            Some(time) => drop(self.by_time.remove(&time)),
            None if self.used.len() > self.capacity => {
                let (_, oldest) = self.by_time.pop_first().expect("the cache is full");
                self.used.remove(&oldest);
            }
            None => {}
        }
        before.is_some()
    }
}

/// SIEVE (Zhang et al., NSDI '24): a hand moves from old to new keys, and evicts the first one that
/// was not used since it passed. Keys stay where they are.
pub(crate) struct Sieve {
    capacity: usize,
    time: u64,
    /// When the key was inserted, and whether it was used since.
    keys: HashMap<u64, (u64, bool)>,
    by_age: BTreeMap<u64, u64>,
    hand: u64,
}

impl Sieve {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, time: 0, keys: HashMap::new(), by_age: BTreeMap::new(), hand: 0 }
    }

    fn evict(&mut self) {
        loop {
            let next = self.by_age.range(self.hand..).next().or_else(|| self.by_age.iter().next());
            let (&inserted, &key) = next.expect("the cache is full");
            self.hand = inserted + 1;
            let (_, used) = self.keys.get_mut(&key).expect("both have the key");
            if !core::mem::take(used) {
                self.keys.remove(&key);
                self.by_age.remove(&inserted);
                return;
            }
        }
    }
}

impl Asked for Sieve {
    fn ask(&mut self, key: u64) -> bool {
        if let Some((_, used)) = self.keys.get_mut(&key) {
            *used = true;
            return true;
        }
        if self.keys.len() >= self.capacity {
            self.evict();
        }
        self.time += 1;
        self.keys.insert(key, (self.time, false));
        self.by_age.insert(self.time, key);
        false
    }
}

/// Returns the best hit rate that any cache can have: it evicts the key that is needed last, or does
/// not store a key that is needed later than all others.
pub(crate) fn belady(trace: &[u64], capacity: usize) -> f64 {
    let mut next = vec![usize::MAX; trace.len()];
    let mut seen = HashMap::new();
    for (at, key) in trace.iter().enumerate().rev() {
        next[at] = seen.insert(*key, at).unwrap_or(usize::MAX - *key as usize);
    }
    // The stored keys are told apart by when they are needed next. (Of keys that are never needed
    // again, each has a moment of its own.)
    let mut needed = BTreeSet::new();
    let mut hits = 0;
    for (at, next) in next.into_iter().enumerate() {
        hits += usize::from(needed.remove(&at));
        needed.insert(next);
        if needed.len() > capacity {
            needed.pop_last();
        }
    }
    hits as f64 / trace.len() as f64
}
