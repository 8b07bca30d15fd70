//! Commands: which there are, and how one runs.

pub(crate) mod access;
mod acl;
mod across;
pub(crate) mod categories;
mod clients;
mod cluster;
mod collection;
mod connection;
pub(crate) mod context;
mod docs;
mod dump;
mod expiry;
mod hashes;
mod keys;
mod latency;
pub(crate) mod members;
pub(crate) mod monitor;
pub(crate) mod pending;
mod pubsub;
mod replication;
mod server;
mod sets;
mod slowlog;
mod strings;
pub(crate) mod table;
mod transactions;

pub(crate) use pubsub::forget_subscriptions;
pub(crate) use transactions::forget_watches;

use crate::acl::selector::Denied;
use crate::protocol::request::Args;
use crate::session::Mute;
use crate::store::stripes::{Seen, Stripes};
use context::{Context, Done, Fail, fail};
use std::time::Duration;
use table::{ALL_KEYS, AT_ONCE, Command, DENY_OOM, IN_PUBSUB, NO_AUTH, SUBCOMMANDS, WRITE};

/// How often a read is repeated before it takes locks.
const ATTEMPTS: usize = 16;
/// A reply of so many bytes is not written a third time.
const LONG_REPLY: usize = 64 << 10;

/// Locks of stripes, which end with this.
#[derive(Debug)]
pub(crate) struct Locks<'s> {
    stripes: &'s Stripes,
    held: &'s [u32],
    pub(crate) is_changed: bool,
}

impl<'s> Locks<'s> {
    /// Takes the locks of these stripes, which are in order and differ. `many`: the change is one of several
    /// keys.
    #[inline(always)]
    pub(crate) fn take(stripes: &'s Stripes, held: &'s [u32], many: bool) -> Self {
        held.iter().for_each(|&stripe| stripes.lock(stripe, many));
        Self { stripes, held, is_changed: false }
    }
}

impl Drop for Locks<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        for &stripe in self.held {
            self.stripes.unlock(stripe, self.is_changed);
        }
    }
}

fn unknown_command(args: Args<'_>) -> Fail {
    let mut text = String::new();
    for arg in args.from(1) {
        if text.len() >= 128 {
            break;
        }
        let shown = &arg[..arg.len().min(128 - text.len())];
        text += &format!("'{}' ", String::from_utf8_lossy(shown));
    }
    let name = &args.at(0)[..args.at(0).len().min(128)];
    let name = String::from_utf8_lossy(name);
    Fail::new(format!("ERR unknown command '{name}', with args beginning with: {text}"))
}

/// Fails as a command with a subcommand that it has not, or with too few arguments.
fn unknown_subcommand(args: Args<'_>) -> Fail {
    let name = String::from_utf8_lossy(args.at(0)).to_ascii_uppercase();
    let subcommand = String::from_utf8_lossy(args.at(1)).into_owned();
    Fail::new(format!("ERR unknown subcommand '{subcommand}'. Try {name} HELP."))
}

/// Fails as a command that a subscriber may not run.
#[cold]
fn not_in_pubsub(command: &Command, args: Args<'_>) -> Fail {
    let mut name = command.name.to_string();
    if command.has(SUBCOMMANDS) && args.len() > 1 {
        name += &format!("|{}", String::from_utf8_lossy(args.at(1)).to_ascii_lowercase());
    }
    // `EXEC` tells every failure so.
    let code = match command.name {
        "exec" => "EXECABORT Transaction discarded because of:",
        _ => "ERR",
    };
    Fail::new(format!(
        "{code} Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
         are allowed in this context"
    ))
}

