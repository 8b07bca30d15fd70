//! A whole file of Redis's (RDB), read as a stream: a primary sends one to a replica.
//!
//! ```text
//! | REDIS or VALKEY, version | parts | 255 | CRC-64 of all before it (8), or zeros |
//! ```
//!
//! Only one value is in memory at a time. A file that is wrong in any way is an error, never a panic.

use super::value::{self, Input, MOST};
use super::{CHECKSUM, RdbError};
use crate::store::record::Kind;
use crc::{Digest, Table};
use std::fmt;
use std::io::{self, BufRead};

/// The first version with a checksum: that of Redis 2.6, which knew no partial synchronisation yet.
const OLDEST: u32 = 5;
/// The newest versions that are read: those of Redis 7.4, and of Valkey 9.
const NEWEST_REDIS: u32 = 12;
const NEWEST_VALKEY: u32 = 80;

const SLOT_INFO: u8 = 244;
const FUNCTION: u8 = 245;
const MODULE: u8 = 247;
const IDLE: u8 = 248;
const FREQUENCY: u8 = 249;
const AUXILIARY: u8 = 250;
const SIZES: u8 = 251;
const EXPIRY_MILLIS: u8 = 252;
const EXPIRY_SECONDS: u8 = 253;
const DATABASE: u8 = 254;
const END: u8 = 255;

/// Why a file can't be read to its end.
#[derive(Debug)]
pub(crate) enum FileError {
    /// The bytes can't be read, or have ended.
    Io(io::Error),
    /// The file is no RDB, or was changed on its way.
    Damaged(String),
    /// The file has what this server has not.
    Unsupported(String),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the RDB file can't be read: {error}"),
            Self::Damaged(what) => write!(f, "the RDB file is damaged: {what}"),
            Self::Unsupported(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for FileError {}

/// A key with its value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) db: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) kind: Kind,
    /// Milliseconds since 1970.
    pub(crate) expiry: Option<u64>,
    /// The payload of a record.
    pub(crate) payload: Vec<u8>,
}

/// A file that is being read.
pub(crate) struct RdbFile<R> {
    input: Checked<R>,
    db: usize,
    /// The database of the stream behind the file, if the file tells it.
    stream_db: Option<usize>,
}

/// Bytes with their checksum.
struct Checked<R> {
    source: R,
    digest: Digest<'static, u64, Table<16>>,
    failure: Option<io::Error>,
}

impl<R: BufRead> Checked<R> {
    /// Passes the next `len` bytes on, in pieces.
    fn pass(&mut self, mut len: usize, mut take: impl FnMut(&[u8])) -> Result<(), RdbError> {
        while len > 0 {
            let piece = match self.source.fill_buf() {
                Ok([]) => Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other,
            };
            match piece {
                Ok(piece) => {
                    let piece = &piece[..piece.len().min(len)];
                    let used = piece.len();
                    self.digest.update(piece);
                    take(piece);
                    self.source.consume(used);
                    len -= used;
                }
                Err(error) => {
                    self.failure = Some(error);
                    return Err(RdbError::Ended);
                }
            }
        }
        Ok(())
    }
}

impl<R: BufRead> Input for Checked<R> {
    fn read(&mut self, out: &mut Vec<u8>, len: usize) -> Result<(), RdbError> {
        self.pass(len, |piece| out.extend_from_slice(piece))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        let (mut bytes, mut at) = ([0; N], 0);
        self.pass(N, |piece| {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        })?;
        Ok(bytes)
    }
}

/// Shows a key in a line of text.
pub(crate) fn shown(key: &[u8]) -> String {
    let dots = if key.len() > 64 { "..." } else { "" };
    format!("\"{}{dots}\"", key[..key.len().min(64)].escape_ascii())
}

impl<R: BufRead> RdbFile<R> {
    /// Reads the head of a file.
    pub(crate) fn open(source: R) -> Result<Self, FileError> {
        let input = Checked { source, digest: CHECKSUM.digest(), failure: None };
        let mut this = Self { input, db: 0, stream_db: None };
        let head: [u8; 9] = this.input.array().map_err(|error| this.failed(error, None))?;
        let (newest, digits) = match (&head[..5], &head[..6]) {
            (b"REDIS", _) => (NEWEST_REDIS, &head[5..]),
            (_, b"VALKEY") => (NEWEST_VALKEY, &head[6..]),
            _ => return Err(FileError::Damaged("it begins otherwise".into())),
        };
        let version = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        let Some(version) = version.filter(|&version: &u32| version >= OLDEST) else {
            return Err(FileError::Damaged("its version is none that has a checksum".into()));
        };
        if version > newest {
            let why = format!("the RDB file has version {version}; this server knows {newest}");
            return Err(FileError::Unsupported(why));
        }
        Ok(this)
    }

