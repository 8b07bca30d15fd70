//! Tests that all tables share, and a table for tests only.

mod batches;
mod toy;
mod toy_maps;
