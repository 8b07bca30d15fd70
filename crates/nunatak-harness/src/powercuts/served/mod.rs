//! Power cuts beneath a server: clients in the guest write through its protocol, and report what was answered to
//! the host. `.ci/powercut-server` runs it.
//!
//! The operations of a client follow from its number and theirs, and concern keys of its own. So what a
//! client has done is one number, and its keys must be as after some number of operations: not fewer than
//! those that the server has to keep, and not more than were sent. A report is written to a port of the
//! machine before the client sends again, so the host has it when the machine is killed.

mod client;
mod operations;

pub use client::Client;

use crate::powercuts::images::Disk;
use crate::powercuts::log::Log;
use client::Result;
use operations::{Contents, Value, apply, blocks, commands};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How many clients there are.
const CLIENTS: u64 = 4;

/// How many operations a client sends before it reads their answers.
const MOST_SENT: u64 = 8;

/// What a power cut may take with `everysec`, in milliseconds: what was answered since the log's last write,
/// which is a second ago, and during a write.
const INTERVAL: u64 = 1500;

/// How many operations of a client the server may have made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Those that it has to keep.
    pub kept: u64,
    /// Those that it has answered.
    pub answered: u64,
    /// Those that were sent.
    pub sent: u64,
}

/// Writes the bounds of all clients as an argument.
pub fn show(bounds: &[Bounds]) -> String {
    let one = |it: &Bounds| format!("{}-{}-{}", it.kept, it.answered, it.sent);
    bounds.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Reads bounds that `show` has written; without a text nothing was done.
///
/// # Errors
/// If they are none.
pub fn parse(text: &str) -> Result<Vec<Bounds>> {
    let one = |text: &str| -> Result<Bounds> {
        let numbers: Vec<u64> =
            text.split('-').map(str::parse).collect::<std::result::Result<_, _>>()?;
        let [kept, answered, sent] = numbers[..] else { return Err("no bounds".into()) };
        Ok(Bounds { kept, answered, sent })
    };
    match text {
        "" => Ok(vec![Bounds { kept: 0, answered: 0, sent: 0 }; CLIENTS as usize]),
        _ => text.split(',').map(one).collect(),
    }
}

/// Works bounds out of a report, which may be empty, and of the bounds before.
///
/// # Errors
/// If the report can't be read.
pub fn bounds(report: &Path, durability: &str, mut before: Vec<Bounds>) -> Result<Vec<Bounds>> {
    let text = fs::read(report)?;
    // The last line may be cut off.
    let end = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let mut lines = Vec::new();
    for line in std::str::from_utf8(&text[..end])?.lines() {
        let (kind, numbers) = line.split_once(' ').ok_or("a strange line")?;
        let numbers: Vec<u64> =
            numbers.split(' ').map(str::parse).collect::<std::result::Result<_, _>>()?;
        lines.push((kind, numbers));
    }
    let end = lines.iter().filter(|it| it.0 != "S").filter_map(|it| it.1.last()).max();
    for (kind, numbers) in &lines {
        match (*kind, &numbers[..]) {
            // What a client has found after the power cut before.
            ("F", &[client, count, _]) => {
                before[client as usize] = Bounds { kept: count, answered: count, sent: count };
            }
            ("A", &[client, count, time]) => {
                let it = &mut before[client as usize];
                it.answered = count;
                let is_old = end.is_some_and(|&end| time + INTERVAL <= end);
                if durability == "always" || durability == "everysec" && is_old {
                    it.kept = count;
                }
            }
            // What was answered before a `SAVE` that has been answered.
            ("S", counts) => before.iter_mut().zip(counts).for_each(|(it, &count)| it.kept = count),
            _ => {}
        }
    }
    // Before the first report nothing was sent.
    if !lines.is_empty() {
        before.iter_mut().for_each(|it| it.sent = it.answered + MOST_SENT);
    }
    Ok(before)
}

/// Returns how many operations of a client leave these contents.
fn count_of(client: u64, bounds: Bounds, found: &Contents) -> Result<u64> {
    let mut now = Contents::new();
    (0..bounds.kept).for_each(|number| drop(apply(client, number, &mut now)));
    let mut wrong: BTreeSet<String> = found.keys().chain(now.keys()).cloned().collect();
    wrong.retain(|key| found.get(key) != now.get(key));
    let first = wrong.clone();
    // Operations without an effect are counted, so that the client goes on behind them.
    let mut last = None;
    for number in bounds.kept..=bounds.sent {
        if wrong.is_empty() {
            last = Some(number);
        }
        for key in apply(client, number, &mut now) {
            match found.get(&key) == now.get(&key) {
                true => wrong.remove(&key),
                false => wrong.insert(key),
            };
        }
    }
    last.ok_or_else(|| {
        let keys: Vec<_> = first.iter().take(6).map(|key| (key, found.get(key))).collect();
        format!("client {client}, {bounds:?}: no number of operations leaves {keys:?}").into()
    })
}

/// Compares what a server has with bounds, and returns how many operations of each client it has made.
///
/// # Errors
/// If something is lost or invented.
pub fn check(server: &mut Client, bounds: &[Bounds]) -> Result<Vec<u64>> {
    let mut found = vec![Contents::new(); bounds.len()];
    let mut shared = 0;
    for key in server.texts(&["KEYS", "*"])? {
        if key == "shared" {
            shared = server.text(&["GET", "shared"])?.parse()?;
            continue;
        }
        let client = key.split(':').next().and_then(|it| it.parse::<usize>().ok());
        let contents =
            client.and_then(|it| found.get_mut(it)).ok_or(format!("{key} is invented"))?;
        if key.ends_with(":short") {
            // It has expired while the machine was off, or the server was started again.
            if !server.texts(&["MGET", &key])?[0].is_empty() {
                return Err(format!("{key} has not expired").into());
            }
            continue;
        }
        let deadline = server.text(&["PEXPIRETIME", &key])?.parse()?;
        let value = match server.text(&["TYPE", &key])?.as_str() {
            "string" => Value::Text(server.text(&["GET", &key])?, deadline),
            "hash" => {
                let all = server.texts(&["HGETALL", &key])?;
                Value::Hash(all.chunks(2).map(|it| (it[0].clone(), it[1].clone())).collect())
            }
            "set" => Value::Set(server.texts(&["SMEMBERS", &key])?.into_iter().collect()),
            other => return Err(format!("{key} is a {other}").into()),
        };
        contents.insert(key, value);
    }
    let clients = (0..).zip(bounds.iter().zip(&found));
    let counts: Vec<u64> =
        clients.map(|(client, (&it, found))| count_of(client, it, found)).collect::<Result<_>>()?;
    let expected: u64 = (0..).zip(&counts).map(|(client, &count)| blocks(client, count)).sum();
    if shared != expected {
        return Err(format!("{expected} transactions have counted to {shared}").into());
    }
    Ok(counts)
}

/// What the guest does: checks the server, then lets clients write until the machine is killed.
///
/// # Errors
/// If something is lost or invented, or the server fails.
pub fn work(address: &str, report: &Path, durability: &str, bounds: &[Bounds]) -> Result<()> {
    let begin = Instant::now();
    let mut server = Client::connect(address)?;
    let counts: Vec<AtomicU64> =
        check(&mut server, bounds)?.into_iter().map(AtomicU64::new).collect();
    let report = Mutex::new(File::options().write(true).open(report)?);
    let tell = |line: String| -> Result<()> {
        Ok(report.lock().map_err(|_| "a panic")?.write_all(line.as_bytes())?)
    };
    let time = || begin.elapsed().as_millis();
    let told = |kind: &str, client: usize, count: u64| {
        tell(format!("{kind} {client} {count} {}\n", time()))
    };
    for (client, count) in counts.iter().enumerate() {
        told("F", client, count.load(Ordering::Relaxed))?;
    }
    std::thread::scope(|scope| {
        let write = |client: usize| -> Result<()> {
            let mut server = Client::connect(address)?;
            let mut random =
                crate::Random::new(client as u64 + counts[client].load(Ordering::Relaxed));
            loop {
                let first = counts[client].load(Ordering::Relaxed);
                let end = first + 1 + random.below(MOST_SENT);
                let of = |number| commands(client as u64, number);
                let all: Vec<_> = (first..end).flat_map(of).collect();
                server.run(&all)?;
                counts[client].store(end, Ordering::Relaxed);
                told("A", client, end)?;
            }
        };
        let clients: Vec<_> =
            (0..counts.len()).map(|client| scope.spawn(move || write(client))).collect();
        loop {
            std::thread::sleep(Duration::from_millis(50));
            if durability == "process" {
                let all: Vec<String> =
                    counts.iter().map(|it| it.load(Ordering::Relaxed).to_string()).collect();
                server.run(&[vec!["SAVE".into()]])?;
                tell(format!("S {}\n", all.join(" ")))?;
            }
            tell(format!("T {}\n", time()))?;
            if let Some(ended) = clients.iter().position(std::thread::ScopedJoinHandle::is_finished)
            {
                println!("client {ended} has ended: FAILED");
                std::process::exit(1);
            }
        }
    })
}

/// What the host does after a power cut: writes the image of a disk, which has everything up to the last
/// flush, and any of the later sectors. Returns how many writes were not durable.
///
/// # Errors
/// If files can't be read or written.
pub fn image(base: &Path, log: &Path, seed: u64, image: &Path) -> Result<usize> {
    let log = Log::parse(fs::read(log)?)?;
    let mut disk = Disk::new(fs::read(base)?);
    let flushed = log.entries.iter().rposition(|entry| entry.is_flush).unwrap_or(0);
    for entry in &log.entries[..flushed] {
        disk.write(entry.offset, log.data(entry));
    }
    let volatile = flushed..log.entries.len();
    let count = log.entries[volatile.clone()].iter().filter(|entry| entry.data.1 > 0).count();
    disk.save(image, &super::images::choose(&log, volatile, seed))?;
    Ok(count)
}
