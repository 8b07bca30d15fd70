//! The map that many programs write themselves: a power of two of hash tables, each behind a
//! reader-writer lock on cache lines of its own.

use super::{Hasher, MapName, Target, WordTarget};
use hashbrown::HashMap;
use parking_lot::RwLock;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, Ordering};

const SHARD_BITS: u32 = 8;

/// Aligned to 128 bytes, since x86-64 fetches lines in pairs.
#[repr(align(128))]
struct Shard<K, V>(RwLock<HashMap<K, V, Hasher>>);

pub(crate) struct Shards<K, V> {
    hasher: Hasher,
    shards: Box<[Shard<K, V>]>,
}

impl<K, V> Shards<K, V> {
    pub(crate) fn with_capacity(items: usize) -> Self {
        let hasher = Hasher::default();
        // The shards are not equally full. Each gets room for a sixteenth more, and a constant that
        // matters for small shards.
        let each = match items >> SHARD_BITS {
            0 => 0,
            mean => mean + mean / 16 + 16,
        };
        let table = || HashMap::with_capacity_and_hasher(each, hasher.clone());
        let shards = (0..1 << SHARD_BITS).map(|_| Shard(RwLock::new(table()))).collect();
        Self { hasher, shards }
    }

    /// The table uses the lowest bits of the hash and the highest seven; the shard number uses bits
    /// in between.
    #[inline]
    pub(crate) fn of<Q: Hash + ?Sized>(&self, key: &Q) -> &RwLock<HashMap<K, V, Hasher>> {
        let hash = self.hasher.hash_one(key);
        let number = (hash >> (57 - SHARD_BITS)) as usize & (self.shards.len() - 1);
        &self.shards[number].0
    }
}

pub(crate) struct Sharded(Shards<u64, u64>);

impl Target for Sharded {
    fn with_capacity(_: MapName, items: usize) -> Self {
        Self(Shards::with_capacity(items))
    }

    fn empty(name: MapName) -> Self {
        Self::with_capacity(name, 0)
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.of(&key).read().get(&key).copied()
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> Option<u64> {
        self.0.of(&key).write().insert(key, value)
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.modify(key, |_| value)
    }

    #[inline]
    fn modify(&self, key: u64, change: impl Fn(u64) -> u64) -> bool {
        let mut shard = self.0.of(&key).write();
        let entry = shard.get_mut(&key);
        entry.map(|value| *value = change(*value)).is_some()
    }

    #[inline]
    fn remove(&self, key: u64) -> Option<u64> {
        self.0.of(&key).write().remove(&key)
    }
}

pub(crate) struct ShardedWords(Shards<Box<str>, AtomicU64>);

impl WordTarget for ShardedWords {
    fn empty() -> Self {
        Self(Shards::with_capacity(0))
    }

    #[inline]
    fn count(&self, word: &str) {
        let shard = self.0.of(word);
        if let Some(count) = shard.read().get(word) {
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut shard = shard.write();
        let count = shard.entry(word.into()).or_default();
        *count.get_mut() += 1;
    }

    fn for_each(&self, mut visit: impl FnMut(&str, u64)) {
        for shard in &self.0.shards {
            for (word, count) in &*shard.0.read() {
                visit(word, count.load(Ordering::Relaxed));
            }
        }
    }
}
