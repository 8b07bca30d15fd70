//! Whether threads share a map.

use crate::sync;

/// [`Shared`] or [`SingleThread`].
///
/// ```
/// use nunatak::{Dlht, InlineMap, RandomState, mode::Mode};
/// fn fill<M: Mode>(map: &InlineMap<u64, u64, RandomState, Dlht<M>>) {
///     map.insert(1, 2);
/// }
/// fill(&nunatak::DlhtLocalMap::new());
/// ```
#[allow(private_bounds, reason = "sealed")]
pub trait Mode: sync::Mode {}

impl<M: sync::Mode> Mode for M {}

pub use sync::{Shared, SingleThread};
