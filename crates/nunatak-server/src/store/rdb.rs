//! Values as `DUMP` tells them and `RESTORE` takes them: those of Redis's files (RDB).
//!
//! ```text
//! | type (1) | value | version (2) | CRC-64 of all before it (8) |
//! ```
//!
//! What is written has the plainest encodings, which every Redis since 5.0 reads. What is read may have
//! those that Redis 7 writes for strings, sets and hashes: numbers, compressed strings, sets of numbers
//! (intset), and short sets and hashes in one block (listpack).

use super::record::{Kind, Record, push_item};
use crc::{CRC_64_REDIS, Crc, Table};
use std::collections::HashSet;

static CHECKSUM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The version that is written, and the newest that is read.
const WRITTEN: u16 = 9;
const NEWEST: u16 = 11;
/// The version and the checksum.
const FOOTER: usize = 10;

const STRING: u8 = 0;
const SET: u8 = 2;
const HASH: u8 = 4;
const SET_INTSET: u8 = 11;
const HASH_LISTPACK: u8 = 16;
const SET_LISTPACK: u8 = 20;

/// The longest string: that of an argument.
const MOST_STRING: usize = 1 << 30;

/// Why a value can't be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RdbError {
    /// The footer is wrong, or of a newer version.
    Footer,
    /// The value is damaged, or of a type that the server has not.
    Format,
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

/// Returns a value as `DUMP` tells it.
pub(crate) fn encode(record: Record<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(record.payload.len() + 32);
    match record.kind {
        Kind::String => {
            out.push(STRING);
            push_string(&mut out, record.payload);
        }
        Kind::Set => {
            out.push(SET);
            push_len(&mut out, record.items().count());
            record.items().for_each(|item| push_string(&mut out, item));
        }
        Kind::Hash => {
            out.push(HASH);
            push_len(&mut out, record.items().count() / 2);
            record.items().for_each(|item| push_string(&mut out, item));
        }
    }
    out.extend_from_slice(&WRITTEN.to_le_bytes());
    let checksum = CHECKSUM.checksum(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// Bytes that are read from the front.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, len: usize) -> Result<&'b [u8], RdbError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(RdbError::Format)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(RdbError::Format)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, RdbError> {
        self.array().map(|[byte]| byte)
    }

    /// Reads a length; `Err` of the inner result is a special encoding of a string.
    fn len(&mut self) -> Result<Result<usize, u8>, RdbError> {
        let first = self.byte()?;
        let rest = usize::from(first & 63);
        Ok(match first >> 6 {
            0 => Ok(rest),
            1 => Ok(rest << 8 | usize::from(self.byte()?)),
            2 if first == 0x80 => Ok(u32::from_be_bytes(self.array()?) as usize),
            2 if first == 0x81 => {
                let len = u64::from_be_bytes(self.array()?);
                Ok(usize::try_from(len).map_err(|_| RdbError::Format)?)
            }
            3 => Err(rest as u8),
            _ => return Err(RdbError::Format),
        })
    }

    fn count(&mut self) -> Result<usize, RdbError> {
        self.len()?.map_err(|_| RdbError::Format)
    }

    fn string(&mut self) -> Result<Vec<u8>, RdbError> {
        let number = |number: i64| Ok(number.to_string().into_bytes());
        match self.len()? {
            Ok(len) => self.take(len).map(<[u8]>::to_vec),
            Err(0) => number(i8::from_le_bytes(self.array()?).into()),
            Err(1) => number(i16::from_le_bytes(self.array()?).into()),
            Err(2) => number(i32::from_le_bytes(self.array()?).into()),
            Err(3) => {
                let (compressed, len) = (self.count()?, self.count()?);
                decompress(self.take(compressed)?, len)
            }
            Err(_) => Err(RdbError::Format),
        }
    }
}

/// Decompresses LZF: literal runs, and references to what precedes.
fn decompress(bytes: &[u8], len: usize) -> Result<Vec<u8>, RdbError> {
    if len > MOST_STRING {
        return Err(RdbError::Format);
    }
    let (mut bytes, mut out) = (Bytes(bytes), Vec::new());
    while !bytes.0.is_empty() {
        let control = usize::from(bytes.byte()?);
        if control < 32 {
            out.extend_from_slice(bytes.take(control + 1)?);
        } else {
            let mut count = control >> 5;
            if count == 7 {
                count += usize::from(bytes.byte()?);
            }
            let distance = (control & 31) << 8 | usize::from(bytes.byte()?);
            let from = out.len().checked_sub(distance + 1).ok_or(RdbError::Format)?;
            // Byte by byte: the reference may reach into what it makes.
            (from..from + count + 2).for_each(|at| out.push(out[at]));
        }
        if out.len() > len {
            return Err(RdbError::Format);
        }
    }
    if out.len() == len { Ok(out) } else { Err(RdbError::Format) }
}

fn intset(bytes: &[u8]) -> Result<Vec<Vec<u8>>, RdbError> {
    let mut bytes = Bytes(bytes);
    let width = u32::from_le_bytes(bytes.array()?);
    let count = u32::from_le_bytes(bytes.array()?) as usize;
    if !matches!(width, 2 | 4 | 8) || bytes.0.len() != count.saturating_mul(width as usize) {
        return Err(RdbError::Format);
    }
    (0..count)
        .map(|_| {
            let number = match width {
                2 => i16::from_le_bytes(bytes.array()?).into(),
                4 => i32::from_le_bytes(bytes.array()?).into(),
                _ => i64::from_le_bytes(bytes.array()?),
            };
            Ok(number.to_string().into_bytes())
        })
        .collect()
}

