//! Stores that keep their items in files, one adapter a file. An adapter calls the fastest
//! documented operation that has the required effect.
//!
//! Single operations are not synced. Which of them survive the end of the process depends on the
//! store, and no store guarantees more than a map of this project in a file: see
//! [`MapName::description`].

#[cfg(feature = "databases")]
mod fjall;
#[cfg(feature = "databases")]
mod lmdb;
#[cfg(feature = "databases")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "databases")]
mod sled;
mod store;

use super::{MapName, Target};
use crate::medium::Medium;
use std::path::Path;
use store::{Outcome, Store};
use tempfile::TempDir;

#[allow(
    unused_variables,
    unreachable_code,
    clippy::match_single_binding,
    reason = "a build may have no store"
)]
fn open(name: MapName, directory: &Path, items: usize) -> Outcome<Box<dyn Store>> {
    Ok(match name {
        #[cfg(feature = "databases")]
        MapName::Redb => Box::new(redb::Redb::create(directory)?),
        #[cfg(feature = "databases")]
        MapName::Fjall => Box::new(fjall::Fjall::create(directory)?),
        #[cfg(feature = "databases")]
        MapName::Sled => Box::new(sled::Sled::create(directory)?),
        #[cfg(feature = "rocksdb")]
        MapName::Rocksdb => Box::new(rocksdb::Rocksdb::create(directory)?),
        #[cfg(feature = "databases")]
        MapName::Lmdb => Box::new(lmdb::Lmdb::create(directory, items)?),
        other => return Err(format!("{other} is not in this build").into()),
    })
}

/// A store in a temporary directory of its own. All stores have this one type: a virtual call is
/// cheap beside their operations.
pub(crate) struct Stored {
    store: Option<Box<dyn Store>>,
    name: MapName,
    items: usize,
    directory: TempDir,
}

const WORKS: &str = "the disk takes what the store writes";

impl Stored {
    fn store(&self) -> &dyn Store {
        self.store.as_deref().expect("it is open but while it is opened again")
    }
}

impl Target for Stored {
    fn with_capacity(name: MapName, items: usize) -> Self {
        let directory = Medium::used().folder().expect(WORKS);
        let store = Some(open(name, directory.path(), items).expect(WORKS));
        Self { store, name, items, directory }
    }

    fn empty(name: MapName) -> Self {
        Self::with_capacity(name, 0)
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.store().get(key).expect(WORKS)
    }

    fn insert(&self, key: u64, value: u64) -> Option<u64> {
        self.store().put(key, value).expect(WORKS)
    }

    fn update(&self, key: u64, value: u64) -> bool {
        self.store().modify(key, &|_| value).expect(WORKS)
    }

    fn modify(&self, key: u64, change: impl Fn(u64) -> u64) -> bool {
        self.store().modify(key, &change).expect(WORKS)
    }

    fn remove(&self, key: u64) -> Option<u64> {
        self.store().remove(key).expect(WORKS)
    }

    fn insert_synced(&self, entries: &[(u64, u64)]) {
        self.store().put_synced(entries).expect(WORKS);
    }

    fn reopen(&mut self, _threads: usize) {
        self.store = None;
        self.store = Some(open(self.name, self.directory.path(), self.items).expect(WORKS));
    }

    fn bytes(&self) -> Option<usize> {
        let entries = std::fs::read_dir(self.directory.path()).ok()?;
        let blocks = entries.filter_map(|entry| blocks_in(&entry.ok()?.path()));
        Some(blocks.sum::<u64>() as usize * 512)
    }
}

/// Returns how many disk blocks of 512 bytes a file has, or all files in a directory.
#[cfg(unix)]
fn blocks_in(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_dir() {
        return Some(metadata.blocks());
    }
    let entries = std::fs::read_dir(path).ok()?;
    Some(entries.filter_map(|entry| blocks_in(&entry.ok()?.path())).sum())
}

#[cfg(not(unix))]
fn blocks_in(path: &Path) -> Option<u64> {
    Some(std::fs::metadata(path).ok()?.len().div_ceil(512))
}
