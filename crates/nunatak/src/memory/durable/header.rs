//! The first page of a file: what the file is.
//!
//! ```text
//! byte      0  first copy of the header
//!        4096  second copy of the header
//!        8192  first copy of the extents, 32 bytes each
//!       24576  second copy of the extents
//!
//! header    0  magic, version, endianness, kind             written once, when the file
//!          24  description of the table: 12 words           is created, and covered by
//!         120  checksum of all that                         the checksum
//!         128  session: whether the file was closed
//!         192  root: the word by which a table finds itself again, or, if pages are
//!              copied, the last epoch that is durable
//!         200  the last epoch that has begun
//!         256  journal: the first transaction that counts
//!         264  since which start of the machine, and in which file
//!         320  how many items a table had when it was closed
//!         512  the schema, if the number of the kind says that there is one
//!
//! field     63 … 48   47 … 0
//!           | CRC   | value |
//! ```
//!
//! Each field is one word, which is stored at once, so a crash tears nothing. A field is stored
//! in the first copy, and then in the second. The first copy counts, unless it is damaged.

use super::extents::{ENTRIES, ENTRY, Entry};
use super::schema_block;
use super::{COPIES, HEADER, PAGE};
use crate::Schema;
use crate::error::{Error, FileError};
use crate::sync::{AtomicU64, Ordering};

const MAGIC: [u8; 8] = *b"NUNATAK\n";
/// The version of the format that this code writes.
pub(super) const VERSION: u32 = 3;
/// The earliest version that this code reads, and changes as what it is.
const OLDEST: u32 = 2;
/// This constant has another value on a machine of the other endianness.
const ENDIANNESS: u32 = 0x0102_0304;

/// Where each copy of the extents begins.
const EXTENTS: [usize; 2] = [2 * HEADER, 2 * HEADER + ENTRIES * ENTRY];

const DESCRIPTION: usize = 12;
/// The bytes before this say which kind the file is of.
pub(super) const KIND: usize = 24;
const CHECKSUM_AT: usize = 120;
/// The bytes that never change.
const IDENTITY: usize = 128;

/// A word of the header that changes. The number is its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Field {
    /// [`OPEN`] or [`CLOSED`].
    Session = 128,
    Root = 192,
    Begun = 200,
    Journal = 256,
    Since = 264,
    Items = 320,
}

const FIELDS: [Field; 6] =
    [Field::Session, Field::Root, Field::Begun, Field::Journal, Field::Since, Field::Items];

/// Sessions. A file that was closed is as its last user wanted it.
pub(super) const OPEN: u64 = 1;
pub(super) const CLOSED: u64 = 2;
/// In place of a start of the machine: the system does not tell them, or a sync has failed.
pub(super) const UNKNOWN: u64 = 1;

/// The error of a session that is neither.
pub(super) fn no_session() -> Error {
    FileError::corrupt_at("the session in the header", Field::Session as u64).into()
}

const VALUE_BITS: u32 = 48;
/// The largest value of a field.
pub(super) const MOST: u64 = (1 << VALUE_BITS) - 1;

/// Returns the word of a field.
pub(super) fn word_of(field: Field, value: u64) -> u64 {
    debug_assert!(value <= MOST);
    let mut bytes = value.to_le_bytes();
    bytes[6..].copy_from_slice(&(field as u16).to_le_bytes());
    // The offset is part of the sum, so that a word in the wrong place is damage, too; and zero is
    // no field's word.
    u64::from(crc32fast::hash(&bytes)) << VALUE_BITS | value
}

/// Returns the value in the word of a field, unless the word is damaged.
pub(super) fn value_of(field: Field, word: u64) -> Option<u64> {
    let value = word & MOST;
    (word_of(field, value) == word).then_some(value)
}

/// Kinds of tables. Numbers are written to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Kind {
    Iceberg = 1,
    Pea = 2,
    PeaMulti = 3,
    Turbo = 4,
    TurboBlobs = 5,
    PeaBlobs = 6,
    IcebergBlobs = 7,
}

