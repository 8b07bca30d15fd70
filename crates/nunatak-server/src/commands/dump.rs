//! Values as bytes: `DUMP`, `RESTORE`, and `MIGRATE`, which does both at two servers.

use super::Locks;
use super::collection::Whole;
use super::context::{Context, Done, Fail, NOT_INTEGER, SYNTAX, fail};
use crate::protocol::client::{Answer, Connection, encode};
use crate::protocol::numbers::parse_i64;
use crate::protocol::request::Args;
use crate::store::rdb::{self, RdbError};
use crate::store::stripes::Stripes;
use std::borrow::Cow;
use std::io;
use std::iter::once;
use std::time::Duration;

pub(super) fn dump(context: &mut Context<'_>, args: Args<'_>) -> Done {
    context.look(args.at(1), |_, _| ());
    let value = context.whole(args.at(1)).map(|whole| whole.encode());
    context.reply.bulk_or_null(value.as_deref());
    Ok(())
}

/// The options of `RESTORE`.
#[derive(Default)]
struct Restore {
    replaces: bool,
    is_absolute: bool,
}

impl Restore {
    fn parse(args: Args<'_>) -> Result<Self, Fail> {
        let (mut options, mut at) = (Self::default(), 4);
        while at < args.len() {
            if args.is(at, "REPLACE") {
                options.replaces = true;
            } else if args.is(at, "ABSTTL") {
                options.is_absolute = true;
            } else if (args.is(at, "IDLETIME") || args.is(at, "FREQ")) && at + 1 < args.len() {
                // There is no order of use that they could be about.
                if parse_i64(args.at(at + 1)).ok_or(NOT_INTEGER)? < 0 {
                    return fail!("ERR Invalid IDLETIME value, must be >= 0");
                }
                at += 1;
            } else {
                return Err(SYNTAX);
            }
            at += 1;
        }
        Ok(options)
    }
}

pub(super) fn restore(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let (key, options) = (args.at(1), Restore::parse(args)?);
    if !options.replaces && context.exists(key) {
        return fail!("BUSYKEY Target key name already exists.");
    }
    let ttl = parse_i64(args.at(2)).ok_or(NOT_INTEGER)?;
    let Ok(ttl) = u64::try_from(ttl) else {
        return fail!("ERR Invalid TTL value, must be >= 0");
    };
    let (kind, payload) = match rdb::decode(args.at(3)) {
        Ok(decoded) => decoded,
        Err(RdbError::Footer) => return fail!("ERR DUMP payload version or checksum are wrong"),
        Err(_) => return fail!("ERR Bad data format"),
    };
    let base = if options.is_absolute { 0 } else { context.now };
    let expiry = (ttl > 0).then(|| ttl.saturating_add(base));
    if expiry.is_some_and(|expiry| expiry <= context.as_of) {
        context.delete(key)?;
    } else {
        context.put_whole(context.session.db, key, &Whole { kind, expiry, payload })?;
    }
    context.reply.ok();
    Ok(())
}

/// The arguments of `MIGRATE`.
struct Migrate<'a> {
    host: Cow<'a, str>,
    port: u16,
    db: i64,
    timeout: Duration,
    copies: bool,
    replaces: bool,
    credentials: Vec<&'a [u8]>,
    keys: Vec<&'a [u8]>,
}

impl<'a> Migrate<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Fail> {
        let number = |at| parse_i64(args.at(at)).ok_or(NOT_INTEGER);
        let timeout = match number(5)? {
            millis if millis > 0 => millis as u64,
            _ => 1000,
        };
        let mut this = Self {
            host: String::from_utf8_lossy(args.at(1)),
            port: u16::try_from(number(2)?).map_err(|_| NOT_INTEGER)?,
            db: number(4)?,
            timeout: Duration::from_millis(timeout),
            copies: false,
            replaces: false,
            credentials: Vec::new(),
            keys: Some(args.at(3)).filter(|key| !key.is_empty()).into_iter().collect(),
        };
        let mut at = 6;
        while at < args.len() {
            if args.is(at, "COPY") {
                this.copies = true;
            } else if args.is(at, "REPLACE") {
                this.replaces = true;
            } else if args.is(at, "AUTH") && at + 1 < args.len() {
                this.credentials = vec![args.at(at + 1)];
                at += 1;
            } else if args.is(at, "AUTH2") && at + 2 < args.len() {
                this.credentials = vec![args.at(at + 1), args.at(at + 2)];
                at += 2;
            } else if args.is(at, "KEYS") {
                if !this.keys.is_empty() {
                    return fail!(
                        "ERR When using MIGRATE KEYS option, the key argument must be set to the \
                         empty string"
                    );
                }
                this.keys = args.from(at + 1).collect();
                break;
            } else {
                return Err(SYNTAX);
            }
            at += 1;
        }
        Ok(this)
    }
}

