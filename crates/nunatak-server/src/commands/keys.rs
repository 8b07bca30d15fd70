//! Keys, whatever their values are.

use super::collection::Whole;
use super::context::{Context, Done, NOT_INTEGER, SYNTAX, fail};
use crate::protocol::glob;
use crate::protocol::numbers::{parse_i64, parse_u64};
use crate::protocol::request::Args;
use crate::store::record::{Items, Kind, Record, members};

pub(super) fn del(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let mut count = 0;
    for key in args.from(1) {
        count += i64::from(context.delete(key)?);
    }
    context.reply.integer(count);
    Ok(())
}

pub(super) fn exists(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let mut count = 0;
    for key in args.from(1) {
        count += i64::from(context.look(key, |record, _| record.is_some()));
    }
    context.reply.integer(count);
    Ok(())
}

pub(super) fn key_type(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let kind = context.head(args.at(1)).map_or("none", |(kind, _)| kind.name());
    context.reply.simple(kind);
    Ok(())
}

/// Copies a key's record to the scratch buffer, and returns whether the key is there. Items in segments are not
/// copied.
fn copy_to_scratch(context: &mut Context<'_>, key: &[u8]) -> bool {
    context.view(key, |record, _, scratch| {
        if let Some(record) = record {
            record.copy_with(scratch, record.expiry);
        }
        record.is_some()
    })
}

fn rename_if(
    context: &mut Context<'_>,
    args: Args<'_>,
    only_new: bool,
) -> Result<bool, super::context::Fail> {
    let (from, to) = (args.at(1), args.at(2));
    if !context.exists(from) {
        return fail!("ERR no such key");
    }
    if from == to {
        return Ok(!only_new);
    }
    if only_new && context.exists(to) {
        return Ok(false);
    }
    copy_to_scratch(context, from);
    let record = std::mem::take(context.scratch);
    let done = context.change_together(&[(to, Some(&record)), (from, None)]);
    *context.scratch = record;
    done.map(|()| true)
}

pub(super) fn rename(context: &mut Context<'_>, args: Args<'_>) -> Done {
    rename_if(context, args, false)?;
    context.reply.ok();
    Ok(())
}

pub(super) fn renamenx(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let is_done = rename_if(context, args, true)?;
    context.reply.integer(i64::from(is_done));
    Ok(())
}

/// Passes the living keys of all parts to `found`.
fn for_each_key(context: &mut Context<'_>, mut found: impl FnMut(&[u8])) -> Done {
    let (now, mut part) = (context.now, 0);
    let space = context.whole_space()?;
    // A guard for each part, so that memory is given back meanwhile.
    while space.read(|guard| {
        guard.read_part(part, &mut |_, key, record| {
            if Record::read(record, now).is_some() {
                found(key);
            }
        })
    }) {
        part += 1;
    }
    Ok(())
}

pub(super) fn keys(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let (mut all, mut count) = (Vec::new(), 0);
    for_each_key(context, |key| {
        if glob::matches(args.at(1), key) {
            crate::store::record::push_item(&mut all, key);
            count += 1;
        }
    })?;
    context.reply.array(count);
    Items::of(&all).for_each(|key| context.reply.bulk(key));
    Ok(())
}

pub(super) fn randomkey(context: &mut Context<'_>, _: Args<'_>) -> Done {
    let now = context.now;
    let space = context.whole_space()?;
    let found = crate::sample::random_key(space, |record| Record::read(record, now).is_some());
    context.reply.bulk_or_null(found.as_deref());
    Ok(())
}

/// The options of `SCAN`, `SSCAN` and `HSCAN`.
#[derive(Debug)]
pub(super) struct ScanOptions<'a> {
    pub(super) pattern: Option<&'a [u8]>,
    pub(super) count: usize,
    kind: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    pub(super) fn read(
        args: Args<'a>,
        first: usize,
        takes_type: bool,
    ) -> Result<Self, super::context::Fail> {
        let mut options = Self { pattern: None, count: 10, kind: None };
        for at in (first..args.len()).step_by(2) {
            if at + 1 >= args.len() {
                return Err(SYNTAX);
            }
            if args.is(at, "COUNT") {
                let count = parse_i64(args.at(at + 1)).ok_or(NOT_INTEGER)?;
                options.count = usize::try_from(count).ok().filter(|&it| it > 0).ok_or(SYNTAX)?;
            } else if args.is(at, "MATCH") {
                options.pattern = Some(args.at(at + 1));
            } else if takes_type && args.is(at, "TYPE") {
                options.kind = Some(args.at(at + 1));
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, text))
    }
}

/// A cursor has the part of the map that is read next, and the least word of a key that was not
/// returned yet, without its lowest bits.
const WORD_BITS: u32 = 40;
const MOST_WORD: u64 = 1 << WORD_BITS;

