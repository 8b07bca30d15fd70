//! Values as `DUMP` tells them and `RESTORE` takes them: those of Redis's files (RDB).
//!
//! ```text
//! | type (1) | value | version (2) | CRC-64 of all before it (8) |
//! ```
//!
//! What is written has the plainest encodings, which every Redis since 5.0 reads. What is read may have
//! those that Redis 7 writes for strings, sets and hashes: numbers, compressed strings, sets of numbers
//! (intset), and short sets and hashes in one block (listpack; ziplist up to Redis 6.2).
//!
//! [`file`] reads a whole file of Redis's as a stream.

pub(crate) mod file;
mod value;

use super::record::{Items, Kind, Record};
use crc::{CRC_64_REDIS, Crc, Table};
use value::{Bytes, HASH, Input, SET, STRING};

static CHECKSUM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The version that is written, and the newest that is read.
const WRITTEN: u16 = 9;
const NEWEST: u16 = 11;
/// The version and the checksum.
const FOOTER: usize = 10;

/// Why a value can't be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RdbError {
    /// The footer is wrong, or of a newer version.
    Footer,
    /// The value is damaged.
    Format,
    /// The value is longer than one may be.
    Long,
    /// The server has no such type.
    Kind(u8),
    /// The bytes have ended before the value, or can't be read.
    Ended,
}

fn push_len(out: &mut Vec<u8>, len: usize) {
    match len {
        0..64 => out.push(len as u8),
        64..16_384 => out.extend_from_slice(&(len as u16 | 0x4000).to_be_bytes()),
        _ => {
            out.push(0x80);
            // A value is shorter than 4 GiB.
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

fn push_string(out: &mut Vec<u8>, bytes: &[u8]) {
    push_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Returns a value as `DUMP` tells it. The record has all items.
pub(crate) fn encode(record: Record<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(record.payload.len() + 32);
    match record.kind {
        Kind::String => {
            out.push(STRING);
            push_string(&mut out, record.payload);
        }
        Kind::Set => {
            out.push(SET);
            push_len(&mut out, Items::of(record.payload).count());
            Items::of(record.payload).for_each(|item| push_string(&mut out, item));
        }
        Kind::Hash => {
            out.push(HASH);
            push_len(&mut out, Items::of(record.payload).count() / 2);
            Items::of(record.payload).for_each(|item| push_string(&mut out, item));
        }
    }
    out.extend_from_slice(&WRITTEN.to_le_bytes());
    let checksum = CHECKSUM.checksum(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// Whether the footer is that of these bytes.
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    let Some((rest, checksum)) = bytes.split_last_chunk() else { return false };
    let Some((_, version)) = rest.split_last_chunk() else { return false };
    u16::from_le_bytes(*version) <= NEWEST
        && CHECKSUM.checksum(rest) == u64::from_le_bytes(*checksum)
}

/// Reads what `DUMP` told: the type, and the payload of the record.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Kind, Vec<u8>), RdbError> {
    if bytes.len() <= FOOTER || !is_whole(bytes) {
        return Err(RdbError::Footer);
    }
    let mut bytes = Bytes(&bytes[..bytes.len() - FOOTER]);
    let kind = bytes.byte()?;
    let value = value::read(kind, &mut bytes)?;
    if bytes.0.is_empty() { Ok(value) } else { Err(RdbError::Format) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::record::push_item;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(CHECKSUM.checksum(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
    }

    fn with_footer(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.extend_from_slice(&WRITTEN.to_le_bytes());
        let checksum = CHECKSUM.checksum(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    #[test]
    fn what_is_wrong_is_refused() {
        assert_eq!(decode(b""), Err(RdbError::Footer));
        let mut whole = encode(Record {
            kind: Kind::String,
            expiry: None,
            is_in_segments: false,
            payload: b"ice",
        });
        assert_eq!(decode(&whole), Ok((Kind::String, b"ice".to_vec())));
        whole[2] ^= 1;
        assert_eq!(decode(&whole), Err(RdbError::Footer));
        assert_eq!(decode(&with_footer(vec![1, 0])), Err(RdbError::Kind(1)));
        // A set of nothing, a set that has a member twice, bytes behind a string.
        for bytes in [&[2, 0][..], &[2, 2, 1, 7, 1, 7], &[0, 1, 7, 7], &[4, 1, 1, 7]] {
            assert_eq!(decode(&with_footer(bytes.to_vec())), Err(RdbError::Format), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn values_are_read_as_they_were_written(
            items in prop::collection::btree_map(
                prop::collection::vec(any::<u8>(), 0..300), prop::collection::vec(any::<u8>(), 0..70), 1..20),
            kind in 0..3,
            long in 0..20_000_usize,
        ) {
            let mut payload = Vec::new();
            let kind = match kind {
                0 => {
                    payload.resize(long, 7);
                    Kind::String
                }
                1 => {
                    items.keys().for_each(|item| push_item(&mut payload, item));
                    Kind::Set
                }
                _ => {
                    items.iter().for_each(|(field, value)| {
                        push_item(&mut payload, field);
                        push_item(&mut payload, value);
                    });
                    Kind::Hash
                }
            };
            let bytes = encode(Record { kind, expiry: None, is_in_segments: false, payload: &payload });
            prop_assert_eq!(decode(&bytes), Ok((kind, payload)));
        }

        #[test]
        fn any_bytes_are_read(kind in any::<u8>(), mut bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            bytes.insert(0, kind % 24);
            let _ = decode(&with_footer(bytes.clone()));
        }
    }
}
