//! Tables in a medium that copies pages: which pages are there, which are copied before a change, and
//! what happens when none is left for a copy.

use super::durable_tests::image;
use super::geometry::{BlockSizes, Blocks, Phase, State, fingerprint};
use super::yard::Yard;
use super::{Config, Recovery, Table};
use crate::durable::{IcebergBlobMap, Options, Persistency, Simulation};
use crate::error::{Error, FileError};
use crate::hash::{HashCodec, StableCodec, StableHash};
use crate::memory::durable::{Backing, Kind, Paged, Pool, Recorder, Wanted};
use crate::memory::{Finder, Medium};
use crate::table::paged::PagedTable;
use crate::table::{ByWord, Change, KeyTest, PairTable};
use core::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, Release};

type Words<B> = Table<StableCodec, B, Paged>;

/// Makes a table in a simulated file whose pages are copied.
fn empty<B: BlockSizes>(recorder: &Arc<Recorder>, capacity: usize, max_load: f64) -> Words<B> {
    let config = Config { max_load, ..Config::default() };
    let shape = Words::<B>::columns_for(capacity, &config).unwrap();
    shaped(recorder, shape, max_load)
}

fn medium(recorder: &Arc<Recorder>) -> Paged {
    let backing = Backing::simulated(&[], false, true, Arc::clone(recorder)).unwrap();
    let pool = Pool::create(backing, Kind::IcebergBlobs, &[0; 12], Wanted::default()).unwrap();
    Paged::new(pool, 1 << 30).unwrap()
}

/// Makes a table of so many columns and rows.
fn shaped<B: BlockSizes>(recorder: &Arc<Recorder>, shape: (usize, u64), max_load: f64) -> Words<B> {
    let codec = StableCodec::new(StableHash::EXAMPLE.multipliers);
    let config = Config { max_load, ..Config::default() };
    Table::create_paged(medium(recorder), codec, config, shape).unwrap()
}

fn fill<B: BlockSizes>(table: &Words<B>, words: u64) {
    for word in 0..words {
        assert_eq!(table.apply(word, &ByWord, Some(!word), |_| Change::Keep), None);
    }
}

/// How a process leaves its file.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Left {
    Closed,
    Killed,
    /// Also the machine ended, but all that was stored is on the disk.
    Cut,
}

/// Opens a copy of a table's file.
fn opened_again<B: BlockSizes>(
    table: &Words<B>,
    left: Left,
    finder: Option<&Arc<dyn Finder>>,
) -> Result<(Words<B>, Recovery), Error> {
    let pool = table.medium.pool();
    if left == Left::Closed {
        table.close().unwrap();
        table.sync_pages().unwrap();
        pool.set_session(false);
    }
    let was_cut = left == Left::Cut;
    let backing = Backing::simulated(&image(pool), false, was_cut, Arc::default()).unwrap();
    pool.set_session(true);
    let pool = Pool::open(backing, Kind::IcebergBlobs, Wanted::default()).unwrap();
    let medium = Paged::new(pool, 1 << 30).unwrap();
    Table::open_paged(medium, table.codec, table.config, table.geometry.columns as usize, finder)
}

/// Stores a pair in a slot of the front yard, wherever its key belongs.
fn put_in_front<B: BlockSizes>(table: &Words<B>, block: usize, (tag, hash): (u64, u64)) {
    let _pin = table.cut.enter();
    table.front.make_writable(block).unwrap();
    let slot = table.front.empty_slot(block, fingerprint(hash)).unwrap();
    table.front.put(block, slot, fingerprint(hash), (tag, 7));
}

/// Returns the tag, the hash and the front block of a word that is not in the table.
fn stranger<B: BlockSizes>(table: &Words<B>, word: u64) -> ((u64, u64), usize) {
    let hash = table.codec.hash(1 << 40 | word);
    let block = table.geometry.block(hash, table.state().mask());
    ((table.codec.tag(1 << 40 | word, hash), hash), block)
}

