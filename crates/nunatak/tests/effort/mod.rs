//! How much a test tries.

/// Returns the value of `NUNATAK_EFFORT`, which multiplies the work of tests; 1 where it is not set.
pub(crate) fn effort() -> f64 {
    std::env::var("NUNATAK_EFFORT").map_or(1.0, |effort| {
        effort.parse().expect("NUNATAK_EFFORT is a number, such as 0.5 or 20")
    })
}
