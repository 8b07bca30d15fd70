//! Inline maps store what fits a slot and has no destructor.

use nunatak::{DlhtLocalMap, DlhtMap, PeaMap8, PeaMultiMap};
use std::rc::Rc;

fn main() {
    let _ = DlhtMap::<u64, String>::new();
    let _ = DlhtLocalMap::<u64, Rc<u64>>::new();
    let _ = DlhtMap::<u64, &'static u64>::new();
    let _ = PeaMultiMap::<u64, Box<u64>>::new();
    let _ = PeaMap8::<f32, u32>::new();
}
