//! The operations that are counted.

use crate::recorded::{Line, Recorded};
use nunatak::{ConcurrentMap, DlhtMap, DlhtWideMap, IcebergMap, IcebergWideMap, PeaMap, TurboMap};
use std::hint::black_box;
use std::process::ExitCode;
use traps::{Cost, catch_traps, cost_of_batch, cost_of_each};

/// Entries of a map, a power of two, so that its tables are as full in each run.
const ENTRIES: u64 = 1 << 16;

/// How many maps are counted, each with other hashes. In one alone an operation may cost a tenth more than in most:
/// the file has the mean of all of them, and a run ends with the first ones whose mean is no more than that.
const MAPS: usize = 8;

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

/// Counts each operation on a map of numbers that has room for all of its entries.
fn count<M: ConcurrentMap<u64, u64>>(map: &M, fill: Fill) -> Counts {
    count_with(map, fill, |key| !key)
}

/// Counts each operation on a map with these values.
fn count_with<V: Clone, M: ConcurrentMap<u64, V>>(
    map: &M,
    fill: Fill,
    value: impl Fn(u64) -> V,
) -> Counts {
    for key in 0..fill.present() {
        map.insert(key, value(key));
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
    let sink = |found: Option<V>| {
        black_box(found);
    };
    [
        ("get, hit", cost_of_each(&present, |key| sink(map.get(&key)))),
        ("get, miss", cost_of_each(&absent, |key| sink(map.get(&key)))),
        ("batched get, hit", batched_hit),
        ("batched get, miss", batched_miss),
        ("update", cost_of_each(&present, |key| sink(map.update(&key, value(!key))))),
        ("insert", cost_of_each(&absent, |key| sink(map.insert(key, value(!key))))),
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

/// Counts each operation on several maps, and prints the means. Returns whether one of them is more than the file
/// says. Ends early if none is, unless `all` are to be counted.
fn is_more_than_before(
    map: &str,
    fill: Fill,
    count: Counter,
    all: bool,
    recorded: &mut Recorded,
) -> bool {
    let mut sums = count(fill);
    let mut maps = 1;
    loop {
        let means = sums.map(|(operation, sum)| {
            let operation = fill.name(operation);
            (
                Line { built_for: built_for(), map: map.to_owned(), operation },
                sum.of_one(Cost::default(), maps),
            )
        });
        let is_more = means.iter().any(|(line, mean)| recorded.is_less_than(line, *mean));
        if maps == MAPS || !is_more && !all {
            means.into_iter().for_each(|(line, mean)| recorded.add(line, mean));
            return is_more;
        }
        sums.iter_mut().zip(count(fill)).for_each(|((_, sum), (_, cost))| *sum += cost);
        maps += 1;
    }
}

pub(crate) fn main() -> ExitCode {
    catch_traps();
    let mut recorded = Recorded::read();
    let mut is_worse = false;
    let writes = std::env::var_os("NUNATAK_WRITE").is_some();
    Recorded::print_heading();
    for fill in [Fill::Half, Fill::Full] {
        let counters: [(&str, Counter); 6] = [
            ("DlhtMap", |fill| count(&DlhtMap::<u64, u64>::with_capacity(fill.capacity()), fill)),
            ("IcebergMap", |fill| {
                count(&IcebergMap::<u64, u64>::with_capacity(fill.capacity()), fill)
            }),
            ("PeaMap", |fill| count(&PeaMap::<u64, u64>::with_capacity(fill.capacity()), fill)),
            ("TurboMap", |fill| count(&TurboMap::<u64, u64>::with_capacity(fill.capacity()), fill)),
            ("DlhtWideMap", |fill| {
                let map = DlhtWideMap::<u64, (u64, u64)>::with_capacity(fill.capacity());
                count_with(&map, fill, |key| (key, !key))
            }),
            ("IcebergWideMap", |fill| {
                let map = IcebergWideMap::<u64, (u64, u64)>::with_capacity(fill.capacity());
                count_with(&map, fill, |key| (key, !key))
            }),
        ];
        for (map, count) in counters {
            is_worse |= is_more_than_before(map, fill, count, writes, &mut recorded);
        }
    }
    if writes {
        recorded.write();
        return ExitCode::SUCCESS;
    }
    ExitCode::from(u8::from(is_worse))
}
