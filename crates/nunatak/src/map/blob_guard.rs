//! Guards on the blobs of a map, which give them out where they are.

use super::blob::BlobMap;
use crate::hash::RandomState;
use crate::sync::GuardPin;
use crate::table::{Design, PairTable, Turbo};
use core::fmt;
use core::hash::BuildHasher;

/// A guard on the blobs of a [`BlobMap`]; see [`pin`](BlobMap::pin).
///
/// ```
/// use nunatak::TurboBlobMap;
/// let map = TurboBlobMap::new();
/// map.put(b"a", b"1")?;
/// let guard = map.pin();
/// let (one, none) = (guard.get(b"a"), guard.get(b"b"));
/// assert_eq!((one, none), (Some(&b"1"[..]), None));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub struct BlobGuard<'m, S = RandomState, D: Design = Turbo> {
    map: &'m BlobMap<S, D>,
    pin: GuardPin<'m>,
}

impl<'m, S, D: Design> BlobGuard<'m, S, D> {
    pub(super) fn new(map: &'m BlobMap<S, D>, pin: GuardPin<'m>) -> Self {
        Self { map, pin }
    }

    /// All keys with their values, weakly consistent.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.pin().iter().collect::<Vec<_>>(), [(&b"a"[..], &b"1"[..])]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.map.table.iter().map(|(_, word)| self.map.blob(&self.pin, word))
    }
}

impl<S, D: Design> fmt::Debug for BlobGuard<'_, S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobGuard").finish_non_exhaustive()
    }
}

impl<S: BuildHasher, D: Design> BlobGuard<'_, S, D> {
    /// The key's value, where it is.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// assert_eq!(TurboBlobMap::new().pin().get(b"a"), None);
    /// ```
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.map.find_value(&self.pin, key)
    }

    /// The values of many keys, in order, with overlapped memory latencies: `found` is told
    /// the number of each and its value.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// let map = TurboBlobMap::new();
    /// map.put(b"a", b"1")?;
    /// let (guard, mut lengths) = (map.pin(), vec![]);
    /// guard.get_many(&["b", "a"], |_, value| lengths.push(value.map(<[u8]>::len)));
    /// assert_eq!(lengths, [None, Some(1)]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get_many<'g, K: AsRef<[u8]>>(
        &'g self,
        keys: &[K],
        found: impl FnMut(usize, Option<&'g [u8]>),
    ) {
        self.map.find_many(&self.pin, keys, found);
    }
}
