//! Subscribers: a connection's side of its subscriptions.

use super::mailbox::{Mailbox, Message};
use super::{CLASSES, Class, Subscriptions};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// What a connection has subscribed to, and the messages that wait for it.
#[derive(Debug)]
pub(crate) struct Subscriber {
    id: u64,
    pub(crate) mailbox: Arc<Mailbox>,
    /// Whether the connection gets all commands.
    pub(crate) is_monitor: bool,
    /// By class.
    names: [HashSet<Arc<[u8]>>; 3],
    /// Messages that were taken from the mailbox.
    pending: VecDeque<Message>,
    pending_bytes: usize,
    /// Whether more may wait than was moved to the output, which had no room: pending, or in the mailbox.
    may_have_more: bool,
}

impl Subscriber {
    pub(crate) fn new(id: u64, mailbox: Mailbox) -> Self {
        Self {
            id,
            mailbox: Arc::new(mailbox),
            is_monitor: false,
            names: Default::default(),
            pending: VecDeque::new(),
            pending_bytes: 0,
            may_have_more: false,
        }
    }

    /// Returns how many subscriptions of a class there are.
    pub(crate) fn count(&self, class: Class) -> usize {
        self.names[class as usize].len()
    }

    /// Returns the number that a reply about a class tells: channels and patterns are counted together.
    pub(crate) fn told_count(&self, class: Class) -> usize {
        match class {
            Class::Shard => self.count(Class::Shard),
            _ => self.count(Class::Channel) + self.count(Class::Pattern),
        }
    }

    /// Returns all names of a class.
    pub(crate) fn names(&self, class: Class) -> Vec<Arc<[u8]>> {
        self.names[class as usize].iter().cloned().collect()
    }

    /// Whether there are no subscriptions.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(HashSet::is_empty)
    }

    pub(crate) fn add(&mut self, all: &Subscriptions, class: Class, name: &[u8]) {
        if !self.names[class as usize].contains(name) {
            self.names[class as usize].insert(all.add(class, name, self.id, &self.mailbox));
        }
    }

    /// Removes a subscription. Messages of it come no more, but some may wait.
    pub(crate) fn remove(&mut self, all: &Subscriptions, class: Class, name: &[u8]) {
        if self.names[class as usize].remove(name) {
            all.remove(class, std::iter::once(name), self.id);
        }
    }

    /// Removes all subscriptions.
    pub(crate) fn clear(&mut self, all: &Subscriptions) {
        for class in CLASSES {
            let names = std::mem::take(&mut self.names[class as usize]);
            if !names.is_empty() {
                all.remove(class, names.iter().map(|name| &**name), self.id);
            }
        }
    }

    /// Moves messages to the output until it has `most` bytes behind the first `written`. Returns whether
    /// the connection may go on: not too many bytes have waited.
    pub(crate) fn deliver(
        &mut self,
        (out, written): (&mut Vec<u8>, usize),
        is_resp3: bool,
        most: usize,
    ) -> bool {
        loop {
            if out.len() - written >= most {
                // Also if none are pending: the mailbox has told of those in it, and tells only once.
                self.may_have_more = true;
                return !self.mailbox.has_overrun();
            }
            let Some(message) = self.pending.pop_front() else {
                match self.mailbox.take(&mut self.pending, out.len() - written) {
                    None => return false,
                    Some(0) => {
                        self.may_have_more = false;
                        return true;
                    }
                    Some(bytes) => self.pending_bytes = bytes,
                }
                continue;
            };
            self.pending_bytes -= message.len();
            let start = out.len();
            out.extend_from_slice(&message);
            // Version 3 has a type of its own for what nobody has asked for.
            if is_resp3 && message.first() == Some(&b'*') {
                out[start] = b'>';
            }
        }
    }

    /// Tells the mailbox how many bytes of output wait. Returns whether more messages may wait.
    pub(crate) fn note_waiting(&self, waiting: usize) -> bool {
        self.mailbox.note_unsent(waiting + self.pending_bytes);
        self.may_have_more
    }
}
