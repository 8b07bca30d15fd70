//! The operations of clients, which follow from their numbers, and what they leave.

use crate::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a key has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// A string, and when it expires; -1 if never.
    Text(String, i64),
    Hash(BTreeMap<String, String>),
    Set(BTreeSet<String>),
}

pub(super) type Contents = BTreeMap<String, Value>;

/// What an operation does, to keys of its client.
enum Action {
    Set {
        key: String,
        value: String,
        deadline: i64,
    },
    SetMany {
        keys: Vec<String>,
        value: String,
    },
    Expire {
        key: String,
        deadline: i64,
    },
    Persist {
        key: String,
    },
    Remove {
        key: String,
    },
    Rename {
        from: String,
        to: String,
    },
    Count {
        key: String,
        by: i64,
    },
    SetFields {
        key: String,
        fields: [String; 2],
        value: String,
    },
    RemoveField {
        key: String,
        field: String,
    },
    AddMembers {
        key: String,
        members: [String; 2],
    },
    RemoveMember {
        key: String,
        member: String,
    },
    /// A transaction over several keys, and one that all clients share.
    Block {
        strings: Vec<String>,
        hash: String,
        set: String,
        removed: String,
        value: String,
    },
    /// A string that expires before the next machine looks.
    Short {
        key: String,
    },
}

/// The year 2200 and some milliseconds.
const FAR: u64 = 7_258_118_400_000;

fn choose(client: u64, number: u64) -> Action {
    let mut random = Random::new((client << 40) | number);
    let mut key = |kind: &str, count| format!("{client}:{kind}{}", random.below(count));
    let (string, other) = (key("s", 300), key("s", 300));
    let (hash, set) = (key("h", 12), key("t", 12));
    let strings = (0..5).map(|_| key("s", 300)).collect();
    let item = |random: &mut Random| format!("item{}", random.below(30));
    let (one, two) = (item(&mut random), item(&mut random));
    let length = if random.once_in(40) { 6000 } else { random.below(120) };
    let value = format!("{number}{}", "x".repeat(length as usize));
    let deadline = (FAR + number) as i64;
    match random.below(20) {
        0..=4 => Action::Set { key: string, value, deadline: -1 },
        5 => Action::Set { key: string, value, deadline },
        6 => Action::Expire { key: string, deadline },
        7 => Action::Persist { key: string },
        8 | 9 => Action::Remove { key: string },
        10 => Action::Rename { from: string, to: other },
        11 => Action::Count { key: format!("{client}:i"), by: number as i64 },
        12 => Action::SetFields { key: hash, fields: [one, two], value },
        13 => Action::RemoveField { key: hash, field: one },
        14 => Action::AddMembers { key: set, members: [one, two] },
        15 => Action::RemoveMember { key: set, member: one },
        16 => Action::SetMany { keys: strings, value },
        17 => Action::Short { key: format!("{client}:short") },
        _ => Action::Block { strings, hash, set, removed: string, value },
    }
}

/// The key that tells the last transaction.
fn last_of(client: u64) -> String {
    format!("{client}:last")
}

/// Returns the commands of an operation.
pub(super) fn commands(client: u64, number: u64) -> Vec<Vec<String>> {
    let line = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    vec![match choose(client, number) {
        Action::Set { key, value, deadline: -1 } => line(&["SET", &key, &value]),
        Action::Set { key, value, deadline } => {
            line(&["SET", &key, &value, "PXAT", &deadline.to_string()])
        }
        Action::SetMany { keys, value } => {
            let pairs = keys.iter().flat_map(|key| [key.clone(), value.clone()]);
            ["MSET".to_string()].into_iter().chain(pairs).collect()
        }
        Action::Expire { key, deadline } => line(&["PEXPIREAT", &key, &deadline.to_string()]),
        Action::Persist { key } => line(&["PERSIST", &key]),
        Action::Remove { key } => line(&["DEL", &key]),
        Action::Rename { from, to } => line(&["RENAME", &from, &to]),
        Action::Count { key, by } => line(&["INCRBY", &key, &by.to_string()]),
        Action::SetFields { key, fields: [one, two], value } => {
            line(&["HSET", &key, &one, &value, &two, &value])
        }
        Action::RemoveField { key, field } => line(&["HDEL", &key, &field]),
        Action::AddMembers { key, members: [one, two] } => line(&["SADD", &key, &one, &two]),
        Action::RemoveMember { key, member } => line(&["SREM", &key, &member]),
        Action::Short { key } => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            line(&["SET", &key, "x", "PXAT", &(now.as_millis() + 100).to_string()])
        }
        Action::Block { strings, hash, set, removed, value } => {
            let mut all =
                vec![line(&["MULTI"]), line(&["SET", &last_of(client), &number.to_string()])];
            all.extend(strings.iter().map(|key| line(&["SET", key, &value])));
            all.push(line(&["HSET", &hash, "block", &value]));
            all.push(line(&["SADD", &set, &format!("block{}", number % 30)]));
            all.push(line(&["DEL", &removed]));
            all.push(line(&["INCR", "shared"]));
            all.push(line(&["EXEC"]));
            return all;
        }
    }]
}

