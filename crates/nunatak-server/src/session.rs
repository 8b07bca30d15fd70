//! Sessions: what the server knows of a connection beside its bytes.

use crate::acl::Acl;
use crate::acl::user::User;
use crate::clients::Client;
use crate::commands::table::Command;
use crate::protocol::request::{Args, Malformed, Span};
use crate::pubsub::mailbox::ReadyList;
use crate::pubsub::subscriber::Subscriber;
use crate::pubsub::{CLASSES, Class};
use crate::store::watch::Watch;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, Ordering};

/// A command that waits for `EXEC`.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) bytes: Vec<u8>,
    pub(crate) spans: Vec<Span>,
}

/// A transaction that was begun.
#[derive(Debug, Default)]
pub(crate) struct Multi {
    pub(crate) queue: Vec<Queued>,
    /// Whether a command could not be queued, so that `EXEC` fails.
    pub(crate) is_aborted: bool,
}

/// Which replies a client does not want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mute {
    Off,
    /// That of the next command.
    Next,
}

/// What a session is that runs the commands of a primary.
#[derive(Debug)]
pub(crate) struct Upstream {
    /// Of the link: see [`Replica`](crate::replica::Replica).
    pub(crate) generation: u64,
    /// The first error of a command since the last look.
    pub(crate) failure: Option<String>,
}

/// The state of a connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) address: String,
    pub(crate) name: String,
    pub(crate) db: usize,
    pub(crate) is_resp3: bool,
    /// Who the client is.
    pub(crate) user: Arc<User>,
    /// Whether it has shown that, or needed no password when it came.
    pub(crate) is_authenticated: bool,
    /// Whether it must give a password before anything else.
    needs_password: bool,
    /// The version of the users that was looked at; none if the session has to look again.
    users_version: Option<u64>,
    /// Whether the next command is about a slot that moves here.
    pub(crate) is_asking: bool,
    pub(crate) mute: Option<Mute>,
    /// What other threads see.
    pub(crate) client: Arc<Client>,
    pub(crate) multi: Option<Multi>,
    pub(crate) watches: Vec<Watch>,
    /// Whether a watched key was changed.
    pub(crate) is_touched: Arc<AtomicBool>,
    /// What the connection has subscribed to, if anything.
    pub(crate) subscriber: Option<Box<Subscriber>>,
    /// Whether the commands are those of a primary.
    pub(crate) upstream: Option<Upstream>,
    /// The ready list of the connection's thread, and its token there.
    pub(crate) ready: Arc<ReadyList>,
    pub(crate) token: usize,
    /// What the connection has sent that is no request, behind all requests that wait.
    pub(crate) malformed: Option<Malformed>,
    /// Whether the connection is closed after its replies.
    pub(crate) is_closing: bool,
    /// Seconds since 1970.
    pub(crate) created: u64,
}

impl Session {
    pub(crate) fn new(
        client: Arc<Client>,
        (ready, token): (Arc<ReadyList>, usize),
        user: Arc<User>,
    ) -> Self {
        Self {
            id: client.id,
            address: client.address.clone(),
            name: String::new(),
            db: 0,
            is_resp3: false,
            is_authenticated: user.is_open(),
            needs_password: true,
            users_version: None,
            user,
            is_asking: false,
            mute: None,
            multi: None,
            watches: Vec::new(),
            is_touched: Arc::default(),
            subscriber: None,
            upstream: None,
            ready,
            token,
            malformed: None,
            is_closing: false,
            created: client.created,
            client,
        }
    }

    /// Lets a session without a client run commands as its user.
    pub(crate) fn trust(&mut self, acl: &Acl) {
        (self.is_authenticated, self.needs_password) = (true, false);
        self.users_version = Some(acl.version());
    }

    /// Notes an error, if the commands are those of a primary: there is nobody else who would.
    #[cold]
    pub(crate) fn note_failure(&mut self, text: &str) {
        if let Some(upstream) = &mut self.upstream {
            upstream.failure.get_or_insert_with(|| text.into());
        }
    }

