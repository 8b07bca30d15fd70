//! Maps that do not grow: they take what they were built for, refuse what has no place, and lose
//! nothing.

use nunatak::{
    Dlht, DlhtMap, Error, HashesWith, Iceberg, IcebergMap, InlineMap, Pea, PeaMap, RandomState,
    Turbo, TurboMap, Unshadowed,
};
use std::sync::atomic::{AtomicU64, Ordering};

const ROOM: u64 = 20_000;

type Map<D> = InlineMap<u64, u64, RandomState, D>;

/// Fills a map until it refuses a key, and returns how many keys it took.
fn fill<D: HashesWith<RandomState> + Unshadowed>(map: &Map<D>) -> u64 {
    let taken = (0..20 * ROOM).find(|&key| match map.insert_within_capacity(key, !key) {
        Ok(before) => {
            assert_eq!(before, None);
            false
        }
        Err(error) => {
            assert_eq!(error, Error::Full);
            true
        }
    });
    taken.expect("it refuses a key")
}

fn has_exactly<D: HashesWith<RandomState> + Unshadowed>(map: &Map<D>, keys: u64) {
    assert_eq!(map.len() as u64, keys);
    assert!((0..keys).all(|key| map.get(&key) == Some(!key)));
    assert!((keys..2 * keys).all(|key| map.get(&key).is_none()));
}

fn holds<D: HashesWith<RandomState> + Unshadowed>(map: &Map<D>, slots: impl Fn() -> usize) {
    let made = slots();
    let taken = fill(map);
    assert!(taken >= ROOM, "{taken}");
    has_exactly(map, taken);
    assert_eq!(slots(), made);

    // A key that is there is replaced, and a removed one makes room, though not for every key.
    assert_eq!(map.insert_within_capacity(7, 1), Ok(Some(!7)));
    assert_eq!(map.insert(7, !7), Some(1));
    assert!((0..taken / 2).all(|key| map.remove(&key) == Some(!key)));
    let again = (0..taken / 2).filter(|&key| map.insert_within_capacity(key, !key).is_ok()).count();
    assert_eq!(map.len() as u64, taken - taken / 2 + again as u64);
    assert!(map.len() as u64 >= ROOM);

    assert_eq!(slots(), made);

    // An insert that can't fail finds a place.
    for key in 0..taken {
        map.insert(key, !key);
    }
    (taken..taken + 100).for_each(|key| assert_eq!(map.insert(key, !key), None));
    has_exactly(map, taken + 100);
    assert_eq!(slots(), made);

    // Room that is asked for is there.
    map.reserve(ROOM as usize).expect("memory");
    for key in taken + 100..taken + ROOM / 2 {
        assert_eq!(map.insert_within_capacity(key, !key), Ok(None));
    }
    has_exactly(map, taken + ROOM / 2);
}

#[test]
fn dlht() {
    let map = DlhtMap::<u64, u64>::builder().capacity(ROOM as usize).grows(false);
    let map: DlhtMap<u64, u64> = map.build().expect("a map");
    holds(&map, || map.stats().bins);
}

#[test]
fn iceberg() {
    let map = IcebergMap::<u64, u64>::builder().grows(false).capacity(ROOM as usize);
    let map: IcebergMap<u64, u64> = map.build().expect("a map");
    holds(&map, || map.stats().slots);
}

#[test]
fn pea() {
    let map = PeaMap::<u64, u64>::builder().capacity(ROOM as usize).grows(false);
    let map: PeaMap<u64, u64> = map.build().expect("a map");
    holds(&map, || map.stats().slots);
}

#[test]
fn turbo() {
    let map = TurboMap::<u64, u64>::builder().grows(false).capacity(ROOM as usize);
    let map: TurboMap<u64, u64> = map.build().expect("a map");
    holds(&map, || map.stats().slots);
}

/// Threads that fill a map together: each key is refused or there.
#[test]
fn many_threads() {
    fn run<D: HashesWith<RandomState> + Unshadowed>(map: &Map<D>)
    where
        Map<D>: Sync,
    {
        let (taken, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (taken, refused) = (&taken, &refused);
                scope.spawn(move || {
                    for at in 0..ROOM {
                        let key = 4 * at + number;
                        let count = match map.insert_within_capacity(key, !key) {
                            Ok(_) => taken,
                            Err(_) => refused,
                        };
                        count.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(map.get(&key).is_some(), std::ptr::eq(count, taken));
                    }
                });
            }
        });
        let (taken, refused) = (taken.into_inner(), refused.into_inner());
        assert!(taken >= ROOM && refused > 0, "{taken} and {refused}");
        assert_eq!((map.len() as u64, taken + refused), (taken, 4 * ROOM));
    }
    let room = ROOM as usize;
    let dlht = DlhtMap::<u64, u64>::builder().capacity(room).grows(false).build();
    run::<Dlht>(&dlht.expect("a map"));
    let iceberg = IcebergMap::<u64, u64>::builder().capacity(room).grows(false).build();
    run::<Iceberg>(&iceberg.expect("a map"));
    let pea = PeaMap::<u64, u64>::builder().capacity(room).grows(false).build();
    run::<Pea>(&pea.expect("a map"));
    let turbo = TurboMap::<u64, u64>::builder().capacity(room).grows(false).build();
    run::<Turbo>(&turbo.expect("a map"));
}
