//! Records: how a value is stored, with its type and the time at which it expires.
//!
//! ```text
//! string         | 0 | bytes |
//! that expires   | 0x80 | milliseconds since 1970 (8) | bytes |
//! set            | 1 | members, each with its length in front |
//! hash           | 2 | fields and values alternate, each with its length in front |
//! in segments    | 0x41 or 0x42 | the root of a set or a hash (see `root`) |
//! ```
//!
//! A length takes seven bits of a byte, and the eighth bit says that more follow. The bits 0x80 and 0x40 may be
//! set together.
//!
//! Some records are no values, and no client sees their keys:
//!
//! ```text
//! segment        | 3 | items of a set or a hash, as there |
//! mark           | 4 | state of the segments in a file (see `hidden`) |
//! ```

use super::root::Root;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    Set,
    Hash,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Set => "set",
            Self::Hash => "hash",
        }
    }
}

const EXPIRES: u8 = 0x80;
const IN_SEGMENTS: u8 = 0x40;

/// The first byte of records that are no values.
pub(super) const SEGMENT: u8 = 3;
pub(super) const MARK: u8 = 4;

/// A value, where the map stores it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'r> {
    pub(crate) kind: Kind,
    /// Milliseconds since 1970.
    pub(crate) expiry: Option<u64>,
    /// Whether the items are in records of their own, and the payload is their [root](Self::root).
    pub(crate) is_in_segments: bool,
    pub(crate) payload: &'r [u8],
}

impl<'r> Record<'r> {
    /// Reads a record; `None` if it has expired, or is none of this program's.
    #[inline(always)]
    pub(crate) fn read(bytes: &'r [u8], now: u64) -> Option<Self> {
        let record = Self::read_any(bytes)?;
        match record.expiry {
            Some(expiry) if expiry <= now => None,
            _ => Some(record),
        }
    }

    /// Reads a record, even if it has expired.
    #[inline(always)]
    pub(crate) fn read_any(bytes: &'r [u8]) -> Option<Self> {
        let (&head, rest) = bytes.split_first()?;
        let is_in_segments = head & IN_SEGMENTS != 0;
        let is_one = |kind, payload| {
            !is_in_segments || kind != Kind::String && Root::decode(payload).is_some()
        };
        let kind = match head & !(EXPIRES | IN_SEGMENTS) {
            0 => Kind::String,
            1 => Kind::Set,
            2 => Kind::Hash,
            _ => return None,
        };
        if head & EXPIRES == 0 {
            let record = Self { kind, expiry: None, is_in_segments, payload: rest };
            return is_one(kind, rest).then_some(record);
        }
        let (expiry, payload) = rest.split_first_chunk()?;
        let expiry = Some(u64::from_le_bytes(*expiry));
        is_one(kind, payload).then_some(Self { kind, expiry, is_in_segments, payload })
    }

    /// Returns where the items are, if they are in segments.
    #[inline(always)]
    pub(crate) fn root(self) -> Option<Root> {
        if self.is_in_segments { Root::decode(self.payload) } else { None }
    }

    /// Returns the root of the items that the bytes of a record name, even if it has expired.
    pub(crate) fn root_of(bytes: &'r [u8]) -> Option<Root> {
        Self::read_any(bytes)?.root()
    }

    /// Whether the bytes of a record are no value, but a part of one, or the mark of such parts.
    #[inline(always)]
    pub(crate) fn is_hidden(bytes: &[u8]) -> bool {
        matches!(bytes.first(), Some(&(SEGMENT | MARK)))
    }

