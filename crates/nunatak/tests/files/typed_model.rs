//! Typed maps in files, compared with `std::collections::HashMap`.

use crate::temporary::Temporary;
use nunatak::Compute;
use nunatak::durable::{Encoding, KeyEncoding, Options, TypedMap};
use proptest::prelude::*;
use std::collections::HashMap;
use std::hash::Hash;

fn small() -> Options {
    Options::new().shards(2)
}

/// One step of a random sequence.
#[derive(Debug, Clone)]
enum Step<K, V> {
    Insert(K, V),
    TryInsert(K, V),
    Update(K, V),
    Put(K, V),
    Append(K, V),
    Exchange(K, V, V),
    GetOrInsert(K, V),
    Remove(K),
    RemoveIf(K, V),
    Many(Vec<(K, Option<V>)>),
    Retain(V),
    Reopen,
}

fn step<K, V>(
    keys: impl Strategy<Value = K> + Clone + 'static,
    values: impl Strategy<Value = V> + Clone + 'static,
) -> impl Strategy<Value = Step<K, V>>
where
    K: core::fmt::Debug + Clone + 'static,
    V: core::fmt::Debug + Clone + 'static,
{
    let both = (keys.clone(), values.clone());
    let some = proptest::option::of(values.clone());
    let many = proptest::collection::vec((keys.clone(), some), 0..8);
    prop_oneof![
        both.clone().prop_map(|(key, value)| Step::Insert(key, value)),
        both.clone().prop_map(|(key, value)| Step::TryInsert(key, value)),
        both.clone().prop_map(|(key, value)| Step::Update(key, value)),
        both.clone().prop_map(|(key, value)| Step::Put(key, value)),
        both.clone().prop_map(|(key, value)| Step::Append(key, value)),
        (keys.clone(), values.clone(), values.clone())
            .prop_map(|(key, current, new)| Step::Exchange(key, current, new)),
        both.clone().prop_map(|(key, value)| Step::GetOrInsert(key, value)),
        keys.clone().prop_map(Step::Remove),
        both.prop_map(|(key, value)| Step::RemoveIf(key, value)),
        many.prop_map(Step::Many),
        values.prop_map(Step::Retain),
        Just(Step::Reopen),
    ]
}

