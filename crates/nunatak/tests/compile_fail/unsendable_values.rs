//! A map whose values can't be sent can't be sent or shared; one whose values can't be shared
//! can't be shared.

use nunatak::{DlhtBoxedMap, IcebergBoxedMap, PeaBoxedMap, TurboBoxedMap};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::MutexGuard;

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}

fn main() {
    is_send::<DlhtBoxedMap<u64, Rc<u64>>>();
    is_sync::<DlhtBoxedMap<u64, Rc<u64>>>();
    is_sync::<IcebergBoxedMap<u64, Cell<u64>>>();
    is_sync::<PeaBoxedMap<u64, MutexGuard<'static, u64>>>();
    is_sync::<TurboBoxedMap<u64, *const u64>>();
}
