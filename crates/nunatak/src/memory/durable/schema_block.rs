//! Where the schema of a typed map is: behind the fields of each copy of the header.
//!
//! ```text
//! byte 512  low half: CRC-32 of all that follows; high half: bytes of the text
//!      520  the text (see `Schema`), filled up to whole words with zeros
//! ```
//!
//! Written once, when the file is created. Each copy stands for itself.

use super::{COPIES, HEADER};
use crate::Schema;
use crate::error::{Error, FileError};
use crate::schema::MOST_BYTES;
use core::ops::Range;

const AT: usize = 512;
const TEXT: usize = AT + 8;

/// The bytes of a copy of the header that a schema may take.
pub(super) fn range() -> Range<usize> {
    AT..TEXT + MOST_BYTES
}

/// Writes a schema into a copy of the header.
pub(super) fn write(page: &mut [u8], schema: &Schema) {
    let text = schema.to_text();
    let length = text.len() as u32;
    page[TEXT..][..text.len()].copy_from_slice(text.as_bytes());
    page[AT + 4..][..4].copy_from_slice(&length.to_ne_bytes());
    let checksum = crc32fast::hash(&page[AT + 4..range().end]);
    page[AT..][..4].copy_from_slice(&checksum.to_ne_bytes());
}

/// Returns the schema in a copy of the header, unless it is damaged.
pub(super) fn read_copy(page: &[u8]) -> Option<&'static Schema> {
    let half = |at: usize| page.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    if half(AT)? != crc32fast::hash(page.get(AT + 4..range().end)?) {
        return None;
    }
    let length = half(AT + 4)? as usize;
    Schema::of_text(page[TEXT..range().end].get(..length)?)
}

/// Returns the schema in both copies of the header.
pub(super) fn read(pages: &[u8]) -> Result<&'static Schema, Error> {
    let copy = |&at: &usize| read_copy(pages.get(at..at + HEADER)?);
    let damaged = || FileError::corrupt_at("both copies of the schema", AT as u64).into();
    COPIES.iter().find_map(copy).ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_copy_is_not_read() {
        let schema = Schema::new("sessions", 2, "str", "postcard").unwrap();
        let mut pages = vec![0; 2 * HEADER];
        for at in COPIES {
            write(&mut pages[at..], schema);
        }
        for byte in range() {
            for bit in [0, 5] {
                let mut pages = pages.clone();
                pages[byte] ^= 1 << bit;
                assert_eq!(read_copy(&pages[..HEADER]), None, "bit {bit} of byte {byte}");
                assert_eq!(read(&pages), Ok(schema));
                pages[HEADER + byte] ^= 1 << bit;
                assert!(read(&pages).is_err());
            }
        }
    }
}
