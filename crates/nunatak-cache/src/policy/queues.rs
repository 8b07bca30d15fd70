//! The small and the main queue of a shard.
//!
//! Both are doubly linked lists through one vector, so that an entry which is removed leaves its
//! queue at once. Free places are a list, too.

use super::ghosts::Ghosts;
use super::timers::{Place, Timers};
use crate::clock::Nanos;
use crate::item::MOST_HITS;
use crate::key::Token;

/// No place.
const NONE: u32 = u32::MAX;

/// Uses after which an entry leaves the small queue for the main queue.
const USED_AGAIN: u8 = 1;

/// The part of the weight that the small queue has: one of so many.
const SMALL: u64 = 32;

/// Returns the part of a weight that the main queue has. At least one unit is left for the small
/// queue, so that new entries do not displace those of the main queue in a tiny cache either.
fn main_part(weight: u64) -> u64 {
    weight - (weight / SMALL).max(1).min(weight)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum In {
    Small,
    Main,
    Nowhere,
}

#[derive(Debug)]
struct Slot {
    hash: u64,
    weight: u64,
    generation: u32,
    newer: u32,
    /// Of a free place, the next free one.
    older: u32,
    queue: In,
}

#[derive(Debug)]
struct Queue {
    newest: u32,
    oldest: u32,
    len: usize,
    weight: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Self { newest: NONE, oldest: NONE, len: 0, weight: 0 }
    }
}

/// What became of an entry that eviction looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is not in the map: it comes or goes at this moment.
    Absent,
    /// It stays.
    Spared,
    /// It was taken out of the map.
    TakenOut,
}

#[derive(Debug)]
pub(crate) struct Queues {
    /// What the shard weighs when the cache is full and all shards weigh the same.
    share: u64,
    slots: Vec<Slot>,
    free: u32,
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
    timers: Timers,
}

impl Queues {
    pub(crate) fn new(share: u64) -> Self {
        Self {
            share,
            slots: Vec::new(),
            free: NONE,
            small: Queue::default(),
            main: Queue::default(),
            ghosts: Ghosts::default(),
            timers: Timers::default(),
        }
    }

    pub(crate) fn share(&self) -> u64 {
        self.share
    }

    pub(crate) fn weight(&self) -> u64 {
        self.small.weight + self.main.weight
    }

    fn len(&self) -> usize {
        self.small.len + self.main.len
    }

    fn queue(&mut self, queue: In) -> &mut Queue {
        match queue {
            In::Small => &mut self.small,
            In::Main => &mut self.main,
            In::Nowhere => unreachable!("a free place is in no queue"),
        }
    }

    fn link(&mut self, at: u32, queue: In) {
        let weight = self.slots[at as usize].weight;
        let list = self.queue(queue);
        let second = core::mem::replace(&mut list.newest, at);
        list.len += 1;
        list.weight += weight;
        match second {
            NONE => list.oldest = at,
            second => self.slots[second as usize].newer = at,
        }
        let slot = &mut self.slots[at as usize];
        (slot.newer, slot.older, slot.queue) = (NONE, second, queue);
    }

    fn unlink(&mut self, at: u32) {
        let Slot { newer, older, queue, weight, .. } = self.slots[at as usize];
        let list = self.queue(queue);
        list.len -= 1;
        list.weight -= weight;
        if newer == NONE {
            list.newest = older;
        }
        if older == NONE {
            list.oldest = newer;
        }
        if let Some(slot) = self.slots.get_mut(newer as usize) {
            slot.older = older;
        }
        if let Some(slot) = self.slots.get_mut(older as usize) {
            slot.newer = newer;
        }
    }

    /// Gives a place to an entry, as the newest of the queue where it belongs: the main queue, if
    /// the key is a ghost, or as long as that queue has less than its part. (The paper has all new
    /// keys in the small queue. Then a loop over more keys than fit never hits.)
    pub(crate) fn admit(&mut self, hash: u64, weight: u64) -> Token {
        let has_room = self.main.weight.saturating_add(weight) <= main_part(self.share);
        let is_ghost = self.ghosts.remove(hash, self.len());
        let queue = if is_ghost || has_room { In::Main } else { In::Small };
        let at = match self.free {
            NONE => {
                let at = u32::try_from(self.slots.len()).ok().filter(|at| *at != NONE);
                let links = Slot { hash, weight, generation: 0, newer: NONE, older: NONE, queue };
                self.slots.push(links);
                at.expect("a shard has less than 2^32 entries")
            }
            at => {
                let slot = &mut self.slots[at as usize];
                self.free = slot.older;
                (slot.hash, slot.weight) = (hash, weight);
                at
            }
        };
        self.link(at, queue);
        self.token(at)
    }

