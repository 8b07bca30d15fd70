//! Monitors: connections that get all commands.

use super::limits::Limits;
use super::mailbox::{Mailbox, Message, Wakes};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// All monitors of a server.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    mailboxes: RwLock<HashMap<u64, Arc<Mailbox>>>,
    count: AtomicUsize,
}

impl Monitors {
    /// Whether there are any.
    #[inline(always)]
    pub(crate) fn are_any(&self) -> bool {
        // Relaxed: a monitor may miss what other threads run at the moment when it begins.
        self.count.load(Ordering::Relaxed) > 0
    }

    fn change(&self, f: impl FnOnce(&mut HashMap<u64, Arc<Mailbox>>)) {
        let mut mailboxes = self.mailboxes.write();
        f(&mut mailboxes);
        // Relaxed: see `are_any`.
        self.count.store(mailboxes.len(), Ordering::Relaxed);
    }

    pub(crate) fn add(&self, id: u64, mailbox: &Arc<Mailbox>) {
        self.change(|mailboxes| drop(mailboxes.insert(id, Arc::clone(mailbox))));
    }

    pub(crate) fn remove(&self, id: u64) {
        self.change(|mailboxes| drop(mailboxes.remove(&id)));
    }

    /// Sends a line to all monitors.
    pub(crate) fn send(&self, line: &Message, (limits, now): (Limits, u64), wakes: &mut Wakes) {
        self.mailboxes.read().values().for_each(|it| it.post(line, limits, now, wakes));
    }
}
