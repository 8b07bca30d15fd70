//! The binary form of dumps: pairs in blocks, with everything that shows whether it is whole.
//!
//! ```text
//! header   magic "NUNADUMP"                                        8 bytes
//!          version: 1; kind of map; 0: numbers, 1: byte strings; 0   4 each
//! block    bytes of the pairs, number of pairs, checksum            4 each
//!          pairs: key and value; numbers have eight bytes, byte strings come after
//!          their lengths of four bytes
//! end      0, 0, checksum                                           4 each
//!          number of all pairs                                      8
//! ```
//!
//! Numbers have their lowest byte first. A checksum is the CRC-32 of the header and of all pairs
//! up to there, and at the end of the number of pairs, too. So a dump that is cut, or from which a
//! block is missing, is noticed.

use super::datum::Datum;
use super::maps::Kind;
use std::io::{self, Read, Write};

const MAGIC: [u8; 8] = *b"NUNADUMP";
const VERSION: u32 = 1;
const HEADER: usize = 24;
/// About as many bytes of pairs are in a block.
const BLOCK: usize = 64 << 10;

/// What the beginning of a dump tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// Whether keys and values are byte strings.
    pub(super) has_bytes: bool,
}

impl Header {
    pub(super) fn of<D: Datum>(kind: Kind) -> Self {
        Self { kind, has_bytes: D::IS_BYTES }
    }

