//! The maps of each design, and their builders.

pub(super) mod dlht;
pub(super) mod iceberg;
pub(super) mod pea;
pub(super) mod turbo;
