//! Entries that were unlinked, until no guard can see them.
//!
//! A thread adds its entries to a shard, and writes to nothing else that other threads use. Every
//! 128th entry of a shard, or a heavy one, makes the thread tag the shard's new entries with the
//! epoch, look at all guards once, and free what none can see. So the line of the epoch, which every
//! guard reads, is written once for many entries.
//!
//! Invariants
//! 1. A tag is made by a read-modify-write of the epoch, after all entries that get it were unlinked:
//!    they came to the shard before, under its lock. So a thread that ends the tag's epoch, or begins
//!    in a later one, sees the unlinkings, and the tag is not before the epoch of a guard that saw
//!    one of the entries. (Invariant 4 of the [registry](super::Registry) asks for this.)
//! 2. The tags of a shard ascend: each is made under the lock. So a look ends at the first tag that
//!    is held, and entries that a guard holds back are not looked at again and again.

use super::registry::{EPOCH, Registry};
use super::{Mutex, Ordering, thread_index};
use crate::seeded::{Bug, seeded};
use core::mem;
use std::collections::VecDeque;
use std::sync::OnceLock;

/// Several, so that threads seldom wait for each other to retire.
const SHARDS: usize = if cfg!(modelled) { 1 } else { 8 };

/// Entries that were tagged together.
#[derive(Debug)]
struct Batch<T> {
    tag: u64,
    weight: usize,
    items: Vec<T>,
}

#[derive(Debug)]
struct Waiting<T> {
    /// Entries without a tag.
    fresh: Vec<T>,
    fresh_weight: usize,
    /// Oldest first.
    tagged: VecDeque<Batch<T>>,
    /// Of fresh and tagged entries.
    weight: usize,
    /// The weight that makes a thread look.
    look_at: usize,
}

impl<T> Waiting<T> {
    fn new() -> Self {
        let (fresh, tagged) = (Vec::new(), VecDeque::new());
        Self { fresh, fresh_weight: 0, tagged, weight: 0, look_at: Limbo::<T>::LOOK_AT_WEIGHT }
    }

    fn len(&self) -> usize {
        self.fresh.len() + self.tagged.iter().map(|batch| batch.items.len()).sum::<usize>()
    }

    /// Tags the fresh entries, and returns whether any entry waits.
    fn tag(&mut self, registry: &Registry) -> bool {
        if !self.fresh.is_empty() {
            // Not a load: a read-modify-write has a place in the order of the epochs. It releases the
            // unlinkings to who ends this epoch or reads a later one (invariant 1).
            let tag = if seeded(Bug::TagByLoad) {
                registry.epoch.load(Ordering::Relaxed)
            } else {
                registry.epoch.fetch_add(0, Ordering::AcqRel)
            };
            let next = Vec::with_capacity(self.fresh.len());
            let items = mem::replace(&mut self.fresh, next);
            self.tagged.push_back(Batch { tag, weight: mem::take(&mut self.fresh_weight), items });
        }
        !self.tagged.is_empty()
    }

    fn take(&mut self, is_unseen: impl Fn(u64) -> bool) -> Vec<Batch<T>> {
        let mut unseen = Vec::new();
        while self.tagged.front().is_some_and(|batch| is_unseen(batch.tag)) {
            let batch = self.tagged.pop_front().expect("there is a first");
            self.weight -= batch.weight;
            unseen.push(batch);
        }
        // The limit grows, so that weight which guards hold back does not make every thread look.
        self.look_at = self.weight + self.weight / 2 + Limbo::<T>::LOOK_AT_WEIGHT;
        unseen
    }
}

/// Two cache lines apart from the next, since processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<T>(Mutex<Waiting<T>>);

/// Entries that were unlinked and may still be read under guards.
#[derive(Debug)]
pub(crate) struct Limbo<T> {
    /// Allocated when the first entry comes, so that small maps are small.
    shards: OnceLock<Box<[Shard<T>]>>,
}

impl<T> Limbo<T> {
    /// A heavy barrier interrupts every processor, so one must serve many entries.
    const LOOK_AT: usize = 128;

    /// As many bytes of memory as take longer to fill than a heavy barrier takes.
    const LOOK_AT_WEIGHT: usize = 1 << 18;

    pub(crate) fn new() -> Self {
        Self { shards: OnceLock::new() }
    }

    fn shards(&self) -> &[Shard<T>] {
        self.shards.get().map_or(&[], |shards| shards)
    }

    #[cold]
    fn make_shards() -> Box<[Shard<T>]> {
        (0..SHARDS).map(|_| Shard(Mutex::new(Waiting::new()))).collect()
    }

    /// Takes an entry that was unlinked before the call, and drops some entries that no guard can
    /// see any more.
    ///
    /// The weight is how many bytes the entry keeps from being used again; 0 for entries of which
    /// only the number is bounded.
    pub(crate) fn retire(&self, registry: &Registry, item: T, weight: usize) {
        self.retire_with(registry, item, weight, |_| ());
    }

    /// As [`retire`](Self::retire). Entries are dropped after `prepare` was called with them and others: it may
    /// prefetch what their drops look at, whose cache misses overlap then.
    pub(crate) fn retire_with(
        &self,
        registry: &Registry,
        item: T,
        weight: usize,
        prepare: impl Fn(&[T]),
    ) {
        let shards = self.shards.get_or_init(Self::make_shards);
        let shard = thread_index::current_if_any() % SHARDS;
        let must_look = {
            let mut waiting = shards[shard].0.lock();
            waiting.fresh.push(item);
            waiting.fresh_weight += weight;
            waiting.weight += weight;
            waiting.fresh.len() >= Self::LOOK_AT || waiting.weight > waiting.look_at
        };
        if must_look {
            Self::collect_from(&shards[shard..=shard], registry, prepare);
        }
    }

