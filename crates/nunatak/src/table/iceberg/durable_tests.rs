//! The figures of durable tables that hold on any machine: how many lines of the file an operation
//! reads. And what recovery makes of states that a crash or damage leaves.

use super::apply::Put;
use super::back::Back;
use super::geometry::{Blocks, Phase, State, back_fingerprint, choices, fingerprint};
use super::recovery::{held, most_rows};
use super::yard::Yard;
use super::{Config, Recovery, Table};
use crate::error::{Error, FileError};
use crate::hash::{HashCodec, StableCodec};
use crate::memory::Medium;
use crate::memory::durable::{Backing, Durable, Event, Kind, Pool, Recorder, Wanted};
use crate::memory::touched::durable_lines_of;
use crate::table::{ByWord, Change, PairTable, permit};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

type Words = Table<StableCodec, Blocks, Durable>;

fn config() -> Config {
    Config { max_load: 0.95, ..Config::default() }
}

/// Makes a table in simulated persistent memory that holds as many words as a share of its slots.
fn filled(capacity: usize, share: f64) -> (Words, u64) {
    filled_in(&Arc::default(), capacity, share)
}

fn filled_in(recorder: &Arc<Recorder>, capacity: usize, share: f64) -> (Words, u64) {
    let shape = Words::columns_for(capacity, &config()).unwrap();
    let table = empty(recorder, shape);
    let words = (table.slots() as f64 * share) as u64;
    fill(&table, words);
    assert!((table.load_factor() - share).abs() < 0.001);
    (table, words)
}

fn medium(recorder: &Arc<Recorder>) -> Durable {
    let backing = Backing::simulated(&[], true, true, Arc::clone(recorder)).unwrap();
    Durable::new(Pool::create(backing, Kind::Iceberg, &[0; 12], Wanted::default()).unwrap())
}

/// Makes a table of so many columns and rows.
fn empty(recorder: &Arc<Recorder>, shape: (usize, u64)) -> Words {
    let codec = StableCodec::new(StableCodec::draw());
    Words::create(medium(recorder), codec, config(), shape).unwrap()
}

fn fill(table: &Words, words: u64) {
    for word in 0..words {
        assert_eq!(table.apply(word, &ByWord, Some(!word), |_| Change::Keep), None);
    }
}

/// Returns the bytes of a simulated file.
pub(super) fn image(pool: &Pool) -> Vec<u8> {
    std::fs::read(format!("/proc/self/fd/{}", pool.backing().file().as_raw_fd())).unwrap()
}

