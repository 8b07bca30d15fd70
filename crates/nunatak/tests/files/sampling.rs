//! How many of many cases are tried.

use crate::effort::effort;

/// Returns one in how many cases is tried where all effort tries one in `every`. Little effort tries a
/// quarter as many at least.
pub(crate) fn one_in(every: usize) -> usize {
    (every as f64 / effort().clamp(0.25, every as f64)).round() as usize
}
