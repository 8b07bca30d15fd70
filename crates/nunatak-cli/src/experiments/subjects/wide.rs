//! Maps with values of 16 bytes in their slots.

use super::{ROOM, Scratch, Subject, successes, write_pairs};
use nunatak::{Stop, WideDesign, WideMap};

/// A map with values of 16 bytes in its slots.
#[derive(Debug)]
pub(crate) struct Wide<D: WideDesign>(WideMap<u64, (u64, u64), D>);

impl<D: WideDesign> Wide<D> {
    pub(crate) fn with_capacity(items: u64) -> Self {
        Self(WideMap::with_capacity(items as usize))
    }
}

fn wide(value: u64) -> (u64, u64) {
    (value, !value)
}

#[inline(always)]
fn look_at((first, second): (u64, u64), look: impl FnOnce(&[u8])) {
    look((u128::from(second) << 64 | u128::from(first)).to_ne_bytes().as_slice());
}

impl<D: WideDesign> Subject for Wide<D>
where
    WideMap<u64, (u64, u64), D>: Sync,
{
    const BATCHED: bool = true;

    #[inline(always)]
    fn access(&self, key: u64, _: &mut Scratch, look: impl FnMut(&[u8])) {
        if let Some(value) = self.0.get(&key) {
            look_at(value, look);
        }
    }

    #[inline(always)]
    fn insert(&self, key: u64, value: u64, _: &mut Scratch) -> bool {
        self.0.insert(key, wide(value)).is_none()
    }

    #[inline(always)]
    fn delete(&self, key: u64, _: &mut Scratch) -> usize {
        usize::from(self.0.remove(&key).is_some())
    }

    fn access_many(&self, keys: &[u64], scratch: &mut Scratch, mut look: impl FnMut(usize, &[u8])) {
        self.0.get_many(keys, &mut scratch.wide).expect(ROOM);
        for (at, value) in scratch.wide[..keys.len()].iter().enumerate() {
            if let Some(value) = value {
                look_at(*value, |bytes| look(at, bytes));
            }
        }
    }

    fn insert_many(&self, entries: &[(u64, u64)], scratch: &mut Scratch) -> usize {
        scratch.wide_entries.clear();
        scratch.wide_entries.extend(entries.iter().map(|&(key, value)| (key, wide(value))));
        self.0.insert_many(&scratch.wide_entries, &mut scratch.wide).expect(ROOM)
    }

    fn delete_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        self.0.remove_many(keys, &mut scratch.wide).expect(ROOM)
    }

    fn insert_and_delete_many(&self, entries: &[(u64, u64)], scratch: &mut Scratch) -> usize {
        let entries = entries.iter().map(|&(key, value)| (key, wide(value)));
        write_pairs(&mut scratch.wide_operations, entries);
        self.0.execute(&mut scratch.wide_operations, Stop::Never);
        successes(&scratch.wide_operations)
    }

    fn get_many(&self, keys: &[u64], scratch: &mut Scratch) -> usize {
        self.0.get_many(keys, &mut scratch.wide).expect(ROOM)
    }
}
