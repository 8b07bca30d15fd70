//! Times to live.

use super::context::{Context, Done, Fail, NOT_INTEGER, fail};
use crate::protocol::numbers::parse_i64;
use crate::protocol::request::Args;

/// What a time is given in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
    /// Since 1970.
    SecondsAt,
    /// Since 1970.
    MillisecondsAt,
}

impl Unit {
    fn is_seconds(self) -> bool {
        matches!(self, Self::Seconds | Self::SecondsAt)
    }

    fn is_relative(self) -> bool {
        matches!(self, Self::Seconds | Self::Milliseconds)
    }

    /// Returns a time as milliseconds since 1970; `None` if it does not fit.
    fn since_1970(self, time: i64, now: u64) -> Option<i64> {
        let time = if self.is_seconds() { time.checked_mul(1000)? } else { time };
        if self.is_relative() { time.checked_add(now as i64) } else { Some(time) }
    }
}

fn invalid(command: &str) -> Fail {
    Fail::new(format!("ERR invalid expire time in '{command}' command"))
}

/// Reads a time of the future, as milliseconds since 1970.
pub(super) fn deadline(text: &[u8], unit: Unit, now: u64, command: &str) -> Result<u64, Fail> {
    let time = parse_i64(text).ok_or(NOT_INTEGER)?;
    let time = Some(time).filter(|&time| time > 0).and_then(|time| unit.since_1970(time, now));
    time.map(|time| time as u64).ok_or_else(|| invalid(command))
}

/// Gives a key that exists another time to live.
pub(super) fn set_expiry(context: &mut Context<'_>, key: &[u8], expiry: Option<u64>) -> Done {
    context.view(key, |record, _, scratch| {
        if let Some(record) = record {
            record.copy_with(scratch, expiry);
        }
    });
    context.put_scratch(key)
}

/// The conditions of `EXPIRE`.
#[derive(Debug, Clone, Copy, Default)]
struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Conditions {
    fn read(args: Args<'_>) -> Result<Self, Fail> {
        let mut conditions = Self::default();
        for at in 3..args.len() {
            if args.is(at, "NX") {
                conditions.nx = true;
            } else if args.is(at, "XX") {
                conditions.xx = true;
            } else if args.is(at, "GT") {
                conditions.gt = true;
            } else if args.is(at, "LT") {
                conditions.lt = true;
            } else {
                let option = String::from_utf8_lossy(args.at(at)).into_owned();
                return Err(Fail::new(format!("ERR Unsupported option {option}")));
            }
        }
        let Self { nx, xx, gt, lt } = conditions;
        if nx && (xx || gt || lt) {
            return fail!("ERR NX and XX, GT or LT options at the same time are not compatible");
        }
        if gt && lt {
            return fail!("ERR GT and LT options at the same time are not compatible");
        }
        Ok(conditions)
    }

    fn allow(self, present: Option<u64>, new: i64) -> bool {
        let present = present.map(|present| present as i64);
        !(self.nx && present.is_some()
            || self.xx && present.is_none()
            || self.gt && present.is_none_or(|present| new <= present)
            || self.lt && present.is_some_and(|present| new >= present))
    }
}

fn expire_as(context: &mut Context<'_>, args: Args<'_>, unit: Unit, name: &str) -> Done {
    let key = args.at(1);
    let conditions = Conditions::read(args)?;
    let time = parse_i64(args.at(2)).ok_or(NOT_INTEGER)?;
    let expiry = unit.since_1970(time, context.now).ok_or_else(|| invalid(name))?;
    let is_done = match context.head(key) {
        Some((_, present)) if conditions.allow(present, expiry) => {
            if expiry <= context.as_of as i64 {
                context.delete(key)?;
            } else {
                set_expiry(context, key, Some(expiry.max(0) as u64))?;
            }
            true
        }
        _ => false,
    };
    context.reply.integer(i64::from(is_done));
    Ok(())
}

pub(super) fn expire(context: &mut Context<'_>, args: Args<'_>) -> Done {
    expire_as(context, args, Unit::Seconds, "expire")
}

pub(super) fn pexpire(context: &mut Context<'_>, args: Args<'_>) -> Done {
    expire_as(context, args, Unit::Milliseconds, "pexpire")
}

pub(super) fn expireat(context: &mut Context<'_>, args: Args<'_>) -> Done {
    expire_as(context, args, Unit::SecondsAt, "expireat")
}

pub(super) fn pexpireat(context: &mut Context<'_>, args: Args<'_>) -> Done {
    expire_as(context, args, Unit::MillisecondsAt, "pexpireat")
}

fn time_left(context: &mut Context<'_>, key: &[u8], f: impl FnOnce(u64, u64) -> u64) -> Done {
    let now = context.now;
    context.look(key, |record, reply| {
        reply.integer(match record.map(|record| record.expiry) {
            None => -2,
            Some(None) => -1,
            Some(Some(expiry)) => f(expiry, now) as i64,
        });
    });
    Ok(())
}

pub(super) fn ttl(context: &mut Context<'_>, args: Args<'_>) -> Done {
    time_left(context, args.at(1), |expiry, now| (expiry - now + 500) / 1000)
}

pub(super) fn pttl(context: &mut Context<'_>, args: Args<'_>) -> Done {
    time_left(context, args.at(1), |expiry, now| expiry - now)
}

pub(super) fn expiretime(context: &mut Context<'_>, args: Args<'_>) -> Done {
    time_left(context, args.at(1), |expiry, _| (expiry + 500) / 1000)
}

pub(super) fn pexpiretime(context: &mut Context<'_>, args: Args<'_>) -> Done {
    time_left(context, args.at(1), |expiry, _| expiry)
}

pub(super) fn persist(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let expires = context.head(args.at(1)).is_some_and(|(_, expiry)| expiry.is_some());
    if expires {
        set_expiry(context, args.at(1), None)?;
    }
    context.reply.integer(i64::from(expires));
    Ok(())
}
