//! The table of commands.

use super::context::{Context, Done};
use super::{
    acl, across, clients, cluster, connection, dump, expiry, hashes, keys, latency, monitor,
    pubsub, replication, server, sets, slowlog, strings, transactions,
};
use crate::protocol::numbers::parse_u64;
use crate::protocol::request::Args;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The command changes keys.
pub(crate) const WRITE: u16 = 1;
/// The command reads keys.
pub(crate) const READ: u16 = 2;
/// The command takes memory.
pub(crate) const DENY_OOM: u16 = 4;
/// The command takes a short time, which does not depend on its keys.
pub(crate) const FAST: u16 = 8;
/// The command needs no password.
pub(crate) const NO_AUTH: u16 = 16;
/// The command is about a transaction, so it is not queued.
pub(crate) const AT_ONCE: u16 = 32;
/// The command changes all keys.
pub(crate) const ALL_KEYS: u16 = 64;
/// The command is for those who run the server.
pub(crate) const ADMIN: u16 = 128;
/// The command is about messages.
pub(crate) const PUBSUB: u16 = 256;
/// The command is allowed to subscribers that speak version 2 of the protocol.
pub(crate) const IN_PUBSUB: u16 = 512;
/// The command's first argument is the name of a subcommand.
pub(crate) const SUBCOMMANDS: u16 = 1024;
/// The command takes a short time if its arguments are few and short.
pub(crate) const BRIEF: u16 = 2048;

/// The argument in front of the first key says how many keys there are.
pub(crate) const COUNTED: u16 = 4096;
/// The command may change a key of another database.
pub(crate) const ACROSS: u16 = 8192;

/// A command, or a subcommand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// Its counters, which are also its number among permissions.
    pub(crate) slot: u16,
    pub(crate) command: &'static Command,
    pub(crate) subcommand: Option<&'static str>,
}

impl Entry {
    /// Returns the name, with that of the subcommand.
    pub(crate) fn name(&self) -> String {
        let suffix = self.subcommand.map_or(String::new(), |subcommand| format!("|{subcommand}"));
        format!("{}{suffix}", self.command.name)
    }
}

/// How many counters a command with subcommands has, at most.
const MOST_SUBCOMMANDS: u16 = 16;

/// A command.
#[derive(Debug)]
pub(crate) struct Command {
    /// In lower case.
    pub(crate) name: &'static str,
    /// How many arguments there are, with the name; a negative number is the least.
    pub(crate) arity: i32,
    flags: u16,
    /// The first of its counters: its own, and one for each subcommand.
    pub(crate) slot: u16,
    /// Where keys are: the first, the last (from the end, if negative), and the step. All zero: there are
    /// none.
    pub(crate) places: (i32, i32, i32),
    pub(crate) run: fn(&mut Context<'_>, Args<'_>) -> Done,
}

impl Command {
    #[inline(always)]
    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    #[inline(always)]
    pub(crate) fn accepts(&self, args: usize) -> bool {
        let args = args as i32;
        if self.arity >= 0 { args == self.arity } else { args >= -self.arity }
    }

    /// Whether the command is one about some keys, which may be one of a batch.
    #[inline(always)]
    pub(crate) fn is_about_keys(&self) -> bool {
        self.places.0 > 0 && self.flags & (READ | WRITE) != 0
    }

    /// Whether the command only looks strings up: `GET` and `MGET`.
    #[inline(always)]
    pub(crate) fn is_lookup(&self) -> bool {
        matches!(self.name, "get" | "mget")
    }

    /// Whether the command, with so many arguments, is a `SET` without options.
    #[inline(always)]
    pub(crate) fn is_store(&self, args: usize) -> bool {
        args == 3 && self.name == "set"
    }

