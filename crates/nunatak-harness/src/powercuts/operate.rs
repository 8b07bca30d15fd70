//! What runs in the guest.

use super::images::{difference, operations_of};
use super::workload::{Task, Workload, next_sync, options};
use super::{Held, MAGIC, SECTOR, apply_until};
use crate::random::Random;
use nunatak::{Error, FileError};
use std::error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;

/// Written past the cache of the system.
#[cfg(target_arch = "x86_64")]
const O_DIRECT: i32 = 0o40000;
#[cfg(not(target_arch = "x86_64"))]
const O_DIRECT: i32 = 0o200_000;

/// A direct write needs an aligned buffer.
#[repr(align(4096))]
struct Buffer([u8; SECTOR]);

/// The sector for acknowledgements.
struct Acknowledgements {
    disk: File,
    at: u64,
}

impl Acknowledgements {
    fn write(&self, operations: u64) -> std::io::Result<()> {
        let mut sector = Buffer([0; SECTOR]);
        sector.0[..8].copy_from_slice(&MAGIC.to_le_bytes());
        sector.0[8..16].copy_from_slice(&operations.to_le_bytes());
        self.disk.write_all_at(&sector.0, self.at)
    }
}

type Done = Result<(), Box<dyn error::Error>>;

struct Operate<'p> {
    map: &'p Path,
    acknowledgements: Acknowledgements,
    operations: u64,
}

/// Runs operations on a map, syncs, and acknowledges. Once in about thirty syncs the map is closed
/// instead, and opened again.
///
/// # Errors
/// Errors of the map and of the disk.
pub fn operate(kind: &str, map: &Path, disk: &Path, at: u64, operations: u64) -> Done {
    let disk = OpenOptions::new().write(true).custom_flags(O_DIRECT).open(disk)?;
    let acknowledgements = Acknowledgements { disk, at };
    let task = Operate { map, acknowledgements, operations };
    super::with_kind(kind, task).ok_or("no such kind")?
}

impl Task for Operate<'_> {
    type Result = Done;

    fn run<W: Workload>(self, kind: &str) -> Done {
        let open = || W::open_or_create(self.map, &options(kind));
        let mut map = open()?;
        self.acknowledgements.write(0)?;
        let (mut done, mut closes) = (0, Random::new(7));
        while done < self.operations {
            let next = next_sync(done);
            (done..next).try_for_each(|number| map.run(number))?;
            if closes.once_in(30) {
                // Closes the map, which syncs it.
                drop(map);
                map = open()?;
            } else {
                map.sync()?;
            }
            self.acknowledgements.write(next)?;
            done = next;
        }
        println!("{kind}: {done} operations");
        Ok(())
    }
}

struct Fail<'p> {
    directory: &'p Path,
    switch: &'p str,
    rounds: u64,
}

/// Runs operations on a map whose disk fails again and again. The command `switch` gets the word
/// `fail`, `work`, `mount` or `unmount`. Each failure must be noticed by a sync at the latest, and
/// must lose nothing that was acknowledged.
///
/// # Errors
/// Errors of the switch.
///
/// # Panics
/// If an error is not noticed, or something is lost.
pub fn fail(kind: &str, directory: &Path, switch: &str, rounds: u64) -> Done {
    super::with_kind(kind, Fail { directory, switch, rounds }).ok_or("no such kind")?
}

impl Fail<'_> {
    fn switch(&self, word: &str) -> Done {
        match Command::new(self.switch).arg(word).status()?.success() {
            true => Ok(()),
            false => Err(format!("{} {word} has failed", self.switch).into()),
        }
    }
}

impl Task for Fail<'_> {
    type Result = Done;

    fn run<W: Workload>(self, kind: &str) -> Done {
        let path = self.directory.join(kind);
        let open = || W::open_or_create(&path, &options(kind));
        let (mut done, mut held) = (0, Held::new());
        let mut random =
            Random::new(kind.bytes().fold(7, |seed, byte| seed.wrapping_mul(31) + u64::from(byte)));
        for round in 0..self.rounds {
            self.switch("mount")?;
            // If the failure has hit the file system itself, it has to be mounted again.
            let map = match open() {
                Ok(map) => map,
                Err(_) => {
                    self.switch("unmount")?;
                    self.switch("mount")?;
                    open()?
                }
            };
            let (found, until) = (map.held(), next_sync(done + 400));
            done = operations_of::<W>(&found, &held, done, until).ok_or_else(|| {
                let difference = difference::<W>(&found, &held, done..until);
                format!("{kind}: round {round}, {done} acknowledged: {difference}")
            })?;
            held = found;
            map.sync()?;
            for _ in 0..random.below(12) {
                let next = next_sync(done);
                (done..next).try_for_each(|number| map.run(number))?;
                map.sync()?;
                apply_until::<W>(&mut held, done..next);
                done = next;
            }
            // What was acknowledged after a failure is on the disk, and not only in the page cache,
            // which the system empties when it unmounts the file system.
            drop(map);
            self.switch("unmount")?;
            self.switch("mount")?;
            let map = open()?;
            let found = map.held();
            if found != held {
                let difference = difference::<W>(&found, &held, done..done);
                return Err(format!("{kind}: round {round}, mounted again: {difference}").into());
            }
            // The state before changes that meet the failure.
            map.sync()?;
            self.switch("fail")?;
            notice(&map, kind, round, (done, &held), &mut random);
            self.switch("work")?;
            // Changes are refused though the disk works again.
            assert_eq!(map.run(done), Err(FileError::Poisoned.into()), "{kind}: round {round}");
            assert_eq!(map.sync(), Err(FileError::Poisoned.into()), "{kind}: round {round}");
            drop(map);
            // In every second round the next handle finds what the page cache holds, which the disk
            // has not got.
            if round % 2 == 0 {
                self.switch("unmount")?;
            }
        }
        println!("{kind}: {} failures, {done} operations", self.rounds);
        Ok(())
    }
}

/// Runs operations until one returns an error, or a sync does, which must not succeed.
fn notice<W: Workload>(
    map: &W,
    kind: &str,
    round: u64,
    (done, held): (u64, &Held),
    random: &mut Random,
) {
    let (mut number, mut now) = (done, held.clone());
    let least = done + 1 + random.below(60);
    // If nothing has changed, a sync to a journal has nothing to write, and meets no failure.
    while number < least || now == *held {
        if let Err(error) = map.run(number) {
            return assert_failed(&error, kind, round);
        }
        W::apply(number, &mut now);
        number += 1;
    }
    match map.sync() {
        Ok(()) => panic!("{kind}: round {round}: a sync succeeds on a disk that fails"),
        Err(error) => assert_failed(&error, kind, round),
    }
}

fn assert_failed(error: &Error, kind: &str, round: u64) {
    let is_expected = matches!(error, Error::File(FileError::Io { .. } | FileError::Poisoned));
    assert!(is_expected, "{kind}: round {round}: {error}");
}
