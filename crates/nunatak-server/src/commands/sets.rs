//! Sets. A small one has its members in the order in which they came.

use super::collection::{Source, Step};
use super::context::{Context, Done, Fail, NOT_INTEGER, SYNTAX, fail};
use crate::protocol::numbers::parse_i64;
use crate::protocol::request::Args;
use crate::store::draft::Draft;
use crate::store::record::{Kind, members, push_item};
use std::collections::HashSet;

type Members = Vec<Vec<u8>>;

/// Stores a set in place of what was there. One without members is removed.
fn store(context: &mut Context<'_>, key: &[u8], members: &Members) -> Done {
    let mut payload = Vec::new();
    members.iter().for_each(|member| push_item(&mut payload, member));
    let admits = context.shared.store.admits_segments(context.session.db);
    context.store_draft(key, Draft::of_payload((Kind::Set, None), &payload, admits))
}

pub(super) fn sadd(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let mut draft = context.draft(args.at(1), Kind::Set)?;
    let mut load = context.loader();
    let added = args.from(2).filter(|member| draft.set(&mut load, member, &[])).count();
    drop(load);
    if added > 0 {
        context.store_draft(args.at(1), draft)?;
    }
    context.reply.count(added);
    Ok(())
}

pub(super) fn srem(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.remove_members(args, Kind::Set)
}

pub(super) fn sismember(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.member(args.at(1), Kind::Set, args.at(2), |value, reply| {
        reply.integer(i64::from(value.is_some()));
    })
}

pub(super) fn smismember(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.some_members(args.at(1), Kind::Set, args.from(2), |value, reply| {
        reply.integer(i64::from(value.is_some()));
    })
}

pub(super) fn scard(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let count = context.count(args.at(1), Kind::Set)?;
    context.reply.count(count);
    Ok(())
}

pub(super) fn smembers(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.visit(args.at(1), Kind::Set, |step, reply| match step {
        Step::Count(count) => reply.set(count),
        Step::Items(items) => members(Kind::Set, items).for_each(|(it, _)| reply.bulk(it)),
    })
}

fn positive(text: &[u8]) -> Result<usize, Fail> {
    match parse_i64(text) {
        Some(count @ 0..) => Ok(count as usize),
        _ => fail!("ERR value is out of range, must be positive"),
    }
}

pub(super) fn spop(context: &mut Context<'_>, args: Args<'_>) -> Done {
    if args.len() > 3 {
        return Err(SYNTAX);
    }
    let key = args.at(1);
    let count = if args.len() == 3 { Some(positive(args.at(2))?) } else { None };
    let mut draft = context.draft(key, Kind::Set)?;
    let mut gone = Vec::new();
    if count.is_some_and(|count| count as u64 >= draft.len()) {
        // All of them.
        gone = context.source(key)?.map_or_else(Vec::new, |source| context.members_of(&source));
        context.delete(key)?;
    } else {
        let mut load = context.loader();
        while gone.len() < count.unwrap_or(1)
            && let Some((member, _)) = draft.random(&mut load)
        {
            draft.remove(&mut load, &member);
            gone.push(member);
        }
        drop(load);
        if !gone.is_empty() {
            context.store_draft(key, draft)?;
        }
    }
    match (count, gone.first()) {
        (None, member) => context.reply.bulk_or_null(member.map(Vec::as_slice)),
        (Some(_), _) => {
            context.reply.set(gone.len());
            gone.iter().for_each(|member| context.reply.bulk(member));
        }
    }
    Ok(())
}

pub(super) fn srandmember(context: &mut Context<'_>, args: Args<'_>) -> Done {
    if args.len() > 3 {
        return Err(SYNTAX);
    }
    let count =
        if args.len() == 3 { Some(parse_i64(args.at(2)).ok_or(NOT_INTEGER)?) } else { None };
    let chosen = context.random_members(args.at(1), Kind::Set, count)?;
    let reply = &mut context.reply;
    if count.is_none() {
        reply.bulk_or_null(chosen.first().map(|(member, _)| member.as_slice()));
        return Ok(());
    }
    reply.array(chosen.len());
    chosen.iter().for_each(|(member, _)| reply.bulk(member));
    Ok(())
}

pub(super) fn smove(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let (from, to, member) = (args.at(1), args.at(2), args.at(3));
    if !context.exists(from) {
        context.reply.integer(0);
        return Ok(());
    }
    let (mut source, mut target) = (context.draft(from, Kind::Set)?, context.draft(to, Kind::Set)?);
    let mut load = context.loader();
    let is_there = source.get(&mut load, member).is_some();
    let is_moved = is_there && from != to;
    let is_new = is_moved && target.set(&mut load, member, &[]);
    if is_moved {
        source.remove(&mut load, member);
    }
    drop(load);
    if is_moved {
        context.store_draft(from, source)?;
        if is_new {
            context.store_draft(to, target)?;
        }
    }
    context.reply.integer(i64::from(is_there));
    Ok(())
}

