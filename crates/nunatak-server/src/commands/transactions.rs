//! Transactions: `EXEC` holds the locks of all keys of all its commands.

use super::Locks;
use super::context::{Context, Done, Fail, fail};
use super::monitor::{count_call, tell};
use super::pending::Pending;
use super::table::{self, ALL_KEYS};
use crate::protocol::numbers::parse_i64;
use crate::protocol::request::Args;
use crate::session::{Multi, Session};
use crate::store::Store;
use crate::store::record::Record;
use crate::store::space::Space;
use crate::store::stripes::Stripes;
use crate::store::watch::Watch;
use std::sync::Arc;

/// Watches nothing any more.
pub(crate) fn forget_watches(session: &mut Session, store: &Store) {
    if !session.watches.is_empty() {
        for watch in session.watches.drain(..) {
            store.watches.remove(&store.stripes, &watch);
        }
        session.is_touched = Arc::default();
    }
}

/// Whether a record is one that has expired.
fn has_expired(record: &[u8], now: u64) -> bool {
    Record::read_any(record).is_some() && Record::read(record, now).is_none()
}

/// Whether a watched key was changed, or has expired.
fn is_too_late(context: &Context<'_>, watches: &[Watch]) -> bool {
    let expired = |watch: &Watch| {
        // What was seen as expired is seen so still.
        if watch.had_expired {
            return false;
        }
        let space = context.shared.store.space(watch.db);
        space.get(&watch.key, |record| record.is_some_and(|it| has_expired(it, context.now)))
    };
    context.session.is_touched() || watches.iter().any(expired)
}

pub(super) fn multi(context: &mut Context<'_>, _: Args<'_>) -> Done {
    if context.session.multi.is_some() {
        return fail!("ERR MULTI calls can not be nested");
    }
    context.session.multi = Some(Multi::default());
    context.reply.ok();
    Ok(())
}

pub(super) fn discard(context: &mut Context<'_>, _: Args<'_>) -> Done {
    if context.session.multi.take().is_none() {
        return fail!("ERR DISCARD without MULTI");
    }
    forget_watches(context.session, &context.shared.store);
    context.reply.ok();
    Ok(())
}

pub(super) fn watch(context: &mut Context<'_>, args: Args<'_>) -> Done {
    if context.session.multi.is_some() {
        return fail!("ERR WATCH inside MULTI is not allowed");
    }
    super::cluster::check_names(context, args.from(1))?;
    let (session, store) = (&mut *context.session, &context.shared.store);
    let now = context.now;
    for key in args.from(1) {
        // The removal of a key that has expired before is no change of it. A replica leaves it to the primary.
        let had_expired = if context.shared.replica.follows() {
            let space = store.space(session.db);
            space.get(key, |record| record.is_some_and(|it| has_expired(it, now)))
        } else {
            store.remove_if(session.db, key, |record| has_expired(record, now))?;
            false
        };
        let is_new = |watch: &Watch| (watch.db, &*watch.key) != (session.db, key);
        if session.watches.iter().all(is_new) {
            let (stripes, is_touched) = (&store.stripes, &session.is_touched);
            let watch = store.watches.add(stripes, (session.db, key), is_touched, had_expired);
            session.watches.push(watch);
        }
    }
    context.reply.ok();
    Ok(())
}

pub(super) fn unwatch(context: &mut Context<'_>, _: Args<'_>) -> Done {
    forget_watches(context.session, &context.shared.store);
    context.reply.ok();
    Ok(())
}

/// Returns the stripes of all keys of a transaction, in order.
fn stripes_of(context: &Context<'_>, multi: &Multi) -> Vec<u32> {
    let store = &context.shared.store;
    let mut db = context.session.db;
    // Watched keys, too: a change of them comes before the whole transaction, or after it.
    let mut held: Vec<u32> = context.session.watches.iter().map(|watch| watch.stripe).collect();
    for queued in &multi.queue {
        let args = Args::new(&queued.bytes, &queued.spans);
        let Some(command) = table::find(args.at(0)) else { continue };
        if command.has(ALL_KEYS) {
            return Stripes::all().collect();
        }
        if command.name == "select"
            && let Some(chosen) = parse_i64(args.at(1)).and_then(|it| usize::try_from(it).ok())
            && chosen < store.spaces().len()
        {
            db = chosen;
        }
        held.extend(command.keys(args).map(|key| Stripes::of(store.stripes.hash(db, key))));
        let other = super::across::other_key(command, args, db, store.spaces().len());
        held.extend(other.map(|(db, key)| Stripes::of(store.stripes.hash(db, key))));
    }
    held.sort_unstable();
    held.dedup();
    held
}

