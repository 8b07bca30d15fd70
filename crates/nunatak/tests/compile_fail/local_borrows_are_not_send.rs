//! What borrows a map of one thread stays on it: iterators, and entries that were taken out.

use nunatak::mode::SingleThread;
use nunatak::{BoxedMap, Dlht, DlhtLocalMap, RandomState};

fn is_send<T: Send>(_: T) {}

fn main() {
    let map: DlhtLocalMap<u64, u64> = DlhtLocalMap::new();
    is_send(&map);
    is_send(map.iter());
    let boxed: BoxedMap<u64, u64, RandomState, Dlht<SingleThread>> = BoxedMap::new();
    is_send(boxed.pin());
    is_send(boxed.remove_entry(&1));
}
