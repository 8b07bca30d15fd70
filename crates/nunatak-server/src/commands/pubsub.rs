//! Publish and subscribe.

use super::context::{Context, Done, Fail, fail};
use crate::protocol::request::Args;
use crate::pubsub::Class;
use crate::pubsub::mailbox::Mailbox;
use crate::pubsub::subscriber::Subscriber;
use crate::session::Session;
use crate::shared::Shared;
use std::sync::Arc;

/// Ends all subscriptions of a connection, and `MONITOR`.
pub(crate) fn forget_subscriptions(session: &mut Session, shared: &Shared) {
    if let Some(mut subscriber) = session.subscriber.take() {
        subscriber.clear(&shared.subscriptions);
        if subscriber.is_monitor {
            shared.monitors.remove(session.id);
        }
    }
}

/// Writes the messages that wait for the connection in front of the reply: of that of `EXEC`, if the
/// command is one of a transaction.
pub(super) fn deliver(context: &mut Context<'_>) {
    let session = &mut *context.session;
    let Some(subscriber) = &mut session.subscriber else { return };
    let out = &mut *context.reply.out;
    let at = context.exec.unwrap_or(out.len());
    let reply = out.split_off(at);
    // If too many bytes have waited, the connection's thread sees it, too, and closes it.
    subscriber.deliver((out, 0), session.is_resp3, usize::MAX);
    out.extend_from_slice(&reply);
}

/// Replies to a subscription or its end. `name`: none if there was nothing to end.
fn confirm(context: &mut Context<'_>, kind: &str, class: Class, name: Option<&[u8]>) {
    let subscriber = context.session.subscriber.as_ref();
    let count = subscriber.map_or(0, |subscriber| subscriber.told_count(class));
    context.reply.push(3);
    context.reply.text(kind);
    context.reply.bulk_or_null(name);
    context.reply.count(count);
}

/// Returns the connection's side of subscriptions, which is made if there is none.
pub(super) fn subscriber(session: &mut Session) -> &mut Subscriber {
    let Session { subscriber, id, ready, token, .. } = session;
    subscriber.get_or_insert_with(|| {
        Box::new(Subscriber::new(*id, Mailbox::new(Arc::clone(ready), *token)))
    })
}

fn begin(context: &mut Context<'_>, args: Args<'_>, kind: &str, class: Class) -> Done {
    if class == Class::Shard {
        super::cluster::check_owned(context, args.from(1))?;
    }
    for name in args.from(1) {
        subscriber(context.session).add(&context.shared.subscriptions, class, name);
        confirm(context, kind, class, Some(name));
    }
    Ok(())
}

fn end(context: &mut Context<'_>, args: Args<'_>, kind: &str, class: Class) -> Done {
    let all = match (&context.session.subscriber, args.len()) {
        (Some(subscriber), 1) => subscriber.names(class),
        _ => Vec::new(),
    };
    let mut names: Vec<&[u8]> = args.from(1).collect();
    names.extend(all.iter().map(|name| &**name));
    for &name in &names {
        if let Some(subscriber) = &mut context.session.subscriber {
            subscriber.remove(&context.shared.subscriptions, class, name);
            // What was sent before is received before the reply that nothing is sent any more.
            deliver(context);
        }
        confirm(context, kind, class, Some(name));
    }
    if names.is_empty() {
        confirm(context, kind, class, None);
    }
    context.session.subscriber.take_if(|it| it.is_empty() && !it.is_monitor);
    Ok(())
}

pub(super) fn subscribe(context: &mut Context<'_>, args: Args<'_>) -> Done {
    begin(context, args, "subscribe", Class::Channel)
}

pub(super) fn unsubscribe(context: &mut Context<'_>, args: Args<'_>) -> Done {
    end(context, args, "unsubscribe", Class::Channel)
}

pub(super) fn psubscribe(context: &mut Context<'_>, args: Args<'_>) -> Done {
    begin(context, args, "psubscribe", Class::Pattern)
}

