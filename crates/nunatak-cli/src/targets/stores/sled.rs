//! sled: a Bw-tree on a log.

use super::store::{Outcome, Store};
use sled::{Db, IVec};
use std::path::Path;

pub(super) struct Sled(Db);

impl Sled {
    pub(super) fn create(directory: &Path) -> Outcome<Self> {
        Ok(Self(sled::Config::new().path(directory).open()?))
    }
}

fn word(bytes: Option<IVec>) -> Outcome<Option<u64>> {
    let Some(bytes) = bytes else { return Ok(None) };
    Ok(Some(u64::from_be_bytes(bytes[..].try_into()?)))
}

impl Store for Sled {
    fn get(&self, key: u64) -> Outcome<Option<u64>> {
        word(self.0.get(key.to_be_bytes())?)
    }

    fn put(&self, key: u64, value: u64) -> Outcome<Option<u64>> {
        word(self.0.insert(key.to_be_bytes(), &value.to_be_bytes())?)
    }

    fn modify(&self, key: u64, change: &dyn Fn(u64) -> u64) -> Outcome<bool> {
        let previous = self.0.fetch_and_update(key.to_be_bytes(), |value| {
            let value = u64::from_be_bytes(value?.try_into().ok()?);
            Some(change(value).to_be_bytes().to_vec())
        })?;
        Ok(previous.is_some())
    }

    fn remove(&self, key: u64) -> Outcome<Option<u64>> {
        word(self.0.remove(key.to_be_bytes())?)
    }

    fn put_synced(&self, entries: &[(u64, u64)]) -> Outcome<()> {
        let mut batch = sled::Batch::default();
        for (key, value) in entries {
            batch.insert(&key.to_be_bytes(), &value.to_be_bytes());
        }
        self.0.apply_batch(batch)?;
        self.0.flush()?;
        Ok(())
    }
}
