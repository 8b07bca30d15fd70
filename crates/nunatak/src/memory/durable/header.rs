//! The first page of a file: what the file is.
//!
//! ```text
//! byte    0  magic, version, endianness, kind             written once, when the file
//!        24  description of the table: 12 words           is created, and covered by
//!       120  checksum of all that                         the checksum
//!       128  session: whether the file was closed
//!       192  root: the word by which a table finds itself again, or, if pages are
//!            copied, the last epoch that is durable, and the last that has begun
//!       256  journal: the first transaction that counts, and since which start of the
//!            machine
//!       512  extents, 16 bytes each
//! ```
//!
//! Each word from the session on is stored by itself, and each cache line has a meaning of its own.
//! So a crash tears nothing.

use super::extents::{ENTRIES, Entry};
use crate::error::{Error, FileError};
use crate::sync::AtomicU64;

const MAGIC: [u8; 8] = *b"NUNATAK\n";
/// The version of the format that this code writes, and the latest that it reads.
pub(super) const VERSION: u32 = 1;
/// This constant has another value on a machine of the other endianness.
const ENDIANNESS: u32 = 0x0102_0304;

/// The size of the header.
pub(super) const HEADER: usize = 4096;
const DESCRIPTION: usize = 12;
/// The bytes before this say which kind the file is of.
pub(super) const KIND: usize = 24;
const CHECKSUM_AT: usize = 120;
const SESSION: usize = 128;
const ROOT: usize = 192;
const BEGUN: usize = 200;
const JOURNAL: usize = 256;
pub(super) const BOOT: usize = 264;
const EXTENTS: usize = 512;

/// The session word of a file that was closed.
const CLOSED: u64 = u64::from_le_bytes(*b"closed\0\0");
const OPEN: u64 = u64::from_le_bytes(*b"open\0\0\0\0");

/// Kinds of tables. Numbers are written to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Kind {
    Iceberg = 1,
    Pea = 2,
    PeaMulti = 3,
    Turbo = 4,
    TurboBlobs = 5,
}

/// Returns the number of the kind of a file that begins with these bytes.
pub(super) fn kind_of(page: &[u8]) -> Result<u64, Error> {
    match page.get(..KIND) {
        Some(page) if page[..8] == MAGIC => {
            Ok(u64::from_ne_bytes(page[16..24].try_into().unwrap_or_default()))
        }
        _ => Err(FileError::NotAMap.into()),
    }
}

/// Words that a table stores for the next time the file is opened. Only the table knows their
/// meaning.
pub(crate) type Description = [u64; DESCRIPTION];

/// Returns the bytes that say what the file is.
pub(super) fn encode(kind: Kind, description: &Description) -> [u8; SESSION] {
    let mut page = [0; SESSION];
    page[..8].copy_from_slice(&MAGIC);
    page[8..12].copy_from_slice(&VERSION.to_ne_bytes());
    page[12..16].copy_from_slice(&ENDIANNESS.to_ne_bytes());
    page[16..24].copy_from_slice(&(kind as u64).to_ne_bytes());
    for (at, word) in description.iter().enumerate() {
        page[24 + 8 * at..][..8].copy_from_slice(&word.to_ne_bytes());
    }
    let checksum = u64::from(crc32fast::hash(&page[..CHECKSUM_AT]));
    page[CHECKSUM_AT..].copy_from_slice(&checksum.to_ne_bytes());
    page
}

/// Returns the description of a file of this kind.
pub(super) fn decode(page: &[u8; HEADER], kind: Kind) -> Result<Description, Error> {
    let word = |at: usize| u64::from_ne_bytes(page[at..at + 8].try_into().unwrap_or_default());
    if page[..8] != MAGIC {
        return Err(FileError::NotAMap.into());
    }
    let half = |at: usize| u32::from_ne_bytes(page[at..at + 4].try_into().unwrap_or_default());
    match half(12) {
        ENDIANNESS => {}
        swapped if swapped == ENDIANNESS.swap_bytes() => {
            return Err(FileError::OtherEndianness.into());
        }
        _ => return Err(FileError::Corrupt { what: "the endianness is none" }.into()),
    }
    // Before the checksum, which may lie elsewhere in a later version.
    if half(8) > VERSION {
        return Err(FileError::NewerVersion { found: half(8), known: VERSION }.into());
    }
    if word(CHECKSUM_AT) != u64::from(crc32fast::hash(&page[..CHECKSUM_AT])) {
        return Err(FileError::Corrupt { what: "the checksum of the header is wrong" }.into());
    }
    if half(8) == 0 {
        return Err(FileError::Corrupt { what: "the version is none" }.into());
    }
    if word(16) != kind as u64 {
        return Err(FileError::OtherKind { what: "kind of map" }.into());
    }
    Ok(core::array::from_fn(|at| word(24 + 8 * at)))
}

/// The changing words of the first page, as mapped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page(*const u8);

// SAFETY: the words are atomic, and the pool that owns them keeps them mapped while it lives.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// # Safety
    /// So many bytes are mapped there, aligned to words, and stay mapped while this is used.
    pub(super) unsafe fn new(address: *const u8) -> Self {
        Self(address)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at + 8 <= HEADER && at.is_multiple_of(8));
        // SAFETY: within the bytes that `new` was promised.
        unsafe { &*self.0.add(at).cast() }
    }

    pub(super) fn session(&self) -> &AtomicU64 {
        self.word(SESSION)
    }

    pub(super) fn root(&self) -> &AtomicU64 {
        self.word(ROOT)
    }

    pub(super) fn begun(&self) -> &AtomicU64 {
        self.word(BEGUN)
    }

    pub(super) fn journal(&self) -> &AtomicU64 {
        self.word(JOURNAL)
    }

    pub(super) fn boot(&self) -> &AtomicU64 {
        self.word(BOOT)
    }

    pub(super) fn address(&self) -> *const u8 {
        self.0
    }

    /// Returns both words of an entry.
    pub(super) fn entry(&self, number: usize) -> Entry<'_> {
        debug_assert!(number < ENTRIES);
        let at = EXTENTS + 16 * number;
        Entry { first: self.word(at), second: self.word(at + 8) }
    }
}

/// Returns the session word of an open or a closed file.
pub(super) const fn session(is_open: bool) -> u64 {
    if is_open { OPEN } else { CLOSED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_as_it_was_written() {
        let description = core::array::from_fn(|at| at as u64 * 7);
        let mut page = [0; HEADER];
        page[..SESSION].copy_from_slice(&encode(Kind::Iceberg, &description));
        assert_eq!(decode(&page, Kind::Iceberg), Ok(description));
        for byte in 0..SESSION {
            for bit in 0..8 {
                page[byte] ^= 1 << bit;
                assert!(decode(&page, Kind::Iceberg).is_err(), "bit {bit} of byte {byte}");
                page[byte] ^= 1 << bit;
            }
        }
        page[8..12].copy_from_slice(&9_u32.to_ne_bytes());
        let newer = Err(FileError::NewerVersion { found: 9, known: VERSION }.into());
        assert_eq!(decode(&page, Kind::Iceberg), newer);
        page[..16].fill(0);
        assert_eq!(decode(&page, Kind::Iceberg), Err(FileError::NotAMap.into()));
    }
}
