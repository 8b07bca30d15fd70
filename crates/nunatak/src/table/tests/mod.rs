//! Tests that all tables share, and a table for tests only.

mod batches;
mod parts;
mod toy;
mod toy_maps;