/// Runs a command, and writes its reply. Returns its time if it is to be told to others, by
/// [`tell`](monitor::tell).
pub(crate) fn run(
    context: &mut Context<'_>,
    command: Option<&'static Command>,
    args: Args<'_>,
) -> Option<Duration> {
    let (mut was_asking, mut mute) = (false, None);
    let (admitted, start) = match command {
        // Most commands: nothing about the session or the command needs to be looked at more closely.
        Some(command) if is_admitted(context, command, args) => {
            (Ok(Some(command)), context.reply.out.len())
        }
        _ => {
            if !context.session.fit_user(&context.shared.acl) {
                context.session.is_closing = true;
                return None;
            }
            // Messages that were sent before the command are received before its reply.
            pubsub::deliver(context);
            was_asking = context.session.is_asking;
            mute = context.session.mute;
            let start = context.reply.out.len();
            (admit(context, command, args), start)
        }
    };
    let mut told = None;
    let done = match admitted {
        Ok(Some(command)) => {
            context.timing.begin_command(command, context.stats);
            let slot = command.slot_of(args);
            let done = run_alone(context, command, args);
            told = monitor::count_call(context, command, slot, done.is_err());
            done
        }
        Ok(None) => Ok(()),
        Err(fail) => {
            // An unknown subcommand counts as an unknown command.
            if let Some(command) = command.filter(|it| !it.lacks_subcommand(args)) {
                context.stats.command(command.slot_of(args)).rejected.add(1);
            }
            context.stats.errors.add(1);
            Err(fail)
        }
    };
    if let Err(Fail(text)) = done {
        context.session.note_failure(&text);
        context.reply.out.truncate(start);
        context.reply.error(&text);
    }
    // The command that ends the silence is answered.
    if mute.is_some() && context.session.mute == mute {
        context.reply.out.truncate(start);
        context.session.mute.take_if(|mute| *mute == Mute::Next);
    }
    // `ASKING` is about the next command only.
    if was_asking && command.is_none_or(|command| command.name != "asking") {
        context.session.is_asking = false;
    }
    told
}

/// Whether a command may run at once in a session without peculiarities.
#[inline(always)]
fn is_admitted(context: &Context<'_>, command: &Command, args: Args<'_>) -> bool {
    command.accepts(args.len())
        && context.session.is_plain(&context.shared.acl)
        && !command.has(SUBCOMMANDS)
        && context.session.may_run(command, args)
        && (context.session.upstream.is_some()
            || context.shared.replica.admits(command)
                && (!command.has(DENY_OOM) || context.shared.has_room()))
}

/// Checks that a client may run a command while the server is a replica, or that a primary's command is that
/// of the present one. The caller holds the locks of the command's keys, or repeats the command if a change
/// has crossed it.
#[inline(always)]
fn check_role(context: &Context<'_>, command: &Command) -> Done {
    let replica = &context.shared.replica;
    match &context.session.upstream {
        None if replica.is_open() => Ok(()),
        None => replica.refusal(command).map_or(Ok(()), |why| Err(Fail::new(why.text()))),
        Some(upstream) if replica.is_current(upstream.generation) => Ok(()),
        Some(_) => fail!("ERR the server follows another primary"),
    }
}

/// Whether a command may take memory. A primary's always may: it has its own limit.
fn has_room(context: &Context<'_>) -> bool {
    context.session.upstream.is_some() || context.shared.has_room()
}

/// Checks any command. Returns it if it is to be run now; otherwise it was queued.
#[inline(never)]
fn admit(
    context: &mut Context<'_>,
    command: Option<&'static Command>,
    args: Args<'_>,
) -> Result<Option<&'static Command>, Fail> {
    let checked = match command {
        None => Err(unknown_command(args)),
        Some(command) if !command.accepts(args.len()) => {
            let name = command.name;
            Err(Fail::new(format!("ERR wrong number of arguments for '{name}' command")))
        }
        Some(command) if command.lacks_subcommand(args) => Err(unknown_subcommand(args)),
        Some(command) if context.session.needs_password() && !command.has(NO_AUTH) => {
            Err(Fail::new("NOAUTH Authentication required."))
        }
        Some(command) if !context.session.may_run(command, args) => {
            let denied = acl::check(context, command, args).err().unwrap_or(Denied::Command);
            Err(acl::denied(command, args, denied))
        }
        Some(command) if command.has(DENY_OOM) && !has_room(context) => {
            Err(Fail::new("OOM command not allowed when used memory > 'maxmemory'."))
        }
        Some(command) if check_role(context, command).is_err() => {
            check_role(context, command).map(|()| command)
        }
        Some(command) if !command.has(IN_PUBSUB) && context.session.is_in_pubsub() => {
            Err(not_in_pubsub(command, args))
        }
        Some(command) if context.session.is_monitor() && command.is_about_data() => {
            Err(Fail::new("ERR Replica can't interact with the keyspace"))
        }
        Some(command) => Ok(command),
    };
    // What is queued is checked again when it runs.
    let checked = match checked {
        Ok(command) if context.session.multi.is_some() => {
            check_slots(context, command, args).map(|()| command)
        }
        checked => checked,
    };
    match (checked, &mut context.session.multi) {
        (Ok(command), Some(multi)) if !command.has(AT_ONCE) => {
            let (bytes, spans) = args.to_owned();
            multi.queue.push(crate::session::Queued { bytes, spans });
            context.reply.simple("QUEUED");
            Ok(None)
        }
        (Err(fail), Some(multi)) => {
            multi.is_aborted = true;
            Err(fail)
        }
        (checked, _) => checked.map(Some),
    }
}

