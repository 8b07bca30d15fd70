//! LMDB by `heed`: a B+ tree in a writable file mapping.

use super::store::{Outcome, Store};
use heed::byteorder::NativeEndian;
use heed::types::U64;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, IntegerComparator};
use std::path::Path;

type Word = U64<NativeEndian>;

pub(super) struct Lmdb {
    environment: Env,
    database: Database<Word, Word, IntegerComparator>,
}

impl Lmdb {
    pub(super) fn create(directory: &Path, items: usize) -> Outcome<Self> {
        // Reserves addresses only: enough for the half-full pages of a tree that was filled at
        // random.
        let bytes = (items.max(1 << 20) * 256).next_multiple_of(1 << 20);
        let mut options = EnvOpenOptions::new();
        options.map_size(bytes).max_readers(256);
        // SAFETY: no other code knows the directory. Without syncs a power cut may damage the file,
        // but the file is temporary.
        let environment = unsafe {
            options.flags(EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC);
            options.open(directory)?
        };
        let mut transaction = environment.write_txn()?;
        let database = environment
            .database_options()
            .types::<Word, Word>()
            .key_comparator::<IntegerComparator>()
            .create(&mut transaction)?;
        transaction.commit()?;
        Ok(Self { environment, database })
    }
}

impl Store for Lmdb {
    fn get(&self, key: u64) -> Outcome<Option<u64>> {
        let transaction = self.environment.read_txn()?;
        Ok(self.database.get(&transaction, &key)?)
    }

    fn put(&self, key: u64, value: u64) -> Outcome<Option<u64>> {
        let mut transaction = self.environment.write_txn()?;
        self.database.put(&mut transaction, &key, &value)?;
        transaction.commit()?;
        Ok(None)
    }

    fn modify(&self, key: u64, change: &dyn Fn(u64) -> u64) -> Outcome<bool> {
        let mut transaction = self.environment.write_txn()?;
        let Some(value) = self.database.get(&transaction, &key)? else { return Ok(false) };
        self.database.put(&mut transaction, &key, &change(value))?;
        transaction.commit()?;
        Ok(true)
    }

    fn remove(&self, key: u64) -> Outcome<Option<u64>> {
        let mut transaction = self.environment.write_txn()?;
        let value = self.database.get(&transaction, &key)?;
        self.database.delete(&mut transaction, &key)?;
        transaction.commit()?;
        Ok(value)
    }

    fn put_synced(&self, entries: &[(u64, u64)]) -> Outcome<()> {
        let mut transaction = self.environment.write_txn()?;
        for (key, value) in entries {
            self.database.put(&mut transaction, key, value)?;
        }
        transaction.commit()?;
        Ok(self.environment.force_sync()?)
    }
}
