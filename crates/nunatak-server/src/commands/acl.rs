//! `ACL`: users and their permissions.

use super::categories;
use super::context::{Context, Done, Fail, NOT_INTEGER, fail};
use super::table::{self, Command};
use crate::acl::log::{Entry, Reason};
use crate::acl::selector::{Denied, Description, Selector};
use crate::acl::user::{User, hexadecimal};
use crate::acl::{ChangeError, DEFAULT};
use crate::protocol::numbers::parse_i64;
use crate::protocol::request::{Args, Span};
use ring::rand::{SecureRandom, SystemRandom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const HELP: [&str; 29] = [
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
    "HELP",
    "    Prints this help.",
];

/// The most bits of `GENPASS`.
const MOST_BITS: i64 = 4096;
/// How many entries `LOG` returns if no number is given.
const USUAL: usize = 10;

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// Returns the name of a command, with that of its subcommand.
fn full_name(command: &Command, args: Args<'_>) -> String {
    let is_it = |name: &&&str| args.is(1, name);
    match command.subcommands().iter().find(is_it) {
        Some(subcommand) => format!("{}|{subcommand}", command.name),
        None => command.name.to_owned(),
    }
}

/// Adds something that was denied to the log.
#[cold]
pub(super) fn note_denied(context: &Context<'_>, reason: Reason, object: &[u8], user: &[u8]) {
    context.session.publish();
    let client = context.session.client.describe(context.now / 1000);
    let entry = Entry {
        count: 1,
        reason,
        is_in_transaction: context.session.multi.is_some() || context.exec.is_some(),
        object: object.to_vec(),
        user: user.to_vec(),
        client: client.trim_end().to_owned(),
        time: crate::shared::now().as_millis() as u64,
    };
    context.shared.acl.log.add(entry, context.shared.settings.acl_log_len.load(Relaxed));
}

/// Checks that the user may run a command. What is denied goes to the log.
#[cold]
pub(super) fn check(
    context: &Context<'_>,
    command: &Command,
    args: Args<'_>,
) -> Result<(), Denied> {
    let user = &context.session.user;
    user.check(command, args).inspect_err(|&denied| {
        let object = match denied {
            Denied::Command => full_name(command, args).into_bytes(),
            Denied::Key(at) | Denied::Channel(at) => args.at(at).to_vec(),
        };
        note_denied(context, denied.into(), &object, &user.name);
    })
}

/// Returns the failure of a command that the user may not run.
#[cold]
pub(super) fn denied(command: &Command, args: Args<'_>, denied: Denied) -> Fail {
    match denied {
        Denied::Command => Fail::new(format!(
            "NOPERM this user has no permissions to run the '{}' command",
            full_name(command, args)
        )),
        Denied::Key(_) => Fail::new(
            "NOPERM this user has no permissions to access one of the keys used as arguments",
        ),
        Denied::Channel(_) => Fail::new(
            "NOPERM this user has no permissions to access one of the channels used as arguments",
        ),
    }
}

/// Checks a command of a transaction, which was allowed when it was queued.
#[inline(always)]
pub(super) fn check_again(context: &mut Context<'_>, command: &Command, args: Args<'_>) -> Done {
    if !context.session.fit_user(&context.shared.acl) {
        // After the transaction. It ends with the permissions with which it began.
        context.session.is_closing = true;
    }
    if context.session.user.is_unlimited {
        return Ok(());
    }
    check(context, command, args).map_err(|denied| {
        let why = match denied {
            Denied::Command => "no permission to execute the command or subcommand",
            Denied::Key(_) => "no permission to touch the specified keys",
            Denied::Channel(_) => {
                "no permission to access one of the channels used as arguments"
            }
        };
        Fail::new(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
             call. This command is no longer allowed for the following reason: {why}"
        ))
    })
}

/// Has the connections of users looked at by their threads: those of users that are gone end, and those of
/// subscribers that may not get their channels any more.
fn wake_clients(context: &Context<'_>, is_one: impl Fn(&[u8]) -> bool) {
    let clients = context.shared.registry.all();
    clients.iter().filter(|it| is_one(&it.user.lock())).for_each(|client| client.wake());
}