/// Runs a command, so that it takes effect at one moment.
#[inline(always)]
fn run_alone(context: &mut Context<'_>, command: &Command, args: Args<'_>) -> Done {
    let (shared, db) = (context.shared, context.session.db);
    let stripes = &shared.store.stripes;
    if command.has(ALL_KEYS) {
        let all: Vec<u32> = Stripes::all().collect();
        return run_locked(context, command, args, &all, true);
    }
    let stripe = |key| Stripes::of(stripes.hash(db, key));
    if let Some((other, key)) = across::other_key(command, args, db, shared.store.spaces().len()) {
        let of_other = Stripes::of(stripes.hash(other, key));
        let mut held: Vec<u32> = command.keys(args).map(stripe).chain([of_other]).collect();
        held.sort_unstable();
        held.dedup();
        return run_locked(context, command, args, &held, true);
    }
    let mut keys = command.keys(args);
    let (first, second) = (keys.next(), keys.next());
    match (first, second) {
        (None, _) => (command.run)(context, args),
        (Some(key), None) if command.has(WRITE) => {
            run_locked(context, command, args, &[stripe(key)], false)
        }
        (Some(key), None) => run_reading(context, command, args, &[stripe(key)]),
        (Some(first), Some(second)) => {
            let mut held: Vec<u32> = [first, second].into_iter().chain(keys).map(stripe).collect();
            held.sort_unstable();
            held.dedup();
            match command.has(WRITE) {
                true => run_locked(context, command, args, &held, true),
                false => run_reading(context, command, args, &held),
            }
        }
    }
}

/// Checks that this node of a cluster serves the keys of a command. The caller holds their locks, or repeats
/// the command if a change has crossed it.
#[inline(always)]
fn check_slots(context: &mut Context<'_>, command: &Command, args: Args<'_>) -> Done {
    match &context.shared.cluster {
        None => Ok(()),
        Some(cluster) => {
            let is_asking = context.session.is_asking || command.name == "restore-asking";
            cluster::check(context, cluster, is_asking, command.keys(args))
        }
    }
}

/// Runs a command under its locks.
#[inline(always)]
fn run_locked(
    context: &mut Context<'_>,
    command: &Command,
    args: Args<'_>,
    held: &[u32],
    many: bool,
) -> Done {
    let shared = context.shared;
    let mut locks = Locks::take(&shared.store.stripes, held, many);
    let was_changed = std::mem::take(&mut context.is_changed);
    let done = check_role(context, command)
        .and_then(|()| check_slots(context, command, args))
        .and_then(|()| (command.run)(context, args));
    locks.is_changed = context.is_changed;
    context.is_changed |= was_changed;
    done
}

/// Runs a command that changes nothing, until what it read belongs to one moment.
fn run_reading(context: &mut Context<'_>, command: &Command, args: Args<'_>, of: &[u32]) -> Done {
    let shared = context.shared;
    let stripes = &shared.store.stripes;
    let (start, are_many) = (context.reply.out.len(), of.len() > 1);
    let counted = (context.hits, context.misses);
    for _ in 0..ATTEMPTS {
        let begin = |&stripe: &u32| stripes.begin_read(stripe, are_many);
        let mut many = Vec::new();
        let seen: &[Seen] = match of {
            [stripe] => &[begin(stripe)],
            _ => {
                many.extend(of.iter().map(begin));
                &many
            }
        };
        let done = check_role(context, command)
            .and_then(|()| check_slots(context, command, args))
            .and_then(|()| (command.run)(context, args));
        if seen.iter().all(|&seen| stripes.end_read(seen, are_many)) {
            return done;
        }
        let is_long = context.reply.out.len() - start > LONG_REPLY;
        context.reply.out.truncate(start);
        (context.hits, context.misses) = counted;
        if is_long {
            break;
        }
    }
    run_locked(context, command, args, of, false)
}