fn listpack(all: &[u8]) -> Result<Vec<Vec<u8>>, RdbError> {
    let mut bytes = Bytes(all);
    let (len, _count) = (u32::from_le_bytes(bytes.array()?), bytes.array::<2>()?);
    if len as usize != all.len() {
        return Err(RdbError::Format);
    }
    let mut items = Vec::new();
    loop {
        let before = bytes.0.len();
        let first = bytes.byte()?;
        let (low, number) = (usize::from(first), |number: i64| number.to_string().into_bytes());
        items.push(match first {
            0xFF if bytes.0.is_empty() => return Ok(items),
            0..0x80 => number(first.into()),
            0x80..0xC0 => bytes.take(low & 63)?.to_vec(),
            0xC0..0xE0 => {
                let value = (low & 31) << 8 | usize::from(bytes.byte()?);
                // Thirteen bits with a sign.
                number(value as i64 - if value >= 1 << 12 { 1 << 13 } else { 0 })
            }
            0xE0..0xF0 => {
                let len = (low & 15) << 8 | usize::from(bytes.byte()?);
                bytes.take(len)?.to_vec()
            }
            0xF0 => {
                let len = u32::from_le_bytes(bytes.array()?) as usize;
                bytes.take(len)?.to_vec()
            }
            0xF1 => number(i16::from_le_bytes(bytes.array()?).into()),
            0xF2 => {
                let [a, b, c] = bytes.array()?;
                number((i32::from_le_bytes([0, a, b, c]) >> 8).into())
            }
            0xF3 => number(i32::from_le_bytes(bytes.array()?).into()),
            0xF4 => number(i64::from_le_bytes(bytes.array()?)),
            _ => return Err(RdbError::Format),
        });
        // Behind an entry stands its length, for those who read from the back.
        let back = match before - bytes.0.len() {
            0..128 => 1,
            128..16_383 => 2,
            16_383..2_097_151 => 3,
            2_097_151..268_435_455 => 4,
            _ => 5,
        };
        bytes.take(back)?;
    }
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
    if kind == STRING {
        let value = bytes.string()?;
        return if bytes.0.is_empty() { Ok((Kind::String, value)) } else { Err(RdbError::Format) };
    }
    let (kind, items) = match kind {
        SET | HASH => {
            let count = bytes.count()?;
            let kind = if kind == SET { Kind::Set } else { Kind::Hash };
            let items = count.checked_mul(if kind == Kind::Hash { 2 } else { 1 });
            let items = (0..items.ok_or(RdbError::Format)?).map(|_| bytes.string());
            (kind, items.collect::<Result<Vec<_>, _>>()?)
        }
        SET_INTSET => (Kind::Set, intset(&bytes.string()?)?),
        SET_LISTPACK => (Kind::Set, listpack(&bytes.string()?)?),
        HASH_LISTPACK => (Kind::Hash, listpack(&bytes.string()?)?),
        _ => return Err(RdbError::Format),
    };
    let step = if kind == Kind::Hash { 2 } else { 1 };
    let mut names = HashSet::with_capacity(items.len() / step);
    let is_fine = bytes.0.is_empty()
        && !items.is_empty()
        && items.len().is_multiple_of(step)
        && items.iter().step_by(step).all(|name| names.insert(name));
    if !is_fine {
        return Err(RdbError::Format);
    }
    let mut payload = Vec::new();
    items.iter().for_each(|item| push_item(&mut payload, item));
    Ok((kind, payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(CHECKSUM.checksum(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
    }

    #[test]
    fn lzf_is_decompressed() {
        // Five times `ab`: a literal run of two, then eight bytes that reach into themselves.
        assert_eq!(decompress(&[1, b'a', b'b', 0b110_00000, 1], 10).unwrap(), b"ababababab");
        for (bytes, len) in [(&[1, b'a'][..], 2), (&[0b001_00000, 0][..], 3), (&[0, b'a'][..], 2)] {
            assert_eq!(decompress(bytes, len), Err(RdbError::Format));
        }
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
        let mut whole = encode(Record { kind: Kind::String, expiry: None, payload: b"ice" });
        assert_eq!(decode(&whole), Ok((Kind::String, b"ice".to_vec())));
        whole[2] ^= 1;
        assert_eq!(decode(&whole), Err(RdbError::Footer));
        // A list, a set of nothing, a set that has a member twice, bytes behind a string.
        for bytes in [&[1, 0][..], &[2, 0], &[2, 2, 1, 7, 1, 7], &[0, 1, 7, 7], &[4, 1, 1, 7]] {
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
            let bytes = encode(Record { kind, expiry: None, payload: &payload });
            prop_assert_eq!(decode(&bytes), Ok((kind, payload)));
        }

        #[test]
        fn any_bytes_are_read(kind in any::<u8>(), mut bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            bytes.insert(0, kind % 24);
            let _ = decode(&with_footer(bytes.clone()));
            let _ = (listpack(&bytes), intset(&bytes), decompress(&bytes, 100));
        }
    }
}
