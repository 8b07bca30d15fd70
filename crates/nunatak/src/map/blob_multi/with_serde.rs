//! [`PeaBlobMultiMap`] in serde (feature `serde`): a sequence of pairs of a byte string and a value.

use super::PeaBlobMultiMap;
use crate::entry::Inline;
use crate::map::bytes::with_serde::Bytes;
use core::fmt;
use core::hash::BuildHasher;
use core::marker::PhantomData;
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};

/// Writes a consistent cut as a sequence of pairs: the bytes of a key, and a value. (In JSON bytes
/// become lists of numbers.) The map may be changed meanwhile.
impl<V, S> Serialize for PeaBlobMultiMap<V, S>
where
    V: Inline + Serialize,
    S: BuildHasher + Send + Sync + 'static,
{
    fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
        let pairs: Vec<(Vec<u8>, V)> = self.snapshot().map_err(W::Error::custom)?.collect();
        serializer.collect_seq(pairs.into_iter().map(|(key, value)| (Bytes(key), value)))
    }
}

struct Pairs<V, S>(PhantomData<(V, S)>);

impl<'de, V, S> Visitor<'de> for Pairs<V, S>
where
    V: Inline + Deserialize<'de>,
    S: BuildHasher + Default + Send + Sync + 'static,
{
    type Value = PeaBlobMultiMap<V, S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of keys with a value each")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pairs: A) -> Result<Self::Value, A::Error> {
        // Grows with what is there; the length that the input tells may be wrong.
        let map = PeaBlobMultiMap::default();
        while let Some((key, value)) = pairs.next_element::<(Bytes, V)>()? {
            map.insert(&key.0, value).map_err(A::Error::custom)?;
        }
        Ok(map)
    }
}

/// Reads what [`Serialize`] writes. Makes room only for what is there, whatever length the input
/// tells. Fails if memory is refused.
impl<'de, V, S> Deserialize<'de> for PeaBlobMultiMap<V, S>
where
    V: Inline + Deserialize<'de>,
    S: BuildHasher + Default + Send + Sync + 'static,
{
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        deserializer.deserialize_seq(Pairs(PhantomData))
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back() {
        let map: PeaBlobMultiMap<i32> = [("a", 1), ("", -2), ("a", 1)].into_iter().collect();
        let text = serde_json::to_string(&map).unwrap();
        let back: PeaBlobMultiMap<i32> = serde_json::from_str(&text).unwrap();
        assert_eq!((back.len(), back.get(b"")), (3, Some(-2)));
        assert_eq!(back.get_all(b"a").collect::<Vec<_>>(), [1, 1]);
        // Text for a key is taken; what is no sequence of pairs is not.
        let back: PeaBlobMultiMap<i32> = serde_json::from_str(r#"[["b", 5]]"#).unwrap();
        assert_eq!(back.get(b"b"), Some(5));
        assert!(serde_json::from_str::<PeaBlobMultiMap<i32>>(r#"{"b": 5}"#).is_err());
        assert!(serde_json::from_str::<PeaBlobMultiMap<i32>>(r#"[["b"]]"#).is_err());
    }
}
