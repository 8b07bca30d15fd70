//! The slow log: the last commands that took long.

use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

/// How many arguments of a command are kept.
const MOST_ARGS: usize = 32;
/// How many bytes of an argument are kept.
const MOST_BYTES: usize = 128;

/// A command that took long.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    /// Seconds since 1970.
    pub(crate) time: u64,
    pub(crate) micros: u64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) address: String,
    pub(crate) name: String,
}

#[derive(Debug, Default)]
struct Entries {
    /// The newest first.
    entries: VecDeque<Entry>,
    next_id: u64,
}

/// The slow log of a server.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    entries: Mutex<Entries>,
}

/// Shortens the arguments of a command.
fn shorten<'a>(args: impl ExactSizeIterator<Item = Cow<'a, [u8]>>) -> Vec<Vec<u8>> {
    let count = args.len();
    let kept = if count > MOST_ARGS { MOST_ARGS - 1 } else { count };
    let shorten = |arg: Cow<'a, [u8]>| match arg.len().checked_sub(MOST_BYTES) {
        Some(more @ 1..) => {
            [&arg[..MOST_BYTES], format!("... ({more} more bytes)").as_bytes()].concat()
        }
        _ => arg.into_owned(),
    };
    let mut all: Vec<Vec<u8>> = args.take(kept).map(shorten).collect();
    if kept < count {
        all.push(format!("... ({} more arguments)", count - kept).into_bytes());
    }
    all
}

impl SlowLog {
    /// Adds a command, in place of the oldest ones if there are more than `max_len`.
    pub(crate) fn add<'a>(
        &self,
        args: impl ExactSizeIterator<Item = Cow<'a, [u8]>>,
        (address, name): (&str, &str),
        (time, taken): (u64, Duration),
        max_len: usize,
    ) {
        let entry = Entry {
            id: 0,
            time,
            micros: taken.as_micros() as u64,
            args: shorten(args),
            address: address.into(),
            name: name.into(),
        };
        let mut all = self.entries.lock();
        let id = all.next_id;
        all.next_id += 1;
        all.entries.push_front(Entry { id, ..entry });
        all.entries.truncate(max_len);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.lock().entries.len()
    }

    pub(crate) fn reset(&self) {
        self.entries.lock().entries.clear();
    }

    /// Returns the newest entries.
    pub(crate) fn newest(&self, count: usize) -> Vec<Entry> {
        self.entries.lock().entries.iter().take(count).cloned().collect()
    }
}
