//! Values of RDB: how strings, sets and hashes are read, from bytes or from a stream.
//!
//! No length that was only announced reserves memory: it grows with the bytes that are there.

use super::RdbError;
use crate::store::record::{Items, Kind, push_item};
use foldhash::fast::RandomState;
use std::collections::HashSet;

pub(super) const STRING: u8 = 0;
pub(super) const SET: u8 = 2;
pub(super) const HASH: u8 = 4;
const SET_INTSET: u8 = 11;
const HASH_ZIPLIST: u8 = 13;
const HASH_LISTPACK: u8 = 16;
const SET_LISTPACK: u8 = 20;

/// The longest string, and the largest value.
pub(super) const MOST: usize = 1 << 30;
/// What a member counts beside its bytes, so that many empty ones are not free.
const OF_MEMBER: usize = 16;

/// Where bytes come from.
pub(super) trait Input {
    /// Appends so many bytes.
    fn read(&mut self, out: &mut Vec<u8>, len: usize) -> Result<(), RdbError>;

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RdbError>;

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

    /// Reads a string, in place of what was there.
    fn string(&mut self, out: &mut Vec<u8>) -> Result<(), RdbError> {
        out.clear();
        let number = match self.len()? {
            Ok(len) if len > MOST => return Err(RdbError::Long),
            Ok(len) => return self.read(out, len),
            Err(0) => i8::from_le_bytes(self.array()?).into(),
            Err(1) => i16::from_le_bytes(self.array()?).into(),
            Err(2) => i32::from_le_bytes(self.array()?).into(),
            Err(3) => {
                let (compressed, len) = (self.count()?, self.count()?);
                if compressed > MOST || len > MOST {
                    return Err(RdbError::Long);
                }
                let mut bytes = Vec::new();
                self.read(&mut bytes, compressed)?;
                *out = decompress(&bytes, len)?;
                return Ok(());
            }
            Err(_) => return Err(RdbError::Format),
        };
        push_number(out, number);
        Ok(())
    }
}

fn push_number(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Bytes that are read from the front.
pub(super) struct Bytes<'b>(pub(super) &'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, len: usize) -> Result<&'b [u8], RdbError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(RdbError::Format)?;
        self.0 = rest;
        Ok(taken)
    }
}

impl Input for Bytes<'_> {
    fn read(&mut self, out: &mut Vec<u8>, len: usize) -> Result<(), RdbError> {
        out.extend_from_slice(self.take(len)?);
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(RdbError::Format)?;
        self.0 = rest;
        Ok(*taken)
    }
}

/// Decompresses LZF: literal runs, and references to what precedes.
pub(super) fn decompress(bytes: &[u8], len: usize) -> Result<Vec<u8>, RdbError> {
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

/// Members of a set, or fields and values of a hash: the payload of a record.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub(super) payload: Vec<u8>,
    count: usize,
}

impl Members {
    fn push(&mut self, item: &[u8]) -> Result<(), RdbError> {
        self.count += 1;
        if self.payload.len() + item.len() + self.count * OF_MEMBER > MOST {
            return Err(RdbError::Long);
        }
        push_item(&mut self.payload, item);
        Ok(())
    }

    fn push_number(&mut self, number: i64) -> Result<(), RdbError> {
        self.push(itoa::Buffer::new().format(number).as_bytes())
    }