fn io_error(what: &str, error: &io::Error) -> Fail {
    match error.kind() {
        io::ErrorKind::InvalidData => Fail::new(format!("IOERR {error}")),
        _ => Fail::new(format!("IOERR error or timeout {what} target instance")),
    }
}

/// Returns the commands that make the keys at the target, and the keys that are here.
fn transfer<'a>(
    context: &mut Context<'_>,
    migrate: &Migrate<'a>,
    is_cluster: bool,
) -> (Vec<u8>, Vec<&'a [u8]>) {
    let (mut bytes, mut found, now) = (Vec::new(), Vec::new(), context.now);
    let name: &[u8] = if is_cluster { b"RESTORE-ASKING" } else { b"RESTORE" };
    for &key in &migrate.keys {
        let Some(whole) = context.whole(key) else { continue };
        let (value, expiry) = (whole.encode(), whole.expiry);
        // An expiry in the next millisecond is one.
        let ttl = expiry.map_or(0, |expiry| expiry.saturating_sub(now).max(1)).to_string();
        let mut command = vec![name, key, ttl.as_bytes(), &value];
        if migrate.replaces {
            command.push(b"REPLACE");
        }
        encode(&mut bytes, command.into_iter());
        found.push(key);
    }
    (bytes, found)
}

/// Moves keys to another server. They are locked meanwhile, so that no change of them is lost.
pub(super) fn migrate(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let migrate = Migrate::parse(args)?;
    if context.exec.is_some() {
        return fail!("ERR MIGRATE is not allowed in transactions");
    }
    let (shared, db) = (context.shared, context.session.db);
    let mut target =
        Connection::open(&migrate.host, migrate.port, migrate.timeout, shared.node_tls.as_ref())
            .map_err(|error| io_error("connecting to", &error))?;
    let mut greeting = Vec::new();
    if !migrate.credentials.is_empty() {
        let words = once(&b"AUTH"[..]).chain(migrate.credentials.iter().copied());
        encode(&mut greeting, words.collect::<Vec<_>>().into_iter());
    }
    if migrate.db != 0 {
        encode(&mut greeting, [b"SELECT", migrate.db.to_string().as_bytes()].into_iter());
    }
    let greetings = usize::from(!migrate.credentials.is_empty()) + usize::from(migrate.db != 0);
    let stripes = &shared.store.stripes;
    let stripe = |key: &&[u8]| Stripes::of(stripes.hash(db, key));
    let mut held: Vec<u32> = migrate.keys.iter().map(stripe).collect();
    held.sort_unstable();
    held.dedup();
    let was_changed = std::mem::take(&mut context.is_changed);
    let mut locks = Locks::take(stripes, &held, true);
    let command = super::table::find(args.at(0));
    let role = command.map_or(Ok(()), |command| super::check_role(context, command));
    // One by one: slots may leave together.
    let mut keys = migrate.keys.iter();
    let checked = role
        .and_then(|()| keys.try_for_each(|&key| super::cluster::check_owned(context, once(key))));
    let done = checked.and_then(|()| send(context, (&migrate, &greeting, greetings), &mut target));
    locks.is_changed = context.is_changed;
    context.is_changed |= was_changed;
    done
}

fn send(
    context: &mut Context<'_>,
    (migrate, greeting, greetings): (&Migrate<'_>, &[u8], usize),
    target: &mut Connection,
) -> Done {
    let (bytes, found) = transfer(context, migrate, context.shared.cluster.is_some());
    if found.is_empty() {
        context.reply.simple("NOKEY");
        return Ok(());
    }
    let sent = target.send(greeting).and_then(|()| target.send(&bytes));
    sent.map_err(|error| io_error("writing to", &error))?;
    let refused = |answer: io::Result<Answer>| match answer {
        Ok(Answer::Error(text)) => {
            Err(Fail::new(format!("ERR Target instance replied with error: {text}")))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(io_error("reading from", &error)),
    };
    for _ in 0..greetings {
        refused(target.read())?;
    }
    // Keys that the target has are removed, whatever becomes of the others.
    let mut done = Ok(());
    for key in found {
        let answer = target.read();
        let is_broken = answer.is_err();
        match refused(answer) {
            Ok(()) if !migrate.copies => drop(context.delete(key)?),
            Ok(()) => {}
            Err(fail) => done = done.and(Err(fail)),
        }
        if is_broken {
            break;
        }
    }
    done.map(|()| context.reply.ok())
}
