//! Maps and sets as serde's maps and sequences (feature `serde`).
//!
//! A map is written as a snapshot: a consistent cut. So a map can be written while it is in use,
//! and its length is known beforehand.

use super::{BoxedMap, BoxedSet, InlineMap, InlineSet, PeaMultiMap, WideMap, WideSet};
use crate::entry::{Inline, InlineKey, Wide, WideKey};
use crate::hash::Hashing;
use crate::table::wide::WideDesign;
use crate::table::{Design, HashesWith, Unshadowed};
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};

/// The largest room that is made before entries are read: the length that the input tells may be
/// wrong.
const TRUSTED_LENGTH: usize = 1 << 20;

impl<K, V, S: Hashing, D: HashesWith<S> + Unshadowed> Serialize for InlineMap<K, V, S, D>
where
    K: InlineKey + Serialize,
    V: Inline + Serialize,
{
    fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
        let entries: Vec<(K, V)> = self.snapshot().map_err(W::Error::custom)?.collect();
        serializer.collect_map(entries)
    }
}

impl<K: WideKey + Serialize, V: Wide + Serialize, D: WideDesign> Serialize for WideMap<K, V, D> {
    fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
        let entries: Vec<(K, V)> = self.snapshot().map_err(W::Error::custom)?.collect();
        serializer.collect_map(entries)
    }
}

impl<K, V, S, D: Design> Serialize for BoxedMap<K, V, S, D>
where
    K: Hash + Eq + Clone + Serialize,
    V: Clone + Serialize,
    S: BuildHasher,
{
    fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
        let entries: Vec<(K, V)> = self.snapshot().map_err(W::Error::custom)?.collect();
        serializer.collect_map(entries)
    }
}

impl<K: InlineKey + Serialize, S: Hashing, D: HashesWith<S> + Unshadowed> Serialize
    for InlineSet<K, S, D>
{
    fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
        let keys: Vec<K> = self.snapshot().map_err(W::Error::custom)?.collect();
        serializer.collect_seq(keys)
    }
}

impl<K: WideKey + Serialize, D: WideDesign> Serialize for WideSet<K, D> {
    fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
        let keys: Vec<K> = self.snapshot().map_err(W::Error::custom)?.collect();
        serializer.collect_seq(keys)
    }
}

impl<K: Hash + Eq + Clone + Serialize, S: BuildHasher, D: Design> Serialize for BoxedSet<K, S, D> {
    fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
        let keys: Vec<K> = self.snapshot().map_err(W::Error::custom)?.collect();
        serializer.collect_seq(keys)
    }
}

/// As a sequence of pairs, since a key may occur more than once.
impl<K, V, S: Hashing> Serialize for PeaMultiMap<K, V, S>
where
    K: InlineKey + Serialize,
    V: Inline + Serialize,
{
    fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
        let pairs: Vec<(K, V)> = self.snapshot().map_err(W::Error::custom)?.collect();
        serializer.collect_seq(pairs)
    }
}

/// Reads entries into a collection that `make` creates with this capacity.
struct Entries<T, E, F> {
    make: F,
    what: PhantomData<fn() -> (T, E)>,
}

impl<'de, K, V, T, F> Visitor<'de> for Entries<T, (K, V), F>
where
    K: Deserialize<'de>,
    V: Deserialize<'de>,
    T: Extend<(K, V)>,
    F: FnOnce(usize) -> T,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<T, A::Error> {
        let mut map = (self.make)(entries.size_hint().unwrap_or(0).min(TRUSTED_LENGTH));
        while let Some(entry) = entries.next_entry()? {
            map.extend([entry]);
        }
        Ok(map)
    }
}

/// Reads keys, or pairs, into a collection that `make` creates with this capacity.
struct Keys<T, K, F> {
    make: F,
    what: PhantomData<fn() -> (T, K)>,
}

