//! Inserts that are hidden until they are committed or aborted, in maps of words and of records.

use nunatak::alloc::Global;
use nunatak::{
    DlhtMap, DlhtShadowMap, DlhtShadowRecordMap, Error, Modulo, Op, Outcome, RandomState, Request,
    Stop,
};
use nunatak_harness::effort::scaled;
use nunatak_harness::hashers::{Distribution, TestHasher};
use nunatak_harness::history::{Clock, Operation, Recorder, Sequential};
use nunatak_harness::linearizability::{Verdict, check};
use nunatak_harness::stress::together;
use nunatak_harness::{Random, Sample};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A map of numbers with hidden inserts. A commit gives a hidden key its [`value_of`].
trait Shadowing: Sync {
    fn get(&self, key: u64) -> Option<u64>;
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error>;
    fn try_insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error>;
    fn update(&self, key: u64, value: u64) -> Option<u64>;
    fn remove(&self, key: u64) -> Option<u64>;
    fn hide(&self, key: u64) -> Result<(), Error>;
    fn commit(&self, key: u64) -> Result<(), Error>;
    fn abort(&self, key: u64) -> Result<(), Error>;
    fn entries(&self) -> BTreeMap<u64, u64>;
    fn cut(&self) -> BTreeMap<u64, u64>;
    fn len(&self) -> usize;
    fn reserve(&self, additional: usize);
    fn shrink(&self);
    fn clear(&self);
}

fn value_of(key: u64) -> u64 {
    1000 + key
}

impl<S: nunatak::hash::Hashing> Shadowing for DlhtShadowMap<u64, u64, S> {
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.insert(key, value)
    }

    fn try_insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        Ok(self.try_insert(key, value)?.err())
    }

    fn update(&self, key: u64, value: u64) -> Option<u64> {
        self.update(&key, value)
    }

    fn remove(&self, key: u64) -> Option<u64> {
        self.remove(&key)
    }

    fn hide(&self, key: u64) -> Result<(), Error> {
        assert_eq!(self.shadow_insert(key)?.keep(), key);
        Ok(())
    }

    fn commit(&self, key: u64) -> Result<(), Error> {
        self.commit_shadow(&key, value_of(key))
    }

    fn abort(&self, key: u64) -> Result<(), Error> {
        self.abort_shadow(&key)
    }

    fn entries(&self) -> BTreeMap<u64, u64> {
        self.iter().collect()
    }

    fn cut(&self) -> BTreeMap<u64, u64> {
        self.snapshot().expect("memory").collect()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn reserve(&self, additional: usize) {
        self.reserve(additional).expect("memory");
    }

    fn shrink(&self) {
        self.shrink_to_fit().expect("memory");
    }

    fn clear(&self) {
        self.clear();
    }
}

/// Keys of all lengths.
impl<S: nunatak::hash::Hashing> Shadowing
    for DlhtShadowRecordMap<nunatak::entry::Format, Global, S>
{
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&Vec::sample(key)).map(|value| value.number())
    }

    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        Ok(self.insert(&Vec::sample(key), &Vec::sample(value))?.map(|value| value.number()))
    }

    fn try_insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        Ok(self
            .try_insert(&Vec::sample(key), &Vec::sample(value))?
            .err()
            .map(|value| value.number()))
    }

    fn update(&self, key: u64, value: u64) -> Option<u64> {
        let before = self.update(&Vec::sample(key), &Vec::sample(value)).expect("memory");
        before.map(|value| value.number())
    }

    fn remove(&self, key: u64) -> Option<u64> {
        self.remove(&Vec::sample(key)).map(|value| value.number())
    }

    fn hide(&self, key: u64) -> Result<(), Error> {
        let shadow = self.shadow_insert(&Vec::sample(key), &Vec::sample(value_of(key)))?;
        assert_eq!(shadow.keep(), Vec::sample(key));
        Ok(())
    }

    fn commit(&self, key: u64) -> Result<(), Error> {
        self.commit_shadow(&Vec::sample(key))
    }

    fn abort(&self, key: u64) -> Result<(), Error> {
        self.abort_shadow(&Vec::sample(key))
    }

    fn entries(&self) -> BTreeMap<u64, u64> {
        self.iter().map(|(key, value)| (key.number(), value.number())).collect()
    }

    fn cut(&self) -> BTreeMap<u64, u64> {
        let cut = self.snapshot().expect("memory");
        cut.map(|(key, value)| (key.number(), value.number())).collect()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn reserve(&self, additional: usize) {
        self.reserve(additional).expect("memory");
    }

    fn shrink(&self) {
        self.shrink_to_fit().expect("memory");
    }

    fn clear(&self) {
        self.clear();
    }
}

