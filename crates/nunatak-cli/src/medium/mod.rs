//! Where the maps of a run keep their items: the folder of their files, what an operation on them
//! survives, and how slow the memory is that is emulated.
//!
//! Adapters are made by a map's name alone, also in processes of their own, so this is a setting of
//! the whole process. `nunatak bench papers` [uses](Medium::use_for_maps) one after the other.

mod level;
mod slow_memory;

pub(crate) use level::{DeviceLatency, Level};
pub(crate) use slow_memory::SlowMemory;

use clap::Args;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{PoisonError, RwLock};
use tempfile::TempDir;

/// The options of the command line.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Options of files and memory")]
pub(crate) struct Medium {
    /// What an operation on a map of this project in a file survives when it returns: `process`,
    /// `interval:MS`, `synced`, or `persistent-memory`. The last writes back and fences every change.
    /// Where --dir is not mounted with DAX this is emulated in the page cache, and a power cut may leave
    /// anything.
    #[arg(long, value_name = "LEVEL", default_value_t)]
    pub(crate) durability: Level,
    /// Keep the files of maps in this folder [default: the system's folder of temporary files].
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Emulate slower memory by waits: nanoseconds until the first line that an operation reads
    /// arrives, and how much longer a line takes that is written back. Optane: 305,94; memory behind
    /// CXL: about 250. For single operations with --durability persistent-memory, for remote-memory,
    /// and, computed instead of waited for, for accounting.
    #[arg(long, value_name = "READ[,WRITE]")]
    pub(crate) device_latency: Option<DeviceLatency>,
    /// Whether the folder is on persistent memory; found out when the options are used.
    #[arg(skip)]
    is_dax: bool,
}

/// What the maps that are made next use.
static USED: RwLock<Option<Medium>> = RwLock::new(None);

impl Medium {
    /// Makes the maps of this process, and of the processes that it starts, use these options from
    /// here on.
    pub(crate) fn use_for_maps(&self) -> Result<(), String> {
        let mut medium = self.clone();
        let failed = |error: &dyn std::fmt::Display| match &self.dir {
            Some(dir) => format!("{}: {error}", dir.display()),
            None => error.to_string(),
        };
        let folder = medium.folder().map_err(|error| failed(&error))?;
        if self.durability == Level::PersistentMemory {
            medium.is_dax = is_dax(folder.path()).map_err(|error| failed(&error))?;
        }
        *USED.write().unwrap_or_else(PoisonError::into_inner) = Some(medium);
        Ok(())
    }

    /// Returns what was used last.
    pub(crate) fn used() -> Self {
        USED.read().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }

    /// Makes a folder for one map, which is gone when it is dropped.
    pub(crate) fn folder(&self) -> io::Result<TempDir> {
        match &self.dir {
            Some(dir) => tempfile::tempdir_in(dir),
            None => tempfile::tempdir(),
        }
    }

    /// Returns the options with which a map of this project creates and opens its file.
    #[cfg(durable)]
    pub(crate) fn options(&self) -> nunatak::durable::Options {
        use nunatak::durable::{Durability, Options};
        let durability = match self.durability {
            Level::Process => Durability::Process,
            Level::Interval(time) => Durability::Interval(time),
            Level::Synced => Durability::Synced,
            Level::PersistentMemory => Durability::PersistentMemory,
        };
        let options = Options::new().durability(durability);
        match self.is_emulated() {
            true => options.emulate_persistent_memory(self.write_latency()),
            false => options,
        }
    }

    /// Whether persistent memory is asked for and there is none, or none of this latency.
    fn is_emulated(&self) -> bool {
        let is_wanted = self.durability == Level::PersistentMemory;
        is_wanted && (!self.is_dax || self.device_latency.is_some())
    }

    #[cfg(durable)]
    fn write_latency(&self) -> std::time::Duration {
        let nanoseconds = self.device_latency.map_or(0.0, |latency| latency.write);
        std::time::Duration::from_nanos(nanoseconds as u64)
    }

