//! Hidden keys under a model checker: every interleaving, up to a number of preemptions, of a
//! few operations on a table of two bins. One model for each property.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p nunatak --test loom_shadows
//! ```
//!
//! With `--cfg nunatak_seeded_bugs` as well, each step that hiding rests on is left out in
//! turn, and a model must find it.
#![cfg(loom)]

mod models;

use models::{Model, check, spawn};
use nunatak::{DlhtMap, DlhtShadowMap, Error, Modulo};
use std::sync::Arc;

type Map = DlhtShadowMap<u64, u64, Modulo>;

/// Two bins; even keys share one, and those of `hidden` are hidden.
fn map(hidden: &[u64]) -> Arc<Map> {
    let builder = DlhtMap::<u64, u64>::builder().hasher(Modulo).initial_bins(2);
    let map: Map = builder.growth_factor(2).transfer_chunk(1).build_shadow().unwrap();
    for &key in hidden {
        map.shadow_insert(key).unwrap().keep();
    }
    Arc::new(map)
}

fn one_of_two_hides_a_key() {
    check(2, || {
        let map = map(&[]);
        let hide = |map: &Map| map.shadow_insert(2).map(nunatak::Shadow::keep);
        let other = spawn(&map, hide);
        let mine = hide(&map);
        let theirs = other.join().unwrap();
        assert!(mine.is_ok() != theirs.is_ok(), "{mine:?} and {theirs:?}");
        assert_eq!(map.abort_shadow(&2), Ok(()));
        assert_eq!(map.abort_shadow(&2), Err(Error::NotShadowed), "it was hidden twice");
    });
}

fn hiding_and_inserting_exclude_each_other() {
    check(2, || {
        let map = map(&[]);
        let other = spawn(&map, |map| map.try_insert(2, 7));
        let hidden = map.shadow_insert(2).map(nunatak::Shadow::keep);
        match (hidden, other.join().unwrap()) {
            (Ok(2), Err(Error::Shadowed)) => assert_eq!(map.commit_shadow(&2, 20), Ok(())),
            (Err(Error::Present), Ok(Ok(()))) => {}
            other => panic!("impossible: {other:?}"),
        }
        assert!(map.remove(&2).is_some());
        assert_eq!((map.remove(&2), map.len()), (None, 0), "the key was there twice");
    });
}

fn a_commit_is_whole() {
    check(3, || {
        let map = map(&[2]);
        let other = spawn(&map, |map| map.commit_shadow(&2, 20));
        assert!(matches!(map.get(&2), None | Some(20)));
        assert_eq!(other.join().unwrap(), Ok(()));
        assert_eq!(map.get(&2), Some(20));
    });
}

fn an_insert_beside_a_commit_finds_it() {
    check(3, || {
        let map = map(&[2]);
        let other = spawn(&map, |map| map.commit_shadow(&2, 20));
        let inserted = map.try_insert(2, 7);
        assert!(matches!(inserted, Err(Error::Shadowed) | Ok(Err(20))), "{inserted:?}");
        other.join().unwrap().unwrap();
        assert_eq!((map.remove(&2), map.remove(&2)), (Some(20), None));
    });
}

fn an_insert_beside_an_abort_is_made_or_refused() {
    check(2, || {
        let map = map(&[2]);
        let other = spawn(&map, |map| map.abort_shadow(&2));
        let inserted = map.try_insert(2, 7);
        other.join().unwrap().unwrap();
        match inserted {
            Ok(Ok(())) => assert_eq!((map.remove(&2), map.remove(&2)), (Some(7), None)),
            Err(Error::Shadowed) => assert_eq!((map.get(&2), map.len()), (None, 0)),
            other => panic!("impossible: {other:?}"),
        }
    });
}

fn a_hidden_key_is_hidden_throughout_a_transfer() {
    check(2, || {
        let map = map(&[2]);
        let grower = spawn(&map, |map| map.reserve(4).unwrap());
        assert_eq!((map.get(&2), map.remove(&2)), (None, None));
        assert_eq!(map.try_insert(2, 7), Err(Error::Shadowed));
        grower.join().unwrap();
        assert_eq!(map.commit_shadow(&2, 20), Ok(()));
        assert_eq!((map.get(&2), map.len()), (Some(20), 1));
    });
}

fn a_commit_meets_a_transfer() {
    check(2, || {
        let map = map(&[2]);
        let grower = spawn(&map, |map| map.reserve(4).unwrap());
        assert_eq!(map.commit_shadow(&2, 20), Ok(()));
        assert_eq!(map.get(&2), Some(20));
        grower.join().unwrap();
        assert_eq!((map.get(&2), map.len()), (Some(20), 1));
    });
}

/// An update that has read the pair before must neither change a hidden key nor be lost.
fn a_put_meets_no_hidden_key() {
    check(2, || {
        let map = map(&[]);
        map.insert(2, 1).unwrap();
        let other = spawn(&map, |map| {
            let removed = map.remove(&2);
            map.shadow_insert(2).unwrap().commit(1);
            removed
        });
        let replaced = map.update(&2, 7);
        let removed = other.join().unwrap();
        match (replaced, removed) {
            (Some(1), Some(7)) => assert_eq!(map.get(&2), Some(1), "before the removal"),
            (Some(1), Some(1)) => assert_eq!(map.get(&2), Some(7), "after the commit"),
            (None, Some(1)) => assert_eq!(map.get(&2), Some(1), "between"),
            other => panic!("impossible: {other:?}"),
        }
    });
}

const MODELS: &[Model] = &[
    ("one of two hides a key", one_of_two_hides_a_key),
    ("hiding and inserting exclude each other", hiding_and_inserting_exclude_each_other),
    ("a commit is whole", a_commit_is_whole),
    ("an insert beside a commit finds it", an_insert_beside_a_commit_finds_it),
    ("an insert beside an abort is made or refused", an_insert_beside_an_abort_is_made_or_refused),
    ("a hidden key is hidden throughout a transfer", a_hidden_key_is_hidden_throughout_a_transfer),
    ("a commit meets a transfer", a_commit_meets_a_transfer),
    ("a put meets no hidden key", a_put_meets_no_hidden_key),
];

#[test]
fn every_property_holds() {
    models::every_property_holds(MODELS);
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn every_seeded_bug_is_found() {
    use nunatak::seeded::Bug;
    let bugs = [
        (Bug::HiddenIgnored, "one of two hides a key"),
        (Bug::HiddenWithoutRecheck, "an insert beside a commit finds it"),
        (Bug::HiddenNotMoved, "a hidden key is hidden throughout a transfer"),
        (Bug::ShownBeforeValue, "a commit is whole"),
    ];
    models::every_seeded_bug_is_found(&bugs, MODELS);
}
