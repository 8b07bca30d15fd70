//! [`ByteMap`] in serde (feature `serde`): a sequence of entries, each a tuple of byte strings.
//!
//! Not a map of serde's, since in formats such as JSON the keys of a map are text. With namespaces
//! an entry has the namespace's number before its key. Byte strings are serde's bytes; what is read
//! may have a sequence of numbers, or text, instead.

use super::ByteMap;
use crate::Namespace;
use crate::entry::{Entries, Naming, OwnedKey};
use crate::table::{Design, PairTable, Unshadowed};
use core::fmt;
use core::marker::PhantomData;
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize, SerializeSeq, SerializeTuple, Serializer};

/// How many bytes are made room for before they are read: the length that the input tells may be
/// wrong.
const TRUSTED_BYTES: usize = 1 << 12;

/// A byte string in serde's form.
pub(in crate::map) struct Bytes(pub(in crate::map) Vec<u8>);

impl Serialize for Bytes {
    fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        deserializer.deserialize_byte_buf(OfBytes)
    }
}

struct OfBytes;

impl<'de> Visitor<'de> for OfBytes {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<X: serde::de::Error>(self, bytes: &[u8]) -> Result<Bytes, X> {
        Ok(Bytes(bytes.to_vec()))
    }

    fn visit_byte_buf<X: serde::de::Error>(self, bytes: Vec<u8>) -> Result<Bytes, X> {
        Ok(Bytes(bytes))
    }

    fn visit_str<X: serde::de::Error>(self, text: &str) -> Result<Bytes, X> {
        self.visit_bytes(text.as_bytes())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Bytes, A::Error> {
        let room = numbers.size_hint().unwrap_or(0).min(TRUSTED_BYTES);
        let mut bytes = Vec::with_capacity(room);
        while let Some(byte) = numbers.next_element()? {
            bytes.push(byte);
        }
        Ok(Bytes(bytes))
    }
}

/// A namespace, if keys have one; a key; a value.
struct Record<N> {
    namespace: u16,
    key: Bytes,
    value: Bytes,
    naming: PhantomData<N>,
}

impl<N: Naming> Serialize for Record<N> {
    fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
        let mut parts = serializer.serialize_tuple(2 + usize::from(N::HAS_NAMESPACES))?;
        if N::HAS_NAMESPACES {
            parts.serialize_element(&self.namespace)?;
        }
        parts.serialize_element(&self.key)?;
        parts.serialize_element(&self.value)?;
        parts.end()
    }
}

impl<'de, N: Naming> Deserialize<'de> for Record<N> {
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        let ((namespace, key), value) = match N::HAS_NAMESPACES {
            true => {
                let (namespace, key, value) = <(u16, Bytes, Bytes)>::deserialize(deserializer)?;
                Namespace::new(namespace).map_err(R::Error::custom)?;
                ((namespace, key), value)
            }
            false => {
                let (key, value) = <(Bytes, Bytes)>::deserialize(deserializer)?;
                ((0, key), value)
            }
        };
        Ok(Self { namespace, key, value, naming: PhantomData })
    }
}

/// Writes a consistent cut as a sequence of entries: tuples of a key's bytes and a value's, behind
/// the number of a namespace if keys have one. (In JSON bytes become lists of numbers.) The map may
/// be changed meanwhile. Takes 16 bytes for each entry.
impl<E: Entries, D: Design + Unshadowed> Serialize for ByteMap<E, D> {
    fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
        let guard = self.guard();
        let cut = self.table.snapshot().map_err(W::Error::custom)?;
        let pairs: Vec<(u64, u64)> = cut.collect();
        let mut records = serializer.serialize_seq(Some(pairs.len()))?;
        for pair in pairs {
            let (owned, value) = self.entry(&guard, pair);
            let key: &OwnedKey<E> = &owned;
            let (namespace, bytes) = E::Naming::parts(E::Naming::of_owned(key));
            records.serialize_element(&Record::<E::Naming> {
                namespace,
                key: Bytes(bytes.to_vec()),
                value: Bytes(value),
                naming: PhantomData,
            })?;
        }
        records.end()
    }
}

struct OfRecords<T>(PhantomData<T>);

impl<'de, E: Entries, D: Design + Unshadowed> Visitor<'de> for OfRecords<ByteMap<E, D>>
where
    ByteMap<E, D>: Default,
{
    type Value = ByteMap<E, D>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of keys with their values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut records: A) -> Result<Self::Value, A::Error> {
        // Grows with what is there; the length that the input tells may be wrong.
        let map = ByteMap::<E, D>::default();
        while let Some(record) = records.next_element::<Record<E::Naming>>()? {
            let key = E::Naming::of_parts(record.namespace, &record.key.0);
            map.put(key, &record.value.0).map_err(A::Error::custom)?;
        }
        Ok(map)
    }
}

