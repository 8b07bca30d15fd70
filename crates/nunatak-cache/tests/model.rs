//! Random operations against a model, on one thread.

use nunatak_cache::{Builder, Cache, Cause, ManualClock};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Debug)]
enum Step {
    Insert(u8, u8),
    InsertFor(u8, u8, u8),
    Get(u8),
    Peek(u8),
    Remove(u8),
    RemoveOdd(u8),
    Compute(u8, u8),
    Fail(u8),
    RetainBelow(u8),
    Clear,
    RunPending,
    Wait(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    use Step::*;
    let key = || 0..24_u8;
    let step = prop_oneof![
        8 => (key(), any::<u8>()).prop_map(|(key, weight)| Insert(key, weight)),
        4 => (key(), any::<u8>(), 0..20_u8).prop_map(|(key, weight, ttl)| InsertFor(key, weight, ttl)),
        8 => key().prop_map(Get),
        2 => key().prop_map(Peek),
        2 => key().prop_map(Remove),
        1 => key().prop_map(RemoveOdd),
        4 => (key(), any::<u8>()).prop_map(|(key, weight)| Compute(key, weight)),
        1 => key().prop_map(Fail),
        1 => key().prop_map(RetainBelow),
        1 => Just(Clear),
        1 => Just(RunPending),
        3 => (0..8_u8).prop_map(Wait),
    ];
    proptest::collection::vec(step, 1..200)
}

/// A value: a number that no other value has, and its weight.
type Value = (u64, u8);

/// What the model knows of an entry.
struct Known {
    value: Value,
    deadline: u64,
    used: u64,
}

struct Model {
    known: HashMap<u8, Known>,
    now: u64,
    live: u64,
    idle: u64,
}

impl Model {
    fn is_live(&self, known: &Known) -> bool {
        self.now < known.deadline && self.now < known.used.saturating_add(self.idle)
    }

    fn live(&self, key: u8) -> Option<Value> {
        self.known.get(&key).filter(|known| self.is_live(known)).map(|known| known.value)
    }

    fn insert(&mut self, key: u8, value: Value, live: u64) {
        let deadline = self.now.saturating_add(live);
        self.known.insert(key, Known { value, deadline, used: self.now });
    }