/// Compares a map with one of the standard library.
fn compare<K, V>(steps: Vec<Step<K::Owned, V::Owned>>)
where
    K: KeyEncoding<Owned: Clone + Eq + Hash + core::fmt::Debug>,
    V: Encoding<Owned: Clone + PartialEq + core::fmt::Debug>,
    V::Ref: PartialEq,
{
    let directory = Temporary::new();
    let mut map = TypedMap::<K, V>::create_with(directory.path(), &small()).unwrap();
    let mut model = HashMap::<K::Owned, V::Owned>::new();
    for step in steps {
        match step {
            Step::Insert(key, value) => {
                let before = map.insert(K::borrow(&key), V::borrow(&value)).unwrap();
                assert_eq!(before, model.insert(key, value));
            }
            Step::TryInsert(key, value) => {
                let inserted = map.try_insert(K::borrow(&key), V::borrow(&value)).unwrap();
                assert_eq!(inserted.err(), model.get(&key).cloned());
                model.entry(key).or_insert(value);
            }
            Step::Update(key, value) => {
                let before = map.update(K::borrow(&key), V::borrow(&value)).unwrap();
                let present = model.get_mut(&key);
                assert_eq!(before, present.map(|present| core::mem::replace(present, value)));
            }
            Step::Put(key, value) => {
                let replaced = map.put(K::borrow(&key), V::borrow(&value)).unwrap();
                assert_eq!(replaced, model.insert(key, value).is_some());
            }
            // Stores a value if the key is absent, removes it if it has this value, keeps it
            // otherwise.
            Step::Append(key, value) => {
                let change = |present: Option<&V::Owned>| match present {
                    None => Compute::Put(value.clone()),
                    Some(present) if *present == value => Compute::Remove,
                    Some(_) => Compute::Keep,
                };
                let before = map.compute(K::borrow(&key), change).unwrap();
                assert_eq!(before, model.get(&key).cloned());
                match change(before.as_ref()) {
                    Compute::Put(new) => drop(model.insert(key, new)),
                    Compute::Remove => drop(model.remove(&key)),
                    Compute::Keep => {}
                }
            }
            Step::Exchange(key, current, new) => {
                let (current, key_ref) = (V::borrow(&current), K::borrow(&key));
                let exchanged = map.compare_exchange(key_ref, current, V::borrow(&new)).unwrap();
                let expected = match model.get(&key).cloned() {
                    Some(present) if V::borrow(&present) == current => {
                        model.insert(key, new);
                        Ok(present)
                    }
                    other => Err(other),
                };
                assert_eq!(exchanged, expected);
            }
            Step::GetOrInsert(key, value) => {
                let found = map.get_or_insert_with(K::borrow(&key), || value.clone()).unwrap();
                assert_eq!(found, *model.entry(key).or_insert(value));
            }
            Step::Remove(key) => {
                assert_eq!(map.remove(K::borrow(&key)).unwrap(), model.remove(&key));
                assert_eq!(map.contains_key(K::borrow(&key)), Ok(false));
            }
            Step::RemoveIf(key, value) => {
                let is_value = |present: &V::Owned| *present == value;
                let removed = map.remove_if(K::borrow(&key), is_value).unwrap();
                let expected = model.get(&key).cloned().filter(is_value);
                assert_eq!(removed, expected);
                expected.and_then(|_| model.remove(&key));
            }
            Step::Many(changes) => {
                let borrowed = changes
                    .iter()
                    .map(|(key, value)| (K::borrow(key), value.as_ref().map(V::borrow)));
                map.write_batch(&borrowed.collect::<Vec<_>>()).unwrap();
                for (key, value) in changes {
                    match value {
                        Some(value) => drop(model.insert(key, value)),
                        None => drop(model.remove(&key)),
                    }
                }
            }
            Step::Retain(value) => {
                map.retain(|_, present| V::to_owned(present) != value).unwrap();
                model.retain(|_, present| *present != value);
            }
            Step::Reopen => {
                map.close().unwrap();
                map = TypedMap::open_with(directory.path(), &small()).unwrap();
            }
        }
        assert_eq!(map.len(), model.len());
    }
    let keys: Vec<K::Owned> = model.keys().cloned().collect();
    let values: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
    let borrowed: Vec<&K::Ref> = keys.iter().map(K::borrow).collect();
    assert_eq!(map.get_many(&borrowed).unwrap(), values);
    assert_eq!(map.verify(), Ok(model.len()));
    for entries in [map.iter().collect::<Vec<_>>(), map.snapshot().unwrap().collect()] {
        let entries: HashMap<_, _> = entries.into_iter().map(Result::unwrap).collect();
        assert!(entries == model, "{entries:?} instead of {model:?}");
    }
    let guard = map.pin();
    for entry in guard.iter() {
        let (key, value) = entry.unwrap();
        assert_eq!(model.get(&K::to_owned(key)), Some(&V::to_owned(value)));
    }
    let entries: Vec<_> =
        model.iter().map(|(key, value)| (K::borrow(key), V::borrow(value))).collect();
    assert_eq!(map.insert_many(&entries), Ok(0));
    assert_eq!(map.remove_many(&borrowed), Ok(keys.len()));
    assert!(map.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn strings_by_numbers_are_as_in_std(steps in prop::collection::vec(step(0..12_u64, ".{0,3}"), 0..60)) {
        compare::<u64, String>(steps);
    }

    #[test]
    fn bytes_by_tuples_are_as_in_std(
        steps in prop::collection::vec(step(("[ab]{0,2}", any::<bool>()), prop::collection::vec(0..3_u8, 0..3)), 0..60)
    ) {
        compare::<(String, bool), Vec<u8>>(steps);
    }

    #[test]
    fn options_by_characters_are_as_in_std(
        steps in prop::collection::vec(step(
            prop::option::of(prop::char::range('a', 'd')),
            (0..3_i32, prop::option::of("[xy]{0,1}")),
        ), 0..60)
    ) {
        compare::<Option<char>, (i32, Option<String>)>(steps);
    }
}

#[cfg(feature = "serde")]
mod of_serde {
    use super::*;
    use nunatak::durable::Postcard;
    use serde::{Deserialize, Serialize};
    use std::collections::{BTreeMap, BTreeSet};

    #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
    enum Name {
        Number(u32),
        Path { parts: Vec<String>, flags: BTreeSet<u8> },
        Nobody,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Value {
        ratio: Option<f32>,
        named: BTreeMap<String, i64>,
        both: (char, ()),
    }

    fn name() -> impl Strategy<Value = Name> + Clone {
        prop_oneof![
            (0..3_u32).prop_map(Name::Number),
            (prop::collection::vec("[ab]?", 0..2), prop::collection::btree_set(0..2_u8, 0..2))
                .prop_map(|(parts, flags)| Name::Path { parts, flags }),
            Just(Name::Nobody),
        ]
        .boxed()
    }

    fn value() -> impl Strategy<Value = Value> + Clone {
        let ratio = prop::option::of(prop::num::f32::NORMAL);
        let named = prop::collection::btree_map("[a-c]", any::<i64>(), 0..2);
        (ratio, named, any::<char>())
            .prop_map(|(ratio, named, letter)| Value { ratio, named, both: (letter, ()) })
            .boxed()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn serde_structs_are_as_in_std(
            steps in prop::collection::vec(step(name(), value()), 0..60)
        ) {
            compare::<Postcard<Name>, Postcard<Value>>(steps);
        }
    }
}
