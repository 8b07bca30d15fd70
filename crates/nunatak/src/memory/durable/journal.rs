//! The changes since the last barrier, so that a sync writes as much as was changed, and not every
//! page with a change.
//!
//! ```text
//! transaction   32 bytes   sequence number, count, checksum of all of it, 0
//!               24 each    part and granule, both words of the granule
//!               up to the next 512 bytes
//! ```
//!
//! A thread that flushes slots of a medium that is not ordered notes their granules (16 bytes). A
//! sync writes the present contents of these granules into a transaction behind the last one, and
//! makes it durable. If the transaction has no room, or if something other than slots was changed,
//! the sync is a barrier instead. After each barrier the header says that no earlier transaction
//! counts, and the next transaction goes to the first place.
//!
//! **Why that is enough.** A power cut leaves each granule as it was at some moment since the last
//! barrier; recovery expects no more. Repeating a transaction sets a granule to another moment
//! since then: not before the sync that wrote the transaction began. So recovery finds a state of
//! the kind that it knows, not older than the last sync. Repeating it again changes nothing, so
//! recovery may crash, too.
//!
//! Transactions are for power cuts only. When a process ends, its stores are in the page cache, and
//! newer than the journal. So they are repeated only if the header tells that the power was cut:
//! if it names another start of the machine, or another file.
//!
//! Invariants
//! 1. The header names the first transaction that counts. It does so durably before another
//!    transaction is written to the first place, and only when everything in the earlier ones is
//!    durable without them.
//! 2. A granule that is flushed is noted before the change is acknowledged. A sync takes the notes
//!    before it reads the granules.
//! 3. Both words of a granule are read at one instant. (A key with the value of another moment
//!    would be a pair that never was.)

use super::PAGE;
use crate::memory::Part;
use crate::sync::{
    AtomicPair, AtomicUsize, Mutex, Ordering::Relaxed, pairs_load_whole, thread_index,
};
use core::ops::Range;

/// The unit that is noted and read at once.
pub(super) const GRANULE: usize = size_of::<AtomicPair>();
/// Transactions begin at multiples of this, so that a sector with a synced one is not written
/// again.
pub(super) const SECTOR: usize = 512;
const HEADER_WORDS: usize = 4;
const RECORD_WORDS: usize = 3;
const PART_SHIFT: u32 = 56;
const STRIPES: usize = 16;
/// Changes of a stripe are counted in steps of so many.
const COUNTED: usize = 1024;

/// A granule of a part, and its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) part: u8,
    pub(super) granule: u64,
    pub(super) words: [u64; 2],
}

/// Returns the words of a transaction.
pub(super) fn encode(sequence: u64, records: &[Record]) -> Vec<u64> {
    let mut words = vec![sequence, records.len() as u64, 0, 0];
    for record in records {
        let place = u64::from(record.part) << PART_SHIFT | record.granule;
        words.extend([place, record.words[0], record.words[1]]);
    }
    words[2] = checksum(&words);
    words
}

/// Returns how many bytes a transaction of so many records takes.
pub(super) fn bytes_of(records: usize) -> usize {
    ((HEADER_WORDS + RECORD_WORDS * records) * 8).next_multiple_of(SECTOR)
}

/// The checksum of all words but its own.
fn checksum(words: &[u64]) -> u64 {
    let mut hasher = crc32fast::Hasher::new();
    for (_, word) in words.iter().enumerate().filter(|&(at, _)| at != 2) {
        hasher.update(&word.to_ne_bytes());
    }
    // So that zeros are no valid checksum.
    1 << 32 | u64::from(hasher.finalize())
}

/// Returns the records of all transactions that count, in order, and the number of these
/// transactions. A transaction that was not written in full does not count, and is the end.
pub(super) fn read(words: &[u64], first: u64) -> (Vec<Record>, u64) {
    let mut records = Vec::new();
    let (mut at, mut transactions) = (0, 0);
    while let Some(rest) = words.get(at..).filter(|rest| rest.len() >= HEADER_WORDS) {
        let count = rest[1] as usize;
        let length = count.checked_mul(RECORD_WORDS).map(|length| length + HEADER_WORDS);
        let Some(transaction) = length.and_then(|length| rest.get(..length)) else { break };
        let is_whole = transaction[2] == checksum(transaction)
            || crate::seeded::seeded(crate::seeded::Bug::JournalTornRepeated);
        if rest[0] != first + transactions || !is_whole {
            break;
        }
        records.extend(transaction[HEADER_WORDS..].chunks_exact(RECORD_WORDS).map(|record| {
            Record {
                part: (record[0] >> PART_SHIFT) as u8,
                granule: record[0] & ((1 << PART_SHIFT) - 1),
                words: [record[1], record[2]],
            }
        }));
        transactions += 1;
        at += bytes_of(count) / 8;
    }
    (records, transactions)
}

