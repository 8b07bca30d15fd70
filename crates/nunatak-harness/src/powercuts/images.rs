//! What the host does: it rebuilds disks after power cuts, recovers their file systems, and opens the
//! maps.

use super::log::Log;
use super::workload::{Task, Workload, next_sync, options};
use super::{Held, SECTOR, apply_until};
use crate::random::Random;
use std::collections::BTreeSet;
use std::error;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Blocks of the file system have this many bytes.
const BLOCK: usize = 4096;

/// Which power cuts to try.
#[derive(Debug, Clone, Copy)]
pub struct Cuts<'p> {
    /// The disk as it was before the record.
    pub base: &'p Path,
    /// The record.
    pub log: &'p Path,
    /// Where acknowledgements are on the disk.
    pub acknowledged_at: usize,
    /// How many cuts.
    pub count: u64,
    /// Makes the choice of cuts.
    pub seed: u64,
    /// A directory for an image, best in memory.
    pub scratch: &'p Path,
}

/// What was found after power cuts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Found {
    /// How many images were checked.
    pub images: u64,
    /// How many of them had a map. In the others no map had been acknowledged.
    pub maps: u64,
    /// How many were of a moment with writes that no flush had made durable.
    pub with_volatile_writes: u64,
    /// How many had more operations than those acknowledged.
    pub later: u64,
    /// The greatest number of acknowledged operations.
    pub acknowledged: u64,
}

type Checked<T> = Result<T, Box<dyn error::Error>>;

/// Checks images of a kind's disk.
///
/// # Errors
/// If files or programs are missing, or an image loses or invents something.
///
/// # Panics
/// If the map of an image is damaged.
pub fn check(kind: &str, cuts: Cuts<'_>) -> Checked<Found> {
    super::with_kind(kind, cuts).ok_or("no such kind")?
}

/// The disk at the last flush before a cut.
pub(super) struct Disk {
    bytes: Vec<u8>,
    /// Blocks that may hold something else than zeros.
    used: BTreeSet<usize>,
}

impl Disk {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let blocks = bytes.chunks(BLOCK).enumerate();
        let used = blocks.filter(|(_, block)| block.iter().any(|&byte| byte != 0));
        let used = used.map(|(at, _)| at).collect();
        Self { bytes, used }
    }

    pub(super) fn write(&mut self, offset: usize, data: &[u8]) {
        self.bytes[offset..offset + data.len()].copy_from_slice(data);
        self.used.extend(offset / BLOCK..(offset + data.len()).div_ceil(BLOCK));
    }

    /// Writes the disk to a sparse file, with some sectors on top.
    pub(super) fn save(&self, path: &Path, sectors: &[(usize, &[u8])]) -> std::io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.bytes.len() as u64)?;
        for block in &self.used {
            let range = block * BLOCK..self.bytes.len().min((block + 1) * BLOCK);
            file.write_all_at(&self.bytes[range.clone()], range.start as u64)?;
        }
        sectors.iter().try_for_each(|(offset, data)| file.write_all_at(data, *offset as u64))
    }
}

/// Chooses which writes since the last flush have arrived, each as a whole, not at all, or torn.
pub(super) fn choose(log: &Log, entries: std::ops::Range<usize>, seed: u64) -> Vec<(usize, &[u8])> {
    let mut random = Random::new(seed);
    // Some images have nearly all writes, some nearly none.
    let (share, torn) = (random.below(9), random.below(3));
    let mut arrived = Vec::new();
    for entry in &log.entries[entries] {
        let data = log.data(entry);
        // ext4 relies on a superblock that is not torn.
        let is_whole = entry.is_durable || entry.offset < BLOCK || !random.once_in(torn + 1);
        let mut takes = || entry.is_durable || random.below(8) < share;
        if is_whole {
            if takes() {
                arrived.push((entry.offset, data));
            }
            continue;
        }
        for (at, sector) in data.chunks(SECTOR).enumerate() {
            if takes() {
                arrived.push((entry.offset + at * SECTOR, sector));
            }
        }
    }
    arrived
}

/// Runs a program without output, and returns its exit code.
fn run(program: &str, arguments: &[&str]) -> Checked<i32> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|error| format!("{program}: {error}"))?;
    Ok(status.code().unwrap_or(-1))
}

/// Recovers the file system of an image and takes the map out of it, if it is there.
fn recover(image: &Path, map: &Path, is_checked: bool) -> Checked<bool> {
    let name = image.to_str().ok_or("a strange path")?;
    let code = run("e2fsck", &["-y", "-E", "journal_only", name])?;
    if code & !1 != 0 {
        return Err(format!("e2fsck can't recover the file system: {code}").into());
    }
    if is_checked {
        let code = run("e2fsck", &["-f", "-n", name])?;
        // 4: inodes that a mount would delete are still there.
        if code & !4 != 0 {
            return Err(format!("the file system is damaged: {code}").into());
        }
    }
    let _ = fs::remove_file(map);
    let dump = format!("dump /map {}", map.display());
    run("debugfs", &["-R", &dump, name])?;
    Ok(map.exists())
}

