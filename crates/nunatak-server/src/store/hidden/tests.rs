use super::*;
use crate::config::Durability;
use crate::store::draft::Draft;
use crate::store::record::{Kind, push_item};
use std::path::Path;

fn open(path: &Path, durability: Durability) -> Store {
    Store::new(vec![Space::in_file(path, durability).unwrap()], 1).unwrap()
}

fn large(members: u32) -> Finished {
    let mut payload = Vec::new();
    (0..members).for_each(|at| push_item(&mut payload, &at.to_le_bytes()));
    Draft::of_payload((Kind::Set, None), &payload, true).finish().unwrap()
}

/// Returns how many segments the map has.
fn segments(store: &Store) -> usize {
    let mut count = 0;
    for_each(store.space(0), |key, record| {
        count += usize::from(Record::is_hidden(record) && key != MARK_KEY);
    });
    count
}

#[test]
fn a_file_gets_its_mark_before_segments() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("data.map"), Durability::Process);
    let want = |store: &Store| {
        let mut draft = Draft::new(Kind::Set, None, store.admits_segments(0));
        (0..200_u32).for_each(|at| assert!(draft.set(&mut |_| Vec::new(), &at.to_le_bytes(), &[])));
        store.note_segments(0, &draft.finish().unwrap());
    };
    store.make_marks();
    assert!(!store.admits_segments(0) && store.space(0).len() == 0, "nobody wants it");
    want(&store);
    store.make_marks();
    assert!(store.admits_segments(0) && store.space(0).len() == 1 && store.keys(0) == 0);
    store.make_marks();
    assert_eq!(store.space(0).len(), 1);
    // A key of a client's stays.
    let other = open(&folder.path().join("other.map"), Durability::Process);
    other.space(0).put(MARK_KEY, b"\0mine").unwrap();
    want(&other);
    other.make_marks();
    assert!(!other.admits_segments(0) && other.keys(0) == 1);
    assert!(other.space(0).get(MARK_KEY, |record| record == Some(b"\0mine")));
}

#[test]
fn a_closed_file_knows_its_segments_and_a_killed_one_counts_them() {
    for durability in [Durability::Process, Durability::Everysec, Durability::Always] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.map");
        let store = open(&path, durability);
        store.hidden[0].is_wanted.store(true, Ordering::Relaxed);
        store.make_marks();
        store.put_value(0, b"set", &large(3000), None).unwrap();
        assert_eq!((store.keys(0), store.hidden[0].keys()), (1, segments(&store) + 1));
        let count = store.hidden[0].keys();
        // A wrong number shows that it is taken as it is.
        store.hidden[0].add(7);
        store.close().unwrap();
        let store = open(&path, durability);
        assert_eq!(store.hidden[0].keys(), count + 7, "{durability:?}");
        // A copy that is made meanwhile has its own number.
        store.put_value(0, b"more", &large(300), None).unwrap();
        let copy = folder.path().join("backup.map");
        store.space(0).backup(&copy).unwrap();
        let copied = open(&copy, Durability::Process);
        assert_eq!((copied.keys(0), copied.hidden[0].keys()), (2, segments(&copied) + 1));
        assert!(store.delete(0, b"more").unwrap());
        // What is left by a crash: segments that nobody names, and the mark of the last closing.
        let left = large(500);
        store.put_segments(0, &left).unwrap();
        let copy = folder.path().join("copy.map");
        store.sync().unwrap();
        std::fs::copy(&path, &copy).unwrap();
        let copied = open(&copy, Durability::Process);
        assert_eq!((copied.hidden[0].keys(), segments(&copied)), (count, count - 1));
        assert_eq!(copied.keys(0), 1);
        // A value that goes takes its segments along.
        assert!(copied.delete(0, b"set").unwrap());
        assert_eq!((copied.hidden[0].keys(), segments(&copied), copied.keys(0)), (1, 0, 0));
        copied.close().unwrap();
        let copied = open(&copy, Durability::Process);
        assert_eq!((copied.hidden[0].keys(), copied.may_have_segments(0)), (1, true));
        copied.clear(0).unwrap();
        assert!(!copied.may_have_segments(0) && copied.keys(0) == 0);
    }
}

#[test]
fn a_replaced_value_leaves_no_segments() {
    let store = Store::new(vec![Space::in_ram()], 1).unwrap();
    assert!(store.admits_segments(0) && !store.may_have_segments(0));
    for (members, count) in [(3000, 500), (200, 34), (5, 0), (1000, 167)] {
        let root = store.root(0, b"set").unwrap();
        store.put_value(0, b"set", &large(members), root).unwrap();
        assert_eq!((segments(&store), store.hidden[0].keys(), store.keys(0)), (count, count, 1));
    }
    let key = store.root(0, b"set").unwrap().unwrap().key(3);
    assert_eq!((store.root(0, &key), store.delete(0, &key)), (Err(Hides), Ok(false)));
    let taken = |key: &[u8]| store.remove_if(0, key, |_| true).unwrap();
    assert!(!taken(&key) && taken(b"set") && !taken(b"set"));
    assert_eq!((segments(&store), store.space(0).len()), (0, 0));
}

#[test]
fn keys_are_counted_while_segments_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("data.map"), Durability::Process);
    store.hidden[0].is_wanted.store(true, Ordering::Relaxed);
    store.make_marks();
    store.space(0).put(b"small", &large(3).record.unwrap()).unwrap();
    let value = large(4000);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..40 {
                let stripe = Stripes::of(store.stripes.hash(0, b"large"));
                store.stripes.lock(stripe, false);
                store.put_value(0, b"large", &value, None).unwrap();
                assert!(store.delete(0, b"large").unwrap());
                store.stripes.unlock(stripe, false);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut counts = [0_u32; 3];
        while !is_over.load(Ordering::Relaxed) {
            counts[store.keys(0)] += 1;
        }
        assert!(counts[0] == 0 && counts[1] + counts[2] > 0, "{counts:?}");
    });
}
