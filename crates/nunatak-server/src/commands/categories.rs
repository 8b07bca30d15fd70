//! Categories of commands, as `ACL CAT` lists them.

use super::table::{ADMIN, Entry, FAST, PUBSUB, READ, WRITE};

const KEYSPACE: u32 = 1;
const READS: u32 = 1 << 1;
const WRITES: u32 = 1 << 2;
const SET: u32 = 1 << 3;
const HASH: u32 = 1 << 6;
const STRING: u32 = 1 << 7;
const MESSAGES: u32 = 1 << 12;
const OPERATORS: u32 = 1 << 13;
const QUICK: u32 = 1 << 14;
const SLOW: u32 = 1 << 15;
const DANGEROUS: u32 = 1 << 17;
const CONNECTION: u32 = 1 << 18;
const TRANSACTION: u32 = 1 << 19;

/// The names, by the numbers of their bits. Some have no commands here: rules may name them, as at a Redis.
pub(crate) const NAMES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Returns the bit of a category.
pub(crate) fn find(name: &[u8]) -> Option<u32> {
    let at = NAMES.iter().position(|it| name.eq_ignore_ascii_case(it.as_bytes()))?;
    Some(1 << at)
}

/// Returns the names of categories.
pub(crate) fn names(bits: u32) -> impl Iterator<Item = &'static str> + Clone {
    NAMES.into_iter().enumerate().filter(move |(at, _)| bits >> at & 1 == 1).map(|(_, name)| name)
}

/// Returns the category of what a command is about.
fn subject(name: &str) -> u32 {
    match name {
        "get" | "set" | "setnx" | "setex" | "psetex" | "getset" | "getdel" | "getex" | "mget"
        | "mset" | "msetnx" | "strlen" | "append" | "getrange" | "substr" | "setrange" | "incr"
        | "decr" | "incrby" | "decrby" | "incrbyfloat" => STRING,
        "sadd" | "srem" | "sismember" | "smismember" | "scard" | "smembers" | "spop"
        | "srandmember" | "smove" | "sinter" | "sintercard" | "sunion" | "sdiff"
        | "sinterstore" | "sunionstore" | "sdiffstore" | "sscan" => SET,
        "hset" | "hmset" | "hsetnx" | "hget" | "hmget" | "hgetall" | "hkeys" | "hvals" | "hlen"
        | "hexists" | "hstrlen" | "hdel" | "hincrby" | "hincrbyfloat" | "hrandfield" | "hscan" => {
            HASH
        }
        "keys" | "flushdb" | "flushall" | "restore" | "restore-asking" | "migrate" => {
            KEYSPACE | DANGEROUS
        }
        "multi" | "exec" | "discard" | "watch" | "unwatch" => TRANSACTION,
        "ping" | "echo" | "select" | "auth" | "hello" | "quit" | "reset" | "command" | "asking"
        | "readonly" | "readwrite" => CONNECTION,
        "info" => DANGEROUS,
        "lastsave" => OPERATORS | DANGEROUS,
        "time" | "replicaof" | "slaveof" | "role" | "psync" | "sync" | "replconf" | "monitor"
        | "save" | "bgsave" | "shutdown" | "publish" | "spublish" | "subscribe" | "unsubscribe"
        | "psubscribe" | "punsubscribe" | "ssubscribe" | "sunsubscribe" => 0,
        _ => KEYSPACE,
    }
}

fn of_subcommand(name: &str, subcommand: &str) -> u32 {
    const FOR_OPERATORS: u32 = OPERATORS | DANGEROUS;
    match (name, subcommand) {
        ("client", "unblock" | "kill" | "no-evict" | "list") => CONNECTION | FOR_OPERATORS,
        ("client" | "command", _) => CONNECTION,
        ("object", _) => KEYSPACE | READS,
        ("memory", "usage") => READS,
        (_, "help") | ("acl", "cat" | "genpass" | "whoami") => 0,
        ("pubsub", _) => MESSAGES,
        ("config" | "latency" | "slowlog" | "acl", _) | ("cluster", "setslot" | "setslotrange") => {
            FOR_OPERATORS
        }
        _ => 0,
    }
}

/// Returns the categories of a command or a subcommand, as bits.
pub(crate) fn of(entry: &Entry) -> u32 {
    let command = entry.command;
    if let Some(subcommand) = entry.subcommand {
        return SLOW | of_subcommand(command.name, subcommand);
    }
    if !command.subcommands().is_empty() {
        return SLOW | if command.name == "command" { CONNECTION } else { 0 };
    }
    // (The table calls `INFO` fast: it tells how commands are timed.)
    let is_fast = command.has(FAST) && command.name != "info";
    let flags =
        [(READ, READS), (WRITE, WRITES), (PUBSUB, MESSAGES), (ADMIN, OPERATORS | DANGEROUS)];
    let of_flags = flags.into_iter().filter(|(flag, _)| command.has(*flag));
    of_flags.fold(if is_fast { QUICK } else { SLOW }, |all, (_, bits)| all | bits)
        | subject(command.name)
}
