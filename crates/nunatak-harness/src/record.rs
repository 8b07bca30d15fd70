//! Short histories of real threads, checked for linearizability.

use crate::effort::scaled;
use crate::failures::{Fuse, catch};
use crate::hashers::{Distribution, TestHasher};
use crate::history::{Answer, Call, Clock, Operation, Recorder, Sequential};
use crate::linearizability::{Verdict, check};
use crate::random::Random;
use crate::sample::Sample;
use crate::stress::{Running, together, upset};
use crate::subject::{HashedSubject, Subject};
use nunatak::{ConcurrentMap, Op, Outcome, Request, Stop};
use std::fmt::Write;

/// The largest number of search steps for a key of a history.
const BUDGET: usize = 200_000;

const KEYS: [u64; 3] = [0, 1, 1 << 33];

/// The first key of the thread that makes the map grow.
const OTHERS: u64 = 1 << 40;

/// Histories of few keys are linearizable while the map grows and shrinks, with single operations
/// and with batches.
///
/// # Panics
/// If a history is not linearizable, with its operations; or if the search is given up in more than
/// one of a hundred histories.
pub fn histories_are_linearizable<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    let rounds = scaled(400);
    check_rounds(rounds, rounds / 100, |round| {
        let map = &subject.adversarial();
        let threads = 3 + (round % 2) as usize;
        let (clock, running) = (Clock::default(), Running::new(threads));
        let histories = together(threads + 1, |thread| {
            let mut random = Random::new(round << 8 | thread as u64);
            if thread == threads {
                while running.any() {
                    upset::<K, V, _>(map, &mut random, OTHERS);
                }
                return Vec::new();
            }
            let _run = running.one();
            let mut recorder = Recorder::new(&clock, thread);
            for _ in 0..20 + random.below(20) {
                operate::<K, V, _>(map, &mut recorder, &mut random, round);
            }
            recorder.into_operations()
        });
        histories.concat()
    });
}

/// The same when the hasher panics now and then. A panicked operation has happened or not, but
/// never in part, and never later.
///
/// # Panics
/// If a history is not linearizable, with its operations; or if the search is given up in more than
/// one of a hundred histories.
pub fn histories_with_panics_are_linearizable<K, V, S>(subject: &S)
where
    K: Sample,
    V: Sample,
    S: HashedSubject<K, V>,
    S::Map: Sync,
{
    let rounds = scaled(300);
    check_rounds(rounds, rounds / 100, |round| {
        let fuse = Fuse::default();
        let hasher = TestHasher::with_fuse(Distribution::Even, fuse.clone());
        let map = &subject.build_hashed(hasher);
        let clock = Clock::default();
        let histories = together(3, |thread| {
            let mut random = Random::new(round << 8 | thread as u64);
            let mut recorder = Recorder::new(&clock, thread);
            for operation in 0..24 {
                if random.once_in(6) {
                    fuse.arm(random.below(5) as usize);
                }
                operate::<K, V, _>(map, &mut recorder, &mut random, round);
                let other = K::sample(OTHERS + ((thread as u64) << 32) + operation);
                catch(|| map.insert(other, V::sample(0)));
            }
            recorder.into_operations()
        });
        histories.concat()
    });
}

/// Checks the histories of so many rounds, of which so many may be too hard to check.
pub(crate) fn check_rounds<C: Sequential>(
    rounds: usize,
    too_hard: usize,
    run: impl Fn(u64) -> Vec<Operation<C>>,
) {
    let mut unknown = 0;
    for round in 0..rounds as u64 {
        match check(&run(round), BUDGET) {
            Verdict::Linearizable => {}
            Verdict::Unknown { .. } => unknown += 1,
            Verdict::NotLinearizable { key, operations } => {
                panic!("round {round}: key {key} is not linearizable:\n{}", table(&operations));
            }
        }
    }
    assert!(unknown <= too_hard, "{unknown} of {rounds} histories are too hard to check");
}