    fn encode(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        let words = [VERSION, self.kind as u32, u32::from(self.has_bytes)];
        for (at, word) in words.into_iter().enumerate() {
            bytes[8 + 4 * at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: [u8; HEADER]) -> io::Result<Self> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        if bytes[..8] != MAGIC {
            return Err(wrong("this is no dump"));
        }
        if word(8) != VERSION {
            return Err(wrong("the dump is of another version"));
        }
        let kind =
            Kind::of_number(word(12)).ok_or_else(|| wrong("the dump is of an unknown map"))?;
        Ok(Self { kind, has_bytes: word(16) == 1 })
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// An input that ends too early is not whole.
fn whole<T>(read: io::Result<T>) -> io::Result<T> {
    read.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => wrong("the dump is not whole"),
        _ => error,
    })
}

/// Writes pairs as a dump; calls `progress` with the number of pairs.
pub(super) fn write<D: Datum>(
    mut out: impl Write,
    header: Header,
    pairs: impl Iterator<Item = (D, D)>,
    progress: impl Fn(u64),
) -> io::Result<()> {
    let mut sum = crc32fast::Hasher::new();
    let bytes = header.encode();
    sum.update(&bytes);
    out.write_all(&bytes)?;
    let (mut block, mut in_block, mut all) = (Vec::with_capacity(2 * BLOCK), 0_u32, 0_u64);
    let mut end_block = |block: &mut Vec<u8>, in_block: &mut u32, out: &mut dyn Write| {
        let length = u32::try_from(block.len()).map_err(|_| wrong("a pair is too long"))?;
        sum.update(block);
        for word in [length, *in_block, sum.clone().finalize()] {
            out.write_all(&word.to_le_bytes())?;
        }
        out.write_all(block)?;
        block.clear();
        *in_block = 0;
        io::Result::Ok(())
    };
    for (key, value) in pairs {
        key.write(&mut block)?;
        value.write(&mut block)?;
        (in_block, all) = (in_block + 1, all + 1);
        if block.len() >= BLOCK {
            end_block(&mut block, &mut in_block, &mut out)?;
            progress(all);
        }
    }
    if in_block > 0 {
        end_block(&mut block, &mut in_block, &mut out)?;
    }
    sum.update(&all.to_le_bytes());
    out.write_all(&[0; 8])?;
    out.write_all(&sum.finalize().to_le_bytes())?;
    out.write_all(&all.to_le_bytes())
}

/// Reads a dump.
pub(super) struct Reader {
    sum: crc32fast::Hasher,
    block: io::Cursor<Vec<u8>>,
    in_block: u32,
    all: u64,
    is_over: bool,
}

impl Reader {
    /// Reads the header.
    pub(super) fn open(input: &mut impl Read) -> io::Result<(Self, Header)> {
        let mut bytes = [0; HEADER];
        let read = input.read_exact(&mut bytes);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => wrong("this is no dump"),
            _ => error,
        })?;
        let header = Header::decode(bytes)?;
        let mut sum = crc32fast::Hasher::new();
        sum.update(&bytes);
        let block = io::Cursor::default();
        Ok((Self { sum, block, in_block: 0, all: 0, is_over: false }, header))
    }

    /// Reads the next pair; `None` at the end.
    pub(super) fn next<D: Datum>(&mut self, input: &mut impl Read) -> io::Result<Option<(D, D)>> {
        while self.in_block == 0 && !self.is_over {
            self.next_block(input)?;
        }
        if self.is_over {
            return Ok(None);
        }
        // The checksum is right, so that a block holds what it should, or was made by hand.
        let mut read = || whole(D::read(&mut self.block))?.ok_or_else(|| wrong("a block is short"));
        let pair = (read()?, read()?);
        self.in_block -= 1;
        if self.in_block == 0 && self.block.position() != self.block.get_ref().len() as u64 {
            return Err(wrong("a block is long"));
        }
        self.all += 1;
        Ok(Some(pair))
    }

    fn next_block(&mut self, input: &mut impl Read) -> io::Result<()> {
        let mut words = [[0; 4]; 3];
        words.iter_mut().try_for_each(|word| whole(input.read_exact(word)))?;
        let [length, pairs, sum] = words.map(u32::from_le_bytes);
        if length == 0 {
            let mut all = [0; 8];
            whole(input.read_exact(&mut all))?;
            self.sum.update(&all);
            self.check(sum)?;
            if u64::from_le_bytes(all) != self.all {
                return Err(wrong("pairs are missing"));
            }
            self.is_over = true;
            return Ok(());
        }
        if pairs == 0 {
            return Err(wrong("the dump is damaged"));
        }
        let mut block = Vec::new();
        // Not allocated at once: in a damaged dump the length may be anything.
        let read = input.by_ref().take(u64::from(length)).read_to_end(&mut block)?;
        if read != length as usize {
            return Err(wrong("the dump is not whole"));
        }
        self.sum.update(&block);
        self.check(sum)?;
        self.block = io::Cursor::new(block);
        self.in_block = pairs;
        Ok(())
    }

    fn check(&self, sum: u32) -> io::Result<()> {
        match self.sum.clone().finalize() == sum {
            true => Ok(()),
            false => Err(wrong("the dump is damaged")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumped(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let header = Header::of::<Vec<u8>>(Kind::TurboBlobs);
        write(&mut bytes, header, pairs.iter().cloned(), |_| {}).unwrap();
        bytes
    }

    fn read(mut bytes: &[u8]) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let (mut reader, header) = Reader::open(&mut bytes)?;
        assert_eq!(header, Header { kind: Kind::TurboBlobs, has_bytes: true });
        let mut all = Vec::new();
        while let Some(pair) = reader.next(&mut bytes)? {
            all.push(pair);
        }
        Ok(all)
    }

    #[test]
    fn a_dump_that_is_not_whole_is_refused() {
        let pair = |n: u8| (vec![n; 3], vec![n; usize::from(n) * 10]);
        let mut pairs: Vec<_> = (0..100).map(pair).collect();
        pairs.push((vec![1], vec![2; 200_000]));
        for pairs in [&pairs[..], &pairs[..1], &[]] {
            let bytes = dumped(pairs);
            assert_eq!(read(&bytes).unwrap(), pairs);
            for end in (0..bytes.len()).step_by(1 + bytes.len() / 500).chain([bytes.len() - 1]) {
                assert!(read(&bytes[..end]).is_err(), "{end} of {}", bytes.len());
            }
        }
        let bytes = dumped(&pairs);
        // Bytes 12 to 23 tell the kind, which the test expects.
        for at in (0..12).chain(24..bytes.len()).step_by(97) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(read(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_missing_block_is_noticed() {
        let pairs: Vec<_> = (0..200_u8).map(|n| (vec![n], vec![n; 2000])).collect();
        let bytes = dumped(&pairs);
        let length = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let second = HEADER + 12 + length(HEADER);
        let without = [&bytes[..HEADER], &bytes[second..]].concat();
        assert!(read(&without).is_err());
    }
}