    /// Says what an error of a value means.
    fn failed(&mut self, error: RdbError, key: Option<&[u8]>) -> FileError {
        let what = match key {
            Some(key) => format!("key {} of database {}", shown(key), self.db),
            None => format!("a part of database {}", self.db),
        };
        match error {
            RdbError::Ended => {
                let error = self.input.failure.take();
                FileError::Io(error.unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
            }
            RdbError::Format | RdbError::Footer => FileError::Damaged(what),
            RdbError::Long => FileError::Unsupported(format!("{what} is longer than {MOST} bytes")),
            RdbError::Kind(kind) => FileError::Unsupported(format!(
                "{what} is {}, and this server has no such type",
                value::name_of(kind)
            )),
        }
    }

    /// Returns what the file is read from.
    pub(crate) fn source(&self) -> &R {
        &self.input.source
    }

    /// Returns the database of the stream behind the file, if a part of the file has told it.
    pub(crate) fn stream_db(&self) -> Option<usize> {
        self.stream_db
    }

    /// Reads up to the next key; `None` at the end of the file, whose checksum is right.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, FileError> {
        let mut expiry = None;
        loop {
            let opcode = self.input.byte().map_err(|error| self.failed(error, None))?;
            if opcode == END {
                return self.end().map(|()| None);
            }
            if opcode < SLOT_INFO {
                return self.entry(opcode, expiry).map(Some);
            }
            self.part(opcode, &mut expiry).map_err(|error| match (opcode, error) {
                (MODULE, RdbError::Kind(_)) => FileError::Unsupported(
                    "the primary has data of a module, and this server has no modules".into(),
                ),
                (_, RdbError::Kind(_)) => {
                    FileError::Unsupported(format!("the RDB file has an unknown part ({opcode})"))
                }
                (_, error) => self.failed(error, None),
            })?;
        }
    }

    /// Reads a part that is no key.
    fn part(&mut self, opcode: u8, expiry: &mut Option<u64>) -> Result<(), RdbError> {
        let input = &mut self.input;
        match opcode {
            DATABASE => self.db = input.count()?,
            SIZES => drop((input.count()?, input.count()?)),
            SLOT_INFO => drop((input.count()?, input.count()?, input.count()?)),
            IDLE => drop(input.count()?),
            FREQUENCY => drop(input.byte()?),
            EXPIRY_MILLIS => *expiry = Some(i64::from_le_bytes(input.array()?).max(0) as u64),
            EXPIRY_SECONDS => {
                *expiry = Some(i32::from_le_bytes(input.array()?).max(0) as u64 * 1000);
            }
            // Functions are no keys, and do not run here.
            FUNCTION => input.string(&mut Vec::new())?,
            AUXILIARY => {
                let (mut name, mut text) = (Vec::new(), Vec::new());
                input.string(&mut name)?;
                input.string(&mut text)?;
                if name == b"repl-stream-db" {
                    let text = std::str::from_utf8(&text).ok();
                    self.stream_db = text.and_then(|text| text.parse().ok());
                }
            }
            _ => return Err(RdbError::Kind(opcode)),
        }
        Ok(())
    }

    fn entry(&mut self, kind: u8, expiry: Option<u64>) -> Result<Entry, FileError> {
        let mut key = Vec::new();
        self.input.string(&mut key).map_err(|error| self.failed(error, None))?;
        let value = value::read(kind, &mut self.input);
        let (kind, payload) = value.map_err(|error| self.failed(error, Some(&key)))?;
        Ok(Entry { db: self.db, key, kind, expiry, payload })
    }