pub(super) fn punsubscribe(context: &mut Context<'_>, args: Args<'_>) -> Done {
    end(context, args, "punsubscribe", Class::Pattern)
}

pub(super) fn ssubscribe(context: &mut Context<'_>, args: Args<'_>) -> Done {
    if context.exec.is_some() {
        return fail!("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");
    }
    begin(context, args, "ssubscribe", Class::Shard)
}

pub(super) fn sunsubscribe(context: &mut Context<'_>, args: Args<'_>) -> Done {
    end(context, args, "sunsubscribe", Class::Shard)
}

fn send(context: &mut Context<'_>, args: Args<'_>, class: Class) -> Done {
    let (shared, now) = (context.shared, context.now);
    let limits = shared.settings.mailbox_limits();
    let message = (args.at(1), args.at(2));
    let count = shared.subscriptions.publish(class, message, (limits, now), context.wakes);
    // A message to the publisher itself comes before the reply.
    deliver(context);
    context.reply.count(count);
    Ok(())
}

pub(super) fn publish(context: &mut Context<'_>, args: Args<'_>) -> Done {
    send(context, args, Class::Channel)
}

pub(super) fn spublish(context: &mut Context<'_>, args: Args<'_>) -> Done {
    super::cluster::check_owned(context, std::iter::once(args.at(1)))?;
    send(context, args, Class::Shard)
}

fn list(context: &mut Context<'_>, args: Args<'_>, class: Class) -> Done {
    if args.len() > 3 {
        let name = String::from_utf8_lossy(args.at(1)).into_owned();
        return Err(Fail::new(format!(
            "ERR unknown subcommand or wrong number of arguments for '{name}'. Try PUBSUB HELP."
        )));
    }
    let pattern = Some(args.at(2)).filter(|_| args.len() == 3);
    let names = context.shared.subscriptions.names(class, pattern);
    context.reply.array(names.len());
    names.iter().for_each(|name| context.reply.bulk(name));
    Ok(())
}

fn count(context: &mut Context<'_>, args: Args<'_>, class: Class) -> Done {
    context.reply.array(2 * (args.len() - 2));
    for name in args.from(2) {
        context.reply.bulk(name);
        context.reply.count(context.shared.subscriptions.subscribers(class, name));
    }
    Ok(())
}

const HELP: [&str; 14] = [
    "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANNELS [<pattern>]",
    "    Return the currently active channels matching a <pattern> (default: '*').",
    "NUMPAT",
    "    Return number of subscriptions to patterns.",
    "NUMSUB [<channel> ...]",
    "    Return the number of subscribers for the specified channels, excluding",
    "    pattern subscriptions(default: no channels).",
    "SHARDCHANNELS [<pattern>]",
    "    Return the currently active shard level channels matching a <pattern> (default: '*').",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Return the number of subscribers for the specified shard level channel(s)",
    "HELP",
    "    Prints this help.",
];

pub(super) fn pubsub(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let wrong_number = |name: &str| {
        let text = format!("ERR wrong number of arguments for 'pubsub|{name}' command");
        Err(Fail::new(text))
    };
    if args.is(1, "CHANNELS") {
        list(context, args, Class::Channel)
    } else if args.is(1, "SHARDCHANNELS") {
        list(context, args, Class::Shard)
    } else if args.is(1, "NUMSUB") {
        count(context, args, Class::Channel)
    } else if args.is(1, "SHARDNUMSUB") {
        count(context, args, Class::Shard)
    } else if args.is(1, "NUMPAT") && args.len() == 2 {
        context.reply.count(context.shared.subscriptions.count(Class::Pattern));
        Ok(())
    } else if args.is(1, "NUMPAT") {
        wrong_number("numpat")
    } else if args.is(1, "HELP") && args.len() == 2 {
        context.reply.help(&HELP);
        Ok(())
    } else if args.is(1, "HELP") {
        wrong_number("help")
    } else {
        Err(super::unknown_subcommand(args))
    }
}