    fn items(&self) -> Items<'_> {
        Items::of(&self.payload)
    }

    pub(super) fn intset(&mut self, bytes: &[u8]) -> Result<(), RdbError> {
        let mut bytes = Bytes(bytes);
        let width = u32::from_le_bytes(bytes.array()?);
        let count = u32::from_le_bytes(bytes.array()?) as usize;
        if !matches!(width, 2 | 4 | 8) || bytes.0.len() != count.saturating_mul(width as usize) {
            return Err(RdbError::Format);
        }
        (0..count).try_for_each(|_| {
            self.push_number(match width {
                2 => i16::from_le_bytes(bytes.array()?).into(),
                4 => i32::from_le_bytes(bytes.array()?).into(),
                _ => i64::from_le_bytes(bytes.array()?),
            })
        })
    }

    pub(super) fn listpack(&mut self, all: &[u8]) -> Result<(), RdbError> {
        let mut bytes = Bytes(all);
        let (len, _count) = (u32::from_le_bytes(bytes.array()?), bytes.array::<2>()?);
        if len as usize != all.len() {
            return Err(RdbError::Format);
        }
        loop {
            let before = bytes.0.len();
            let first = bytes.byte()?;
            let low = usize::from(first);
            match first {
                0xFF if bytes.0.is_empty() => return Ok(()),
                0..0x80 => self.push_number(first.into())?,
                0x80..0xC0 => self.push(bytes.take(low & 63)?)?,
                0xC0..0xE0 => {
                    let value = (low & 31) << 8 | usize::from(bytes.byte()?);
                    // Thirteen bits with a sign.
                    self.push_number(value as i64 - if value >= 1 << 12 { 1 << 13 } else { 0 })?;
                }
                0xE0..0xF0 => {
                    let len = (low & 15) << 8 | usize::from(bytes.byte()?);
                    self.push(bytes.take(len)?)?;
                }
                0xF0 => {
                    let len = u32::from_le_bytes(bytes.array()?) as usize;
                    self.push(bytes.take(len)?)?;
                }
                0xF1 => self.push_number(i16::from_le_bytes(bytes.array()?).into())?,
                0xF2 => self.push_number(of_24_bits(bytes.array()?))?,
                0xF3 => self.push_number(i32::from_le_bytes(bytes.array()?).into())?,
                0xF4 => self.push_number(i64::from_le_bytes(bytes.array()?))?,
                _ => return Err(RdbError::Format),
            }
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

    /// What preceded listpacks, up to Redis 6.2.
    pub(super) fn ziplist(&mut self, all: &[u8]) -> Result<(), RdbError> {
        let mut bytes = Bytes(all);
        let (len, _tail) = (u32::from_le_bytes(bytes.array()?), bytes.array::<4>()?);
        let _count = bytes.array::<2>()?;
        if len as usize != all.len() {
            return Err(RdbError::Format);
        }
        loop {
            // In front of an entry stands the length of the one before.
            match bytes.byte()? {
                0xFF if bytes.0.is_empty() => return Ok(()),
                0xFF => return Err(RdbError::Format),
                0xFE => drop(bytes.take(4)?),
                _ => {}
            }
            let first = bytes.byte()?;
            let low = usize::from(first & 63);
            match first {
                0..0x40 => self.push(bytes.take(low)?)?,
                0x40..0x80 => {
                    let len = low << 8 | usize::from(bytes.byte()?);
                    self.push(bytes.take(len)?)?;
                }
                0x80 => {
                    let len = u32::from_be_bytes(bytes.array()?) as usize;
                    self.push(bytes.take(len)?)?;
                }
                0xC0 => self.push_number(i16::from_le_bytes(bytes.array()?).into())?,
                0xD0 => self.push_number(i32::from_le_bytes(bytes.array()?).into())?,
                0xE0 => self.push_number(i64::from_le_bytes(bytes.array()?))?,
                0xF0 => self.push_number(of_24_bits(bytes.array()?))?,
                0xFE => self.push_number(i8::from_le_bytes(bytes.array()?).into())?,
                0xF1..=0xFD => self.push_number(i64::from(first & 15) - 1)?,
                _ => return Err(RdbError::Format),
            }
        }
    }
}

fn of_24_bits([a, b, c]: [u8; 3]) -> i64 {
    (i32::from_le_bytes([0, a, b, c]) >> 8).into()
}

/// Reads a value whose type was read. Returns the kind and the payload of the record.
pub(super) fn read(kind: u8, input: &mut impl Input) -> Result<(Kind, Vec<u8>), RdbError> {
    let (mut members, mut bytes) = (Members::default(), Vec::new());
    let kind = match kind {
        STRING => {
            input.string(&mut bytes)?;
            return Ok((Kind::String, bytes));
        }
        SET | HASH => {
            let (kind, step) = if kind == SET { (Kind::Set, 1) } else { (Kind::Hash, 2) };
            let count = input.count()?.checked_mul(step).ok_or(RdbError::Format)?;
            for _ in 0..count {
                input.string(&mut bytes)?;
                members.push(&bytes)?;
            }
            kind
        }
        SET_INTSET | SET_LISTPACK | HASH_LISTPACK | HASH_ZIPLIST => {
            input.string(&mut bytes)?;
            match kind {
                SET_INTSET => members.intset(&bytes)?,
                HASH_ZIPLIST => members.ziplist(&bytes)?,
                _ => members.listpack(&bytes)?,
            }
            let is_set = matches!(kind, SET_INTSET | SET_LISTPACK);
            if is_set { Kind::Set } else { Kind::Hash }
        }
        _ => return Err(RdbError::Kind(kind)),
    };
    let step = if kind == Kind::Hash { 2 } else { 1 };
    let mut names = HashSet::with_capacity_and_hasher(members.count / step, RandomState::default());
    let is_fine = members.count > 0
        && members.count.is_multiple_of(step)
        && members.items().step_by(step).all(|name| names.insert(name));
    if is_fine { Ok((kind, members.payload)) } else { Err(RdbError::Format) }
}

/// Returns what a type is to Redis.
pub(super) fn name_of(kind: u8) -> String {
    let name = match kind {
        1 | 10 | 14 | 18 => "a list",
        3 | 5 | 12 | 17 => "a sorted set",
        6 | 7 => "a value of a module",
        9 => "a hash as Redis 2.4 wrote it",
        15 | 19 | 21 | 26 | 27 => "a stream",
        22..=25 => "a hash whose fields expire",
        _ => "of an unknown type",
    };
    format!("{name} (type {kind})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lzf_is_decompressed() {
        // Five times `ab`: a literal run of two, then eight bytes that reach into themselves.
        assert_eq!(decompress(&[1, b'a', b'b', 0b110_00000, 1], 10).unwrap(), b"ababababab");
        for (bytes, len) in [(&[1, b'a'][..], 2), (&[0b001_00000, 0][..], 3), (&[0, b'a'][..], 2)] {
            assert_eq!(decompress(bytes, len), Err(RdbError::Format));
        }
    }

    #[test]
    fn ziplists_are_read() {
        // As Redis 6.2 writes `HSET h a 5 bb -300 c 70000 d 5000000000 e 100 f -1234567 g <64 bytes>`.
        let mut list = vec![0; 10];
        let mut put = |entry: &[u8]| {
            // (The length of the one in front: any, up to 253; longer ones have five bytes.)
            let front: &[u8] = if entry == b"\x01h" { &[0xFE, 1, 1, 0, 0] } else { &[3] };
            list.extend([front, entry].concat());
        };
        put(b"\x01a");
        put(&[0xF6]);
        put(b"\x02bb");
        put(&[0xC0, 0xD4, 0xFE]);
        put(b"\x01c");
        put(&[0xF0, 0x70, 0x11, 0x01]);
        put(b"\x01d");
        put(&[&[0xE0][..], &5_000_000_000_i64.to_le_bytes()].concat());
        put(b"\x01e");
        put(&[0xFE, 100]);
        put(b"\x01f");
        put(&[&[0xD0][..], &(-1_234_567_i32).to_le_bytes()].concat());
        put(b"\x01g");
        put(&[&[0x40, 64][..], &[b'x'; 64]].concat());
        put(b"\x01h");
        put(&[&[0x80, 0, 0, 0, 1][..], b"y"].concat());
        list.push(0xFF);
        let len = (list.len() as u32).to_le_bytes();
        list[..4].copy_from_slice(&len);
        let mut members = Members::default();
        members.ziplist(&list).unwrap();
        let long = "x".repeat(64);
        let wanted = [
            "a",
            "5",
            "bb",
            "-300",
            "c",
            "70000",
            "d",
            "5000000000",
            "e",
            "100",
            "f",
            "-1234567",
            "g",
            &long,
            "h",
            "y",
        ];
        assert!(members.items().eq(wanted.iter().map(|item| item.as_bytes())));
        for end in 0..list.len() {
            assert!(Members::default().ziplist(&list[..end]).is_err());
        }
    }

    #[test]
    fn many_empty_members_are_no_way_around_the_limit() {
        let mut members = Members { payload: Vec::new(), count: MOST / OF_MEMBER };
        assert_eq!(members.push(b""), Err(RdbError::Long));
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut members = Members::default();
            let _ = (members.listpack(&bytes), members.intset(&bytes), members.ziplist(&bytes));
            let _ = decompress(&bytes, 100);
        }
    }
}
