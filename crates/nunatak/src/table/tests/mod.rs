//! Tests that all tables share, and a table that only tests know.

mod batches;
mod toy;
mod toy_maps;
