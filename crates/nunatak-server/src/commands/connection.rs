//! Commands about the connection.

use super::context::{Context, Done, Fail, NOT_INTEGER, SYNTAX, fail};
use super::pubsub::forget_subscriptions;
use super::transactions::forget_watches;
use crate::acl::DEFAULT;
use crate::acl::log::Reason;
use crate::protocol::numbers::parse_i64;
use crate::protocol::request::Args;

pub(super) fn ping(context: &mut Context<'_>, args: Args<'_>) -> Done {
    match args.len() {
        1 | 2 if context.session.is_in_pubsub() => {
            context.reply.array(2);
            context.reply.text("pong");
            context.reply.bulk(args.at(1));
        }
        1 => context.reply.simple("PONG"),
        2 => context.reply.bulk(args.at(1)),
        _ => return fail!("ERR wrong number of arguments for 'ping' command"),
    }
    Ok(())
}

pub(super) fn echo(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.reply.bulk(args.at(1));
    Ok(())
}

pub(super) fn select(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let db = parse_i64(args.at(1)).ok_or(NOT_INTEGER)?;
    if context.shared.cluster.is_some() && db != 0 {
        return fail!("ERR SELECT is not allowed in cluster mode");
    }
    match usize::try_from(db) {
        Ok(db) if db < context.shared.store.spaces().len() => context.session.db = db,
        _ => return fail!("ERR DB index is out of range"),
    }
    context.reply.ok();
    Ok(())
}

/// Makes the client a user, if the password is right.
fn authenticate(context: &mut Context<'_>, args: Args<'_>, name: &[u8], password: &[u8]) -> Done {
    match context.shared.acl.find(name).filter(|user| user.accepts(password)) {
        Some(user) => {
            context.session.set_user(user, true);
            Ok(())
        }
        None => {
            super::acl::note_denied(context, Reason::Auth, args.at(0), name);
            Err(WRONG_PASSWORD)
        }
    }
}

const WRONG_PASSWORD: Fail = Fail(std::borrow::Cow::Borrowed(
    "WRONGPASS invalid username-password pair or user is disabled.",
));

pub(super) fn auth(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let (user, password) = match args.len() {
        2 if context.shared.acl.default_user().needs_no_password() => {
            return fail!(
                "ERR AUTH <password> called without any password configured for the default \
                 user. Are you sure your configuration is correct?"
            );
        }
        2 => (DEFAULT, args.at(1)),
        3 => (args.at(1), args.at(2)),
        _ => return Err(SYNTAX),
    };
    authenticate(context, args, user, password)?;
    context.reply.ok();
    Ok(())
}

pub(super) fn hello(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let version = match args.len() {
        1 => None,
        _ => match parse_i64(args.at(1)) {
            None => {
                return fail!("ERR Protocol version is not an integer or out of range");
            }
            Some(version @ 2..=3) => Some(version),
            Some(_) => return fail!("NOPROTO unsupported protocol version"),
        },
    };
    let (mut at, mut name, mut credentials) = (2, None, None);
    while at < args.len() {
        if args.is(at, "AUTH") && at + 2 < args.len() {
            credentials = Some((args.at(at + 1), args.at(at + 2)));
            at += 3;
        } else if args.is(at, "SETNAME") && at + 1 < args.len() {
            name = Some(valid_name(args.at(at + 1))?);
            at += 2;
        } else {
            let option = String::from_utf8_lossy(args.at(at)).into_owned();
            return Err(Fail::new(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if let Some((user, password)) = credentials {
        authenticate(context, args, user, password)?;
    }
    if !context.session.is_authenticated {
        return fail!(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time"
        );
    }
    let session = &mut *context.session;
    if let Some(name) = name {
        session.set_name(name);
    }
    session.is_resp3 = version.map_or(session.is_resp3, |version| version == 3);
    let (is_resp3, id) = (session.is_resp3, session.id);
    let reply = &mut context.reply;
    reply.is_resp3 = is_resp3;
    reply.map(7);
    for (name, value) in [("server", "redis"), ("version", crate::REDIS_VERSION)] {
        reply.text(name);
        reply.text(value);
    }
    for (name, value) in [("proto", if is_resp3 { 3 } else { 2 }), ("id", id as i64)] {
        reply.text(name);
        reply.integer(value);
    }
    let mode = if context.shared.cluster.is_some() { "cluster" } else { "standalone" };
    let role = if context.shared.replica.follows() { "replica" } else { "master" };
    for (name, value) in [("mode", mode), ("role", role)] {
        reply.text(name);
        reply.text(value);
    }
    reply.text("modules");
    reply.array(0);
    Ok(())
}

pub(super) fn quit(context: &mut Context<'_>, _: Args<'_>) -> Done {
    context.session.is_closing = true;
    context.reply.ok();
    Ok(())
}

pub(super) fn reset(context: &mut Context<'_>, _: Args<'_>) -> Done {
    let shared = context.shared;
    let session = &mut *context.session;
    session.multi = None;
    forget_watches(session, &shared.store);
    forget_subscriptions(session, shared);
    session.db = 0;
    session.set_name(String::new());
    session.mute = None;
    session.is_resp3 = false;
    let user = shared.acl.default_user();
    let is_open = user.is_open();
    session.set_user(user, is_open);
    context.reply.is_resp3 = false;
    context.reply.simple("RESET");
    Ok(())
}

pub(super) fn valid_name(name: &[u8]) -> Result<String, Fail> {
    match name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        true => Ok(String::from_utf8_lossy(name).into_owned()),
        false => fail!("ERR Client names cannot contain spaces, newlines or special characters."),
    }
}
