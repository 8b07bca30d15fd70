//! Entries that were taken out can't be sent if their keys or values can't.

use nunatak::mode::SingleThread;
use nunatak::{BoxedMap, Dlht, RandomState};
use std::rc::Rc;

fn is_send<T: Send>(_: T) {}

fn main() {
    let map: BoxedMap<u64, Rc<u64>, RandomState, Dlht<SingleThread>> = BoxedMap::new();
    is_send(map.remove_entry(&1));
    is_send(map.put(1, Rc::new(1)));
}