impl Kind {
    /// Whether the parts `Front` and `Back` are buckets, whose headers recovery builds again.
    pub(super) fn has_buckets(self) -> bool {
        !matches!(self, Self::Iceberg | Self::IcebergBlobs)
    }

    /// Whether the table is TurboHash.
    pub(super) fn is_turbo(self) -> bool {
        matches!(self, Self::Turbo | Self::TurboBlobs)
    }
}

/// This bit of a kind's number says that the file has a [schema](super::schema_block). A library that
/// knows no schemas takes the number for an unknown kind.
const HAS_SCHEMA: u64 = 1 << 32;

/// Returns the number of the kind of a file that begins with these bytes.
pub(super) fn kind_of(page: &[u8]) -> Result<u64, Error> {
    Ok(kind_word(page)? & !HAS_SCHEMA)
}

/// Whether a file that begins with these bytes has a schema.
pub(super) fn has_schema(page: &[u8]) -> bool {
    kind_word(page).is_ok_and(|word| word & HAS_SCHEMA != 0)
}

fn kind_word(page: &[u8]) -> Result<u64, Error> {
    let word = |at: usize| u64::from_ne_bytes(page[at..at + 8].try_into().unwrap_or_default());
    let has_magic = |at: &&usize| page.get(**at..*at + KIND).is_some_and(|copy| copy[..8] == MAGIC);
    let is_whole = |at: &&usize| {
        page.get(**at..*at + IDENTITY).is_some_and(|copy| {
            word(*at + CHECKSUM_AT) == u64::from(crc32fast::hash(&copy[..CHECKSUM_AT]))
        })
    };
    // A file of another version may have its checksum elsewhere.
    let mut copies = COPIES.iter().filter(has_magic);
    let copy = copies.clone().find(is_whole).or_else(|| copies.next());
    copy.map(|at| word(at + 16)).ok_or_else(|| FileError::NotAMap.into())
}

/// Returns the start of the machine that the first page of a file names; zero if it names none.
pub(super) fn since_of(page: &[u8]) -> u64 {
    field_of(page, Field::Since)
}

/// Whether the first page says that a sync of the last handle has failed.
pub(super) fn has_failed(page: &[u8]) -> bool {
    field_of(page, Field::Session) == OPEN && since_of(page) == UNKNOWN
}

fn field_of(page: &[u8], field: Field) -> u64 {
    let at = field as usize;
    let word =
        page.get(at..at + 8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    word.and_then(|word| value_of(field, word)).unwrap_or(0)
}

/// Words that a table stores for the next time the file is opened. Only the table knows their
/// meaning.
pub(crate) type Description = [u64; DESCRIPTION];

/// Returns both copies of the header of a new file.
pub(super) fn encode(
    kind: Kind,
    description: &Description,
    schema: Option<&Schema>,
) -> [u8; 2 * HEADER] {
    let mut pages = [0; 2 * HEADER];
    let (page, second) = pages.split_at_mut(HEADER);
    page[..8].copy_from_slice(&MAGIC);
    page[8..12].copy_from_slice(&VERSION.to_ne_bytes());
    page[12..16].copy_from_slice(&ENDIANNESS.to_ne_bytes());
    let bit = if schema.is_some() { HAS_SCHEMA } else { 0 };
    page[16..24].copy_from_slice(&(kind as u64 | bit).to_ne_bytes());
    for (at, word) in description.iter().enumerate() {
        page[24 + 8 * at..][..8].copy_from_slice(&word.to_ne_bytes());
    }
    let checksum = u64::from(crc32fast::hash(&page[..CHECKSUM_AT]));
    page[CHECKSUM_AT..][..8].copy_from_slice(&checksum.to_ne_bytes());
    for field in FIELDS {
        let value = if field == Field::Session { OPEN } else { 0 };
        page[field as usize..][..8].copy_from_slice(&word_of(field, value).to_ne_bytes());
    }
    if let Some(schema) = schema {
        schema_block::write(page, schema);
    }
    second.copy_from_slice(page);
    pages
}

/// Returns the description of a file of this kind, of which this is the first page.
pub(super) fn decode_page(page: &[u8], kind: Kind) -> Result<Description, Error> {
    let copy = |at: usize| {
        let mut copy = [0; HEADER];
        let bytes = page.get(at..).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(HEADER)];
        copy[..bytes.len()].copy_from_slice(bytes);
        decode(&copy, kind)
    };
    copy(COPIES[0]).or_else(|error| copy(COPIES[1]).map_err(|_| error))
}