    /// The names of all subcommands, in lower case; none if the command has no subcommands.
    pub(crate) fn subcommands(&self) -> &'static [&'static str] {
        match self.name {
            "acl" => &[
                "setuser", "getuser", "deluser", "list", "users", "whoami", "cat", "genpass",
                "log", "dryrun", "save", "load", "help",
            ],
            "client" => &[
                "id", "getname", "setname", "info", "list", "kill", "reply", "getredir", "unblock",
                "no-evict", "help",
            ],
            "cluster" => &[
                "info",
                "slots",
                "shards",
                "nodes",
                "myid",
                "keyslot",
                "countkeysinslot",
                "getkeysinslot",
                "setslot",
                "setslotrange",
                "scanslots",
                "help",
            ],
            "command" => &["count", "info", "docs", "getkeys"],
            "config" => &["get", "set", "resetstat", "rewrite"],
            "latency" => &["doctor", "graph", "history", "latest", "reset", "histogram", "help"],
            "memory" => &["usage"],
            "slowlog" => &["get", "len", "reset", "help"],
            "object" => &["encoding", "refcount", "idletime", "freq"],
            "pubsub" => &["channels", "numpat", "numsub", "shardchannels", "shardnumsub", "help"],
            _ => &[],
        }
    }

    /// Whether the first argument should be the name of a subcommand, and is not.
    #[inline(always)]
    pub(crate) fn lacks_subcommand(&self, args: Args<'_>) -> bool {
        self.has(SUBCOMMANDS)
            && args.len() > 1
            && !self.subcommands().iter().any(|name| args.is(1, name))
    }

    const fn slot_count(&self) -> u16 {
        if self.flags & SUBCOMMANDS != 0 { MOST_SUBCOMMANDS } else { 1 }
    }

    /// Returns which counters are those of a command with these arguments.
    #[inline(always)]
    pub(crate) fn slot_of(&self, args: Args<'_>) -> u16 {
        if self.has(SUBCOMMANDS) { self.slot_of_subcommand(args) } else { self.slot }
    }

    #[cold]
    fn slot_of_subcommand(&self, args: Args<'_>) -> u16 {
        let at = self.subcommands().iter().position(|name| args.is(1, name));
        self.slot + at.map_or(0, |at| at as u16 + 1)
    }

    /// The command itself, then its subcommands.
    pub(crate) fn entries(&'static self) -> impl Iterator<Item = Entry> {
        let subcommands = self.subcommands().iter().copied().map(Some);
        let all = std::iter::once(None).chain(subcommands).enumerate();
        all.map(move |(at, subcommand)| Entry {
            slot: self.slot + at as u16,
            command: self,
            subcommand,
        })
    }

    /// Returns the names of the counters, in their order.
    pub(crate) fn slot_names(&self) -> impl Iterator<Item = String> {
        let subcommands = self.subcommands();
        (0..usize::from(self.slot_count())).map(move |at| {
            let subcommand = at.checked_sub(1).and_then(|at| subcommands.get(at));
            let suffix = subcommand.map_or(String::new(), |subcommand| format!("|{subcommand}"));
            format!("{}{suffix}", self.name)
        })
    }

    /// Whether the command may take a long time, whatever its arguments are.
    #[inline(always)]
    pub(crate) fn may_take_long(&self) -> bool {
        self.flags & (FAST | BRIEF) == 0
    }

    /// Whether a monitor may not run the command.
    #[inline(always)]
    pub(crate) fn is_about_data(&self) -> bool {
        self.flags & (READ | WRITE) != 0 || matches!(self.name, "publish" | "spublish")
    }

    /// How many keys a command with so many arguments has, at most: as many as there are, unless an argument says
    /// how many.
    #[inline(always)]
    pub(crate) fn most_keys(&self, args: usize) -> usize {
        let (first, last, step) = self.places;
        let len = args as i32;
        let end = if last < 0 { len + last } else { last }.min(len - 1);
        if first > 0 && end >= first { ((end - first) / step + 1) as usize } else { 0 }
    }

    /// How many keys are among the arguments.
    #[inline(always)]
    pub(crate) fn key_count(&self, args: Args<'_>) -> usize {
        let most = self.most_keys(args.len());
        if self.has(COUNTED) { told_count(args, self.places.0).min(most) } else { most }
    }

    /// Iterates over the keys among the arguments.
    #[inline(always)]
    pub(crate) fn keys<'a>(
        &self,
        args: Args<'a>,
    ) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let (first, _, step) = self.places;
        (0..self.key_count(args)).map(move |at| args.at(first as usize + at * step as usize))
    }

    /// The places of keys, as `COMMAND` tells them: zeros, if an argument says how many keys there are.
    pub(crate) fn told_places(&self) -> (i32, i32, i32) {
        if self.has(COUNTED) { NONE } else { self.places }
    }

    /// The names of the flags, as `COMMAND` tells them.
    pub(crate) fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        let names = [
            (WRITE, "write"),
            (READ, "readonly"),
            (DENY_OOM, "denyoom"),
            (ADMIN, "admin"),
            (PUBSUB, "pubsub"),
            (FAST, "fast"),
            (NO_AUTH, "no_auth"),
            (COUNTED, "movablekeys"),
        ];
        names.into_iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| name)
    }
}

