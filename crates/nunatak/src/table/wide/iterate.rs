//! Iteration, and cuts through all entries.
//!
//! An iterator walks the bins of the index that was the root when it began, and holds that index. Where a bin
//! has moved, it follows to the bins that have its keys now. So no key is yielded twice.

use super::WideTable;
use super::apply::Locking;
use super::find::next;
use super::index::Index;
use super::layout::{FROZEN, LOCKED, MOVED, Shape, Words};
use crate::error::Error;
use crate::hash::IdentityCodec;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, Ordering, fence};
use crate::table::shared::descendants::read_descendants;
use std::sync::Arc;

type Entry = (Words, Words);

/// The entries of a table. The iterator holds the memory of the index with which it began.
#[derive(Debug)]
pub(crate) struct WideIter<'t, S: Shape> {
    table: &'t WideTable<S>,
    index: Arc<Index<S>>,
    bin: usize,
    buffer: Vec<Entry>,
}

impl<S: Shape> Iterator for WideIter<'_, S> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            if let Some(entry) = self.buffer.pop() {
                return Some(entry);
            }
            if self.bin == self.index.bins() {
                return None;
            }
            read_descendants::<IdentityCodec, _, _>(
                (&*self.index, self.bin),
                &mut self.buffer,
                Index::bins,
                next,
                read_bin,
                |(key, _)| self.table.hash(key),
            );
            self.bin += 1;
        }
    }
}

impl<S: Shape> WideTable<S> {
    pub(crate) fn iter(&self) -> WideIter<'_, S> {
        WideIter { table: self, index: self.hold_root(), bin: 0, buffer: Vec::new() }
    }

    /// Copies all entries as of one moment.
    ///
    /// # Errors
    /// If memory for the copy is refused.
    pub(crate) fn snapshot(&self) -> Result<Vec<Entry>, Error> {
        let index = loop {
            self.complete_migration()?;
            let index = self.hold_root();
            // The claim keeps migrations and other cuts away.
            if index.claim_migration() {
                break index;
            }
        };
        let mut entries: Vec<Entry> = Vec::new();
        let bytes = self.len().saturating_mul(size_of::<Entry>());
        let is_refused = entries.try_reserve(self.len() + self.len() / 8 + 64).is_err();
        if !is_refused {
            if !seeded(Bug::WideCutWithoutFreezing) {
                (0..index.bins()).for_each(|at| freeze(&index, at));
            }
            // From here on until the first bin is released, no entry changes: the cut.
            for at in 0..index.bins() {
                read_bin(&index, at, &mut entries);
                // Release: whoever changes the bin comes after the copy.
                index.bin(at).header().fetch_and(!FROZEN, Ordering::Release);
            }
        }
        index.set_migration(None);
        if is_refused { Err(Error::OutOfMemory { bytes }) } else { Ok(entries) }
    }
}

fn freeze<S: Shape>(index: &Index<S>, at: usize) {
    let mut backoff = Backoff::new();
    loop {
        match index.bin(at).lock() {
            Locking::Held(held) => {
                // Release: as in `unlock`.
                held.bin.header().store(held.header | FROZEN, Ordering::Release);
                return;
            }
            Locking::Wait => backoff.wait(),
            Locking::Moved => unreachable!("an index that is being cut has no migration"),
        }
    }
}

/// Collects the entries of a bin. Returns false if the bin has moved.
fn read_bin<S: Shape>(index: &Index<S>, at: usize, entries: &mut Vec<Entry>) -> bool {
    let start = entries.len();
    let first = index.bin(at);
    let mut backoff = Backoff::new();
    loop {
        // Acquire: the words of the bin, and the next index, are at least as new as the header.
        let header = first.header().load(Ordering::Acquire);
        if header & MOVED != 0 {
            return false;
        }
        if header & LOCKED != 0 {
            backoff.wait();
            continue;
        }
        let (mut bin, mut state) = (first, header);
        loop {
            entries.extend(bin.entries(state, index.matcher));
            let Some(behind) = index.behind(bin) else { break };
            bin = behind;
            state = bin.state();
        }
        // Acquire: the header is loaded after the words.
        fence(Ordering::Acquire);
        if first.header().load(Ordering::Relaxed) == header {
            return true;
        }
        entries.truncate(start);
    }
}
