//! The bytes of a saved file.
//!
//! ```text
//! header    0  magic "NUNASAVE"
//!           8  version: 1                    4 bytes
//!          12  kind of entries               4
//!          16  bits of a key, of a value     4 each
//!          24  number of entries             8
//!          32  XXH3 of bytes 0 to 31         8
//! block     0  bytes of its entries          8 bytes
//!           8  number of its entries         8
//!          16  XXH3 of bytes 0 to 15 and of the entries, seeded by the block's number
//!          24  entries
//! ```
//!
//! Numbers are little-endian. Blocks follow until they have all entries, and nothing follows them.
//! The header is written last, under a temporary name.

use crate::error::{Error, FileError};
use crate::unfinished::{hidden_path, sync_name};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

const MAGIC: [u8; 8] = *b"NUNASAVE";
const VERSION: u32 = 1;
const HEADER: usize = 40;
const FRAME: usize = 24;
/// A block is written when it has so many bytes, or more if an entry is larger.
const BLOCK: usize = 64 << 10;

/// What the entries of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entries {
    pub(super) kind: Kind,
    /// Of a key and of a value; zero where they are bytes.
    pub(super) bits: [u32; 2],
}

/// Numbers are written to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// Pairs of words, each key once.
    Words = 1,
    /// Pairs of words, with keys that may come more than once.
    ManyWords = 2,
    /// Words.
    Keys = 3,
    /// The length of a key, a key, the length of a value, a value.
    Portable = 4,
    /// A namespace and byte strings.
    Bytes = 5,
    /// The length of a key, a key, and a word, with keys that may come more than once.
    ManyBytes = 6,
}

fn failed(action: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| FileError::Io { action, code: error.raw_os_error().unwrap_or(0) }.into()
}

/// Writes a file.
#[derive(Debug)]
pub(super) struct Writer {
    file: File,
    temporary: Temporary,
    entries: Entries,
    block: Vec<u8>,
    in_block: u64,
    blocks: u64,
    count: u64,
}