/// Returns another block of the same half of the columns.
fn another<B: BlockSizes>(table: &Words<B>, block: usize) -> usize {
    let is_other =
        |&other: &usize| other != block && table.geometry.half(other) == table.geometry.half(block);
    (0..table.geometry.blocks(table.state().mask())).find(is_other).unwrap()
}

/// Returns how many pages of the front yard and of the back yard are not there.
fn absent<B: BlockSizes>(table: &Words<B>) -> [usize; 2] {
    let blocks = table.geometry.blocks(table.state().mask());
    let of = |region: &<Paged as Medium>::Region, slots: usize| {
        (0..blocks * slots * 16).step_by(4096).filter(|&at| region.is_absent(at)).count()
    };
    [of(table.front.region(), B::FRONT), of(table.back.region(), B::BACK)]
}

/// No insert may need a page that the disk has no room for.
#[test]
fn all_pages_are_there_before_they_are_used() {
    fn check<B: BlockSizes>() {
        let table = empty::<B>(&Arc::default(), 40_000, 0.91);
        assert_eq!(absent(&table), [0; 2]);
        let before = table.state().rows();
        table.reserve(60_000).unwrap();
        assert!(table.state().rows() > before);
        assert_eq!(absent(&table), [0; 2]);
    }
    check::<Blocks<64, 8>>();
    check::<Blocks<32, 4>>();
}

/// A key in any level can be changed and removed when no page is left for a copy: a sync gives
/// pages back.
#[test]
fn keys_of_all_levels_change_when_no_page_is_left() {
    let recorder = Arc::default();
    let table = empty::<Blocks<8, 2>>(&recorder, 40_000, 0.99);
    let words = table.slots() as u64 * 97 / 100;
    for word in 0..words {
        assert_eq!(table.apply(word, &ByWord, Some(!word), |_| Change::Keep), None);
    }
    let levels = table.stats().levels;
    assert!(levels[1] > 2000 && levels[2] > 200, "{levels:?}");
    table.sync_pages().unwrap();
    recorder.full_at(Some(0));
    for word in 0..words {
        let to = |second| Change::To(second - 1);
        assert_eq!(table.apply(word, &ByWord, None, to), Some(!word));
    }
    assert!((0..words).all(|word| table.find(word, &ByWord) == Some(!word - 1)));
    for word in 0..words {
        assert_eq!(table.apply(word, &ByWord, None, |_| Change::Remove), Some(!word - 1));
    }
    assert!((0..words).all(|word| table.find(word, &ByWord).is_none()));
    assert_eq!(table.stats().levels, [0; 3]);
}

/// What was not synced is taken back on every page, also where keys are behind full blocks.
#[test]
fn a_power_cut_leaves_the_last_sync_of_many_pages() {
    let options = Options::new().capacity(5000);
    let simulation = Simulation::new(Persistency::Pages);
    let map: IcebergBlobMap = simulation.create(&options).unwrap();
    let put = |value: &[u8]| {
        for key in 0..5000_u32 {
            map.put(&key.to_le_bytes(), value).unwrap();
        }
    };
    put(b"synced");
    // The back yard has three pages.
    let stats = map.stats();
    assert!(stats.blocks > 64 && stats.levels[1] > 100, "{stats:?}");
    map.sync().unwrap();
    put(b"lost");
    let image = simulation.crash(simulation.moment()).latest();
    let cut = Simulation::of(&image, Persistency::Pages);
    let map: IcebergBlobMap = cut.open(&options).unwrap();
    let is_synced = |key: u32| map.get(&key.to_le_bytes()).as_deref() == Some(b"synced");
    assert!((0..5000).all(is_synced));
}

