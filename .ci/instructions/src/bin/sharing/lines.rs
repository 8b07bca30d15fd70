//! The lines that operations touch. Each thread runs its operations instruction by instruction, one thread after the
//! other. (Not of maps whose entries are allocated: what is freed by another thread goes through lines of the allocator.)

use nunatak::{ConcurrentMap, DlhtMap, DlhtWideMap, IcebergMap, IcebergWideMap, PeaMap, TurboMap};
use std::collections::HashMap;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::thread;
use traps::{Access, accesses_of, catch_traps};

/// Operations of each thread.
const OPERATIONS: u64 = 256;
/// How often operations of two threads may need one line, for each operation. By chance they do in a fiftieth of the
/// operations, and in a twentieth where shards have locks; links of DLHT are as many again.
const MOST: f64 = 0.1;

/// Entries of a map, so many that two threads seldom meet in a bucket or in a shard.
const ENTRIES: u64 = 1 << 18;

/// How often the line that most operations of one thread touch goes to the other thread and back, if the threads
/// take turns.
struct Sharing {
    /// Because both store to it, or because the other one loads it, for each operation.
    stores: f64,
    /// Because the other one stores to it.
    loads: f64,
}

fn lines(access: &Access) -> impl Iterator<Item = u64> {
    access.address / 64..=(access.address + access.bytes - 1) / 64
}

fn count(accesses: &[Access], is_counted: impl Fn(&Access) -> bool) -> HashMap<u64, usize> {
    let mut counts = HashMap::new();
    for line in accesses.iter().filter(|it| is_counted(it)).flat_map(lines) {
        *counts.entry(line).or_default() += 1;
    }
    counts
}

fn sharing(one: &[Access], other: &[Access]) -> Sharing {
    let most = |by_one: HashMap<u64, usize>, by_other: HashMap<u64, usize>| {
        let turns = by_one.iter().filter_map(|(line, count)| Some(*count.min(by_other.get(line)?)));
        turns.max().unwrap_or(0) as f64 / OPERATIONS as f64
    };
    Sharing {
        stores: most(count(one, |it| it.stores), count(other, |_| true)),
        loads: most(count(one, |it| !it.stores), count(other, |it| it.stores)),
    }
}

/// Lets two threads operate on numbers below and from `OPERATIONS` on, one thread after the other; both live until the
/// end, so that they are two to the map.
fn of_two_threads(operate: impl Fn(u64) + Sync) -> Sharing {
    let operate = &operate;
    let traces = thread::scope(|scope| {
        let (done, first_is_done) = channel();
        let (end, ended) = channel::<()>();
        let trace = move |from: u64| {
            // A thread's first operation does more.
            operate(2 * OPERATIONS + from);
            accesses_of(|| (from..from + OPERATIONS).for_each(|n| operate(black_box(n))))
        };
        let first = scope.spawn(move || {
            let accesses = trace(0);
            done.send(()).expect("the other thread waits");
            ended.recv().expect_err("nothing is sent");
            accesses
        });
        first_is_done.recv().expect("the first thread ends its operations");
        let second = scope.spawn(move || trace(OPERATIONS)).join().expect("no panic");
        drop(end);
        [first.join().expect("no panic"), second]
    });
    sharing(&traces[0], &traces[1])
}

/// Prints the figures of a map. Returns whether some are too large.
fn shares_too_much<V: Clone, M: ConcurrentMap<u64, V> + Sync>(
    name: &str,
    map: impl Fn(usize) -> M,
    value: impl Fn(u64) -> V + Sync,
) -> bool {
    let filled = |capacity: u64, entries: u64| {
        let map = map(capacity as usize);
        (0..entries).for_each(|n| _ = map.insert(n, value(n)));
        map
    };
    let mut is_too_much = false;
    let mut print = |operation: &str, Sharing { stores, loads }: Sharing| {
        // Lookups store nothing that others touch.
        let most = if operation.starts_with("get") { 0.0 } else { MOST };
        let more = if stores.max(loads) > most { "  too much" } else { "" };
        println!("{name:<16}{operation:<24}{stores:>10.3}{loads:>10.3}{more}");
        is_too_much |= !more.is_empty();
    };
    let full = filled(ENTRIES + 2 * OPERATIONS, ENTRIES);
    print("get, hit", of_two_threads(|n| _ = black_box(full.get(&n))));
    print("get, miss", of_two_threads(|n| _ = black_box(full.get(&(ENTRIES + n)))));
    print("update", of_two_threads(|n| _ = full.update(&n, value(n + 1))));
    print("insert, full", of_two_threads(|n| _ = full.insert(ENTRIES + n, value(n))));
    print("remove", of_two_threads(|n| _ = full.remove(&(ENTRIES + n))));
    print("insert again", of_two_threads(|n| _ = full.insert(ENTRIES + n, value(n))));
    let half = filled(2 * ENTRIES, ENTRIES);
    print("insert, half full", of_two_threads(|n| _ = half.insert(ENTRIES + n, value(n))));
    is_too_much
}

pub(crate) fn main() -> ExitCode {
    catch_traps();
    println!("{:<16}{:<24}{:>10}{:>10}", "map", "two threads", "stores", "loads");
    let is_too_much = [
        shares_too_much("DlhtMap", DlhtMap::<u64, u64>::with_capacity, |n| n),
        shares_too_much("IcebergMap", IcebergMap::<u64, u64>::with_capacity, |n| n),
        shares_too_much("PeaMap", PeaMap::<u64, u64>::with_capacity, |n| n),
        shares_too_much("TurboMap", TurboMap::<u64, u64>::with_capacity, |n| n),
        shares_too_much("DlhtWideMap", DlhtWideMap::<u64, (u64, u64)>::with_capacity, |n| (n, n)),
        shares_too_much("IcebergWideMap", IcebergWideMap::<u64, (u64, u64)>::with_capacity, |n| {
            (n, n)
        }),
    ]
    .contains(&true);
    ExitCode::from(u8::from(is_too_much))
}
