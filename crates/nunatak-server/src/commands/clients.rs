//! `CLIENT`: the connection itself, and all others.

use super::connection::valid_name;
use super::context::{Context, Done, Fail, SYNTAX, fail};
use crate::acl::Acl;
use crate::clients::{Client, ClientKind};
use crate::protocol::numbers::parse_i64;
use crate::protocol::request::Args;
use crate::session::Mute;
use std::sync::Arc;

const HELP: [&str; 25] = [
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETNAME",
    "    Return the name of the current connection.",
    "GETREDIR",
    "    Return the client ID we are redirecting to when tracking is enabled.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are: ADDR, LADDR, TYPE, USER, SKIPME, ID.",
    "LIST [options ...]",
    "    Return information about client connections. Options: TYPE, ID.",
    "NO-EVICT (ON|OFF)",
    "    Protect current client connection from eviction.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client: none is.",
    "HELP",
    "    Print this help.",
];

fn parse_kind(text: &[u8]) -> Result<Option<ClientKind>, Fail> {
    let kinds = [
        ("normal", Some(ClientKind::Normal)),
        ("pubsub", Some(ClientKind::Pubsub)),
        // Of which there are none.
        ("master", None),
        ("replica", None),
        ("slave", None),
    ];
    let found = kinds.iter().find(|(name, _)| text.eq_ignore_ascii_case(name.as_bytes()));
    found.map(|(_, kind)| *kind).ok_or_else(|| {
        Fail::new(format!("ERR Unknown client type '{}'", String::from_utf8_lossy(text)))
    })
}

fn list(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let all = context.shared.registry.all();
    let chosen: Vec<Arc<Client>> = if args.len() == 2 {
        all
    } else if args.is(2, "TYPE") && args.len() == 4 {
        let kind = parse_kind(args.at(3))?;
        all.into_iter().filter(|client| Some(client.kind()) == kind).collect()
    } else if args.is(2, "ID") && args.len() > 3 {
        let ids: Option<Vec<i64>> = args.from(3).map(parse_i64).collect();
        let Some(ids) = ids else { return fail!("ERR Invalid client ID") };
        all.into_iter().filter(|client| ids.contains(&(client.id as i64))).collect()
    } else {
        return Err(SYNTAX);
    };
    let seconds = context.now / 1000;
    let text: String = chosen.iter().map(|client| client.describe(seconds)).collect();
    context.reply.verbatim(&text);
    Ok(())
}

/// Which connections are closed.
#[derive(Default)]
struct Kill<'a> {
    id: Option<i64>,
    address: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    kind: Option<Option<ClientKind>>,
    user: Option<&'a [u8]>,
    spares_me: bool,
}

impl<'a> Kill<'a> {
    fn parse(acl: &Acl, args: Args<'a>) -> Result<Self, Fail> {
        let mut this = Self { spares_me: true, ..Self::default() };
        if !args.len().is_multiple_of(2) {
            return Err(SYNTAX);
        }
        for at in (2..args.len()).step_by(2) {
            let value = args.at(at + 1);
            if args.is(at, "ID") {
                this.id = parse_i64(value).filter(|&id| id > 0);
                if this.id.is_none() {
                    return fail!("ERR client-id should be greater than 0");
                }
            } else if args.is(at, "ADDR") {
                this.address = Some(value);
            } else if args.is(at, "LADDR") {
                this.local = Some(value);
            } else if args.is(at, "TYPE") {
                this.kind = Some(parse_kind(value)?);
            } else if args.is(at, "USER") {
                if acl.find(value).is_none() {
                    let user = String::from_utf8_lossy(value);
                    return Err(Fail::new(format!("ERR No such user '{user}'")));
                }
                this.user = Some(value);
            } else if args.is(at, "SKIPME") && (args.is(at + 1, "yes") || args.is(at + 1, "no")) {
                this.spares_me = args.is(at + 1, "yes");
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(this)
    }

    fn is_about(&self, client: &Client) -> bool {
        self.id.is_none_or(|id| id == client.id as i64)
            && self.address.is_none_or(|address| address == client.address.as_bytes())
            && self.user.is_none_or(|user| user == &**client.user.lock())
            && self.local.is_none_or(|local| local == client.local.as_bytes())
            && self.kind.is_none_or(|kind| kind == Some(client.kind()))
    }
}

fn kill(context: &mut Context<'_>, args: Args<'_>) -> Done {
    // An address alone: one connection, which may be this one.
    let is_old = args.len() == 3;
    let which = match is_old {
        true => Kill { address: Some(args.at(2)), ..Kill::default() },
        false => Kill::parse(&context.shared.acl, args)?,
    };
    let mut count = 0;
    for client in context.shared.registry.all().iter().filter(|client| which.is_about(client)) {
        if client.id != context.session.id {
            client.kill();
        } else if which.spares_me {
            continue;
        } else {
            // After the reply.
            context.session.is_closing = true;
        }
        count += 1;
    }
    match (is_old, count) {
        (false, count) => context.reply.integer(count),
        (true, 0) => return fail!("ERR No such client"),
        (true, _) => context.reply.ok(),
    }
    Ok(())
}

fn reply(context: &mut Context<'_>, args: Args<'_>) -> Done {
    if args.is(2, "ON") {
        context.session.mute = None;
        context.reply.ok();
    } else if args.is(2, "OFF") {
        context.session.mute = Some(Mute::Off);
    } else if args.is(2, "SKIP") {
        // Replies that are off stay off.
        context.session.mute.get_or_insert(Mute::Next);
    } else {
        return Err(SYNTAX);
    }
    Ok(())
}

pub(super) fn client(context: &mut Context<'_>, args: Args<'_>) -> Done {
    // What the connection is at this moment.
    context.session.publish();
    let is = |name, len| args.is(1, name) && args.len() == len;
    if is("ID", 2) {
        context.reply.integer(context.session.id as i64);
    } else if is("GETNAME", 2) {
        let name = Some(context.session.name.as_bytes()).filter(|name| !name.is_empty());
        context.reply.bulk_or_null(name);
    } else if is("SETNAME", 3) {
        context.session.set_name(valid_name(args.at(2))?);
        context.reply.ok();
    } else if is("INFO", 2) {
        let text = context.session.client.describe(context.now / 1000);
        context.reply.verbatim(&text);
    } else if args.is(1, "LIST") {
        return list(context, args);
    } else if args.is(1, "KILL") && args.len() > 2 {
        return kill(context, args);
    } else if is("REPLY", 3) {
        return reply(context, args);
    } else if is("GETREDIR", 2) {
        context.reply.integer(-1);
    } else if args.is(1, "UNBLOCK") && (3..=4).contains(&args.len()) {
        // No command blocks.
        context.reply.integer(0);
    } else if is("NO-EVICT", 3) {
        context.reply.ok();
    } else if is("HELP", 2) {
        context.reply.help(&HELP);
    } else {
        return Err(super::unknown_subcommand(args));
    }
    Ok(())
}
