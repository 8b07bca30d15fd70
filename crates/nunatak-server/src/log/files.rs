//! The files of a log: `data.map.log`, which says what the segments are for, and the segments
//! `data.map.log.1`, `data.map.log.2` and so on.
//!
//! `data.map.log` is locked by the server that has the map. Its one byte is a state:
//!
//! | state | the segments |
//! |---|---|
//! | `Used` | were written while the map was used; they count if the power was cut |
//! | `Replaying` | are being replayed: they count, however this server ends |
//! | `Retired` | count no more: the map has all of them |
//!
//! A state is durable before what it says begins, so a crash at any moment leaves a state that holds.

use super::LogError;
use crate::numbered;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Used = b'u' as isize,
    Replaying = b'p' as isize,
    Retired = b'r' as isize,
}

/// The files of the log of one map.
#[derive(Debug)]
pub(crate) struct Files {
    /// `data.map.log`
    path: PathBuf,
    control: File,
}

fn control_of(map: &Path) -> PathBuf {
    let mut name = map.as_os_str().to_owned();
    name.push(".log");
    name.into()
}

fn write_zeros(file: &File, bytes: u64) -> io::Result<()> {
    let zeros = [0; 1 << 16];
    let mut at = 0;
    while at < bytes {
        let more = (bytes - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..more as usize], at)?;
        at += more;
    }
    Ok(())
}

fn failed(action: &'static str) -> impl Fn(io::Error) -> LogError {
    move |error| LogError::Io { action, error }
}

impl Files {
    /// Whether a map has a log.
    pub(crate) fn exist(map: &Path) -> bool {
        control_of(map).exists()
    }

    /// Locks the log of a map, and creates it if there is none.
    pub(crate) fn lock(map: &Path) -> Result<Self, LogError> {
        let path = control_of(map);
        loop {
            let mut options = OpenOptions::new();
            let control = options.read(true).write(true).create(true).truncate(false).open(&path);
            let control = control.map_err(failed("open the log"))?;
            match control.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(LogError::InUse),
                Err(TryLockError::Error(error)) => return Err(failed("lock the log")(error)),
            }
            // Another server may have removed the file since it was opened.
            let opened = control.metadata().map_err(failed("read the log"))?;
            let is_there = |it: fs::Metadata| (it.dev(), it.ino()) == (opened.dev(), opened.ino());
            if fs::metadata(&path).is_ok_and(is_there) {
                let files = Self { path, control };
                if opened.len() == 0 {
                    files.set_state(State::Used)?;
                }
                return Ok(files);
            }
        }
    }

    /// Returns the path of the file that says what the segments are for.
    pub(crate) fn control(&self) -> &Path {
        &self.path
    }

    pub(super) fn state(&self) -> Result<State, LogError> {
        let mut byte = [0];
        self.control.read_exact_at(&mut byte, 0).map_err(failed("read the log"))?;
        let all = [State::Used, State::Replaying, State::Retired];
        let known = all.into_iter().find(|&state| state as isize == isize::from(byte[0]));
        known.ok_or(LogError::Unknown(self.path.clone()))
    }

    pub(super) fn set_state(&self, state: State) -> Result<(), LogError> {
        let written = self.control.write_all_at(&[state as isize as u8], 0);
        written.and_then(|()| self.control.sync_all()).map_err(failed("write the log"))?;
        self.sync_names()
    }

    pub(super) fn segment(&self, number: u64) -> PathBuf {
        numbered::path_of(&self.path, ".", number)
    }

    /// Returns the numbers of the segments that are there, in order.
    pub(super) fn segments(&self) -> Result<Vec<u64>, LogError> {
        numbered::numbers_of(&self.path, ".").map_err(failed("read the folder of the log"))
    }

    /// Makes names durable that were made or removed.
    pub(super) fn sync_names(&self) -> Result<(), LogError> {
        let synced =
            File::open(numbered::folder_of(&self.path)).and_then(|folder| folder.sync_all());
        synced.map_err(failed("write the folder of the log"))
    }

    pub(super) fn read(&self, number: u64) -> Result<Vec<u8>, LogError> {
        fs::read(self.segment(number)).map_err(failed("read a segment of the log"))
    }

    /// Creates a segment, with all of its blocks.
    pub(super) fn create(&self, number: u64, bytes: u64) -> Result<File, LogError> {
        let path = self.segment(number);
        let made = OpenOptions::new().write(true).create_new(true).open(&path).and_then(|file| {
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                // Not every file system can reserve blocks; all can be written to.
                Err(Errno::OPNOTSUPP) => write_zeros(&file, bytes)?,
                reserved => reserved?,
            }
            file.sync_all()?;
            Ok(file)
        });
        let made = made.map_err(failed("make a segment of the log"));
        if made.is_err() {
            // It would be in the way of the next attempt; and it takes room that is scarce.
            let _ = fs::remove_file(&path);
        }
        let file = made?;
        self.sync_names()?;
        Ok(file)
    }

    pub(super) fn remove(&self, number: u64) -> Result<(), LogError> {
        match fs::remove_file(self.segment(number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove a segment of the log")(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes all segments, which the map has: however this ends, they count no more.
    pub(super) fn retire(&self) -> Result<(), LogError> {
        let segments = self.segments()?;
        if !segments.is_empty() {
            self.set_state(State::Retired)?;
            segments.into_iter().try_for_each(|number| self.remove(number))?;
            self.sync_names()?;
        }
        self.set_state(State::Used)
    }

    /// Removes the log of a map that was closed.
    pub(crate) fn remove_all(self) -> Result<(), LogError> {
        self.retire()?;
        fs::remove_file(&self.path).map_err(failed("remove the log"))?;
        self.sync_names()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_fill_a_segment() {
        let file = tempfile::tempfile().unwrap();
        write_zeros(&file, 100_000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 100_000);
    }

    #[test]
    fn one_server_has_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let map = folder.path().join("data.map");
        assert!(!Files::exist(&map));
        let files = Files::lock(&map).unwrap();
        assert!(Files::exist(&map));
        assert!(matches!(Files::lock(&map), Err(LogError::InUse)));
        files.create(2, 5000).unwrap();
        files.create(10, 5000).unwrap();
        std::fs::write(folder.path().join("data.map.log.02"), "another's").unwrap();
        std::fs::write(folder.path().join("data.map.log.old"), "another's").unwrap();
        assert_eq!(files.segments().unwrap(), [2, 10]);
        assert_eq!(files.read(10).unwrap(), vec![0; 5000]);
        assert_eq!(files.state().unwrap(), State::Used);
        files.set_state(State::Replaying).unwrap();
        drop(files);
        let files = Files::lock(&map).unwrap();
        assert_eq!(files.state().unwrap(), State::Replaying);
        files.retire().unwrap();
        assert!(files.segments().unwrap().is_empty());
        assert_eq!(files.state().unwrap(), State::Used);
        files.remove_all().unwrap();
        assert!(!Files::exist(&map));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "another's are left");
    }
}
