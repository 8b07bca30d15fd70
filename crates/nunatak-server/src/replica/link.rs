//! The link to a primary: connecting, the handshake, and what becomes of a link that is lost.

use super::apply::Applier;
use super::load::{Transfer, load};
use super::source::Source;
use super::{Position, Stage, Target};
use crate::protocol::client::encode;
use crate::shared::{Shared, now};
use rustls::ClientConfig;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long the thread sleeps if there is no primary.
const SLEEP: Duration = Duration::from_millis(100);
/// The pause before the second attempt; it doubles up to `MOST_PAUSE` while none comes up.
const PAUSE: Duration = Duration::from_secs(1);
const MOST_PAUSE: Duration = Duration::from_secs(30);
/// The longest line of a handshake.
const MOST_LINE: usize = 4096;

/// Why a link has ended.
#[derive(Debug)]
pub(super) enum Fault {
    /// It is not needed any more.
    Over,
    /// It is tried again.
    Lost(String),
    /// It is not tried again until the next `REPLICAOF`.
    Halted(String),
}

impl Fault {
    pub(super) fn lost(why: impl Display) -> Self {
        Self::Lost(why.to_string())
    }

    /// As an error of the map, or of its log, says.
    pub(super) fn refused(error: nunatak::Error) -> Self {
        Self::Halted(format!("the change was not stored: {error}"))
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::lost("the primary has closed the connection"),
            io::ErrorKind::TimedOut => Self::lost("the primary was silent for too long"),
            _ => Self::lost(error),
        }
    }
}

/// What a primary answers to `PSYNC`.
enum Sync {
    /// The stream goes on where the replica is; the stream may have another name.
    Partial(Option<String>),
    /// A file follows, then the stream from an offset on.
    Full(String, u64),
}

/// Follows primaries, one after the other. It is a thread of its own.
#[derive(Debug)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    applier: Applier,
    tls: Option<Arc<ClientConfig>>,
}

impl Link {
    /// # Errors
    /// If the system gives no file descriptors.
    pub(crate) fn new(shared: &Arc<Shared>, tls: Option<Arc<ClientConfig>>) -> io::Result<Self> {
        Ok(Self { shared: Arc::clone(shared), applier: Applier::new(shared)?, tls })
    }

    /// Runs until the server is stopped.
    pub(crate) fn run(&mut self) {
        let shared = Arc::clone(&self.shared);
        let (replica, settings) = (&shared.replica, &shared.settings);
        let (mut last, mut pause) = (0, PAUSE);
        while !shared.is_stopping() {
            let Some((target, generation)) = replica.wait(SLEEP) else { continue };
            if std::mem::replace(&mut last, generation) != generation {
                pause = PAUSE;
                tell!("following the primary {target}");
            }
            let mut was_up = false;
            let fault = self.follow(&target, generation, &mut was_up);
            let is_over = shared.is_stopping() || !replica.is_current(generation);
            let (why, halts) = match fault {
                _ if is_over => continue,
                Ok(()) | Err(Fault::Over) => continue,
                Err(Fault::Lost(why)) => (why, false),
                Err(Fault::Halted(why)) => (why, true),
            };
            let goes_on = if halts { "; stopped until the next REPLICAOF" } else { "" };
            tell!("the link to the primary {target} is down: {why}{goes_on}");
            replica.change(generation, settings, |plan, _| {
                if plan.stage == Stage::Connected || plan.down_since.is_none() {
                    plan.down_since = Some(now().as_secs());
                }
                (plan.stage, plan.failure, plan.is_halted) = (Stage::Connect, Some(why), halts);
            });
            if !halts {
                pause = if was_up { PAUSE } else { pause };
                replica.pause(generation, pause);
                pause = (2 * pause).min(MOST_PAUSE);
            }
        }
    }

    fn set_stage(&self, generation: u64, stage: Stage) {
        let shared = &self.shared;
        shared.replica.change(generation, &shared.settings, |plan, _| plan.stage = stage);
    }