impl<'de, K, T, F> Visitor<'de> for Keys<T, K, F>
where
    K: Deserialize<'de>,
    T: Extend<K>,
    F: FnOnce(usize) -> T,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut keys: A) -> Result<T, A::Error> {
        let mut set = (self.make)(keys.size_hint().unwrap_or(0).min(TRUSTED_LENGTH));
        while let Some(key) = keys.next_element()? {
            set.extend([key]);
        }
        Ok(set)
    }
}

impl<'de, K, V, S, D> Deserialize<'de> for InlineMap<K, V, S, D>
where
    K: InlineKey + Deserialize<'de>,
    V: Inline + Deserialize<'de>,
    S: Hashing + Default,
    D: HashesWith<S> + Unshadowed,
{
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        let make = |capacity| Self::with_capacity_and_hasher(capacity, S::default());
        deserializer.deserialize_map(Entries { make, what: PhantomData::<fn() -> (Self, (K, V))> })
    }
}

impl<'de, K, V, D> Deserialize<'de> for WideMap<K, V, D>
where
    K: WideKey + Deserialize<'de>,
    V: Wide + Deserialize<'de>,
    D: WideDesign,
{
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        let make = Self::with_capacity;
        deserializer.deserialize_map(Entries { make, what: PhantomData::<fn() -> (Self, (K, V))> })
    }
}

impl<'de, K, V, S, D: Design> Deserialize<'de> for BoxedMap<K, V, S, D>
where
    K: Hash + Eq + Deserialize<'de>,
    V: Deserialize<'de>,
    S: BuildHasher + Default,
{
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        let make = |capacity| Self::with_capacity_and_hasher(capacity, S::default());
        deserializer.deserialize_map(Entries { make, what: PhantomData::<fn() -> (Self, (K, V))> })
    }
}

impl<'de, K, S, D: HashesWith<S> + Unshadowed> Deserialize<'de> for InlineSet<K, S, D>
where
    K: InlineKey + Deserialize<'de>,
    S: Hashing + Default,
{
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        let make = |capacity| Self::with_capacity_and_hasher(capacity, S::default());
        deserializer.deserialize_seq(Keys { make, what: PhantomData::<fn() -> (Self, K)> })
    }
}

impl<'de, K: WideKey + Deserialize<'de>, D: WideDesign> Deserialize<'de> for WideSet<K, D> {
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        let make = Self::with_capacity;
        deserializer.deserialize_seq(Keys { make, what: PhantomData::<fn() -> (Self, K)> })
    }
}

impl<'de, K, S, D: Design> Deserialize<'de> for BoxedSet<K, S, D>
where
    K: Hash + Eq + Deserialize<'de>,
    S: BuildHasher + Default,
{
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        let make = |capacity| Self::with_capacity_and_hasher(capacity, S::default());
        deserializer.deserialize_seq(Keys { make, what: PhantomData::<fn() -> (Self, K)> })
    }
}

