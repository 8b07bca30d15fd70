//! How the subcommands open files: with what all of them were told, and not to change a map whose server
//! has left its log.

use super::failure::{Failure, at};
use super::maps::MapFile;
use nunatak::durable::{Forced, Options};
use nunatak::{Error, FileError};
use std::path::Path;
use std::sync::OnceLock;

/// Whether files that were not closed are taken for ones that a power cut has left.
pub(super) static AFTER_POWER_CUT: OnceLock<bool> = OnceLock::new();

/// Whether damaged files are read.
pub(super) static FORCED: OnceLock<bool> = OnceLock::new();

pub(super) fn options() -> Options {
    Options::new().after_power_cut(AFTER_POWER_CUT.get().copied().unwrap_or(false))
}

/// Refuses to change a map beside which a server has left its log: the server could not tell any more
/// what the map lacks.
pub(super) fn refuse_log(path: &Path) -> Result<(), Failure> {
    let mut log = path.as_os_str().to_owned();
    log.push(".log");
    match Path::new(&log).exists() {
        true => Err(Failure::HasLog(path.to_owned())),
        false => Ok(()),
    }
}

pub(super) fn open_or_create<M: MapFile>(path: &Path, options: &Options) -> Result<M, Failure> {
    refuse_log(path)?;
    at(path, M::open_or_create(path, options))
}

pub(super) fn open<M: MapFile>(path: &Path) -> Result<M, Failure> {
    refuse_log(path)?;
    at(path, M::open(path, &options()))
}

/// Opens a file to read it, also if another process has it open.
pub(super) fn open_to_read<M: MapFile>(path: &Path) -> Result<M, Failure> {
    let in_use = Error::from(FileError::InUse);
    let options = options().read_only(true);
    if FORCED.get() == Some(&true) {
        return at(path, M::open(path, &options.forced(Forced::Everything)));
    }
    match M::open(path, &options) {
        Err(error) if error == in_use => {}
        other => return at(path, other),
    }
    match M::open_beside(path) {
        Err(error) if error == in_use => Err(Failure::Unanswered(path.to_owned())),
        other => {
            let map = at(path, other)?;
            let what = "its last sync, or a snapshot that its process has made";
            eprintln!("{}: in use, so this is {what}", path.display());
            Ok(map)
        }
    }
}