fn table<C: Sequential>(operations: &[Operation<C>]) -> String {
    operations.iter().fold(String::new(), |mut lines, operation| {
        let Operation { thread, call, invoked, returned, .. } = operation;
        let _ = match returned {
            Some((at, answer)) => {
                writeln!(lines, "{invoked:5}–{at:<5} thread {thread}: {call:?} = {answer:?}")
            }
            None => writeln!(lines, "{invoked:5}–      thread {thread}: {call:?}"),
        };
        lines
    })
}

/// Runs and records a random operation or batch.
fn operate<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(
    map: &M,
    recorder: &mut Recorder<'_>,
    random: &mut Random,
    round: u64,
) {
    // In every other round few values, so that a value may come back.
    let values = if round.is_multiple_of(2) { 4 } else { 1 << 20 };
    let key = KEYS[random.below(if round.is_multiple_of(3) { 1 } else { 3 }) as usize];
    let (value, current) = (random.below(values), random.below(4));
    let call = match random.below(16) {
        0..4 => Call::Get,
        4..6 => Call::Insert(value),
        6..9 => Call::TryInsert(value),
        9..11 => Call::Update(value),
        11..13 => Call::Remove,
        13..15 => Call::CompareExchange { current, new: value },
        _ => return operate_batch::<K, V, M>(map, recorder, random.below(4), value),
    };
    recorder.record([(key, call)], || vec![one::<K, V, M>(map, &K::sample(key), call)]);
}

fn one<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(map: &M, key: &K, call: Call) -> Answer {
    let number = |value: Option<V>| value.map(|value| value.number());
    match call {
        Call::Get => Answer::Before(number(map.get(key))),
        Call::Insert(value) => Answer::Before(number(map.insert(key.clone(), V::sample(value)))),
        Call::TryInsert(value) => {
            let tried = map.try_insert(key.clone(), V::sample(value));
            Answer::Tried(tried.map_err(|present| present.number()))
        }
        Call::Update(value) => Answer::Before(number(map.update(key, V::sample(value)))),
        Call::Remove => Answer::Before(number(map.remove(key))),
        Call::CompareExchange { current, new } => {
            let exchanged = map.compare_exchange(key, &V::sample(current), V::sample(new));
            Answer::Exchanged(exchanged.map(|before| before.number()).map_err(number))
        }
    }
}

/// Runs a batch on all keys. Each of its operations takes effect between the batch's call and its
/// return.
fn operate_batch<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(
    map: &M,
    recorder: &mut Recorder<'_>,
    kind: u64,
    value: u64,
) {
    let call =
        [Call::Get, Call::Insert(value), Call::Remove, Call::TryInsert(value)][kind as usize];
    let keys = KEYS.map(K::sample);
    recorder.record(KEYS.map(|key| (key, call)), || {
        let mut out = [const { None::<V> }; KEYS.len()];
        match call {
            Call::Get => map.get_many(&keys, &mut out),
            Call::Insert(value) => {
                let entries = keys.map(|key| (key, V::sample(value)));
                map.insert_many(&entries, &mut out)
            }
            Call::Remove => map.remove_many(&keys, &mut out),
            _ => return try_insert_many::<K, V, M>(map, keys, value),
        }
        .expect("room for all");
        out.iter().map(|value| Answer::Before(value.as_ref().map(V::number))).collect()
    });
}

fn try_insert_many<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(
    map: &M,
    keys: [K; KEYS.len()],
    value: u64,
) -> Vec<Answer> {
    let mut batch = keys.map(|key| Op::new(Request::TryInsert(key, V::sample(value))));
    map.execute(&mut batch, Stop::Never);
    let answer = |op: Op<K, V>| match op.outcome {
        Outcome::Inserted => Answer::Tried(Ok(())),
        Outcome::Occupied(present) => Answer::Tried(Err(present.number())),
        outcome => panic!("{:?} came to {outcome:?}", op.request),
    };
    batch.into_iter().map(answer).collect()
}
