//! Sets. A set is one value: its members, in the order in which they came.

use super::context::{Context, Done, Fail, NOT_INTEGER, SYNTAX, WRONG_TYPE, fail};
use super::keys::ScanOptions;
use crate::protocol::numbers::{parse_i64, parse_u64};
use crate::protocol::request::Args;
use crate::sample::{choose, random_below};
use crate::store::record::{Kind, Record, push_item};
use std::collections::HashSet;

type Members = Vec<Vec<u8>>;

/// Copies the members of a set; an absent key has none.
fn members(context: &mut Context<'_>, key: &[u8]) -> Result<Members, Fail> {
    context.view(key, |record, _, _| match record {
        Some(record) if record.kind != Kind::Set => Err(WRONG_TYPE),
        record => Ok(record.iter().flat_map(|it| it.items()).map(<[u8]>::to_vec).collect()),
    })
}

/// Stores a set. One without members is removed. Keeps the time to live if `keeps`.
fn store<'m>(
    context: &mut Context<'_>,
    key: &[u8],
    keeps: bool,
    members: impl IntoIterator<Item = &'m [u8]>,
) -> Done {
    let expiry = context.head(key).and_then(|(_, expiry)| expiry).filter(|_| keeps);
    let mut members = members.into_iter().peekable();
    if members.peek().is_none() {
        context.delete(key)?;
        return Ok(());
    }
    Record::begin(context.scratch, Kind::Set, expiry);
    members.for_each(|member| push_item(context.scratch, member));
    context.put_scratch(key)
}

pub(super) fn sadd(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let key = args.at(1);
    let mut added = 0;
    context.view(key, |record, _, scratch| {
        if record.is_some_and(|record| record.kind != Kind::Set) {
            return Err(WRONG_TYPE);
        }
        Record::begin(scratch, Kind::Set, record.and_then(|record| record.expiry));
        scratch.extend_from_slice(record.map_or(&[][..], |record| record.payload));
        let present = || record.iter().flat_map(|record| record.items());
        if args.len() == 3 {
            if present().all(|member| member != args.at(2)) {
                push_item(scratch, args.at(2));
                added += 1;
            }
            return Ok(());
        }
        let mut present: HashSet<&[u8]> = present().collect();
        for member in args.from(2).filter(|member| present.insert(member)) {
            push_item(scratch, member);
            added += 1;
        }
        Ok(())
    })?;
    if added > 0 {
        context.put_scratch(key)?;
    }
    context.reply.integer(added);
    Ok(())
}

pub(super) fn srem(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let old = members(context, args.at(1))?;
    let gone: HashSet<&[u8]> = args.from(2).collect();
    let left: Vec<&[u8]> =
        old.iter().map(Vec::as_slice).filter(|member| !gone.contains(member)).collect();
    let removed = old.len() - left.len();
    if removed > 0 {
        store(context, args.at(1), true, left)?;
    }
    context.reply.count(removed);
    Ok(())
}

pub(super) fn sismember(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.look_at(args.at(1), Kind::Set, |record, reply| {
        let mut members = record.iter().flat_map(|record| record.items());
        reply.integer(i64::from(members.any(|member| member == args.at(2))));
    })
}

pub(super) fn smismember(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.look_at(args.at(1), Kind::Set, |record, reply| {
        let members: HashSet<&[u8]> = record.iter().flat_map(|record| record.items()).collect();
        reply.array(args.len() - 2);
        args.from(2).for_each(|member| reply.integer(i64::from(members.contains(member))));
    })
}

pub(super) fn scard(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.look_at(args.at(1), Kind::Set, |record, reply| {
        reply.count(record.map_or(0, |record| record.items().count()));
    })
}

