//! Two [`InlineSet`]s.

use crate::entry::InlineKey;
use crate::hash::Hashing;
use crate::map::inline::set::InlineSet;
use crate::map::set_algebra::{Filtered, set_algebra};
use crate::table::{HashesWith, Unshadowed};

/// Operations on two sets. Each is weakly consistent: its answer about a key was true at some
/// moment during the iteration. Keys are looked up in batches, whose memory latencies overlap.
/// (Semi-joins are intersections, anti-joins are differences: DLHT, section 3.1.)
impl<K: InlineKey, S: Hashing, D: HashesWith<S> + Unshadowed> InlineSet<K, S, D> {
    set_algebra! { "DlhtSet", "TurboSet", [T: Hashing, E: HashesWith<T> + Unshadowed], InlineSet<K, T, E> }
}
