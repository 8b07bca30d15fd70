//! The stream of a primary: its commands run as those of a client do, in their order, without replies.
//!
//! What has arrived is parsed and run together, with the keys looked up beforehand: cache misses overlap. The
//! offset grows by the bytes of each command that was run, those of a transaction at its end.

use super::link::Fault;
use super::source::{BEAT, Source};
use super::{Position, Target};
use crate::acl::user::User;
use crate::ages::Ages;
use crate::clients::Client;
use crate::commands::context::Context;
use crate::commands::table::{self, Command, WRITE};
use crate::commands::{self, monitor};
use crate::protocol::client::encode;
use crate::protocol::reply::Reply;
use crate::protocol::request::{Args, Limits, Parser, Span};
use crate::pubsub::mailbox::{ReadyList, Wakes};
use crate::session::{Session, Upstream};
use crate::shared::{Shared, now};
use crate::stats::WorkerStats;
use crate::store::rdb::file::shown;
use crate::timing::Timing;
use mio::{Poll, Token, Waker};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The size of the buffer at first.
const BUFFER: usize = 256 << 10;
/// The most commands that are parsed together.
const MOST_COMMANDS: usize = 1024;
/// The most keys that are looked up together.
const MOST_KEYS: usize = 512;

/// A command that was parsed.
#[derive(Debug, Clone, Copy)]
struct Entry {
    command: Option<&'static Command>,
    /// Its arguments among all spans.
    first: usize,
    end: usize,
    /// The offset behind it in the input.
    position: usize,
}

/// Runs the commands of a stream.
#[derive(Debug)]
pub(super) struct Applier {
    stats: Arc<WorkerStats>,
    /// The session's thread is no thread of connections; it has a waker nevertheless.
    ready: Arc<ReadyList>,
    _poll: Poll,
    input: Vec<u8>,
    filled: usize,
    parser: Parser,
    spans: Vec<Span>,
    entries: Vec<Entry>,
    scratch: Vec<u8>,
    out: Vec<u8>,
    wakes: Wakes,
    timing: Timing,
}

/// Whether a primary's command changes keys by itself, or is about the stream.
fn is_streamed(command: &Command) -> bool {
    let is_about_stream = matches!(
        command.name,
        "select" | "ping" | "multi" | "exec" | "publish" | "spublish" | "replconf"
    );
    // `MIGRATE` would make this server connect elsewhere. A primary sends `DEL` for it.
    is_about_stream || command.has(WRITE) && command.name != "migrate"
}

/// What a stream that is applied is at.
struct Stream<'s> {
    shared: &'s Shared,
    session: Session,
    position: Position,
    /// The offset of the stream at the beginning of the input.
    base: u64,
    /// Milliseconds since 1970.
    now: u64,
    ages: Option<Arc<Ages>>,
    is_changed: bool,
}

impl Stream<'_> {
    /// Makes durable what was changed, if clients' changes would be now.
    fn commit(&mut self) -> Result<(), Fault> {
        let shared = self.shared;
        if std::mem::take(&mut self.is_changed)
            && (shared.settings.syncs() || shared.store.is_behind())
        {
            shared.store.commit().map_err(Fault::refused)?;
        }
        Ok(())
    }

    /// Tells the primary how far the stream was applied.
    fn acknowledge(&self, source: &mut Source<'_>) -> Result<(), Fault> {
        let (mut bytes, offset) = (Vec::new(), self.position.offset.to_string());
        encode(&mut bytes, [&b"REPLCONF"[..], b"ACK", offset.as_bytes()].into_iter());
        Ok(source.send(&bytes)?)
    }
}

