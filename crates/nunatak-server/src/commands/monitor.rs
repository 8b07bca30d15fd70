//! `MONITOR`, and what is told of a command that was run.

use super::context::{Context, Done, fail};
use super::pubsub::subscriber;
use super::table::{ADMIN, Command, FAST};
use crate::protocol::request::Args;
use crate::session::Session;
use crate::shared::Shared;
use crate::spikes::Spike;
use std::borrow::Cow;
use std::io::Write as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub(super) fn monitor(context: &mut Context<'_>, _: Args<'_>) -> Done {
    if context.exec.is_some() {
        return fail!("ERR MONITOR isn't allowed for DENY BLOCKING client");
    }
    let id = context.session.id;
    let subscriber = subscriber(context.session);
    // A second one has no reply.
    if !std::mem::replace(&mut subscriber.is_monitor, true) {
        context.shared.monitors.add(id, &subscriber.mailbox);
        context.reply.ok();
    }
    Ok(())
}

/// Returns the arguments of a command without its passwords.
pub(crate) fn shown<'a>(
    command: &Command,
    args: Args<'a>,
) -> impl ExactSizeIterator<Item = Cow<'a, [u8]>> + use<'a> {
    let hidden = match command.name {
        "auth" => 1..args.len(),
        "acl" if args.is(1, "SETUSER") => 2..args.len(),
        "hello" => match (2..args.len()).find(|&at| args.is(at, "AUTH")) {
            Some(at) => at + 1..at + 3,
            None => 0..0,
        },
        "config" if args.is(1, "SET") => {
            let is_secret =
                |at| ["requirepass", "masterauth", "primaryauth"].iter().any(|it| args.is(at, it));
            // All from the first one on: others may follow.
            (2..args.len()).find(|&at| is_secret(at)).map_or(0..0, |at| at + 1..args.len())
        }
        _ => 0..0,
    };
    (0..args.len()).map(move |at| match hidden.contains(&at) {
        true => Cow::Borrowed(&b"(redacted)"[..]),
        false => Cow::Borrowed(args.at(at)),
    })
}

/// Writes an argument in quotes.
fn quote(line: &mut Vec<u8>, arg: &[u8]) {
    line.push(b'"');
    for &byte in arg {
        match byte {
            b'"' | b'\\' => line.extend([b'\\', byte]),
            b'\n' => line.extend(b"\\n"),
            b'\r' => line.extend(b"\\r"),
            b'\t' => line.extend(b"\\t"),
            7 => line.extend(b"\\a"),
            8 => line.extend(b"\\b"),
            b' '..=b'~' => line.push(byte),
            // Writing to a vector does not fail.
            _ => drop(write!(line, "\\x{byte:02x}")),
        }
    }
    line.push(b'"');
}

/// Sends a command that was run to the monitors.
fn tell_monitors(context: &mut Context<'_>, command: &Command, args: Args<'_>) {
    let now = crate::shared::now();
    let session = &*context.session;
    let mut line = Vec::new();
    // The address of a Unix socket has no port.
    let (kind, address) = match session.address.strip_suffix(":0") {
        Some(path) => ("unix:", path),
        None => ("", &*session.address),
    };
    let (seconds, micros) = (now.as_secs(), now.subsec_micros());
    // Writing to a vector does not fail.
    let _ = write!(line, "+{seconds}.{micros:06} [{} {kind}{address}]", session.db);
    for arg in shown(command, args) {
        line.push(b' ');
        quote(&mut line, &arg);
    }
    line.extend(b"\r\n");
    let limits = context.shared.settings.mailbox_limits();
    context.shared.monitors.send(&line.into(), (limits, context.now), context.wakes);
}

/// Counts a command that was run. Returns its time if somebody wants to know of it: then
/// [`tell`] is to be called.
#[inline(always)]
pub(super) fn count_call(
    context: &mut Context<'_>,
    command: &Command,
    slot: u16,
    has_failed: bool,
) -> Option<Duration> {
    let stats = context.stats;
    let counters = stats.command(slot);
    counters.calls.add(1);
    if has_failed {
        counters.failed.add(1);
        stats.errors.add(1);
    }
    let time = context.timing.end_command(command, slot, stats);
    let is_slow =
        time.is_some_and(|time| context.timing.is_slow(time) || context.timing.is_spike(time));
    (is_slow || context.shared.monitors.are_any()).then(|| time.unwrap_or_default())
}

/// Tells a command that was run to the monitors, and to the events and the slow log, if it was slow. In the
/// slow log the commands of a transaction stand for `EXEC`.
#[cold]
pub(crate) fn tell(context: &mut Context<'_>, command: &Command, args: Args<'_>, time: Duration) {
    if context.timing.is_spike(time) {
        note_spike(context.shared, command, (context.now, time));
    }
    if context.timing.is_slow(time) && command.name != "exec" {
        log_slow(context.shared, context.session, shown(command, args), (context.now, time));
    }
    if context.shared.monitors.are_any() && !command.has(ADMIN) {
        tell_monitors(context, command, args);
    }
}

/// Adds a command to the events of `LATENCY`. `now`: milliseconds since 1970.
#[cold]
pub(crate) fn note_spike(shared: &Shared, command: &Command, (now, time): (u64, Duration)) {
    let event = if command.has(FAST) { "fast-command" } else { "command" };
    shared.spikes.add(event, Spike { at: now / 1000, millis: time.as_millis() as u64 });
}

/// Adds a command to the slow log. `now`: milliseconds since 1970.
#[cold]
pub(crate) fn log_slow<'a>(
    shared: &Shared,
    session: &Session,
    args: impl ExactSizeIterator<Item = Cow<'a, [u8]>>,
    (now, time): (u64, Duration),
) {
    let client = (&*session.address, &*session.name);
    let max_len = shared.settings.slow_log_len.load(Relaxed);
    shared.slow_log.add(args, client, (now / 1000, time), max_len);
}
