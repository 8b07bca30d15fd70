//! Tests of the interface of Nunatak's maps, each of which runs for a moment on many kinds of maps. They take longer
//! to compile than to run, so this package is built without optimisation: in a quarter of the time.
//!
//! Nothing is here. The tests are in `tests`. Tests that do much are in `nunatak`.
