//! Hashes. A hash is one value: its fields and their values, in the order in which they came.

use super::context::{Context, Done, Fail, NOT_FLOAT, NOT_INTEGER, SYNTAX, WRONG_TYPE, fail};
use super::keys::ScanOptions;
use crate::protocol::extended::{Number, add_floats};
use crate::protocol::numbers::{parse_i64, parse_u64};
use crate::protocol::reply::Reply;
use crate::protocol::request::Args;
use crate::sample::{choose, random_below};
use crate::store::record::{Kind, Record, push_item};
use std::collections::HashMap;

/// Writes a hash with some fields changed to the scratch buffer; returns how many fields are new.
fn write_with<'f>(
    record: Option<Record<'_>>,
    scratch: &mut Vec<u8>,
    pairs: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
) -> usize {
    Record::begin(scratch, Kind::Hash, record.and_then(|record| record.expiry));
    // The last value of a field counts, and a new field has the place of its first mention.
    let mut changes: HashMap<&[u8], &[u8]> = pairs.clone().collect();
    let present = record.iter().flat_map(|record| record.pairs());
    for (field, value) in present {
        push_item(scratch, field);
        push_item(scratch, changes.remove(field).unwrap_or(value));
    }
    let new = changes.len();
    for (field, _) in pairs {
        if let Some(value) = changes.remove(field) {
            push_item(scratch, field);
            push_item(scratch, value);
        }
    }
    new
}

fn check(record: Option<Record<'_>>) -> Done {
    match record {
        Some(record) if record.kind != Kind::Hash => Err(WRONG_TYPE),
        _ => Ok(()),
    }
}

/// Sets fields; returns how many are new.
fn set_fields(context: &mut Context<'_>, args: Args<'_>) -> Result<usize, Fail> {
    if args.len() % 2 == 1 {
        let name = String::from_utf8_lossy(args.at(0)).to_ascii_lowercase();
        return Err(Fail::new(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let new = context.view(args.at(1), |record, _, scratch| {
        check(record)?;
        let pairs = (2..args.len()).step_by(2).map(|at| (args.at(at), args.at(at + 1)));
        Ok::<_, Fail>(write_with(record, scratch, pairs))
    })?;
    context.put_scratch(args.at(1))?;
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
    let is_new = context.view(args.at(1), |record, _, scratch| {
        check(record)?;
        let is_new = record.is_none_or(|record| record.field(args.at(2)).is_none());
        if is_new {
            write_with(record, scratch, [(args.at(2), args.at(3))].into_iter());
        }
        Ok::<_, Fail>(is_new)
    })?;
    if is_new {
        context.put_scratch(args.at(1))?;
    }
    context.reply.integer(i64::from(is_new));
    Ok(())
}

pub(super) fn hget(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.look_at(args.at(1), Kind::Hash, |record, reply| {
        reply.bulk_or_null(record.and_then(|record| record.field(args.at(2))));
    })
}

pub(super) fn hmget(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.look_at(args.at(1), Kind::Hash, |record, reply| {
        reply.array(args.len() - 2);
        for field in args.from(2) {
            reply.bulk_or_null(record.and_then(|record| record.field(field)));
        }
    })
}

/// Writes what `write` makes of each field of a hash.
fn reply_all(
    context: &mut Context<'_>,
    key: &[u8],
    begin: impl FnOnce(&mut Reply<'_>, usize),
    mut write: impl FnMut(&mut Reply<'_>, &[u8], &[u8]),
) -> Done {
    context.look_at(key, Kind::Hash, |record, reply| {
        let pairs = || record.iter().flat_map(|record| record.pairs());
        begin(reply, pairs().count());
        pairs().for_each(|(field, value)| write(reply, field, value));
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
    reply_all(context, args.at(1), |reply, len| reply.count(len), |_, _, _| {})
}

pub(super) fn hexists(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.look_at(args.at(1), Kind::Hash, |record, reply| {
        let field = record.and_then(|record| record.field(args.at(2)));
        reply.integer(i64::from(field.is_some()));
    })
}

pub(super) fn hstrlen(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.look_at(args.at(1), Kind::Hash, |record, reply| {
        reply.count(record.and_then(|record| record.field(args.at(2))).map_or(0, <[u8]>::len));
    })
}

pub(super) fn hdel(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let (mut removed, mut left) = (0, 0);
    context.view(args.at(1), |record, _, scratch| {
        check(record)?;
        Record::begin(scratch, Kind::Hash, record.and_then(|record| record.expiry));
        for (field, value) in record.iter().flat_map(|record| record.pairs()) {
            if args.from(2).any(|gone| gone == field) {
                removed += 1;
            } else {
                left += 1;
                push_item(scratch, field);
                push_item(scratch, value);
            }
        }
        Ok::<_, Fail>(())
    })?;
    match (removed, left) {
        (0, _) => {}
        (_, 0) => drop(context.delete(args.at(1))?),
        _ => context.put_scratch(args.at(1))?,
    }
    context.reply.integer(removed);
    Ok(())
}

/// Replaces a field's value by what `f` makes of it.
fn change_field(
    context: &mut Context<'_>,
    args: Args<'_>,
    f: impl FnOnce(Option<&[u8]>) -> Result<String, Fail>,
) -> Result<String, Fail> {
    let text = context.view(args.at(1), |record, _, scratch| {
        check(record)?;
        let text = f(record.and_then(|record| record.field(args.at(2))))?;
        write_with(record, scratch, [(args.at(2), text.as_bytes())].into_iter());
        Ok::<_, Fail>(text)
    })?;
    context.put_scratch(args.at(1))?;
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
    context.look_at(args.at(1), Kind::Hash, |record, reply| {
        let all: Vec<(&[u8], &[u8])> = record.iter().flat_map(|it| it.pairs()).collect();
        let Some(count) = count else {
            return match all.is_empty() {
                true => reply.null(),
                false => reply.bulk(all[random_below(all.len())].0),
            };
        };
        let chosen = choose(all.len(), count);
        // Version 3 of the protocol has an array for each pair.
        let nests = with_values && reply.is_resp3;
        reply.array(if with_values && !nests { 2 * chosen.len() } else { chosen.len() });
        for (field, value) in chosen.map(|at| all[at]) {
            if nests {
                reply.array(2);
            }
            reply.bulk(field);
            if with_values {
                reply.bulk(value);
            }
        }
    })
}

pub(super) fn hscan(context: &mut Context<'_>, args: Args<'_>) -> Done {
    if parse_u64(args.at(2)).is_none() {
        return fail!("ERR invalid cursor");
    }
    // A key that is not there has no members, whatever is asked for.
    if context.look_at(args.at(1), Kind::Hash, |record, _| record.is_none())? {
        context.reply.array(2);
        context.reply.text("0");
        context.reply.array(0);
        return Ok(());
    }
    let options = ScanOptions::read(args, 3, false)?;
    // All fields at once: they are one value.
    context.look_at(args.at(1), Kind::Hash, |record, reply| {
        let pairs =
            || record.iter().flat_map(|it| it.pairs()).filter(|(field, _)| options.matches(field));
        reply.array(2);
        reply.text("0");
        reply.array(2 * pairs().count());
        pairs().for_each(|(field, value)| {
            reply.bulk(field);
            reply.bulk(value);
        });
    })
}
