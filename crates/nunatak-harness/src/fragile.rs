//! Keys and values whose clones and comparisons panic.

use crate::failures::{Fuse, catch};
use crate::subject::Subject;
use nunatak::ConcurrentMap;
use std::hash::{Hash, Hasher};

/// A number whose `Clone` and `Eq` call a fuse.
#[derive(Debug)]
pub struct Fragile {
    number: u64,
    fuse: Fuse,
}

impl Clone for Fragile {
    fn clone(&self) -> Self {
        self.fuse.call();
        Self { number: self.number, fuse: self.fuse.clone() }
    }
}

impl PartialEq for Fragile {
    fn eq(&self, other: &Self) -> bool {
        self.fuse.call();
        self.number == other.number
    }
}

impl Eq for Fragile {}

impl Hash for Fragile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fuse.call();
        state.write_u64(self.number);
    }
}

/// A key or a value panics when it is cloned, compared or hashed, at any call. Every entry stays
/// where it was, and the map stays usable.
///
/// # Panics
/// If the map fails the check.
pub fn panics_are_harmless<S: Subject<Fragile, Fragile>>(subject: &S) {
    let calls = if cfg!(miri) { 8 } else { 150 };
    for at in 0..calls {
        let fuse = Fuse::default();
        let make = |number| Fragile { number, fuse: fuse.clone() };
        let map = subject.adversarial();
        (0..20).for_each(|key| drop(map.insert(make(key), make(key))));
        fuse.arm(at);
        let mut reached = 20;
        // The values that a key may have: its own, and the one that the panicked operation would
        // have stored.
        while reached < 200 {
            let step = catch(|| {
                drop(map.insert(make(reached), make(reached)));
                drop(map.update(&make(reached - 20), make(reached - 20)));
                drop(map.get(&make(reached - 10)));
                drop(map.remove_if(&make(reached - 15), |_| false));
                drop(map.compare_exchange(&make(reached - 5), &make(0), make(1)));
            });
            reached += 1;
            if step.is_none() {
                break;
            }
        }
        fuse.disarm();
        for key in 0..reached - 1 {
            let value = map.get(&make(key)).map(|value| value.number);
            assert_eq!(value, Some(key), "key {key} after a panic at call {at}");
        }
        let last = usize::from(map.contains_key(&make(reached - 1)));
        assert_eq!(map.len(), reached as usize - 1 + last, "after a panic at call {at}");
        (1000..1200).for_each(|key| drop(map.insert(make(key), make(key))));
        assert_eq!(map.iter().count(), map.len());
        map.clear();
        assert_eq!((map.len(), map.iter().count()), (0, 0));
    }
}
