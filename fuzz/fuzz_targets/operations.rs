//! Arbitrary operations on maps of records with hidden keys, and on sets, agree with a model.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use nunatak::alloc::Global;
use nunatak::entry::{Format, Named, VARIABLE};
use nunatak::{
    DlhtMap, DlhtSet, DlhtShadowMap, DlhtShadowRecordMap, Error, Modulo, Namespace,
};
use std::collections::BTreeMap;

/// A key in a namespace. If it has at most 8 bytes, it is in its slot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Arbitrary)]
struct Key {
    namespace: u16,
    bytes: Vec<u8>,
}

#[derive(Debug, Arbitrary)]
enum Operation {
    Put(Key, Vec<u8>),
    TryInsert(Key, Vec<u8>),
    Update(Key, Vec<u8>),
    Delete(Key),
    Get(Key),
    Hide(Key, Vec<u8>),
    Commit(Key),
    Abort(Key),
    GetMany(Vec<Key>),
    ClearNamespace(u16),
    Snapshot,
    Reserve(u8),
    Shrink,
}

#[derive(Debug, Clone)]
enum State {
    Present(Vec<u8>),
    Hidden(Vec<u8>),
}

type Records = DlhtShadowRecordMap<Format<VARIABLE, VARIABLE, Named>, Global, Modulo>;

fn namespace(number: u16) -> Namespace {
    Namespace::new(number % Namespace::COUNT).expect("below the number of them")
}

fn with_namespace(mut key: Key) -> Key {
    key.namespace %= Namespace::COUNT;
    key
}

/// Returns the result of an insert: the value before, or an error if the key is hidden.
fn before(state: Option<&State>) -> Result<Option<Vec<u8>>, Error> {
    match state {
        None => Ok(None),
        Some(State::Present(value)) => Ok(Some(value.clone())),
        Some(State::Hidden(_)) => Err(Error::Shadowed),
    }
}

fn visible(state: Option<&State>) -> Option<Vec<u8>> {
    before(state).unwrap_or(None)
}

