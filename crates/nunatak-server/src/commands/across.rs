//! Commands that may change a key of another database: `COPY` and `MOVE`.

use super::context::{Context, Done, Fail, NOT_INTEGER, SYNTAX, fail};
use super::table::{ACROSS, Command};
use crate::protocol::numbers::parse_i64;
use crate::protocol::request::Args;

const SAME: Fail =
    Fail(std::borrow::Cow::Borrowed("ERR source and destination objects are the same"));

/// Reads the number of a database.
fn database(argument: &[u8], databases: usize) -> Result<usize, Fail> {
    let number = parse_i64(argument).ok_or(NOT_INTEGER)?;
    match usize::try_from(number) {
        Ok(db) if db < databases => Ok(db),
        _ => fail!("ERR DB index is out of range"),
    }
}

/// Reads the options of `COPY`: whether it replaces, and into which database, of so many.
fn options(args: Args<'_>, own: usize, databases: usize) -> Result<(bool, usize), Fail> {
    let (mut replaces, mut to, mut at) = (false, own, 3);
    while at < args.len() {
        if args.is(at, "REPLACE") {
            replaces = true;
        } else if args.is(at, "DB") && at + 1 < args.len() {
            at += 1;
            to = database(args.at(at), databases)?;
        } else {
            return Err(SYNTAX);
        }
        at += 1;
    }
    Ok((replaces, to))
}

/// Returns the key that a command may change in another database than its own: its lock is needed, too.
pub(super) fn other_key<'a>(
    command: &Command,
    args: Args<'a>,
    own: usize,
    databases: usize,
) -> Option<(usize, &'a [u8])> {
    if !command.has(ACROSS) || !command.accepts(args.len()) {
        return None;
    }
    // A command that fails changes nothing.
    let (to, key) = match command.name {
        "move" => (database(args.at(2), databases).ok()?, args.at(1)),
        _ => (options(args, own, databases).ok()?.1, args.at(2)),
    };
    (to != own).then_some((to, key))
}

pub(super) fn copy(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let (own, databases) = (context.session.db, context.shared.store.spaces().len());
    let (replaces, to) = options(args, own, databases)?;
    let (key, copy) = (args.at(1), args.at(2));
    if to == own && key == copy {
        return Err(SAME);
    }
    let may_store = replaces || !context.exists_in(to, copy);
    let copied = if may_store { context.whole(key) } else { None };
    if let Some(whole) = &copied {
        context.put_whole(to, copy, whole)?;
    }
    context.reply.integer(i64::from(copied.is_some()));
    Ok(())
}

/// A crash may leave the key in both databases, if they are in files: each has its own.
pub(super) fn move_key(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let (own, databases) = (context.session.db, context.shared.store.spaces().len());
    let (key, to) = (args.at(1), database(args.at(2), databases)?);
    if to == own {
        return Err(SAME);
    }
    let moved = if context.exists_in(to, key) { None } else { context.whole(key) };
    if let Some(whole) = &moved {
        context.put_whole(to, key, whole)?;
        context.delete(key)?;
    }
    context.reply.integer(i64::from(moved.is_some()));
    Ok(())
}
