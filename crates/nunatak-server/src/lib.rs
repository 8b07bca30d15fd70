#![doc = include_str!("../README.md")]

/// Tells an operator something, on a line of its own. Goes on if nobody listens (`eprintln` would panic).
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write;
        let text = format!($($text)*);
        let _ = writeln!(std::io::stderr(), "nunatak-server: {text}");
    }};
}

mod acl;
mod ages;
mod certificate;
mod clients;
mod cluster;
mod commands;
mod config;
mod dashboard;
mod event;
mod histogram;
mod http;
mod info;
#[cfg(target_os = "linux")]
mod log;
mod metrics;
mod numbered;
mod protocol;
mod pubsub;
mod replica;
mod sample;
mod serve;
mod session;
mod settings;
mod shared;
mod slowlog;
mod spikes;
mod stats;
mod store;
mod timing;
mod tls;
mod watched;

pub use cluster::manage::{ClusterCommand, Reach};
pub use config::{AuthClients, Config, Durability, Policy, Port};
pub use serve::{ServeError, Server, Stopper, main};

/// The version of Redis whose replies these are.
const REDIS_VERSION: &str = "7.0.15";
