//! Level 3: what found no room in either yard (section 2.4).
//!
//! A key's place here does not depend on the table's size, so that items do not
//! move when that changes. Few keys come here when a table is filled (one of a
//! million and a half at 95 % of all slots, four of a thousand with the smallest
//! blocks), but one of a hundred and fifty when keys come and go at the load at which
//! the table grows, and all keys of hashes that collide. So they are in hash tables,
//! of shards under locks, 33 bytes a place.
//!
//! Of a durable table, items are in [slots](slots::Slots) besides, and in the
//! hash tables after that: what is found is durable.
//!
//! The chains of a key are changed only by who holds the lock of its front block, or
//! settles one of its back blocks, which is before any change to the key. So a
//! holder may read them, decide, and change them. The caller's code never runs under
//! a shard's lock.

mod slots;

use crate::error::Error;
use crate::memory::{Medium, MemoryUsage};
use crate::sync::{AtomicUsize, Mutex, Ordering};
use hashbrown::HashTable;
use slots::{NoRoom, Slots};

const SHARDS: usize = if cfg!(modelled) { 1 } else { 64 };

#[derive(Debug, Clone, Copy)]
struct Item {
    hash: u64,
    /// Tag and value.
    pair: (u64, u64),
    /// Its slot in a durable table.
    slot: u32,
}

type Shard = HashTable<Item>;

fn hash_of(item: &Item) -> u64 {
    item.hash
}

#[derive(Debug)]
pub(in crate::table) struct Chains<M: Medium> {
    shards: Box<[Mutex<Shard>]>,
    len: AtomicUsize,
    slots: Slots<M>,
}