/// Checks that this node of a cluster serves the keys of all commands, which have one slot.
fn check_queue(context: &mut Context<'_>, multi: &Multi) -> Done {
    if context.shared.cluster.is_none() {
        return Ok(());
    }
    let mut keys = Vec::new();
    for queued in &multi.queue {
        let args = Args::new(&queued.bytes, &queued.spans);
        keys.extend(table::find(args.at(0)).into_iter().flat_map(|command| command.keys(args)));
    }
    super::cluster::check_names(context, keys.into_iter())
}

/// Checks that the commands may run as long as the server is a replica, or is none.
fn check_roles(context: &Context<'_>, multi: &Multi) -> Done {
    multi.queue.iter().try_for_each(|queued| {
        let args = Args::new(&queued.bytes, &queued.spans);
        table::find(args.at(0)).map_or(Ok(()), |command| super::check_role(context, command))
    })
}

pub(super) fn exec(context: &mut Context<'_>, _: Args<'_>) -> Done {
    let Some(multi) = context.session.multi.take() else {
        return fail!("ERR EXEC without MULTI");
    };
    let shared = context.shared;
    if multi.is_aborted {
        forget_watches(context.session, &shared.store);
        return fail!("EXECABORT Transaction discarded because of previous errors.");
    }
    let held = stripes_of(context, &multi);
    // An `UNWATCH` in the transaction finds nothing: the locks of watched keys are held here.
    let watches = std::mem::take(&mut context.session.watches);
    let was_changed = std::mem::take(&mut context.is_changed);
    let mut locks = Locks::take(&shared.store.stripes, &held, true);
    if let Err(fail) = check_queue(context, &multi) {
        drop(locks);
        context.session.watches = watches;
        forget_watches(context.session, &shared.store);
        return Err(fail);
    }
    if let Err(Fail(why)) = check_roles(context, &multi) {
        drop(locks);
        context.session.watches = watches;
        forget_watches(context.session, &shared.store);
        return Err(Fail::new(format!("EXECABORT Transaction discarded because of: {why}")));
    }
    if is_too_late(context, &watches) {
        context.reply.null_array();
    } else {
        let begin = context.reply.out.len();
        context.exec = Some(begin);
        let is_in_file = shared.store.spaces().iter().any(Space::is_in_file);
        context.pending = is_in_file.then(Pending::default);
        context.reply.array(multi.queue.len());
        for queued in &multi.queue {
            let args = Args::new(&queued.bytes, &queued.spans);
            let start = context.reply.out.len();
            let done = match table::find(args.at(0)) {
                Some(command) => {
                    context.timing.begin_command(command, context.stats);
                    let done = super::acl::check_again(context, command, args)
                        .and_then(|()| (command.run)(context, args));
                    let slot = command.slot_of(args);
                    let told = count_call(context, command, slot, done.is_err());
                    if let Some(time) = told {
                        tell(context, command, args, time);
                    }
                    done
                }
                None => Err(super::unknown_command(args)),
            };
            if let Err(Fail(text)) = done {
                context.session.note_failure(&text);
                context.reply.out.truncate(start);
                context.reply.error(&text);
            }
        }
        context.exec = None;
        let written = context.write_pending();
        context.pending = None;
        if let Err(Fail(text)) = written {
            // None of the changes to that database was made.
            context.session.note_failure(&text);
            context.reply.out.truncate(begin);
            context.reply.error(&text);
        }
    }
    locks.is_changed = context.is_changed;
    context.is_changed |= was_changed;
    drop(locks);
    context.session.watches = watches;
    forget_watches(context.session, &shared.store);
    Ok(())
}