/// Returns the description in a copy of the header.
fn decode(page: &[u8; HEADER], kind: Kind) -> Result<Description, Error> {
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
        _ => return Err(FileError::corrupt_at("the endianness in the header", 12).into()),
    }
    // Before the checksum, which may lie elsewhere in a later version.
    if half(8) > VERSION {
        return Err(FileError::NewerVersion { found: half(8), known: VERSION }.into());
    }
    if word(CHECKSUM_AT) != u64::from(crc32fast::hash(&page[..CHECKSUM_AT])) {
        return Err(FileError::corrupt_at("the checksum of the header", CHECKSUM_AT as u64).into());
    }
    if half(8) < OLDEST {
        return Err(FileError::OlderVersion { found: half(8), known: OLDEST }.into());
    }
    if word(16) & !HAS_SCHEMA != kind as u64 {
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
        debug_assert!(at + 8 <= PAGE && at.is_multiple_of(8));
        // SAFETY: within the bytes that `new` was promised.
        unsafe { &*self.0.add(at).cast() }
    }

    /// Returns a field's word in a copy.
    pub(super) fn field(&self, copy: usize, field: Field) -> &AtomicU64 {
        self.word(COPIES[copy] + field as usize)
    }

    /// Returns the value of a field.
    ///
    /// # Errors
    /// If both copies are damaged.
    pub(super) fn load(&self, field: Field) -> Result<u64, Error> {
        // Relaxed: no memory is published by a field.
        let value = |copy| value_of(field, self.field(copy, field).load(Ordering::Relaxed));
        let value = value(0).or_else(|| value(1));
        value.ok_or_else(|| FileError::corrupt_at("both copies of the header", field as u64).into())
    }

    /// Returns the words of both copies that differ: where each is, and the word that it should be.
    pub(super) fn differences(&self) -> Vec<(&AtomicU64, u64)> {
        // Relaxed: as in `load`.
        let load = |at: usize| self.word(at).load(Ordering::Relaxed);
        let bytes: Vec<u8> =
            (0..IDENTITY).step_by(8).flat_map(|at| load(at).to_ne_bytes()).collect();
        let is_whole = load(CHECKSUM_AT) == u64::from(crc32fast::hash(&bytes[..CHECKSUM_AT]));
        let mut all = Vec::new();
        let mut copy = |from: usize, to: usize| {
            if load(from) != load(to) {
                all.push((self.word(to), load(from)));
            }
        };
        for at in (0..IDENTITY).step_by(8) {
            match is_whole {
                true => copy(at, HEADER + at),
                false => copy(HEADER + at, at),
            }
        }
        for field in FIELDS {
            let at = field as usize;
            match value_of(field, load(at)) {
                Some(_) => copy(at, HEADER + at),
                None => copy(HEADER + at, at),
            }
        }
        if self.has_schema() {
            let block = schema_block::range();
            let from = if self.schema_in(0).is_some() { 0 } else { HEADER };
            block.step_by(8).for_each(|at| copy(from + at, HEADER - from + at));
        }
        all
    }

    fn bytes(&self, range: core::ops::Range<usize>) -> Vec<u8> {
        // Relaxed: as in `load`.
        let word = |at| self.word(at).load(Ordering::Relaxed).to_ne_bytes();
        range.step_by(8).flat_map(word).collect()
    }

    pub(super) fn has_schema(&self) -> bool {
        has_schema(&self.bytes(0..2 * HEADER))
    }

    fn schema_in(&self, copy: usize) -> Option<&'static Schema> {
        schema_block::read_copy(&self.bytes(copy..copy + HEADER))
    }

    /// Returns the schema, of a file that has one.
    ///
    /// # Errors
    /// If both copies are damaged.
    pub(super) fn schema(&self) -> Result<Option<&'static Schema>, Error> {
        let bytes = self.bytes(0..2 * HEADER);
        has_schema(&bytes).then(|| schema_block::read(&bytes)).transpose()
    }

    /// Checks that every field has a copy that is not damaged.
    pub(super) fn check(&self) -> Result<(), Error> {
        FIELDS.iter().try_for_each(|&field| self.load(field).map(drop))
    }

    pub(super) fn address(&self) -> *const u8 {
        self.0
    }

    /// Returns the words of an entry in a copy.
    pub(super) fn entry(&self, copy: usize, number: usize) -> Entry<'_> {
        debug_assert!(number < ENTRIES);
        let at = EXTENTS[copy] + ENTRY * number;
        Entry { first: self.word(at), second: self.word(at + 8), check: self.word(at + 16) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_as_it_was_written() {
        let description = core::array::from_fn(|at| at as u64 * 7);
        let pages = encode(Kind::Iceberg, &description, None);
        let mut page: [u8; HEADER] = pages[..HEADER].try_into().unwrap();
        assert_eq!(decode(&page, Kind::Iceberg), Ok(description));
        assert_eq!(kind_of(&pages), Ok(Kind::Iceberg as u64));
        for byte in 0..IDENTITY {
            for bit in 0..8 {
                page[byte] ^= 1 << bit;
                assert!(decode(&page, Kind::Iceberg).is_err(), "bit {bit} of byte {byte}");
                let mut pages = pages;
                pages[..HEADER].copy_from_slice(&page);
                assert_eq!(decode_page(&pages, Kind::Iceberg), Ok(description));
                assert_eq!(kind_of(&pages), Ok(Kind::Iceberg as u64));
                page[byte] ^= 1 << bit;
            }
        }
        for (version, error) in [
            (9, FileError::NewerVersion { found: 9, known: VERSION }),
            (1, FileError::corrupt_at("the checksum of the header", CHECKSUM_AT as u64)),
        ] {
            page[8..12].copy_from_slice(&u32::to_ne_bytes(version));
            assert_eq!(decode(&page, Kind::Iceberg), Err(error.into()));
        }
        let checksum = u64::from(crc32fast::hash(&page[..CHECKSUM_AT]));
        page[CHECKSUM_AT..IDENTITY].copy_from_slice(&checksum.to_ne_bytes());
        let older = Err(FileError::OlderVersion { found: 1, known: OLDEST }.into());
        assert_eq!(decode(&page, Kind::Iceberg), older);
        page[..16].fill(0);
        assert_eq!(decode(&page, Kind::Iceberg), Err(FileError::NotAMap.into()));
    }

    #[test]
    fn the_oldest_version_is_read_and_no_other_endianness() {
        let pages = encode(Kind::Pea, &[3; DESCRIPTION], None);
        let decoded = |version: u32, endianness: u32| {
            let mut page: [u8; HEADER] = pages[..HEADER].try_into().unwrap();
            page[8..12].copy_from_slice(&version.to_ne_bytes());
            page[12..16].copy_from_slice(&endianness.to_ne_bytes());
            let checksum = u64::from(crc32fast::hash(&page[..CHECKSUM_AT]));
            page[CHECKSUM_AT..IDENTITY].copy_from_slice(&checksum.to_ne_bytes());
            decode(&page, Kind::Pea)
        };
        assert_eq!(decoded(OLDEST, ENDIANNESS), Ok([3; DESCRIPTION]));
        let other = ENDIANNESS.swap_bytes();
        assert_eq!(decoded(VERSION, other), Err(FileError::OtherEndianness.into()));
        let damaged = FileError::corrupt_at("the endianness in the header", 12);
        assert_eq!(decoded(VERSION, ENDIANNESS + 1), Err(damaged.into()));
    }

    #[test]
    fn a_sync_has_failed_if_an_open_file_names_no_start() {
        for (session, since, has_failed) in
            [(OPEN, UNKNOWN, true), (CLOSED, UNKNOWN, false), (OPEN, UNKNOWN + 1, false)]
        {
            let mut pages = encode(Kind::Pea, &[3; DESCRIPTION], None);
            for (field, value) in [(Field::Session, session), (Field::Since, since)] {
                let word = word_of(field, value).to_ne_bytes();
                pages[field as usize..][..8].copy_from_slice(&word);
            }
            assert_eq!(super::has_failed(&pages), has_failed);
        }
    }

    #[test]
    fn a_flipped_bit_of_a_field_is_noticed() {
        for field in FIELDS {
            for value in [0, 1, 2, 0x1234_5678_9ABC, MOST] {
                let word = word_of(field, value);
                assert_eq!(value_of(field, word), Some(value));
                for bit in 0..64 {
                    assert_eq!(value_of(field, word ^ 1 << bit), None, "bit {bit}");
                    for other in 0..bit {
                        assert_eq!(value_of(field, word ^ 1 << bit ^ 1 << other), None);
                    }
                }
            }
            assert_eq!((value_of(field, 0), value_of(field, u64::MAX)), (None, None));
        }
    }

    #[test]
    fn a_damaged_kind_and_schema_are_mended_from_the_other_copy() {
        let schema = Schema::new("sessions", 2, "str", "postcard").unwrap();
        let pages = encode(Kind::Pea, &[3; DESCRIPTION], Some(schema));
        let words = pages.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        let mut words: Vec<AtomicU64> = words.map(AtomicU64::new).collect();
        words.resize_with(PAGE / 8, AtomicU64::default);
        // SAFETY: so many bytes, aligned to words, while the page is used.
        let page = unsafe { Page::new(words.as_ptr().cast()) };
        assert!(page.has_schema() && page.differences().is_empty());
        for copy in [0, HEADER] {
            let before = [16, 520]
                .map(|at| words[(copy + at) / 8].fetch_xor(HAS_SCHEMA | 1, Ordering::Relaxed));
            let right: Vec<u64> = page.differences().iter().map(|one| one.1).collect();
            assert_eq!(right, before);
            page.differences().iter().for_each(|one| one.0.store(one.1, Ordering::Relaxed));
            assert_eq!(page.schema(), Ok(Some(schema)));
        }
    }

    #[test]
    fn a_damaged_copy_is_mended_from_the_other() {
        let pages = encode(Kind::Pea, &[3; DESCRIPTION], None);
        let mut words: Vec<AtomicU64> = pages
            .chunks_exact(8)
            .map(|word| AtomicU64::new(u64::from_ne_bytes(word.try_into().unwrap())))
            .collect();
        words.resize_with(PAGE / 8, AtomicU64::default);
        // SAFETY: so many bytes, aligned to words, while the page is used.
        let page = unsafe { Page::new(words.as_ptr().cast()) };
        assert!(page.differences().is_empty());
        let used = (0..IDENTITY).step_by(8).chain(FIELDS.iter().map(|&field| field as usize));
        for at in used.flat_map(|at| [at, HEADER + at]) {
            let before = words[at / 8].fetch_xor(1 << (at % 61), Ordering::Relaxed);
            assert_eq!(page.check(), Ok(()));
            let differences = page.differences();
            assert_eq!(differences.iter().map(|one| one.1).collect::<Vec<_>>(), [before]);
            differences.iter().for_each(|(word, right)| word.store(*right, Ordering::Relaxed));
            assert_eq!(words[at / 8].load(Ordering::Relaxed), before, "byte {at}");
        }
        words[Field::Root as usize / 8].store(0, Ordering::Relaxed);
        words[(HEADER + Field::Root as usize) / 8].store(0, Ordering::Relaxed);
        assert!(page.check().is_err() && page.load(Field::Session) == Ok(OPEN));
    }
}
