//! The log of what users were denied.

use super::selector::Denied;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Entries that differ in nothing else are one, if not more milliseconds pass between them.
const GROUP_MILLIS: u64 = 60_000;

/// What was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Command,
    Key,
    Channel,
    /// The password was wrong.
    Auth,
}

impl Reason {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
            Self::Auth => "auth",
        }
    }
}

impl From<Denied> for Reason {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Command => Self::Command,
            Denied::Key(_) => Self::Key,
            Denied::Channel(_) => Self::Channel,
        }
    }
}

/// An entry.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) count: i64,
    pub(crate) reason: Reason,
    pub(crate) is_in_transaction: bool,
    /// The command, the key or the channel.
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
    /// The client, as `CLIENT LIST` tells it.
    pub(crate) client: String,
    /// Milliseconds since 1970.
    pub(crate) time: u64,
}

/// The log of a server.
#[derive(Debug, Default)]
pub(crate) struct AclLog {
    /// The newest first.
    entries: Mutex<VecDeque<Entry>>,
}

impl AclLog {
    /// Adds an entry, in place of the oldest ones if there are more than `max_len`.
    pub(crate) fn add(&self, mut entry: Entry, max_len: usize) {
        let mut entries = self.entries.lock();
        let is_same = |it: &Entry| {
            (it.reason, it.is_in_transaction) == (entry.reason, entry.is_in_transaction)
                && (&it.object, &it.user) == (&entry.object, &entry.user)
                && entry.time.saturating_sub(it.time) <= GROUP_MILLIS
        };
        if let Some(before) = entries.iter().position(is_same).and_then(|at| entries.remove(at)) {
            entry.count += before.count;
        }
        entries.push_front(entry);
        entries.truncate(max_len);
    }

    pub(crate) fn reset(&self) {
        self.entries.lock().clear();
    }

    pub(crate) fn newest(&self, count: usize) -> Vec<Entry> {
        self.entries.lock().iter().take(count).cloned().collect()
    }
}
