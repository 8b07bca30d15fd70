//! The flights that can be joined.

use super::flight::{Flight, Outcome};
use crate::key::spread;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering, lock};
use core::borrow::Borrow;
use crossbeam_utils::CachePadded;
use std::collections::BTreeMap;

/// Flights of different keys seldom wait for the same lock.
const SHARDS: usize = 16;

/// Flights by hash and number. Later flights of a hash have greater numbers.
#[derive(Debug)]
struct Shard<K, V> {
    flights: BTreeMap<(u64, u64), Arc<Flight<K, V>>>,
    next_number: u64,
}

/// The flights that can be joined.
#[derive(Debug)]
pub(crate) struct Flights<K, V> {
    shards: [CachePadded<Mutex<Shard<K, V>>>; SHARDS],
    /// At least as many as there are flights.
    count: CachePadded<AtomicUsize>,
}

/// What a caller became that joined.
pub(crate) enum Joined<'f, K, V> {
    Leader(Leader<'f, K, V>),
    Follower(Arc<Flight<K, V>>),
}

/// The duty to end a flight. Dropping it ends the flight as failed (invariant 2).
#[derive(Debug)]
pub(crate) struct Leader<'f, K, V> {
    flights: &'f Flights<K, V>,
    number: u64,
    /// `None` once the flight has ended.
    flight: Option<Arc<Flight<K, V>>>,
}

impl<K, V> Leader<'_, K, V> {
    pub(crate) fn flight(&self) -> &Arc<Flight<K, V>> {
        self.flight.as_ref().expect("ended by consuming calls only")
    }

    /// Ends the flight with a value, and returns it: without a copy if nobody else has it.
    pub(crate) fn succeed(mut self, value: V) -> V
    where
        V: Clone,
    {
        let value = Arc::new(value);
        self.end(Some(value.clone()));
        Arc::try_unwrap(value).unwrap_or_else(|shared| (*shared).clone())
    }

    fn end(&mut self, outcome: Outcome<V>) {
        if let Some(flight) = self.flight.take() {
            // First it can't be joined any more, then it ends: who joins later begins a new one.
            let in_list =
                lock(self.flights.shard(flight.hash)).flights.remove(&(flight.hash, self.number));
            drop(in_list);
            // Release: as in `outdate_any`.
            self.flights.count.fetch_sub(1, Ordering::Release);
            flight.end(outcome);
        }
    }
}

impl<K, V> Drop for Leader<'_, K, V> {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl<K, V> Flights<K, V> {
    pub(crate) fn new() -> Self {
        let shard = |_| Shard { flights: BTreeMap::new(), next_number: 0 };
        Self {
            shards: core::array::from_fn(|i| CachePadded::new(Mutex::new(shard(i)))),
            count: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard<K, V>> {
        &self.shards[spread(hash) as usize % SHARDS]
    }

    /// Begins a flight of the key, or finds the one that there is.
    pub(crate) fn join(&self, hash: u64, key: K) -> Joined<'_, K, V>
    where
        K: Eq,
    {
        let flight = Arc::new(Flight::new(hash, key));
        // Release: pairs with `outdate`. It comes before the computation looks at anything.
        self.count.fetch_add(1, Ordering::AcqRel);
        // Dropped on every way out but that of the leader.
        let counted = Counted(&self.count);
        let mut first = 0;
        loop {
            // Flights that came since the last look. Flights that went do not matter.
            let others = {
                let mut shard = lock(self.shard(hash));
                let others = shard.since(hash, first);
                if others.is_empty() {
                    let number = shard.next_number;
                    shard.next_number += 1;
                    shard.flights.insert((hash, number), flight.clone());
                    core::mem::forget(counted);
                    return Joined::Leader(Leader { flights: self, number, flight: Some(flight) });
                }
                first = shard.next_number;
                others
            };
            // Without the lock (invariant 5).
            if let Some(same) = others.into_iter().find(|other| other.key == flight.key) {
                return Joined::Follower(same);
            }
        }
    }

    /// The key is about to be changed: the value of its flight, if any, will not be stored.
    pub(crate) fn outdate<Q>(&self, hash: u64, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        // Acquire: pairs with `join`. If a computation has read what was true before the change that
        // this call announces, then it was counted before that, and this load sees it. Any other
        // computation reads what is true now.
        if self.count.load(Ordering::Acquire) > 0 {
            let flights = lock(self.shard(hash)).since(hash, 0);
            let of_key = flights.iter().filter(|flight| flight.key.borrow() == key);
            of_key.for_each(|flight| flight.outdate());
        }
    }

    /// [`outdate`](Self::outdate) of every key.
    pub(crate) fn outdate_all(&self) {
        for shard in &self.shards {
            let flights: Vec<_> = lock(shard).flights.values().cloned().collect();
            flights.iter().for_each(|flight| flight.outdate());
        }
    }
}

impl<K, V> Shard<K, V> {
    /// Returns the flights of a hash, from a number on.
    fn since(&self, hash: u64, number: u64) -> Vec<Arc<Flight<K, V>>> {
        self.flights.range((hash, number)..=(hash, u64::MAX)).map(|(_, it)| it.clone()).collect()
    }
}

/// One flight that was counted.
struct Counted<'f>(&'f AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        // Release: nothing was done that others need to see; as in `Leader::end`.
        self.0.fetch_sub(1, Ordering::Release);
    }
}
