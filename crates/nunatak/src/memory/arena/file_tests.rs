//! What an arena of a file promises besides: places wait for syncs, and a damaged file names no
//! place that there isn't.

use super::classes::{CLASSES, LARGEST, SPAN, size_of_class};
use super::spans::{Owner, Totals};
use super::tests::in_another_shard;
use super::{Arena, Places, SHARDS};
use crate::memory::{Epochs, Region};
use crate::sync::Ordering::Relaxed;
use crate::sync::thread_index::Hold;

/// Returns an arena in epoch 1, and its medium.
fn arena() -> (Arena<Epochs>, Epochs) {
    let medium = Epochs::default();
    medium.present.store(1, Relaxed);
    (Arena::new(&medium, 1 << 30).unwrap(), medium)
}

/// Lengths of strings that share spans, with several words of places or few, and of others.
const LENGTHS: [usize; 5] = [8, 100, LARGEST, LARGEST + 1, 3 * SPAN];

#[test]
fn a_place_of_this_epoch_is_reused_at_once() {
    for bytes in LENGTHS {
        let (arena, _) = arena();
        let places: Vec<usize> =
            (0..SPAN / 8 + 200).map_while(|_| arena.allocate(bytes).ok()).collect();
        for &at in [2, 70, places.len() - 1].map(|n| &places[n]) {
            arena.give_back(at, bytes);
            assert_eq!(arena.waiting(), 0, "{bytes} bytes at {at} need not wait");
            assert!(!arena.has(at, bytes));
            assert_eq!(arena.allocate(bytes), Ok(at));
        }
    }
}

#[test]
fn a_place_of_an_earlier_epoch_waits_for_the_sync() {
    for bytes in LENGTHS {
        let (arena, medium) = arena();
        let places: Vec<usize> = (0..600).map(|_| arena.allocate(bytes).unwrap()).collect();
        arena.give_back(places[0], bytes);
        medium.present.store(2, Relaxed);
        medium.settled.store(1, Relaxed);
        // In this epoch another place is given out: of the same span, if spans are shared.
        assert_eq!(arena.allocate(bytes), Ok(places[0]));
        let at = places[70];
        arena.give_back(at, bytes);
        assert_eq!(arena.waiting(), Arena::<Epochs>::placed(bytes));
        assert_ne!(arena.allocate(bytes), Ok(at), "a power cut may bring the entry back");
        arena.reuse_synced();
        assert!(arena.waiting() > 0 && arena.has(at, bytes));
        medium.settled.store(2, Relaxed);
        arena.reuse_synced();
        assert_eq!((arena.waiting(), arena.has(at, bytes)), (0, false));
        assert_eq!(arena.allocate(bytes), Ok(at));
    }
}

#[test]
fn places_that_this_epoch_took_back_last_are_taken_first() {
    let (arena, medium) = arena();
    let places: Vec<usize> = (0..SPAN / 8).map(|_| arena.allocate(8).unwrap()).collect();
    let given = [places[5], places[900], places[70]];
    given.iter().for_each(|&at| arena.give_back(at, 8));
    assert!(given.iter().rev().all(|&at| arena.allocate(8) == Ok(at)));
    // What is kept stays so when the epoch ends, and also when the next one gives out others of the span.
    given.iter().for_each(|&at| arena.give_back(at, 8));
    medium.present.store(2, Relaxed);
    assert!(given.iter().rev().all(|&at| arena.allocate(8) == Ok(at)));
    // These are of this epoch now, and their neighbours are not.
    given.iter().for_each(|&at| arena.give_back(at, 8));
    assert_eq!(arena.waiting(), 0);
    arena.give_back(places[6], 8);
    assert_eq!(arena.waiting(), 8);
    // A damaged file may name a kept place once more.
    arena.give_back(given[2], 8);
    medium.settled.store(2, Relaxed);
    arena.reuse_synced();
    assert!(given.iter().rev().chain([&places[6]]).all(|&at| arena.allocate(8) == Ok(at)));
    assert!(arena.allocate(8).unwrap() >= SPAN, "no place is given out twice");
}

#[test]
fn a_name_of_the_middle_of_a_place_moves_nothing() {
    let (arena, _) = arena();
    let places: Vec<usize> = (0..SPAN / 64).map(|_| arena.allocate(64).unwrap()).collect();
    // A damaged file may name it so.
    arena.give_back(places[7] + 24, 64);
    assert_eq!(arena.allocate(64), Ok(places[7]));
}

