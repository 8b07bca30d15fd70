//! Every kind of map, in one thread.

use super::operations::{self, Numbers, Strings};
use super::small;
use nunatak::hash::Hashing;
use nunatak::{
    DlhtBoxedMap, DlhtLocalMap, DlhtMap, DlhtSet, DlhtShadowMap, Entry8, Entry12, Error,
    HashesWith, IcebergMap, InlineMap, InlineSet, Op, PeaMultiMap, Request, Stop, Unshadowed,
};

const COUNT: u32 = 40;

#[test]
fn inline_maps_of_dlht() {
    let map: DlhtMap<u32, u32> = small::dlht().build().expect("valid options");
    operations::all::<Numbers, _>(map, COUNT);
}

#[test]
fn inline_maps_of_dlht_of_one_thread() {
    let map: DlhtLocalMap<u32, u32> = small::dlht().build().expect("valid options");
    operations::all::<Numbers, _>(map, COUNT);
}

#[test]
fn inline_maps_of_iceberg() {
    let map = small::iceberg().build::<u32, u32>().expect("valid options");
    operations::all::<Numbers, _>(map, COUNT);
    // Large blocks of 64 slots.
    operations::all::<Numbers, _>(IcebergMap::<u32, u32>::new(), COUNT);
}

#[test]
fn inline_maps_of_pea() {
    let map = small::pea().build::<u32, u32, nunatak::Entry16>().expect("valid options");
    operations::all::<Numbers, _>(map, COUNT);
}

#[test]
fn inline_maps_of_pea_with_narrow_entries() {
    let map = small::pea().build::<u32, u32, Entry12>().expect("valid options");
    operations::all::<Numbers, _>(map, COUNT);
    let map = small::pea().build::<u32, u32, Entry8>().expect("valid options");
    operations::all::<Numbers, _>(map, COUNT);
}

#[test]
fn inline_maps_of_turbo() {
    let map = small::turbo().build::<u32, u32, nunatak::Entry16>().expect("valid options");
    operations::all::<Numbers, _>(map, COUNT);
    let map = small::turbo().build::<u32, u32, Entry8>().expect("valid options");
    operations::all::<Numbers, _>(map, COUNT);
}

/// Maps that do not grow take what they were made for, then refuse a key.
#[test]
fn maps_that_do_not_grow() {
    fn fill<S: Hashing, D: HashesWith<S> + Unshadowed>(map: &InlineMap<u32, u32, S, D>) {
        let refuses = |key: &u32| map.insert_within_capacity(*key, !key) == Err(Error::Full);
        let taken = (0..).find(refuses).expect("a full map");
        assert!(taken >= COUNT && map.len() == taken as usize);
        assert!((0..taken).all(|key| map.get(&key) == Some(!key)));
        assert_eq!((map.insert(taken, 1), map.get(&taken)), (None, Some(1)));
    }
    let room = COUNT as usize;
    let map: DlhtMap<u32, u32> =
        small::dlht().capacity(room).grows(false).build().expect("options");
    fill(&map);
    fill(&small::iceberg().capacity(room).grows(false).build::<u32, u32>().expect("options"));
    let pea = small::pea().capacity(room).grows(false);
    fill(&pea.build::<u32, u32, nunatak::Entry16>().expect("options"));
    let turbo = small::turbo().capacity(room).grows(false);
    fill(&turbo.build::<u32, u32, nunatak::Entry16>().expect("options"));
}

#[test]
fn boxed_maps_of_dlht() {
    operations::all::<Strings, _>(small::dlht().build_boxed().expect("valid options"), COUNT);
}

#[test]
fn boxed_maps_of_iceberg() {
    operations::all::<Strings, _>(small::iceberg().build_boxed().expect("valid options"), COUNT);
}

#[test]
fn boxed_maps_of_pea() {
    operations::all::<Strings, _>(small::pea().build_boxed().expect("valid options"), COUNT);
}

#[test]
fn boxed_maps_of_turbo() {
    operations::all::<Strings, _>(small::turbo().build_boxed().expect("valid options"), COUNT);
}

#[test]
fn boxed_maps_of_borrowed_keys() {
    let text = String::from("a b c d e f g h i j k l");
    let map: DlhtBoxedMap<&str, &str> = DlhtBoxedMap::new();
    text.split(' ').for_each(|word| assert_eq!(map.insert(word, word), None));
    assert_eq!((map.len(), map.get("k")), (12, Some("k")));
}

fn set<S, D>(set: &InlineSet<u32, S, D>)
where
    S: nunatak::hash::Hashing,
    D: nunatak::HashesWith<S> + nunatak::Unshadowed,
{
    assert!((0..COUNT).all(|key| set.insert(key)) && !set.insert(7));
    assert!(set.contains(&7) && set.remove(&7) && !set.remove(&7) && !set.contains(&COUNT));
    let (keys, mut present) = ([6, 7, 8, 9], [None; 4]);
    assert_eq!(set.insert_many(&keys, &mut present), Ok(1));
    assert_eq!(set.remove_many(&keys, &mut present), Ok(4));
    assert_eq!(set.execute(&mut [Op::new(Request::Insert(6, ()))], Stop::Never), 1);
    set.retain(|key| key.is_multiple_of(2));
    let mut cut: Vec<_> = set.snapshot().expect("room for a cut").collect();
    cut.sort_unstable();
    assert!(cut.into_iter().eq((0..COUNT).step_by(2).filter(|&key| key != 8)));
    let other: DlhtSet<u32> = (0..4).collect();
    assert_eq!(
        (set.intersection(&other).count(), set.union(&other).count()),
        (2, COUNT as usize / 2 + 1)
    );
    set.shrink_to_fit().expect("room for a smaller table");
    set.clear();
    assert_eq!(set.iter().count(), 0);
    set.insert(5);
}

