//! A replica of a Redis or a Valkey: an existing deployment moves here without a stop.
//!
//! A thread of its own ([`link`]) follows the primary: it takes over all keys (a full synchronisation), then
//! runs the commands that the primary sends, in their order ([`apply`]). After a lost connection it goes on
//! where it was, if the primary still has what is missing (a partial synchronisation).
//!
//! 1. Each `REPLICAOF` begins a new generation, under the locks of all keys. A change for a primary is made
//!    under the lock of its key, and only if the generation is still that of the link. So nothing of a primary
//!    is stored after `REPLICAOF NO ONE` was answered.
//! 2. In the same way clients' changes are refused under the lock of their keys, not only before.
//! 3. While keys are being taken over, commands about data are refused (`LOADING`), and so is `REPLICAOF`: a
//!    part of the keys is never served, and never becomes the data of a primary.
//! 4. A lock of keys may be held by whoever takes [`Replica`]'s, never the other way round.
//!
//! # Errors
//! A connection that is lost, or a primary that sends nonsense, is tried again after a pause. Data or
//! commands that this server does not have end the link until the next `REPLICAOF`: anything else would be
//! another set of data than the primary's. Both are told in the log and in `INFO replication`.

pub(crate) mod apply;
pub(crate) mod link;
mod load;
mod source;

use crate::commands::table::{Command, READ, WRITE};
use crate::settings::Settings;
use crate::shared::now;
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The server is a replica.
const FOLLOWS: u64 = 1;
/// Clients' changes are refused.
const READ_ONLY: u64 = 2;
/// Clients' commands about data are refused: keys are being taken over.
const LOADING: u64 = 4;
/// Clients' commands about data are refused: the link is down.
const STALE: u64 = 8;
const GATES: u64 = READ_ONLY | LOADING | STALE;
/// The bits of the generation begin here.
const GENERATION: u32 = 8;

/// Where a primary is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Target {
    /// Parses a host and a port, with a space between.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.trim().split_once(char::is_whitespace)?;
        Some(Self { host: host.into(), port: port.trim().parse().ok()? })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// How far the stream of a primary was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    /// The name of the stream: 40 characters.
    pub(crate) id: String,
    /// Bytes of the stream.
    pub(crate) offset: u64,
    /// The database of the next command.
    pub(crate) db: usize,
}

/// What the link is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It waits for its next attempt, or was given up.
    Connect,
    Connecting,
    Handshake,
    Sync,
    Connected,
}

impl Stage {
    /// Returns the name that `ROLE` tells.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Connecting => "connecting",
            Self::Handshake => "handshake",
            Self::Sync => "sync",
            Self::Connected => "connected",
        }
    }
}

/// What is known of the primary and the link to it.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) target: Option<Target>,
    pub(crate) stage: Stage,
    /// `None` if only a full synchronisation can follow.
    pub(crate) position: Option<Position>,
    /// Why the link is down.
    pub(crate) failure: Option<String>,
    /// Whether the link stays down until the next `REPLICAOF`.
    pub(crate) is_halted: bool,
    /// Seconds since 1970.
    pub(crate) down_since: Option<u64>,
    /// How many bytes of a transfer have come, and how many there are, if that is known.
    pub(crate) transfer: Option<(u64, Option<u64>)>,
}

/// Whether the server is a replica, of whom, and what clients may do meanwhile.
#[derive(Debug)]
pub(crate) struct Replica {
    /// The bits above, and the generation. Stored under the lock of `plan` only.
    word: AtomicU64,
    plan: Mutex<Plan>,
    changed: Condvar,
    /// Bytes of the stream that were applied. Stored and read relaxed, as the next: nobody concludes from it what
    /// else can be seen.
    offset: AtomicU64,
    /// When the primary has sent something, in seconds since 1970; 0 if it never has.
    last_io: AtomicU64,
}

/// Why a command of a client is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    ReadOnly,
    Stale,
    Loading,
}

impl Refusal {
    /// Returns the text of the reply.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::ReadOnly => "READONLY You can't write against a read only replica.",
            Self::Stale => {
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
            }
            Self::Loading => "LOADING Redis is loading the dataset in memory",
        }
    }
}