    /// An entry has left.
    fn leave(&mut self, key: u8, value: Value, cause: Cause) {
        let is_current = self.known.get(&key).is_some_and(|known| known.value == value);
        if is_current {
            let known = self.known.remove(&key).unwrap();
            assert_eq!(cause == Cause::Expired, !self.is_live(&known), "{key} left by {cause:?}");
        } else {
            // Or it was evicted to make room for the next value of its key.
            assert_ne!(cause, Cause::Removed, "{key}");
        }
    }
}

fn times() -> impl Strategy<Value = Option<u8>> {
    proptest::option::of(1..20_u8)
}

fn duration(time: Option<u8>) -> Duration {
    time.map_or(Duration::MAX, |time| Duration::from_nanos(time.into()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    /// The cache holds what the model holds, except for what the listener was told.
    #[test]
    fn agrees_with_the_model(
        steps in steps(), capacity in 0..600_u64, weighs: bool, live in times(), idle in times(),
        shards in 1..5_usize,
    ) {
        let clock = Arc::new(ManualClock::new());
        let log = Arc::new(Mutex::new(Vec::new()));
        let told = log.clone();
        let mut builder = Builder::new(if weighs { capacity } else { capacity / 20 })
            .clock(clock.clone())
            .shards(shards)
            .time_to_live(duration(live))
            .time_to_idle(duration(idle))
            .listener(move |key: &u8, value: &Value, cause| {
                told.lock().unwrap().push((*key, *value, cause));
            });
        if weighs {
            builder = builder.weigher(|_, value| value.1.into());
        }
        let cache: Cache<u8, Value> = builder.build();
        let forever = |time: Option<u8>| time.map_or(u64::MAX, u64::from);
        let mut model =
            Model { known: HashMap::new(), now: 0, live: forever(live), idle: forever(idle) };
        for (number, step) in steps.into_iter().enumerate() {
            let number = number as u64;
            match step {
                Step::Insert(key, weight) => {
                    model.insert(key, (number, weight), model.live);
                    cache.insert(key, (number, weight));
                }
                Step::InsertFor(key, weight, ttl) => {
                    model.insert(key, (number, weight), ttl.into());
                    cache.insert_with_ttl(key, (number, weight), Duration::from_nanos(ttl.into()));
                }
                Step::Get(key) => {
                    prop_assert_eq!(cache.get(&key), model.live(key));
                    let now = model.now;
                    if model.live(key).is_some() {
                        model.known.get_mut(&key).unwrap().used = now;
                    }
                }
                Step::Peek(key) => {
                    prop_assert_eq!(cache.peek(&key), model.live(key));
                    prop_assert_eq!(cache.contains_key(&key), model.live(key).is_some());
                }
                Step::Remove(key) => prop_assert_eq!(cache.remove(&key), model.live(key)),
                Step::RemoveOdd(key) => {
                    let removed = cache.remove_if(&key, |_, (number, _)| number % 2 == 1);
                    prop_assert_eq!(removed, model.live(key).filter(|(number, _)| number % 2 == 1));
                }
                Step::Compute(key, weight) => {
                    let present = model.live(key);
                    let value = cache.get_or_insert_with(&key, || (number, weight));
                    prop_assert_eq!(value, present.unwrap_or((number, weight)));
                    match model.live(key) {
                        Some(_) => model.known.get_mut(&key).unwrap().used = model.now,
                        // What it replaced had expired, and was told before.
                        None => {
                            take_told(&mut model, &log, Some((key, (number, weight))));
                            model.insert(key, (number, weight), model.live);
                        }
                    }
                }
                Step::Fail(key) => {
                    let result = cache.get_or_try_insert_with(&key, || Err(number));
                    prop_assert_eq!(result, model.live(key).ok_or(number));
                    let now = model.now;
                    if model.live(key).is_some() {
                        model.known.get_mut(&key).unwrap().used = now;
                    }
                }
                Step::RetainBelow(below) => {
                    cache.retain(|key, _| *key < below);
                    prop_assert!(cache.iter().all(|(key, _)| key < below));
                }
                Step::Clear => {
                    cache.clear();
                    prop_assert!(cache.is_empty() && cache.weight() == 0);
                }
                Step::RunPending => {
                    cache.run_pending();
                    prop_assert_eq!(cache.len(), cache.iter().count());
                }
                Step::Wait(time) => {
                    model.now += u64::from(time);
                    clock.advance(Duration::from_nanos(time.into()));
                }
            }
            take_told(&mut model, &log, None);
            let weight = |value: Value| if weighs { u64::from(value.1).max(1) } else { 1 };
            let weights: u64 = model.known.values().map(|known| weight(known.value)).sum();
            prop_assert_eq!((cache.len(), cache.weight()), (model.known.len(), weights));
            prop_assert!(cache.weight() <= cache.capacity());
        }
        let mut left: Vec<_> = cache.iter().collect();
        let mut known: Vec<_> =
            (0..24).filter_map(|key| model.live(key).map(|value| (key, value))).collect();
        left.sort_unstable();
        known.sort_unstable();
        prop_assert_eq!(left, known);
        let stats = cache.stats();
        let gone = stats.expired + stats.replaced + stats.evicted + stats.removed;
        prop_assert!(gone + cache.len() as u64 >= stats.insertions);
    }
}

/// Tells the model what the listener was told; of a computed value that the model does not have yet
/// (`computed`) later.
fn take_told(
    model: &mut Model,
    log: &Mutex<Vec<(u8, Value, Cause)>>,
    computed: Option<(u8, Value)>,
) {
    let mut log = log.lock().unwrap();
    let (later, now): (Vec<_>, Vec<_>) =
        log.drain(..).partition(|(key, value, _)| computed == Some((*key, *value)));
    now.into_iter().for_each(|(key, value, cause)| model.leave(key, value, cause));
    *log = later;
}