/// Of few places that are in use none is kept, and those of an earlier process count.
#[test]
fn known_places_count_for_what_is_kept() {
    let (before, _) = arena();
    assert!((0..SPAN / 8 - 20).all(|_| before.allocate(8).is_ok()));
    let order = |arena: &Arena<Epochs>| {
        let places: Vec<usize> = (0..3).map(|_| arena.allocate(8).unwrap()).collect();
        places.iter().for_each(|&at| arena.give_back(at, 8));
        (0..3).map(|_| arena.allocate(8).unwrap() - places[0]).collect::<Vec<_>>()
    };
    let (again, _) = arena();
    assert_eq!(order(&again), [0, 8, 16], "the lowest first");
    let (again, _) = arena();
    again.region.resize(SPAN).unwrap();
    assert!(again.learn(&before.to_words().unwrap(), before.totals()));
    assert_eq!(order(&again), [16, 8, 0], "the last first");
}

/// As many places as are kept hold no span back.
#[test]
fn kept_places_are_given_up() {
    let (arena, _) = arena();
    let places: Vec<usize> = (0..3 * SPAN / 8).map(|_| arena.allocate(8).unwrap()).collect();
    places.iter().for_each(|&at| arena.give_back(at, 8));
    assert!(arena.spans() > 0);
    arena.trim();
    assert_eq!((arena.spans(), arena.totals()), (0, Totals::default()));
}

/// The thread that gets the span gets them, and only it.
#[test]
fn kept_places_move_with_their_span() {
    let _number = Hold::new();
    let (arena, _) = arena();
    let count = SPAN / 64;
    let mut places: Vec<usize> = (0..3 * count).map(|_| arena.allocate(64).unwrap()).collect();
    places.sort_unstable();
    let given = [&places[..200], &places[count..count + 200]];
    // More than are kept, so that both spans have free places; the last ones are kept.
    given.iter().for_each(|given| given.iter().for_each(|&at| arena.give_back(at, 64)));
    let take = || {
        let mut taken: Vec<usize> = (0..200).map(|_| arena.allocate(64).unwrap()).collect();
        taken.sort_unstable();
        taken
    };
    assert_eq!(in_another_shard(take), given[1]);
    assert_eq!(take(), given[0]);
}

#[test]
fn what_waits_for_a_sync_is_told() {
    let medium = Epochs::default();
    medium.present.store(1, Relaxed);
    let places = Places::new(&medium).unwrap();
    let word = places.allocate(100).unwrap();
    medium.present.store(2, Relaxed);
    assert_eq!(places.waiting(), 0);
    places.give_back(word, 100);
    assert_eq!(places.waiting(), 104);
}

#[test]
fn only_places_that_this_epoch_gave_out_are_fresh() {
    let (arena, medium) = arena();
    let before: Vec<usize> = (0..10).map(|_| arena.allocate(8).unwrap()).collect();
    medium.present.store(2, Relaxed);
    let fresh = arena.allocate(8).unwrap();
    arena.give_back(fresh, 8);
    assert_eq!((arena.waiting(), arena.allocate(8)), (0, Ok(fresh)));
    arena.give_back(before[0], 8);
    assert_eq!(arena.waiting(), 8);
}

#[test]
fn places_are_free_when_the_search_is_durable() {
    let (arena, medium) = arena();
    arena.region.resize(SPAN).unwrap();
    arena.begin_search().unwrap();
    assert!(arena.mark(0, 8) && !arena.waits_for_sync());
    arena.end_search();
    assert!(arena.waits_for_sync() && arena.is_searched());
    assert!(arena.allocate(8).unwrap() >= SPAN);
    medium.settled.store(1, Relaxed);
    assert!(!arena.waits_for_sync());
    arena.reuse_synced();
    assert!(!arena.is_searched() && !arena.waits_for_sync());
}

/// The search gives back all spans before its end that have no owner then.
#[test]
fn a_place_that_is_given_back_during_the_search_is_free_once() {
    let (arena, medium) = arena();
    arena.region.resize(4 * SPAN).unwrap();
    arena.begin_search().unwrap();
    assert!(arena.mark(SPAN, SPAN));
    medium.settled.store(1, Relaxed);
    arena.give_back(SPAN, SPAN);
    arena.reuse_synced();
    assert_eq!((arena.waiting(), arena.spans()), (0, 4));
    arena.end_search();
    assert_eq!(arena.spans(), 0);
    assert!((0..6).all(|span| arena.allocate(SPAN) == Ok(span * SPAN)));
}

