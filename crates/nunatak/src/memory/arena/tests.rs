//! What an arena promises in RAM.

use super::classes::LARGEST;
use super::*;
use crate::sync::thread_index::Hold;

/// Runs a function on a thread with a shard other than this one's, which has a number.
pub(super) fn in_another_shard<R: Send>(run: impl FnOnce() -> R + Send) -> R {
    fn apart<R: Send>(from: usize, run: impl FnOnce() -> R + Send) -> R {
        let on_thread = move || {
            let _number = Hold::new();
            // The next thread has another number, since this one keeps its own meanwhile.
            if thread_index::current_if_any() % SHARDS == from { apart(from, run) } else { run() }
        };
        std::thread::scope(|scope| scope.spawn(on_thread).join().unwrap())
    }
    apart(thread_index::current_if_any() % SHARDS, run)
}

#[test]
fn places_are_apart_and_all_come_back() {
    let arena = Arena::new(&Heap, 1 << 30).unwrap();
    let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
    let mut random = 1_u64;
    let mut most = 0;
    for _ in 0..50_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if random >> 62 != 0 && taken.len() < 4000 || taken.is_empty() {
            let bytes = match random >> 50 & 63 {
                0 => (random >> 30) as usize % (8 * SPAN),
                1..8 => (random >> 30) as usize % LARGEST,
                _ => (random >> 30) as usize % 256,
            };
            let at = arena.allocate(bytes).unwrap();
            let end = at + Arena::<Heap>::placed(bytes);
            let before = taken.range(..end).next_back();
            assert!(before.is_none_or(|(_, &end)| end <= at), "{at} overlaps another");
            taken.insert(at, end);
            most = most.max(arena.spans());
        } else {
            let from = (random >> 20) as usize % (1 << 20);
            let at = *taken.range(from..).chain(&taken).next().unwrap().0;
            let end = taken.remove(&at).unwrap();
            arena.give_back(at, end - at);
        }
    }
    assert!(most > 100);
    taken.into_iter().for_each(|(at, end)| arena.give_back(at, end - at));
    let totals = arena.totals();
    assert_eq!((totals.strings, totals.placed), (0, 0));
    arena.trim();
    assert_eq!((arena.spans(), arena.region.committed()), (0, 0));
}

#[test]
fn places_that_were_given_back_last_are_taken_first() {
    let arena = Arena::new(&Heap, 1 << 30).unwrap();
    let places: Vec<usize> = (0..32 * 256).map(|_| arena.allocate(40).unwrap()).collect();
    let last = &places[8000..8100];
    last.iter().for_each(|&at| arena.give_back(at, 33));
    let count = places.len() - last.len();
    let expected = Totals { strings: count, bytes: 40 * count + 7 * 100, placed: 40 * count };
    assert_eq!(arena.totals(), expected);
    let again: Vec<usize> = (0..100).map(|_| arena.allocate(40).unwrap()).collect();
    assert!(again.iter().eq(last.iter().rev()));
    // Of few places none is kept, so that spans become free.
    places.iter().for_each(|&at| arena.give_back(at, 40));
    assert_eq!(arena.spans(), 1);
    // A thread that stores nothing keeps nothing.
    let places: Vec<usize> = (0..32 * 256).map(|_| arena.allocate(40).unwrap()).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| places.iter().for_each(|&at| arena.give_back(at, 40)));
    });
    assert_eq!(arena.spans(), 1);
}

/// A class keeps at most 256 places, 512 KiB, and one for 32 places that are in use.
#[test]
fn a_class_keeps_few_places_beside_those_in_use() {
    let cases = [
        (8, 32 * 20 + 21, 20),
        (40, 32 * 300, 256),
        (1024, 32 * 300, 256),
        (4096, 32 * 140, 128),
        (LARGEST, 68, 2),
    ];
    for (bytes, count, most) in cases {
        let arena = Arena::new(&Heap, 1 << 30).unwrap();
        let mut places: Vec<usize> = (0..count).map(|_| arena.allocate(bytes).unwrap()).collect();
        places.sort_unstable();
        let allocate = |count| (0..count).map(|_| arena.allocate(bytes).unwrap());
        let given = &places[2..=most + 2];
        given[..most].iter().for_each(|&at| arena.give_back(at, bytes));
        assert!(allocate(most).eq(given[..most].iter().rev().copied()), "{bytes} bytes");
        // Half of them are left, and the others went to their spans, of which some became free.
        given.iter().for_each(|&at| arena.give_back(at, bytes));
        let (lower, kept) = given.split_at(most + 1 - most / 2);
        assert!(allocate(kept.len()).eq(kept.iter().rev().copied()), "{bytes} bytes");
        let mut again: Vec<usize> = allocate(lower.len()).collect();
        again.sort_unstable();
        assert_eq!(again, lower, "{bytes} bytes");
        for _ in 0..count * usize::from(most > 1) {
            places[..2].iter().for_each(|&at| arena.give_back(at, bytes));
            assert!(allocate(2).eq(places[..2].iter().rev().copied()), "{bytes} bytes");
        }
    }
}

/// Other threads with spans of their own use what a finished thread has given back.
#[test]
fn what_a_thread_leaves_is_used_by_others() {
    let arena = Arena::new(&Heap, 1 << 30).unwrap();
    let fill = || (0..8 * SPAN / 64).map(|_| arena.allocate(64).unwrap()).collect::<Vec<_>>();
    let _number = Hold::new();
    // One place of each span stays taken, so that no span is free.
    let places = fill();
    let give_back = places.iter().filter(|&at| at % SPAN != 0);
    give_back.for_each(|&at| arena.give_back(at, 64));
    assert_eq!(arena.spans(), 8);
    in_another_shard(fill);
    // Except for one span that is left to the first thread, and the places that are taken.
    assert!(arena.spans() <= 10, "{}", arena.spans());
}

#[test]
fn what_is_too_large_is_refused_and_takes_nothing() {
    let arena = Arena::new(&Heap, 1 << 20).unwrap();
    assert!(arena.allocate(usize::MAX / 2).is_err() && arena.allocate(2 << 20).is_err());
    assert_eq!(arena.spans(), 0);
    assert_eq!(arena.allocate(1 << 20), Ok(0));
    assert!(arena.allocate(0).is_err());
    arena.give_back(0, 1 << 20);
    assert_eq!(arena.allocate(0), Ok(0));
}

#[test]
fn sparse_spans_are_told() {
    let arena = Arena::new(&Heap, 1 << 30).unwrap();
    let places: Vec<usize> = (0..3 * SPAN / 64).map(|_| arena.allocate(64).unwrap()).collect();
    let (keep, give): (Vec<usize>, Vec<usize>) = places.iter().partition(|&at| at / 64 % 8 == 0);
    assert!(!keep.iter().any(|&at| arena.should_move(at)));
    give.into_iter().for_each(|at| arena.give_back(at, 64));
    let (first, others): (Vec<usize>, Vec<usize>) = keep.iter().partition(|&&at| at < SPAN);
    assert!(!first.iter().any(|&at| arena.should_move(at)));
    assert!(others.iter().all(|&at| arena.should_move(at)));
}
