//! Commands side by side that add members to one set or hash, or remove some: they are one change of the value. Its
//! root, which tells how many members there are, is stored once, and so is a segment that several of them change.

use super::context::{Context, Done};
use super::table::Command;
use super::{Locks, check_role, check_slots, is_admitted};
use crate::protocol::request::Args;
use crate::store::record::Kind;
use crate::store::stripes::Stripes;

/// What a command does with the members that it names.
#[derive(Debug, Clone, Copy)]
enum Act {
    Add(Kind),
    Remove(Kind),
}

impl Act {
    fn of(command: &Command) -> Option<Self> {
        match command.name {
            "sadd" => Some(Self::Add(Kind::Set)),
            "hset" => Some(Self::Add(Kind::Hash)),
            "srem" => Some(Self::Remove(Kind::Set)),
            "hdel" => Some(Self::Remove(Kind::Hash)),
            _ => None,
        }
    }

    /// Whether the arguments are a whole number of members, with values if they are set as a hash's fields.
    fn accepts(self, args: Args<'_>) -> bool {
        !matches!(self, Self::Add(Kind::Hash)) || args.len().is_multiple_of(2)
    }

    /// Changes the value, and notes how many members each command has added or removed.
    fn run(self, context: &mut Context<'_>, all: &[Args<'_>], counts: &mut Vec<usize>) -> Done {
        let (Self::Add(kind) | Self::Remove(kind)) = self;
        let key = all[0].at(1);
        let mut draft = context.draft(key, kind)?;
        let mut load = context.loader();
        for args in all {
            let count = match self {
                Self::Add(Kind::Hash) => {
                    let fields = (2..args.len()).step_by(2);
                    let is_new = |at: &usize| draft.set(&mut load, args.at(*at), args.at(at + 1));
                    fields.filter(is_new).count()
                }
                Self::Add(_) => args.from(2).filter(|it| draft.set(&mut load, it, &[])).count(),
                Self::Remove(_) => args.from(2).filter(|it| draft.remove(&mut load, it)).count(),
            };
            counts.push(count);
        }
        drop(load);
        // Fields may have other values.
        if matches!(self, Self::Add(Kind::Hash)) || counts.iter().any(|&count| count > 0) {
            context.store_draft(key, draft)?;
        }
        Ok(())
    }
}

/// Whether commands of this name may run together.
pub(crate) fn may_run_together(command: &Command) -> bool {
    Act::of(command).is_some()
}

/// Runs commands of one name about one key, at one moment, and writes their replies. Returns false, without a reply, if
/// each is to be run by itself, since one may fail. Then nothing was changed; but where the system refuses memory, some
/// segments may have their new members already.
pub(crate) fn run_together(context: &mut Context<'_>, command: &Command, all: &[Args<'_>]) -> bool {
    let Some(act) = Act::of(command) else { return false };
    // Before the lock is held: it may remove other keys, under their locks.
    let are_admitted =
        all.iter().all(|&args| act.accepts(args) && is_admitted(context, command, args));
    if !are_admitted {
        return false;
    }
    let stripes = &context.shared.store.stripes;
    let held = [Stripes::of(stripes.hash(context.session.db, all[0].at(1)))];
    let mut counts = Vec::with_capacity(all.len());
    let mut locks = Locks::take(stripes, &held, false);
    let was_changed = std::mem::take(&mut context.is_changed);
    let done = check_role(context, command)
        .and_then(|()| check_slots(context, command, all[0]))
        .and_then(|()| act.run(context, all, &mut counts));
    locks.is_changed = context.is_changed;
    context.is_changed |= was_changed;
    drop(locks);
    if done.is_err() {
        return false;
    }
    counts.into_iter().for_each(|count| context.reply.count(count));
    true
}
