//! Sets agree with the standard library's: one operation at a time, in batches, and two sets
//! with each other.

use nunatak::{
    Dlht, DlhtSet, DlhtWideSet, Iceberg, IcebergWideSet, InlineSet, Modulo, Op, Outcome, Pea,
    RandomState, Request, Stop, TurboSet, WideDesign, WideSet,
};
use nunatak_harness::Random;
use std::collections::BTreeSet;
use std::thread;

/// Returns two sets with some keys in common, so large that they take many windows.
fn sets() -> (BTreeSet<u32>, BTreeSet<u32>) {
    let mut random = Random::new(3);
    let mut draw = |count| (0..count).map(|_| random.below(5000) as u32).collect();
    (draw(3000), draw(1000))
}

fn sorted(keys: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut keys: Vec<u32> = keys.collect();
    keys.sort_unstable();
    keys
}

#[test]
fn sets_of_any_design_and_hashing_are_compared() {
    let (a, b) = sets();
    let dlht: DlhtSet<u32, Modulo> = a.iter().copied().collect();
    let turbo: TurboSet<u32> = b.iter().copied().collect();
    let of = |keys: &mut dyn Iterator<Item = &u32>| sorted(keys.copied());
    assert_eq!(sorted(dlht.intersection(&turbo)), of(&mut a.intersection(&b)));
    assert_eq!(sorted(dlht.difference(&turbo)), of(&mut a.difference(&b)));
    assert_eq!(sorted(turbo.difference(&dlht)), of(&mut b.difference(&a)));
    assert_eq!(sorted(dlht.union(&turbo)), of(&mut a.union(&b)));
    let symmetric = of(&mut a.symmetric_difference(&b));
    assert_eq!(sorted(dlht.symmetric_difference(&turbo)), symmetric);
    assert!(!dlht.is_disjoint(&turbo) && !dlht.is_subset(&turbo) && !dlht.is_superset(&turbo));
    let common: DlhtSet<u32> = a.intersection(&b).copied().collect();
    assert!(common.is_subset(&dlht) && common.is_subset(&turbo) && dlht.is_superset(&common));
    let rest: InlineSet<u32, RandomState, Pea> = a.difference(&b).copied().collect();
    assert!(rest.is_disjoint(&turbo) && !rest.is_disjoint(&dlht));
    assert_eq!(sorted(dlht.into_iter()), of(&mut a.iter()));
}

macro_rules! batches_are_their_operations_in_order {
    ($($name:ident $set:ident)*) => {$(
        #[test]
        fn $name() {
            let mut random = Random::new(5);
            let (set, mut model) = ($set::<u32>::new(), BTreeSet::new());
            let mut answers = vec![None; 300];
            for round in 0..200 {
                let keys: Vec<u32> = (0..300).map(|_| random.below(2000) as u32).collect();
                let expect = |change: &mut dyn FnMut(u32) -> bool| -> Vec<Option<()>> {
                    keys.iter().map(|&key| change(key).then_some(())).collect()
                };
                let (counted, expected) = match round % 3 {
                    0 => {
                        let before = expect(&mut |key| !model.insert(key));
                        let new = before.iter().filter(|before| before.is_none()).count();
                        assert_eq!(set.insert_many(&keys, &mut answers), Ok(new));
                        (new, before)
                    }
                    1 => {
                        let removed = expect(&mut |key| model.remove(&key));
                        (set.remove_many(&keys, &mut answers).expect("room"), removed)
                    }
                    _ => {
                        let present = expect(&mut |key| model.contains(&key));
                        (set.contains_many(&keys, &mut answers).expect("room"), present)
                    }
                };
                assert_eq!(answers, expected);
                if round % 3 != 0 {
                    assert_eq!(counted, expected.iter().flatten().count());
                }
                assert_eq!(set.len(), model.len());
            }
            assert!(set.insert_many(&[1, 2], &mut []).is_err() && set.len() == model.len());
        }
    )*};
}

batches_are_their_operations_in_order! {
    batches_are_their_operations_in_order DlhtSet
    batches_of_wide_keys_are_their_operations_in_order DlhtWideSet
    batches_of_wide_keys_in_blocks_are_their_operations_in_order IcebergWideSet
}

/// Threads add the same keys to a set, which grows meanwhile, and remove them: each key is added once, and removed once.
fn keys_are_won_once<D: WideDesign>() {
    const KEYS: u128 = 20_000;
    let set = WideSet::<u128, D>::new();
    for insert in [true, false, true] {
        let change = |n: u128| {
            let key = n << 70 | n;
            if insert { set.insert(key) } else { set.remove(&key) }
        };
        let wins: usize = thread::scope(|scope| {
            let threads =
                [(); 4].map(|()| scope.spawn(|| (0..KEYS).filter(|&n| change(n)).count()));
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(wins, KEYS as usize);
        assert_eq!(set.len(), if insert { KEYS as usize } else { 0 });
    }
    let mut keys: Vec<u128> = set.snapshot().expect("memory").collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq((0..KEYS).map(|n| n << 70 | n)));
}

#[test]
fn threads_share_wide_sets() {
    keys_are_won_once::<Dlht>();
    keys_are_won_once::<Iceberg>();
}

/// A batch of locks stops at the first key that is taken, and keeps the locks before it.
#[test]
fn a_batch_stops_at_a_lock_that_is_taken() {
    let locked: DlhtSet<u32> = [50].into_iter().collect();
    let mut locks: Vec<_> = (0..100).map(|key| Op::new(Request::TryInsert(key, ()))).collect();
    assert_eq!(locked.execute(&mut locks, Stop::AtFirstFailure), 51);
    assert_eq!((locks[50].outcome, locks[51].outcome), (Outcome::Occupied(()), Outcome::Pending));
    assert_eq!(sorted(locked.iter()), Vec::from_iter(0..51));
}

/// `retain` of a set asks exactly once about each key, and obeys the answer.
#[test]
fn one_of_all_keys_is_evicted() {
    let set: DlhtSet<u32> = (0..1000).collect();
    let mut asked = 0;
    set.retain(|_| {
        asked += 1;
        asked > 1
    });
    assert_eq!((asked, set.len()), (1000, 999));
}
