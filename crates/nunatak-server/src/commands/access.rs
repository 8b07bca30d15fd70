//! What commands do with which of their arguments: for permissions.

use super::table::{Command, READ, WRITE};
use crate::protocol::request::Args;
use std::ops::Range;

/// The command tells the value of a key, or a part of it.
pub(crate) const READS: u8 = 1;
/// The command changes a key.
pub(crate) const WRITES: u8 = 2;

/// Commands that tell something of a key, but nothing of its value.
const TELL_NO_VALUE: [&str; 11] = [
    "exists",
    "touch",
    "type",
    "strlen",
    "sismember",
    "scard",
    "hlen",
    "hexists",
    "hstrlen",
    "object",
    "memory",
];

/// Commands that change a key, and tell of its value.
const READ_AND_WRITE: [&str; 13] = [
    "getset",
    "getdel",
    "getex",
    "incr",
    "decr",
    "incrby",
    "decrby",
    "incrbyfloat",
    "spop",
    "hincrby",
    "hincrbyfloat",
    "migrate",
    "smove",
];

/// Returns what a command does with the key at `at`.
fn access(command: &Command, args: Args<'_>, at: usize) -> u8 {
    match (command.name, at) {
        ("set", _) if (3..args.len()).any(|at| args.is(at, "GET")) => READS | WRITES,
        ("rename" | "renamenx", 1) | ("move", _) => READS | WRITES,
        ("copy", 1) => READS,
        ("sinterstore" | "sunionstore" | "sdiffstore", 2..) => READS,
        ("smove", 2) => WRITES,
        (name, _) if TELL_NO_VALUE.contains(&name) => 0,
        (name, _) if READ_AND_WRITE.contains(&name) => READS | WRITES,
        _ if command.has(WRITE) => WRITES,
        _ if command.has(READ) => READS,
        _ => 0,
    }
}

/// Returns the arguments of `MIGRATE` that are keys: one, and those behind `KEYS`.
fn keys_of_migrate(args: Args<'_>) -> (Range<usize>, Range<usize>) {
    let mut at = 6;
    while at < args.len() && !args.is(at, "KEYS") {
        at += match () {
            () if args.is(at, "AUTH") => 2,
            () if args.is(at, "AUTH2") => 3,
            () => 1,
        };
    }
    let single = if args.at(3).is_empty() { 3..3 } else { 3..4 };
    (single, (at + 1).min(args.len())..args.len())
}

/// Iterates over the arguments of a command that are keys, with what the command does with them.
pub(crate) fn keys<'a>(
    command: &'a Command,
    args: Args<'a>,
) -> impl Iterator<Item = (usize, u8)> + use<'a> {
    let none = 0..0;
    // (Keys that a command does not lock by itself have no places in the table.)
    let (first, second) = match command.name {
        "watch" => (1..args.len(), none),
        "memory" => (2..args.len().min(3), none),
        "migrate" => keys_of_migrate(args),
        _ => (0..command.key_count(args), none),
    };
    let (begin, _, step) = match command.places {
        (0, ..) => (0, 0, 1),
        places => places,
    };
    first.chain(second).map(move |at| {
        let at = begin as usize + at * step as usize;
        (at, access(command, args, at))
    })
}

/// Returns the arguments of a command that are channels, and whether they are patterns.
pub(crate) fn channels(command: &Command, args: Args<'_>) -> (Range<usize>, bool) {
    match command.name {
        "publish" | "spublish" => (1..2, false),
        "subscribe" | "ssubscribe" => (1..args.len(), false),
        "psubscribe" => (1..args.len(), true),
        _ => (0..0, false),
    }
}
