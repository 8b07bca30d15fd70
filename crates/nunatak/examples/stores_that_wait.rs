//! How a store whose address waits for memory holds up what comes after it ("Stores that wait" in
//! `docs/measurements.md`).
//!
//! ```sh
//! cargo run --release -p nunatak --example stores_that_wait
//! ```
//!
//! Each step loads the first word of a random line, and stores into one of the words behind it. The address of the line
//! is computed from words that the caches have, as that of a bucket is from the fields of a table. Nothing that a step
//! stores is needed by another, so all steps could overlap. The tables' own changes store by branches for this reason.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

const LINES: usize = 1 << 21;
const STEPS: usize = 1 << 17;
const ROUNDS: usize = 24;
/// Words that the address of a line is computed from.
const FIELDS: usize = 8;
/// Words of a line that a step may store into.
const WORDS: u64 = 3;

#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; 8]);

/// Which word is stored into.
#[derive(Clone, Copy)]
enum Word {
    /// Always the same one.
    Known,
    /// The one that the line's first word names.
    Computed,
    /// The same, with a branch for each.
    Branched,
}

/// A call, since the compiler would join branches in line.
#[inline(never)]
fn store_into<const WORD: usize>(line: &[AtomicU64; 8], value: u64) {
    line[WORD].store(value, Relaxed);
}

/// Returns lines in huge pages, where the system has them: with small ones, all steps wait for addresses.
fn lines() -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::with_capacity(LINES);
    #[cfg(target_os = "linux")]
    // SAFETY: whole pages of the vector, of which nothing is used yet; the advice changes no contents.
    unsafe {
        let first =
            lines.as_mut_ptr().cast::<u8>().map_addr(|address| address.next_multiple_of(1 << 12));
        let bytes = (LINES - 64) * size_of::<Line>();
        libc::madvise(first.cast(), bytes, libc::MADV_HUGEPAGE);
    }
    lines.resize_with(LINES, Line::default);
    lines
}

/// Runs the steps. Returns how many millions of them took a second.
#[inline(never)]
fn run(lines: &[Line], fields: &[AtomicU64; FIELDS], word: Word, from: u64) -> f64 {
    let began = Instant::now();
    for step in from..from + STEPS as u64 {
        let mut hash = step.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash = (hash ^ hash >> 32).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        // Relaxed, here and below: one thread runs.
        hash = fields.iter().fold(hash, |hash, field| hash.wrapping_add(field.load(Relaxed)));
        let line = &lines[(hash >> (64 - LINES.ilog2())) as usize].0;
        let number = line[0].load(Relaxed) % WORDS + 1;
        match word {
            Word::Known => line[1].store(hash ^ number, Relaxed),
            Word::Computed => line[number as usize].store(hash, Relaxed),
            Word::Branched => match number {
                1 => store_into::<1>(line, hash),
                2 => store_into::<2>(line, hash),
                _ => store_into::<3>(line, hash),
            },
        }
    }
    STEPS as f64 / began.elapsed().as_secs_f64() / 1e6
}

fn main() {
    let lines = lines();
    for (number, line) in (0_u64..).zip(&lines) {
        line.0[0].store(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20, Relaxed);
    }
    let fields = black_box([const { AtomicU64::new(0) }; FIELDS]);
    let words = [
        ("known before", Word::Known),
        ("computed from the line", Word::Computed),
        ("a branch for each word", Word::Branched),
    ];
    let mut rates = words.map(|_| Vec::new());
    // By turns, so that all meet the same state of the machine.
    for round in 0..ROUNDS {
        for (at, (_, word)) in words.into_iter().enumerate() {
            let from = ((round * words.len() + at) * STEPS) as u64;
            rates[at].push(run(&lines, &fields, word, from));
        }
    }
    println!("{:26}{:>8}", "address of the store", "M/s");
    for ((name, _), rates) in words.iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        println!("{name:26}{:8.1}", rates[ROUNDS / 2]);
    }
}