fn small<S: nunatak::hash::Hashing>(hasher: S) -> DlhtShadowMap<u64, u64, S> {
    let builder = DlhtMap::<u64, u64>::builder().hasher(hasher).initial_bins(2);
    builder.growth_factor(2).transfer_chunk(1).build_shadow().expect("valid options")
}

fn small_records<S: nunatak::hash::Hashing>(
    hasher: S,
) -> DlhtShadowRecordMap<nunatak::entry::Format, Global, S> {
    let builder = DlhtMap::<u64, u64>::builder().hasher(hasher).initial_bins(2);
    builder.growth_factor(2).transfer_chunk(1).build_shadow_records(Global).expect("valid options")
}

/// Runs a check on both maps, with every distribution of hashes.
fn on_all(check: impl Fn(&dyn Shadowing)) {
    for distribution in Distribution::ALL {
        check(&small(TestHasher::new(distribution)));
        check(&small_records(TestHasher::new(distribution)));
    }
    check(&small(RandomState::default()));
    check(&small(Modulo));
    check(&small_records(RandomState::default()));
}

/// A hidden key stays hidden, and stays in the map, whatever happens to the map.
#[test]
fn hidden_keys_survive_growth_shrinking_cuts_and_clearing() {
    on_all(|map| {
        (0..40).for_each(|key| map.hide(key).expect("absent"));
        let are_hidden = || {
            for key in 0..40 {
                assert_eq!((map.get(key), map.update(key, 1), map.remove(key)), (None, None, None));
                assert_eq!(map.insert(key, 1), Err(Error::Shadowed));
                assert_eq!(map.try_insert(key, 1), Err(Error::Shadowed));
                assert_eq!(map.hide(key), Err(Error::Shadowed));
            }
        };
        are_hidden();
        assert_eq!((map.len(), map.entries().len(), map.cut().len()), (0, 0, 0));
        for key in 100..400 {
            assert_eq!(map.insert(key, key), Ok(None));
        }
        are_hidden();
        map.reserve(10_000);
        are_hidden();
        assert_eq!((map.len(), map.entries().len(), map.cut().len()), (300, 300, 300));
        map.clear();
        map.shrink();
        are_hidden();
        assert_eq!((map.len(), map.entries().len(), map.cut().len()), (0, 0, 0));
        for key in 0..20 {
            assert_eq!(map.commit(key), Ok(()));
            assert_eq!(map.get(key), Some(value_of(key)));
            assert_eq!(
                (map.commit(key), map.abort(key)),
                (Err(Error::NotShadowed), Err(Error::NotShadowed))
            );
            assert_eq!(map.hide(key), Err(Error::Present));
        }
        for key in 20..40 {
            assert_eq!(map.abort(key), Ok(()));
            assert_eq!(map.commit(key), Err(Error::NotShadowed));
            assert_eq!((map.get(key), map.insert(key, 7)), (None, Ok(None)));
        }
        let value = |key| if key < 20 { value_of(key) } else { 7 };
        let expected: BTreeMap<u64, u64> = (0..40).map(|key| (key, value(key))).collect();
        assert_eq!((map.entries(), map.cut(), map.len()), (expected.clone(), expected, 40));
        assert!(
            (0..40).all(|key| map.remove(key) == Some(value(key)) && map.remove(key).is_none())
        );
    });
}

