//! Commands about the connection.

use super::context::{Context, Done, Fail, NOT_INTEGER, SYNTAX, fail};
use super::pubsub::forget_subscriptions;
use super::transactions::forget_watches;
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

/// Checks a password; the time it takes does not depend on where it differs.
fn is_password(context: &Context<'_>, user: &[u8], given: &[u8]) -> bool {
    let password = context.shared.settings.password();
    let is_same = password.len() == given.len()
        && password.bytes().zip(given).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0;
    user == b"default" && (is_same || password.is_empty())
}

const WRONG_PASSWORD: Fail = Fail(std::borrow::Cow::Borrowed(
    "WRONGPASS invalid username-password pair or user is disabled.",
));

pub(super) fn auth(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let (user, password) = match args.len() {
        2 if context.shared.settings.password().is_empty() => {
            return fail!(
                "ERR AUTH <password> called without any password configured for the default \
                 user. Are you sure your configuration is correct?"
            );
        }
        2 => (&b"default"[..], args.at(1)),
        3 => (args.at(1), args.at(2)),
        _ => return Err(SYNTAX),
    };
    if !is_password(context, user, password) {
        return Err(WRONG_PASSWORD);
    }
    context.session.is_authenticated = true;
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
    let (mut at, mut name, mut is_authenticated) = (2, None, context.session.is_authenticated);
    while at < args.len() {
        if args.is(at, "AUTH") && at + 2 < args.len() {
            if !is_password(context, args.at(at + 1), args.at(at + 2)) {
                return Err(WRONG_PASSWORD);
            }
            is_authenticated = true;
            at += 3;
        } else if args.is(at, "SETNAME") && at + 1 < args.len() {
            name = Some(valid_name(args.at(at + 1))?);
            at += 2;
        } else {
            let option = String::from_utf8_lossy(args.at(at)).into_owned();
            return Err(Fail::new(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if !is_authenticated {
        return fail!(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time"
        );
    }
    let session = &mut *context.session;
    session.is_authenticated = true;
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
    for (name, value) in [("mode", mode), ("role", "master")] {
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
    session.is_authenticated = shared.settings.password().is_empty();
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
