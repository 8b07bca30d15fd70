//! redb: copy-on-write B+ trees.

use super::store::{Outcome, Store};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;

const TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("items");

pub(super) struct Redb(Database);

impl Redb {
    pub(super) fn create(directory: &Path) -> Outcome<Self> {
        let database = Database::create(directory.join("map"))?;
        let transaction = database.begin_write()?;
        transaction.open_table(TABLE)?;
        transaction.commit()?;
        Ok(Self(database))
    }

    fn write<R>(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut redb::Table<'_, u64, u64>) -> Outcome<R>,
    ) -> Outcome<R> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(durability)?;
        let result = change(&mut transaction.open_table(TABLE)?)?;
        transaction.commit()?;
        Ok(result)
    }
}

impl Store for Redb {
    fn get(&self, key: u64) -> Outcome<Option<u64>> {
        let value = self.0.begin_read()?.open_table(TABLE)?.get(key)?;
        Ok(value.map(|value| value.value()))
    }

    fn put(&self, key: u64, value: u64) -> Outcome<Option<u64>> {
        self.write(Durability::None, |table| {
            Ok(table.insert(key, value)?.map(|previous| previous.value()))
        })
    }

    fn modify(&self, key: u64, change: &dyn Fn(u64) -> u64) -> Outcome<bool> {
        self.write(Durability::None, |table| {
            let Some(value) = table.get(key)?.map(|value| value.value()) else { return Ok(false) };
            table.insert(key, change(value))?;
            Ok(true)
        })
    }

    fn remove(&self, key: u64) -> Outcome<Option<u64>> {
        self.write(Durability::None, |table| {
            Ok(table.remove(key)?.map(|previous| previous.value()))
        })
    }

    fn put_synced(&self, entries: &[(u64, u64)]) -> Outcome<()> {
        self.write(Durability::Immediate, |table| {
            for (key, value) in entries {
                table.insert(key, value)?;
            }
            Ok(())
        })
    }
}