/// The granules that threads have changed, in stripes of a few threads each.
#[derive(Debug)]
struct Changes {
    stripes: Box<[Mutex<Stripe>]>,
    /// The most granules: as many as a transaction can have.
    most: usize,
    /// The number of granules, in thousands: a hint, counted and read relaxed.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    granules: Vec<usize>,
    /// Whether a change is missing.
    is_incomplete: bool,
}

impl Changes {
    fn new(most: usize) -> Self {
        let stripes = (0..STRIPES).map(|_| Mutex::default()).collect();
        Self { stripes, most, count: AtomicUsize::new(0) }
    }

    fn note(&self, addresses: impl Iterator<Item = usize>) {
        let mut stripe = self.stripes[thread_index::current_if_any() % STRIPES].lock();
        if stripe.is_incomplete {
            return;
        }
        let before = stripe.granules.len();
        stripe.granules.extend(addresses);
        // All threads together take no more memory than the journal is worth.
        let more = (stripe.granules.len() / COUNTED - before / COUNTED) * COUNTED;
        if more > 0 && self.count.fetch_add(more, Relaxed) + more > self.most {
            *stripe = Stripe { granules: Vec::new(), is_incomplete: true };
        }
    }

    fn note_unknown(&self) {
        self.stripes[0].lock().is_incomplete = true;
    }

    /// Takes all noted granules, each once. Returns nothing if a change is missing.
    fn take(&self) -> Option<Vec<usize>> {
        let mut is_complete = true;
        let mut granules = Vec::new();
        self.count.store(0, Relaxed);
        for stripe in &self.stripes {
            let mut stripe = stripe.lock();
            is_complete &= !stripe.is_incomplete;
            granules.append(&mut stripe.granules);
            stripe.is_incomplete = false;
        }
        granules.sort_unstable();
        granules.dedup();
        is_complete.then_some(granules)
    }
}

/// The transactions of a file, and where the next one goes.
#[derive(Debug)]
pub(super) struct Journal {
    /// The mapping of the journal's bytes in the file.
    pub(super) base: *mut u8,
    pub(super) bytes: usize,
    changes: Changes,
    pub(super) end: Mutex<End>,
    pairs_load_whole: bool,
}

/// Where the next transaction goes. Only the thread that holds the lock writes one.
#[derive(Debug)]
pub(super) struct End {
    pub(super) at: usize,
    pub(super) sequence: u64,
}

// SAFETY: the mapping is the journal's own, and written under the lock of its end.
unsafe impl Send for Journal {}
// SAFETY: as above.
unsafe impl Sync for Journal {}

impl Journal {
    /// Makes a journal in so many bytes mapped at `base`, whose next transaction has this number.
    pub(super) fn new(base: *mut u8, bytes: usize, sequence: u64) -> Self {
        debug_assert!(bytes.is_multiple_of(PAGE));
        Self {
            base,
            bytes,
            changes: Changes::new(bytes / (RECORD_WORDS * 8)),
            end: Mutex::new(End { at: 0, sequence }),
            pairs_load_whole: pairs_load_whole(),
        }
    }

    /// Notes a change of the bytes at an address, which were stored.
    #[inline]
    pub(super) fn note(&self, address: usize, bytes: usize) {
        self.changes.note((address / GRANULE * GRANULE..address + bytes).step_by(GRANULE));
    }

    /// Notes a change that no transaction can describe.
    pub(super) fn note_unknown(&self) {
        self.changes.note_unknown();
    }

