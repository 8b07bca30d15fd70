//! `LATENCY`: how long the calls of each command took, and which took longer than a limit.

use super::context::{Context, Done, Fail};
use super::table::{self, COMMANDS, Command};
use crate::histogram::Histogram;
use crate::protocol::request::Args;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

const HELP: [&str; 17] = [
    "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR",
    "    Return a human readable latency analysis report.",
    "GRAPH <event>",
    "    Return an ASCII latency graph for the <event> class.",
    "HISTORY <event>",
    "    Return time-latency samples for the <event> class.",
    "LATEST",
    "    Return the latest latency samples for all events.",
    "RESET [<event> ...]",
    "    Reset latency data of one or more <event> classes.",
    "    (default: reset all data for all event classes)",
    "HISTOGRAM [COMMAND ...]",
    "    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
    "    If no commands are specified then all histograms are replied.",
    "HELP",
    "    Prints this help.",
];

const OFF: &str = "Nothing to report: latency events are not monitored. CONFIG SET latency-monitor-threshold sets \
    from how many milliseconds on a command is one. LATENCY HISTOGRAM and INFO latencystats tell how long the \
    calls of each command took, SLOWLOG GET which commands were slow.\n";

const NONE: &str =
    "Nothing to report: no command took latency-monitor-threshold milliseconds or longer.\n";

const ADVICE: &str = "\nSLOWLOG GET names the commands, if slowlog-log-slower-than is small enough. A set or a hash is copied \
    for each change: large ones are slow. With --durability always a change waits for the disk. If fast-command is \
    slow, other programs have the processor.\n";

/// Describes all events.
fn diagnosis(context: &Context<'_>) -> String {
    let events = context.shared.spikes.all();
    if events.is_empty() {
        let is_off = context.shared.settings.spike_limit.load(Relaxed) == 0;
        return if is_off { OFF } else { NONE }.into();
    }
    let mut text = String::from("Commands took long:\n\n");
    for (number, (event, series)) in (1..).zip(&events) {
        let count = series.spikes.len() as u64;
        let mean = series.spikes.iter().map(|spike| spike.millis).sum::<u64>() / count.max(1);
        let apart = series.spikes.iter().map(|spike| spike.millis.abs_diff(mean)).sum::<u64>();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{number}. {event}: {count} latency spikes (average {mean}ms, mean deviation {}ms). \
             Worst all time event {}ms.",
            apart / count.max(1),
            series.longest
        );
    }
    text + ADVICE
}

/// Writes the samples of an event.
fn history(context: &mut Context<'_>, event: &[u8]) {
    let spikes = context.shared.spikes.of(event).unwrap_or_default().spikes;
    context.reply.array(spikes.len());
    for spike in spikes {
        context.reply.array(2);
        context.reply.integer(spike.at as i64);
        context.reply.integer(spike.millis as i64);
    }
}

/// Writes the last sample of each event, and the longest time.
fn latest(context: &mut Context<'_>) {
    let events = context.shared.spikes.all();
    context.reply.array(events.len());
    for (event, series) in events {
        let last = series.spikes.back();
        context.reply.array(4);
        context.reply.text(event);
        context.reply.integer(last.map_or(0, |it| it.at) as i64);
        context.reply.integer(last.map_or(0, |it| it.millis) as i64);
        context.reply.integer(series.longest as i64);
    }
}

/// Returns the histograms of a command, and of its subcommands, with their names.
fn of_command(
    context: &Context<'_>,
    command: &Command,
) -> impl Iterator<Item = (String, Histogram)> {
    let stats = &context.shared.stats;
    let of_slot = |(slot, name)| stats.times(slot).map(|times| (name, times));
    (command.slot..).zip(command.slot_names()).filter_map(of_slot)
}

fn histogram(context: &mut Context<'_>, args: Args<'_>) {
    let mut found: Vec<(String, Histogram)> = Vec::new();
    if args.len() == 2 {
        COMMANDS.iter().for_each(|command| found.extend(of_command(context, command)));
    }
    for name in args.from(2) {
        let name = name.to_ascii_lowercase();
        let container = name.split(|&byte| byte == b'|').next().unwrap_or_default();
        let Some(command) = table::find(container) else { continue };
        let is_asked = |it: &(String, Histogram)| container == name || it.0.as_bytes() == name;
        found.extend(of_command(context, command).filter(is_asked));
    }
    let reply = &mut context.reply;
    reply.map(found.len());
    for (name, times) in found {
        reply.text(&name);
        reply.map(2);
        reply.text("calls");
        reply.integer(times.calls() as i64);
        reply.text("histogram_usec");
        let bounds = times.doubling();
        reply.map(bounds.len());
        for (micros, calls) in bounds {
            reply.integer(micros as i64);
            reply.integer(calls as i64);
        }
    }
}

pub(super) fn latency(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let counts = match args.at(1).to_ascii_lowercase().as_slice() {
        b"histogram" | b"reset" => 2..usize::MAX,
        b"history" | b"graph" => 3..4,
        _ => 2..3,
    };
    if !counts.contains(&args.len()) {
        let name = String::from_utf8_lossy(args.at(1)).to_ascii_lowercase();
        let text = format!("ERR wrong number of arguments for 'latency|{name}' command");
        return Err(Fail::new(text));
    }
    if args.is(1, "HISTOGRAM") {
        histogram(context, args);
    } else if args.is(1, "LATEST") {
        latest(context);
    } else if args.is(1, "HISTORY") {
        history(context, args.at(2));
    } else if args.is(1, "RESET") {
        let is_named = |event: &str| {
            args.len() == 2 || args.from(2).any(|name| name.eq_ignore_ascii_case(event.as_bytes()))
        };
        let count = context.shared.spikes.forget(is_named);
        context.reply.count(count);
    } else if args.is(1, "GRAPH") {
        let event = String::from_utf8_lossy(args.at(2));
        let Some(series) = context.shared.spikes.of(args.at(2)) else {
            return Err(Fail::new(format!("ERR No samples available for event '{event}'")));
        };
        context.reply.verbatim(&series.graph(&event, context.now / 1000));
    } else if args.is(1, "DOCTOR") {
        let text = diagnosis(context);
        context.reply.verbatim(&text);
    } else if args.is(1, "HELP") {
        context.reply.help(&HELP);
    } else {
        return Err(super::unknown_subcommand(args));
    }
    Ok(())
}
