//! Batches: the commands of all connections that a thread found readable, run in order.
//!
//! Commands side by side that are about some keys form a window. The keys of a window are looked up
//! together, so that the latencies of memory overlap. If all of them are lookups, their replies are
//! written from what was found; if all are `SET`s without options, the values are [stored](super::stores)
//! together; otherwise the lookups have fetched what the commands need, and these run one after the other.

use super::connection::Connection;
use crate::ages::Ages;
use crate::commands;
use crate::commands::context::Context;
use crate::commands::table::{self, Command};
use crate::protocol::reply::Reply;
use crate::protocol::request::{Args, Span};
use crate::pubsub::mailbox::Wakes;
use crate::shared::Shared;
use crate::stats::WorkerStats;
use crate::store::record::{Kind, Record};
use crate::store::space::Reader;
use crate::store::stripes::{Seen, Stripes};
use crate::timing::Timing;
use slab::Slab;
use std::sync::atomic::Ordering::Relaxed;

/// The most keys of a window. (A map looks up 256 before it compares the first.)
const MOST_KEYS: usize = 512;

/// A window of fewer keys is not looked up beforehand.
const FEW_KEYS: usize = 3;

/// The most commands that are one change of a set or a hash, under its lock.
const MOST_TOGETHER: usize = 128;

/// The most commands that one connection has in a batch.
pub(super) const MOST_COMMANDS: usize = 1024;

/// A command of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Which of the active connections it came from.
    pub(super) of: usize,
    command: Option<&'static Command>,
    /// Its arguments among all spans.
    first: usize,
    end: usize,
    /// The offset behind it in the connection's input.
    pub(super) position: usize,
}

/// A connection with commands in a batch.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) index: usize,
    /// The connection's buffer, meanwhile.
    input: Vec<u8>,
    /// The offset behind the last command that was run.
    pub(super) done: usize,
    /// Whether all of its commands were run.
    is_whole: bool,
    /// How long its replies were before.
    out: usize,
    /// Whether a command has changed a key.
    pub(super) is_changed: bool,
}

/// The commands of a batch, with memory that is used again.
#[derive(Debug, Default)]
pub(super) struct Batch {
    active: Vec<Active>,
    entries: Vec<Entry>,
    spans: Vec<Span>,
    scratch: Vec<u8>,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) commands: u64,
    /// Threads that were sent messages.
    wakes: Wakes,
    timing: Timing,
}

pub(super) type Connections = Slab<Connection>;

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Appends the requests that a connection has sent.
    pub(super) fn gather(&mut self, index: usize, connection: &mut Connection, max_bulk: usize) {
        let of = self.active.len();
        let before = self.entries.len();
        connection.may_have_requests = true;
        while self.entries.len() - before < MOST_COMMANDS {
            let first = self.spans.len();
            match connection.parse(max_bulk, &mut self.spans) {
                Ok(true) => {}
                Ok(false) => {
                    connection.may_have_requests = false;
                    break;
                }
                Err(malformed) => {
                    // Answered after the requests in front of it, by the thread.
                    connection.session.malformed = Some(malformed);
                    connection.may_have_requests = false;
                    break;
                }
            }
            let end = self.spans.len();
            // A request without arguments has no reply, but is consumed.
            let name_at = |at: usize| {
                let name = self.spans.get(at)?;
                Some(&connection.input[name.start as usize..name.end as usize])
            };
            let name = name_at(first);
            // Neighbours often have the same command. A request without arguments has none.
            let command = match self.entries[before..].last() {
                Some(last) if last.first < last.end && name == name_at(last.first) => last.command,
                _ => name.and_then(table::find),
            };
            self.entries.push(Entry { of, command, first, end, position: connection.position() });
        }
        if self.entries.len() > before {
            if let Some(last) = self.entries.last()
                && let Some(command) = last.command
            {
                let args = Args::new(&connection.input, &self.spans[last.first..last.end]);
                let slot = command.slot_of(args) + 1;
                connection.session.client.last_command.store(slot, Relaxed);
            }
            self.active.push(Active {
                index,
                input: std::mem::take(&mut connection.input),
                done: 0,
                is_whole: true,
                out: connection.out.len(),
                is_changed: false,
            });
        }
    }

    /// Runs all commands. Afterwards `finish` returns the buffers.
    pub(super) fn run(
        &mut self,
        (shared, stats): (&Shared, &WorkerStats),
        connections: &mut Connections,
        now: u64,
    ) {
        let Self { active, entries, spans, scratch, wakes, timing, .. } = self;
        let (limits, tracks) = (shared.settings.time_limits(), &shared.settings.tracks_latency);
        timing.begin(entries.len(), limits, tracks.load(Relaxed));
        let (hits, misses, keys) = (0, 0, 0);
        let ages = shared.ages();
        let ages = ages.as_deref();
        let mut run =
            Run { shared, stats, ages, now, spans, scratch, wakes, timing, hits, misses, keys };
        let mut at = 0;
        while at < entries.len() {
            let len = run.window(&entries[at..], active, connections);
            let window = &entries[at..at + len.max(1)];
            at += if len > 1 && run.keys > FEW_KEYS {
                run.run_window(window, active, connections)
            } else {
                window.iter().for_each(|&entry| run.run_one(entry, active, connections));
                window.len()
            };
        }
        run.wakes.drain(..).for_each(|thread| thread.wake());
        (self.hits, self.misses) = (self.hits + run.hits, self.misses + run.misses);
        self.commands += entries.len() as u64;
    }

    /// Ends the time of the batch.
    pub(super) fn note_latency(&mut self, stats: &WorkerStats) {
        let latency = self.timing.end(stats);
        stats.note_batch(latency);
    }

    /// Whether a command has changed a key.
    pub(super) fn is_changed(&self) -> bool {
        self.active.iter().any(|active| active.is_changed)
    }

    /// Takes back the replies of all connections that have changed a key: the changes are not durable.
    pub(super) fn refuse(&self, connections: &mut Connections) {
        for active in self.active.iter().filter(|active| active.is_changed) {
            let connection = &mut connections[active.index];
            connection.out.truncate(active.out);
            connection.is_broken = true;
        }
    }

    /// Gives the connections their buffers back.
    pub(super) fn finish(&mut self, connections: &mut Connections, spare: &mut Vec<Vec<u8>>) {
        for active in self.active.drain(..) {
            let connection = &mut connections[active.index];
            connection.input = active.input;
            if !active.is_whole {
                // What is malformed is behind requests that were not run, and is met again.
                connection.session.malformed = None;
                connection.may_have_requests = true;
            }
            connection.consume(active.done, active.is_whole, spare);
        }
        self.entries.clear();
        self.spans.clear();
    }
}

