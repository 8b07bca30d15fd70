//! The dashboard: a page that draws figures of the last five minutes, and these figures as JSON.
//!
//! The thread that answers takes a sample each second, whether somebody looks or not, so the page has the
//! past when it is opened. A page asks with `?since=N` for the samples from number N on. Everything in the
//! JSON is a number, a name of the server's own, or the path of the file.

use crate::commands::table::name_of;
use crate::config::Durability;
use crate::histogram::Histogram;
use crate::info::resident;
use crate::shared::{Shared, now};
use crate::stats::{CommandCounts, Totals};
use crate::store::space::Space;
use clap::ValueEnum;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The page: one file that loads nothing but the figures.
pub(crate) const PAGE: &str = include_str!("page.html");

/// How often a sample is taken.
const PERIOD: Duration = Duration::from_secs(1);
/// How many samples are kept: those of five minutes.
const MOST_SAMPLES: usize = 300;

/// p50, p99 and p99.9 in microseconds.
type Percentiles = [f64; 3];

fn percentiles(times: &Histogram) -> Option<Percentiles> {
    let of = |percent| times.percentile(percent) as f64 / 1000.0;
    (times.calls() > 0).then(|| [of(50.0), of(99.0), of(99.9)])
}

/// A command in the time of a sample.
#[derive(Debug, Serialize)]
struct CommandSample {
    /// Calls a second.
    calls: f64,
    latency: Option<Percentiles>,
}

/// The figures of about one second. What has a rate is a number for each second.
#[derive(Debug, Serialize)]
struct Sample {
    /// Milliseconds since 1970, at its end.
    at: u64,
    requests: f64,
    latency: Option<Percentiles>,
    /// The commands that were called, by name.
    commands: BTreeMap<String, CommandSample>,
    memory: usize,
    resident: usize,
    keys: usize,
    clients: usize,
    hits: f64,
    misses: f64,
    received: f64,
    sent: f64,
    evicted: f64,
    expired: f64,
    errors: f64,
    /// The bytes of the log, if the server has one.
    log: Option<u64>,
}

/// What was counted up to a sample.
#[derive(Debug, Default)]
struct Counted {
    commands: Vec<CommandCounts>,
    times: HashMap<u16, Histogram>,
    totals: Totals,
    requests: u64,
    hits: u64,
    misses: u64,
    evicted: u64,
    expired: u64,
}

/// Takes samples, and writes them.
#[derive(Debug)]
pub(crate) struct Dashboard {
    shared: Arc<Shared>,
    /// Differs for each start of a server.
    run: String,
    samples: VecDeque<Sample>,
    /// The number of the next sample.
    next: u64,
    counted: Counted,
    last: Instant,
}

/// What a page is told.
#[derive(Debug, Serialize)]
struct Told<'d> {
    version: &'static str,
    run: &'d str,
    port: u16,
    threads: usize,
    uptime: u64,
    file: Option<String>,
    durability: Option<String>,
    max_memory: usize,
    policy: &'static str,
    max_clients: usize,
    is_cluster: bool,
    /// Keys of each database that has some.
    databases: BTreeMap<usize, usize>,
    /// Calls and failures since the start, or `CONFIG RESETSTAT`.
    commands: BTreeMap<String, [u64; 2]>,
    /// The number of the sample behind the last one.
    next: u64,
    samples: Vec<&'d Sample>,
}

/// Returns the value of `since` in a query; zero if there is none.
fn since(query: &str) -> u64 {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("since="));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn keys(shared: &Shared) -> impl Iterator<Item = usize> {
    (0..shared.store.spaces().len()).map(|db| shared.store.keys(db))
}

