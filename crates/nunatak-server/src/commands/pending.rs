//! Changes of a transaction that are not made yet.
//!
//! With a file, `EXEC` collects the changes of its commands, which see them, and makes them together
//! at the end. So a crash leaves all of them or none. In RAM they are made at once.

use crate::store::Store;
use crate::store::root::Root;
use crate::store::space::Change;
use nunatak::Error;
use std::collections::{BTreeMap, HashMap};

/// The changes of a database.
#[derive(Debug, Default)]
struct Changes {
    /// The records that keys will have; `None` for a removed key.
    records: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// By how many there will be more segments.
    growth: i64,
    /// Values whose segments go afterwards.
    dropped: Vec<Root>,
}

/// Changes by database. The last change of a key counts.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    databases: BTreeMap<usize, Changes>,
}

impl Pending {
    /// Returns a key's record if it was changed.
    pub(crate) fn get(&self, db: usize, key: &[u8]) -> Option<Option<&[u8]>> {
        self.databases.get(&db)?.records.get(key).map(Option::as_deref)
    }

    pub(crate) fn change(&mut self, db: usize, (key, record): Change<'_>) {
        let changes = self.databases.entry(db).or_default();
        changes.records.insert(key.to_vec(), record.map(<[u8]>::to_vec));
    }

    /// Notes that the changes make so many more segments.
    pub(crate) fn grow(&mut self, db: usize, growth: i64) {
        self.databases.entry(db).or_default().growth += growth;
    }

    /// Notes that a value goes, whose segments are not needed any more.
    pub(crate) fn drop_segments(&mut self, db: usize, root: Root) {
        self.databases.entry(db).or_default().dropped.push(root);
    }

    /// Makes the changes, those of each database as a whole.
    pub(crate) fn write(&mut self, store: &Store) -> Result<(), Error> {
        std::mem::take(&mut self.databases).into_iter().try_for_each(|(db, changes)| {
            let Changes { records, growth, dropped } = changes;
            let changes = records.iter().map(|(key, record)| (key.as_slice(), record.as_deref()));
            store.change_together(db, &changes.collect::<Vec<_>>(), growth)?;
            dropped.iter().for_each(|root| store.drop_segments(db, root));
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::space::Space;

    #[test]
    fn the_last_change_of_a_key_counts() {
        let store = Store::new(vec![Space::in_ram(), Space::in_ram()], 1).unwrap();
        store.space(1).put(b"a", b"0").unwrap();
        let mut pending = Pending::default();
        assert_eq!(pending.get(1, b"a"), None);
        for change in [(&b"a"[..], Some(&b"1"[..])), (b"b", Some(b"2")), (b"a", None)] {
            pending.change(1, change);
        }
        assert_eq!(
            (pending.get(1, b"a"), pending.get(1, b"b")),
            (Some(None), Some(Some(&b"2"[..])))
        );
        assert_eq!(pending.get(0, b"b"), None, "of another database");
        pending.write(&store).unwrap();
        assert_eq!(pending.get(1, b"b"), None);
        assert!(store.space(1).get(b"a", |record| record.is_none()));
        assert!(store.space(1).get(b"b", |record| record == Some(b"2")));
        assert_eq!(store.space(0).len(), 0);
    }
}