/// The name of a file that is not whole yet.
#[derive(Debug)]
struct Temporary {
    path: PathBuf,
    is_renamed: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_renamed {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Writer {
    pub(super) fn create(path: &Path, entries: Entries) -> Result<Self, Error> {
        let temporary = hidden_path(path, "save")
            .ok_or_else(|| failed("create the file")(io::ErrorKind::InvalidInput.into()))?;
        let file = File::create_new(&temporary).map_err(failed("create the file"))?;
        let temporary = Temporary { path: temporary, is_renamed: false };
        let mut writer = Self {
            file,
            temporary,
            entries,
            block: vec![0; FRAME],
            in_block: 0,
            blocks: 0,
            count: 0,
        };
        writer.write(&[0; HEADER])?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(failed("write the file"))
    }

    /// Adds an entry, whose bytes are appended to a buffer.
    pub(super) fn add(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        append(&mut self.block);
        self.in_block += 1;
        if self.block.len() >= BLOCK { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<(), Error> {
        let mut block = core::mem::take(&mut self.block);
        let bytes = (block.len() - FRAME) as u64;
        block[..8].copy_from_slice(&bytes.to_le_bytes());
        block[8..16].copy_from_slice(&self.in_block.to_le_bytes());
        let sum = sum_of(self.blocks, &block[..16], &block[FRAME..]);
        block[16..FRAME].copy_from_slice(&sum.to_le_bytes());
        self.write(&block)?;
        self.blocks += 1;
        self.count += self.in_block;
        self.in_block = 0;
        block.truncate(FRAME);
        self.block = block;
        Ok(())
    }

    /// Gives the file its name, durably, and returns the number of entries.
    pub(super) fn finish(mut self, path: &Path) -> Result<usize, Error> {
        if self.in_block > 0 {
            self.end_block()?;
        }
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        let halves =
            [VERSION, self.entries.kind as u32, self.entries.bits[0], self.entries.bits[1]];
        for (at, half) in halves.into_iter().enumerate() {
            header[8 + 4 * at..][..4].copy_from_slice(&half.to_le_bytes());
        }
        header[24..32].copy_from_slice(&self.count.to_le_bytes());
        let sum = xxh3_64(&header[..32]);
        header[32..].copy_from_slice(&sum.to_le_bytes());
        self.file.rewind().map_err(failed("write the file"))?;
        self.write(&header)?;
        self.file.sync_all().map_err(failed("write the file"))?;
        std::fs::rename(&self.temporary.path, path).map_err(failed("name the file"))?;
        self.temporary.is_renamed = true;
        sync_name(path).map_err(failed("make the file's name durable"))?;
        Ok(self.count as usize)
    }
}

fn sum_of(block: u64, frame: &[u8], entries: &[u8]) -> u64 {
    let mut sum = Xxh3::with_seed(block);
    sum.update(frame);
    sum.update(entries);
    sum.digest()
}

/// Reads a file.
#[derive(Debug)]
pub(super) struct Reader {
    file: File,
    /// How many bytes the file has, and how many of them were read.
    bytes: u64,
    read: u64,
    count: u64,
}

impl Reader {
    /// Opens a file with such entries.
    pub(super) fn open(path: &Path, entries: Entries) -> Result<Self, Error> {
        let file = File::open(path).map_err(failed("open the file"))?;
        let bytes = file.metadata().map_err(failed("open the file"))?.len();
        let mut reader = Self { file, bytes, read: 0, count: 0 };
        let mut header = [0; HEADER];
        if bytes < MAGIC.len() as u64 {
            return Err(FileError::NotAMap.into());
        }
        reader.fill(&mut header[..8])?;
        if header[..8] != MAGIC {
            return Err(FileError::NotAMap.into());
        }
        reader.fill(&mut header[8..])?;
        let half =
            |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap_or_default());
        // Before the checksum, which may lie elsewhere in a later version.
        if half(8) > VERSION {
            return Err(FileError::NewerVersion { found: half(8), known: VERSION }.into());
        }
        if word(&header, 32) != xxh3_64(&header[..32]) {
            return Err(FileError::corrupt_at("the header", 0).into());
        }
        if half(12) != entries.kind as u32 {
            return Err(FileError::OtherKind { what: "kind of map" }.into());
        }
        if [half(16), half(20)] != entries.bits {
            return Err(FileError::OtherKind { what: "type of keys or values" }.into());
        }
        reader.count = word(&header, 24);
        Ok(reader)
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Error> {
        let end = self.read.saturating_add(buffer.len() as u64);
        if end > self.bytes {
            return Err(FileError::Truncated { bytes: self.bytes, expected: end }.into());
        }
        self.file.read_exact(buffer).map_err(failed("read the file"))?;
        self.read = end;
        Ok(())
    }

    /// Returns how many entries the file says that it has.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns how many entries there can be, if one takes at least so many bytes.
    pub(super) fn at_most(&self, bytes: u64) -> usize {
        self.count.min(self.bytes / bytes) as usize
    }

    /// Calls a function with each block: its bytes, and how many entries they are. The function
    /// returns false if they are not.
    pub(super) fn each_block(
        &mut self,
        mut each: impl FnMut(&[u8], u64) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let (mut block, mut found, mut number) = (Vec::new(), 0, 0);
        while found < self.count {
            let (at, mut frame) = (self.read, [0; FRAME]);
            self.fill(&mut frame)?;
            let (bytes, entries) = (word(&frame, 0), word(&frame, 8));
            let expected = self.read.saturating_add(bytes);
            if expected > self.bytes {
                return Err(FileError::Truncated { bytes: self.bytes, expected }.into());
            }
            // The size of a sparse file is no promise of so much memory.
            let more = (bytes as usize).saturating_sub(block.len());
            let room = block.try_reserve_exact(more);
            room.map_err(|_| Error::OutOfMemory { bytes: bytes as usize })?;
            block.resize(bytes as usize, 0);
            self.fill(&mut block)?;
            let is_whole = word(&frame, 16) == sum_of(number, &frame[..16], &block);
            let is_possible = entries > 0 && entries <= self.count - found;
            if !is_whole || !is_possible || !each(&block, entries)? {
                return Err(FileError::corrupt_at("a block of entries", at).into());
            }
            found += entries;
            number += 1;
        }
        if self.read < self.bytes {
            return Err(FileError::corrupt_at("there is more behind the entries", self.read).into());
        }
        Ok(())
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
}
