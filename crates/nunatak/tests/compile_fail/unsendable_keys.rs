//! A map whose keys can't be sent can't be sent or shared.

use nunatak::DlhtBoxedMap;
use std::rc::Rc;
use std::thread;

fn main() {
    let map: DlhtBoxedMap<Rc<str>, u64> = DlhtBoxedMap::new();
    thread::scope(|scope| {
        scope.spawn(|| map.len());
    });
    thread::spawn(move || map.len());
}