impl Applier {
    pub(super) fn new(shared: &Shared) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), Token(0))?);
        Ok(Self {
            stats: shared.stats.add_worker(),
            ready: Arc::new(ReadyList::new(waker)),
            _poll: poll,
            input: Vec::new(),
            filled: 0,
            parser: Parser::default(),
            spans: Vec::new(),
            entries: Vec::new(),
            scratch: Vec::new(),
            out: Vec::new(),
            wakes: Wakes::new(),
            timing: Timing::default(),
        })
    }

    /// Makes the session of a link. Its user may do everything.
    fn session(&self, shared: &Shared, target: &Target, generation: u64) -> Session {
        let user = Arc::new(User::unlimited(b"default"));
        let created = (now().as_secs(), Arc::clone(&user.name));
        let names = (shared.next_client(), target.to_string(), String::new());
        let client = Arc::new(Client::new(names, (Arc::clone(&self.ready), 0), created));
        let mut session = Session::new(client, (Arc::clone(&self.ready), 0), user);
        session.upstream = Some(Upstream { generation, failure: None });
        session
    }

    /// Runs the commands that a primary sends, until the link ends.
    pub(super) fn run(
        &mut self,
        shared: &Shared,
        source: &mut Source<'_>,
        (target, generation): (&Target, u64),
        position: Position,
    ) -> Result<(), Fault> {
        let mut session = self.session(shared, target, generation);
        session.db = position.db;
        let base = position.offset;
        let mut stream =
            Stream { shared, session, position, base, now: 0, ages: None, is_changed: false };
        self.parser.restart(0);
        self.filled = 0;
        self.input.resize(BUFFER, 0);
        let done = self.run_stream(source, &mut stream);
        self.input = Vec::new();
        shared.replica.change(generation, &shared.settings, |plan, _| {
            plan.position = match done {
                Err(Fault::Halted(_)) => None,
                _ => Some(stream.position),
            };
        });
        done
    }

    fn run_stream(
        &mut self,
        source: &mut Source<'_>,
        stream: &mut Stream<'_>,
    ) -> Result<(), Fault> {
        // A primary that has sent a file without its length waits for it.
        stream.acknowledge(source)?;
        let replica = &stream.shared.replica;
        replica.offset.store(stream.position.offset, Relaxed);
        loop {
            if source.silence() >= BEAT {
                stream.acknowledge(source)?;
            }
            if self.filled == self.input.len() {
                self.input.resize(2 * self.filled, 0);
            }
            match source.read_some(&mut self.input[self.filled..])? {
                None => continue,
                Some(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Some(read) => {
                    self.filled += read;
                    self.stats.bytes_read.add(read as u64);
                }
            }
            let done = self.apply(source, stream);
            self.wakes.drain(..).for_each(|thread| thread.wake());
            // What was run before an error counts.
            replica.offset.store(stream.position.offset, Relaxed);
            stream.commit().and(done)?;
        }
    }

    /// Parses commands. Returns why the bytes behind them are none, if they are not.
    fn parse(&mut self, limit: usize) -> Option<String> {
        let limits = Limits { bulk: limit, is_authenticated: true };
        self.entries.clear();
        self.spans.clear();
        while self.entries.len() < MOST_COMMANDS {
            let next = self.input[..self.filled].get(self.parser.position());
            if self.parser.is_between()
                && let Some(byte) = next.filter(|byte| !b"*\r\n".contains(byte))
            {
                return Some(format!("no command begins with {}", shown(&[*byte])));
            }
            let first = self.spans.len();
            match self.parser.parse(&mut self.input[..self.filled], limits, &mut self.spans) {
                Ok(true) => {}
                Ok(false) => break,
                Err(malformed) => return Some(malformed.to_string()),
            }
            let end = self.spans.len();
            let name = self.spans.get(first);
            let name = name.map(|name| &self.input[name.start as usize..name.end as usize]);
            let position = self.parser.position();
            self.entries.push(Entry { command: name.and_then(table::find), first, end, position });
        }
        None
    }

    /// Runs all commands that are whole.
    fn apply(&mut self, source: &mut Source<'_>, stream: &mut Stream<'_>) -> Result<(), Fault> {
        let settings = &stream.shared.settings;
        loop {
            let malformed = self.parse(settings.max_bulk.load(Relaxed));
            let entries = std::mem::take(&mut self.entries);
            let limits = settings.time_limits();
            self.timing.begin(entries.len(), limits, settings.tracks_latency.load(Relaxed));
            (stream.now, stream.ages) = (now().as_millis() as u64, stream.shared.ages());
            let done = self.run_entries(&entries, source, stream);
            let latency = self.timing.end(&self.stats);
            if !entries.is_empty() {
                self.stats.note_batch(latency);
                stream.shared.counters.commands.fetch_add(entries.len() as u64, Relaxed);
            }
            let (used, is_full) =
                (entries.last().map_or(0, |last| last.position), entries.len() == MOST_COMMANDS);
            self.entries = entries;
            done?;
            if let Some(why) = malformed {
                return Err(Fault::lost(format!("the primary's stream is damaged: {why}")));
            }
            self.input.copy_within(used..self.filled, 0);
            self.filled -= used;
            self.parser.shift(used);
            stream.base += used as u64;
            let waiting = stream.base + self.filled as u64 - stream.position.offset;
            if waiting > settings.query_buffer_limit as u64 {
                return Err(Fault::lost("a command of the primary is too long"));
            }
            if !is_full {
                break;
            }
        }
        // Memory of a long command is given back.
        if self.input.len() > 4 * BUFFER && self.filled < BUFFER {
            self.input.truncate(BUFFER);
            self.input.shrink_to_fit();
        }
        Ok(())
    }

    fn run_entries(
        &mut self,
        entries: &[Entry],
        source: &mut Source<'_>,
        stream: &mut Stream<'_>,
    ) -> Result<(), Fault> {
        let mut looked_up = 0;
        for (at, entry) in entries.iter().enumerate() {
            if at == looked_up {
                looked_up += self.look_up(&entries[at..], stream);
            }
            if entry.first < entry.end {
                self.run_entry(entry, source, stream)?;
            }
            if stream.session.multi.is_none() {
                stream.position.offset = stream.base + entry.position as u64;
                stream.position.db = stream.session.db;
            }
        }
        Ok(())
    }

    /// Looks up the keys of the next commands, so that the cache has what they need. Returns for how many.
    fn look_up(&self, entries: &[Entry], stream: &Stream<'_>) -> usize {
        let (mut keys, mut count) = (Vec::new(), 0);
        for entry in entries {
            let selects = entry.command.is_some_and(|command| command.name == "select");
            if keys.len() >= MOST_KEYS || selects && count > 0 {
                break;
            }
            count += 1;
            let args = Args::new(&self.input, &self.spans[entry.first..entry.end]);
            let command = entry.command.filter(|command| command.accepts(args.len()));
            keys.extend(command.iter().flat_map(|command| command.keys(args)));
            if selects {
                break;
            }
        }
        if keys.len() > 1 {
            let space = stream.shared.store.space(stream.session.db);
            space.read(|guard| guard.get_many(&keys, &mut Vec::with_capacity(keys.len())));
        }
        count
    }

    fn run_entry(
        &mut self,
        entry: &Entry,
        source: &mut Source<'_>,
        stream: &mut Stream<'_>,
    ) -> Result<(), Fault> {
        let args = Args::new(&self.input, &self.spans[entry.first..entry.end]);
        if args.is(0, "REPLCONF") {
            if args.is(1, "GETACK") {
                stream.commit()?;
                stream.acknowledge(source)?;
            }
            return Ok(());
        }
        // They change no key, and nothing here runs scripts.
        if args.is(0, "FUNCTION") || args.is(0, "SCRIPT") {
            return Ok(());
        }
        let Some(command) = entry.command.filter(|command| is_streamed(command)) else {
            return Err(Fault::Halted(format!(
                "the primary has run {} on key {}, and this server can't",
                shown(args.at(0)),
                shown(args.at(1))
            )));
        };
        let Stream { shared, session, now, ages, is_changed, .. } = &mut *stream;
        session.trust(&shared.acl);
        let mut context = Context {
            shared,
            session,
            reply: Reply { out: &mut self.out, is_resp3: false },
            scratch: &mut self.scratch,
            now: *now,
            // Keys are there until the primary removes them.
            as_of: 0,
            is_changed: false,
            hits: 0,
            misses: 0,
            exec: None,
            pending: None,
            stats: &self.stats,
            ages: ages.as_deref(),
            timing: &mut self.timing,
            wakes: &mut self.wakes,
        };
        if let Some(time) = commands::run(&mut context, Some(command), args) {
            monitor::tell(&mut context, command, args, time);
        }
        *is_changed |= context.is_changed;
        self.out.clear();
        let failure = session.upstream.as_mut().and_then(|upstream| upstream.failure.take());
        match failure {
            None => Ok(()),
            Some(_) if source.is_over() => Err(Fault::Over),
            Some(text) => Err(Fault::Halted(format!(
                "the primary has run {} on key {}, which failed here: {text}",
                command.name.to_ascii_uppercase(),
                shown(args.at(1))
            ))),
        }
    }
}
