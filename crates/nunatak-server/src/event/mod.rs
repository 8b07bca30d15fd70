//! Threads: each has its connections, and runs their commands in batches.

mod batch;
mod connection;
pub(crate) mod janitor;
pub(crate) mod listeners;
mod stores;
pub(crate) mod tls;
pub(crate) mod worker;
