//! Servers and clients, over sockets.

mod common;
mod connections;
mod differential;
#[cfg(target_os = "linux")]
mod killed;
mod metrics;
mod monitoring;
mod pubsub;
mod tls;
mod transactions;
