//! Mailboxes: messages on their way to a connection of any thread.
//!
//! 1. A thread that sends a message puts it into the mailbox of the connection. If the mailbox was empty,
//!    it adds the connection's token to the ready list of the connection's thread, and remembers to wake
//!    that thread after its own batch, when it holds no lock.
//! 2. The connection's thread takes all messages out at once, and moves them to the connection's output as
//!    the socket takes them.
//! 3. Bytes that were taken out and not sent are told to the mailbox, so that the sender sees all bytes
//!    that wait. Beyond a limit it drops them, and the connection is closed.

use super::limits::Limits;
use mio::Waker;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Encoded bytes, which all receivers share.
pub(crate) type Message = Arc<[u8]>;

/// The connections of a thread whose mailboxes have messages.
#[derive(Debug)]
pub(crate) struct ReadyList {
    tokens: Mutex<Vec<usize>>,
    waker: Arc<Waker>,
}

/// The threads to wake when no lock is held.
pub(crate) type Wakes = Vec<Arc<ReadyList>>;

impl ReadyList {
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self { tokens: Mutex::default(), waker }
    }

    /// Returns whether the thread must be woken: the list was empty.
    fn push(&self, token: usize) -> bool {
        let mut tokens = self.tokens.lock();
        tokens.push(token);
        tokens.len() == 1
    }

    /// Swaps the tokens with those of an empty list, whose memory is used again.
    pub(crate) fn take(&self, tokens: &mut Vec<usize>) {
        std::mem::swap(&mut *self.tokens.lock(), tokens);
    }

    /// Has the thread look at a connection.
    pub(crate) fn call(&self, token: usize) {
        if self.push(token) {
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
        // A thread that can't be woken looks at its list when it wakes up by itself.
        let _ = self.waker.wake();
    }
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Message>,
    bytes: usize,
    /// Whether the connection is in its thread's ready list.
    is_ready: bool,
    /// Since when more than the soft limit waits, in milliseconds.
    over_soft_since: Option<u64>,
    /// Whether too many bytes waited.
    is_overrun: bool,
}

/// The messages for a connection.
#[derive(Debug)]
pub(crate) struct Mailbox {
    ready: Arc<ReadyList>,
    token: usize,
    queue: Mutex<Queue>,
    /// Bytes that the connection's thread has taken and not sent. Only this thread stores it.
    unsent: AtomicUsize,
}

impl Mailbox {
    pub(crate) fn new(ready: Arc<ReadyList>, token: usize) -> Self {
        Self { ready, token, queue: Mutex::default(), unsent: AtomicUsize::new(0) }
    }

    /// Adds a message. If the connection's thread must be woken, it is added to `wakes`.
    pub(crate) fn post(&self, message: &Message, limits: Limits, now: u64, wakes: &mut Wakes) {
        let mut queue = self.queue.lock();
        if queue.is_overrun {
            return;
        }
        queue.bytes += message.len();
        queue.messages.push_back(Arc::clone(message));
        let is_overrun = self.is_over(&mut queue, limits, now);
        if is_overrun {
            *queue = Queue { is_overrun, is_ready: queue.is_ready, ..Queue::default() };
        }
        let was_ready = std::mem::replace(&mut queue.is_ready, true);
        drop(queue);
        // Listed again if it has overrun: the thread may have taken what came before, and waits for the
        // socket.
        if (is_overrun || !was_ready) && self.ready.push(self.token) {
            wakes.push(Arc::clone(&self.ready));
        }
    }

    /// Whether too many bytes wait.
    fn is_over(&self, queue: &mut Queue, limits: Limits, now: u64) -> bool {
        // Relaxed: bytes are never counted in neither place, because `take` stores it under the lock.
        // After a send it may be too large for a moment, as if the send came later.
        let bytes = queue.bytes + self.unsent.load(Ordering::Relaxed);
        let reaches = |limit| limit > 0 && bytes >= limit;
        if !reaches(limits.soft) {
            queue.over_soft_since = None;
        } else {
            queue.over_soft_since.get_or_insert(now);
        }
        let since = queue.over_soft_since.unwrap_or(now);
        reaches(limits.hard) || now.saturating_sub(since) > 1000 * limits.soft_seconds as u64
    }