pub(super) fn scan(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let Some(cursor) = parse_u64(args.at(1)) else { return fail!("ERR invalid cursor") };
    let options = ScanOptions::read(args, 2, true)?;
    context.write_pending()?;
    let space = context.shared.store.space(context.session.db);
    let (mut part, mut least) = ((cursor >> WORD_BITS) as usize, cursor % MOST_WORD);
    let (mut found, mut seen) = (Vec::new(), 0);
    // Parts may be empty. A call looks at some of them only, so that it takes a bounded time; of a small
    // map at all.
    let mut parts_left = 1024 + options.count;
    let next = loop {
        let (mut entries, mut keys) = (Vec::new(), Vec::new());
        let are_more = space.read(|guard| {
            guard.read_part(part, &mut |word, key, record| {
                let word = word >> (u64::BITS - WORD_BITS);
                if word >= least && !Record::is_hidden(record) {
                    let living = Record::read(record, context.now).filter(|record| {
                        options.kind.is_none_or(|kind| {
                            kind.eq_ignore_ascii_case(record.kind.name().as_bytes())
                        }) && options.matches(key)
                    });
                    let start = keys.len();
                    keys.extend_from_slice(living.map_or(&[][..], |_| key));
                    entries.push((word, living.is_some(), start, keys.len()));
                }
            })
        });
        entries.sort_unstable_by_key(|entry| entry.0);
        let mut last = None;
        for &(word, is_living, start, end) in &entries {
            // Keys with equal words are returned together.
            if seen >= options.count && last.is_some_and(|last| last != word) {
                break;
            }
            (last, seen) = (Some(word), seen + 1);
            if is_living {
                found.push(keys[start..end].to_vec());
            }
        }
        let is_whole = entries.last().is_none_or(|entry| Some(entry.0) == last);
        parts_left -= 1;
        match (is_whole, are_more) {
            (false, _) => break (part as u64) << WORD_BITS | last.map_or(0, |last| last + 1),
            (true, false) => break 0,
            (true, true) => (part, least) = (part + 1, 0),
        }
        if seen >= options.count || parts_left == 0 {
            break (part as u64) << WORD_BITS;
        }
    };
    context.reply.array(2);
    context.reply.text(&next.to_string());
    context.reply.array(found.len());
    found.iter().for_each(|key| context.reply.bulk(key));
    Ok(())
}

pub(super) fn dbsize(context: &mut Context<'_>, _: Args<'_>) -> Done {
    context.write_pending()?;
    let keys = context.shared.store.keys(context.session.db);
    context.reply.count(keys);
    Ok(())
}

fn flush(context: &mut Context<'_>, args: Args<'_>, dbs: std::ops::Range<usize>) -> Done {
    if args.len() > 2 || args.len() == 2 && !args.is(1, "SYNC") && !args.is(1, "ASYNC") {
        return Err(SYNTAX);
    }
    context.write_pending()?;
    let store = &context.shared.store;
    for db in dbs.clone() {
        let watched = |key: &[u8]| store.space(db).get(key, |record| record.is_some());
        store.watches.touch_all(|watch| watch.db == db && watched(&watch.key));
        store.clear(db)?;
    }
    context.is_changed = true;
    context.reply.ok();
    Ok(())
}

pub(super) fn flushdb(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let db = context.session.db;
    flush(context, args, db..db + 1)
}

pub(super) fn flushall(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let all = 0..context.shared.store.spaces().len();
    flush(context, args, all)
}

/// Returns for how many seconds a key was not used, and how often it was used: whichever the policy looks at.
fn uses(context: &Context<'_>, key: &[u8]) -> (Option<i64>, Option<i64>) {
    let (hash, now) = (context.shared.store.stripes.hash(context.session.db, key), context.now);
    let counts = context.shared.settings.policy().counts_uses();
    match context.ages {
        Some(ages) => (ages.idle_seconds(hash, now), ages.frequency(hash, now)),
        None if counts => (None, Some(0)),
        None => (Some(0), None),
    }
}

/// The most members, and bytes of one, that Redis has in its short encodings.
const MOST_INTSET: usize = 512;
const MOST_LISTPACK: usize = 128;
const MOST_ITEM: usize = 64;

/// Returns how Redis would have a value in memory.
fn encoding_of(context: &mut Context<'_>, key: &[u8]) -> Option<&'static str> {
    let known = context.view(key, |record, _, _| {
        record.map(|record| match record.kind {
            Kind::String if parse_i64(record.payload).is_some() => Some("int"),
            Kind::String if record.payload.len() <= 44 => Some("embstr"),
            Kind::String => Some("raw"),
            _ => record.root().filter(|it| it.members > MOST_INTSET as u64).map(|_| "hashtable"),
        })
    })?;
    if known.is_some() {
        return known;
    }
    let Whole { kind, payload, .. } = context.whole(key)?;
    let mut all = members(kind, &payload);
    let count = all.clone().count();
    let is_short = |(item, value): (&[u8], &[u8])| item.len().max(value.len()) <= MOST_ITEM;
    Some(match kind {
        Kind::Set if count <= MOST_INTSET && all.all(|it| parse_i64(it.0).is_some()) => "intset",
        Kind::Hash if count <= MOST_LISTPACK && all.all(is_short) => "listpack",
        _ => "hashtable",
    })
}

pub(super) fn object(context: &mut Context<'_>, args: Args<'_>) -> Done {
    if args.len() != 3 {
        return Err(super::unknown_subcommand(args));
    }
    // It is no use of the key.
    let encoding = encoding_of(context, args.at(2));
    let Some(encoding) = encoding else {
        context.reply.null();
        return Ok(());
    };
    if args.is(1, "ENCODING") {
        context.reply.text(encoding);
    } else if args.is(1, "REFCOUNT") {
        context.reply.integer(1);
    } else if args.is(1, "IDLETIME") {
        let (seconds, _) = uses(context, args.at(2));
        let Some(seconds) = seconds else {
            return fail!(
                "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
                 switching between policies at runtime LRU and LFU data will take some time to adjust."
            );
        };
        context.reply.integer(seconds);
    } else if args.is(1, "FREQ") {
        let (_, Some(count)) = uses(context, args.at(2)) else {
            return fail!(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
                 that when switching between policies at runtime LRU and LFU data will take some time to \
                 adjust."
            );
        };
        context.reply.integer(count);
    } else {
        return Err(super::unknown_subcommand(args));
    }
    Ok(())
}