    /// Takes the noted granules with their present contents, if these parts are mapped at these
    /// addresses. Returns nothing if a transaction can't describe the changes.
    pub(super) fn drain(&self, regions: &[(Part, Range<usize>)]) -> Option<Vec<Record>> {
        let granules = self.changes.take()?;
        let record = |address: usize| {
            let (part, range) = regions.iter().find(|(_, range)| range.contains(&address))?;
            // SAFETY: the granule is in a region that is mapped while it is on the list. Regions
            // hold only pairs and other atomic words.
            let granule = unsafe { &*(address as *const AtomicPair) };
            let (first, second) = granule.load_whole(self.pairs_load_whole);
            let number = (address - range.start) / GRANULE;
            Some(Record { part: *part as u8, granule: number as u64, words: [first, second] })
        };
        granules.into_iter().map(record).collect()
    }

    /// Forgets all notes: a barrier follows.
    pub(super) fn forget(&self) {
        drop(self.changes.take());
    }
}

/// The journal of a file that is being opened.
#[derive(Debug, Default)]
pub(super) struct Repeat {
    pub(super) records: Vec<Record>,
    /// The number of the transaction behind the last one.
    pub(super) next: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(granule: u64) -> Record {
        Record { part: 2, granule, words: [granule * 3, !granule] }
    }

    #[test]
    fn transactions_are_read_as_they_were_written() {
        let mut words = Vec::new();
        let lists: Vec<Vec<Record>> =
            [3, 0, 100].iter().map(|&count| (0..count).map(record).collect()).collect();
        for (number, records) in lists.iter().enumerate() {
            let mut transaction = encode(7 + number as u64, records);
            transaction.resize(bytes_of(records.len()) / 8, 0);
            words.extend(transaction);
        }
        words.resize(words.len() + 100, 0);
        assert_eq!(read(&words, 7), (lists.concat(), 3));
        assert_eq!(read(&words, 8), (vec![], 0));
        assert_eq!(read(&words[..70], 7), (lists[0].clone(), 2));
        assert_eq!(read(&[], 7), (vec![], 0));
        assert_eq!(read(&[0; 64], 0), (vec![], 0), "zeros are no transaction");
        // Damage ends the list of transactions, and does nothing else.
        for at in 0..128 {
            let mut damaged = words.clone();
            damaged[at] ^= 1 << (at % 64);
            let (records, transactions) = read(&damaged, 7);
            assert!(transactions <= 3 && records.len() <= 103);
            assert!(records.iter().zip(lists.concat()).all(|(found, before)| *found == before));
        }
    }

    #[test]
    fn changes_are_noted_once_or_given_up() {
        let changes = Changes::new(COUNTED);
        changes.note([16, 32, 16].into_iter());
        assert_eq!(changes.take(), Some(vec![16, 32]));
        assert_eq!(changes.take(), Some(vec![]));
        changes.note(0..COUNTED + 5);
        assert_eq!(changes.take().map(|granules| granules.len()), Some(COUNTED + 5));
        changes.note(0..2 * COUNTED);
        changes.note([96].into_iter());
        assert_eq!(changes.take(), None, "more than a journal has room for");
        changes.note([96].into_iter());
        assert_eq!(changes.take(), Some(vec![96]));
        changes.note_unknown();
        assert_eq!(changes.take(), None);
    }

    #[test]
    fn granules_of_mapped_parts_are_read_when_they_are_noted() {
        let pairs: Vec<AtomicPair> = (0..4096).map(|_| AtomicPair::default()).collect();
        let (base, bytes) = (pairs.as_ptr().addr(), size_of_val(pairs.as_slice()));
        let journal = Journal::new(core::ptr::null_mut(), PAGE, 1);
        let regions = [(Part::Back, base..base + bytes)];
        pairs[3].store_second(9, Relaxed);
        journal.note(base + 3 * GRANULE + 8, 8);
        journal.note(base, 2 * GRANULE);
        let found = journal.drain(&regions).unwrap();
        assert_eq!(found.iter().map(|it| it.granule).collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!((found[2].part, found[2].words), (Part::Back as u8, [0, 9]));
        // More than a page has room for.
        journal.note(base, bytes);
        assert_eq!(journal.drain(&regions), None);
        journal.note(base, 16);
        journal.note_unknown();
        assert_eq!(journal.drain(&regions), None);
        // The part is mapped no more.
        journal.note(base, 16);
        assert_eq!(journal.drain(&[]), None);
    }
}