    /// Whether too many bytes wait now, or waited when a message was sent.
    pub(crate) fn is_overrun(&self, limits: Limits, now: u64) -> bool {
        let mut queue = self.queue.lock();
        queue.is_overrun || self.is_over(&mut queue, limits, now)
    }

    /// Whether too many bytes waited when a message was sent.
    pub(super) fn has_overrun(&self) -> bool {
        self.queue.lock().is_overrun
    }

    /// Swaps the messages with an empty queue, whose memory is used again. Returns how many bytes they
    /// have, or `None` if too many bytes have waited. `unsent`: bytes that wait already.
    pub(super) fn take(&self, empty: &mut VecDeque<Message>, unsent: usize) -> Option<usize> {
        let mut queue = self.queue.lock();
        if queue.is_overrun {
            return None;
        }
        std::mem::swap(&mut queue.messages, empty);
        queue.is_ready = false;
        let bytes = std::mem::take(&mut queue.bytes);
        self.note_unsent(unsent + bytes);
        Some(bytes)
    }

    /// Tells how many bytes wait that were taken.
    pub(super) fn note_unsent(&self, bytes: usize) {
        // Relaxed: see `is_over`.
        self.unsent.store(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { hard: 100, soft: 50, soft_seconds: 10 };

    fn mailbox() -> Mailbox {
        let poll = mio::Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), mio::Token(0)).unwrap();
        Mailbox::new(Arc::new(ReadyList::new(Arc::new(waker))), 7)
    }

    fn post(mailbox: &Mailbox, len: usize, now: u64) -> usize {
        let mut wakes = Wakes::new();
        mailbox.post(&vec![0; len].into(), LIMITS, now, &mut wakes);
        wakes.len()
    }

    /// A thread is woken once for what it has not looked at.
    #[test]
    fn threads_are_woken_once() {
        let mailbox = mailbox();
        assert_eq!([post(&mailbox, 1, 0), post(&mailbox, 2, 0)], [1, 0]);
        let (mut tokens, mut messages) = (Vec::new(), VecDeque::new());
        mailbox.ready.take(&mut tokens);
        assert_eq!(tokens, [7]);
        assert_eq!(mailbox.take(&mut messages, 0), Some(3));
        assert_eq!(messages.iter().map(|it| it.len()).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(post(&mailbox, 1, 0), 1);
    }

    /// Bytes count wherever they wait: in the mailbox, or taken out of it.
    #[test]
    fn the_hard_limit_counts_what_was_taken() {
        for sent in [0, 40] {
            let mailbox = mailbox();
            assert_eq!(post(&mailbox, 49, 0), 1);
            mailbox.ready.take(&mut Vec::new());
            assert_eq!(mailbox.take(&mut VecDeque::new(), 0), Some(49));
            mailbox.note_unsent(49 - sent);
            assert_eq!(post(&mailbox, 51, 0), 1);
            assert_eq!(mailbox.is_overrun(LIMITS, 0), sent == 0);
            assert_eq!(mailbox.take(&mut VecDeque::new(), 9).is_none(), sent == 0);
        }
    }

    /// More than the soft limit may wait for a while, also if nothing is sent meanwhile.
    #[test]
    fn the_soft_limit_lasts() {
        let mailbox = mailbox();
        post(&mailbox, 60, 1000);
        assert!(!mailbox.is_overrun(LIMITS, 11_000));
        assert!(mailbox.is_overrun(LIMITS, 11_001));
        // What was sent in between begins a new time.
        mailbox.take(&mut VecDeque::new(), 0);
        mailbox.note_unsent(0);
        assert!(!mailbox.is_overrun(LIMITS, 11_001));
        post(&mailbox, 60, 12_000);
        assert!(!mailbox.is_overrun(LIMITS, 22_000));
        post(&mailbox, 1, 22_001);
        assert!(mailbox.is_overrun(LIMITS, 22_000));
        assert_eq!(mailbox.take(&mut VecDeque::new(), 0), None);
    }
}