/// Opens a copy of a table's file, which a process has closed, or has left when it was killed.
fn opened_again(table: &Words, is_closed: bool) -> Result<(Words, Recovery), Error> {
    let pool = table.pool();
    if is_closed {
        pool.set_items(table.len());
        pool.set_session(false);
    }
    let backing = Backing::simulated(&image(pool), true, false, Arc::default()).unwrap();
    pool.set_session(true);
    let medium = Durable::new(Pool::open(backing, Kind::Iceberg, Wanted::default()).unwrap());
    Words::open(medium, table.codec, config(), table.geometry.columns as usize, 1)
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

/// Returns another block of the same half, where a tag means the same word.
fn another(table: &Words, block: usize) -> usize {
    let is_other =
        |&other: &usize| other != block && table.geometry.half(other) == table.geometry.half(block);
    (0..table.geometry.blocks(table.state().mask())).find(is_other).unwrap()
}

/// Puts a pair into a front block.
fn put_in_front(table: &Words, block: usize, (tag, hash): (u64, u64)) {
    let slot = table.front.empty_slot(block, fingerprint(hash)).unwrap();
    table.front.put(block, slot, fingerprint(hash), (tag, 7));
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
    let put = |is_new: bool| {
        let mut prepared = table.chains.prepare([hash].into_iter()).unwrap();
        let prepared = (!is_new).then_some(&mut prepared);
        table.put_behind(state, block, (hash, prepared), (tag, 0))
    };
    let puts = permit(|| Ok([put(true), put(false), put(true)]));
    assert_eq!(puts, Ok([Put::Refused, Put::Done, Put::Refused]));
    assert_eq!(put(true), Put::Done);
    table.front.unlock(block);
}

/// When the disk has room again, the next open makes room for new keys.
#[test]
fn a_file_that_was_full_gets_room_when_it_is_opened() {
    let recorder = Arc::default();
    let (table, _) = filled_in(&recorder, 1 << 12, 0.5);
    recorder.full_at(Some(0));
    for word in (0..).take_while(|_| !table.is_tight()) {
        let (tag, hash, _) = stranger(&table, word);
        table.chains.push(hash, (tag, 0)).unwrap();
    }
    let (again, _) = opened_again(&table, false).unwrap();
    assert!(!again.is_tight() && again.chains.slots().len() > table.chains.slots().len());
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

/// A file may be closed, or left by a killed process, in the middle of a halving. The next open ends
/// it.
#[test]
fn a_halving_ends_when_its_file_is_opened() {
    for (settled, is_closed) in [(0, true), (0, false), (40, true), (40, false)] {
        let table = empty(&Arc::default(), (64, 1));
        table.reserve(64 * 72).unwrap();
        fill(&table, 3000);
        let state = table.state();
        table.start(state, Phase::Halving, 1);
        assert!((0..settled).all(|unit| table.settle_unit(table.state(), unit)));
        let in_front = |block| 64 - table.front.matching(block, 0).count_ones() as usize;
        let in_back =
            |block| Back::<Blocks, Durable>::empties(table.back.word(block)).count() as usize;
        let left: usize = (64..128).map(|block| in_front(block) + 8 - in_back(block)).sum();
        let (table, recovery) = opened_again(&table, is_closed).unwrap();
        assert_eq!((table.state().rows(), table.has_leftovers()), (1, false));
        assert_eq!(table.state().is_fast_to_find(), table.front.is_fast());
        // Those of both sizes were read.
        assert_eq!(recovery.slots, 2 * table.slots() + table.chains.slots().len());
        assert_eq!((recovery.items, recovery.moved, recovery.dropped), (3000, left, 0));
        assert_eq!(table.verify(&|_, _| true), Ok(3000));
        assert!((0..3000).all(|word| table.find(word, &ByWord) == Some(!word)));
        // The other half is given back.
        assert_eq!(table.front.slots_behind(64).count(), 0);
    }
}

/// What is not as it was when the file was closed is damage, which no recovery hides.
#[test]
fn a_closed_file_with_a_pair_too_many_or_too_few_is_refused() {
    let refusal = |change: fn(&Words)| {
        let (table, _) = filled(1 << 12, 0.5);
        change(&table);
        match opened_again(&table, true) {
            Err(Error::File(FileError::Corrupt { what, .. })) => what,
            other => panic!("{:?}", other.map(|(_, recovery)| recovery)),
        }
    };
    let misplaced = refusal(|table| {
        let (tag, hash, block) = stranger(table, 1);
        put_in_front(table, another(table, block), (tag, hash));
    });
    assert_eq!(misplaced, "a pair is not where its key belongs");
    let doubled = refusal(|table| {
        let (tag, hash, block) = stranger(table, 1);
        (0..2).for_each(|_| put_in_front(table, block, (tag, hash)));
    });
    assert_eq!(doubled, "a key has two pairs");
    let missing = refusal(|table| {
        let is_taken = |&slot: &usize| table.front.pair(0, slot).0 != 0;
        let slot = (0..64).find(is_taken).unwrap();
        table.medium.store_first(table.front.slot(0, slot), 0, Release);
    });
    assert_eq!(missing, "the number of pairs");
}

/// Recovery changes a file only if it has to. What it has changed is durable before the map is used,
/// and a moved pair before its other copy is dropped.
#[test]
fn recovery_makes_durable_what_it_has_changed() {
    let barriers = |change: fn(&Words)| {
        let recorder = Arc::default();
        let (table, _) = filled_in(&recorder, 200, 0.5);
        let blocks = table.geometry.blocks(0);
        change(&table);
        let before = recorder.len();
        table.recover(1, 1, false).unwrap();
        let behind = table.front.slots_behind(blocks).chain(table.back.slots_behind(blocks));
        let behind: Vec<u64> = behind.map(|slot| slot.load_first(Relaxed)).collect();
        assert!(behind.len() > 72 && behind.iter().all(|&tag| tag == 0));
        let events = recorder.events();
        let is_barrier = |event: &&Event| **event == Event::BarrierBegan;
        events[before..].iter().filter(is_barrier).count()
    };
    assert_eq!(barriers(|_| ()), 0);
    // What a later doubling would take for a pair of its own.
    let behind_front = barriers(|table| {
        let slot = table.front.slots_behind(table.geometry.blocks(0)).next().unwrap();
        table.medium.store_first(slot, 7, Release);
    });
    let behind_back = barriers(|table| {
        let slot = table.back.slots_behind(table.geometry.blocks(0)).next().unwrap();
        table.medium.store_first(slot, 7, Release);
    });
    assert_eq!((behind_front, behind_back), (1, 1));
    let doubled = barriers(|table| {
        let (tag, hash, block) = stranger(table, 1);
        (0..2).for_each(|_| put_in_front(table, block, (tag, hash)));
    });
    assert_eq!(doubled, 1);
    let moved = barriers(|table| {
        let (tag, hash, block) = stranger(table, 1);
        put_in_front(table, another(table, block), (tag, hash));
    });
    assert_eq!(moved, 2);
}

/// A pair in a back block that is not its key's is moved, or dropped if the key is where it belongs,
/// too.
#[test]
fn recovery_takes_pairs_out_of_wrong_back_blocks() {
    let (table, words) = filled(1 << 12, 0.85);
    let mask = table.state().mask();
    let find = |from: u64| {
        let has_room =
            |&word: &u64| table.front.empty_slot(stranger(&table, word).2, 0x80).is_some();
        (from..).find(has_room).unwrap()
    };
    // In a block that is not the key's, and not in its first slot.
    let in_back = |word: u64| {
        let (tag, hash, block) = stranger(&table, word);
        let its = choices(hash).map(|hash| table.geometry.block(hash, mask));
        let is_other = |other: &usize| {
            !its.contains(other)
                && table.geometry.half(*other) == table.geometry.half(block)
                && table.back.empty_slot(*other, 0).is_some_and(|slot| slot > 0)
        };
        let other = (0..table.geometry.blocks(mask)).find(is_other).unwrap();
        let slot = table.back.empty_slot(other, 0).unwrap();
        table.back.put(other, slot, back_fingerprint(hash), (tag, 7));
    };
    let mut strangers = vec![find(0)];
    in_back(strangers[0]);
    for _ in 0..3 {
        let word = find(strangers[strangers.len() - 1] + 1);
        let (tag, hash, block) = stranger(&table, word);
        put_in_front(&table, block, (tag, hash));
        in_back(word);
        strangers.push(word);
    }
    let (again, recovery) = opened_again(&table, false).unwrap();
    assert_eq!((recovery.items, recovery.moved, recovery.dropped), (words as usize + 4, 1, 3));
    assert_eq!(again.verify(&|_, _| true), Ok(words as usize + 4));
    assert!(strangers.iter().all(|word| again.find(1 << 40 | word, &ByWord) == Some(7)));
    assert!((0..words).all(|word| again.find(word, &ByWord) == Some(!word)));
}

/// A key that a power cut has left in level 3 and elsewhere has two values. One of them stays.
#[test]
fn recovery_drops_a_copy_in_level_3() {
    let (table, words) = filled(1 << 12, 0.5);
    let (tag, hash, block) = stranger(&table, 1);
    put_in_front(&table, block, (tag, hash));
    table.chains.push(hash, (tag, 8)).unwrap();
    let (again, recovery) = opened_again(&table, false).unwrap();
    assert_eq!((recovery.items, recovery.moved, recovery.dropped), (words as usize + 1, 0, 1));
    assert_eq!(again.verify(&|_, _| true), Ok(words as usize + 1));
    assert_eq!(again.find(1 << 40 | 1, &ByWord), Some(7));
}

/// A root word that a crash has left before the slots of its rows, or after them.
#[test]
fn a_resize_that_was_only_named_has_not_begun() {
    let with = |rows: u64| move |wanted: u64| wanted <= rows;
    assert_eq!(held(Phase::Stable, 8, with(8)), (Phase::Stable, 8));
    assert_eq!(held(Phase::Doubling, 8, with(8)), (Phase::Doubling, 8));
    assert_eq!(held(Phase::Doubling, 8, with(7)), (Phase::Stable, 4));
    // More is missing than a doubling adds.
    assert_eq!(held(Phase::Doubling, 8, with(3)), (Phase::Doubling, 8));
    assert_eq!(held(Phase::Halving, 4, with(8)), (Phase::Halving, 4));
    assert_eq!(held(Phase::Halving, 4, with(7)), (Phase::Stable, 4));
    assert_eq!((most_rows(with(5)), most_rows(with(0))), (4, 1));
    assert_eq!(most_rows(with(u64::MAX)), 1 << 62);
    // The doubling that was named, in a file.
    let table = empty(&Arc::default(), (64, 1));
    fill(&table, 1000);
    table.set_root(State::root(Phase::Doubling, 2));
    let (again, _) = opened_again(&table, false).unwrap();
    assert_eq!((again.state().rows(), again.verify(&|_, _| true)), (1, Ok(1000)));
    // Rows that no resize has added.
    for rows in [2, 4, 8] {
        table.set_root(State::root(Phase::Stable, rows));
        let error = FileError::Truncated {
            bytes: table.pool().file_bytes(),
            expected: 64 * rows * 72 * 16,
        };
        assert_eq!(opened_again(&table, false).map(drop), Err(error.into()));
    }
}

/// A file that has lost its root word shows by its pairs how many rows it has.
#[test]
fn the_number_of_rows_is_where_most_pairs_belong() {
    let mut table = empty(&Arc::default(), (2, 4));
    fill(&table, 400);
    table.front.grow(2 * 16).unwrap();
    for most in [4, 8, 16] {
        table.state = crate::sync::AtomicU64::new(State::new(1, true).0);
        assert_eq!((table.likely_rows(most), table.state().rows()), (4, 4));
        assert_eq!(table.state().is_fast_to_find(), table.front.is_fast());
    }
}

/// Half of the columns belong to each half of the hashes, and there are at most 128.
#[test]
fn a_table_of_no_number_of_columns_is_refused() {
    let codec = StableCodec::new(StableCodec::draw());
    let refused = Error::from(FileError::corrupt("the number of columns is none"));
    for columns in [0, 1, 3, 127, 129, 130, usize::MAX] {
        let opened = Words::open(medium(&Arc::default()), codec, config(), columns, 1);
        assert_eq!(opened.map(drop), Err(refused), "{columns}");
    }
}

/// A pair that a resize has left in its old slot is not there for a handle, either.
#[test]
fn handles_find_no_leftovers() {
    let (table, words) = filled(1 << 12, 0.93);
    let mask = table.state().mask();
    let mut hidden = [0; 2];
    for word in 0..words {
        let hash = table.codec.hash(word);
        let tag = table.codec.tag(word, hash);
        let handle = table.slot_of(word, &ByWord).unwrap();
        assert_eq!(table.read_slot(&handle), Some((word, !word)));
        let blocks = choices(hash).map(|hash| table.geometry.block(hash, mask));
        let in_front =
            (0..64).find(|&slot| table.front.pair(table.geometry.block(hash, mask), slot).0 == tag);
        let in_back = blocks.iter().flat_map(|&block| (0..8).map(move |slot| (block, slot)));
        let in_back =
            in_back.into_iter().find(|&(block, slot)| table.back_pair(block, slot).0 == tag);
        match (in_front, in_back) {
            (Some(slot), _) => {
                table.front.set_fingerprint(table.geometry.block(hash, mask), slot, 0)
            }
            (None, Some((block, slot))) => table.back.clear_fingerprint(block, slot),
            (None, None) => continue,
        }
        hidden[usize::from(handle.level()) - 1] += 1;
        assert_eq!(table.read_slot(&handle), None);
    }
    assert!(hidden[0] > 3000 && hidden[1] > 100, "{hidden:?}");
}