impl<'de, K, V, S> Deserialize<'de> for PeaMultiMap<K, V, S>
where
    K: InlineKey + Deserialize<'de>,
    V: Inline + Deserialize<'de>,
    S: Hashing + Default,
{
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        let make = Self::with_capacity;
        deserializer.deserialize_seq(Keys { make, what: PhantomData::<fn() -> (Self, (K, V))> })
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use crate::{
        DlhtBoxedMap, DlhtBoxedSet, DlhtMap, DlhtSet, DlhtWideMap, IcebergWideSet, PeaMultiMap,
    };

    #[test]
    fn maps_and_sets_come_back() {
        let map: DlhtMap<u32, i64> = (0..1000).map(|key| (key, -i64::from(key))).collect();
        let text = serde_json::to_string(&map).unwrap();
        let back: DlhtMap<u32, i64> = serde_json::from_str(&text).unwrap();
        assert_eq!(back.len(), 1000);
        assert!((0..1000).all(|key| back.get(&key) == Some(-i64::from(key))));

        let map: DlhtWideMap<u64, (u64, i8)> = (0..1000).map(|key| (key, (!key, -1))).collect();
        let text = serde_json::to_string(&map).unwrap();
        assert_eq!(serde_json::from_str::<DlhtWideMap<u64, (u64, i8)>>(&text).unwrap(), map);

        let map: DlhtBoxedMap<String, Vec<u8>> =
            [("a".to_owned(), vec![1]), (String::new(), vec![])].into_iter().collect();
        let text = serde_json::to_string(&map).unwrap();
        let back: DlhtBoxedMap<String, Vec<u8>> = serde_json::from_str(&text).unwrap();
        assert_eq!((back.len(), back.get("a"), back.get("")), (2, Some(vec![1]), Some(vec![])));

        let set: DlhtSet<u64> = [0, 7, u64::MAX].into_iter().collect();
        let text = serde_json::to_string(&set).unwrap();
        let back: DlhtSet<u64> = serde_json::from_str(&text).unwrap();
        assert!(back.len() == 3 && [0, 7, u64::MAX].iter().all(|key| back.contains(key)));

        let set: IcebergWideSet<u128> = [0, 7, u128::MAX].into_iter().collect();
        let text = serde_json::to_string(&set).unwrap();
        assert_eq!(serde_json::from_str::<IcebergWideSet<u128>>(&text).unwrap(), set);

        let set: DlhtBoxedSet<String> = ["a".to_owned(), String::new()].into_iter().collect();
        let text = serde_json::to_string(&set).unwrap();
        let back: DlhtBoxedSet<String> = serde_json::from_str(&text).unwrap();
        assert_eq!(back, set);

        let map: PeaMultiMap<u32, u32> = (0..100).map(|value| (value % 3, value)).collect();
        let text = serde_json::to_string(&map).unwrap();
        let back: PeaMultiMap<u32, u32> = serde_json::from_str(&text).unwrap();
        assert_eq!((back.len(), back.get_all(&2).sum::<u32>()), (100, map.get_all(&2).sum()));
    }

    /// Entries that promise to be as many as no memory could hold.
    struct Boaster(u64);

    impl Iterator for Boaster {
        type Item = (u64, u64);

        fn next(&mut self) -> Option<(u64, u64)> {
            self.0 = self.0.checked_sub(1)?;
            Some((self.0, 7))
        }

        fn size_hint(&self) -> (usize, Option<usize>) {
            (1 << 60, Some(1 << 60))
        }
    }

    /// A format may tell any length before its entries.
    #[test]
    fn lengths_that_are_told_are_not_trusted() {
        use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
        use serde::de::{Deserialize, IntoDeserializer};
        let map = DlhtMap::<u64, u64>::deserialize(MapDeserializer::<_, Error>::new(Boaster(3)));
        assert_eq!(map.map(|map| map.len()), Ok(3));
        let boxed = MapDeserializer::<_, Error>::new(Boaster(3));
        let boxed = DlhtBoxedMap::<u64, u64>::deserialize(boxed);
        assert_eq!(boxed.map(|map| map.len()), Ok(3));
        let keys = Boaster(3).map(|(key, _)| key.into_deserializer());
        let set = DlhtSet::<u64>::deserialize(SeqDeserializer::<_, Error>::new(keys));
        assert_eq!(set.map(|set| set.len()), Ok(3));
        let keys = Boaster(3).map(|(key, _)| key.into_deserializer());
        let set = DlhtBoxedSet::<u64>::deserialize(SeqDeserializer::<_, Error>::new(keys));
        assert_eq!(set.map(|set| set.len()), Ok(3));
    }

    #[test]
    fn what_is_no_map_is_refused() {
        assert!(serde_json::from_str::<DlhtMap<u32, u32>>("[1, 2]").is_err());
        assert!(serde_json::from_str::<DlhtMap<u32, u32>>(r#"{"1": "x"}"#).is_err());
        assert!(serde_json::from_str::<DlhtSet<u32>>(r#"{"1": 2}"#).is_err());
    }
}