fn set_user(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let name = args.at(2);
    if name.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 11)) {
        return fail!("ERR Usernames can't contain spaces or null characters");
    }
    context.shared.acl.set_user(name, args.from(3)).map_err(|error| match error {
        ChangeError::Unmatched(begin) => Fail::new(format!(
            "ERR Unmatched parenthesis in acl selector starting at '{}'.",
            shown(&begin)
        )),
        ChangeError::Rule(rule, error) => {
            Fail::new(format!("ERR Error in ACL SETUSER modifier '{}': {error}", shown(&rule)))
        }
    })?;
    wake_clients(context, |user| user == name);
    context.reply.ok();
    Ok(())
}

fn delete_users(context: &mut Context<'_>, args: Args<'_>) -> Done {
    if args.from(2).any(|name| name == DEFAULT) {
        return fail!("ERR The 'default' user cannot be removed");
    }
    let removed = context.shared.acl.remove(args.from(2));
    wake_clients(context, |user| args.from(2).any(|name| name == user));
    context.reply.count(removed);
    Ok(())
}

fn write_selector(context: &mut Context<'_>, selector: &Selector) {
    let Description { commands, keys, channels } = selector.describe();
    for (name, value) in [("commands", commands), ("keys", keys), ("channels", channels)] {
        context.reply.text(name);
        context.reply.bulk(&value);
    }
}

fn get_user(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let Some(user) = context.shared.acl.find(args.at(2)) else {
        context.reply.null();
        return Ok(());
    };
    let (flags, passwords) = (user.flags(), user.passwords());
    context.reply.map(6);
    context.reply.text("flags");
    context.reply.set(flags.len());
    flags.iter().for_each(|flag| context.reply.text(flag));
    context.reply.text("passwords");
    context.reply.array(passwords.len());
    passwords.iter().for_each(|hash| context.reply.text(hash));
    let [own, others @ ..] = user.selectors() else { return Ok(()) };
    write_selector(context, own);
    context.reply.text("selectors");
    context.reply.array(others.len());
    for selector in others {
        context.reply.map(3);
        write_selector(context, selector);
    }
    Ok(())
}

fn list(context: &mut Context<'_>, text: impl Fn(&User) -> Vec<u8>) {
    let users = context.shared.acl.all();
    context.reply.array(users.len());
    users.iter().for_each(|user| context.reply.bulk(&text(user)));
}

fn categories(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let names: Vec<String> = match args.len() {
        2 => categories::NAMES.map(str::to_owned).to_vec(),
        _ => {
            let Some(category) = categories::find(args.at(2)) else {
                return Err(Fail::new(format!("ERR Unknown category '{}'", shown(args.at(2)))));
            };
            let entries = table::all_entries();
            let chosen = entries.filter(|entry| categories::of(entry) & category != 0);
            chosen.map(|entry| entry.name()).collect()
        }
    };
    context.reply.array(names.len());
    names.iter().for_each(|name| context.reply.text(name));
    Ok(())
}

fn generate_password(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let bits = match args.len() {
        2 => 256,
        _ => parse_i64(args.at(2)).ok_or(NOT_INTEGER)?,
    };
    if !(1..=MOST_BITS).contains(&bits) {
        return fail!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive \
             number up to 4096"
        );
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Fail::new("ERR the system has no random bytes"))?;
    context.reply.text(&hexadecimal(&bytes)[..digits]);
    Ok(())
}