#[test]
fn sets() {
    set(&small::dlht().build_set().expect("valid options"));
    set(&small::iceberg().build_set().expect("valid options"));
    set(&small::pea().build_set::<u32, nunatak::Entry16>().expect("valid options"));
    set(&small::turbo().build_set::<u32, nunatak::Entry16>().expect("valid options"));
}

#[test]
fn shadow_maps() {
    let map: DlhtShadowMap<u32, u32> = small::dlht().build_shadow().expect("valid options");
    for key in 0..COUNT {
        let shadow = map.shadow_insert(key).expect("absent");
        assert_eq!((map.get(&key), map.insert(key, 1)), (None, Err(Error::Shadowed)));
        match key % 4 {
            0 => shadow.commit(key),
            1 => shadow.abort(),
            2 => map.commit_shadow(&shadow.keep(), key).expect("hidden"),
            _ => map.abort_shadow(&shadow.keep()).expect("hidden"),
        }
        assert_eq!(map.get(&key), (key % 2 == 0).then_some(key));
    }
    let shadows = map.shadow_insert_many(&[1, 3, 5]).map_err(drop).expect("absent");
    assert_eq!(map.snapshot().expect("room for a cut").count(), COUNT as usize / 2);
    drop(shadows);
    assert_eq!(map.insert_many(&[(1, 1), (2, 2)]).map_err(drop), Ok(1));
    assert_eq!(map.remove(&2), Some(2));
    map.retain(|key, _| *key < 10);
    map.shrink_to_fit().expect("room for a smaller table");
    map.shadow_insert(99).expect("absent").keep();
    assert_eq!(map.iter().count(), 5);
}

#[test]
fn multimaps() {
    let map: PeaMultiMap<u32, u32> = small::pea().build_multi().expect("valid options");
    for n in 0..COUNT * 2 {
        // One key has half of all values; most of them are outside of its slot.
        let key = if n % 2 == 0 { 0 } else { n / 3 };
        map.insert(key, n);
        assert!(map.contains_pair(&key, &n) && map.get(&key).is_some());
    }
    assert_eq!((map.len(), map.count(&0)), (COUNT as usize * 2, COUNT as usize + 1));
    let mut values: Vec<_> = map.get_all(&0).collect();
    values.sort_unstable();
    assert_eq!(values[..3], [0, 1, 2]);
    let mut counts = [0; 3];
    map.count_many(&[0, 1, 999], &mut counts).expect("as many counts");
    assert_eq!((counts[0], counts[2]), (COUNT as usize + 1, 0));
    map.insert_many(&[(500, 1), (500, 2), (501, 3)]);
    assert!(map.remove_one(&0, &4) && !map.remove_one(&0, &4));
    assert!(map.insert_unique(501, 4) && !map.insert_unique(501, 4));
    assert!(!map.insert_unique(0, 6) && map.remove_one(&501, &4));
    assert_eq!(map.insert_unique_many(&[(501, 3), (501, 5), (501, 5), (0, 6)]), 1);
    assert!(map.remove_one(&501, &5));
    assert!(map.distinct_keys().any(|of| of == (0, map.count(&0))));
    assert_eq!(map.iter_all().map(|(_, values)| values.len()).sum::<usize>(), map.len());
    assert_eq!(map.snapshot().expect("room for a cut").count(), COUNT as usize * 2 + 2);
    assert_eq!((map.remove_all(&500), map.drain(&0).len()), (2, COUNT as usize));
    let mut removed = [0; 2];
    map.remove_all_many(&[501, 0], &mut removed).expect("as many numbers");
    assert_eq!(removed, [1, 0]);
    map.retain(|_, value| value % 3 != 0);
    map.shrink_to_fit().expect("room for a merge");
    assert_eq!(map.iter().count(), map.len());
    (0..COUNT).for_each(|n| map.insert(7, n));
    map.clear();
    (0..COUNT).for_each(|n| map.insert(n % 2, n));
    map.reserve(100).expect("room for more");
    assert_eq!(map.into_iter().count(), COUNT as usize);
}

#[test]
fn slots_of_iceberg() {
    let map = small::iceberg().build::<u32, u32>().expect("valid options");
    (0..COUNT).for_each(|n| assert_eq!(map.insert(n, n), None));
    let handle = map.slot(&7).expect("present");
    assert_eq!(map.get_at(&handle), Some((7, 7)));
    map.reserve(500).expect("room for more");
    assert!(map.get_at(&handle).is_none_or(|entry| entry == (7, 7)), "moved, or the same");
    map.remove(&7);
    assert_eq!(map.get_at(&handle), None);
    let map = small::iceberg().build_boxed::<String, String>().expect("valid options");
    map.insert("a".into(), "1".into());
    let guard = map.pin();
    let handle = guard.slot("a").expect("present");
    assert_eq!(guard.get_at(&handle).map(|(_, value)| &**value), Some("1"));
    map.remove("a");
    assert_eq!(guard.get_at(&handle), None);
}
