//! The record of a disk, as QEMU's `blklogwrites` and Linux' `dm-log-writes` write it.

use super::{MAGIC, SECTOR};
use std::io;

/// The number at the beginning of a record.
const RECORD: u64 = 0x006a_7366_7773_6872;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;

/// A write or a flush.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The first byte on the disk.
    pub offset: usize,
    /// Where the bytes are in the record, and how many.
    pub data: (usize, usize),
    /// Whether all writes that had ended before are durable.
    pub is_flush: bool,
    /// Whether the write itself is durable when it ends.
    pub is_durable: bool,
}

/// The record of a disk.
#[derive(Debug)]
pub struct Log {
    bytes: Vec<u8>,
    /// What happened, in order.
    pub entries: Vec<Entry>,
}

impl Log {
    /// Reads a record.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(bytes: Vec<u8>) -> io::Result<Self> {
        let word = |at: usize| bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
        let word = |at| word(at).map(u64::from_le_bytes);
        let wrong = || io::Error::other("no record of writes with sectors of 512 bytes");
        let count = word(16).filter(|_| word(0) == Some(RECORD)).ok_or_else(wrong)?;
        if word(24).map(|size| size as u32 as usize) != Some(SECTOR) {
            return Err(wrong());
        }
        let (mut entries, mut at) = (Vec::new(), SECTOR);
        for _ in 0..count {
            let (sector, sectors) = word(at).zip(word(at + 8)).ok_or_else(wrong)?;
            let flags = word(at + 16).ok_or_else(wrong)?;
            at += SECTOR;
            // A discard has no data.
            let length = if flags & DISCARD == 0 { sectors as usize * SECTOR } else { 0 };
            if bytes.len() < at + length {
                return Err(wrong());
            }
            entries.push(Entry {
                offset: sector as usize * SECTOR,
                data: (at, length),
                is_flush: flags & FLUSH != 0,
                is_durable: flags & FUA != 0,
            });
            at += length;
        }
        Ok(Self { bytes, entries })
    }

    /// Returns what an entry has written.
    pub fn data(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.data.0..entry.data.0 + entry.data.1]
    }

    /// Returns how many operations an entry acknowledges, if it is an acknowledgement.
    pub fn acknowledged(&self, entry: &Entry, sector_at: usize) -> Option<u64> {
        let data = self.data(entry);
        let word = |at: usize| Some(u64::from_le_bytes(*data.get(at..)?.first_chunk()?));
        (entry.offset == sector_at && word(0) == Some(MAGIC)).then(|| word(8))?
    }
}
