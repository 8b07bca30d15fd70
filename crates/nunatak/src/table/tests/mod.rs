//! Tests that all tables share.

mod batches;
