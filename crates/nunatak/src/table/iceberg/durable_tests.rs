//! The figures of durable tables that hold on any machine: how many lines of the file an operation
//! reads.

use super::apply::Put;
use super::geometry::{Blocks, back_fingerprint, choices, fingerprint};
use super::yard::Yard;
use super::{Config, Table};
use crate::error::{Error, FileError};
use crate::hash::{HashCodec, StableCodec};
use crate::memory::durable::{Backing, Durable, Kind, Pool, Recorder, Wanted};
use crate::memory::touched::durable_lines_of;
use crate::table::{ByWord, Change, PairTable, permit};
use std::sync::Arc;

type Words = Table<StableCodec, Blocks, Durable>;

/// Makes a table in simulated persistent memory that holds as many words as a share of its slots.
fn filled(capacity: usize, share: f64) -> (Words, u64) {
    filled_in(&Arc::default(), capacity, share)
}

fn filled_in(recorder: &Arc<Recorder>, capacity: usize, share: f64) -> (Words, u64) {
    let backing = Backing::simulated(&[], true, true, Arc::clone(recorder)).unwrap();
    let medium =
        Durable::new(Pool::create(backing, Kind::Iceberg, &[0; 12], Wanted::default()).unwrap());
    let config = Config { max_load: 0.95, ..Config::default() };
    let shape = Words::columns_for(capacity, &config).unwrap();
    let codec = StableCodec::new(StableCodec::draw());
    let table = Words::create(medium, codec, config, shape).unwrap();
    let words = (table.slots() as f64 * share) as u64;
    for word in 0..words {
        assert_eq!(table.apply(word, &ByWord, Some(!word), |_| Change::Keep), None);
    }
    assert!((table.load_factor() - share).abs() < 0.001);
    (table, words)
}

/// Section 6: a positive query reads one line of persistent memory. A negative query reads none,
/// except for equal fingerprints of other keys.
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

/// Returns the complaint about a table in which `damage` was done.
fn complaint(damage: impl FnOnce(&Words)) -> Option<&'static str> {
    let (table, words) = filled(1 << 12, 0.5);
    assert_eq!(table.verify(&|_, _| true), Ok(words as usize));
    damage(&table);
    match table.verify(&|_, _| true) {
        Ok(_) => None,
        Err(Error::File(FileError::Corrupt { what, .. })) => Some(what),
        Err(other) => panic!("{other}"),
    }
}

/// Returns the tag, the hash and the front block of a word that is not in the table.
fn stranger(table: &Words, word: u64) -> (u64, u64, usize) {
    let word = 1 << 40 | word;
    let hash = table.codec.hash(word);
    (table.codec.tag(word, hash), hash, table.geometry.block(hash, table.state().mask()))
}