/// Returns how many of the first operations of a client are transactions.
pub(super) fn blocks(client: u64, count: u64) -> u64 {
    (0..count).filter(|&number| matches!(choose(client, number), Action::Block { .. })).count()
        as u64
}

fn set_fields<'f>(
    now: &mut Contents,
    key: &str,
    fields: impl Iterator<Item = &'f str>,
    value: &str,
) {
    let empty = || Value::Hash(BTreeMap::new());
    if let Value::Hash(all) = now.entry(key.to_string()).or_insert_with(empty) {
        all.extend(fields.map(|field| (field.to_string(), value.to_string())));
    }
}

fn add_members(now: &mut Contents, key: &str, members: impl Iterator<Item = String>) {
    let empty = || Value::Set(BTreeSet::new());
    if let Value::Set(all) = now.entry(key.to_string()).or_insert_with(empty) {
        all.extend(members);
    }
}

/// Applies an operation, and returns the keys that it may have changed.
pub(super) fn apply(client: u64, number: u64, now: &mut Contents) -> Vec<String> {
    match choose(client, number) {
        Action::Set { key, value, deadline } => {
            now.insert(key.clone(), Value::Text(value, deadline));
            vec![key]
        }
        Action::SetMany { keys, value } => {
            let texts = keys.iter().map(|key| (key.clone(), Value::Text(value.clone(), -1)));
            now.extend(texts);
            keys
        }
        Action::Expire { key, deadline: later } => {
            if let Some(Value::Text(_, deadline)) = now.get_mut(&key) {
                *deadline = later;
            }
            vec![key]
        }
        Action::Persist { key } => {
            if let Some(Value::Text(_, deadline)) = now.get_mut(&key) {
                *deadline = -1;
            }
            vec![key]
        }
        Action::Remove { key } => {
            now.remove(&key);
            vec![key]
        }
        Action::Rename { from, to } => {
            if let Some(value) = now.remove(&from) {
                now.insert(to.clone(), value);
            }
            vec![from, to]
        }
        Action::Count { key, by } => {
            let count = match now.get(&key) {
                Some(Value::Text(count, _)) => count.parse::<i64>().unwrap_or_default(),
                _ => 0,
            };
            now.insert(key.clone(), Value::Text((count + by).to_string(), -1));
            vec![key]
        }
        Action::SetFields { key, fields, value } => {
            set_fields(now, &key, fields.iter().map(String::as_str), &value);
            vec![key]
        }
        Action::RemoveField { key, field } => {
            if let Some(Value::Hash(all)) = now.get_mut(&key) {
                all.remove(&field);
                if all.is_empty() {
                    now.remove(&key);
                }
            }
            vec![key]
        }
        Action::AddMembers { key, members } => {
            add_members(now, &key, members.into_iter());
            vec![key]
        }
        Action::RemoveMember { key, member } => {
            if let Some(Value::Set(all)) = now.get_mut(&key) {
                all.remove(&member);
                if all.is_empty() {
                    now.remove(&key);
                }
            }
            vec![key]
        }
        Action::Block { strings, hash, set, removed, value } => {
            now.insert(last_of(client), Value::Text(number.to_string(), -1));
            now.extend(strings.iter().map(|key| (key.clone(), Value::Text(value.clone(), -1))));
            set_fields(now, &hash, ["block"].into_iter(), &value);
            add_members(now, &set, [format!("block{}", number % 30)].into_iter());
            now.remove(&removed);
            let mut keys = strings;
            keys.extend([last_of(client), hash, set, removed]);
            keys
        }
        Action::Short { .. } => vec![],
    }
}
