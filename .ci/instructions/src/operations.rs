//! The operations that are counted.

use crate::recorded::{Line, Recorded};
use crate::traps::{Cost, catch_traps, cost_of_batch, cost_of_each};
use nunatak::{ConcurrentMap, DlhtMap, IcebergMap, PeaMap, TurboMap};
use std::hint::black_box;
use std::process::ExitCode;

/// Entries of a map, a power of two, so that its tables are as full in each run.
const ENTRIES: u64 = 1 << 16;

/// How many maps are counted, with other hashes, until one costs no more than before. (One map of some ten has an
/// operation that costs a tenth more.)
const ATTEMPTS: usize = 3;

/// How full a map is.
#[derive(Clone, Copy)]
enum Fill {
    /// It has room for twice its entries.
    Half,
    /// It has as many entries as it was planned for once the counted ones are in.
    Full,
}

impl Fill {
    fn capacity(self) -> usize {
        match self {
            Self::Half => 2 * ENTRIES as usize,
            Self::Full => ENTRIES as usize,
        }
    }

    fn present(self) -> u64 {
        match self {
            Self::Half => ENTRIES,
            Self::Full => ENTRIES - self.counted() as u64,
        }
    }

    /// Returns the number of operations that are counted together. The fuller a map is, the more its
    /// operations differ from each other.
    fn counted(self) -> usize {
        match self {
            Self::Half => 128,
            Self::Full => 256,
        }
    }

    fn name(self, operation: &str) -> String {
        match self {
            Self::Half => operation.to_owned(),
            Self::Full => format!("{operation}, full"),
        }
    }
}

/// The cost of each operation.
type Counts = [(&'static str, Cost); 7];
type Counter = fn(Fill) -> Counts;

/// Counts each operation on a map that has room for all of its entries.
fn count<M: ConcurrentMap<u64, u64>>(map: &M, fill: Fill) -> Counts {
    for key in 0..fill.present() {
        map.insert(key, !key);
    }
    let present: Vec<u64> =
        (0..fill.present()).step_by((fill.present() as usize).div_ceil(fill.counted())).collect();
    let absent: Vec<u64> = (ENTRIES..).take(fill.counted()).collect();
    let batch = |keys: &[u64]| {
        let mut values = vec![None; keys.len()];
        let cost = cost_of_batch(keys.len(), || {
            map.get_many(black_box(keys), &mut values).expect("as many values as keys");
        });
        black_box(&values);
        cost
    };
    // A thread's first operation does more.
    batch(&present);
    let batched_hit = batch(&present);
    let batched_miss = batch(&absent);
    let sink = |found: Option<u64>| {
        black_box(found);
    };
    [
        ("get, hit", cost_of_each(&present, |key| sink(map.get(&key)))),
        ("get, miss", cost_of_each(&absent, |key| sink(map.get(&key)))),
        ("batched get, hit", batched_hit),
        ("batched get, miss", batched_miss),
        ("update", cost_of_each(&present, |key| sink(map.update(&key, key)))),
        ("insert", cost_of_each(&absent, |key| sink(map.insert(key, key)))),
        ("remove", cost_of_each(&absent, |key| sink(map.remove(&key)))),
    ]
}

/// Returns the compiler, and the instruction sets that the library chooses its code by.
fn built_for() -> String {
    let has_avx512 = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl");
    let sets = match (has_avx512, is_x86_feature_detected!("avx2")) {
        (true, _) => "avx512",
        (false, true) => "avx2",
        (false, false) => "sse2",
    };
    format!("{} {sets}", env!("COMPILER"))
}

/// Counts the operations of a map, and prints them. Returns whether one of them costs more than the file says.
fn is_more_than_before(map: &str, fill: Fill, count: Counter, recorded: &mut Recorded) -> bool {
    let mut is_more = false;
    for (operation, cost) in count(fill) {
        let operation = fill.name(operation);
        let line = Line { built_for: built_for(), map: map.to_owned(), operation };
        is_more |= recorded.is_less_than(line, cost);
    }
    is_more
}

pub(crate) fn main() -> ExitCode {
    catch_traps();
    let mut recorded = Recorded::read();
    let mut is_worse = false;
    Recorded::print_heading();
    for fill in [Fill::Half, Fill::Full] {
        let counters: [(&str, Counter); 4] = [
            ("DlhtMap", |fill| count(&DlhtMap::<u64, u64>::with_capacity(fill.capacity()), fill)),
            ("IcebergMap", |fill| {
                count(&IcebergMap::<u64, u64>::with_capacity(fill.capacity()), fill)
            }),
            ("PeaMap", |fill| count(&PeaMap::<u64, u64>::with_capacity(fill.capacity()), fill)),
            ("TurboMap", |fill| count(&TurboMap::<u64, u64>::with_capacity(fill.capacity()), fill)),
        ];
        for (map, count) in counters {
            is_worse |= (0..ATTEMPTS).all(|_| is_more_than_before(map, fill, count, &mut recorded));
        }
    }
    if std::env::var_os("NUNATAK_WRITE").is_some() {
        recorded.write();
        return ExitCode::SUCCESS;
    }
    ExitCode::from(u8::from(is_worse))
}