/// `verify` names damage that a crash can't do, but a flipped bit can.
#[test]
fn verify_tells_what_is_wrong() {
    assert_eq!(complaint(|_| ()), None);
    let of_another_block = "a pair is in a block that is not its key's";
    assert_eq!(
        complaint(|table| {
            let (tag, hash, block) = stranger(table, 1);
            // Of the same half, so that the tag means the same word there.
            let blocks = table.geometry.blocks(table.state().mask());
            let is_other = |&other: &usize| {
                other != block && table.geometry.half(other) == table.geometry.half(block)
            };
            let other = (0..blocks).find(is_other).unwrap();
            let slot = table.front.empty_slot(other, fingerprint(hash)).unwrap();
            table.front.put(other, slot, fingerprint(hash), (tag, 0));
        }),
        Some(of_another_block)
    );
    assert_eq!(
        complaint(|table| {
            let (tag, hash, block) = stranger(table, 2);
            let mask = table.state().mask();
            let its = choices(hash).map(|hash| table.geometry.block(hash, mask));
            let is_other = |other: &usize| {
                !its.contains(other) && table.geometry.half(*other) == table.geometry.half(block)
            };
            let other = (0..table.geometry.blocks(mask)).find(is_other).unwrap();
            let slot = table.back.empty_slot(other, back_fingerprint(hash)).unwrap();
            table.back.put(other, slot, back_fingerprint(hash), (tag, 0));
        }),
        Some(of_another_block)
    );
    assert_eq!(
        complaint(|table| {
            let (tag, hash, block) = stranger(table, 3);
            for _ in 0..2 {
                let slot = table.front.empty_slot(block, fingerprint(hash)).unwrap();
                table.front.put(block, slot, fingerprint(hash), (tag, 0));
            }
        }),
        Some("a key is in a block twice")
    );
    assert_eq!(
        complaint(|table| {
            let (tag, hash, block) = stranger(table, 4);
            let slot = table.front.empty_slot(block, fingerprint(hash)).unwrap();
            table.front.put(block, slot, fingerprint(hash), (tag, 0));
            let back = table.geometry.block(choices(hash)[0], table.state().mask());
            let slot = table.back.empty_slot(back, back_fingerprint(hash)).unwrap();
            table.back.put(back, slot, back_fingerprint(hash), (tag, 0));
        }),
        Some("a key is in two levels")
    );
    assert_eq!(
        complaint(|table| {
            let mask = table.state().mask();
            let blocks = |hash| choices(hash).map(|choice| table.geometry.block(choice, mask));
            // A key may have one back block for both choices.
            let has_two = |&(_, hash, _): &(u64, u64, usize)| blocks(hash)[0] != blocks(hash)[1];
            let (tag, hash, _) = (100..).map(|n| stranger(table, n)).find(has_two).unwrap();
            for back in blocks(hash) {
                let slot = table.back.empty_slot(back, back_fingerprint(hash)).unwrap();
                table.back.put(back, slot, back_fingerprint(hash), (tag, 0));
            }
        }),
        Some("a key is in two blocks")
    );
    let in_chains = |level: usize| {
        complaint(|table| {
            let (tag, hash, block) = stranger(table, 7);
            table.chains.push(hash, (tag, 0)).unwrap();
            // So that lookups go behind the front block, and behind the back blocks.
            table.front.restore_overflowed(block);
            table.mark_choices(table.state(), hash);
            let back = table.geometry.block(choices(hash)[0], table.state().mask());
            match level {
                1 => {
                    let slot = table.front.empty_slot(block, fingerprint(hash)).unwrap();
                    table.front.put(block, slot, fingerprint(hash), (tag, 0));
                }
                2 => {
                    let slot = table.back.empty_slot(back, back_fingerprint(hash)).unwrap();
                    table.back.put(back, slot, back_fingerprint(hash), (tag, 0));
                }
                _ => table.chains.push(hash, (tag, 0)).unwrap(),
            }
        })
    };
    assert_eq!(in_chains(1), Some("a key is in two levels"));
    assert_eq!(in_chains(2), Some("a key is in two levels"));
    assert_eq!(in_chains(3), Some("a key is in level 3 twice"));
    assert_eq!(
        complaint(|table| {
            let (_, hash, block) = stranger(table, 5);
            let slot = table.front.empty_slot(block, fingerprint(hash)).unwrap();
            table.front.put(block, slot, fingerprint(hash), (0, 0));
        }),
        Some("a slot with a fingerprint is empty")
    );
}

/// On a full disk the last slots of level 3 are for pairs that a resize moves, and for inserts that
/// were admitted before.
#[test]
fn new_keys_are_refused_and_moved_ones_are_not() {
    let recorder = Arc::default();
    let (table, _) = filled_in(&recorder, 1 << 12, 0.5);
    recorder.full_at(Some(0));
    for word in 0.. {
        let (tag, hash, _) = stranger(&table, word);
        table.chains.push(hash, (tag, 0)).unwrap();
        if table.chains.slots().is_tight() {
            break;
        }
    }
    let (tag, hash, block) = stranger(&table, 1 << 30);
    let (state, of_others) = (table.state(), back_fingerprint(hash));
    for back in choices(hash).map(|choice| table.geometry.block(choice, state.mask())) {
        while let Some(slot) = table.back.empty_slot(back, of_others) {
            table.back.put(back, slot, of_others, (u64::MAX, 0));
        }
    }
    table.front.lock(block);
    let put = |is_new| table.put_behind(state, block, (hash, is_new), (tag, 0));
    let puts = permit(|| Ok([put(true), put(false), put(true)]));
    assert_eq!(puts, Ok([Put::Refused, Put::Done, Put::Refused]));
    assert_eq!(put(true), Put::Done);
    table.front.unlock(block);
}