pub(super) fn smembers(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.look_at(args.at(1), Kind::Set, |record, reply| {
        let members = || record.iter().flat_map(|record| record.items());
        reply.set(members().count());
        members().for_each(|member| reply.bulk(member));
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
    let mut old = members(context, key)?;
    let mut gone = Vec::new();
    while gone.len() < count.unwrap_or(1) && !old.is_empty() {
        gone.push(old.swap_remove(random_below(old.len())));
    }
    match (count, gone.first()) {
        (None, member) => context.reply.bulk_or_null(member.map(Vec::as_slice)),
        (Some(_), _) => {
            context.reply.set(gone.len());
            gone.iter().for_each(|member| context.reply.bulk(member));
        }
    }
    if !gone.is_empty() {
        store(context, key, true, old.iter().map(Vec::as_slice))?;
    }
    Ok(())
}

pub(super) fn srandmember(context: &mut Context<'_>, args: Args<'_>) -> Done {
    if args.len() > 3 {
        return Err(SYNTAX);
    }
    let count =
        if args.len() == 3 { Some(parse_i64(args.at(2)).ok_or(NOT_INTEGER)?) } else { None };
    let all = members(context, args.at(1))?;
    let reply = &mut context.reply;
    match count {
        None if all.is_empty() => reply.null(),
        None => reply.bulk(&all[random_below(all.len())]),
        Some(count) => {
            let chosen = choose(all.len(), count);
            reply.array(chosen.len());
            chosen.for_each(|at| reply.bulk(&all[at]));
        }
    }
    Ok(())
}

pub(super) fn smove(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let (from, to, member) = (args.at(1), args.at(2), args.at(3));
    if !context.exists(from) {
        context.reply.integer(0);
        return Ok(());
    }
    let (mut source, mut target) = (members(context, from)?, members(context, to)?);
    let place = source.iter().position(|it| it == member);
    if let Some(place) = place
        && from != to
    {
        source.remove(place);
        store(context, from, true, source.iter().map(Vec::as_slice))?;
        if target.iter().all(|it| it != member) {
            target.push(member.to_vec());
            store(context, to, true, target.iter().map(Vec::as_slice))?;
        }
    }
    context.reply.integer(i64::from(place.is_some()));
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
    mut keys: impl Iterator<Item = &'a [u8]>,
    of: Of,
) -> Result<Members, Fail> {
    let mut result = match keys.next() {
        Some(key) => members(context, key)?,
        None => return Ok(Vec::new()),
    };
    for key in keys {
        let next = members(context, key)?;
        match of {
            Of::Union => {
                let present: HashSet<Vec<u8>> = result.iter().cloned().collect();
                result.extend(next.into_iter().filter(|member| !present.contains(member)));
            }
            _ => {
                let next: HashSet<Vec<u8>> = next.into_iter().collect();
                result.retain(|member| next.contains(member) == (of == Of::Intersection));
            }
        }
    }
    Ok(result)
}

fn reply_combined(context: &mut Context<'_>, args: Args<'_>, of: Of) -> Done {
    let members = combine(context, args.from(1), of)?;
    context.reply.set(members.len());
    members.iter().for_each(|member| context.reply.bulk(member));
    Ok(())
}

fn store_combined(context: &mut Context<'_>, args: Args<'_>, of: Of) -> Done {
    let members = combine(context, args.from(2), of)?;
    store(context, args.at(1), false, members.iter().map(Vec::as_slice))?;
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
    if parse_u64(args.at(2)).is_none() {
        return fail!("ERR invalid cursor");
    }
    // A key that is not there has no members, whatever is asked for.
    if context.look_at(args.at(1), Kind::Set, |record, _| record.is_none())? {
        context.reply.array(2);
        context.reply.text("0");
        context.reply.array(0);
        return Ok(());
    }
    let options = ScanOptions::read(args, 3, false)?;
    // All members at once: they are one value.
    context.look_at(args.at(1), Kind::Set, |record, reply| {
        let members =
            || record.iter().flat_map(|it| it.items()).filter(|member| options.matches(member));
        reply.array(2);
        reply.text("0");
        reply.array(members().count());
        members().for_each(|member| reply.bulk(member));
    })
}