    /// Drops every entry that no guard can see. Interrupts no processor if no entry waits.
    pub(crate) fn collect(&self, registry: &Registry) {
        Self::collect_from(self.shards(), registry, |_| ());
    }

    fn collect_from(shards: &[Shard<T>], registry: &Registry, prepare: impl Fn(&[T])) {
        // Every shard is tagged before the look, so no short-circuit.
        if !shards.iter().fold(false, |waits, shard| shard.0.lock().tag(registry) | waits) {
            return;
        }
        // Guards that start from here on have the new epoch, and hold nothing back.
        let ended = registry.retire_tag();
        let oldest = registry.oldest_guard();
        let ended = match seeded(Bug::EpochReadAfterLook) {
            true => registry.epoch.load(Ordering::Acquire) - EPOCH,
            false => ended,
        };
        let is_unseen = |tag: u64| {
            // Invariant 4 of the registry: entries with later tags may have been unlinked after the
            // look. They come from threads that collect at the same time.
            let is_before = tag <= ended || seeded(Bug::LateTagsFreed);
            (tag < oldest || seeded(Bug::SameEpochFreed) && tag == oldest) && is_before
        };
        for shard in shards {
            let unseen = shard.0.lock().take(is_unseen);
            // Outside of the lock: dropping runs the caller's code, which may use the map.
            for batch in unseen {
                prepare(&batch.items);
                drop(batch);
            }
        }
    }

    /// Returns how many entries wait.
    pub(crate) fn len(&self) -> usize {
        self.shards().iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// Returns how much waits.
    pub(crate) fn weight(&self) -> usize {
        self.shards().iter().map(|shard| shard.0.lock().weight).sum()
    }

    /// Tags what waits, as a collector does before its look: for models, in which that is one of
    /// many steps.
    #[cfg(modelled)]
    pub(super) fn tag(&self, registry: &Registry) {
        self.shards().iter().for_each(|shard| _ = shard.0.lock().tag(registry));
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_a_guard_may_see_stays() {
        let (registry, limbo) = (Registry::new(), Limbo::new());
        let item = Arc::new(());
        let guard = registry.guard();
        limbo.retire(&registry, item.clone(), 3);
        limbo.collect(&registry);
        assert_eq!((limbo.len(), limbo.weight(), Arc::strong_count(&item)), (1, 3, 2));
        drop(guard);
        let _later = registry.guard();
        limbo.collect(&registry);
        assert_eq!((limbo.len(), limbo.weight(), Arc::strong_count(&item)), (0, 0, 1));
    }

    #[test]
    fn without_guards_few_entries_and_little_weight_wait() {
        let (registry, limbo) = (Registry::new(), Limbo::new());
        for i in 0..10_000 {
            limbo.retire(&registry, Box::new(i), 0);
            assert!(limbo.len() < Limbo::<Box<i32>>::LOOK_AT);
        }
        limbo.collect(&registry);
        for i in 0..100 {
            limbo.retire(&registry, Box::new(i), 100_000);
            assert!(limbo.weight() <= Limbo::<Box<i32>>::LOOK_AT_WEIGHT);
        }
        assert!(limbo.len() <= 2);
    }

    /// Otherwise each entry would look at all guards, and interrupt all processors.
    #[test]
    fn weight_that_a_guard_holds_back_is_looked_at_seldom() {
        let (registry, limbo) = (Registry::new(), Limbo::new());
        let guard = registry.guard();
        (0..100).for_each(|_| limbo.retire(&registry, (), 1 << 18));
        // Each look has tagged a batch.
        let looks: usize = limbo.shards().iter().map(|shard| shard.0.lock().tagged.len()).sum();
        assert!((1..=10).contains(&looks), "{looks}");
        drop(guard);
        limbo.collect(&registry);
        assert_eq!((limbo.len(), limbo.weight()), (0, 0));
    }

    #[test]
    fn a_look_ends_at_the_first_batch_that_is_held() {
        let (registry, mut waiting) = (Registry::new(), Waiting::new());
        for item in 0..1000 {
            waiting.fresh.push(item);
            waiting.tag(&registry);
            registry.retire_tag();
        }
        let (held, looks) = (waiting.tagged[10].tag, core::cell::Cell::new(0));
        let is_unseen = |tag| {
            looks.set(looks.get() + 1);
            tag < held
        };
        let items = |batches: Vec<Batch<i32>>| -> Vec<i32> {
            batches.into_iter().flat_map(|batch| batch.items).collect()
        };
        assert_eq!(items(waiting.take(is_unseen)), (0..10).collect::<Vec<_>>());
        assert!(waiting.take(is_unseen).is_empty());
        assert_eq!((looks.get(), waiting.len()), (12, 990));
    }

    #[test]
    fn nothing_is_allocated_before_the_first_entry() {
        let (registry, limbo) = (Registry::new(), Limbo::<u64>::new());
        let before = registry.retire_tag();
        limbo.collect(&registry);
        assert_eq!((limbo.shards().len(), limbo.len(), limbo.weight()), (0, 0, 0));
        assert_eq!(registry.retire_tag(), before + EPOCH, "and nobody looked at the guards");
    }
}