/// A read does not count if its page was reused meanwhile.
#[test]
fn a_read_of_a_page_that_is_used_again_does_not_count() {
    /// Accepts the value at the second call. The first call lets pages be copied and reused.
    struct Meddling<'t>(&'t Words<Blocks>, Cell<bool>);

    impl KeyTest for Meddling<'_> {
        const BY_WORD: bool = false;

        fn accepts(&self, second: u64) -> bool {
            assert_eq!(second, 10);
            if self.1.replace(true) {
                return true;
            }
            for round in 0..3 {
                self.0.apply(2, &ByWord, Some(round), |_| Change::To(round));
                self.0.sync_pages().unwrap();
            }
            false
        }
    }

    let table = empty::<Blocks>(&Arc::default(), 0, 0.91);
    table.apply(1, &ByWord, Some(10), |_| Change::Keep);
    assert_eq!(table.find(1, &Meddling(&table, Cell::new(false))), Some(10));
}

/// The disk may have no room for the pages that a new table got after its last sync.
#[test]
fn all_pages_are_there_after_a_power_cut() {
    let table = empty::<Blocks>(&Arc::default(), 1000, 0.91);
    let (again, _) = opened_again(&table, Left::Cut, None).unwrap();
    assert_eq!(absent(&again), [0; 2]);
}

/// The next open ends a halving that was under way.
#[test]
fn a_halving_ends_when_its_file_is_opened() {
    for settled in [0, 1] {
        for left in [Left::Closed, Left::Killed, Left::Cut] {
            let table = shaped::<Blocks>(&Arc::default(), (2, 2), 0.91);
            fill(&table, 100);
            {
                let _pin = table.cut.enter();
                table.prepare_root().unwrap();
                table.start(table.state(), Phase::Halving, 1);
                assert!((0..settled).all(|unit| table.settle_unit(table.state(), unit)));
            }
            table.sync_pages().unwrap();
            let in_front = |block| 64 - table.front.matching(block, 0).count_ones() as usize;
            let moved = in_front(2) + in_front(3);
            let (table, recovery) = opened_again(&table, left, None).unwrap();
            assert_eq!(table.state().rows(), 1);
            assert_eq!(table.state().is_fast_to_find(), table.front.is_fast());
            assert_eq!(recovery.slots, table.slots() + table.chains.slots().len());
            assert_eq!((recovery.moved, recovery.dropped, table.len()), (moved, 0, 100));
            assert_eq!(PagedTable::verify(&table, &|_, _| true), Ok(100));
            assert!((0..100).all(|word| table.find(word, &ByWord) == Some(!word)));
        }
    }
}

/// A later doubling would take what slots behind the rows hold for pairs of its own.
#[test]
fn slots_behind_the_rows_are_emptied() {
    for left in [Left::Closed, Left::Killed, Left::Cut] {
        let table = shaped::<Blocks>(&Arc::default(), (2, 1), 0.91);
        fill(&table, 50);
        // In the page of the last blocks.
        table.front.grow(4).unwrap();
        table.back.grow(4).unwrap();
        {
            let _pin = table.cut.enter();
            table.front.make_writable(3).unwrap();
            table.medium.store_first(table.front.slot(3, 5), 7, Release);
            table.back.make_writable(3).unwrap();
            table.medium.store_first(table.back.slot(3, 4), 7, Release);
        }
        table.sync_pages().unwrap();
        let (table, _) = opened_again(&table, left, None).unwrap();
        let behind = table.front.slots_behind(2).chain(table.back.slots_behind(2));
        let behind: Vec<u64> = behind.map(|slot| slot.load_first(Relaxed)).collect();
        assert!(behind.len() >= 2 * 72 && behind.iter().all(|&tag| tag == 0));
        assert_eq!(PagedTable::verify(&table, &|_, _| true), Ok(50));
    }
}

/// A halving ends after a sync, and the power is cut before the next one: the root word still says
/// that the upper half has keys.
#[test]
fn a_power_cut_takes_back_the_end_of_a_halving() {
    let table = shaped::<Blocks>(&Arc::default(), (2, 2), 0.91);
    fill(&table, 100);
    {
        let _pin = table.cut.enter();
        table.prepare_root().unwrap();
        table.start(table.state(), Phase::Halving, 1);
    }
    table.sync_pages().unwrap();
    drop(table.complete().unwrap());
    let (again, _) = opened_again(&table, Left::Cut, None).unwrap();
    assert_eq!(PagedTable::verify(&again, &|_, _| true), Ok(100));
    assert!((0..100).all(|word| again.find(word, &ByWord) == Some(!word)));
}