    /// Whether commands run at once, without checks of the session.
    #[inline(always)]
    pub(crate) fn is_plain(&self, acl: &Acl) -> bool {
        self.users_version == Some(acl.version())
            && !self.needs_password
            && !self.is_asking
            && self.mute.is_none()
            && self.multi.is_none()
            && self.subscriber.is_none()
    }

    /// Whether the user may run a command. The user was fitted.
    #[inline(always)]
    pub(crate) fn may_run(&self, command: &Command, args: Args<'_>) -> bool {
        self.user.is_unlimited || self.user.check(command, args).is_ok()
    }

    /// Whether the client must give a password before anything else. The user was fitted.
    pub(crate) fn needs_password(&self) -> bool {
        self.needs_password
    }

    /// Makes the client a user, without a password or after it was checked.
    pub(crate) fn set_user(&mut self, user: Arc<User>, is_authenticated: bool) {
        *self.client.user.lock() = Arc::clone(&user.name);
        (self.user, self.is_authenticated) = (user, is_authenticated);
        self.users_version = None;
    }

    /// Looks the user up again if users have changed. Returns whether the connection may stay: the user is
    /// there still, and may still get what the client has subscribed to.
    #[inline(always)]
    pub(crate) fn fit_user(&mut self, acl: &Acl) -> bool {
        let version = acl.version();
        self.users_version == Some(version) || self.fit_user_to(acl, version)
    }

    #[cold]
    fn fit_user_to(&mut self, acl: &Acl, version: u64) -> bool {
        if self.upstream.is_some() {
            return true;
        }
        // A user that changes meanwhile is looked up again at the next command: the version is older.
        let found = acl.find(&self.user.name).filter(|user| user.id == self.user.id);
        let Some(user) = found else { return false };
        self.needs_password = !self.is_authenticated && !acl.default_user().is_open();
        self.users_version = Some(version);
        if Arc::ptr_eq(&self.user, &user) {
            return true;
        }
        self.user = user;
        let Some(subscriber) = &self.subscriber else { return true };
        CLASSES.into_iter().all(|class| {
            let is_pattern = class == Class::Pattern;
            let mut names = subscriber.names(class).into_iter();
            names.all(|name| self.user.allows_channel(&name, is_pattern))
        })
    }

    /// Whether only commands about messages may run: in version 2 of the protocol, replies to others could
    /// not be told from messages.
    #[inline(always)]
    pub(crate) fn is_in_pubsub(&self) -> bool {
        !self.is_resp3 && self.subscriber.as_ref().is_some_and(|it| !it.is_empty())
    }

    #[inline(always)]
    pub(crate) fn is_monitor(&self) -> bool {
        self.subscriber.as_ref().is_some_and(|subscriber| subscriber.is_monitor)
    }

    pub(crate) fn set_name(&mut self, name: String) {
        self.client.name.lock().clone_from(&name);
        self.name = name;
    }

    /// Tells other threads what the connection is.
    pub(crate) fn publish(&self) {
        let client = &*self.client;
        client.db.store(self.db, Relaxed);
        client.is_resp3.store(self.is_resp3, Relaxed);
        let queued = self.multi.as_ref().map_or(-1, |multi| multi.queue.len() as i64);
        client.queued.store(queued, Relaxed);
        let subscriber = self.subscriber.as_ref();
        client.is_monitor.store(self.is_monitor(), Relaxed);
        for (count, class) in client.subscriptions.iter().zip(CLASSES) {
            count.store(subscriber.map_or(0, |it| it.count(class)), Relaxed);
        }
    }

    /// Whether a watched key was changed.
    pub(crate) fn is_touched(&self) -> bool {
        // Relaxed: the caller holds the locks of the watched keys.
        self.is_touched.load(Ordering::Relaxed)
    }
}