/// Returns what the argument in front of the first key says; 0 if it is no number.
#[cold]
fn told_count(args: Args<'_>, first: i32) -> usize {
    parse_u64(args.at(first as usize - 1)).map_or(0, |count| count as usize)
}

const NONE: (i32, i32, i32) = (0, 0, 0);
const ONE: (i32, i32, i32) = (1, 1, 1);
const TWO: (i32, i32, i32) = (1, 2, 1);
const REST: (i32, i32, i32) = (1, -1, 1);
const PAIRS: (i32, i32, i32) = (1, -1, 2);
const COUNTED_REST: (i32, i32, i32) = (2, -1, 1);

/// Gives each command its counters.
const fn numbered<const N: usize>(mut commands: [Command; N]) -> [Command; N] {
    let (mut at, mut next) = (0, 0);
    while at < N {
        commands[at].slot = next;
        next += commands[at].slot_count();
        at += 1;
    }
    commands
}

/// Returns how many counters all commands have.
pub(crate) fn slots() -> usize {
    COMMANDS.last().map_or(0, |command| usize::from(command.slot + command.slot_count()))
}

/// All commands and subcommands.
pub(crate) fn all_entries() -> impl Iterator<Item = Entry> {
    COMMANDS.iter().flat_map(|command| command.entries())
}

macro_rules! commands {
    ($($name:literal $arity:literal $places:expr, $flags:expr, $run:path;)*) => {
        /// All commands.
        pub(crate) static COMMANDS: &[Command] = &numbered([$(Command {
            name: $name, arity: $arity, flags: $flags, places: $places, run: $run, slot: 0,
        }),*]);
    };
}