impl Dashboard {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            run: format!("{:x}-{:x}", now().as_nanos(), std::process::id()),
            samples: VecDeque::with_capacity(MOST_SAMPLES),
            next: 0,
            counted: Counted::default(),
            last: Instant::now(),
        }
    }

    /// Takes a sample, if it is time. Returns how long it is to the next one.
    pub(crate) fn sample(&mut self) -> Duration {
        let elapsed = self.last.elapsed();
        if let Some(rest) = PERIOD.checked_sub(elapsed).filter(|rest| !rest.is_zero()) {
            return rest;
        }
        self.last += elapsed;
        if self.samples.len() == MOST_SAMPLES {
            self.samples.pop_front();
        }
        let sample = self.take(elapsed.as_secs_f64());
        self.samples.push_back(sample);
        self.next += 1;
        PERIOD
    }

    /// Makes a sample of what was counted since the last one, so many seconds ago.
    fn take(&mut self, seconds: f64) -> Sample {
        let shared = &self.shared;
        let (stats, counters) = (&shared.stats, &shared.counters);
        // `CONFIG RESETSTAT` makes some of the counts smaller.
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let before = &mut self.counted;
        let all = stats.all_commands();
        before.commands.resize(all.len(), CommandCounts::default());
        let (mut commands, mut times) = (BTreeMap::new(), Histogram::default());
        for (slot, (counts, last)) in (0_u16..).zip(all.iter().zip(&before.commands)) {
            if counts.calls == last.calls {
                continue;
            }
            let of_slot = stats.all_times(slot).map(|all| {
                let since = match before.times.get(&slot) {
                    Some(last) => all.since(last),
                    None => all.clone(),
                };
                before.times.insert(slot, all);
                since
            });
            of_slot.iter().for_each(|of_slot| times.add(of_slot));
            let sample = CommandSample {
                calls: rate(counts.calls, last.calls),
                latency: of_slot.as_ref().and_then(percentiles),
            };
            commands.insert(name_of(slot).unwrap_or_default(), sample);
        }
        let totals = stats.all_totals();
        let load = |counter: &AtomicU64| counter.load(Relaxed);
        let counted = Counted {
            commands: all,
            times: std::mem::take(&mut before.times),
            totals,
            requests: load(&counters.commands),
            hits: load(&counters.hits),
            misses: load(&counters.misses),
            evicted: load(&counters.evicted),
            expired: load(&shared.store.expired),
        };
        let before = std::mem::replace(&mut self.counted, counted);
        let counted = &self.counted;
        let settings = &shared.settings;
        let has_log = settings.file.is_some() && settings.durability != Durability::Process;
        Sample {
            at: now().as_millis() as u64,
            requests: rate(counted.requests, before.requests),
            latency: percentiles(&times),
            commands,
            memory: shared.store.memory(),
            resident: resident(),
            keys: keys(shared).sum(),
            clients: shared.clients.load(Relaxed),
            hits: rate(counted.hits, before.hits),
            misses: rate(counted.misses, before.misses),
            received: rate(totals.bytes_read, before.totals.bytes_read),
            sent: rate(totals.bytes_written, before.totals.bytes_written),
            evicted: rate(counted.evicted, before.evicted),
            expired: rate(counted.expired, before.expired),
            errors: rate(totals.errors, before.totals.errors),
            log: has_log.then(|| shared.store.spaces().iter().map(Space::log_bytes).sum()),
        }
    }

    /// Writes the figures as JSON, with the samples that a query asks for.
    pub(crate) fn write(&self, query: &str) -> serde_json::Result<String> {
        let (shared, settings) = (&self.shared, &self.shared.settings);
        let first = self.next - self.samples.len() as u64;
        // A page that knows more was told it by a server that has ended.
        let since = Some(since(query)).filter(|&since| since <= self.next).unwrap_or(0);
        let skipped = since.saturating_sub(first) as usize;
        let calls = |(name, counts): (String, CommandCounts)| {
            (name, [counts.calls, counts.failed + counts.rejected])
        };
        let durability = settings.durability.to_possible_value();
        let durability = durability.filter(|_| settings.file.is_some());
        serde_json::to_string(&Told {
            version: env!("CARGO_PKG_VERSION"),
            run: &self.run,
            port: if settings.port > 0 { settings.port } else { settings.tls_port },
            threads: settings.threads,
            uptime: now().as_secs().saturating_sub(shared.started),
            file: settings.file.as_deref().map(|path| path.display().to_string()),
            durability: durability.map(|it| it.get_name().to_owned()),
            max_memory: settings.max_memory.load(Relaxed),
            policy: settings.policy().name(),
            max_clients: settings.max_clients.load(Relaxed),
            is_cluster: shared.cluster.is_some(),
            databases: keys(shared).enumerate().filter(|(_, keys)| *keys > 0).collect(),
            commands: shared.stats.commands().into_iter().map(calls).collect(),
            next: self.next,
            samples: self.samples.iter().skip(skipped).collect(),
        })
    }
}
