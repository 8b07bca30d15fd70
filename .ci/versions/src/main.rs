//! Runs the maps of several versions of the library by turns, a piece of the keys each, in one process. So what else
//! happens on the machine slows all of them alike, and their ratio tells differences of a few percent where whole runs
//! differ by half.
//!
//! See `../run`, which builds the libraries.

use libloading::{Library, Symbol};
use std::time::{Duration, Instant};

type Make = unsafe extern "C" fn(u32, usize) -> *const ();
type Run = unsafe extern "C" fn(*const (), u32, *const u64, usize) -> usize;

const MAPS: [&str; 4] = ["DlhtMap", "IcebergMap", "PeaMap", "TurboMap"];
const PIECES: usize = 64;
/// How often each map grows from empty to all keys.
const GROWTHS: usize = 16;

/// The keys of a phase: a piece of them for each turn, or all for each.
#[derive(Clone, Copy)]
enum Keys {
    All,
    Own,
    Shuffled,
    Absent,
}

/// The name, the operation's number, its keys, and whether they are found.
const PHASES: [(&str, u32, Keys, bool); 12] = [
    ("insert, first", 0, Keys::Own, false),
    ("get", 1, Keys::Shuffled, true),
    ("miss", 1, Keys::Absent, false),
    ("update", 0, Keys::Shuffled, true),
    ("remove", 2, Keys::Shuffled, true),
    ("insert", 0, Keys::Own, false),
    ("batched get", 4, Keys::Shuffled, true),
    ("batched miss", 4, Keys::Absent, false),
    ("batched update", 3, Keys::Shuffled, true),
    ("batched remove", 5, Keys::Shuffled, true),
    ("batched insert", 3, Keys::Own, false),
    ("growth", 6, Keys::All, false),
];

/// SplitMix64: a permutation that looks random.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let bits: u32 = arguments.next().and_then(|bits| bits.parse().ok()).expect("BITS LIBRARY...");
    let paths: Vec<String> = arguments.collect();
    // SAFETY: the libraries are those of `lib.rs`.
    let libraries: Vec<Library> =
        paths.iter().map(|path| unsafe { Library::new(path) }.expect(path)).collect();
    let count = 1_usize << bits;
    let size = count.div_ceil(PIECES);
    let own: Vec<u64> = (0..count as u64).map(mixed).collect();
    let absent: Vec<u64> = (0..count as u64).map(|number| mixed(number + count as u64)).collect();
    let mut shuffled = own.clone();
    for at in (1..count).rev() {
        shuffled.swap(at, (mixed(at as u64) % (at as u64 + 1)) as usize);
    }
    println!(
        "M/s of each library, and the median of the ratios to the first, of {PIECES} turns ({GROWTHS} growths)"
    );
    let is_wanted = |variable, name| {
        let wanted = std::env::var(variable).unwrap_or_default();
        wanted.is_empty() || wanted.split(',').any(|one| one == name)
    };
    for (kind, name) in MAPS.iter().enumerate() {
        if !is_wanted("MAPS", *name) {
            continue;
        }
        // SAFETY: these are the functions' types.
        let of = |library: &Library| unsafe {
            let make: Symbol<Make> = library.get(b"versions_map").expect("the function");
            let run: Symbol<Run> = library.get(b"versions_run").expect("the function");
            (make(kind as u32, count), *run)
        };
        let maps: Vec<(*const (), Run)> = libraries.iter().map(of).collect();
        for (phase, operation, keys, is_found) in PHASES {
            if !is_wanted("PHASES", phase) {
                continue;
            }
            let pieces: Vec<&[u64]> = match keys {
                Keys::All => vec![&own; GROWTHS],
                Keys::Own => own.chunks(size).collect(),
                Keys::Shuffled => shuffled.chunks(size).collect(),
                Keys::Absent => absent.chunks(size).collect(),
            };
            let mut times = vec![Vec::new(); maps.len()];
            for (piece, keys) in pieces.iter().enumerate() {
                let mut turns: Vec<usize> = (0..maps.len()).collect();
                // No library always finds the keys in a cache.
                turns.rotate_left(piece % maps.len());
                for turn in turns {
                    let (map, run) = maps[turn];
                    let start = Instant::now();
                    // SAFETY: the map is the library's, and the keys are a slice.
                    let found = unsafe { run(map, operation, keys.as_ptr(), keys.len()) };
                    times[turn].push(start.elapsed());
                    assert_eq!(found, if is_found { keys.len() } else { 0 }, "{name}, {phase}");
                }
            }
            print!("{name:11}{phase:15}");
            for of_library in &times {
                let all: Duration = of_library.iter().sum();
                let ratios = times[0].iter().zip(of_library);
                let mut ratios: Vec<f64> =
                    ratios.map(|(first, this)| first.as_secs_f64() / this.as_secs_f64()).collect();
                ratios.sort_by(f64::total_cmp);
                let operations = pieces.iter().map(|keys| keys.len()).sum::<usize>();
                let rate = operations as f64 / all.as_secs_f64() / 1e6;
                print!("{rate:9.1} ({:.2})", ratios[ratios.len() / 2]);
            }
            println!();
        }
    }
}
