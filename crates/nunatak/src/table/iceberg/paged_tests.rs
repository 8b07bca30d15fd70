//! Tables in a medium that copies pages: which pages are there, which are copied before a change, and
//! what happens when none is left for a copy.

use super::geometry::{BlockSizes, Blocks};
use super::{Config, Table};
use crate::durable::{IcebergBlobMap, Options, Persistency, Simulation};
use crate::hash::{StableCodec, StableHash};
use crate::memory::Medium;
use crate::memory::durable::{Backing, Kind, Paged, Pool, Recorder, Wanted};
use crate::table::{ByWord, Change, KeyTest, PairTable};
use core::cell::Cell;
use std::sync::Arc;

type Words<B> = Table<StableCodec, B, Paged>;

/// Makes a table in a simulated file whose pages are copied.
fn empty<B: BlockSizes>(recorder: &Arc<Recorder>, capacity: usize, max_load: f64) -> Words<B> {
    let backing = Backing::simulated(&[], false, true, Arc::clone(recorder)).unwrap();
    let pool = Pool::create(backing, Kind::IcebergBlobs, &[0; 12], Wanted::default()).unwrap();
    let medium = Paged::new(pool, 1 << 30).unwrap();
    let config = Config { max_load, ..Config::default() };
    let shape = Words::<B>::columns_for(capacity, &config).unwrap();
    let codec = StableCodec::new(StableHash::EXAMPLE.multipliers);
    Table::create_paged(medium, codec, config, shape).unwrap()
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
