//! Maps of one thread can't be shared, whatever they store.

use nunatak::alloc::Global;
use nunatak::entry::Format;
use nunatak::mode::SingleThread;
use nunatak::{BoxedMap, Dlht, DlhtLocalMap, InlineSet, Modulo, RandomState, RecordMap};

fn is_sync<T: Sync>() {}

fn main() {
    is_sync::<DlhtLocalMap<u64, u64>>();
    is_sync::<BoxedMap<u64, u64, RandomState, Dlht<SingleThread>>>();
    is_sync::<RecordMap<Format, Global, RandomState, Dlht<SingleThread>>>();
    is_sync::<InlineSet<u64, Modulo, Dlht<SingleThread>>>();
}
