//! [`FoundKey`]: the key of a record, in its slot or in the record.

use super::Namespace;

/// The longest key in bytes that is stored in its slot.
pub(super) const INLINE: usize = 8;

/// A key that an iterator found in a slot or in a record.
///
/// ```
/// let map = nunatak::DlhtRecordMap::<nunatak::entry::Format>::new();
/// map.put(b"a", b"1")?;
/// let guard = map.pin();
/// let (key, value) = guard.iter().next().unwrap();
/// assert_eq!((key.bytes(), key.namespace().number(), value), (&b"a"[..], 0, &b"1"[..]));
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct FoundKey<'v> {
    pub(super) namespace: u16,
    pub(super) bytes: FoundBytes<'v>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum FoundBytes<'v> {
    InSlot([u8; INLINE], usize),
    InRecord(&'v [u8]),
}

impl FoundKey<'_> {
    /// Returns the bytes of the key.
    ///
    /// ```
    /// # let map = nunatak::DlhtRecordMap::<nunatak::entry::Format>::new();
    /// map.put(b"a long key", b"1")?;
    /// assert_eq!(map.pin().iter().next().unwrap().0.bytes(), b"a long key");
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            FoundBytes::InSlot(bytes, len) => &bytes[..*len],
            FoundBytes::InRecord(bytes) => bytes,
        }
    }

    /// Returns the namespace of the key: the first one if the map has no namespaces.
    ///
    /// ```
    /// # let map = nunatak::DlhtRecordMap::<nunatak::entry::Format>::new();
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.pin().iter().next().unwrap().0.namespace().number(), 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn namespace(&self) -> Namespace {
        Namespace::of(self.namespace)
    }
}
