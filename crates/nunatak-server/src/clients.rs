//! Who is connected: what threads tell of their connections, for `CLIENT LIST` and `CLIENT KILL`.
//!
//! A connection belongs to one thread, which stores here what the connection is after each of its batches.
//! Other threads read it, and mark a connection that is to be closed. All of it is loaded and stored relaxed:
//! each value stands for itself.

use crate::pubsub::mailbox::ReadyList;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU16, AtomicU64, AtomicUsize, Ordering::Relaxed,
};

/// What a connection is to `CLIENT LIST TYPE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientKind {
    Normal,
    Pubsub,
    Monitor,
}

/// A connection, as other threads see it.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) address: String,
    /// The server's address, to which the client has connected.
    pub(crate) local: String,
    /// Seconds since 1970.
    pub(crate) created: u64,
    /// The list of the connection's thread, and its token there.
    ready: Arc<ReadyList>,
    token: usize,
    pub(crate) name: Mutex<String>,
    /// The name of its user.
    pub(crate) user: Mutex<Arc<[u8]>>,
    pub(crate) last_used: AtomicU64,
    pub(crate) db: AtomicUsize,
    /// How many channels, patterns and channels of shards it has subscribed to.
    pub(crate) subscriptions: [AtomicUsize; 3],
    pub(crate) is_monitor: AtomicBool,
    /// How many commands wait for `EXEC`; -1 outside of a transaction.
    pub(crate) queued: AtomicI64,
    pub(crate) is_resp3: AtomicBool,
    /// Bytes of replies that wait.
    pub(crate) waiting: AtomicUsize,
    /// Bytes of requests that wait.
    pub(crate) unread: AtomicUsize,
    /// The slot of the last command that was parsed, and one more; zero is none.
    pub(crate) last_command: AtomicU16,
    is_killed: AtomicBool,
}

impl Client {
    pub(crate) fn new(
        (id, address, local): (u64, String, String),
        (ready, token): (Arc<ReadyList>, usize),
        (created, user): (u64, Arc<[u8]>),
    ) -> Self {
        Self {
            id,
            address,
            local,
            created,
            ready,
            token,
            name: Mutex::default(),
            user: Mutex::new(user),
            last_used: AtomicU64::new(created),
            db: AtomicUsize::new(0),
            subscriptions: Default::default(),
            is_monitor: AtomicBool::new(false),
            queued: AtomicI64::new(-1),
            is_resp3: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
            last_command: AtomicU16::new(0),
            is_killed: AtomicBool::new(false),
        }
    }

    pub(crate) fn kind(&self) -> ClientKind {
        let has_some = |count: &AtomicUsize| count.load(Relaxed) > 0;
        match self.is_monitor.load(Relaxed) {
            true => ClientKind::Monitor,
            false if self.subscriptions[..2].iter().any(has_some) => ClientKind::Pubsub,
            false => ClientKind::Normal,
        }
    }

    /// Has the connection looked at by its thread.
    pub(crate) fn wake(&self) {
        self.ready.call(self.token);
    }

    /// Has the connection closed by its thread.
    pub(crate) fn kill(&self) {
        self.is_killed.store(true, Relaxed);
        self.wake();
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Relaxed)
    }

    /// Describes the connection, as a line of `CLIENT LIST`.
    pub(crate) fn describe(&self, seconds: u64) -> String {
        let [channels, patterns, shards] = &self.subscriptions;
        let (unread, waiting) = (self.unread.load(Relaxed), self.waiting.load(Relaxed));
        let slot = self.last_command.load(Relaxed).checked_sub(1);
        format!(
            "id={} addr={} laddr={} fd=0 name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} \
             multi={} qbuf={unread} qbuf-free=0 argv-mem=0 multi-mem=0 rbs={waiting} rbp={waiting} \
             obl=0 oll=0 omem={waiting} tot-mem={} events=r cmd={} user={} redir=-1 resp={}\n",
            self.id,
            self.address,
            self.local,
            self.name.lock(),
            seconds.saturating_sub(self.created),
            seconds.saturating_sub(self.last_used.load(Relaxed)),
            match self.kind() {
                ClientKind::Normal => 'N',
                ClientKind::Pubsub => 'P',
                ClientKind::Monitor => 'O',
            },
            self.db.load(Relaxed),
            channels.load(Relaxed),
            patterns.load(Relaxed),
            shards.load(Relaxed),
            self.queued.load(Relaxed),
            unread + waiting,
            slot.and_then(crate::commands::table::name_of).unwrap_or_else(|| "NULL".into()),
            String::from_utf8_lossy(&self.user.lock()),
            if self.is_resp3.load(Relaxed) { 3 } else { 2 },
        )
    }
}

/// All connections, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    all: Mutex<BTreeMap<u64, Arc<Client>>>,
}

impl Clients {
    pub(crate) fn add(&self, client: &Arc<Client>) {
        self.all.lock().insert(client.id, Arc::clone(client));
    }

    pub(crate) fn remove(&self, id: u64) {
        self.all.lock().remove(&id);
    }

    /// Returns all of them, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.all.lock().values().cloned().collect()
    }
}
