//! A thread can't use another one's map of one thread.

use nunatak::DlhtLocalMap;
use std::thread;

fn main() {
    let map: DlhtLocalMap<u64, u64> = DlhtLocalMap::new();
    thread::scope(|scope| {
        scope.spawn(|| map.insert(1, 2));
    });
}