/// Reads what [`Serialize`] writes. Makes room only for what is there, whatever length the input
/// tells. Fails if a key or a value has not the size that the map's format fixes, or memory is
/// refused.
impl<'de, E: Entries, D: Design + Unshadowed> Deserialize<'de> for ByteMap<E, D>
where
    Self: Default,
{
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        deserializer.deserialize_seq(OfRecords(PhantomData))
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use crate::entry::{Format, InPlace, Named, Plain, VARIABLE};
    use crate::{DlhtRecordMap, Namespace, TurboBlobMap};
    use serde::de::value::{Error, SeqDeserializer};
    use serde::de::{Deserialize, IntoDeserializer};

    type Namespaced = DlhtRecordMap<Format<VARIABLE, VARIABLE, Named>>;

    #[test]
    fn byte_strings_come_back() {
        let map: TurboBlobMap =
            (0..1000_u32).map(|n| (n.to_le_bytes(), vec![7; n as usize % 50])).collect();
        map.put(b"", &[0, 255]).unwrap();
        let back: TurboBlobMap =
            serde_json::from_str(&serde_json::to_string(&map).unwrap()).unwrap();
        let binary: TurboBlobMap =
            postcard::from_bytes(&postcard::to_allocvec(&map).unwrap()).unwrap();
        for back in [back, binary] {
            assert_eq!(back.len(), 1001);
            assert!(map.iter().all(|(key, value)| back.get(&key) == Some(value)));
        }

        type InPlaceMap = DlhtRecordMap<Format<VARIABLE, 8, Plain, InPlace>>;
        let map: InPlaceMap = [("a", 1_u64.to_le_bytes())].into_iter().collect();
        let text = serde_json::to_string(&map).unwrap();
        assert_eq!(text, "[[[97],[1,0,0,0,0,0,0,0]]]");
        assert_eq!(serde_json::from_str::<InPlaceMap>(&text).unwrap().get(b"a").unwrap()[0], 1);

        let of = |number| Namespace::new(number).unwrap();
        let map: Namespaced = [((of(1), "a"), "x"), ((of(4095), "a"), "y")].into_iter().collect();
        let text = serde_json::to_string(&map).unwrap();
        let back: Namespaced = serde_json::from_str(&text).unwrap();
        assert_eq!(back.len(), 2);
        assert_eq!(back.get((of(4095), b"a")), Some(b"y".to_vec()));
    }

    #[test]
    fn entries_that_are_none_are_refused() {
        let text = r#"[["a", [1, 2]], ["b", "text"]]"#;
        assert_eq!(serde_json::from_str::<TurboBlobMap>(text).unwrap().len(), 2);
        for text in ["{}", "[1]", r#"[["a"]]"#, r#"[["a", [256]]]"#, r#"[["a", "b", "c"]]"#] {
            assert!(serde_json::from_str::<TurboBlobMap>(text).is_err(), "{text}");
        }
        let named = r#"[[4096, "a", "b"]]"#;
        assert!(
            serde_json::from_str::<Namespaced>(named).unwrap_err().to_string().contains("4095")
        );
        // The format fixes sizes.
        assert!(serde_json::from_str::<DlhtRecordMap<Format<8, 8>>>(r#"[["a", "b"]]"#).is_err());
    }

    /// A sequence of so many numbers, which promises to be as long as no memory could hold.
    #[derive(Clone, Copy)]
    struct Boaster(u8);

    impl Iterator for Boaster {
        type Item = u8;

        fn next(&mut self) -> Option<u8> {
            self.0 = self.0.checked_sub(1)?;
            Some(self.0)
        }

        fn size_hint(&self) -> (usize, Option<usize>) {
            (1 << 60, Some(1 << 60))
        }
    }

    impl<'de> IntoDeserializer<'de, Error> for Boaster {
        type Deserializer = SeqDeserializer<Self, Error>;

        fn into_deserializer(self) -> Self::Deserializer {
            SeqDeserializer::new(self)
        }
    }

    #[test]
    fn lengths_that_are_told_are_not_trusted() {
        struct Entries(Boaster);
        impl Iterator for Entries {
            type Item = SeqDeserializer<std::array::IntoIter<Boaster, 2>, Error>;

            fn next(&mut self) -> Option<Self::Item> {
                self.0.next().map(|n| SeqDeserializer::new([Boaster(n), Boaster(3)].into_iter()))
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }
        }
        let map: TurboBlobMap =
            Deserialize::deserialize(SeqDeserializer::new(Entries(Boaster(3)))).unwrap();
        assert_eq!((map.len(), map.get(&[1, 0])), (3, Some(vec![2, 1, 0])));
        // A binary format tells the length of a string, and of the sequence, before its bytes.
        for bytes in [&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F][..], &[1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 1]] {
            assert!(postcard::from_bytes::<TurboBlobMap>(bytes).is_err());
        }
    }
}