    /// Follows a primary until the link ends.
    fn follow(&mut self, target: &Target, generation: u64, was_up: &mut bool) -> Result<(), Fault> {
        let shared = Arc::clone(&self.shared);
        let (replica, settings) = (&shared.replica, &shared.settings);
        self.set_stage(generation, Stage::Connecting);
        let mut source = Source::open(&shared, target, generation, self.tls.as_ref())?;
        self.set_stage(generation, Stage::Handshake);
        let position = replica.plan().position;
        let synced = self.handshake(&mut source, position.as_ref())?;
        let position = match (synced, position) {
            (Sync::Partial(id), Some(position)) => {
                tell!("going on at offset {} of the primary {target}", position.offset);
                Position { id: id.unwrap_or_else(|| position.id.clone()), ..position }
            }
            (Sync::Partial(_), None) => {
                return Err(Fault::lost("the primary goes on with nothing"));
            }
            (Sync::Full(id, offset), _) => {
                replica.change(generation, settings, |plan, _| {
                    (plan.position, plan.stage) = (None, Stage::Sync);
                });
                let transfer = Transfer::parse(&next_line(&mut source)?)?;
                let (keys, db) = load(&shared, &mut source, generation, &transfer)?;
                tell!("took over {keys} keys of the primary {target}");
                Position { id, offset, db }
            }
        };
        replica.change(generation, settings, |plan, _| {
            (plan.stage, plan.failure, plan.down_since) = (Stage::Connected, None, None);
            plan.position = Some(position.clone());
        });
        *was_up = true;
        self.applier.run(&shared, &mut source, (target, generation), position)
    }

    /// Sends a command, and returns the primary's line.
    fn ask(source: &mut Source<'_>, words: &[&[u8]]) -> Result<String, Fault> {
        let mut bytes = Vec::new();
        encode(&mut bytes, words.iter().copied());
        source.send(&bytes)?;
        next_line(source)
    }

    fn handshake(&self, source: &mut Source<'_>, at: Option<&Position>) -> Result<Sync, Fault> {
        let settings = &self.shared.settings;
        let wrong = |what: &str, line: &str| {
            Fault::lost(format!("the primary's reply to {what}: {}", line.escape_default()))
        };
        let pong = Self::ask(source, &[b"PING"])?;
        let needs_password = ["-NOAUTH", "-NOPERM", "-ERR operation not permitted"];
        if !pong.starts_with('+') && !needs_password.iter().any(|it| pong.starts_with(it)) {
            return Err(wrong("PING", &pong));
        }
        let (user, password) = settings.primary_credentials();
        if !password.is_empty() {
            let all = [&b"AUTH"[..], user.as_bytes(), password.as_bytes()];
            let words: Vec<&[u8]> = all.into_iter().filter(|word| !word.is_empty()).collect();
            let reply = Self::ask(source, &words)?;
            if !reply.starts_with('+') {
                return Err(wrong("AUTH", &reply));
            }
        }
        let port = if self.tls.is_some() || settings.port == 0 {
            settings.tls_port
        } else {
            settings.port
        };
        // Older primaries do not know all of it, and need not.
        Self::ask(source, &[b"REPLCONF", b"listening-port", port.to_string().as_bytes()])?;
        Self::ask(source, &[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"])?;
        let (id, next) = match at {
            Some(at) => (at.id.clone(), (at.offset + 1).to_string()),
            None => ("?".into(), "-1".into()),
        };
        let reply = Self::ask(source, &[b"PSYNC", id.as_bytes(), next.as_bytes()])?;
        let mut words = reply.split(' ');
        let is_id =
            |id: &str| id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match (words.next(), words.next(), words.next()) {
            (Some("+FULLRESYNC"), Some(id), Some(offset)) if is_id(id) => {
                let offset = offset.parse().map_err(|_| wrong("PSYNC", &reply))?;
                Ok(Sync::Full(id.into(), offset))
            }
            (Some("+CONTINUE"), None, _) => Ok(Sync::Partial(None)),
            (Some("+CONTINUE"), Some(id), None) if is_id(id) => Ok(Sync::Partial(Some(id.into()))),
            _ => Err(wrong("PSYNC", &reply)),
        }
    }
}

/// Reads a line. Empty ones only tell that the primary is alive.
fn next_line(source: &mut Source<'_>) -> Result<String, Fault> {
    loop {
        let line = source.line(MOST_LINE)?;
        if !line.is_empty() {
            return Ok(line);
        }
    }
}