#[test]
fn slots_of_level_3_that_were_prepared_in_vain_are_free_again() {
    let table = shaped::<Blocks<8, 2>>(&Arc::default(), (64, 64), 0.99);
    let len = table.chains.slots().len();
    for _ in 0..len {
        let prepared = table.chains.prepare([0, u64::MAX, 0].into_iter());
        assert_eq!(prepared.map(|slots| slots.len()), Some(3));
    }
    assert_eq!(table.chains.slots().len(), len);
}

/// On a full disk a halving copies only the pages of level 3 that it may need, so it ends although
/// level 3 has more pages than can be copied.
#[test]
fn a_halving_on_a_full_disk_ends_however_large_level_3_is() {
    let recorder = Arc::default();
    let table = shaped::<Blocks<8, 2>>(&recorder, (64, 64), 0.99);
    let words = table.slots() as u64 * 48 / 100;
    fill(&table, words);
    let slots = table.chains.slots();
    slots.reserve(1 << 17).unwrap();
    slots.reserve(0).unwrap();
    table.sync_pages().unwrap();
    recorder.full_at(Some(0));
    let rows = table.state().rows();
    table.shrink_to_fit().unwrap();
    assert_eq!(table.state().rows(), rows / 2);
    assert!(table.stats().levels[2] > 100, "{:?}", table.stats());
    assert!((0..words).all(|word| table.find(word, &ByWord) == Some(!word)));
    assert_eq!(PagedTable::verify(&table, &|_, _| true), Ok(words as usize));
}

/// A halving moves the keys of a block only if all pages are writable that they may go to. On a full
/// disk it waits for a sync.
#[test]
fn a_halving_moves_no_key_that_may_find_no_page() {
    let recorder = Arc::default();
    let table = shaped::<Blocks<8, 2>>(&recorder, (64, 64), 0.99);
    let words = table.slots() as u64 * 48 / 100;
    fill(&table, words);
    table.chains.slots().reserve(1000).unwrap();
    table.prepare_root().unwrap();
    table.start(table.state(), Phase::Halving, 32);
    let half = table.geometry.blocks(31);
    assert!((0..half).all(|block| table.settle_back(table.state(), block)));
    table.sync_pages().unwrap();
    recorder.full_at(Some(0));
    let is_full = |block: usize| table.front.matching(block, 0) == 0;
    let tight = (0..half).find(|&low| is_full(low) && is_full(low + half)).unwrap();
    table.prepare_root().unwrap();
    // Of both halves of the hashes.
    drop(table.chains.prepare([0, u64::MAX].into_iter()).unwrap());
    // The first page of the back yard is not enough.
    table.back.make_writable(0).unwrap();
    let all = [tight, tight + half].into_iter().chain((0..2 * half).step_by(32));
    let made_writable = all.map(|block| table.front.make_writable(block)).collect::<Vec<_>>();
    assert!(made_writable[1].is_ok() && made_writable.last() == Some(&Err(FileError::Full.into())));
    assert!(!table.settle_front(table.state(), tight));
    assert!(is_full(tight + half));
    drop(table.complete().unwrap());
    assert!(table.stats().levels[2] > 100, "{:?}", table.stats());
    assert!((0..words).all(|word| table.find(word, &ByWord) == Some(!word)));
    assert_eq!(PagedTable::verify(&table, &|_, _| true), Ok(words as usize));
}

