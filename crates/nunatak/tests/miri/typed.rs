//! Typed entries, as `durable::TypedMap` makes them of byte strings: what is decoded borrows from the
//! map's memory. The map of byte strings is one in RAM here, since Miri has no files.

use super::encodings::OneByte;
use super::small;
#[cfg(not(miri))]
use nunatak::durable::Encoding;
#[cfg(miri)]
use nunatak::encoding::Encoding;
use nunatak::{Compute, Error, TurboBlobMap};

type Key = (String, Option<u16>);
type Value = ((u8, bool, char), [u8; 3], Vec<u8>, Option<String>);

fn bytes<E: Encoding>(item: &E::Owned) -> Vec<u8> {
    let mut bytes = Vec::new();
    E::encode(E::borrow(item), &mut bytes).expect("an encoding");
    bytes
}

fn owned<E: Encoding>(bytes: &[u8]) -> Option<E::Owned> {
    E::decode(bytes).map(E::to_owned)
}

fn key(n: u8) -> Vec<u8> {
    bytes::<Key>(&("é".repeat(n as usize % 4), Some(n.into())))
}

fn value(n: u8) -> Value {
    ((n, n % 2 == 1, 'ß'), [n; 3], vec![n; n as usize], Some(n.to_string()))
}

/// A pass over the operations of a typed map.
pub(crate) fn operations(count: u8) {
    let map: TurboBlobMap = small::turbo().build_blobs().expect("valid options");
    let decoded = |bytes: &[u8]| owned::<Value>(bytes).expect("a value");
    let put = |n: u8, of: u8| map.put(&key(n), &bytes::<Value>(&value(of)));
    (0..count).for_each(|n| assert_eq!(put(n, n), Ok(false)));
    // Views stay whole for their guard, whatever becomes of the entries.
    let guard = map.pin();
    let stored: Vec<_> = (0..count).map(|n| guard.get(&key(n)).expect("present")).collect();
    let views: Vec<_> = stored.iter().map(|it| Value::decode(it).expect("a value")).collect();
    (0..count / 2).for_each(|n| assert_eq!(put(n, n + 1), Ok(true)));
    (count / 2..count - 1).for_each(|n| assert!(map.delete(&key(n))));
    for (n, view) in (0..).zip(&views) {
        let ((number, is_odd, letter), three, all, text) = view;
        assert_eq!((*number, *is_odd, *letter, *three), (n, n % 2 == 1, 'ß', &[n; 3]));
        assert!(all.iter().all(|&byte| byte == n) && *text == Some(&*n.to_string()));
    }
    drop((views, stored));
    drop(guard);
    map.reclaim();
    // Changes that look at what they replace.
    let mut before = None;
    let changed = map.compute(&key(0), |present| {
        before = present.map(|present| decoded(present));
        Compute::Put(bytes::<Value>(&value(9)))
    });
    assert!(changed.is_ok() && before == Some(value(1)));
    assert_eq!(
        map.get_with(&key(0), |it| Value::decode(it).map(|view| view.2.len())),
        Some(Some(9))
    );
    assert!(map.remove_if(&key(0), |it| decoded(it) == value(8)).is_none());
    assert!(map.remove_if(&key(0), |it| decoded(it) == value(9)).is_some());
    map.retain(|key, _| Key::decode(key).is_some_and(|(_, number)| number != Some(1)));
    let mut found: Vec<_> = map.iter().map(|(_, value)| decoded(&value).0.0).collect();
    found.sort_unstable();
    let expected: Vec<u8> = (2..count / 2).map(|n| n + 1).chain([count - 1]).collect();
    assert_eq!(found, expected);
}

/// Damaged bytes are those of another item, or of none: nothing panics, or reads beyond them.
pub(crate) fn damage() {
    let whole = bytes::<Value>(&value(5));
    assert_eq!(owned::<Value>(&whole), Some(value(5)));
    for at in 0..whole.len() {
        assert_ne!(owned::<Value>(&whole[..at]), Some(value(5)));
        let mut other = whole.clone();
        other[at] ^= 0x80;
        assert_ne!(owned::<Value>(&other), Some(value(5)));
    }
    assert_eq!(owned::<Key>(&[0xFF; 12]), None);
    assert_eq!(<(u8, String)>::WIDTH, None);
    #[cfg(feature = "serde")]
    of_serde();
}

#[cfg(feature = "serde")]
fn of_serde() {
    #[cfg(not(miri))]
    use nunatak::durable::Postcard;
    #[cfg(miri)]
    use nunatak::encoding::Postcard;
    use std::collections::BTreeMap;

    type Names = BTreeMap<String, Option<(char, i64)>>;
    let names: Names = (0..4).map(|n| (n.to_string(), (n > 1).then_some(('é', -n)))).collect();
    let whole = bytes::<Postcard<Names>>(&names);
    assert_eq!(owned::<Postcard<Names>>(&whole), Some(names));
    for at in 0..whole.len() {
        let mut other = whole.clone();
        other[at] = 0xFF;
        let (_, cut) = (owned::<Postcard<Names>>(&other), owned::<Postcard<Names>>(&whole[..at]));
        assert_eq!(cut, None);
    }
}

#[test]
fn more_entries() {
    operations(40);
}

#[test]
fn an_encoding_may_refuse() {
    let refused = Err(Error::Unencodable { what: "part of a tuple" });
    let mut bytes = Vec::new();
    assert_eq!(<(OneByte, u8)>::encode(&("ab".into(), 1), &mut bytes), refused);
}