    /// Returns what sets the rows of maps in files apart from those of other runs.
    pub(crate) fn label(&self) -> Option<String> {
        match (self.durability, self.device_latency) {
            (Level::Process, _) => None,
            (level, None) => Some(level.to_string()),
            (level, Some(latency)) => Some(format!("{level}, {latency} ns")),
        }
    }

    /// Says in words on what the files of maps are, and what is emulated.
    pub(crate) fn said(&self) -> String {
        let system = file_system(self.dir.as_deref()).unwrap_or_else(|| "a file system".to_owned());
        let on = match self.durability {
            Level::PersistentMemory if self.is_dax && !self.is_emulated() => {
                format!("files on {system} with DAX, mapped by MAP_SYNC")
            }
            Level::PersistentMemory => format!(
                "an emulation: files on {system} in the page cache; every change executes its write-backs \
                 and fences, and a power cut may leave anything"
            ),
            _ => format!("files on {system} in the page cache"),
        };
        let waits = self.device_latency.map_or(String::new(), |latency| {
            format!("; slower memory emulated by waits: {}", latency.said())
        });
        format!("{}: {on}{waits}", self.durability)
    }
}

impl FromStr for Medium {
    type Err = serde_json::Error;

    /// Reads what another process has [written](Self::to_argument).
    fn from_str(json: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(json)
    }
}

impl Medium {
    /// Writes the options for another process.
    pub(crate) fn to_argument(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Returns whether files in a folder can be used as persistent memory.
#[cfg(durable)]
fn is_dax(folder: &Path) -> Result<bool, nunatak::Error> {
    use nunatak::durable::{Durability, IcebergMap, Options};
    let options = Options::new().durability(Durability::PersistentMemory);
    match IcebergMap::<u64, u64>::create_with(folder.join("probe"), &options) {
        Ok(_) => Ok(true),
        Err(nunatak::Error::File(nunatak::FileError::NotPersistentMemory)) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(not(durable))]
fn is_dax(_: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Returns the type of the file system that a folder is on, if the system tells it.
fn file_system(dir: Option<&Path>) -> Option<String> {
    let dir = dir.map_or_else(std::env::temp_dir, Path::to_path_buf).canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    type_at(&dir, &mounts)
}

/// Finds the type of the innermost mount that a folder is in.
fn type_at(dir: &Path, mounts: &str) -> Option<String> {
    let mount = |line: &str| {
        // Fields before " - ": the fifth is where it is mounted. After it: the type.
        let (before, after) = line.split_once(" - ")?;
        let at = before.split(' ').nth(4)?.replace("\\040", " ");
        dir.starts_with(&at).then(|| Some((at.len(), after.split(' ').next()?.to_owned())))?
    };
    // Of several mounts at one place the last one counts.
    mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                      30 22 0:25 / /mnt/my\\040pmem rw shared:1 - xfs /dev/pmem0 rw,dax\n\
                      31 22 0:26 / /mnt rw - tmpfs none rw\n";
        let kind = |dir: &str| type_at(Path::new(dir), mounts);
        assert_eq!(kind("/home").as_deref(), Some("ext4"));
        assert_eq!(kind("/mnt/my pmem/maps").as_deref(), Some("xfs"));
        assert_eq!(kind("/mnt/mypmem").as_deref(), Some("tmpfs"));
        assert_eq!(type_at(Path::new("/home"), ""), None);
    }

    #[test]
    fn another_process_reads_the_same_options() {
        let medium = Medium {
            durability: Level::PersistentMemory,
            dir: Some("/a folder".into()),
            device_latency: "305,94".parse().ok(),
            is_dax: false,
        };
        assert_eq!(medium.to_argument().parse::<Medium>().ok(), Some(medium.clone()));
        assert_eq!(medium.label().as_deref(), Some("persistent-memory, 305+94 ns"));
        let said = medium.said();
        assert!(said.contains("an emulation") && said.contains("94 ns longer"), "{said}");
        assert_eq!(Medium::default().label(), None);
    }
}
