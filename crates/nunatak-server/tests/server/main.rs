//! Servers and clients, over sockets.

mod acl;
mod clients;
mod cluster;
mod common;
mod connections;
mod dashboard;
#[cfg(target_os = "linux")]
mod databases;
mod differential;
mod docs;
mod eviction;
mod floats;
#[cfg(target_os = "linux")]
mod full;
#[cfg(target_os = "linux")]
mod killed;
mod latency;
mod members;
mod metrics;
mod monitoring;
mod primary;
mod proxy;
mod pubsub;
mod readers;
mod replica;
mod replica_faults;
mod segments;
mod stores;
mod tls;
mod tls_cluster;
mod transactions;
