//! Gets while new items are inserted. YCSB A and B of the IcebergHT paper insert as many items as the map
//! was loaded with. The mixed operations of Pea Hash's figure 5 begin with a small map.

use super::whole_loops::{Block, run_all};
use super::{check, difference};
use crate::keys::{Popularity, value_of};
use crate::settings::Bench;
use crate::targets::{Step, Target};
use crate::threads::{CheckFailed, share, throughput};

/// Runs gets, so many percent of all operations, and inserts on a map that has all items. The threads
/// divide the inserts among themselves.
pub(crate) fn with_gets<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
    percent_gets: u64,
) -> Result<f64, CheckFailed> {
    let (space, items) = (bench.keys, bench.settings.items);
    // A threshold for 16 random bits.
    let gets_below = percent_gets * (1 << 16) / 100;
    throughput(threads, |worker| {
        let mut indices = bench.indices(worker.number, Popularity::Uniform);
        let mut choices = bench.random(worker.number);
        let mut new = share(items, worker.number, threads).map(|index| space.key(items + index));
        let mut wrong = 0;
        let span = worker.once(|| {
            let mut operations = 0;
            if T::WHOLE_LOOPS {
                let mut block = Block::new();
                loop {
                    operations += 1;
                    if choices.next() & 0xFFFF < gets_below {
                        block.add(map, Step::Get, space.key(indices.next()), 0);
                    } else if let Some(key) = new.next() {
                        block.add(map, Step::Insert, key, 0);
                    } else {
                        block.run(map, 0);
                        wrong = block.wrong();
                        return operations - 1;
                    }
                }
            }
            loop {
                operations += 1;
                if choices.next() & 0xFFFF < gets_below {
                    let key = space.key(indices.next());
                    wrong |= difference(map.get(key), value_of(key));
                } else if let Some(key) = new.next() {
                    wrong |= u64::from(map.insert(key, value_of(key)).is_some());
                } else {
                    return operations - 1;
                }
            }
        });
        check(wrong, "a get of a present key missed it, or a new key was present")?;
        Ok(span)
    })
}

/// The shares of inserts, in percent, of Pea Hash's mixed operations.
pub(crate) const MIXES: [u8; 2] = [20, 50];

/// Returns how many items a small map has: a twentieth.
fn a_few(items: u64) -> u64 {
    items.div_ceil(20)
}

/// Loads a twentieth of the items into an empty map.
pub(crate) fn load_a_few<T: Target>(map: &T, bench: &Bench<'_>) {
    for index in 0..a_few(bench.settings.items) {
        let key = bench.keys.key(index);
        map.insert(key, value_of(key));
    }
}

/// Inserts all items that [`load_a_few`] has left.
pub(crate) fn the_others<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
) -> Result<f64, CheckFailed> {
    let (space, items) = (bench.keys, bench.settings.items);
    let loaded = a_few(items);
    throughput(threads, |worker| {
        let part = share(items - loaded, worker.number, threads);
        let mut present = 0;
        let span = worker.once(|| {
            if T::WHOLE_LOOPS {
                let keys = part.clone().map(|index| space.key(loaded + index));
                present = run_all(map, Step::Insert, keys);
                return part.end - part.start;
            }
            for index in part.clone() {
                let key = space.key(loaded + index);
                present += u64::from(map.insert(key, value_of(key)).is_some());
            }
            part.end - part.start
        });
        check(present, "an insert of a new key found the key present")?;
        Ok(span)
    })
}

/// Loads a twentieth of the items into an empty map, then runs as many operations as there are other
/// items: inserts, so many percent, and gets of loaded keys and of those that the thread has inserted.
pub(crate) fn from_a_few<T: Target>(
    map: &T,
    bench: &Bench<'_>,
    threads: usize,
    percent_inserts: u8,
) -> Result<f64, CheckFailed> {
    let (space, items) = (bench.keys, bench.settings.items);
    let loaded = a_few(items);
    load_a_few(map, bench);
    let inserts_below = u64::from(percent_inserts) * (1 << 16) / 100;
    throughput(threads, |worker| {
        let part = share(items - loaded, worker.number, threads);
        let first = loaded + part.start;
        let mut random = bench.random(worker.number);
        let mut choices = bench.random(worker.number + threads);
        let (mut inserted, mut wrong) = (0, 0);
        let span = worker.once(|| {
            if T::WHOLE_LOOPS {
                let mut block = Block::new();
                for _ in part.clone() {
                    if choices.next() & 0xFFFF < inserts_below {
                        block.add(map, Step::Insert, space.key(first + inserted), 0);
                        inserted += 1;
                    } else {
                        let at = random.below(loaded + inserted);
                        let index = if at < loaded { at } else { first + at - loaded };
                        block.add(map, Step::Get, space.key(index), 0);
                    }
                }
                block.run(map, 0);
                wrong = block.wrong();
                return part.end - part.start;
            }
            for _ in part.clone() {
                if choices.next() & 0xFFFF < inserts_below {
                    let key = space.key(first + inserted);
                    wrong |= u64::from(map.insert(key, value_of(key)).is_some());
                    inserted += 1;
                } else {
                    let at = random.below(loaded + inserted);
                    let index = if at < loaded { at } else { first + at - loaded };
                    let key = space.key(index);
                    wrong |= difference(map.get(key), value_of(key));
                }
            }
            part.end - part.start
        });
        check(wrong, "a get of a present key missed it, or a new key was present")?;
        Ok(span)
    })
}
