//! The amount of work of a check.

use std::sync::OnceLock;

/// Returns `operations`, scaled by the environment variable `NUNATAK_EFFORT` (1 by default), and by
/// much less under an interpreter.
///
/// ```
/// assert!(nunatak_harness::effort::scaled(1000) >= 1);
/// ```
pub fn scaled(operations: usize) -> usize {
    static FACTOR: OnceLock<f64> = OnceLock::new();
    let factor = *FACTOR.get_or_init(|| {
        let asked = std::env::var("NUNATAK_EFFORT").ok().map(|factor| {
            factor.parse::<f64>().expect("NUNATAK_EFFORT is a number, such as 0.5 or 20")
        });
        asked.unwrap_or(if cfg!(miri) { 0.005 } else { 1.0 })
    });
    ((operations as f64 * factor) as usize).max(1)
}
