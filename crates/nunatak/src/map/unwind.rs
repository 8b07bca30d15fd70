//! Maps may be used after a panic was caught: a panic of the caller's code leaves them usable, as
//! [`ConcurrentMap`](crate::ConcurrentMap) promises. The compiler can't see that through locks and
//! pointers.

use crate::entry::{Entries, InlineKey, Wide};
use crate::hash::Hashing;
use crate::map::blob_multi::PeaBlobMultiMap;
use crate::map::boxed::BoxedMap;
use crate::map::bytes::ByteMap;
use crate::map::inline::InlineMap;
use crate::map::multi::PeaMultiMap;
use crate::map::wide::WideMap;
use crate::table::wide::WideDesign;
use crate::table::{Design, HashesWith};
use core::hash::BuildHasher;
use core::panic::{RefUnwindSafe, UnwindSafe};

macro_rules! is_unwind_safe {
    ($($map:ty where [$($bounds:tt)*];)*) => {$(
        impl<$($bounds)*> UnwindSafe for $map {}
        impl<$($bounds)*> RefUnwindSafe for $map {}
    )*};
}

is_unwind_safe! {
    InlineMap<K, V, S, D> where [K, V, S: Hashing, D: HashesWith<S>];
    // Threads that catch a panic share keys, values and the hasher through references.
    BoxedMap<K, V, S, D> where [K: RefUnwindSafe, V: RefUnwindSafe, S: RefUnwindSafe, D: Design];
    ByteMap<E, D> where [E: Entries, D: Design];
    WideMap<K, V, D> where [K: Wide, V: Wide, D: WideDesign];
    PeaMultiMap<K, V, S> where [K: InlineKey, V, S: Hashing];
    PeaBlobMultiMap<V, S> where [V, S: BuildHasher + Send + Sync + RefUnwindSafe + 'static];
}
