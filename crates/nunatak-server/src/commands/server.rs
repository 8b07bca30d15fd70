//! Commands about the server.

use super::context::{Context, Done, Fail, SYNTAX, fail};
use super::table::{self, COMMANDS, Command, Entry};
use super::{categories, docs};
use crate::protocol::glob;
use crate::protocol::request::Args;
use crate::shared::SaveError;
use crate::store::record::Record;
use crate::store::root::Root;

pub(super) fn info(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let text = crate::info::text(context.shared, context.now, args);
    context.reply.verbatim(&text);
    Ok(())
}

pub(super) fn config(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let settings = &context.shared.settings;
    if args.is(1, "GET") && args.len() >= 3 {
        let is_asked = |name: &str| {
            args.from(2)
                .any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
        };
        let target = context.shared.replica.plan().target;
        let target = target.map_or(String::new(), |it| format!("{} {}", it.host, it.port));
        let all = settings.all().into_iter().chain([("replicaof", target)]);
        let found: Vec<(&str, String)> = all.filter(|(name, _)| is_asked(name)).collect();
        context.reply.map(found.len());
        for (name, value) in found {
            context.reply.text(name);
            context.reply.text(&value);
        }
    } else if args.is(1, "SET") && args.len() >= 4 && args.len().is_multiple_of(2) {
        for at in (2..args.len()).step_by(2) {
            let name = String::from_utf8_lossy(args.at(at)).to_ascii_lowercase();
            let value = String::from_utf8_lossy(args.at(at + 1)).into_owned();
            settings.set(&name, &value).map_err(Fail::new)?;
            if name == "requirepass" {
                context.shared.acl.set_default_password(&value);
            }
            if name.starts_with("replica-") || name.starts_with("slave-") {
                context.shared.replica.fit(settings);
            }
            if name == "acl-pubsub-default" {
                context.shared.acl.open_channels(settings.opens_channels());
            }
            if name.starts_with("maxmemory") {
                context.shared.fit_ages();
            }
        }
        context.reply.ok();
    } else if args.is(1, "REWRITE") && args.len() == 2 {
        // Nor is a file that `--config` names ever written.
        return fail!("ERR The server is running without a config file");
    } else if args.is(1, "RESETSTAT") && args.len() == 2 {
        context.shared.counters.reset();
        context.shared.stats.reset();
        context.reply.ok();
    } else {
        return Err(super::unknown_subcommand(args));
    }
    Ok(())
}

fn describe(context: &mut Context<'_>, command: Option<&'static Command>) {
    let reply = &mut context.reply;
    let Some(command) = command else {
        reply.null_array();
        return;
    };
    reply.array(10);
    reply.text(command.name);
    reply.integer(i64::from(command.arity));
    reply.set(command.flag_names().count());
    command.flag_names().for_each(|name| reply.simple(name));
    let (first, last, step) = command.told_places();
    [first, last, step].into_iter().for_each(|place| reply.integer(i64::from(place)));
    let entry = Entry { slot: command.slot, command, subcommand: None };
    let categories = categories::names(categories::of(&entry));
    reply.set(categories.clone().count());
    categories.for_each(|name| reply.simple(&format!("@{name}")));
    // Hints, key specifications, subcommands.
    (0..3).for_each(|_| reply.array(0));
}

pub(super) fn command(context: &mut Context<'_>, args: Args<'_>) -> Done {
    if args.len() == 1 {
        context.reply.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| describe(context, Some(command)));
    } else if args.is(1, "COUNT") && args.len() == 2 {
        context.reply.count(COMMANDS.len());
    } else if args.is(1, "INFO") {
        context.reply.array(args.len() - 2);
        args.from(2).for_each(|name| describe(context, table::find(name)));
    } else if args.is(1, "DOCS") {
        docs::tell(args.from(2), &mut context.reply);
    } else if args.is(1, "GETKEYS") && args.len() >= 3 {
        let bytes: Vec<Vec<u8>> = args.from(2).map(<[u8]>::to_vec).collect();
        let Some(command) = table::find(&bytes[0]) else {
            return fail!("ERR Invalid command specified");
        };
        if !command.accepts(bytes.len()) {
            return fail!("ERR Invalid number of arguments specified for command");
        }
        if !command.is_about_keys() {
            return fail!("ERR The command has no key arguments");
        }
        let joined = bytes.concat();
        let mut start = 0;
        let spans: Vec<_> = bytes
            .iter()
            .map(|arg| {
                let span = crate::protocol::request::Span { start, end: start + arg.len() as u32 };
                start = span.end;
                span
            })
            .collect();
        let keys: Vec<&[u8]> = command.keys(Args::new(&joined, &spans)).collect();
        context.reply.array(keys.len());
        keys.iter().for_each(|key| context.reply.bulk(key));
    } else {
        return Err(super::unknown_subcommand(args));
    }
    Ok(())
}

/// The bytes of a map's slot for a key, at a usual load.
const SLOT: usize = 24;
/// The bytes of the lengths of a key and a record; half of it in RAM.
const LENGTHS: usize = 8;

pub(super) fn memory(context: &mut Context<'_>, args: Args<'_>) -> Done {
    if !args.is(1, "USAGE") || args.len() < 3 {
        return Err(super::unknown_subcommand(args));
    }
    let key = args.at(2);
    super::cluster::check_names(context, std::iter::once(key))?;
    let space = context.whole_space()?;
    let of =
        |key: &[u8], record: &[u8]| (record.len() + key.len() + LENGTHS).next_multiple_of(8) + SLOT;
    let found = space.get(key, |record| {
        let record = record.filter(|record| !Record::is_hidden(record))?;
        Some((of(key, record), Record::root_of(record)))
    });
    let bytes = found.map(|(bytes, root)| {
        let segments = root.iter().flat_map(Root::keys);
        bytes
            + segments
                .map(|key| space.get(&key, |it| it.map_or(0, |it| of(&key, it))))
                .sum::<usize>()
    });
    match bytes {
        Some(bytes) => context.reply.count(bytes),
        None => context.reply.null(),
    }
    Ok(())
}

pub(super) fn time(context: &mut Context<'_>, _: Args<'_>) -> Done {
    let now = crate::shared::now();
    context.reply.array(2);
    context.reply.text(&now.as_secs().to_string());
    context.reply.text(&now.subsec_micros().to_string());
    Ok(())
}

fn save_failed(error: SaveError) -> Fail {
    Fail::new(format!("ERR {error}"))
}

/// Makes all changes durable.
pub(super) fn save(context: &mut Context<'_>, _: Args<'_>) -> Done {
    context.shared.save().map_err(save_failed)?;
    context.reply.ok();
    Ok(())
}

/// Copies the file, while it is used.
pub(super) fn bgsave(context: &mut Context<'_>, args: Args<'_>) -> Done {
    if args.len() > 2 || args.len() == 2 && !args.is(1, "SCHEDULE") {
        return Err(SYNTAX);
    }
    context.shared.begin_backup().map_err(save_failed)?;
    context.reply.simple("Background saving started");
    Ok(())
}

pub(super) fn lastsave(context: &mut Context<'_>, _: Args<'_>) -> Done {
    let time = context.shared.last_save();
    context.reply.integer(time as i64);
    Ok(())
}

pub(super) fn shutdown(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let is_option = |at| ["NOSAVE", "SAVE", "NOW", "FORCE"].iter().any(|word| args.is(at, word));
    if !(1..args.len()).all(is_option) {
        return Err(SYNTAX);
    }
    context.session.is_closing = true;
    context.shared.stop();
    Ok(())
}
