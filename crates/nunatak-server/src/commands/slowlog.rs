//! `SLOWLOG`.

use super::context::{Context, Done, Fail, fail};
use crate::protocol::numbers::parse_i64;
use crate::protocol::request::Args;

const HELP: [&str; 12] = [
    "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
    "HELP",
    "    Prints this help.",
];

/// How many entries `SLOWLOG GET` returns if no number is given.
const USUAL: usize = 10;

fn get(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let count = match (args.len(), parse_i64(args.at(2))) {
        (2, _) => USUAL,
        (3, Some(-1)) => usize::MAX,
        (3, Some(count @ 0..)) => count as usize,
        (3, _) => return fail!("ERR count should be greater than or equal to -1"),
        _ => {
            let name = String::from_utf8_lossy(args.at(1)).into_owned();
            return Err(Fail::new(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try SLOWLOG HELP."
            )));
        }
    };
    let entries = context.shared.slow_log.newest(count);
    let reply = &mut context.reply;
    reply.array(entries.len());
    for entry in entries {
        reply.array(6);
        for number in [entry.id, entry.time, entry.micros] {
            reply.integer(number as i64);
        }
        reply.array(entry.args.len());
        entry.args.iter().for_each(|arg| reply.bulk(arg));
        reply.text(&entry.address);
        reply.text(&entry.name);
    }
    Ok(())
}

pub(super) fn slowlog(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let log = &context.shared.slow_log;
    if args.is(1, "GET") {
        return get(context, args);
    }
    if args.len() > 2 {
        let name = String::from_utf8_lossy(args.at(1)).to_ascii_lowercase();
        let text = format!("ERR wrong number of arguments for 'slowlog|{name}' command");
        return Err(Fail::new(text));
    }
    if args.is(1, "LEN") {
        context.reply.count(log.len());
    } else if args.is(1, "RESET") {
        log.reset();
        context.reply.ok();
    } else if args.is(1, "HELP") {
        context.reply.help(&HELP);
    } else {
        return Err(super::unknown_subcommand(args));
    }
    Ok(())
}
