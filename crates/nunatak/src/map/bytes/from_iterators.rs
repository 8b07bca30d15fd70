//! [`ByteMap`] from iterators.

use super::ByteMap;
use crate::entry::{Entries, KeyOf};
use crate::table::{Design, Unshadowed};

/// Stores entries; a later entry replaces an earlier one of its key. Keys are anything with bytes
/// or, with namespaces, a pair of a namespace and such a type; values are anything with bytes.
///
/// # Panics
/// If memory is refused, or a key or a value has not the size that the format fixes.
/// [`put`](ByteMap::put) and [`put_many`](ByteMap::put_many) return an error instead.
///
/// ```
/// use nunatak::TurboBlobMap;
/// let mut map = TurboBlobMap::new();
/// map.extend([("a", "1"), ("b", "2"), ("a", "3")]);
/// assert_eq!((map.len(), map.get(b"a")), (2, Some(b"3".to_vec())));
/// ```
impl<E, D, K, V> Extend<(K, V)> for ByteMap<E, D>
where
    E: Entries,
    D: Design + Unshadowed,
    K: KeyOf<E::Naming>,
    V: AsRef<[u8]>,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            if let Err(error) = self.put(key.key(), value.as_ref()) {
                panic!("{error}");
            }
        }
    }
}

/// Makes a map of these entries; of several entries of a key the last one counts.
///
/// # Panics
/// As `extend` does, and if memory for the map is refused.
///
/// ```
/// use nunatak::{DlhtRecordMap, TurboBlobMap, entry::Format};
/// let map: TurboBlobMap = [("a", "1"), ("b", "2")].into_iter().collect();
/// assert_eq!(map.get(b"b"), Some(b"2".to_vec()));
/// let map: DlhtRecordMap<Format<8, 1>> = (0..9_u64).map(|n| (n.to_le_bytes(), [0])).collect();
/// assert_eq!(map.len(), 9);
/// ```
impl<E, D, K, V> FromIterator<(K, V)> for ByteMap<E, D>
where
    E: Entries,
    D: Design + Unshadowed,
    K: KeyOf<E::Naming>,
    V: AsRef<[u8]>,
    Self: Default,
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.extend(entries);
        map
    }
}
