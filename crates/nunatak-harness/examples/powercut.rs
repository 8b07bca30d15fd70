//! What `.ci/powercut` runs, in the virtual machine and outside of it.
//!
//! ```text
//! powercut kinds
//! powercut operate KIND MAP DISK OFFSET OPERATIONS
//! powercut check KIND BASE LOG OFFSET CUTS SEED SCRATCH
//! powercut fail KIND DIRECTORY SWITCH ROUNDS
//! ```
//!
//! In a build with seeded bugs the environment variable `NUNATAK_BUG` switches one of them on.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::run()
}

#[cfg(target_os = "linux")]
mod linux {
    use nunatak_harness::powercuts::{Cuts, KINDS, check, fail, operate};
    use std::error::Error;
    use std::path::Path;

    /// Switches a seeded bug on that the tests of this name need.
    #[cfg(nunatak_seeded_bugs)]
    fn seed() -> Result<(), Box<dyn Error>> {
        use nunatak::seeded::{Bug, seed};
        let Ok(name) = std::env::var("NUNATAK_BUG") else { return Ok(()) };
        seed(Some(match name.as_str() {
            "SyncOmitted" => Bug::SyncOmitted,
            "EpochBeforeBarrier" => Bug::EpochBeforeBarrier,
            "JournalUnsynced" => Bug::JournalUnsynced,
            "BatchNotTakenBack" => Bug::BatchNotTakenBack,
            _ => return Err("no such bug".into()),
        }));
        Ok(())
    }

    #[cfg(not(nunatak_seeded_bugs))]
    fn seed() -> Result<(), Box<dyn Error>> {
        match std::env::var_os("NUNATAK_BUG") {
            Some(_) => Err("this build has no seeded bugs".into()),
            None => Ok(()),
        }
    }

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        seed()?;
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match *arguments.as_slice() {
            ["kinds"] => KINDS.iter().for_each(|kind| println!("{kind}")),
            ["operate", kind, map, disk, at, operations] => {
                let (at, operations) = (at.parse()?, operations.parse()?);
                operate(kind, Path::new(map), Path::new(disk), at, operations)?;
            }
            ["check", kind, base, log, at, count, seed, scratch] => {
                let found = check(
                    kind,
                    Cuts {
                        base: Path::new(base),
                        log: Path::new(log),
                        acknowledged_at: at.parse()?,
                        count: count.parse()?,
                        seed: seed.parse()?,
                        scratch: Path::new(scratch),
                    },
                )?;
                println!("{kind}: {found:?}");
            }
            ["fail", kind, directory, switch, rounds] => {
                fail(kind, Path::new(directory), switch, rounds.parse()?)?;
            }
            _ => return Err("see the comment of this program".into()),
        }
        Ok(())
    }
}
