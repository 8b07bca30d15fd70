//! A thread that serves connections.

use super::batch::Batch;
use super::connection::{Connection, Stream};
use super::listeners::{Listeners, TCP, TLS, UNIX};
use crate::clients::Client;
use crate::commands::{forget_subscriptions, forget_watches};
use crate::protocol::reply::Reply;
use crate::pubsub::mailbox::ReadyList;
use crate::session::Session;
use crate::shared::{Shared, now};
use crate::stats::WorkerStats;
use mio::{Events, Poll, Token, Waker};
use parking_lot::Mutex;
use slab::Slab;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const WAKER: Token = Token(usize::MAX);

/// How long a thread sleeps if nothing happens.
const SLEEP: Duration = Duration::from_millis(500);

/// How other threads give a thread connections.
#[derive(Debug, Clone)]
pub(crate) struct Inbox {
    streams: Arc<Mutex<Vec<Stream>>>,
    waker: Arc<Waker>,
}

/// A thread's connections.
#[derive(Debug)]
pub(crate) struct Worker {
    shared: Arc<Shared>,
    stats: Arc<WorkerStats>,
    poll: Poll,
    inbox: Inbox,
    /// The connections that were sent messages.
    ready: Arc<ReadyList>,
    listeners: Option<Listeners>,
    /// All threads' inboxes, if this one accepts connections.
    others: Vec<Inbox>,
    next: usize,
    connections: Slab<Connection>,
    /// Connections to look at.
    listed: Vec<usize>,
    batch: Batch,
    spare: Vec<Vec<u8>>,
    /// Empty large buffers for replies.
    spare_outputs: Vec<Vec<u8>>,
    last_look: u64,
    /// Whether connections may wait that were not accepted.
    accepts_again: bool,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        shared.wakers.lock().push(Arc::clone(&waker));
        let ready = Arc::new(ReadyList::new(Arc::clone(&waker)));
        let inbox = Inbox { streams: Arc::default(), waker };
        let stats = shared.stats.add_worker();
        Ok(Self {
            shared,
            stats,
            poll,
            inbox,
            ready,
            listeners: None,
            others: Vec::new(),
            next: 0,
            connections: Slab::new(),
            listed: Vec::new(),
            batch: Batch::default(),
            spare: Vec::new(),
            spare_outputs: Vec::new(),
            last_look: 0,
            accepts_again: false,
        })
    }

    pub(crate) fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }

    /// Makes this thread accept connections, for all.
    pub(crate) fn listen(
        &mut self,
        mut listeners: Listeners,
        inboxes: Vec<Inbox>,
    ) -> io::Result<()> {
        listeners.register(self.poll.registry())?;
        (self.listeners, self.others) = (Some(listeners), inboxes);
        Ok(())
    }

    /// Serves until the server is stopped.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        loop {
            let timeout = if self.listed.is_empty() { SLEEP } else { Duration::ZERO };
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                match event.token() {
                    WAKER => {
                        self.take_in();
                        self.list_ready();
                    }
                    TCP | TLS | UNIX => self.accept(),
                    Token(index) => {
                        if let Some(connection) = self.connections.get_mut(index) {
                            connection.note_event(event);
                            list(&mut self.listed, index, connection);
                        }
                    }
                }
            }
            if self.shared.is_stopping() {
                for (_, connection) in &mut self.connections {
                    connection.flush();
                    connection.close(self.poll.registry());
                }
                return Ok(());
            }
            self.serve();
            if std::mem::take(&mut self.accepts_again) {
                self.accept();
            }
        }
    }

    /// Accepts connections, and gives them to the threads in turn.
    fn accept(&mut self) {
        loop {
            let Some(listeners) = &self.listeners else { return };
            match listeners.accept() {
                Ok(stream) => self.give(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Too many files are open, for instance. The next wake-up tries again.
                    tell!("a connection was not accepted: {error}");
                    self.accepts_again = true;
                    return;
                }
            }
        }
    }

    fn give(&mut self, mut stream: Stream) {
        let shared = &self.shared;
        shared.counters.connections.fetch_add(1, Relaxed);
        if shared.clients.fetch_add(1, Relaxed) >= shared.settings.max_clients.load(Relaxed) {
            shared.clients.fetch_sub(1, Relaxed);
            shared.counters.rejected.fetch_add(1, Relaxed);
            // It is closed in any case.
            let _ = stream.write(b"-ERR max number of clients reached\r\n");
            return;
        }
        self.next = (self.next + 1) % self.others.len().max(1);
        if let Some(inbox) = self.others.get(self.next) {
            inbox.streams.lock().push(stream);
            // A thread that can't be woken looks at its inbox when it wakes up by itself.
            let _ = inbox.waker.wake();
        }
    }

    /// Takes in the connections that this thread was given.
    fn take_in(&mut self) {
        let streams = std::mem::take(&mut *self.inbox.streams.lock());
        for mut stream in streams {
            let (shared, entry) = (&self.shared, self.connections.vacant_entry());
            if stream.register(self.poll.registry(), Token(entry.key())).is_err() {
                shared.clients.fetch_sub(1, Relaxed);
                continue;
            }
            let user = shared.acl.default_user();
            let (id, address) =
                (shared.next_client(), stream.address(shared.settings.unix_socket()));
            let index = entry.key();
            let ready = (Arc::clone(&self.ready), index);
            let local = stream.local_address(shared.settings.unix_socket());
            let created = (now().as_secs(), Arc::clone(&user.name));
            let client = Arc::new(Client::new((id, address, local), ready.clone(), created));
            shared.registry.add(&client);
            let session = Session::new(client, ready, user);
            list(&mut self.listed, index, entry.insert(Connection::new(stream, session)));
        }
    }

    /// Lists the connections that were sent messages.
    fn list_ready(&mut self) {
        let mut tokens = Vec::new();
        self.ready.take(&mut tokens);
        for index in tokens {
            // Another connection may have the token now. It is looked at in vain.
            if let Some(connection) = self.connections.get_mut(index) {
                list(&mut self.listed, index, connection);
            }
        }
    }

    /// Looks at all listed connections once.
    fn serve(&mut self) {
        let now = now();
        let Self { shared, stats, connections, listed, batch, spare, spare_outputs, .. } = self;
        let settings = &shared.settings;
        let max_bulk = settings.max_bulk.load(Relaxed);
        let looked_at = std::mem::take(listed);
        for &index in &looked_at {
            let Some(connection) = connections.get_mut(index) else { continue };
            connection.is_listed = false;
            connection.session.client.last_used.store(now.as_secs(), Relaxed);
            // Before messages are delivered, which the user may not get any more.
            connection.is_broken |=
                connection.session.client.is_killed() || !connection.session.fit_user(&shared.acl);
            connection.flush();
            connection.deliver();
            if connection.takes_requests() {
                connection.fill(spare, settings.query_buffer_limit);
                if connection.has_input() {
                    connection.take_output(spare_outputs);
                    batch.gather(index, connection, max_bulk);
                }
            }
        }
        if !batch.is_empty() {
            batch.run((shared, stats), connections, now.as_millis() as u64);
            if batch.is_changed()
                && (settings.syncs() || shared.store.is_behind())
                && let Err(error) = shared.store.commit()
            {
                tell!("changes are not durable: {error}");
                batch.refuse(connections);
            }
            batch.finish(connections, spare);
            batch.note_latency(stats);
            let counters = &shared.counters;
            counters.commands.fetch_add(std::mem::take(&mut batch.commands), Relaxed);
            counters.hits.fetch_add(std::mem::take(&mut batch.hits), Relaxed);
            counters.misses.fetch_add(std::mem::take(&mut batch.misses), Relaxed);
        }
        for &index in &looked_at {
            self.settle(index);
        }
        // The list's memory is used again.
        if self.listed.is_empty() {
            self.listed = looked_at;
            self.listed.clear();
        }
        self.close_idle_and_slow(now);
    }

    /// Writes a connection's replies; closes it, or lists it if there is more to do at once.
    fn settle(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if connection.takes_requests()
            && let Some(malformed) = connection.session.malformed.take()
        {
            let mut reply = Reply { out: &mut connection.out, is_resp3: false };
            reply.error(&format!("ERR {malformed}"));
            connection.session.is_closing = true;
            connection.discard_input();
        }
        // Before the replies: whoever has got one finds what it tells of in `CLIENT LIST`.
        connection.session.publish();
        connection.flush();
        connection.give_output(&mut self.spare_outputs);
        connection.note_bytes();
        let (read, written) = connection.take_counts();
        self.stats.bytes_read.add(read);
        self.stats.bytes_written.add(written);
        // In any case: the mailbox is told what waits.
        let has_messages = connection.note_waiting();
        let has_more = connection.may_read && !connection.has_ended || connection.has_unparsed();
        if connection.is_done() && !(connection.takes_requests() && connection.has_unparsed()) {
            let mut connection = self.connections.remove(index);
            connection.close(self.poll.registry());
            forget_watches(&mut connection.session, &self.shared.store);
            forget_subscriptions(&mut connection.session, &self.shared);
            self.shared.clients.fetch_sub(1, Relaxed);
            self.shared.registry.remove(connection.session.id);
        } else if connection.takes_requests() && (has_more || has_messages) {
            list(&mut self.listed, index, connection);
        }
    }

    /// Closes connections that nobody has used for long, those for which messages wait for long, and those
    /// whose handshake takes long; looks once a second.
    fn close_idle_and_slow(&mut self, now: Duration) {
        let settings = &self.shared.settings;
        let (seconds, timeout) = (now.as_secs(), settings.timeout.load(Relaxed) as u64);
        if self.last_look == seconds {
            return;
        }
        self.last_look = seconds;
        let (limits, millis) = (settings.mailbox_limits(), now.as_millis() as u64);
        let is_over = |connection: &Connection| match &connection.session.subscriber {
            Some(subscriber) => subscriber.mailbox.is_overrun(limits, millis),
            None => {
                timeout > 0 && connection.idle(seconds) > timeout || connection.is_late(seconds)
            }
        };
        let closed: Vec<usize> =
            self.connections.iter().filter(|it| is_over(it.1)).map(|(index, _)| index).collect();
        for index in closed {
            self.connections[index].is_broken = true;
            self.settle(index);
        }
    }
}

/// Puts a connection on the list, once.
fn list(listed: &mut Vec<usize>, index: usize, connection: &mut Connection) {
    if !connection.is_listed {
        connection.is_listed = true;
        listed.push(index);
    }
}
