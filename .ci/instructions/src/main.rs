//! Counts the instructions of operations of maps in RAM, and compares them with those of
//! `instructions.tsv`. Needs no quiet machine: the processor traps after each instruction.
//!
//! ```sh
//! cd .ci/instructions
//! cargo run --release                    # fails if an operation has more instructions than in the file
//! NUNATAK_WRITE=1 cargo run --release    # writes the file anew
//! ```
//!
//! Counts depend on the compiler and on the instruction sets that the library finds, so a line of the file
//! names those that it was counted with. Lines of others are not compared.

fn main() -> std::process::ExitCode {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    return counted::main();
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    std::process::ExitCode::SUCCESS
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod counted {
    use nunatak::{ConcurrentMap, DlhtMap, IcebergMap, PeaMap, TurboMap};
    use std::arch::asm;
    use std::collections::BTreeMap;
    use std::ffi::c_int;
    use std::hint::black_box;
    use std::process::ExitCode;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Entries of a map, a power of two, so that its tables are as full in each run.
    const ENTRIES: u64 = 1 << 12;
    /// Operations that are counted together.
    const COUNTED: usize = 256;
    /// By how much counts may exceed those of the file: hashes are drawn anew in each run.
    const TOLERANCE: f64 = 1.1;

    /// Relaxed: the handler runs in the thread whose steps it counts.
    static STEPS: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn step(_signal: c_int) {
        STEPS.fetch_add(1, Relaxed);
    }

    fn catch_traps() {
        // SAFETY: `step` has a handler's signature, and touches one atomic only.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = step as extern "C" fn(c_int) as usize;
            let caught = libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut());
            assert_eq!(caught, 0, "traps can be caught");
        }
    }

    /// Returns the number of instructions that `run` executes, and a few of its surroundings.
    fn steps_of(run: impl FnOnce()) -> usize {
        STEPS.store(0, Relaxed);
        // SAFETY: the trap flag makes the processor trap after each instruction until the flag is
        // cleared; the handler was set before.
        unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
        run();
        // SAFETY: as above.
        unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
        STEPS.load(Relaxed)
    }

    /// Returns the instructions of one operation, without those of the loop.
    fn of_each(keys: &[u64], mut operate: impl FnMut(u64)) -> f64 {
        let alone = steps_of(|| {
            keys.iter().for_each(|&key| {
                black_box(key);
            });
        });
        let all = steps_of(|| keys.iter().for_each(|&key| operate(black_box(key))));
        (all.saturating_sub(alone)) as f64 / keys.len() as f64
    }

    /// Counts each operation on a map that has room for all of its entries.
    fn count<M: ConcurrentMap<u64, u64>>(map: &M) -> Vec<(&'static str, f64)> {
        for key in 0..ENTRIES {
            map.insert(key, !key);
        }
        let present: Vec<u64> = (0..ENTRIES).step_by(ENTRIES as usize / COUNTED).collect();
        let absent: Vec<u64> = present.iter().map(|key| key + ENTRIES).collect();
        let mut values = vec![None; COUNTED];
        let mut batch = |keys: &[u64]| {
            let steps = steps_of(|| {
                map.get_many(black_box(keys), &mut values).expect("as many values as keys");
            });
            black_box(&values);
            steps as f64 / keys.len() as f64
        };
        // A thread's first operation does more.
        batch(&present);
        let batched_hit = batch(&present);
        let batched_miss = batch(&absent);
        let sink = |found: Option<u64>| {
            black_box(found);
        };
        vec![
            ("get, hit", of_each(&present, |key| sink(map.get(&key)))),
            ("get, miss", of_each(&absent, |key| sink(map.get(&key)))),
            ("batched get, hit", batched_hit),
            ("batched get, miss", batched_miss),
            ("update", of_each(&present, |key| sink(map.update(&key, key)))),
            ("insert", of_each(&absent, |key| sink(map.insert(key, key)))),
            ("remove", of_each(&absent, |key| sink(map.remove(&key)))),
        ]
    }

    /// Returns the compiler, and the instruction sets that the library chooses its code by.
    fn built_for() -> String {
        let has_avx512 =
            is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl");
        let sets = match (has_avx512, is_x86_feature_detected!("avx2")) {
            (true, _) => "avx512",
            (false, true) => "avx2",
            (false, false) => "sse2",
        };
        format!("{} {sets}", env!("COMPILER"))
    }

    type Line = (String, String, String);

    fn read(text: &str) -> BTreeMap<Line, f64> {
        let lines = text.lines().skip(1).filter_map(|line| {
            let mut fields = line.split('\t').map(str::to_owned);
            let line = (fields.next()?, fields.next()?, fields.next()?);
            Some((line, fields.next()?.parse().ok()?))
        });
        lines.collect()
    }

    pub(super) fn main() -> ExitCode {
        catch_traps();
        let capacity = 2 * ENTRIES as usize;
        let counts = [
            ("DlhtMap", count(&DlhtMap::<u64, u64>::with_capacity(capacity))),
            ("IcebergMap", count(&IcebergMap::<u64, u64>::with_capacity(capacity))),
            ("PeaMap", count(&PeaMap::<u64, u64>::with_capacity(capacity))),
            ("TurboMap", count(&TurboMap::<u64, u64>::with_capacity(capacity))),
        ];
        let mut file = read(include_str!("../instructions.tsv"));
        let mut is_worse = false;
        println!("{:<12}{:<20}{:>8}{:>10}", "map", "operation", "now", "file");
        for (map, counts) in counts {
            for (operation, now) in counts {
                let line = (built_for(), map.to_owned(), operation.to_owned());
                let before = file.insert(line, now);
                let is_more = before.is_some_and(|before| now > before * TOLERANCE + 1.0);
                let before = before.map_or("none".to_owned(), |before| format!("{before:.1}"));
                let mark = if is_more { "  more than before" } else { "" };
                println!("{map:<12}{operation:<20}{now:>8.1}{before:>10}{mark}");
                is_worse |= is_more;
            }
        }
        if std::env::var_os("NUNATAK_WRITE").is_some() {
            let line = |((built_for, map, operation), count): (&Line, &f64)| {
                format!("{built_for}\t{map}\t{operation}\t{count:.1}\n")
            };
            let lines: String = file.iter().map(line).collect();
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.tsv");
            let text = format!("built for\tmap\toperation\tinstructions\n{lines}");
            std::fs::write(path, text).expect("the file is written");
            return ExitCode::SUCCESS;
        }
        ExitCode::from(u8::from(is_worse))
    }
}
