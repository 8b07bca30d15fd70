//! Two [`BoxedSet`]s.

use crate::map::boxed::set::BoxedSet;
use crate::map::set_algebra::{Filtered, set_algebra};
use crate::table::Design;
use core::hash::{BuildHasher, Hash};

/// Operations on two sets, which yield copies. Each is weakly consistent: its answer about a key
/// was true at some moment during the iteration. Keys are looked up in batches, whose memory
/// latencies overlap.
impl<K: Hash + Eq + Clone, S: BuildHasher, D: Design> BoxedSet<K, S, D> {
    set_algebra! { "DlhtBoxedSet", "TurboBoxedSet", [T: BuildHasher, E: Design], BoxedSet<K, T, E> }
}
