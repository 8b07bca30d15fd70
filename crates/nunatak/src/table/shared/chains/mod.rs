//! Chains: the place of keys that find no room elsewhere, such as IcebergHT's level 3 (section
//! 2.4).
//!
//! A key's place here does not depend on the table's size, so items do not move in a resize. Few
//! keys come here: one of a hundred and fifty when keys come and go at the highest load, and keys
//! of colliding hashes. So the items are in hash tables, in shards under locks, with 33 bytes a
//! place.
//!
//! In a durable table, items are also in [slots](slots::Slots). They enter the hash tables after
//! that, so an item that a lookup finds is durable.
//!
//! In IcebergHT, only the holder of a key's front lock changes the key's chains, or a thread that
//! settles one of its back blocks before any change to the key. So the holder may read the chains,
//! decide, and change them. The caller's code never runs under a shard's lock.

mod slots;

use crate::error::Error;
use crate::memory::{Medium, MemoryUsage};
use crate::sync::{AtomicUsize, Mutex, Ordering};
use hashbrown::HashTable;
pub(in crate::table) use slots::Prepared;
use slots::{NoRoom, Slots};

const SHARDS: usize = if cfg!(modelled) { 1 } else { 64 };

#[derive(Debug, Clone, Copy)]
struct Item {
    hash: u64,
    /// Tag and value.
    pair: (u64, u64),
    /// The item's slot in a durable table.
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
        // The shard comes from bits of the row; the shard's hash table uses other bits.
        &self.shards[(hash >> 16) as usize % SHARDS]
    }

    pub(in crate::table) fn len(&self) -> usize {
        // Relaxed: a statistic.
        self.len.load(Ordering::Relaxed)
    }

    pub(in crate::table) fn slots(&self) -> &Slots<M> {
        &self.slots
    }

    /// Returns the values of a tag.
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

    /// The same for a pair that an operation moves, for which it has taken slots.
    pub(in crate::table) fn push_prepared(
        &self,
        hash: u64,
        pair: (u64, u64),
        prepared: &mut Prepared<'_, M>,
    ) -> Result<(), NoRoom> {
        let slot = prepared.put((hash >> 63) as usize, pair)?;
        self.insert(Item { hash, pair, slot });
        Ok(())
    }

    /// Takes slots for pairs with these hashes: see [`Slots::prepare`].
    pub(in crate::table) fn prepare(
        &self,
        hashes: impl Iterator<Item = u64>,
    ) -> Option<Prepared<'_, M>> {
        self.slots.prepare(hashes.map(|hash| (hash >> 63) as usize))
    }

    /// Files the items that the slots hold already. `accept` gets the slot and the words of each
    /// item, and returns the hash and the pair to file. `refuse` gets the slots that `accept` has
    /// refused.
    #[cfg(durable)]
    pub(in crate::table) fn restore(
        &self,
        mut accept: impl FnMut(usize, (u64, u64)) -> Option<(u64, (u64, u64))>,
        mut refuse: impl FnMut(usize),
    ) {
        let mut free = Vec::new();
        for slot in (0..self.slots.len()).rev() {
            let words = self.slots.pair(slot);
            if words.0 == 0 {
                free.push(slot);
                continue;
            }
            match accept(slot, words) {
                Some((hash, pair)) => self.insert(Item { hash, pair, slot: slot as u32 }),
                None => refuse(slot),
            }
        }
        self.slots.add_all_free(free.into_iter());
    }

    /// Restores like [`restore`](Self::restore), and empties the refused slots. Returns how many
    /// there were.
    #[cfg(durable)]
    pub(in crate::table) fn restore_or_drop(
        &self,
        accept: impl FnMut(usize, (u64, u64)) -> Option<(u64, (u64, u64))>,
    ) -> usize {
        let mut dropped = 0;
        self.restore(accept, |slot| {
            dropped += 1;
            // This does not fail: room was reserved when the table was made or opened.
            let _ = self.slots.clear(slot as u32);
        });
        dropped
    }

    fn insert(&self, item: Item) {
        self.shard(item.hash).lock().insert_unique(item.hash, item, hash_of);
        self.len.fetch_add(1, Ordering::Relaxed);
    }

    /// Replaces the value of a present pair.
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

    /// Returns the slot of a present pair.
    pub(in crate::table) fn slot_of(&self, hash: u64, pair: (u64, u64)) -> Option<u32> {
        let shard = self.shard(hash).lock();
        shard.find(hash, |item| item.hash == hash && item.pair == pair).map(|item| item.slot)
    }

    /// Files a pair as another pair, which its slot holds already.
    pub(in crate::table) fn refile(&self, from: (u64, (u64, u64)), to: (u64, (u64, u64))) {
        let mut shard = self.shard(from.0).lock();
        let is_it = |item: &Item| item.hash == from.0 && item.pair == from.1;
        let Ok(entry) = shard.find_entry(from.0, is_it) else { return };
        let slot = entry.remove().0.slot;
        drop(shard);
        self.len.fetch_sub(1, Ordering::Relaxed);
        self.insert(Item { hash: to.0, pair: to.1, slot });
    }

    /// Removes a present pair.
    pub(in crate::table) fn remove(&self, hash: u64, pair: (u64, u64)) -> Result<(), NoRoom> {
        self.take_out(hash, pair, |slot| self.slots.clear(slot))
    }

    /// Forgets a pair of a durable table whose slot was emptied already.
    pub(in crate::table) fn forget(&self, hash: u64, pair: (u64, u64)) {
        // This does not fail: the closure stores nothing.
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
        // A shard that held many items gives their memory back.
        if shard.len() * 8 < shard.capacity() {
            shard.shrink_to_fit(hash_of);
        }
        self.len.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Returns hashes and pairs of all items.
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

    /// Returns the highest number of items that share a hash.
    pub(in crate::table) fn longest(&self) -> usize {
        let longest = |shard: &Mutex<Shard>| {
            let mut hashes: Vec<u64> = shard.lock().iter().map(hash_of).collect();
            hashes.sort_unstable();
            hashes.chunk_by(|a, b| a == b).map(<[u64]>::len).max().unwrap_or(0)
        };
        self.shards.iter().map(longest).max().unwrap_or(0)
    }
}