#[test]
fn a_search_finds_no_place_behind_its_end_or_of_two_classes() {
    let (arena, _) = arena();
    arena.region.resize(3 * SPAN).unwrap();
    arena.begin_search().unwrap();
    assert!(arena.mark(2 * SPAN + 8, 8) && !arena.mark(3 * SPAN, 8));
    // Another class, a place with spans of its own, and one that would end behind the others.
    assert!(!arena.mark(2 * SPAN + 16, 16) && !arena.mark(2 * SPAN, SPAN));
    assert!(!arena.mark(SPAN, 2 * SPAN) && !arena.mark(SPAN + 8, SPAN) && arena.mark(SPAN, SPAN));
}

/// A file consists of 512 extents at most.
#[test]
fn growth_takes_few_extents_and_an_eighth_more_at_most() {
    let (arena, _) = arena();
    let (mut extents, mut committed) = (0, 0);
    for span in 0..4000 {
        assert_eq!(arena.allocate(SPAN), Ok(span * SPAN));
        let before = core::mem::replace(&mut committed, arena.region.committed());
        extents += usize::from(committed > before);
        assert!(committed <= (span + 1) * SPAN * 9 / 8 + SPAN, "{committed} for {span} spans");
    }
    assert!(extents < 80, "{extents}");
}

#[test]
fn growth_during_a_search_takes_few_extents() {
    let (arena, _) = arena();
    arena.region.resize(SPAN).unwrap();
    arena.begin_search().unwrap();
    let (mut extents, mut committed) = (0, arena.region.committed());
    for span in 1..4000 {
        assert_eq!(arena.allocate(SPAN), Ok(span * SPAN));
        let before = core::mem::replace(&mut committed, arena.region.committed());
        extents += usize::from(committed > before);
    }
    assert!(extents < 120, "{extents}");
    assert!(committed < 4000 * SPAN * 17 / 16 + SPAN);
}

#[test]
fn names_of_no_place_are_known() {
    let (arena, _) = arena();
    // Places of 24 bytes do not fill a span.
    let at = arena.allocate(24).unwrap();
    assert!(arena.has(at, 24) && !arena.has(at + 24, 24) && !arena.has(at, 25));
    assert!(!arena.has(SPAN / 24 * 24, 24), "the place would not end in its span");
    let large = arena.allocate(LARGEST + 1).unwrap();
    assert!(arena.has(large, SPAN) && !arena.has(large + 8, SPAN) && !arena.has(large, SPAN + 1));
    let end = arena.region.committed();
    assert!(arena.holds(end - 8, 8) && !arena.holds(end - 8, 9) && !arena.holds(8, usize::MAX));
}

/// Entries of a damaged file may name places that are free, or that there are not.
#[test]
fn what_is_no_taken_place_is_not_given_back() {
    let (arena, medium) = arena();
    medium.settled.store(9, Relaxed);
    // Places of 24 bytes do not fill a span.
    let count = SPAN / 24;
    let first = arena.allocate(24).unwrap();
    let next = arena.allocate(24).unwrap();
    medium.present.store(2, Relaxed);
    for at in [next, next, next + 24, first + 24 * count] {
        arena.give_back(at, 24);
    }
    arena.reuse_synced();
    assert!(arena.has(first, 24) && !arena.has(next, 24));
    let places: Vec<usize> = (1..count).map(|_| arena.allocate(24).unwrap()).collect();
    assert!(places.iter().copied().eq((1..count).map(|place| first + 24 * place)));
    assert!(arena.allocate(24).unwrap() >= SPAN);
}

#[test]
fn words_about_no_class_teach_nothing() {
    let (arena, _) = arena();
    arena.region.resize(SPAN).unwrap();
    let learns = |shard, class, places: usize| {
        let mut words = vec![1, Owner::Class { shard, class, index: 0 }.word()];
        words.resize(2 + places.div_ceil(64), 0);
        arena.learn(&words, Totals::default())
    };
    // One word of places is right for the largest class, and for those that would follow.
    assert!(!learns(0, CLASSES, 1) && !learns(SHARDS, CLASSES - 1, 1));
    assert!(!learns(0, CLASSES - 1, 65) && !learns(0, 0, 64));
    assert!(learns(SHARDS - 1, CLASSES - 1, SPAN / size_of_class(CLASSES - 1)));
}

#[test]
fn strings_far_behind_the_others_should_move() {
    let (arena, _) = arena();
    let places: Vec<usize> = (0..10 * SPAN / 64).map(|_| arena.allocate(64).unwrap()).collect();
    // The first span and the last one stay full.
    let between = SPAN / 64..9 * SPAN / 64;
    places[between].iter().for_each(|&at| arena.give_back(at, 64));
    arena.trim();
    assert_eq!(arena.spans(), 2);
    assert!(arena.should_move(places[9 * SPAN / 64]) && !arena.should_move(places[0]));
    assert!(arena.take_lower(64).unwrap() < arena.far() * SPAN);
}
