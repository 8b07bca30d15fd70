//! `LATENCY`: how long the calls of each command took. Events are not monitored.

use super::context::{Context, Done, Fail};
use super::table::{self, COMMANDS, Command};
use crate::histogram::Histogram;
use crate::protocol::request::Args;

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

const DIAGNOSIS: &str = "Nothing to report: this server does not monitor latency events \
    (latency-monitor-threshold is 0). LATENCY HISTOGRAM and INFO latencystats tell how long the calls of \
    each command took, SLOWLOG GET which commands were slow.\n";

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
    let reply = &mut context.reply;
    if args.is(1, "HISTOGRAM") {
        histogram(context, args);
    } else if args.is(1, "LATEST") || args.is(1, "HISTORY") {
        reply.array(0);
    } else if args.is(1, "RESET") {
        reply.integer(0);
    } else if args.is(1, "GRAPH") {
        let event = String::from_utf8_lossy(args.at(2));
        return Err(Fail::new(format!("ERR No samples available for event '{event}'")));
    } else if args.is(1, "DOCTOR") {
        reply.verbatim(DIAGNOSIS);
    } else if args.is(1, "HELP") {
        reply.help(&HELP);
    } else {
        return Err(super::unknown_subcommand(args));
    }
    Ok(())
}