fn on_records(operations: Vec<Operation>) {
    let builder = DlhtMap::<u64, u64>::builder().hasher(Modulo).initial_bins(2);
    let map: Records = builder.growth_factor(2).build_shadow_records(Global).expect("valid");
    let mut model: BTreeMap<Key, State> = BTreeMap::new();
    for operation in operations {
        match operation {
            Operation::Put(key, value) => {
                let key = with_namespace(key);
                let done = map.insert((namespace(key.namespace), &key.bytes), &value);
                assert_eq!(done, before(model.get(&key)));
                if done.is_ok() {
                    model.insert(key, State::Present(value));
                }
            }
            Operation::TryInsert(key, value) => {
                let key = with_namespace(key);
                let done = map.try_insert((namespace(key.namespace), &key.bytes), &value);
                assert_eq!(done.clone().map(Result::err), before(model.get(&key)));
                if done == Ok(Ok(())) {
                    model.insert(key, State::Present(value));
                }
            }
            Operation::Update(key, value) => {
                let key = with_namespace(key);
                let done = map.update((namespace(key.namespace), &key.bytes), &value);
                assert_eq!(done, Ok(visible(model.get(&key))));
                if let Some(State::Present(present)) = model.get_mut(&key) {
                    *present = value;
                }
            }
            Operation::Delete(key) => {
                let key = with_namespace(key);
                let is_present = visible(model.get(&key)).is_some();
                assert_eq!(map.delete((namespace(key.namespace), &key.bytes)), is_present);
                if is_present {
                    model.remove(&key);
                }
            }
            Operation::Get(key) => {
                let key = with_namespace(key);
                let found = map.get((namespace(key.namespace), &key.bytes));
                assert_eq!(found, visible(model.get(&key)));
            }
            Operation::Hide(key, value) => {
                let key = with_namespace(key);
                let hidden = map.shadow_insert((namespace(key.namespace), &key.bytes), &value);
                match (hidden, model.get(&key)) {
                    (Ok(shadow), None) => {
                        shadow.keep();
                        model.insert(key, State::Hidden(value));
                    }
                    (Err(Error::Present), Some(State::Present(_)))
                    | (Err(Error::Shadowed), Some(State::Hidden(_))) => {}
                    other => panic!("impossible: {other:?}"),
                }
            }
            Operation::Commit(key) => {
                let key = with_namespace(key);
                let done = map.commit_shadow((namespace(key.namespace), &key.bytes));
                match model.get_mut(&key) {
                    Some(state @ State::Hidden(_)) => {
                        assert_eq!(done, Ok(()));
                        let State::Hidden(value) = state.clone() else { unreachable!() };
                        *state = State::Present(value);
                    }
                    _ => assert_eq!(done, Err(Error::NotShadowed)),
                }
            }
            Operation::Abort(key) => {
                let key = with_namespace(key);
                let done = map.abort_shadow((namespace(key.namespace), &key.bytes));
                if matches!(model.get(&key), Some(State::Hidden(_))) {
                    assert_eq!(done, Ok(()));
                    model.remove(&key);
                } else {
                    assert_eq!(done, Err(Error::NotShadowed));
                }
            }
            Operation::GetMany(keys) => {
                let keys: Vec<Key> = keys.into_iter().map(with_namespace).collect();
                let asked: Vec<_> =
                    keys.iter().map(|key| (namespace(key.namespace), &key.bytes)).collect();
                map.pin().get_many(&asked, |at, value| {
                    assert_eq!(value.map(<[u8]>::to_vec), visible(model.get(&keys[at])));
                });
            }
            Operation::ClearNamespace(number) => {
                map.clear_namespace(namespace(number));
                let number = number % Namespace::COUNT;
                model.retain(|key, state| {
                    key.namespace != number || matches!(state, State::Hidden(_))
                });
            }
            Operation::Snapshot => {
                let cut = map.snapshot().expect("memory");
                let cut: BTreeMap<Key, Vec<u8>> = cut
                    .map(|((of, bytes), value)| (Key { namespace: of.number(), bytes }, value))
                    .collect();
                let present = model.iter().filter_map(|(key, state)| match state {
                    State::Present(value) => Some((key.clone(), value.clone())),
                    State::Hidden(_) => None,
                });
                assert_eq!(cut, present.collect());
            }
            Operation::Reserve(additional) => map.reserve(additional.into()).expect("memory"),
            Operation::Shrink => map.shrink_to_fit().expect("memory"),
        }
        let present = model.values().filter(|state| matches!(state, State::Present(_))).count();
        assert_eq!(map.len(), present);
    }
}

/// Runs the operations on maps of words. The numbers of the namespaces are the keys.
fn on_words(operations: &[Operation]) {
    let map: DlhtShadowMap<u16, u64> = DlhtShadowMap::new();
    let set: DlhtSet<u16> = DlhtSet::new();
    for operation in operations {
        match operation {
            Operation::Put(key, value) | Operation::Hide(key, value) => {
                let number = key.namespace;
                let was_there = map.get(&number).is_some();
                match map.shadow_insert(number) {
                    Ok(shadow) if value.len() % 2 == 0 => shadow.commit(value.len() as u64),
                    Ok(shadow) => drop(shadow),
                    Err(error) => assert!(was_there && error == Error::Present),
                }
                if map.contains_key(&number) {
                    assert_eq!(set.insert(number), !was_there);
                }
            }
            Operation::Delete(key) => {
                assert_eq!(map.remove(&key.namespace).is_some(), set.remove(&key.namespace));
            }
            Operation::Shrink => map.shrink_to_fit().expect("memory"),
            _ => {}
        }
    }
    assert_eq!(map.len(), set.len());
    assert!(map.iter().all(|(key, _)| set.contains(&key)));
}

fuzz_target!(|operations: Vec<Operation>| {
    on_words(&operations);
    on_records(operations);
});
