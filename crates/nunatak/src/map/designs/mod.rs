//! The maps of each design, and how to build them.

pub(super) mod dlht;
pub(super) mod iceberg;
pub(super) mod pea;
pub(super) mod turbo;
