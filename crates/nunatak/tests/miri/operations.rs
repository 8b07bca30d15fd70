//! The operations that all maps have, one after the other, with their expected results.

use core::fmt::Debug;
use nunatak::{Compute, ConcurrentMap, Op, Outcome, Request, Stop};

/// Keys and values of one kind.
pub(crate) trait Content: Sync {
    type Key: Clone + Debug + Send + Sync;
    type Value: Clone + PartialEq + Debug + Send + Sync;

    fn key(number: u32) -> Self::Key;

    fn number(key: &Self::Key) -> u32;

    /// The `n`th value of a key.
    fn value(number: u32, n: u32) -> Self::Value;

    fn is_value_of(value: &Self::Value, number: u32) -> bool;
}

/// Integers.
pub(crate) struct Numbers;

impl Content for Numbers {
    type Key = u32;
    type Value = u32;

    fn key(number: u32) -> u32 {
        number
    }

    fn number(key: &u32) -> u32 {
        *key
    }

    fn value(number: u32, n: u32) -> u32 {
        number << 8 | (n & 0xFF)
    }

    fn is_value_of(value: &u32, number: u32) -> bool {
        value >> 8 == number
    }
}

/// Integers, with values of two words.
pub(crate) struct WideNumbers;

impl Content for WideNumbers {
    type Key = u32;
    type Value = (u32, u32);

    fn key(number: u32) -> u32 {
        number
    }

    fn number(key: &u32) -> u32 {
        *key
    }

    fn value(number: u32, n: u32) -> (u32, u32) {
        (Numbers::value(number, n), !Numbers::value(number, n))
    }

    fn is_value_of(value: &(u32, u32), number: u32) -> bool {
        value.0 == !value.1 && Numbers::is_value_of(&value.0, number)
    }
}

/// Keys and values on the heap.
pub(crate) struct Strings;

impl Content for Strings {
    type Key = String;
    type Value = Box<(u32, u32)>;

    fn key(number: u32) -> String {
        number.to_string()
    }

    fn number(key: &String) -> u32 {
        key.parse().expect("a number")
    }

    fn value(number: u32, n: u32) -> Box<(u32, u32)> {
        Box::new((number, n))
    }

    fn is_value_of(value: &Box<(u32, u32)>, number: u32) -> bool {
        value.0 == number
    }
}