    fn token(&self, at: u32) -> Token {
        let Slot { hash, generation, .. } = self.slots[at as usize];
        Token { hash, slot: at, generation }
    }

    /// Whether the entry has its place still.
    pub(crate) fn has(&self, token: Token) -> bool {
        let slot = &self.slots[token.slot as usize];
        slot.queue != In::Nowhere && slot.generation == token.generation
    }

    /// Frees the place of an entry that is not in the map any more. Returns the weight
    /// that was counted for it, if it had one.
    pub(crate) fn release(&mut self, token: Token) -> Option<u64> {
        if !self.has(token) {
            return None;
        }
        self.unlink(token.slot);
        let slot = &mut self.slots[token.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        (slot.queue, slot.older) = (In::Nowhere, self.free);
        self.free = token.slot;
        Some(slot.weight)
    }

    /// [Frees](Self::release) the place of an entry that another one has replaced. The new one goes
    /// to the queue where the old one was, if it has its own place still.
    pub(crate) fn inherit(&mut self, old: Token, new: Token) -> Option<u64> {
        let queue = self.slots[old.slot as usize].queue;
        let freed = self.release(old)?;
        if queue == In::Main && self.has(new) && self.slots[new.slot as usize].queue == In::Small {
            self.unlink(new.slot);
            self.link(new.slot, In::Main);
        }
        Some(freed)
    }

    /// Returns the entry of the small queue that eviction looks at next.
    pub(crate) fn next_of_small(&self) -> Option<Token> {
        (self.small.len > 0).then(|| self.token(self.small.oldest))
    }

    /// Takes one entry out, and returns its weight. `None` if there is nothing to take out.
    ///
    /// `look` looks at an entry in the map. Its closure says how many hits a spared entry keeps,
    /// or that the entry must go.
    pub(crate) fn evict(
        &mut self,
        mut look: impl FnMut(Token, &dyn Fn(u8) -> Option<u8>) -> Look,
    ) -> Option<u64> {
        // Each look at an entry takes one of its hits, and it may be hit again meanwhile. Who is
        // looked at more often than this goes.
        let patience = (usize::from(MOST_HITS) + 2) * self.len();
        for looked in 0..2 * patience {
            // By the greater of both, a shard that has more than its share gives of both queues.
            let main_has_more = self.main.weight > main_part(self.weight().max(self.share));
            let from = match (self.small.len, self.main.len) {
                (0, 0) => return None,
                (0, _) => In::Main,
                (_, 1..) if main_has_more => In::Main,
                _ => In::Small,
            };
            let at = self.queue(from).oldest;
            let token = self.token(at);
            let spare = |hits: u8| match from {
                _ if looked >= patience => None,
                In::Small => (hits >= USED_AGAIN).then_some(0),
                _ => hits.checked_sub(1),
            };
            match look(token, &spare) {
                Look::TakenOut => {
                    if from == In::Small {
                        self.ghosts.reserve(self.len());
                        self.ghosts.insert(token.hash);
                    }
                    return self.release(token);
                }
                Look::Spared => {
                    self.unlink(at);
                    self.link(at, In::Main);
                }
                Look::Absent => {
                    self.unlink(at);
                    self.link(at, from);
                }
            }
        }
        None
    }

    /// Sets the timer of an entry.
    pub(crate) fn set_timer(&mut self, at: Nanos, token: Token) {
        let live = self.len();
        let slots = &self.slots;
        let is_there = |(slot, generation): Place| {
            let slot = &slots[slot as usize];
            slot.queue != In::Nowhere && slot.generation == generation
        };
        self.timers.push(at, (token.slot, token.generation), live, is_there);
    }

    /// Whether there are timers, so that the time matters.
    pub(crate) fn has_timers(&self) -> bool {
        !self.timers.is_empty()
    }

    /// Returns an entry whose timer has ended, and removes the timer.
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<Token> {
        loop {
            let (slot, generation) = self.timers.pop_due(now)?;
            let token = self.token(slot);
            if token.generation == generation && self.has(token) {
                return Some(token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// A cache of one shard whose map is a plain one.
    struct Simulated {
        queues: Queues,
        entries: HashMap<u64, (Token, u8)>,
        capacity: usize,
    }

    impl Simulated {
        fn new(capacity: usize) -> Self {
            Self { queues: Queues::new(capacity as u64), entries: HashMap::new(), capacity }
        }

        /// Returns whether the key was there, and stores it if it was not.
        fn request(&mut self, key: u64) -> bool {
            if let Some((_, hits)) = self.entries.get_mut(&key) {
                *hits = (*hits + 1).min(MOST_HITS);
                return true;
            }
            while self.entries.len() >= self.capacity {
                let entries = &mut self.entries;
                let evicted = self.queues.evict(|token, spare| {
                    let (_, hits) = entries.get_mut(&token.hash).expect("queued entries are there");
                    match spare(*hits) {
                        Some(left) => {
                            *hits = left;
                            Look::Spared
                        }
                        None => {
                            entries.remove(&token.hash);
                            Look::TakenOut
                        }
                    }
                });
                assert_eq!(evicted, Some(1));
            }
            self.entries.insert(key, (self.queues.admit(key, 1), 0));
            self.check();
            false
        }

        /// The lists hold what the map holds.
        fn check(&self) {
            let mut seen = 0;
            for (list, queue) in [(&self.queues.small, In::Small), (&self.queues.main, In::Main)] {
                let (mut at, mut newer, mut len) = (list.newest, NONE, 0);
                while at != NONE {
                    let slot = &self.queues.slots[at as usize];
                    assert_eq!((slot.newer, slot.queue), (newer, queue));
                    assert_eq!(self.entries[&slot.hash].0, self.queues.token(at));
                    (newer, at, len) = (at, slot.older, len + 1);
                }
                assert_eq!((list.oldest, list.len, list.weight), (newer, len, len as u64));
                seen += len;
            }
            assert_eq!(seen, self.entries.len());
        }
    }

    #[test]
    fn a_scan_leaves_the_main_queue_alone() {
        let mut cache = Simulated::new(100);
        for _ in 0..4 {
            (0..90).for_each(|key| _ = cache.request(key));
        }
        (1000..3000).for_each(|key| _ = cache.request(key));
        let left = (0..90).filter(|key| cache.entries.contains_key(key)).count();
        assert!(left >= 85, "{left}");
    }

    #[test]
    fn a_loop_over_more_keys_than_fit_hits_some() {
        let mut cache = Simulated::new(100);
        (0..200).for_each(|key| _ = cache.request(key));
        let hits = (0..200).filter(|key| cache.request(*key)).count();
        assert!(hits > 90, "{hits}");
    }

    #[test]
    fn a_key_that_comes_back_goes_to_the_main_queue() {
        let mut cache = Simulated::new(20);
        (0..40).for_each(|key| _ = cache.request(key));
        let evicted = (0..40).rfind(|key| !cache.entries.contains_key(key)).unwrap();
        assert!(!cache.request(evicted));
        let token = cache.entries[&evicted].0;
        assert_eq!(cache.queues.slots[token.slot as usize].queue, In::Main);
    }

    #[test]
    fn removed_entries_leave_their_queue() {
        let mut cache = Simulated::new(1000);
        for key in 0..10_000_u64 {
            cache.request(key % 700);
            let other = key.wrapping_mul(0x9E37_79B9) % 700;
            if let Some((token, _)) = cache.entries.remove(&other) {
                cache.queues.release(token);
            }
            cache.check();
        }
        assert!(cache.queues.slots.len() <= 700);
    }

    #[test]
    fn entries_that_are_always_hit_are_evicted_in_the_end() {
        let mut queues = Queues::new(100);
        let tokens: Vec<Token> = (0..10).map(|key| queues.admit(key, 1)).collect();
        let evicted = queues.evict(|_, spare| match spare(MOST_HITS) {
            Some(_) => Look::Spared,
            None => Look::TakenOut,
        });
        assert_eq!((evicted, queues.len()), (Some(1), tokens.len() - 1));
        assert_eq!(queues.evict(|_, _| Look::Absent), None);
        assert_eq!(Queues::new(100).evict(|_, _| Look::TakenOut), None);
    }
}
