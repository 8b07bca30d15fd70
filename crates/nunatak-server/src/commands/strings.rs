//! Strings.

use super::context::{Context, Done, Fail, NOT_FLOAT, NOT_INTEGER, SYNTAX, WRONG_TYPE, fail};
use super::expiry::{Unit, deadline};
use crate::protocol::extended::{Number, add_floats};
use crate::protocol::numbers::parse_i64;
use crate::protocol::request::Args;
use crate::store::record::{Kind, Record};

/// The longest string.
pub(super) const MOST_BYTES: usize = 512 << 20;

pub(super) fn get(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.look_at(args.at(1), Kind::String, |record, reply| {
        reply.bulk_or_null(record.map(|record| record.payload));
    })
}

pub(super) fn mget(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.reply.array(args.len() - 1);
    for key in args.from(1) {
        context.look(key, |record, reply| {
            let string = record.filter(|record| record.kind == Kind::String);
            reply.bulk_or_null(string.map(|record| record.payload));
        });
    }
    Ok(())
}

/// What `SET` and `GETEX` say about the time to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    Drop,
    Keep,
    At(Unit, usize),
}

/// Reads one option about the time to live; returns how many arguments it has.
fn expiry_option(args: Args<'_>, at: usize) -> Option<(Unit, usize)> {
    let units = [
        ("EX", Unit::Seconds),
        ("PX", Unit::Milliseconds),
        ("EXAT", Unit::SecondsAt),
        ("PXAT", Unit::MillisecondsAt),
    ];
    let (_, unit) = units.into_iter().find(|(name, _)| args.is(at, name))?;
    (at + 1 < args.len()).then_some((unit, at + 1))
}

pub(super) fn set(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let key = args.at(1);
    if args.len() == 3 {
        context.put(key, Kind::String, None, args.at(2))?;
        context.reply.ok();
        return Ok(());
    }
    let (mut expiry, mut must_exist, mut gets) = (Expiry::Drop, None, false);
    let mut at = 3;
    while at < args.len() {
        if args.is(at, "NX") && must_exist != Some(true) {
            must_exist = Some(false);
        } else if args.is(at, "XX") && must_exist != Some(false) {
            must_exist = Some(true);
        } else if args.is(at, "GET") {
            gets = true;
        } else if args.is(at, "KEEPTTL") && matches!(expiry, Expiry::Drop | Expiry::Keep) {
            expiry = Expiry::Keep;
        } else if let (Some((unit, value)), Expiry::Drop) = (expiry_option(args, at), expiry) {
            expiry = Expiry::At(unit, value);
            at = value;
        } else {
            return Err(SYNTAX);
        }
        at += 1;
    }
    let new_expiry = match expiry {
        Expiry::At(unit, value) => Some(deadline(args.at(value), unit, context.now, "set")?),
        _ => None,
    };
    let present = context.view(key, |record, reply, _| {
        if gets {
            match record {
                Some(record) if record.kind != Kind::String => return Err(WRONG_TYPE),
                record => reply.bulk_or_null(record.map(|record| record.payload)),
            }
        }
        Ok(record.map(|record| record.expiry))
    })?;
    if must_exist.is_some_and(|must_exist| must_exist != present.is_some()) {
        if !gets {
            context.reply.null();
        }
        return Ok(());
    }
    let kept = if expiry == Expiry::Keep { present.flatten() } else { new_expiry };
    context.put(key, Kind::String, kept, args.at(2))?;
    if !gets {
        context.reply.ok();
    }
    Ok(())
}

pub(super) fn setnx(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let is_new = !context.exists(args.at(1));
    if is_new {
        context.put(args.at(1), Kind::String, None, args.at(2))?;
    }
    context.reply.integer(i64::from(is_new));
    Ok(())
}

fn set_with_expiry(context: &mut Context<'_>, args: Args<'_>, unit: Unit, name: &str) -> Done {
    let expiry = deadline(args.at(2), unit, context.now, name)?;
    context.put(args.at(1), Kind::String, Some(expiry), args.at(3))?;
    context.reply.ok();
    Ok(())
}

pub(super) fn setex(context: &mut Context<'_>, args: Args<'_>) -> Done {
    set_with_expiry(context, args, Unit::Seconds, "setex")
}