impl Replica {
    /// Makes the state of a server that follows `target`, if any.
    pub(crate) fn new(target: Option<Target>, settings: &Settings) -> Self {
        let plan = Plan {
            target: None,
            stage: Stage::Connect,
            position: None,
            failure: None,
            is_halted: false,
            down_since: None,
            transfer: None,
        };
        let this = Self {
            word: AtomicU64::new(0),
            plan: Mutex::new(plan),
            changed: Condvar::new(),
            offset: AtomicU64::new(0),
            last_io: AtomicU64::new(0),
        };
        if target.is_some() {
            this.follow(target, settings);
        }
        this
    }

    #[inline(always)]
    fn word(&self) -> u64 {
        // Relaxed: who holds the lock of a key sees what was stored under all locks.
        self.word.load(Relaxed)
    }

    /// Whether any client may run any command.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.word() & GATES == 0
    }

    /// Whether clients may read.
    #[inline(always)]
    pub(crate) fn serves_reads(&self) -> bool {
        self.word() & (LOADING | STALE) == 0
    }

    /// Whether a client may run a command, as far as a quick look tells.
    #[inline(always)]
    pub(crate) fn admits(&self, command: &Command) -> bool {
        let gates = self.word() & GATES;
        gates == 0 || gates == READ_ONLY && !command.has(WRITE)
    }

    /// Returns why a client may not run a command.
    pub(crate) fn refusal(&self, command: &Command) -> Option<Refusal> {
        let word = self.word();
        let is_about_data = command.has(READ | WRITE) || command.name == "ping";
        let changes_role = matches!(command.name, "replicaof" | "slaveof");
        match () {
            () if word & READ_ONLY != 0 && command.has(WRITE) => Some(Refusal::ReadOnly),
            () if word & STALE != 0 && is_about_data => Some(Refusal::Stale),
            () if word & LOADING != 0 && (is_about_data || changes_role) => Some(Refusal::Loading),
            () => None,
        }
    }

    /// Whether the server is a replica, so that only its primary removes keys.
    #[inline(always)]
    pub(crate) fn follows(&self) -> bool {
        self.word() & FOLLOWS != 0
    }

    pub(crate) fn is_loading(&self) -> bool {
        self.word() & LOADING != 0
    }

    /// Whether a link of this generation is still the one to be.
    #[inline(always)]
    pub(crate) fn is_current(&self, generation: u64) -> bool {
        self.word() >> GENERATION == generation
    }

    pub(crate) fn plan(&self) -> Plan {
        self.plan.lock().clone()
    }

    /// Returns how many bytes of the stream were applied.
    pub(crate) fn offset(&self) -> u64 {
        self.offset.load(Relaxed)
    }

    /// Returns when the primary has sent something, in seconds since 1970.
    pub(crate) fn last_io(&self) -> Option<u64> {
        Some(self.last_io.load(Relaxed)).filter(|&seconds| seconds > 0)
    }

    fn note_io(&self) {
        self.last_io.store(now().as_secs(), Relaxed);
    }

    /// Stores the bits that follow from the plan and the settings.
    fn fit_word(&self, plan: &Plan, settings: &Settings, generation: u64, is_loading: bool) {
        let follows = plan.target.is_some();
        let is_up = plan.stage == Stage::Connected;
        let (read_only, serves_stale) =
            (settings.replica_read_only.load(Relaxed), settings.serves_stale.load(Relaxed));
        let bits = [
            (follows, FOLLOWS),
            (follows && read_only, READ_ONLY),
            (follows && is_loading, LOADING),
            (follows && !is_up && !serves_stale, STALE),
        ];
        let set = bits.iter().filter(|bit| bit.0).fold(0, |word, bit| word | bit.1);
        // Relaxed: see `word`.
        self.word.store(generation << GENERATION | set, Relaxed);
    }

    /// Fits what clients may do to settings that have changed.
    pub(crate) fn fit(&self, settings: &Settings) {
        let plan = self.plan.lock();
        let word = self.word();
        self.fit_word(&plan, settings, word >> GENERATION, word & LOADING != 0);
    }

    /// Makes the server a replica of `target`, or of nobody. Returns whether anything changes. The caller holds
    /// all locks of keys, or nobody uses the server yet.
    pub(crate) fn follow(&self, target: Option<Target>, settings: &Settings) -> bool {
        let mut plan = self.plan.lock();
        if plan.target == target && !plan.is_halted {
            return false;
        }
        plan.down_since = plan.target.as_ref().map(|_| now().as_secs());
        // Another primary may be one of the same stream, after a failover.
        if target.is_none() || plan.is_halted {
            plan.position = None;
        }
        (plan.target, plan.stage, plan.failure) = (target, Stage::Connect, None);
        (plan.is_halted, plan.transfer) = (false, None);
        self.fit_word(&plan, settings, (self.word() >> GENERATION) + 1, false);
        self.changed.notify_all();
        true
    }

    /// Waits for a primary to follow, at most so long. Returns it with the generation.
    fn wait(&self, time: Duration) -> Option<(Target, u64)> {
        let mut plan = self.plan.lock();
        if plan.target.is_none() || plan.is_halted {
            let _ = self.changed.wait_for(&mut plan, time);
        }
        let target = plan.target.clone().filter(|_| !plan.is_halted)?;
        Some((target, self.word() >> GENERATION))
    }

    /// Waits while the generation stays, at most so long.
    fn pause(&self, generation: u64, time: Duration) {
        let mut plan = self.plan.lock();
        if self.is_current(generation) {
            let _ = self.changed.wait_for(&mut plan, time);
        }
    }

    /// Changes the plan for a link of a generation, unless there is another one meanwhile.
    fn change(
        &self,
        generation: u64,
        settings: &Settings,
        change: impl FnOnce(&mut Plan, &mut bool),
    ) {
        let mut plan = self.plan.lock();
        if self.is_current(generation) {
            let mut is_loading = self.is_loading();
            change(&mut plan, &mut is_loading);
            self.fit_word(&plan, settings, generation, is_loading);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::table::find;
    use crate::config::Config;
    use clap::Parser;

    fn settings(flags: &[&str]) -> Settings {
        let flags = ["test"].iter().chain(flags);
        Settings::new(&Config::parse_from(flags), (0, 0), 1, 1)
    }

    #[test]
    fn primaries_are_a_host_and_a_port() {
        let target = Target { host: "::1".into(), port: 6379 };
        assert_eq!(Target::parse("::1 6379"), Some(target));
        for text in ["", "a", "a x", "a 70000", "a 1 2", "no one"] {
            assert_eq!(Target::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_clients_may_do_depends_on_the_link() {
        let settings = settings(&["--replica-serve-stale-data=no"]);
        let replica = Replica::new(Target::parse("a 1"), &settings);
        let refused = |name: &str| replica.refusal(find(name.as_bytes()).unwrap());
        assert_eq!(refused("set"), Some(Refusal::ReadOnly));
        assert_eq!(refused("get"), Some(Refusal::Stale));
        assert_eq!((refused("info"), refused("publish"), refused("replicaof")), (None, None, None));
        assert!(!replica.serves_reads() && replica.follows());
        let generation = replica.wait(Duration::ZERO).unwrap().1;
        replica.change(generation, &settings, |plan, is_loading| {
            (plan.stage, *is_loading) = (Stage::Connected, true);
        });
        assert_eq!(refused("get"), Some(Refusal::Loading));
        assert_eq!(refused("replicaof"), Some(Refusal::Loading));
        replica.change(generation, &settings, |_, is_loading| *is_loading = false);
        assert_eq!(refused("get"), None);
        settings.set("replica-read-only", "no").unwrap();
        replica.fit(&settings);
        assert!(replica.is_open());
        assert!(replica.follow(None, &settings) && !replica.follow(None, &settings));
        assert!(!replica.follows() && !replica.is_current(generation));
        // A link that does not know it yet changes nothing.
        replica.change(generation, &settings, |_, is_loading| *is_loading = true);
        assert!(replica.is_open());
    }

    #[test]
    fn a_position_is_kept_for_another_primary_of_the_stream_only() {
        let settings = settings(&[]);
        let replica = Replica::new(Target::parse("a 1"), &settings);
        let keep = |is_halted| {
            let generation = replica.word() >> GENERATION;
            replica.change(generation, &settings, |plan, _| {
                plan.position = Some(Position { id: "x".into(), offset: 7, db: 0 });
                plan.is_halted = is_halted;
            });
        };
        keep(false);
        replica.follow(Target::parse("b 1"), &settings);
        assert!(replica.plan().position.is_some());
        keep(true);
        assert!(replica.follow(Target::parse("b 1"), &settings), "halted, it begins again");
        assert_eq!(replica.plan().position, None);
        keep(false);
        replica.follow(None, &settings);
        assert_eq!(replica.plan().position, None);
    }
}
