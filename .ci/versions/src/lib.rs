//! Whole loops over maps, behind an interface that stays the same from version to version.

use nunatak::{ConcurrentMap, DlhtMap, IcebergMap, PeaMap, TurboMap};
use std::slice;

/// Runs an operation for each key.
type Loops = Box<dyn Fn(u32, &[u64]) -> usize>;

/// Keys of one call of the batched operations.
const BATCH: usize = 4096;

/// Runs an operation for each key. Returns how many keys were there.
fn run_on<M: ConcurrentMap<u64, u64>>(map: &M, operation: u32, keys: &[u64]) -> usize {
    let mut found = vec![None; BATCH];
    let mut entries = vec![(0, 0); BATCH];
    match operation {
        0 => keys.iter().filter(|&&key| map.insert(key, !key).is_some()).count(),
        1 => keys.iter().filter(|&key| map.get(key) == Some(!key)).count(),
        2 => keys.iter().filter(|&key| map.remove(key).is_some()).count(),
        _ => keys
            .chunks(BATCH)
            .map(|keys| {
                let found = &mut found[..keys.len()];
                match operation {
                    3 => {
                        let entries = &mut entries[..keys.len()];
                        entries.iter_mut().zip(keys).for_each(|(entry, &key)| *entry = (key, !key));
                        map.insert_many(entries, found).map(|_| ())
                    }
                    4 => map.get_many(keys, found).map(|_| ()),
                    _ => map.remove_many(keys, found).map(|_| ()),
                }
                .expect("as many results as keys");
                found.iter().flatten().count()
            })
            .sum(),
    }
}

fn loops_over<M: ConcurrentMap<u64, u64> + 'static>(
    make: fn(usize) -> M,
    capacity: usize,
) -> Loops {
    let map = make(capacity);
    Box::new(move |operation, keys| match operation {
        // Growth: a map of its own, from empty to all keys.
        6 => run_on(&make(0), 0, keys),
        _ => run_on(&map, operation, keys),
    })
}

/// Makes a map that has room for so many entries. It lives as long as the process.
#[unsafe(no_mangle)]
pub extern "C" fn versions_map(kind: u32, capacity: usize) -> *const () {
    let loops = match kind {
        0 => loops_over(DlhtMap::with_capacity, capacity),
        1 => loops_over(IcebergMap::with_capacity, capacity),
        2 => loops_over(PeaMap::with_capacity, capacity),
        _ => loops_over(TurboMap::with_capacity, capacity),
    };
    (&raw const *Box::leak(Box::new(loops))).cast()
}

/// Runs an operation for each key, and returns how many keys were there.
///
/// # Safety
/// `map` is of [`versions_map`] of the same library, and `count` keys are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn versions_run(
    map: *const (),
    operation: u32,
    keys: *const u64,
    count: usize,
) -> usize {
    // SAFETY: the caller's promise.
    let (run, keys) = unsafe { (&*map.cast::<Loops>(), slice::from_raw_parts(keys, count)) };
    run(operation, keys)
}
