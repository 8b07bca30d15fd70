//! RocksDB: a log-structured merge tree.

use super::store::{Outcome, Store};
use parking_lot::Mutex;
use rocksdb::{DB, WriteBatch, WriteOptions};
use std::path::Path;

pub(super) struct Rocksdb {
    database: DB,
    /// Held by operations that read a value and then write it.
    modifying: Mutex<()>,
}

impl Rocksdb {
    pub(super) fn create(directory: &Path) -> Outcome<Self> {
        Ok(Self { database: DB::open_default(directory)?, modifying: Mutex::new(()) })
    }
}

impl Store for Rocksdb {
    fn get(&self, key: u64) -> Outcome<Option<u64>> {
        let Some(value) = self.database.get_pinned(key.to_be_bytes())? else { return Ok(None) };
        Ok(Some(u64::from_be_bytes(value[..].try_into()?)))
    }

    fn put(&self, key: u64, value: u64) -> Outcome<Option<u64>> {
        self.database.put(key.to_be_bytes(), value.to_be_bytes())?;
        Ok(None)
    }

    fn modify(&self, key: u64, change: &dyn Fn(u64) -> u64) -> Outcome<bool> {
        let _modifying = self.modifying.lock();
        let Some(value) = self.get(key)? else { return Ok(false) };
        self.put(key, change(value))?;
        Ok(true)
    }

    fn remove(&self, key: u64) -> Outcome<Option<u64>> {
        let _modifying = self.modifying.lock();
        let value = self.get(key)?;
        self.database.delete(key.to_be_bytes())?;
        Ok(value)
    }

    fn put_synced(&self, entries: &[(u64, u64)]) -> Outcome<()> {
        let mut batch = WriteBatch::default();
        for (key, value) in entries {
            batch.put(key.to_be_bytes(), value.to_be_bytes());
        }
        let mut options = WriteOptions::default();
        options.set_sync(true);
        Ok(self.database.write_opt(batch, &options)?)
    }
}