pub(super) fn psetex(context: &mut Context<'_>, args: Args<'_>) -> Done {
    set_with_expiry(context, args, Unit::Milliseconds, "psetex")
}

pub(super) fn getset(context: &mut Context<'_>, args: Args<'_>) -> Done {
    get(context, args)?;
    context.put(args.at(1), Kind::String, None, args.at(2))
}

pub(super) fn getdel(context: &mut Context<'_>, args: Args<'_>) -> Done {
    get(context, args)?;
    context.delete(args.at(1))?;
    Ok(())
}

pub(super) fn getex(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let key = args.at(1);
    let (mut expiry, mut persists, mut at) = (None, false, 2);
    while at < args.len() {
        match expiry_option(args, at) {
            Some((unit, value)) if expiry.is_none() && !persists => {
                expiry = Some((unit, value));
                at = value + 1;
            }
            None if args.is(at, "PERSIST") && expiry.is_none() => {
                persists = true;
                at += 1;
            }
            _ => return Err(SYNTAX),
        }
    }
    let Some((kind, present)) = context.head(key) else {
        context.misses += 1;
        context.reply.null();
        return Ok(());
    };
    if kind != Kind::String {
        return Err(WRONG_TYPE);
    }
    let expiry = match expiry {
        Some((unit, value)) => Some(deadline(args.at(value), unit, context.now, "getex")?),
        None => None,
    };
    get(context, args)?;
    if expiry.is_some_and(|expiry| expiry <= context.as_of) {
        context.delete(key)?;
    } else if expiry.is_some() || persists && present.is_some() {
        super::expiry::set_expiry(context, key, expiry)?;
    }
    Ok(())
}

pub(super) fn mset(context: &mut Context<'_>, args: Args<'_>) -> Done {
    put_pairs(context, args, "mset")?;
    context.reply.ok();
    Ok(())
}

pub(super) fn msetnx(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let is_new =
        args.len().is_multiple_of(2) || args.from(1).step_by(2).all(|key| !context.exists(key));
    if is_new {
        put_pairs(context, args, "msetnx")?;
    }
    context.reply.integer(i64::from(is_new));
    Ok(())
}