    /// Returns whether the bytes of a record have a time to live.
    #[inline(always)]
    pub(crate) fn may_expire(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|&head| head & EXPIRES != 0)
    }

    /// Writes what precedes the payload, in place of what was there.
    #[inline(always)]
    pub(crate) fn begin(out: &mut Vec<u8>, kind: Kind, expiry: Option<u64>) {
        out.clear();
        Self::push_head(out, kind, expiry);
    }

    /// Appends what precedes the payload.
    #[inline(always)]
    pub(crate) fn push_head(out: &mut Vec<u8>, kind: Kind, expiry: Option<u64>) {
        let kind = kind as u8;
        match expiry {
            None => out.push(kind),
            Some(expiry) => {
                out.push(kind | EXPIRES);
                out.extend_from_slice(&expiry.to_le_bytes());
            }
        }
    }

    /// Appends what precedes the root of items in segments.
    pub(crate) fn push_root_head(out: &mut Vec<u8>, kind: Kind, expiry: Option<u64>) {
        let at = out.len();
        Self::push_head(out, kind, expiry);
        out[at] |= IN_SEGMENTS;
    }

    /// Copies the record to `out`, in place of what was there, with another time to live.
    pub(crate) fn copy_with(self, out: &mut Vec<u8>, expiry: Option<u64>) {
        out.clear();
        match self.is_in_segments {
            true => Self::push_root_head(out, self.kind, expiry),
            false => Self::push_head(out, self.kind, expiry),
        }
        out.extend_from_slice(self.payload);
    }
}

/// Returns the items of a segment; one that is not there has none.
pub(crate) fn items_of_segment(record: Option<&[u8]>) -> &[u8] {
    record.and_then(|record| record.strip_prefix(&[SEGMENT])).unwrap_or_default()
}

/// Iterates over the members of a set, each with an empty value, or over the fields and values of a hash.
pub(crate) fn members(kind: Kind, payload: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    let mut items = Items::of(payload);
    std::iter::from_fn(move || {
        let member = items.next()?;
        Some((member, if kind == Kind::Hash { items.next()? } else { &[] }))
    })
}

/// Returns the value of a field of a hash; that of a member of a set is empty.
#[inline]
pub(crate) fn find<'p>(kind: Kind, payload: &'p [u8], member: &[u8]) -> Option<&'p [u8]> {
    members(kind, payload).find(|(name, _)| *name == member).map(|(_, value)| value)
}

/// Byte strings, each with its length in front.
#[derive(Debug, Clone)]
pub(crate) struct Items<'r> {
    rest: &'r [u8],
}

impl<'r> Items<'r> {
    pub(crate) fn of(payload: &'r [u8]) -> Self {
        Self { rest: payload }
    }

    /// Returns how many bytes follow.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }
}

impl<'r> Iterator for Items<'r> {
    type Item = &'r [u8];

    #[inline]
    fn next(&mut self) -> Option<&'r [u8]> {
        let (mut len, mut shift) = (0_usize, 0);
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            len |= usize::from(byte & 127).checked_shl(shift)?;
            shift += 7;
            if byte < 128 {
                break;
            }
        }
        let (item, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(item)
    }
}

/// Appends a byte string with its length in front.
pub(crate) fn push_item(out: &mut Vec<u8>, item: &[u8]) {
    let mut len = item.len();
    while len >= 128 {
        out.push(len as u8 | 128);
        len >>= 7;
    }
    out.push(len as u8);
    out.extend_from_slice(item);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_are_read_as_they_were_written(
            items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
            expiry in prop::option::of(1_u64..),
        ) {
            let mut bytes = vec![9];
            Record::begin(&mut bytes, Kind::Set, expiry);
            items.iter().for_each(|item| push_item(&mut bytes, item));
            let record = Record::read(&bytes, 0).unwrap();
            prop_assert_eq!((record.kind, record.expiry), (Kind::Set, expiry));
            let read: Vec<_> = Items::of(record.payload).map(<[u8]>::to_vec).collect();
            prop_assert_eq!(read, items);
            prop_assert!(Record::read(&bytes, u64::MAX).is_none() == expiry.is_some());
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(record) = Record::read(&bytes, 7) {
                members(record.kind, record.payload).for_each(drop);
                prop_assert_eq!(record.root().is_some(), record.is_in_segments);
                prop_assert!(record.kind != Kind::String || !record.is_in_segments);
            }
        }
    }
}