    fn end(&mut self) -> Result<(), FileError> {
        let made = self.input.digest.clone().finalize();
        let told = self.input.array().map_err(|error| self.failed(error, None))?;
        match u64::from_le_bytes(told) {
            // The primary makes no checksums.
            0 => Ok(()),
            told if told == made => Ok(()),
            _ => Err(FileError::Damaged("its checksum is another".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::record::push_item;
    use std::io::BufReader;

    /// A file with a checksum.
    fn file_of(parts: &[u8]) -> Vec<u8> {
        let mut bytes = [b"REDIS0011", parts, &[END]].concat();
        let checksum = CHECKSUM.checksum(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<Entry>, FileError> {
        // Pieces of seven bytes, so that everything is cut somewhere.
        let mut file = RdbFile::open(BufReader::with_capacity(7, bytes))?;
        let mut all = Vec::new();
        while let Some(entry) = file.next()? {
            all.push(entry);
        }
        Ok(all)
    }

    /// Parts of every kind.
    fn parts() -> Vec<u8> {
        let text = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
        let mut parts = vec![AUXILIARY];
        parts.extend(text("repl-stream-db"));
        parts.extend([0xC0, 2, FUNCTION]);
        parts.extend(text("#!lua name=f"));
        parts.extend([DATABASE, 2, SIZES, 5, 1, SLOT_INFO, 1, 2, 3]);
        parts.extend([0, 1, b'a', 0xC1, 0xFE, 0xFF]);
        parts.push(EXPIRY_MILLIS);
        parts.extend(4_102_444_800_123_i64.to_le_bytes());
        parts.extend([IDLE, 0x40, 200, 2, 1, b's', 2, 1, b'x', 0xC2, 0, 0, 1, 0]);
        parts.push(EXPIRY_SECONDS);
        parts.extend(1_000_i32.to_le_bytes());
        parts.extend([FREQUENCY, 9, 4, 1, b'h', 1, 1, b'f', 0xC3, 5, 10, 1, b'a', b'b', 0xC0, 1]);
        parts.extend([11, 1, b'i', 12, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 2, 0]);
        parts.extend([20, 1, b'l', 9, 9, 0, 0, 0, 1, 0, 7, 1, 0xFF]);
        parts
    }

    fn payload(items: &[&[u8]]) -> Vec<u8> {
        let mut payload = Vec::new();
        items.iter().for_each(|item| push_item(&mut payload, item));
        payload
    }

    #[test]
    fn a_file_is_read_in_pieces() {
        let all = read(&file_of(&parts())).unwrap();
        let entry = |key: &[u8], kind, expiry, payload| {
            let key = key.to_vec();
            Entry { db: 2, key, kind, expiry, payload }
        };
        let wanted = [
            entry(b"a", Kind::String, None, b"-2".to_vec()),
            entry(b"s", Kind::Set, Some(4_102_444_800_123), payload(&[b"x", b"65536"])),
            entry(b"h", Kind::Hash, Some(1_000_000), payload(&[b"f", b"ababababab"])),
            entry(b"i", Kind::Set, None, payload(&[b"1", b"2"])),
            entry(b"l", Kind::Set, None, payload(&[b"7"])),
        ];
        assert_eq!(all, wanted);
        let bytes = file_of(&parts());
        let mut file = RdbFile::open(&bytes[..]).unwrap();
        while file.next().unwrap().is_some() {}
        assert_eq!(file.stream_db(), Some(2));
    }

    /// A file that was cut or changed anywhere is an error. (A changed byte of a file without a checksum may be
    /// another file; it is no panic.)
    #[test]
    fn cut_and_changed_files_are_errors() {
        let whole = file_of(&parts());
        for end in 0..whole.len() {
            assert!(matches!(read(&whole[..end]), Err(FileError::Io(_))), "cut at {end}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                assert!(read(&changed).is_err(), "byte {at}, bit {bit}");
                let end = changed.len() - 8;
                changed[end..].fill(0);
                let _ = read(&changed);
            }
        }
        let mut unchecked = whole;
        let end = unchecked.len() - 8;
        unchecked[end..].fill(0);
        assert_eq!(read(&unchecked).unwrap().len(), 5);
    }

    #[test]
    fn what_the_server_has_not_is_named() {
        let told = |parts: &[u8]| match read(&file_of(parts)) {
            Err(FileError::Unsupported(what)) => what,
            other => panic!("{other:?}"),
        };
        let list = told(&[DATABASE, 3, 18, 3, b'a', b'\n', 0xFF, 1, 2]);
        assert_eq!(
            list,
            "key \"a\\n\\xff\" of database 3 is a list (type 18), and this server has no such type"
        );
        assert!(told(&[17, 1, b'z', 0]).contains("a sorted set (type 17)"));
        assert!(told(&[99, 1, b'z', 0]).contains("of an unknown type (type 99)"));
        assert!(told(&[MODULE, 1]).contains("a module"));
        assert!(told(&[246]).contains("unknown part (246)"));
        // A string of 2 GiB: nothing is reserved for it.
        assert!(told(&[0, 1, b'a', 0x80, 0x80, 0, 0, 0]).contains("longer than"));
        for head in ["REDIS0013", "VALKEY081"] {
            assert!(matches!(read(head.as_bytes()), Err(FileError::Unsupported(_))), "{head}");
        }
        for head in ["REDIS00x1", "RADIS0011", "VALKEY000"] {
            assert!(matches!(read(head.as_bytes()), Err(FileError::Damaged(_))), "{head}");
        }
    }
}
