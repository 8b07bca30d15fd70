//! Records: how a value is stored, with its type and the time at which it expires.
//!
//! ```text
//! string         | 0 | bytes |
//! that expires   | 0x80 | milliseconds since 1970 (8) | bytes |
//! set            | 1 | members, each with its length in front |
//! hash           | 2 | fields and values alternate, each with its length in front |
//! ```
//!
//! A length takes seven bits of a byte, and the eighth bit says that more follow.

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

/// A value, where the map stores it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'r> {
    pub(crate) kind: Kind,
    /// Milliseconds since 1970.
    pub(crate) expiry: Option<u64>,
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
        let kind = match head & !EXPIRES {
            0 => Kind::String,
            1 => Kind::Set,
            2 => Kind::Hash,
            _ => return None,
        };
        if head & EXPIRES == 0 {
            return Some(Self { kind, expiry: None, payload: rest });
        }
        let (expiry, payload) = rest.split_first_chunk()?;
        Some(Self { kind, expiry: Some(u64::from_le_bytes(*expiry)), payload })
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

    /// Iterates over the members of a set, or the fields and values of a hash.
    pub(crate) fn items(self) -> Items<'r> {
        Items { rest: self.payload }
    }

    /// Iterates over the fields of a hash with their values.
    pub(crate) fn pairs(self) -> impl Iterator<Item = (&'r [u8], &'r [u8])> {
        let mut items = self.items();
        std::iter::from_fn(move || Some((items.next()?, items.next()?)))
    }

    /// Returns the value of a field.
    pub(crate) fn field(self, field: &[u8]) -> Option<&'r [u8]> {
        self.pairs().find(|(name, _)| *name == field).map(|(_, value)| value)
    }
}

/// Byte strings, each with its length in front.
#[derive(Debug, Clone)]
pub(crate) struct Items<'r> {
    rest: &'r [u8],
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
            prop_assert_eq!(record.items().map(<[u8]>::to_vec).collect::<Vec<_>>(), items);
            prop_assert!(Record::read(&bytes, u64::MAX).is_none() == expiry.is_some());
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(record) = Record::read(&bytes, 7) {
                record.items().for_each(drop);
            }
        }
    }
}