impl<M: Medium> Chains<M> {
    pub(in crate::table) fn new(medium: &M) -> Result<Self, Error> {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::new())).collect();
        Ok(Self { shards, len: AtomicUsize::new(0), slots: Slots::new(medium)? })
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // By bits that say the row: those that a shard goes by are others.
        &self.shards[(hash >> 16) as usize % SHARDS]
    }

    pub(in crate::table) fn len(&self) -> usize {
        // Relaxed: a statistic.
        self.len.load(Ordering::Relaxed)
    }

    /// Where the items of a durable table are.
    pub(in crate::table) fn slots(&self) -> &Slots<M> {
        &self.slots
    }

    /// The values of a tag.
    pub(in crate::table) fn of(&self, hash: u64, tag: u64) -> Vec<u64> {
        let shard = self.shard(hash).lock();
        let candidates = shard.iter_hash(hash);
        let is_of_tag = |item: &&Item| item.hash == hash && item.pair.0 == tag;
        candidates.filter(is_of_tag).map(|item| item.pair.1).collect()
    }

    pub(in crate::table) fn push(&self, hash: u64, pair: (u64, u64)) -> Result<(), NoRoom> {
        let slot = self.slots.put((hash >> 63) as usize, pair)?;
        self.insert(Item { hash, pair, slot });
        Ok(())
    }

    /// Learns of what is in slots already. `accept` is asked of each item by its half of the hashes
    /// and its words, and tells as what it is filed; `refuse` hears of the other slots.
    #[cfg(durable)]
    pub(in crate::table) fn restore(
        &self,
        mut accept: impl FnMut(usize, (u64, u64)) -> Option<(u64, (u64, u64))>,
        mut refuse: impl FnMut(usize),
    ) {
        for slot in (0..self.slots.len()).rev() {
            let words = self.slots.pair(slot);
            if words.0 == 0 {
                self.slots.add_free(slot);
                continue;
            }
            match accept(slot % 2, words) {
                Some((hash, pair)) => self.insert(Item { hash, pair, slot: slot as u32 }),
                None => refuse(slot),
            }
        }
    }

    /// As [`restore`](Self::restore), and empties the other slots; how many those were.
    #[cfg(durable)]
    pub(in crate::table) fn restore_or_drop(
        &self,
        accept: impl FnMut(usize, (u64, u64)) -> Option<(u64, (u64, u64))>,
    ) -> usize {
        let mut dropped = 0;
        self.restore(accept, |slot| {
            dropped += 1;
            // There is room: it was looked for when the table was made or opened.
            let _ = self.slots.clear(slot as u32);
        });
        dropped
    }

    fn insert(&self, item: Item) {
        self.shard(item.hash).lock().insert_unique(item.hash, item, hash_of);
        self.len.fetch_add(1, Ordering::Relaxed);
    }

    /// Replaces the value of a pair that is there.
    pub(in crate::table) fn replace(
        &self,
        hash: u64,
        current: (u64, u64),
        new: u64,
    ) -> Result<(), NoRoom> {
        let mut shard = self.shard(hash).lock();
        let is_it = |item: &Item| item.hash == hash && item.pair == current;
        if let Some(item) = shard.find_mut(hash, is_it) {
            self.slots.replace(item.slot, new)?;
            item.pair.1 = new;
        }
        Ok(())
    }

    /// The slot of a pair that is there.
    pub(in crate::table) fn slot_of(&self, hash: u64, pair: (u64, u64)) -> Option<u32> {
        let shard = self.shard(hash).lock();
        shard.find(hash, |item| item.hash == hash && item.pair == pair).map(|item| item.slot)
    }

    /// Files a pair as another, which its slot has become already.
    pub(in crate::table) fn refile(&self, from: (u64, (u64, u64)), to: (u64, (u64, u64))) {
        let mut shard = self.shard(from.0).lock();
        let is_it = |item: &Item| item.hash == from.0 && item.pair == from.1;
        let Ok(entry) = shard.find_entry(from.0, is_it) else { return };
        let slot = entry.remove().0.slot;
        drop(shard);
        self.len.fetch_sub(1, Ordering::Relaxed);
        self.insert(Item { hash: to.0, pair: to.1, slot });
    }

    /// Takes out a pair that is there.
    pub(in crate::table) fn remove(&self, hash: u64, pair: (u64, u64)) -> Result<(), NoRoom> {
        self.take_out(hash, pair, |slot| self.slots.clear(slot))
    }

    /// Forgets a pair of a durable table whose slot was emptied already.
    pub(in crate::table) fn forget(&self, hash: u64, pair: (u64, u64)) {
        // Nothing is refused: nothing is stored.
        let _ = self.take_out(hash, pair, |slot| {
            self.slots.add_free(slot as usize);
            Ok(())
        });
    }

    fn take_out(
        &self,
        hash: u64,
        pair: (u64, u64),
        clear: impl FnOnce(u32) -> Result<(), NoRoom>,
    ) -> Result<(), NoRoom> {
        let mut shard = self.shard(hash).lock();
        let is_it = |item: &Item| item.hash == hash && item.pair == pair;
        let Ok(entry) = shard.find_entry(hash, is_it) else { return Ok(()) };
        clear(entry.get().slot)?;
        entry.remove();
        // A shard that held many does not stay large.
        if shard.len() * 8 < shard.capacity() {
            shard.shrink_to_fit(hash_of);
        }
        self.len.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Hashes and pairs of all items.
    pub(in crate::table) fn all(&self) -> Vec<(u64, (u64, u64))> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(shard.lock().iter().map(|item| (item.hash, item.pair)));
        }
        all
    }

    pub(in crate::table) fn usage(&self) -> MemoryUsage {
        let bytes = self.shards.iter().map(|shard| shard.lock().allocation_size()).sum();
        MemoryUsage { mapped: bytes, resident: bytes } + self.slots.usage()
    }

    /// The most items that share a hash.
    pub(in crate::table) fn longest(&self) -> usize {
        let longest = |shard: &Mutex<Shard>| {
            let mut hashes: Vec<u64> = shard.lock().iter().map(hash_of).collect();
            hashes.sort_unstable();
            hashes.chunk_by(|a, b| a == b).map(<[u64]>::len).max().unwrap_or(0)
        };
        self.shards.iter().map(longest).max().unwrap_or(0)
    }
}
