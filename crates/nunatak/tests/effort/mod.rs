//! How much a test tries.

/// Returns the value of `NUNATAK_EFFORT`, which multiplies the work of tests; 1 where it is not set.
pub(crate) fn effort() -> f64 {
    std::env::var("NUNATAK_EFFORT").map_or(1.0, |effort| {
        effort.parse().expect("NUNATAK_EFFORT is a number, such as 0.5 or 20")
    })
}

/// Returns how many are tried where all effort tries `most`: a quarter of them at least, and not more.
#[allow(dead_code, reason = "some tests try all")]
pub(crate) fn some_of(most: usize) -> usize {
    (most as f64 * effort().clamp(0.25, 1.0)).ceil() as usize
}
