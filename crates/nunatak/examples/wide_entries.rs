//! Values of 16 bytes in a `DlhtWideMap` and an `IcebergWideMap` beside the same in a `DlhtBoxedMap`, and beside values
//! of 8 bytes in a `DlhtMap`: bytes an entry and operations a second. The maps take turns.
//!
//! ```sh
//! cargo run --release -p nunatak --example wide_entries -- 4194304
//! ```

use nunatak::{ConcurrentMap, DlhtBoxedMap, DlhtMap, DlhtWideMap, IcebergWideMap};
use std::hint::black_box;
use std::time::Instant;

const BATCH: usize = 256;
const ROUNDS: usize = 5;

/// Returns a distinct key for each index.
fn key(index: u64) -> u64 {
    (index ^ index >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Runs an operation on every index and returns millions of operations a second.
fn rate(items: u64, run: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    (0..items).for_each(run);
    items as f64 / start.elapsed().as_secs_f64() / 1e6
}

const OPERATIONS: [&str; 6] = ["insert", "get", "miss", "batched get", "update", "remove"];

/// Returns the rates of [`OPERATIONS`], and the bytes an entry.
fn measure<V: Clone, M: ConcurrentMap<u64, V>>(
    map: &M,
    items: u64,
    value: fn(u64) -> V,
) -> [f64; 7] {
    // An order other than that of the inserts.
    let shuffled = |index: u64| key(index * 0x9E37_79B1 % items);
    let insert = rate(items, |index| assert!(map.insert(key(index), value(index)).is_none()));
    let bytes = map.memory_usage().resident as f64 / items as f64;
    let get = rate(items, |index| assert!(black_box(map.get(&shuffled(index))).is_some()));
    let miss = rate(items, |index| assert!(map.get(&key(items + index)).is_none()));
    let (mut keys, mut values) = ([0; BATCH], [const { None }; BATCH]);
    let batched = rate(items / BATCH as u64, |batch| {
        (0..BATCH).for_each(|at| keys[at] = shuffled(batch * BATCH as u64 + at as u64));
        map.get_many(&keys, &mut values).expect("as many values as keys");
        black_box(&values);
    });
    let update = rate(items, |index| assert!(map.update(&shuffled(index), value(0)).is_some()));
    let remove = rate(items, |index| assert!(map.remove(&shuffled(index)).is_some()));
    [insert, get, miss, batched * BATCH as f64, update, remove, bytes]
}

fn main() {
    let items = std::env::args().nth(1).map_or(1 << 22, |argument| {
        argument.parse().expect("the first argument is the number of items, below 2^32")
    });
    let mut rounds: [Vec<[f64; 7]>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let wide = DlhtWideMap::<u64, (u64, u64)>::with_capacity(items as usize);
        rounds[0].push(measure(&wide, items, |n| (n, !n)));
        drop(wide);
        let compact = IcebergWideMap::<u64, (u64, u64)>::with_capacity(items as usize);
        rounds[1].push(measure(&compact, items, |n| (n, !n)));
        drop(compact);
        let boxed = DlhtBoxedMap::<u64, (u64, u64)>::with_capacity(items as usize);
        rounds[2].push(measure(&boxed, items, |n| (n, !n)));
        // The entries are the allocator's: of 24 bytes of words each.
        drop(boxed);
        let narrow = DlhtMap::<u64, u64>::with_capacity(items as usize);
        rounds[3].push(measure(&narrow, items, |n| n));
    }
    println!("M/s, medians of {ROUNDS} rounds; bytes an entry (boxed: without the entries)");
    let names = ["DlhtWideMap", "IcebergWideMap", "DlhtBoxedMap", "DlhtMap, 8 bytes"];
    for (name, rounds) in names.iter().zip(rounds) {
        let median = |column: usize| {
            let mut values: Vec<f64> = rounds.iter().map(|round| round[column]).collect();
            values.sort_by(f64::total_cmp);
            values[ROUNDS / 2]
        };
        print!("{name:18}");
        for (column, operation) in OPERATIONS.iter().enumerate() {
            print!("{operation} {:5.1}  ", median(column));
        }
        println!("{:5.1} bytes", median(OPERATIONS.len()));
    }
}
