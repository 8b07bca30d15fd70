//! Commands about the server's primary.

use super::context::{Context, Done, fail};
use crate::protocol::numbers::parse_i64;
use crate::protocol::request::Args;
use crate::replica::{Stage, Target};

/// Makes the server a replica, or a primary. The locks of all keys are held.
pub(super) fn replicaof(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let shared = context.shared;
    if shared.cluster.is_some() {
        return fail!("ERR REPLICAOF not allowed in cluster mode.");
    }
    // What a transaction has changed so far comes first.
    context.write_pending()?;
    if args.is(1, "NO") && args.is(2, "ONE") {
        if shared.replica.follow(None, &shared.settings) {
            tell!("this server is a primary from now on");
        }
        context.reply.ok();
        return Ok(());
    }
    let Some(port) = parse_i64(args.at(2)).and_then(|port| u16::try_from(port).ok()) else {
        return fail!("ERR Invalid master port");
    };
    let host = String::from_utf8_lossy(args.at(1)).into_owned();
    match shared.replica.follow(Some(Target { host, port }), &shared.settings) {
        true => context.reply.ok(),
        false => context.reply.simple("OK Already connected to specified master"),
    }
    Ok(())
}

pub(super) fn role(context: &mut Context<'_>, _: Args<'_>) -> Done {
    let (plan, offset) = (context.shared.replica.plan(), context.shared.replica.offset() as i64);
    let reply = &mut context.reply;
    match plan.target {
        None => {
            reply.array(3);
            reply.text("master");
            reply.integer(offset);
            reply.array(0);
        }
        Some(target) => {
            reply.array(5);
            reply.text("slave");
            reply.text(&target.host);
            reply.integer(target.port.into());
            reply.text(plan.stage.name());
            reply.integer(if plan.stage == Stage::Connected { offset } else { -1 });
        }
    }
    Ok(())
}

/// `PSYNC`, `SYNC` and `REPLCONF`, which replicas send to their primary.
pub(super) fn no_primary(_: &mut Context<'_>, _: Args<'_>) -> Done {
    fail!("ERR this server can't have replicas")
}
