//! The figures of durable tables that hold on any machine: how many lines of the file
//! an operation reads.

use super::geometry::Blocks;
use super::{Config, Table};
use crate::hash::StablePlacement;
use crate::memory::durable::{Backing, Durable, Kind, Pool, Recorder, Wanted};
use crate::memory::touched::durable_lines_of;
use crate::table::{ByWord, Change, PairTable};
use std::sync::Arc;

type Words = Table<StablePlacement, Blocks, Durable>;

/// A table in simulated persistent memory that holds as many words as a share of its
/// slots.
fn filled(capacity: usize, share: f64) -> (Words, u64) {
    let recorder = Arc::new(Recorder::default());
    let backing = Backing::simulated(&[], true, true, recorder).unwrap();
    let medium =
        Durable::new(Pool::create(backing, Kind::Iceberg, &[0; 12], Wanted::default()).unwrap());
    let config = Config { max_load: 0.95, ..Config::default() };
    let shape = Words::columns_for(capacity, &config).unwrap();
    let placement = StablePlacement::new(StablePlacement::draw());
    let table = Words::create(medium, placement, config, shape).unwrap();
    let words = (table.slots() as f64 * share) as u64;
    for word in 0..words {
        assert_eq!(table.apply(word, &ByWord, Some(!word), |_| Change::Keep), None);
    }
    assert!((table.load_factor() - share).abs() < 0.001);
    (table, words)
}

/// Section 6: a positive query reads one line of persistent memory, a negative one
/// none, but for fingerprints that are those of other keys.
#[test]
fn queries_read_as_few_durable_lines_as_promised() {
    let (table, words) = filled(1 << 15, 0.85);
    let mean = |first: u64, batched: bool| {
        let lines: usize = (first..first + words)
            .map(|word| {
                durable_lines_of(|| {
                    if batched {
                        table.find_many(
                            1,
                            |_| word,
                            |_| ByWord,
                            |_, found| {
                                assert_eq!(found.is_some(), word < words);
                            },
                        );
                    } else {
                        assert_eq!(table.find(word, &ByWord).is_some(), word < words);
                    }
                })
            })
            .sum();
        lines as f64 / words as f64
    };
    let figures = [mean(0, false), mean(words, false), mean(0, true), mean(words, true)];
    println!("{figures:.3?}");
    let [hit, miss, batched_hit, batched_miss] = figures;
    assert!((1.0..1.3).contains(&hit) && (1.0..1.3).contains(&batched_hit));
    assert!((0.1..0.3).contains(&miss) && (0.1..0.3).contains(&batched_miss));
}