fn log(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let log = &context.shared.acl.log;
    if args.len() == 3 && args.is(2, "RESET") {
        log.reset();
        context.reply.ok();
        return Ok(());
    }
    let count = match args.len() {
        2 => USUAL,
        _ => parse_i64(args.at(2)).ok_or(NOT_INTEGER)?.max(0) as usize,
    };
    let (entries, now) = (log.newest(count), crate::shared::now().as_millis() as u64);
    let reply = &mut context.reply;
    reply.array(entries.len());
    for entry in entries {
        reply.map(7);
        reply.text("count");
        reply.integer(entry.count);
        let place = if entry.is_in_transaction { "multi" } else { "toplevel" };
        for (name, value) in [
            ("reason", entry.reason.name().as_bytes()),
            ("context", place.as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            reply.text(name);
            reply.bulk(value);
        }
        reply.text("age-seconds");
        reply.double(now.saturating_sub(entry.time) as f64 / 1000.0);
        reply.text("client-info");
        reply.text(&entry.client);
    }
    Ok(())
}

fn dry_run(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let Some(user) = context.shared.acl.find(args.at(2)) else {
        return Err(Fail::new(format!("ERR User '{}' not found", shown(args.at(2)))));
    };
    let name = shown(args.at(3));
    let (bytes, mut spans) = args.to_owned();
    let spans: Vec<Span> = spans.drain(3..).collect();
    let args = Args::new(&bytes, &spans);
    let Some(command) = table::find(args.at(0)).filter(|it| !it.lacks_subcommand(args)) else {
        return Err(Fail::new(format!("ERR Command '{name}' not found")));
    };
    if !command.accepts(args.len()) {
        let name = full_name(command, args);
        return Err(Fail::new(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let access = |at, what| {
        format!("This user has no permissions to access the '{}' {what}", shown(args.at(at)))
    };
    match user.check(command, args) {
        Ok(()) => context.reply.ok(),
        Err(Denied::Command) => context.reply.text(&format!(
            "This user has no permissions to run the '{}' command",
            full_name(command, args)
        )),
        Err(Denied::Key(at)) => context.reply.text(&access(at, "key")),
        Err(Denied::Channel(at)) => context.reply.text(&access(at, "channel")),
    }
    Ok(())
}

fn file<'c>(context: &Context<'c>) -> Result<&'c Path, Fail> {
    match context.shared.acl.file() {
        Some(path) => Ok(path),
        None => fail!(
            "ERR This Redis instance is not configured to use an ACL file. You may want to specify users \
             via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis \
             configuration file set) in order to store users in the Redis configuration."
        ),
    }
}

fn save(context: &mut Context<'_>) -> Done {
    let path = file(context)?;
    if let Err(error) = context.shared.acl.save(path) {
        tell!("the users are not saved: {}: {error}", path.display());
        return fail!(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more \
             information"
        );
    }
    context.reply.ok();
    Ok(())
}

fn load(context: &mut Context<'_>) -> Done {
    let path = file(context)?;
    let password = context.shared.settings.password();
    context.shared.acl.load(path, &password).map_err(|errors| {
        Fail::new(format!(
            "ERR {errors}. WARNING: ACL errors detected, no change to the previously active ACL rules \
             was performed"
        ))
    })?;
    wake_clients(context, |_| true);
    context.reply.ok();
    Ok(())
}

pub(super) fn acl(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let is = |name| args.is(1, name);
    let is_right = match args.len() {
        2 => !["SETUSER", "GETUSER", "DELUSER", "DRYRUN"].into_iter().any(is),
        3 => !["LIST", "USERS", "WHOAMI", "SAVE", "LOAD", "HELP", "DRYRUN"].into_iter().any(is),
        _ => ["SETUSER", "DELUSER", "DRYRUN"].into_iter().any(is),
    };
    if !is_right {
        let name = shown(args.at(1));
        return Err(Fail::new(match ["CAT", "GENPASS", "LOG"].into_iter().any(is) {
            true => format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try ACL HELP."
            ),
            false => format!(
                "ERR wrong number of arguments for 'acl|{}' command",
                name.to_ascii_lowercase()
            ),
        }));
    }
    if is("SETUSER") {
        return set_user(context, args);
    } else if is("GETUSER") {
        return get_user(context, args);
    } else if is("DELUSER") {
        return delete_users(context, args);
    } else if is("LIST") {
        list(context, User::line);
    } else if is("USERS") {
        list(context, |user| user.name.to_vec());
    } else if is("WHOAMI") {
        let name = Arc::clone(&context.session.user.name);
        context.reply.bulk(&name);
    } else if is("CAT") {
        return categories(context, args);
    } else if is("GENPASS") {
        return generate_password(context, args);
    } else if is("LOG") {
        return log(context, args);
    } else if is("DRYRUN") {
        return dry_run(context, args);
    } else if is("SAVE") {
        return save(context);
    } else if is("LOAD") {
        return load(context);
    } else if is("HELP") {
        context.reply.help(&HELP);
    } else {
        return Err(super::unknown_subcommand(args));
    }
    Ok(())
}