/// What is computed of several sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Intersection,
    Union,
    Difference,
}

fn combine<'a>(
    context: &mut Context<'_>,
    keys: impl Iterator<Item = &'a [u8]>,
    of: Of,
) -> Result<Members, Fail> {
    let mut sources = Vec::new();
    for key in keys {
        sources.push(context.source(key)?);
    }
    match of {
        Of::Union => {
            let mut all: Vec<Members> =
                sources.iter().flatten().map(|source| context.members_of(source)).collect();
            if all.len() == 1 {
                return Ok(all.remove(0));
            }
            let (mut once, mut union) = (HashSet::new(), Vec::new());
            for member in all.into_iter().flatten() {
                if once.insert(member.clone()) {
                    union.push(member);
                }
            }
            Ok(union)
        }
        Of::Difference => {
            let mut sources = sources.into_iter();
            let Some(first) = sources.next().flatten() else { return Ok(Vec::new()) };
            let others: Vec<Source> = sources.flatten().collect();
            let mut left = context.members_of(&first);
            left.retain(|member| others.iter().all(|other| !context.has(other, member)));
            Ok(left)
        }
        Of::Intersection => {
            let all: Option<Vec<Source>> = sources.into_iter().collect();
            let mut all = all.unwrap_or_default();
            // Members of the smallest are looked up in the others.
            let smallest = all.iter().enumerate().min_by_key(|(_, source)| source.len());
            let Some((at, _)) = smallest else { return Ok(Vec::new()) };
            let smallest = all.swap_remove(at);
            let mut common = context.members_of(&smallest);
            common.retain(|member| all.iter().all(|other| context.has(other, member)));
            Ok(common)
        }
    }
}

fn reply_combined(context: &mut Context<'_>, args: Args<'_>, of: Of) -> Done {
    let members = combine(context, args.from(1), of)?;
    context.reply.set(members.len());
    members.iter().for_each(|member| context.reply.bulk(member));
    Ok(())
}

fn store_combined(context: &mut Context<'_>, args: Args<'_>, of: Of) -> Done {
    let members = combine(context, args.from(2), of)?;
    store(context, args.at(1), &members)?;
    context.reply.count(members.len());
    Ok(())
}

pub(super) fn sinter(context: &mut Context<'_>, args: Args<'_>) -> Done {
    reply_combined(context, args, Of::Intersection)
}

/// Returns the number of keys that an argument says.
fn numbered(args: Args<'_>) -> Result<usize, Fail> {
    let Some(keys @ 1..) = parse_i64(args.at(1)) else {
        return fail!("ERR numkeys should be greater than 0");
    };
    match usize::try_from(keys) {
        Ok(keys) if keys <= args.len() - 2 => Ok(keys),
        _ => fail!("ERR Number of keys can't be greater than number of args"),
    }
}

pub(super) fn sintercard(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let keys = numbered(args)?;
    let (mut limit, mut at) = (0, 2 + keys);
    while at < args.len() {
        if !args.is(at, "LIMIT") || at + 1 == args.len() {
            return Err(SYNTAX);
        }
        let Some(most @ 0..) = parse_i64(args.at(at + 1)) else {
            return fail!("ERR LIMIT can't be negative");
        };
        (limit, at) = (most, at + 2);
    }
    let found = combine(context, args.from(2).take(keys), Of::Intersection)?.len();
    let most = if limit == 0 { usize::MAX } else { usize::try_from(limit).unwrap_or(usize::MAX) };
    context.reply.count(found.min(most));
    Ok(())
}

pub(super) fn sunion(context: &mut Context<'_>, args: Args<'_>) -> Done {
    reply_combined(context, args, Of::Union)
}

pub(super) fn sdiff(context: &mut Context<'_>, args: Args<'_>) -> Done {
    reply_combined(context, args, Of::Difference)
}

pub(super) fn sinterstore(context: &mut Context<'_>, args: Args<'_>) -> Done {
    store_combined(context, args, Of::Intersection)
}

pub(super) fn sunionstore(context: &mut Context<'_>, args: Args<'_>) -> Done {
    store_combined(context, args, Of::Union)
}

pub(super) fn sdiffstore(context: &mut Context<'_>, args: Args<'_>) -> Done {
    store_combined(context, args, Of::Difference)
}

pub(super) fn sscan(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.scan_members(args, Kind::Set)
}