/// What is not as it was when the file was closed is damage. After a crash it is mended.
#[test]
fn a_pair_too_many_or_too_few_is_damage_only_if_the_file_was_closed() {
    let opened = |change: fn(&Words<Blocks>), left| {
        let table = shaped::<Blocks>(&Arc::default(), (2, 2), 0.91);
        fill(&table, 100);
        change(&table);
        table.sync_pages().unwrap();
        match opened_again(&table, left, None) {
            Err(Error::File(FileError::Corrupt { what, .. })) => Err(what),
            other => Ok(other.map(|(table, it)| (table.len(), it.moved, it.dropped)).unwrap()),
        }
    };
    let misplaced = |table: &Words<Blocks>| {
        let (pair, block) = stranger(table, 1);
        put_in_front(table, another(table, block), pair);
    };
    let doubled = |table: &Words<Blocks>| {
        let (pair, block) = stranger(table, 1);
        (0..2).for_each(|_| put_in_front(table, block, pair));
    };
    let missing = |table: &Words<Blocks>| {
        let _pin = table.cut.enter();
        table.front.make_writable(0).unwrap();
        let is_taken = |&slot: &usize| table.front.pair(0, slot).0 != 0;
        let slot = (0..64).find(is_taken).unwrap();
        table.medium.store_first(table.front.slot(0, slot), 0, Release);
    };
    let closed = Left::Closed;
    assert_eq!(opened(misplaced, closed), Err("a pair is not where its key belongs"));
    assert_eq!(opened(doubled, closed), Err("a key has two pairs"));
    assert_eq!(opened(missing, closed), Err("the number of pairs"));
    for left in [Left::Killed, Left::Cut] {
        assert_eq!(opened(misplaced, left), Ok((101, 1, 0)));
        assert_eq!(opened(doubled, left), Ok((101, 0, 1)));
        assert_eq!(opened(missing, left), Ok((99, 0, 0)));
    }
}

/// Maps of pages that are full hold exactly as many rows as they say, and no more.
#[test]
fn rows_that_maps_of_pages_have_no_room_for_are_refused() {
    let table = shaped::<Blocks>(&Arc::default(), (128, 64), 0.91);
    fill(&table, 1000);
    let (again, _) = opened_again(&table, Left::Killed, None).unwrap();
    assert_eq!((again.state().rows(), again.len()), (64, 1000));
    for rows in [128, 256, 512] {
        {
            let _pin = table.cut.enter();
            table.prepare_root().unwrap();
            table.set_root(State::root(Phase::Stable, rows));
        }
        let refused = FileError::corrupt("rows are not in the file");
        assert_eq!(opened_again(&table, Left::Killed, None).map(drop), Err(refused.into()));
    }
}

#[test]
fn a_table_of_no_number_of_columns_is_refused() {
    let codec = StableCodec::new(StableHash::EXAMPLE.multipliers);
    let refused = Error::from(FileError::corrupt("the number of columns is none"));
    for columns in [0, 1, 3, 127, 129, 130, usize::MAX] {
        let medium = medium(&Arc::default());
        let opened = Words::<Blocks>::open_paged(medium, codec, Config::default(), columns, None);
        assert_eq!(opened.map(drop), Err(refused), "{columns}");
    }
}

/// The finder learns of each value once, also where blocks have fewer slots than a word has bits.
#[test]
fn a_finder_learns_of_each_value_once() {
    #[derive(Debug, Default)]
    struct Counting(AtomicUsize);

    impl Finder for Counting {
        fn find(&self, _word: u64) -> bool {
            self.0.fetch_add(1, Relaxed);
            true
        }

        fn forget(&self, _word: u64) {}

        fn end(&self) {}
    }

    let table = shaped::<Blocks<32, 4>>(&Arc::default(), (4, 4), 0.91);
    fill(&table, 400);
    let counting = Arc::new(Counting::default());
    let finder: Arc<dyn Finder> = Arc::clone(&counting) as _;
    let (again, _) = opened_again(&table, Left::Killed, Some(&finder)).unwrap();
    assert_eq!((counting.0.load(Relaxed), again.len()), (400, 400));
}
