//! Smaller entries of Pea Hash: bytes an entry and operations a second of maps from `u32` to `u32`,
//! in entries of 16, 12 and 8 bytes.
//!
//! ```sh
//! cargo run --release --example entry_sizes -- 16777216
//! ```

use nunatak::{Entry8, Entry12, Entry16, EntrySize, InlineMap, Pea, RandomState};
use std::hint::black_box;
use std::time::Instant;

const BATCH: usize = 256;

type Map<E> = InlineMap<u32, u32, RandomState, Pea<E>>;

/// Returns a distinct key for each index.
fn key(index: u32) -> u32 {
    let mixed = (index ^ index >> 16).wrapping_mul(0x45D9_F3B5);
    (mixed ^ mixed >> 15).wrapping_mul(0x2C1B_3C6D)
}

/// Runs an operation on every index and returns millions of operations a second.
fn rate(items: u32, run: impl FnMut(u32)) -> f64 {
    let start = Instant::now();
    (0..items).for_each(run);
    f64::from(items) / start.elapsed().as_secs_f64() / 1e6
}

fn measure<E: EntrySize>(name: &str, items: u32) {
    let map = Map::<E>::new();
    let insert = rate(items, |index| assert!(map.insert(key(index), index).is_none()));
    // An order other than that of the inserts.
    let shuffled = |index: u32| (u64::from(index) * 0x9E37_79B1 % u64::from(items)) as u32;
    let hit = rate(items, |index| assert!(map.get(&key(shuffled(index))).is_some()));
    let miss = rate(items, |index| assert!(map.get(&key(items + index)).is_none()));
    let (mut keys, mut values) = ([0; BATCH], [None; BATCH]);
    let batched = rate(items / BATCH as u32, |batch| {
        let index = |at: usize| shuffled(batch * BATCH as u32 + at as u32);
        (0..BATCH).for_each(|at| keys[at] = key(index(at)));
        map.get_many(&keys, &mut values).expect("as many values as keys");
        black_box(&values);
    });
    let bytes = map.memory_usage().resident as f64 / f64::from(items);
    let remove = rate(items, |index| assert!(map.remove(&key(index)).is_some()));
    println!(
        "{name}: {bytes:5.1} bytes an entry, load {:.2}; M/s: insert {insert:.1}, hit {hit:.1}, \
         in batches {:.1}, miss {miss:.1}, remove {remove:.1}",
        f64::from(items) / map.stats().slots as f64,
        batched * BATCH as f64
    );
}

fn main() {
    let items = std::env::args().nth(1).map_or(1 << 22, |argument| {
        argument.parse().expect("the first argument is the number of items, below 2^31")
    });
    for _ in 0..2 {
        measure::<Entry16>("16 bytes", items);
        measure::<Entry12>("12 bytes", items);
        measure::<Entry8>(" 8 bytes", items);
    }
}
