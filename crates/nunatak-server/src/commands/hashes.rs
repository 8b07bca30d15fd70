//! Hashes: fields with values. A small one has them in the order in which they came.

use super::collection::Step;
use super::context::{Context, Done, Fail, NOT_FLOAT, NOT_INTEGER, SYNTAX, fail};
use crate::protocol::extended::{Number, add_floats};
use crate::protocol::numbers::parse_i64;
use crate::protocol::reply::Reply;
use crate::protocol::request::Args;
use crate::store::record::{Kind, members};

/// Sets fields; returns how many are new.
fn set_fields(context: &mut Context<'_>, args: Args<'_>) -> Result<usize, Fail> {
    if args.len() % 2 == 1 {
        let name = String::from_utf8_lossy(args.at(0)).to_ascii_lowercase();
        return Err(Fail::new(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let mut draft = context.draft(args.at(1), Kind::Hash)?;
    let mut load = context.loader();
    let pairs = (2..args.len()).step_by(2).map(|at| (args.at(at), args.at(at + 1)));
    let new = pairs.filter(|(field, value)| draft.set(&mut load, field, value)).count();
    drop(load);
    context.store_draft(args.at(1), draft)?;
    Ok(new)
}

pub(super) fn hset(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let new = set_fields(context, args)?;
    context.reply.count(new);
    Ok(())
}

pub(super) fn hmset(context: &mut Context<'_>, args: Args<'_>) -> Done {
    set_fields(context, args)?;
    context.reply.ok();
    Ok(())
}

pub(super) fn hsetnx(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let mut draft = context.draft(args.at(1), Kind::Hash)?;
    let mut load = context.loader();
    let is_new = draft.get(&mut load, args.at(2)).is_none();
    if is_new {
        draft.set(&mut load, args.at(2), args.at(3));
    }
    drop(load);
    if is_new {
        context.store_draft(args.at(1), draft)?;
    }
    context.reply.integer(i64::from(is_new));
    Ok(())
}

pub(super) fn hget(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.member(args.at(1), Kind::Hash, args.at(2), |value, reply| reply.bulk_or_null(value))
}

pub(super) fn hmget(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.some_members(args.at(1), Kind::Hash, args.from(2), |value, reply| {
        reply.bulk_or_null(value);
    })
}

/// Writes what `write` makes of each field of a hash.
fn reply_all(
    context: &mut Context<'_>,
    key: &[u8],
    begin: impl FnOnce(&mut Reply<'_>, usize),
    mut write: impl FnMut(&mut Reply<'_>, &[u8], &[u8]),
) -> Done {
    let mut begin = Some(begin);
    context.visit(key, Kind::Hash, |step, reply| match step {
        Step::Count(count) => begin.take().into_iter().for_each(|begin| begin(reply, count)),
        Step::Items(items) => members(Kind::Hash, items).for_each(|(field, value)| {
            write(reply, field, value);
        }),
    })
}

pub(super) fn hgetall(context: &mut Context<'_>, args: Args<'_>) -> Done {
    reply_all(
        context,
        args.at(1),
        |reply, len| reply.map(len),
        |reply, field, value| {
            reply.bulk(field);
            reply.bulk(value);
        },
    )
}

pub(super) fn hkeys(context: &mut Context<'_>, args: Args<'_>) -> Done {
    reply_all(
        context,
        args.at(1),
        |reply, len| reply.array(len),
        |reply, field, _| reply.bulk(field),
    )
}

pub(super) fn hvals(context: &mut Context<'_>, args: Args<'_>) -> Done {
    reply_all(
        context,
        args.at(1),
        |reply, len| reply.array(len),
        |reply, _, value| reply.bulk(value),
    )
}

pub(super) fn hlen(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let count = context.count(args.at(1), Kind::Hash)?;
    context.reply.count(count);
    Ok(())
}

pub(super) fn hexists(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.member(args.at(1), Kind::Hash, args.at(2), |value, reply| {
        reply.integer(i64::from(value.is_some()));
    })
}

pub(super) fn hstrlen(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.member(args.at(1), Kind::Hash, args.at(2), |value, reply| {
        reply.count(value.map_or(0, <[u8]>::len));
    })
}

pub(super) fn hdel(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.remove_members(args, Kind::Hash)
}

/// Replaces a field's value by what `f` makes of it.
fn change_field(
    context: &mut Context<'_>,
    args: Args<'_>,
    f: impl FnOnce(Option<&[u8]>) -> Result<String, Fail>,
) -> Result<String, Fail> {
    let mut draft = context.draft(args.at(1), Kind::Hash)?;
    let mut load = context.loader();
    let text = f(draft.get(&mut load, args.at(2)))?;
    draft.set(&mut load, args.at(2), text.as_bytes());
    drop(load);
    context.store_draft(args.at(1), draft)?;
    Ok(text)
}

pub(super) fn hincrby(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let by = parse_i64(args.at(3)).ok_or(NOT_INTEGER)?;
    let mut sum = 0;
    change_field(context, args, |value| {
        let Some(value) = parse_i64(value.unwrap_or(b"0")) else {
            return fail!("ERR hash value is not an integer");
        };
        let Some(total) = value.checked_add(by) else {
            return fail!("ERR increment or decrement would overflow");
        };
        sum = total;
        Ok(total.to_string())
    })?;
    context.reply.integer(sum);
    Ok(())
}

pub(super) fn hincrbyfloat(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let by = Number::parse(args.at(3)).ok_or(NOT_FLOAT)?;
    let sum = change_field(context, args, |value| {
        let Some(value) = Number::parse(value.unwrap_or(b"0")) else {
            return fail!("ERR hash value is not a float");
        };
        match add_floats(value, by) {
            Some(sum) => Ok(sum),
            None => fail!("ERR increment would produce NaN or Infinity"),
        }
    })?;
    context.reply.text(&sum);
    Ok(())
}

pub(super) fn hrandfield(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let count = match args.len() {
        2 => None,
        _ => Some(parse_i64(args.at(2)).ok_or(NOT_INTEGER)?),
    };
    if args.len() > 4 || args.len() == 4 && !args.is(3, "WITHVALUES") {
        return Err(SYNTAX);
    }
    let with_values = args.len() == 4;
    if with_values && count.is_some_and(|count| count.unsigned_abs() > i64::MAX as u64 / 2) {
        return fail!("ERR value is out of range");
    }
    let chosen = context.random_members(args.at(1), Kind::Hash, count)?;
    let reply = &mut context.reply;
    if count.is_none() {
        reply.bulk_or_null(chosen.first().map(|(field, _)| field.as_slice()));
        return Ok(());
    }
    // Version 3 of the protocol has an array for each pair.
    let nests = with_values && reply.is_resp3;
    reply.array(if with_values && !nests { 2 * chosen.len() } else { chosen.len() });
    for (field, value) in &chosen {
        if nests {
            reply.array(2);
        }
        reply.bulk(field);
        if with_values {
            reply.bulk(value);
        }
    }
    Ok(())
}

pub(super) fn hscan(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.scan_members(args, Kind::Hash)
}
