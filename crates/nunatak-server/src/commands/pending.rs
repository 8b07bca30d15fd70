//! Changes of a transaction that are not made yet.
//!
//! With a file, `EXEC` collects the changes of its commands, which see them, and makes them together
//! at the end. So a crash leaves all of them or none. In RAM they are made at once.

use crate::store::Store;
use crate::store::space::Change;
use nunatak::Error;
use std::collections::{BTreeMap, HashMap};

/// The records that keys will have; `None` for a removed key.
type Records = HashMap<Vec<u8>, Option<Vec<u8>>>;

/// Changes by database. The last change of a key counts.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    databases: BTreeMap<usize, Records>,
}

impl Pending {
    /// Returns a key's record if it was changed.
    pub(crate) fn get(&self, db: usize, key: &[u8]) -> Option<Option<&[u8]>> {
        self.databases.get(&db)?.get(key).map(Option::as_deref)
    }

    pub(crate) fn change(&mut self, db: usize, (key, record): Change<'_>) {
        let records = self.databases.entry(db).or_default();
        records.insert(key.to_vec(), record.map(<[u8]>::to_vec));
    }

    /// Makes the changes, those of each database as a whole.
    pub(crate) fn write(&mut self, store: &Store) -> Result<(), Error> {
        std::mem::take(&mut self.databases).into_iter().try_for_each(|(db, records)| {
            let changes = records.iter().map(|(key, record)| (key.as_slice(), record.as_deref()));
            store.space(db).change_together(&changes.collect::<Vec<_>>())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::space::Space;

    #[test]
    fn the_last_change_of_a_key_counts() {
        let store = Store::new(vec![Space::in_ram(), Space::in_ram()], 1);
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
