//! Publish and subscribe: which connections get which messages, whatever thread they belong to.
//!
//! A publisher encodes a message once and puts it into the mailbox of each subscriber. The subscriber's
//! thread moves it from there to the socket. So a publisher never waits for a socket.

pub(crate) mod limits;
pub(crate) mod mailbox;
pub(crate) mod monitors;
pub(crate) mod subscriber;

use crate::protocol::glob;
use crate::protocol::reply::Reply;
use limits::Limits;
use mailbox::{Mailbox, Message, Wakes};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;

/// What a subscription names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Channel,
    Pattern,
    /// A channel of `SPUBLISH`.
    Shard,
}

pub(crate) const CLASSES: [Class; 3] = [Class::Channel, Class::Pattern, Class::Shard];

/// Subscribers by their clients' numbers.
type Subscribers = HashMap<u64, Arc<Mailbox>>;

/// The subscribers of each name.
type Index = HashMap<Arc<[u8]>, Subscribers>;

/// All subscriptions of a server.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    /// By class. Publishers put messages into mailboxes under the read lock. So no message of a name
    /// arrives at a mailbox after its subscription was removed.
    indexes: RwLock<[Index; 3]>,
}

/// Encodes a message as version 2 of the protocol does.
fn encode(parts: &[&[u8]]) -> Message {
    let mut out = Vec::with_capacity(64 + parts.iter().map(|part| part.len() + 16).sum::<usize>());
    let mut reply = Reply { out: &mut out, is_resp3: false };
    reply.array(parts.len());
    parts.iter().for_each(|part| reply.bulk(part));
    out.into()
}

impl Subscriptions {
    /// Adds a subscription, and returns the name that all subscriptions of it share.
    pub(crate) fn add(
        &self,
        class: Class,
        name: &[u8],
        id: u64,
        mailbox: &Arc<Mailbox>,
    ) -> Arc<[u8]> {
        let mut indexes = self.indexes.write();
        let index = &mut indexes[class as usize];
        let name = index.get_key_value(name).map_or_else(|| name.into(), |it| Arc::clone(it.0));
        index.entry(Arc::clone(&name)).or_default().insert(id, Arc::clone(mailbox));
        name
    }

    /// Removes subscriptions of a client.
    pub(crate) fn remove<'n>(&self, class: Class, names: impl Iterator<Item = &'n [u8]>, id: u64) {
        let mut indexes = self.indexes.write();
        let index = &mut indexes[class as usize];
        for name in names {
            if let Some(subscribers) = index.get_mut(name) {
                subscribers.remove(&id);
                if subscribers.is_empty() {
                    index.remove(name);
                }
            }
        }
    }

    /// Sends a message to the subscribers of a channel, and returns how many got it. Their threads are
    /// added to `wakes`.
    pub(crate) fn publish(
        &self,
        class: Class,
        (channel, payload): (&[u8], &[u8]),
        (limits, now): (Limits, u64),
        wakes: &mut Wakes,
    ) -> usize {
        let indexes = self.indexes.read();
        let mut count = 0;
        let mut send = |subscribers: &Subscribers, message: Message| {
            count += subscribers.len();
            subscribers.values().for_each(|it| it.post(&message, limits, now, wakes));
        };
        if let Some(subscribers) = indexes[class as usize].get(channel) {
            let kind = if class == Class::Shard { "smessage" } else { "message" };
            send(subscribers, encode(&[kind.as_bytes(), channel, payload]));
        }
        if class == Class::Channel {
            for (pattern, subscribers) in &indexes[Class::Pattern as usize] {
                if glob::matches(pattern, channel) {
                    send(subscribers, encode(&[b"pmessage", pattern, channel, payload]));
                }
            }
        }
        count
    }

    /// Returns the names of a class that match a pattern, if one is given.
    pub(crate) fn names(&self, class: Class, pattern: Option<&[u8]>) -> Vec<Arc<[u8]>> {
        let indexes = self.indexes.read();
        let names = indexes[class as usize].keys();
        let fits = |name: &&Arc<[u8]>| pattern.is_none_or(|it| glob::matches(it, name));
        names.filter(fits).cloned().collect()
    }

    /// Returns how many names of a class have subscribers.
    pub(crate) fn count(&self, class: Class) -> usize {
        self.indexes.read()[class as usize].len()
    }

    /// Returns how many clients have subscribed to a name.
    pub(crate) fn subscribers(&self, class: Class, name: &[u8]) -> usize {
        self.indexes.read()[class as usize].get(name).map_or(0, HashMap::len)
    }
}
