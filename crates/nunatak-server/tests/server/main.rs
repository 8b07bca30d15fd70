//! Servers and clients, over sockets.

mod acl;
mod clients;
mod cluster;
mod common;
mod connections;
mod dashboard;
mod differential;
mod eviction;
#[cfg(target_os = "linux")]
mod killed;
mod latency;
mod metrics;
mod monitoring;
mod primary;
mod proxy;
mod pubsub;
mod replica;
mod replica_faults;
mod tls;
mod transactions;
