//! fjall: a log-structured merge tree.

use super::store::{Outcome, Store};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use parking_lot::Mutex;
use std::path::Path;

pub(super) struct Fjall {
    database: Database,
    items: Keyspace,
    /// Held by operations that read a value and then write it.
    modifying: Mutex<()>,
}

impl Fjall {
    pub(super) fn create(directory: &Path) -> Outcome<Self> {
        let database = Database::builder(directory).open()?;
        let items = database.keyspace("items", KeyspaceCreateOptions::default)?;
        Ok(Self { database, items, modifying: Mutex::new(()) })
    }
}

impl Store for Fjall {
    fn get(&self, key: u64) -> Outcome<Option<u64>> {
        let Some(value) = self.items.get(key.to_be_bytes())? else { return Ok(None) };
        Ok(Some(u64::from_be_bytes(value[..].try_into()?)))
    }

    fn put(&self, key: u64, value: u64) -> Outcome<Option<u64>> {
        self.items.insert(key.to_be_bytes(), value.to_be_bytes())?;
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
        self.items.remove(key.to_be_bytes())?;
        Ok(value)
    }

    fn put_synced(&self, entries: &[(u64, u64)]) -> Outcome<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for (key, value) in entries {
            batch.insert(&self.items, key.to_be_bytes(), value.to_be_bytes());
        }
        Ok(batch.commit()?)
    }
}
