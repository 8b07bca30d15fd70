//! Records what happens to a simulated file: every store, flush and fence, in one order.

use crate::error::{Error, FileError};
use crate::sync::Mutex;
use core::ops::Range;
use rustix::io::Errno;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// An event of a simulated file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A word was stored at an offset of the file.
    Store { offset: u64, word: u64 },
    /// Many words were stored at an offset; [`Recorder::page`] returns them.
    Page { offset: u64, number: usize },
    /// A thread has flushed the line at an offset.
    Flush { offset: u64, thread: ThreadId },
    /// A thread has fenced.
    Fence { thread: ThreadId },
    /// A barrier was requested.
    BarrierBegan,
    /// The barrier that was requested as event `began` has ended.
    BarrierEnded { began: usize },
    /// All earlier stores to a range of offsets are durable.
    RangeSynced { from: u64, to: u64 },
    /// The file got so many bytes; the new ones are zero.
    Resized { bytes: u64 },
    /// Bytes were given back; they read as zero if the file gets them again.
    GivenBack { from: u64, to: u64, is_last: bool },
}

#[derive(Debug, Default)]
struct State {
    events: Vec<Event>,
    /// The words of pages that were stored as a whole.
    pages: Vec<Vec<u64>>,
    /// Addresses, and the offsets that are mapped there.
    mappings: Vec<(core::ops::Range<usize>, u64)>,
    /// The number of barriers before one that fails.
    fails_after: Option<usize>,
    /// The size of the file at which the disk is full.
    full_at: Option<u64>,
    /// How often the file was to grow, since the next numbers were set.
    growths: usize,
    /// The numbers of growths for which the disk has no room.
    refused: Range<usize>,
    /// How long a flush of a line takes.
    latency: Duration,
}

/// The record of a simulated file.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<State>);

impl State {
    /// Returns the offset mapped at an address. The latest mapping counts, since addresses are used
    /// again.
    fn offset(&self, address: usize) -> Option<u64> {
        let mapping = self.mappings.iter().rev().find(|(range, _)| range.contains(&address));
        mapping.map(|(range, offset)| offset + (address - range.start) as u64)
    }

    /// Returns an error if this sync is the one that fails.
    fn count_sync(&mut self) -> Result<(), Errno> {
        match self.fails_after {
            Some(0) => {
                self.fails_after = None;
                return Err(Errno::IO);
            }
            Some(left) => self.fails_after = Some(left - 1),
            None => {}
        }
        Ok(())
    }
}

impl Recorder {
    /// Makes a barrier fail after so many others.
    pub(crate) fn fail_after(&self, barriers: usize) {
        self.0.lock().fails_after = Some(barriers);
    }

    /// Makes the disk full at a size of the file.
    pub(crate) fn full_at(&self, bytes: Option<u64>) {
        self.0.lock().full_at = bytes;
    }

    /// Refuses growths of the file, by their numbers from now on.
    pub(crate) fn refuse(&self, growths: Range<usize>) {
        let mut state = self.0.lock();
        state.growths = 0;
        state.refused = growths;
    }

    /// Returns how often the file was to grow since the last [`refuse`](Self::refuse).
    pub(crate) fn growths(&self) -> usize {
        self.0.lock().growths
    }

    /// Makes a flush take so long.
    pub(crate) fn set_latency(&self, latency: Duration) {
        self.0.lock().latency = latency;
    }

    /// Returns the number of events.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().events.len()
    }

    /// Returns all events so far.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.0.lock().events.clone()
    }

    /// Calls `visit` with the events of a range.
    pub(crate) fn each_event(&self, range: core::ops::Range<usize>, visit: impl FnMut(Event)) {
        // Of a copy, since `visit` may ask for an event's page.
        let events = self.0.lock().events[range].to_vec();
        events.into_iter().for_each(visit);
    }

    pub(super) fn wrote(&self, header: &[u8]) {
        let mut state = self.0.lock();
        for (at, bytes) in header.chunks_exact(8).enumerate() {
            let word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
            state.events.push(Event::Store { offset: 8 * at as u64, word });
        }
    }

    pub(super) fn mapped(&self, address: usize, bytes: usize, offset: u64) {
        self.0.lock().mappings.push((address..address + bytes, offset));
    }

    pub(super) fn store(&self, address: *const u8, word: u64, store: impl FnOnce() -> bool) {
        let mut state = self.0.lock();
        // Under the lock: the order of the record is the order of the stores.
        if store()
            && let Some(offset) = state.offset(address.addr())
        {
            state.events.push(Event::Store { offset, word });
        }
    }

    /// Records that `store` stores many words.
    pub(super) fn store_page(&self, address: *const u8, words: Vec<u64>, store: impl FnOnce()) {
        let mut state = self.0.lock();
        store();
        if let Some(offset) = state.offset(address.addr()) {
            let number = state.pages.len();
            state.pages.push(words);
            state.events.push(Event::Page { offset, number });
        }
    }

    /// The words of a page.
    pub(crate) fn page(&self, number: usize) -> Vec<u64> {
        self.0.lock().pages[number].clone()
    }

    pub(super) fn flush(&self, address: *const u8, bytes: usize) {
        let latency = self.0.lock().latency;
        if !latency.is_zero() {
            let begin = Instant::now();
            while begin.elapsed() < latency {
                std::thread::yield_now();
            }
        }
        let mut state = self.0.lock();
        let thread = std::thread::current().id();
        for line in (address.addr() & !63..address.addr() + bytes).step_by(64) {
            if let Some(offset) = state.offset(line) {
                state.events.push(Event::Flush { offset, thread });
            }
        }
    }

    pub(super) fn fence(&self) {
        self.0.lock().events.push(Event::Fence { thread: std::thread::current().id() });
    }

    pub(super) fn sync_range(&self, from: u64, to: u64) -> Result<(), Errno> {
        let mut state = self.0.lock();
        state.count_sync()?;
        state.events.push(Event::RangeSynced { from, to });
        Ok(())
    }

    pub(super) fn barrier(&self) -> Result<(), Errno> {
        let mut state = self.0.lock();
        state.count_sync()?;
        let began = state.events.len();
        state.events.push(Event::BarrierBegan);
        state.events.push(Event::BarrierEnded { began });
        Ok(())
    }

    pub(super) fn resized(&self, bytes: u64) -> Result<(), Error> {
        let mut state = self.0.lock();
        let number = state.growths;
        state.growths += 1;
        if state.refused.contains(&number) || state.full_at.is_some_and(|full| bytes > full) {
            return Err(FileError::Full.into());
        }
        state.events.push(Event::Resized { bytes });
        Ok(())
    }

    pub(super) fn given_back(&self, from: u64, to: u64, is_last: bool) {
        self.0.lock().events.push(Event::GivenBack { from, to, is_last });
    }
}