/// Returns the number at the beginning of a byte string.
fn first(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Byte strings, of several lengths.
pub(crate) struct ByteStrings;

impl Content for ByteStrings {
    type Key = Vec<u8>;
    type Value = Vec<u8>;

    fn key(number: u32) -> Vec<u8> {
        let mut key = number.to_le_bytes().to_vec();
        key.resize(4 + number as usize % 9, 7);
        key
    }

    fn number(key: &Vec<u8>) -> u32 {
        first(key)
    }

    fn value(number: u32, n: u32) -> Vec<u8> {
        let mut value = number.to_le_bytes().to_vec();
        value.resize(4 + (n as usize % 5) * 9, n as u8);
        value
    }

    fn is_value_of(value: &Vec<u8>, number: u32) -> bool {
        first(value) == number
    }
}

/// Byte strings of one length: keys that fit a slot, and their values.
pub(crate) struct Fixed;

impl Content for Fixed {
    type Key = Vec<u8>;
    type Value = Vec<u8>;

    fn key(number: u32) -> Vec<u8> {
        u64::from(number).to_le_bytes().to_vec()
    }

    fn number(key: &Vec<u8>) -> u32 {
        first(key)
    }

    fn value(number: u32, n: u32) -> Vec<u8> {
        [number.to_le_bytes(), n.to_le_bytes(), [3; 4]].concat()
    }

    fn is_value_of(value: &Vec<u8>, number: u32) -> bool {
        first(value) == number
    }
}

/// Runs all operations on an empty map that gets `count` entries; drops it with some left.
pub(crate) fn all<C: Content, M: ConcurrentMap<C::Key, C::Value>>(map: M, count: u32) {
    single::<C, M>(&map, count);
    batches::<C, M>(&map, count);
    cuts::<C, M>(&map, count);
    map.clear();
    assert!(map.is_empty() && map.get(&C::key(0)).is_none());
    map.shrink_to_fit().expect("room for a smaller table");
    (0..count).for_each(|n| drop(map.insert(C::key(n), C::value(n, 2))));
    assert!(map.load_factor() > 0.0 && map.memory_usage().mapped > 0);
    let _ = format!("{:?}", map.stats());
}

/// Operations on one key while the map grows from nothing. Leaves all keys but 0.
pub(crate) fn single<C: Content, M: ConcurrentMap<C::Key, C::Value>>(map: &M, count: u32) {
    for number in 0..count {
        let key = C::key(number);
        let value = |n| C::value(number, n);
        assert_eq!(map.insert(key.clone(), value(0)), None);
        assert_eq!(map.get(&key), Some(value(0)));
        match number % 8 {
            0 => {
                assert_eq!(map.try_insert(key.clone(), value(1)), Err(value(0)));
                assert_eq!(map.remove(&key), Some(value(0)));
                assert_eq!(map.try_insert(key.clone(), value(1)), Ok(()));
                assert_eq!(map.insert(key.clone(), value(0)), Some(value(1)));
            }
            1 => {
                assert_eq!(map.update(&key, value(1)), Some(value(0)));
                assert_eq!(map.update(&C::key(count), C::value(count, 0)), None);
                assert_eq!(map.update(&key, value(0)), Some(value(1)));
            }
            2 => {
                let wrong = map.compare_exchange(&key, &value(3), value(4));
                assert_eq!(wrong, Err(Some(value(0))));
                assert_eq!(map.compare_exchange(&key, &value(0), value(4)), Ok(value(0)));
                assert_eq!(map.fetch_update(&key, |_| Some(value(0))), Ok(value(4)));
                assert_eq!(map.fetch_update(&key, |_| None), Err(Some(value(0))));
            }
            3 => {
                let before = map.compute(key.clone(), |_| Compute::Put(value(2)));
                assert_eq!(before, Some(value(0)));
                assert_eq!(map.compute(key.clone(), |_| Compute::Remove), Some(value(2)));
                assert_eq!(map.compute(key.clone(), |_| Compute::Keep), None);
                assert_eq!(map.compute(key.clone(), |_| Compute::Put(value(0))), None);
            }
            4 => {
                assert_eq!(map.remove_if(&key, |_| false), None);
                assert_eq!(map.remove_if(&key, |found| *found == value(0)), Some(value(0)));
                assert_eq!(map.remove_if(&key, |_| true), None);
                assert_eq!(map.get_or_insert_with(key.clone(), || value(0)), value(0));
                assert_eq!(map.get_or_insert_with(key.clone(), || value(1)), value(0));
            }
            5 => {
                // A closure that uses the map.
                map.compute(key.clone(), |present| {
                    assert_eq!(map.get(&key).as_ref(), present);
                    Compute::Keep
                });
            }
            _ => assert!(!map.contains_key(&C::key(count)) && map.contains_key(&key)),
        }
        map.prefetch(&key);
    }
    assert_eq!(map.len(), count as usize);
    assert_eq!(map.remove(&C::key(0)), Some(C::value(0, 0)));
    assert_eq!(map.remove(&C::key(0)), None);
    (1..count).for_each(|n| assert_eq!(map.get(&C::key(n)), Some(C::value(n, 0)), "{n}"));
}

/// Batches on a map of all keys but 0, which they leave as it was.
fn batches<C: Content, M: ConcurrentMap<C::Key, C::Value>>(map: &M, count: u32) {
    let keys: Vec<_> = (0..count.min(20)).map(C::key).collect();
    let mut values = vec![None; keys.len()];
    assert_eq!(map.get_many(&keys, &mut values), Ok(keys.len() - 1));
    assert_eq!(values[1], Some(C::value(1, 0)));
    assert!(map.get_many(&keys, &mut values[1..]).is_err());
    assert_eq!(map.remove_many(&keys, &mut values), Ok(keys.len() - 1));
    let entries: Vec<_> = (0..keys.len() as u32).map(|n| (C::key(n), C::value(n, 0))).collect();
    assert_eq!(map.insert_many(&entries, &mut values), Ok(keys.len()));
    assert_eq!(map.insert_many(&entries[..3], &mut values), Ok(0));
    let mut operations = [
        Op::new(Request::Get(C::key(1))),
        Op::new(Request::Insert(C::key(1), C::value(1, 1))),
        Op::new(Request::Update(C::key(1), C::value(1, 2))),
        Op::new(Request::TryInsert(C::key(0), C::value(0, 1))),
        Op::new(Request::Remove(C::key(0))),
        Op::new(Request::Remove(C::key(0))),
        Op::new(Request::TryInsert(C::key(count), C::value(count, 0))),
        Op::new(Request::Remove(C::key(count))),
        Op::new(Request::Insert(C::key(1), C::value(1, 0))),
    ];
    assert_eq!(map.execute(&mut operations[..4], Stop::AtFirstFailure), 4);
    assert_eq!(map.execute(&mut operations, Stop::Never), 9);
    let outcomes = operations.map(|operation| operation.outcome);
    assert_eq!(outcomes[1], Outcome::Replaced(C::value(1, 2)));
    assert_eq!(outcomes[3], Outcome::Occupied(C::value(0, 0)));
    assert_eq!(outcomes[4], Outcome::Removed(C::value(0, 0)));
    assert_eq!(outcomes[5..7], [Outcome::Missing, Outcome::Inserted]);
}

/// Operations on the whole of a changing map with all keys but 0. Leaves the odd keys.
fn cuts<C: Content, M: ConcurrentMap<C::Key, C::Value>>(map: &M, count: u32) {
    let sorted = |entries: Vec<(C::Key, C::Value)>| {
        let mut numbers: Vec<_> = entries.iter().map(|(key, _)| C::number(key)).collect();
        numbers.sort_unstable();
        numbers
    };
    let all: Vec<_> = (1..count).collect();
    assert_eq!(sorted(map.iter().collect()), all);
    let mut cut = map.snapshot().expect("room for a cut");
    let mut seen = vec![cut.next().expect("an entry")];
    (1..count / 2).for_each(|n| drop(map.remove(&C::key(n))));
    (1..count / 2).for_each(|n| drop(map.insert(C::key(n), C::value(n, 1))));
    seen.extend(cut.by_ref());
    assert_eq!(sorted(seen), all);
    drop(cut);
    // Growth and removal while an iterator has begun; a snapshot that is dropped early.
    let mut entries = map.iter();
    let _ = entries.next();
    map.reserve(2 * count as usize).expect("room for more");
    map.retain(|key, _| C::number(key) % 2 == 1);
    assert!(entries.by_ref().count() >= count as usize / 2 - 1);
    drop(entries);
    drop(map.snapshot().expect("room for a cut").next());
    assert_eq!(map.len(), count as usize / 2);
    map.shrink_to_fit().expect("room for a smaller table");
    (1..count).for_each(|n| assert_eq!(map.contains_key(&C::key(n)), n % 2 == 1));
}