/// A run of a batch.
pub(super) struct Run<'r> {
    pub(super) shared: &'r Shared,
    pub(super) stats: &'r WorkerStats,
    pub(super) ages: Option<&'r Ages>,
    pub(super) now: u64,
    spans: &'r [Span],
    pub(super) scratch: &'r mut Vec<u8>,
    wakes: &'r mut Wakes,
    pub(super) timing: &'r mut Timing,
    hits: u64,
    misses: u64,
    /// How many keys the window has.
    keys: usize,
}

impl<'r> Run<'r> {
    pub(super) fn args<'a>(&self, entry: Entry, active: &'a [Active]) -> Args<'a>
    where
        'r: 'a,
    {
        Args::new(&active[entry.of].input, &self.spans[entry.first..entry.end])
    }

    /// Returns how many of the first entries form a window.
    fn window(&mut self, entries: &[Entry], active: &[Active], connections: &Connections) -> usize {
        let mut db = None;
        self.keys = 0;
        // Monitors see each command by itself. While reads are refused, each is.
        if self.shared.monitors.are_any() || !self.shared.replica.serves_reads() {
            return 0;
        }
        for (at, &entry) in entries.iter().enumerate() {
            let Some(command) = entry.command.filter(|command| {
                command.is_about_keys() && command.accepts(entry.end - entry.first)
            }) else {
                return at;
            };
            let connection = &connections[active[entry.of].index];
            let session = &connection.session;
            let fits = session.is_plain(&self.shared.acl)
                && *db.get_or_insert(session.db) == session.db
                && session.may_run(command, self.args(entry, active));
            let cluster = self.shared.cluster.as_ref();
            // Slots that move, and errors, are for commands by themselves.
            let is_here =
                cluster.is_none_or(|it| it.serves(command.keys(self.args(entry, active))));
            if !fits || !is_here || !connection.takes_requests() || self.keys >= MOST_KEYS {
                return at;
            }
            self.keys += command.most_keys(entry.end - entry.first);
        }
        entries.len()
    }

    /// Runs one command.
    fn run_one(&mut self, entry: Entry, active: &mut [Active], connections: &mut Connections) {
        let of = &mut active[entry.of];
        let connection = &mut connections[of.index];
        if !of.is_whole || !connection.takes_requests() {
            of.is_whole = false;
            return;
        }
        of.done = entry.position;
        if entry.first == entry.end {
            return;
        }
        let args = Args::new(&of.input, &self.spans[entry.first..entry.end]);
        let spans = self.spans;
        let mut context = self.context(connection);
        if let (Some(time), Some(command)) =
            (commands::run(&mut context, entry.command, args), entry.command)
        {
            // Made again: a copy of the first ones would be kept for every command.
            let args = Args::new(&of.input, &spans[entry.first..entry.end]);
            commands::monitor::tell(&mut context, command, args, time);
        }
        let (is_changed, hits, misses) = (context.is_changed, context.hits, context.misses);
        of.is_changed |= is_changed;
        (self.hits, self.misses) = (self.hits + hits, self.misses + misses);
    }

    /// Returns what a command of a connection runs in.
    #[inline(always)]
    fn context<'c>(&'c mut self, connection: &'c mut Connection) -> Context<'c> {
        let is_resp3 = connection.session.is_resp3;
        Context {
            shared: self.shared,
            session: &mut connection.session,
            reply: Reply { out: &mut connection.out, is_resp3 },
            scratch: self.scratch,
            now: self.now,
            as_of: self.now,
            is_changed: false,
            hits: 0,
            misses: 0,
            exec: None,
            pending: None,
            wakes: self.wakes,
            stats: self.stats,
            ages: self.ages,
            timing: self.timing,
        }
    }

    /// Runs a window, or its beginning. Returns how many commands were run.
    fn run_window(
        &mut self,
        entries: &[Entry],
        active: &mut [Active],
        connections: &mut Connections,
    ) -> usize {
        let is_store = |entry: &Entry| {
            entry.command.is_some_and(|command| command.is_store(entry.end - entry.first))
        };
        if entries.iter().all(is_store) {
            let done = self.run_stores(entries, active, connections);
            // Something is in the way of the next one. If it is in the way of the first, it may be in that of
            // all, and is not looked for again behind each.
            let end = if done == 0 { entries.len() } else { entries.len().min(done + 1) };
            entries[done..end].iter().for_each(|&entry| self.run_one(entry, active, connections));
            return end;
        }
        let db = connections[active[entries[0].of].index].session.db;
        let space = self.shared.store.space(db);
        let is_lookup = |entry: &Entry| entry.command.is_some_and(Command::is_lookup);
        if !entries.iter().all(is_lookup) {
            let mut keys = Vec::with_capacity(self.keys);
            for &entry in entries {
                let args = self.args(entry, active);
                keys.extend(entry.command.iter().flat_map(|command| command.keys(args)));
            }
            space.read(|guard| {
                let mut found = Vec::with_capacity(keys.len());
                guard.get_many(&keys, &mut found);
                if self.shared.store.may_have_segments(db) {
                    self.fetch_segments(entries, active, (guard, &found));
                }
            });
            drop(keys);
            let mut rest = entries;
            while let Some(&first) = rest.first() {
                let alike = self.alike(rest, active);
                let done = match alike > 1 && self.run_together(&rest[..alike], active, connections)
                {
                    true => alike,
                    false => {
                        self.run_one(first, active, connections);
                        1
                    }
                };
                rest = &rest[done..];
            }
            return entries.len();
        }
        self.timing.end_group(self.stats);
        let stripes = &self.shared.store.stripes;
        let mut keys = Vec::with_capacity(self.keys);
        let mut seen: Vec<Seen> = Vec::with_capacity(self.keys);
        for &entry in entries {
            let args = self.args(entry, active);
            let are_many = args.len() > 2;
            for key in args.from(1) {
                seen.push(stripes.begin_read(Stripes::of(stripes.hash(db, key)), are_many));
                keys.push(key);
            }
        }
        // Entries whose reads a change has crossed run again, by themselves.
        let again = space.read(|guard| {
            let mut records = Vec::with_capacity(keys.len());
            guard.get_many(&keys, &mut records);
            let (mut at, mut again) = (0, None);
            // First all checks, so that they are close to the reads.
            let is_whole: Vec<bool> = entries
                .iter()
                .map(|&entry| {
                    let count = entry.end - entry.first - 1;
                    let of_entry = &seen[at..at + count];
                    let of_keys = &keys[at..at + count];
                    at += count;
                    let cluster = self.shared.cluster.as_ref();
                    cluster.is_none_or(|it| it.serves(of_keys.iter().copied()))
                        && self.shared.replica.serves_reads()
                        && of_entry.iter().all(|&seen| stripes.end_read(seen, count > 1))
                })
                .collect();
            at = 0;
            for (number, &entry) in entries.iter().enumerate() {
                let count = entry.end - entry.first - 1;
                let (of_keys, records) = (&keys[at..at + count], &records[at..at + count]);
                at += count;
                let connection = &mut connections[active[entry.of].index];
                if !is_whole[number] || !connection.takes_requests() {
                    again = Some(number);
                    break;
                }
                self.reply(entry, records, connection);
                if let Some(ages) = self.ages {
                    let found = of_keys.iter().zip(records).filter(|(_, record)| record.is_some());
                    found.for_each(|(key, _)| ages.note(stripes.hash(db, key), self.now));
                }
            }
            again
        });
        drop(keys);
        let done = again.unwrap_or(entries.len());
        self.note_together(&entries[..done], active, connections);
        for entry in &entries[..done] {
            active[entry.of].done = entry.position;
        }
        entries[done..].iter().for_each(|&entry| self.run_one(entry, active, connections));
        entries.len()
    }

    /// Returns how many of the first entries may be run as one change of a set or a hash.
    fn alike(&self, entries: &[Entry], active: &[Active]) -> usize {
        let first = entries[0];
        if !first.command.is_some_and(commands::members::may_run_together) {
            return 1;
        }
        let key = self.args(first, active).at(1);
        let is_alike = |entry: &&Entry| {
            let command = entry.command.map(std::ptr::from_ref);
            entry.of == first.of
                && command == first.command.map(std::ptr::from_ref)
                && self.args(**entry, active).at(1) == key
        };
        entries.iter().take(MOST_TOGETHER).take_while(is_alike).count()
    }

    /// Runs commands of one connection as one change. Returns false if they are to be run by themselves.
    fn run_together(
        &mut self,
        entries: &[Entry],
        active: &mut [Active],
        connections: &mut Connections,
    ) -> bool {
        let (Some(command), Some(last)) = (entries[0].command, entries.last()) else {
            return false;
        };
        let of = &mut active[entries[0].of];
        let connection = &mut connections[of.index];
        if !of.is_whole || !connection.takes_requests() {
            return false;
        }
        self.timing.end_group(self.stats);
        let spans = self.spans;
        let all = entries.iter().map(|it| Args::new(&of.input, &spans[it.first..it.end]));
        let all: Vec<_> = all.collect();
        let mut context = self.context(connection);
        let is_done = commands::members::run_together(&mut context, command, &all);
        let (is_changed, hits, misses) = (context.is_changed, context.hits, context.misses);
        of.is_changed |= is_changed;
        if !is_done {
            return false;
        }
        of.done = last.position;
        (self.hits, self.misses) = (self.hits + hits, self.misses + misses);
        self.note_together(entries, active, connections);
        true
    }

    /// Looks up the segments of members that commands are about. `found`: the records of the commands' keys.
    fn fetch_segments(
        &self,
        entries: &[Entry],
        active: &[Active],
        (guard, found): (&dyn Reader, &[Option<&[u8]>]),
    ) {
        let (mut found, mut segments) = (found.iter(), Vec::new());
        for &entry in entries {
            let args = self.args(entry, active);
            let keys = entry.command.map_or(0, |command| command.keys(args).count());
            let mut records = found.by_ref().take(keys);
            // Commands about members have one key, and a member behind it. For others it is in vain.
            let root = records.next().copied().flatten().and_then(Record::root_of);
            records.for_each(drop);
            if let Some(root) = root.filter(|_| keys == 1 && args.len() > 2) {
                segments.push(root.key(root.segment_of(args.at(2))));
            }
        }
        let keys: Vec<&[u8]> = segments.iter().map(|key| &key[..]).collect();
        guard.get_many(&keys, &mut Vec::with_capacity(keys.len()));
    }

    /// Counts commands that were run together. Each counts with an equal part of the time.
    pub(super) fn note_together(
        &mut self,
        entries: &[Entry],
        active: &[Active],
        connections: &Connections,
    ) {
        let Some(part) = self.timing.lap().checked_div(entries.len() as u32) else { return };
        let of_calls = self.timing.of_calls(part);
        for &entry in entries {
            let Some(command) = entry.command else { continue };
            let counters = self.stats.command(command.slot);
            counters.calls.add(1);
            counters.add_time(of_calls);
            if self.timing.is_spike(part) {
                commands::monitor::note_spike(self.shared, command, (self.now, part));
            }
            if self.timing.is_slow(part) {
                let args = commands::monitor::shown(command, self.args(entry, active));
                let session = &connections[active[entry.of].index].session;
                commands::monitor::log_slow(self.shared, session, args, (self.now, part));
            }
        }
    }

    /// Writes the reply of a `GET` or an `MGET`.
    #[inline(always)]
    fn reply(&mut self, entry: Entry, records: &[Option<&[u8]>], connection: &mut Connection) {
        let is_resp3 = connection.session.is_resp3;
        let mut reply = Reply { out: &mut connection.out, is_resp3 };
        let is_get = entry.command.is_some_and(|command| command.name == "get");
        if !is_get {
            reply.array(records.len());
        }
        for record in records {
            let record = record.and_then(|bytes| Record::read(bytes, self.now));
            match record {
                Some(_) => self.hits += 1,
                None => self.misses += 1,
            }
            match record {
                Some(record) if record.kind == Kind::String => reply.bulk(record.payload),
                Some(_) if is_get => {
                    reply.error(commands::context::WRONG_TYPE.0.as_ref());
                    entry.command.inspect(|it| self.stats.command(it.slot).failed.add(1));
                    self.stats.errors.add(1);
                }
                _ => reply.null(),
            }
        }
    }
}