/// The state of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
enum State {
    #[default]
    Absent,
    Present(u64),
    Hidden(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    Get,
    Insert(u64),
    TryInsert(u64),
    Update(u64),
    Remove,
    Hide(u64),
    Commit,
    Abort,
}

/// The value before, or the error.
type Answer = Result<Option<u64>, Error>;

impl Sequential for Call {
    type State = State;
    type Answer = Answer;

    fn apply(&self, state: &State) -> (State, Answer) {
        use {Call as C, State as S};
        let before = match state {
            S::Present(value) => Some(*value),
            S::Absent | S::Hidden(_) => None,
        };
        match (self, state) {
            (C::Insert(_) | C::TryInsert(_) | C::Hide(_), S::Hidden(_)) => {
                (state.clone(), Err(Error::Shadowed))
            }
            (C::Hide(_), S::Present(_)) => (state.clone(), Err(Error::Present)),
            (C::Hide(value), S::Absent) => (S::Hidden(*value), Ok(None)),
            (C::Commit, S::Hidden(value)) => (S::Present(*value), Ok(None)),
            (C::Abort, S::Hidden(_)) => (S::Absent, Ok(None)),
            (C::Commit | C::Abort, _) => (state.clone(), Err(Error::NotShadowed)),
            (C::Insert(value), _) | (C::TryInsert(value), S::Absent) => {
                (S::Present(*value), Ok(before))
            }
            (C::Update(value), S::Present(_)) => (S::Present(*value), Ok(before)),
            (C::Remove, S::Present(_)) => (S::Absent, Ok(before)),
            (C::Get | C::TryInsert(_) | C::Update(_) | C::Remove, _) => (state.clone(), Ok(before)),
        }
    }
}

fn perform(map: &dyn Shadowing, key: u64, call: &Call) -> Answer {
    match *call {
        Call::Get => Ok(map.get(key)),
        Call::Insert(value) => map.insert(key, value),
        Call::TryInsert(value) => map.try_insert(key, value),
        Call::Update(value) => Ok(map.update(key, value)),
        Call::Remove => Ok(map.remove(key)),
        Call::Hide(_) => map.hide(key).map(|()| None),
        Call::Commit => map.commit(key).map(|()| None),
        Call::Abort => map.abort(key).map(|()| None),
    }
}

/// Draws a call. Only calls on a key that the thread has hidden may commit or abort it.
fn any_call(random: &mut Random, key: u64, is_mine: bool) -> Call {
    let value = random.below(4);
    match random.below(if is_mine { 12 } else { 9 }) {
        0..2 => Call::Get,
        2 => Call::Insert(value),
        3 => Call::TryInsert(value),
        4 => Call::Update(value),
        5..7 => Call::Remove,
        7..9 => Call::Hide(value_of(key)),
        9..11 => Call::Commit,
        _ => Call::Abort,
    }
}

#[test]
fn a_map_of_one_thread_agrees_with_the_model() {
    on_all(|map| {
        let mut random = Random::new(7);
        let mut states = vec![State::Absent; 64];
        for step in 0..20_000 {
            let key = random.below(64);
            let state = &mut states[key as usize];
            let call = any_call(&mut random, key, matches!(state, State::Hidden(_)));
            let (next, answer) = call.apply(state);
            assert_eq!(perform(map, key, &call), answer, "{call:?} of {key} at step {step}");
            *state = next;
            match step % 4000 {
                1000 => map.reserve(1000),
                2000 => map.shrink(),
                3000 => {
                    let present = |(key, state): (usize, &State)| match state {
                        State::Present(value) => Some((key as u64, *value)),
                        _ => None,
                    };
                    let present: BTreeMap<_, _> =
                        states.iter().enumerate().filter_map(present).collect();
                    assert_eq!((map.entries(), map.len()), (present.clone(), present.len()));
                    assert_eq!(map.cut(), present);
                }
                _ => {}
            }
        }
    });
}

fn histories_are_linearizable(make: impl Fn() -> Box<dyn Shadowing>) {
    const KEYS: [u64; 3] = [2, 4, 6];
    let (mut unknown, rounds) = (0, scaled(400));
    for round in 0..rounds as u64 {
        let (map, clock) = (make(), Clock::default());
        let histories = together(3, |thread| {
            let mut random = Random::new(round << 8 | thread as u64);
            let mut recorder = Recorder::new(&clock, thread);
            let mut mine = BTreeSet::new();
            for operation in 0..24_u64 {
                let key = KEYS[random.below(if round % 3 == 0 { 1 } else { 3 }) as usize];
                let call = any_call(&mut random, key, mine.contains(&key));
                recorder.record([(key, call.clone())], || {
                    let answer = perform(&*map, key, &call);
                    match (&call, &answer) {
                        (Call::Hide(_), Ok(_)) => drop(mine.insert(key)),
                        (Call::Commit | Call::Abort, _) => drop(mine.remove(&key)),
                        _ => {}
                    }
                    vec![answer]
                });
                // Other keys make the map grow, and the map is cut.
                let other = 1000 + ((thread as u64) << 32) + 2 * operation;
                map.insert(other, 0).expect("nobody hides it");
                if operation == 12 && thread == 0 {
                    drop(map.cut());
                }
            }
            recorder.into_operations()
        });
        let history: Vec<Operation<Call>> = histories.concat();
        match check(&history, 1_000_000) {
            Verdict::Linearizable => {}
            Verdict::Unknown { .. } => unknown += 1,
            Verdict::NotLinearizable { key, operations } => {
                panic!("round {round}: key {key} is not linearizable: {operations:#?}")
            }
        }
    }
    assert!(unknown <= rounds / 100, "{unknown} of {rounds} histories are too hard to check");
}

#[test]
fn histories_of_words_are_linearizable() {
    histories_are_linearizable(|| Box::new(small(Modulo)));
    histories_are_linearizable(|| Box::new(small(RandomState::default())));
}

#[test]
fn histories_of_records_are_linearizable() {
    histories_are_linearizable(|| Box::new(small_records(RandomState::default())));
    // All keys are in one bin, which is delegated.
    let constant = || TestHasher::new(Distribution::Constant);
    histories_are_linearizable(|| Box::new(small_records(constant())));
}

/// Checks that a hidden key acts as a lock: it has one owner at a time, through growth, shrinking
/// and cuts.
fn hidden_keys_exclude_each_other(map: &dyn Shadowing) {
    let owners: Vec<AtomicUsize> = (0..32).map(|_| AtomicUsize::new(0)).collect();
    let committed = AtomicU64::new(0);
    let rounds = scaled(20_000);
    together(4, |thread| {
        let mut random = Random::new(thread as u64);
        if thread == 3 {
            for round in 0..(rounds / 100) as u64 {
                for n in 0..64 {
                    assert_eq!(map.insert(1000 + 64 * round + n, n), Ok(None));
                }
                match round % 8 {
                    2 => map.reserve(2000),
                    4 => drop(map.cut()),
                    6 => {
                        for n in 0..7 * 64 {
                            assert_eq!(map.remove(1000 + 64 * (round - 6) + n), Some(n % 64));
                        }
                        map.shrink();
                    }
                    _ => {}
                }
            }
            return;
        }
        for _ in 0..rounds {
            let key = random.below(32);
            let owner = &owners[key as usize];
            if map.hide(key).is_err() {
                continue;
            }
            assert_eq!(owner.swap(thread + 1, Ordering::Relaxed), 0, "key {key} has two owners");
            assert_eq!(map.get(key), None);
            assert_eq!(owner.swap(0, Ordering::Relaxed), thread + 1);
            if random.once_in(3) {
                assert_eq!(map.abort(key), Ok(()));
            } else {
                assert_eq!(map.commit(key), Ok(()));
                committed.fetch_add(1, Ordering::Relaxed);
                if map.remove(key).is_some() {
                    committed.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
    });
    let left = map.entries().range(..32).count() as u64;
    assert_eq!(committed.into_inner(), left, "what was committed and not removed");
}

#[test]
fn hidden_keys_are_locks() {
    hidden_keys_exclude_each_other(&small(RandomState::default()));
    hidden_keys_exclude_each_other(&small(Modulo));
    hidden_keys_exclude_each_other(&small_records(RandomState::default()));
}

/// Several threads end the same hidden record at once; exactly one succeeds.
#[test]
fn a_hidden_record_is_ended_once() {
    let map = small_records(RandomState::default());
    for round in 0..scaled(3000) as u64 {
        map.hide(round % 8).expect("absent");
        let ended = together(3, |thread| {
            let ended = if thread == 0 { map.commit(round % 8) } else { map.abort(round % 8) };
            usize::from(ended.is_ok())
        });
        assert_eq!(ended.iter().sum::<usize>(), 1);
        Shadowing::remove(&map, round % 8);
    }
    assert_eq!((map.len(), map.advance_epoch(), map.blob_stats().blobs), (0, 0, 0));
}

/// A dropped shadow is aborted, also by a panic. A record that was kept hidden is freed with the
/// map.
#[test]
fn abandoned_shadows_are_aborted() {
    let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _shadow = map.shadow_insert(7).expect("absent");
        std::panic::resume_unwind(Box::new("a transaction fails"));
    }));
    assert!(outcome.is_err());
    assert_eq!(map.insert(7, 1), Ok(None));

    let records: DlhtShadowRecordMap = DlhtShadowRecordMap::new();
    drop(records.shadow_insert(b"dropped", &[0; 100]).expect("absent"));
    assert_eq!(records.blob_stats().blobs, 0);
    let key = records.shadow_insert(b"kept", &[0; 100]).expect("absent").keep();
    assert_eq!((key, records.blob_stats().blobs), (b"kept".to_vec(), 1));
}

#[test]
fn many_are_hidden_or_none() {
    let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    map.insert(50, 1).expect("visible");
    let keys: Vec<u64> = (0..100).collect();
    let refused = map.shadow_insert_many(&keys).map(drop);
    assert_eq!(refused, Err((50, Error::Present)));
    assert!((0..50).all(|key| map.insert(key, 0) == Ok(None)), "none of them is hidden");
    map.clear();
    let shadows = map.shadow_insert_many(&keys).expect("all absent");
    assert_eq!(map.insert_many(&[(200, 1), (50, 1), (201, 1)]), Err((1, Error::Shadowed)));
    assert_eq!((map.get(&200), map.get(&201)), (Some(1), None));
    let mut batch = [200, 50, 201].map(|key| Op::new(Request::Insert(key, 2)));
    assert_eq!(map.execute(&mut batch, Stop::Never), Err((1, Error::Shadowed)));
    assert_eq!(batch[0].outcome, Outcome::Replaced(1));
    let mut batch = [50, 200].map(|key| Op::new(Request::Remove(key)));
    assert_eq!(map.execute(&mut batch, Stop::AtFirstFailure), Ok(1), "it is not seen");
    assert_eq!(map.execute(&mut batch, Stop::Never), Ok(2));
    shadows.into_iter().for_each(|shadow| shadow.commit(5));
    assert_eq!(map.len(), 100);
}

/// `retain` asks exactly once about each visible key, and not about hidden keys.
#[test]
fn one_of_all_visible_keys_is_evicted() {
    fn all_but_the_first() -> impl FnMut() -> bool {
        let mut asked = 0;
        move || {
            asked += 1;
            assert!(asked <= 100, "asked again");
            asked > 1
        }
    }
    let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    let records: DlhtShadowRecordMap = DlhtShadowRecordMap::new();
    for key in 0..100 {
        map.insert(key, key).expect("visible");
        records.put(&key.to_le_bytes(), b"visible").expect("visible");
    }
    map.shadow_insert(1000).expect("absent").keep();
    records.shadow_insert(b"hidden", b"").expect("absent").keep();
    let mut keep = all_but_the_first();
    map.retain(|_, _| keep());
    let mut keep = all_but_the_first();
    records.retain(|_, _| keep());
    assert_eq!((map.len(), records.len(), records.unreclaimed()), (99, 99, 0));
    records.clear();
    assert_eq!((records.len(), records.unreclaimed()), (0, 0));
    assert_eq!(map.insert(1000, 1), Err(Error::Shadowed));
    assert_eq!(records.put(b"hidden", b""), Err(Error::Shadowed));
}