/// A power cut may leave a key in two places, or in a place that is not the key's.
#[test]
fn recovery_keeps_one_copy_of_each_key() {
    let (table, words) = filled(1 << 12, 0.5);
    let (mask, rows) = (table.state().mask(), table.state().rows());
    let in_front = |(tag, hash, block): (u64, u64, usize)| {
        let slot = table.front.empty_slot(block, fingerprint(hash)).unwrap();
        table.front.put(block, slot, fingerprint(hash), (tag, 7));
    };
    let in_back = |(tag, hash, _): (u64, u64, usize), choice: usize| {
        let block = table.geometry.block(choices(hash)[choice], mask);
        let slot = table.back.empty_slot(block, back_fingerprint(hash)).unwrap();
        table.back.put(block, slot, back_fingerprint(hash), (tag, 7));
    };
    let has_two_choices = |&word: &u64| {
        let (_, hash, _) = stranger(&table, word);
        let [one, other] = choices(hash).map(|hash| table.geometry.block(hash, mask));
        one != other
    };
    let strangers: Vec<u64> = (0..).filter(has_two_choices).take(5).collect();
    let of = |at: usize| stranger(&table, strangers[at]);
    (0..2).for_each(|choice| in_back(of(0), choice));
    in_front(of(1));
    in_back(of(1), 0);
    (0..2).for_each(|_| in_front(of(2)));
    (0..2).for_each(|_| in_back(of(3), 1));
    // In another block of the same half.
    let (tag, hash, block) = of(4);
    let is_other =
        |&other: &usize| other != block && table.geometry.half(other) == table.geometry.half(block);
    in_front((tag, hash, (0..table.geometry.blocks(mask)).find(is_other).unwrap()));

    let recovery = table.recover(rows, 2, false).unwrap();
    assert_eq!((recovery.items, recovery.moved, recovery.dropped), (words as usize + 5, 1, 4));
    assert_eq!(table.verify(&|_, _| true), Ok(words as usize + 5));
    assert!(strangers.iter().all(|word| table.find(1 << 40 | word, &ByWord) == Some(7)));
    assert!((0..words).all(|word| table.find(word, &ByWord) == Some(!word)));
}

/// A halving that needs more slots of level 3 than a full disk has room for is left out.
#[test]
fn a_halving_on_a_full_disk_loses_nothing() {
    let recorder = Arc::default();
    let backing = Backing::simulated(&[], true, true, Arc::clone(&recorder)).unwrap();
    let medium =
        Durable::new(Pool::create(backing, Kind::Iceberg, &[0; 12], Wanted::default()).unwrap());
    let config = Config { max_load: 0.95, ..Config::default() };
    type Small = Table<StableCodec, Blocks<8, 2>, Durable>;
    let shape = Small::columns_for(40_000, &config).unwrap();
    let codec = StableCodec::new(StableCodec::draw());
    let table = Small::create(medium, codec, config, shape).unwrap();
    let half = table.state().mask() >> 1;
    let words = table.most_items(half) as u64;
    for word in 0..words {
        assert_eq!(table.apply(word, &ByWord, Some(!word), |_| Change::Keep), None);
    }
    let check = |table: &Small| {
        assert!((0..words).all(|word| table.find(word, &ByWord) == Some(!word)));
        assert_eq!(table.verify(&|_, _| true), Ok(words as usize));
    };
    recorder.full_at(Some(0));
    assert_eq!(table.shrink_to_fit(), Err(FileError::Full.into()));
    assert_eq!(table.state().mask(), half << 1 | 1);
    check(&table);
    recorder.full_at(None);
    table.shrink_to_fit().unwrap();
    assert_eq!(table.state().mask(), half);
    check(&table);
    let chained = table.stats().levels[2];
    assert!(chained > 300, "{chained}");
}
