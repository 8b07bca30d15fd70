//! Level 3: what found no room in either yard, in chains (section 2.4).
//!
//! A chain holds the pairs of one hash, so it is longer than one only if hashes
//! collide. A key's chain does not depend on the table's size, and its items do
//! not move when that changes. Few keys come here (one of a million and a half at
//! 95 % of all slots, four of a thousand with the smallest blocks), but all of a
//! hash that collides, so the chains are found by a hash table, of shards under
//! locks.
//!
//! A key's chain is changed only by who holds the lock of its front block, or
//! settles one of its back blocks, which is before any change to the key. So a
//! holder may read it, decide, and change it. The caller's code never runs under
//! a shard's lock.

use crate::memory::MemoryUsage;
use crate::sync::{AtomicUsize, Mutex, Ordering};
use std::collections::HashMap;

const SHARDS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 64 };

/// Of a hash its pairs: tags and values.
type Shard = HashMap<u64, Vec<(u64, u64)>, foldhash::fast::FixedState>;

#[derive(Debug)]
pub(super) struct Chains {
    shards: Box<[Mutex<Shard>]>,
    len: AtomicUsize,
}

impl Chains {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        Self { shards, len: AtomicUsize::new(0) }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // Of the bits that say the row, which all hashes that collide on purpose
        // or by accident share anyway.
        &self.shards[(hash >> 16) as usize % SHARDS]
    }

    pub(super) fn len(&self) -> usize {
        // Relaxed: a statistic.
        self.len.load(Ordering::Relaxed)
    }

    /// The values of a tag.
    pub(super) fn of(&self, hash: u64, tag: u64) -> Vec<u64> {
        let shard = self.shard(hash).lock();
        let chain = shard.get(&hash).into_iter().flatten();
        chain.filter(|pair| pair.0 == tag).map(|pair| pair.1).collect()
    }

    pub(super) fn push(&self, hash: u64, pair: (u64, u64)) {
        self.shard(hash).lock().entry(hash).or_default().push(pair);
        self.len.fetch_add(1, Ordering::Relaxed);
    }

    /// Replaces the value of a pair that is there.
    pub(super) fn replace(&self, hash: u64, current: (u64, u64), new: u64) {
        let mut shard = self.shard(hash).lock();
        let Some(chain) = shard.get_mut(&hash) else { return };
        if let Some(pair) = chain.iter_mut().find(|pair| **pair == current) {
            pair.1 = new;
        }
    }

    /// Takes out a pair that is there.
    pub(super) fn remove(&self, hash: u64, pair: (u64, u64)) {
        let mut shard = self.shard(hash).lock();
        let Some(chain) = shard.get_mut(&hash) else { return };
        let Some(at) = chain.iter().position(|&other| other == pair) else { return };
        chain.swap_remove(at);
        if chain.is_empty() {
            shard.remove(&hash);
            // A table that held many does not stay large.
            if shard.len() * 8 < shard.capacity() {
                shard.shrink_to_fit();
            }
        }
        self.len.fetch_sub(1, Ordering::Relaxed);
    }

    /// Hashes and pairs of all items.
    pub(super) fn all(&self) -> Vec<(u64, (u64, u64))> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            all.extend(
                shard.iter().flat_map(|(&hash, chain)| chain.iter().map(move |&p| (hash, p))),
            );
        }
        all
    }

    /// About how many bytes the chains take.
    pub(super) fn usage(&self) -> MemoryUsage {
        let bytes = |shard: &Mutex<Shard>| {
            let shard = shard.lock();
            shard.capacity() * (size_of::<(u64, Vec<u64>)>() + 1)
                + shard.values().map(|chain| chain.capacity() * 16).sum::<usize>()
        };
        let bytes = self.shards.iter().map(bytes).sum();
        MemoryUsage { mapped: bytes, resident: bytes }
    }

    pub(super) fn longest(&self) -> usize {
        let longest = |shard: &Mutex<Shard>| shard.lock().values().map(Vec::len).max().unwrap_or(0);
        self.shards.iter().map(longest).max().unwrap_or(0)
    }
}