fn put_pairs(context: &mut Context<'_>, args: Args<'_>, name: &str) -> Done {
    if args.len().is_multiple_of(2) {
        return Err(Fail::new(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let (mut records, mut ends) = (std::mem::take(context.scratch), Vec::new());
    records.clear();
    for value in args.from(2).step_by(2) {
        Record::push_head(&mut records, Kind::String, None);
        records.extend_from_slice(value);
        ends.push(records.len());
    }
    let (mut changes, mut start) = (Vec::with_capacity(ends.len()), 0);
    for (key, end) in args.from(1).step_by(2).zip(ends) {
        changes.push((key, Some(&records[start..end])));
        start = end;
    }
    let done = context.change_together(&changes);
    *context.scratch = records;
    done
}

pub(super) fn strlen(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.look_at(args.at(1), Kind::String, |record, reply| {
        reply.count(record.map_or(0, |record| record.payload.len()));
    })
}

/// Runs `f` on a string, or on an empty one, to make its next state. Keeps the time to live.
fn change(
    context: &mut Context<'_>,
    key: &[u8],
    f: impl FnOnce(Option<&[u8]>, &mut Vec<u8>) -> Done,
) -> Done {
    context.view(key, |record, _, scratch| {
        match record {
            Some(record) if record.kind != Kind::String => return Err(WRONG_TYPE),
            _ => {}
        }
        Record::begin(scratch, Kind::String, record.and_then(|record| record.expiry));
        f(record.map(|record| record.payload), scratch)
    })?;
    context.put_scratch(key)
}

fn increment(context: &mut Context<'_>, key: &[u8], by: i64) -> Done {
    let mut sum = 0;
    change(context, key, |value, next| {
        let value = parse_i64(value.unwrap_or(b"0")).ok_or(NOT_INTEGER)?;
        let Some(total) = value.checked_add(by) else {
            return fail!("ERR increment or decrement would overflow");
        };
        sum = total;
        next.extend_from_slice(itoa::Buffer::new().format(total).as_bytes());
        Ok(())
    })?;
    context.reply.integer(sum);
    Ok(())
}

pub(super) fn incr(context: &mut Context<'_>, args: Args<'_>) -> Done {
    increment(context, args.at(1), 1)
}

pub(super) fn decr(context: &mut Context<'_>, args: Args<'_>) -> Done {
    increment(context, args.at(1), -1)
}

pub(super) fn incrby(context: &mut Context<'_>, args: Args<'_>) -> Done {
    increment(context, args.at(1), parse_i64(args.at(2)).ok_or(NOT_INTEGER)?)
}

pub(super) fn decrby(context: &mut Context<'_>, args: Args<'_>) -> Done {
    match parse_i64(args.at(2)).ok_or(NOT_INTEGER)?.checked_neg() {
        Some(by) => increment(context, args.at(1), by),
        None => fail!("ERR decrement would overflow"),
    }
}

pub(super) fn incrbyfloat(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let mut text = String::new();
    change(context, args.at(1), |value, next| {
        let value = Number::parse(value.unwrap_or(b"0")).ok_or(NOT_FLOAT)?;
        let by = Number::parse(args.at(2)).ok_or(NOT_FLOAT)?;
        match add_floats(value, by) {
            Some(sum) => text = sum,
            None => return fail!("ERR increment would produce NaN or Infinity"),
        }
        next.extend_from_slice(text.as_bytes());
        Ok(())
    })?;
    context.reply.text(&text);
    Ok(())
}

fn check_length(len: usize) -> Done {
    match len > MOST_BYTES {
        true => fail!("ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        false => Ok(()),
    }
}

pub(super) fn append(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let mut len = 0;
    change(context, args.at(1), |value, next| {
        let value = value.unwrap_or_default();
        len = value.len() + args.at(2).len();
        check_length(len)?;
        next.extend_from_slice(value);
        next.extend_from_slice(args.at(2));
        Ok(())
    })?;
    context.reply.count(len);
    Ok(())
}

pub(super) fn getrange(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let (Some(start), Some(end)) = (parse_i64(args.at(2)), parse_i64(args.at(3))) else {
        return Err(NOT_INTEGER);
    };
    context.look_at(args.at(1), Kind::String, |record, reply| {
        let value = record.map_or(&[][..], |record| record.payload);
        reply.bulk(range(value, start, end));
    })
}

/// Returns the part of a string between two places, both included; negative ones count from the end.
fn range(value: &[u8], start: i64, end: i64) -> &[u8] {
    let len = value.len() as i64;
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    let place = |at: i64| if at < 0 { (len + at).max(0) } else { at };
    let (start, end) = (place(start), place(end).min(len - 1));
    if start > end { &[] } else { &value[start as usize..=end as usize] }
}

pub(super) fn setrange(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let (key, part) = (args.at(1), args.at(3));
    let offset = parse_i64(args.at(2)).ok_or(NOT_INTEGER)?;
    let Ok(offset) = usize::try_from(offset) else {
        return fail!("ERR offset is out of range");
    };
    let present = context.view(key, |record, _, _| match record {
        Some(record) if record.kind != Kind::String => Err(WRONG_TYPE),
        record => Ok(record.map(|record| record.payload.len())),
    })?;
    if part.is_empty() {
        context.reply.count(present.unwrap_or(0));
        return Ok(());
    }
    check_length(offset.saturating_add(part.len()))?;
    let mut len = 0;
    change(context, key, |value, next| {
        let head = next.len();
        next.extend_from_slice(value.unwrap_or_default());
        len = (next.len() - head).max(offset + part.len());
        next.resize(head + len, 0);
        next[head + offset..head + offset + part.len()].copy_from_slice(part);
        Ok(())
    })?;
    context.reply.count(len);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_are_cut_to_the_string() {
        for (start, end, part) in [
            (0, -1, "abcde"),
            (1, 2, "bc"),
            (-2, -1, "de"),
            (-100, 1, "ab"),
            (3, 100, "de"),
            (4, 2, ""),
            (5, 9, ""),
            (-1, -2, ""),
            (0, -100, "a"),
        ] {
            assert_eq!(range(b"abcde", start, end), part.as_bytes(), "{start} {end}");
        }
        assert_eq!(range(b"", 0, -1), b"");
        assert_eq!(range(b"", -5, 0), b"");
    }
}