commands! {
    "get" 2 ONE, READ | FAST, strings::get;
    "set" -3 ONE, WRITE | DENY_OOM | BRIEF, strings::set;
    "setnx" 3 ONE, WRITE | DENY_OOM | FAST, strings::setnx;
    "setex" 4 ONE, WRITE | DENY_OOM | BRIEF, strings::setex;
    "psetex" 4 ONE, WRITE | DENY_OOM | BRIEF, strings::psetex;
    "getset" 3 ONE, WRITE | DENY_OOM | FAST, strings::getset;
    "getdel" 2 ONE, WRITE | FAST, strings::getdel;
    "getex" -2 ONE, WRITE | FAST, strings::getex;
    "mget" -2 REST, READ | FAST, strings::mget;
    "mset" -3 PAIRS, WRITE | DENY_OOM | BRIEF, strings::mset;
    "msetnx" -3 PAIRS, WRITE | DENY_OOM | BRIEF, strings::msetnx;
    "strlen" 2 ONE, READ | FAST, strings::strlen;
    "append" 3 ONE, WRITE | DENY_OOM | FAST, strings::append;
    "getrange" 4 ONE, READ | BRIEF, strings::getrange;
    "substr" 4 ONE, READ | BRIEF, strings::getrange;
    "setrange" 4 ONE, WRITE | DENY_OOM | BRIEF, strings::setrange;
    "incr" 2 ONE, WRITE | DENY_OOM | FAST, strings::incr;
    "decr" 2 ONE, WRITE | DENY_OOM | FAST, strings::decr;
    "incrby" 3 ONE, WRITE | DENY_OOM | FAST, strings::incrby;
    "decrby" 3 ONE, WRITE | DENY_OOM | FAST, strings::decrby;
    "incrbyfloat" 3 ONE, WRITE | DENY_OOM | FAST, strings::incrbyfloat;
    "del" -2 REST, WRITE | BRIEF, keys::del;
    "unlink" -2 REST, WRITE | FAST, keys::del;
    "exists" -2 REST, READ | FAST, keys::exists;
    "touch" -2 REST, READ | FAST, keys::exists;
    "type" 2 ONE, READ | FAST, keys::key_type;
    "rename" 3 TWO, WRITE, keys::rename;
    "renamenx" 3 TWO, WRITE | FAST, keys::renamenx;
    "copy" -3 TWO, WRITE | DENY_OOM | ACROSS, across::copy;
    "move" 3 ONE, WRITE | FAST | ACROSS, across::move_key;
    "expire" -3 ONE, WRITE | FAST, expiry::expire;
    "pexpire" -3 ONE, WRITE | FAST, expiry::pexpire;
    "expireat" -3 ONE, WRITE | FAST, expiry::expireat;
    "pexpireat" -3 ONE, WRITE | FAST, expiry::pexpireat;
    "ttl" 2 ONE, READ | FAST, expiry::ttl;
    "pttl" 2 ONE, READ | FAST, expiry::pttl;
    "expiretime" 2 ONE, READ | FAST, expiry::expiretime;
    "pexpiretime" 2 ONE, READ | FAST, expiry::pexpiretime;
    "persist" 2 ONE, WRITE | FAST, expiry::persist;
    "scan" -2 NONE, READ, keys::scan;
    "keys" 2 NONE, READ, keys::keys;
    "randomkey" 1 NONE, READ, keys::randomkey;
    "dbsize" 1 NONE, READ | FAST, keys::dbsize;
    "flushdb" -1 NONE, WRITE | ALL_KEYS, keys::flushdb;
    "flushall" -1 NONE, WRITE | ALL_KEYS, keys::flushall;
    "object" -2 (2, 2, 1), READ | SUBCOMMANDS, keys::object;
    "sadd" -3 ONE, WRITE | DENY_OOM | FAST, sets::sadd;
    "srem" -3 ONE, WRITE | FAST, sets::srem;
    "sismember" 3 ONE, READ | FAST, sets::sismember;
    "smismember" -3 ONE, READ | FAST, sets::smismember;
    "scard" 2 ONE, READ | FAST, sets::scard;
    "smembers" 2 ONE, READ, sets::smembers;
    "spop" -2 ONE, WRITE | FAST, sets::spop;
    "srandmember" -2 ONE, READ, sets::srandmember;
    "smove" 4 TWO, WRITE | FAST, sets::smove;
    "sinter" -2 REST, READ, sets::sinter;
    "sunion" -2 REST, READ, sets::sunion;
    "sdiff" -2 REST, READ, sets::sdiff;
    "sintercard" -3 COUNTED_REST, READ | COUNTED, sets::sintercard;
    "sinterstore" -3 REST, WRITE | DENY_OOM, sets::sinterstore;
    "sunionstore" -3 REST, WRITE | DENY_OOM, sets::sunionstore;
    "sdiffstore" -3 REST, WRITE | DENY_OOM, sets::sdiffstore;
    "sscan" -3 ONE, READ, sets::sscan;
    "hset" -4 ONE, WRITE | DENY_OOM | FAST, hashes::hset;
    "hmset" -4 ONE, WRITE | DENY_OOM | FAST, hashes::hmset;
    "hsetnx" 4 ONE, WRITE | DENY_OOM | FAST, hashes::hsetnx;
    "hget" 3 ONE, READ | FAST, hashes::hget;
    "hmget" -3 ONE, READ | FAST, hashes::hmget;
    "hgetall" 2 ONE, READ, hashes::hgetall;
    "hkeys" 2 ONE, READ, hashes::hkeys;
    "hvals" 2 ONE, READ, hashes::hvals;
    "hlen" 2 ONE, READ | FAST, hashes::hlen;
    "hexists" 3 ONE, READ | FAST, hashes::hexists;
    "hstrlen" 3 ONE, READ | FAST, hashes::hstrlen;
    "hdel" -3 ONE, WRITE | FAST, hashes::hdel;
    "hincrby" 4 ONE, WRITE | DENY_OOM | FAST, hashes::hincrby;
    "hincrbyfloat" 4 ONE, WRITE | DENY_OOM | FAST, hashes::hincrbyfloat;
    "hrandfield" -2 ONE, READ, hashes::hrandfield;
    "hscan" -3 ONE, READ, hashes::hscan;
    "dump" 2 ONE, READ, dump::dump;
    "restore" -4 ONE, WRITE | DENY_OOM, dump::restore;
    "restore-asking" -4 ONE, WRITE | DENY_OOM, dump::restore;
    "migrate" -6 NONE, WRITE, dump::migrate;
    "multi" 1 NONE, AT_ONCE | FAST, transactions::multi;
    "exec" 1 NONE, AT_ONCE | BRIEF, transactions::exec;
    "discard" 1 NONE, AT_ONCE | FAST, transactions::discard;
    "watch" -2 NONE, AT_ONCE | FAST, transactions::watch;
    "unwatch" 1 NONE, FAST, transactions::unwatch;
    "publish" 3 NONE, PUBSUB | FAST, pubsub::publish;
    "spublish" 3 NONE, PUBSUB | FAST, pubsub::spublish;
    "subscribe" -2 NONE, PUBSUB | IN_PUBSUB, pubsub::subscribe;
    "unsubscribe" -1 NONE, PUBSUB | IN_PUBSUB, pubsub::unsubscribe;
    "psubscribe" -2 NONE, PUBSUB | IN_PUBSUB, pubsub::psubscribe;
    "punsubscribe" -1 NONE, PUBSUB | IN_PUBSUB, pubsub::punsubscribe;
    "ssubscribe" -2 NONE, PUBSUB | IN_PUBSUB, pubsub::ssubscribe;
    "sunsubscribe" -1 NONE, PUBSUB | IN_PUBSUB, pubsub::sunsubscribe;
    "pubsub" -2 NONE, PUBSUB | SUBCOMMANDS, pubsub::pubsub;
    "ping" -1 NONE, FAST | IN_PUBSUB, connection::ping;
    "echo" 2 NONE, FAST, connection::echo;
    "select" 2 NONE, FAST, connection::select;
    "auth" -2 NONE, NO_AUTH | FAST, connection::auth;
    "hello" -1 NONE, NO_AUTH | FAST, connection::hello;
    "quit" -1 NONE, NO_AUTH | AT_ONCE | FAST | IN_PUBSUB, connection::quit;
    "reset" 1 NONE, NO_AUTH | AT_ONCE | FAST | IN_PUBSUB, connection::reset;
    "acl" -2 NONE, ADMIN | SUBCOMMANDS, acl::acl;
    "client" -2 NONE, FAST | SUBCOMMANDS, clients::client;
    "info" -1 NONE, FAST, server::info;
    "config" -2 NONE, ADMIN | SUBCOMMANDS, server::config;
    "command" -1 NONE, FAST | SUBCOMMANDS, server::command;
    "latency" -2 NONE, ADMIN | SUBCOMMANDS, latency::latency;
    "memory" -2 NONE, READ | SUBCOMMANDS, server::memory;
    "monitor" 1 NONE, ADMIN, monitor::monitor;
    "slowlog" -2 NONE, ADMIN | SUBCOMMANDS, slowlog::slowlog;
    "cluster" -2 NONE, SUBCOMMANDS, cluster::cluster;
    "asking" 1 NONE, FAST, cluster::asking;
    "readonly" 1 NONE, FAST, cluster::read_mode;
    "readwrite" 1 NONE, FAST, cluster::read_mode;
    "replicaof" 3 NONE, ADMIN | ALL_KEYS, replication::replicaof;
    "slaveof" 3 NONE, ADMIN | ALL_KEYS, replication::replicaof;
    "role" 1 NONE, ADMIN | FAST, replication::role;
    "psync" -3 NONE, ADMIN, replication::no_primary;
    "sync" 1 NONE, ADMIN, replication::no_primary;
    "replconf" -1 NONE, ADMIN, replication::no_primary;
    "time" 1 NONE, FAST, server::time;
    "save" 1 NONE, ADMIN, server::save;
    "bgsave" -1 NONE, ADMIN, server::bgsave;
    "lastsave" 1 NONE, FAST, server::lastsave;
    "shutdown" -1 NONE, ADMIN, server::shutdown;
}

static BY_NAME: LazyLock<HashMap<&'static [u8], &'static Command, RandomState>> =
    LazyLock::new(|| COMMANDS.iter().map(|command| (command.name.as_bytes(), command)).collect());

/// Returns the name of the command that has these counters, with its subcommand.
pub(crate) fn name_of(slot: u16) -> Option<String> {
    let at = COMMANDS.partition_point(|command| command.slot <= slot).checked_sub(1)?;
    COMMANDS[at].slot_names().nth(usize::from(slot - COMMANDS[at].slot))
}

/// Finds a command by its name, in any case.
#[inline]
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut lower = [0; 16];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    BY_NAME.get(&*lower).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_fit() {
        for command in COMMANDS {
            assert!(command.name.len() <= 16);
            assert!(command.subcommands().len() < usize::from(MOST_SUBCOMMANDS));
            assert_eq!(command.has(SUBCOMMANDS), !command.subcommands().is_empty());
            let name = command.name.to_ascii_uppercase();
            assert_eq!(find(name.as_bytes()).map(|it| it.name), Some(command.name));
        }
        assert!(find(b"").is_none() && find(&[b'a'; 100]).is_none() && find(b"get\0").is_none());
    }
}
