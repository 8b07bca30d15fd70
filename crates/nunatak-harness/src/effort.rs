//! The amount of work of a check.

use std::sync::OnceLock;

/// Returns the environment variable `NUNATAK_EFFORT`: 1 by default, and much less under an interpreter.
///
/// ```
/// assert!(nunatak_harness::effort::effort() > 0.0);
/// ```
pub fn effort() -> f64 {
    static FACTOR: OnceLock<f64> = OnceLock::new();
    *FACTOR.get_or_init(|| {
        let asked = std::env::var("NUNATAK_EFFORT").ok().map(|factor| {
            factor.parse::<f64>().expect("NUNATAK_EFFORT is a number, such as 0.5 or 20")
        });
        asked.unwrap_or(if cfg!(miri) { 0.005 } else { 1.0 })
    })
}

/// Returns `operations`, scaled by the [`effort`].
///
/// ```
/// assert!(nunatak_harness::effort::scaled(1000) >= 1);
/// ```
pub fn scaled(operations: usize) -> usize {
    ((operations as f64 * effort()) as usize).max(1)
}