/// Returns how many operations may have been made when the map had these contents: from `done`, which
/// were acknowledged and left `held`, to `until`.
pub(super) fn operations_of<W: Workload>(
    found: &Held,
    held: &Held,
    done: u64,
    until: u64,
) -> Option<u64> {
    let mut now = held.clone();
    if !W::ONE_INSTANT {
        return is_key_by_key::<W>(found, now, done..until).then_some(until);
    }
    for number in done..until {
        if now == *found {
            return Some(number);
        }
        W::apply(number, &mut now);
    }
    (now == *found).then_some(until)
}

/// Whether each key has what it had after the first of these operations, or since.
fn is_key_by_key<W: Workload>(found: &Held, mut now: Held, numbers: std::ops::Range<u64>) -> bool {
    let mut wrong: BTreeSet<u64> = found.keys().chain(now.keys()).copied().collect();
    wrong.retain(|key| found.get(key) != now.get(key));
    for number in numbers {
        W::apply(number, &mut now);
        wrong.retain(|key| found.get(key) != now.get(key));
    }
    wrong.is_empty()
}

impl Task for Cuts<'_> {
    type Result = Checked<Found>;

    fn run<W: Workload>(self, kind: &str) -> Checked<Found> {
        let log = Log::parse(fs::read(self.log)?)?;
        let mut disk = Disk::new(fs::read(self.base)?);
        let (image, map) = (self.scratch.join("image"), self.scratch.join("map"));
        let mut random = Random::new(self.seed);
        let moments = log.entries.len() as u64 + 1;
        let mut cuts: Vec<usize> =
            (0..self.count).map(|_| random.below(moments) as usize).collect();
        cuts.sort_unstable();
        let mut found = Found::default();
        // Up to the last flush; up to the cut; what was acknowledged then.
        let (mut flushed, mut at, mut acknowledged) = (0, 0, None);
        let mut held = Held::new();
        for (number, cut) in cuts.into_iter().enumerate() {
            let from = acknowledged.unwrap_or(0);
            for (entry, is) in log.entries[at..cut].iter().enumerate() {
                acknowledged = log.acknowledged(is, self.acknowledged_at).or(acknowledged);
                if is.is_flush {
                    for durable in &log.entries[flushed..at + entry] {
                        disk.write(durable.offset, log.data(durable));
                    }
                    flushed = at + entry;
                }
            }
            at = cut;
            let done = acknowledged.unwrap_or(0);
            apply_until::<W>(&mut held, from..done);
            let volatile = flushed..cut;
            let has_volatile = log.entries[volatile.clone()].iter().any(|entry| entry.data.1 > 0);
            let arrived = choose(&log, volatile, self.seed ^ number as u64);
            disk.save(&image, &arrived)?;
            found.images += 1;
            found.with_volatile_writes += u64::from(has_volatile);
            found.acknowledged = done;
            let what = || {
                format!(
                    "{kind}: seed {}, image {number}, cut {cut}: {done} acknowledged",
                    self.seed
                )
            };
            if !recover(&image, &map, number % 16 == 0).map_err(|e| format!("{}: {e}", what()))? {
                if acknowledged.is_some() {
                    return Err(format!("{}: there is no map", what()).into());
                }
                continue;
            }
            found.maps += 1;
            let until = next_sync(done);
            let operations = look::<W>(&map, kind, (&held, done, until), number)
                .map_err(|error| format!("{}: {error}", what()))?;
            found.later += u64::from(operations > done);
        }
        Ok(found)
    }
}

/// Opens a map and compares it. Some maps are changed, closed and opened again.
fn look<W: Workload>(
    path: &Path,
    kind: &str,
    (held, done, until): (&Held, u64, u64),
    number: usize,
) -> Checked<u64> {
    let map = W::open_or_create(path, &options(kind))?;
    let found = map.held();
    let Some(operations) = operations_of::<W>(&found, held, done, until) else {
        return Err(difference::<W>(&found, held, done..until).into());
    };
    if number.is_multiple_of(4) {
        let mut held = found;
        let more = operations..operations + 80;
        more.clone().try_for_each(|number| map.run(number))?;
        apply_until::<W>(&mut held, more);
        if map.held() != held {
            return Err("operations after recovery leave something else".into());
        }
        drop(map);
        if W::open_or_create(path, &options(kind))?.held() != held {
            return Err("closing after recovery leaves something else".into());
        }
    }
    Ok(operations)
}

/// Describes contents that no number of operations leaves.
pub(super) fn difference<W: Workload>(
    found: &Held,
    held: &Held,
    numbers: std::ops::Range<u64>,
) -> String {
    let mut next = held.clone();
    apply_until::<W>(&mut next, numbers);
    let keys: BTreeSet<&u64> = found.keys().chain(held.keys()).collect();
    let wrong = keys.into_iter().filter(|key| found.get(key) != held.get(key)).take(8);
    let wrong: Vec<String> = wrong
        .map(|key| {
            let of = |held: &Held| held.get(key).cloned();
            format!("{key}: {:?}, acknowledged {:?}, later {:?}", of(found), of(held), of(&next))
        })
        .collect();
    let (found, held, next) = (found.len(), held.len(), next.len());
    format!("no operations leave {found} keys ({held} acknowledged, {next} later): {wrong:#?}")
}
