//! Nunatak's maps as a server that speaks Redis's protocol.
//!
//! [`Server::bind`] takes a [`Config`], opens the data, and listens; [`Server::run`] serves until a
//! [`Stopper`] or a client's `SHUTDOWN` ends it.
//!
//! ```
//! use clap::Parser;
//! use nunatak_server::{Config, Server};
//! use std::io::{Read, Write};
//! use std::net::TcpStream;
//!
//! let server = Server::bind(Config::parse_from(["", "--port=0", "--threads=1"]))?;
//! let (address, stopper) = (server.address().expect("a port"), server.stopper());
//! let serving = std::thread::spawn(move || server.run());
//! let mut client = TcpStream::connect(address)?;
//! client.write_all(b"SET ice cold\r\nGET ice\r\n")?;
//! let mut replies = [0; 15];
//! client.read_exact(&mut replies)?;
//! assert_eq!(&replies, b"+OK\r\n$4\r\ncold\r\n");
//! stopper.stop();
//! serving.join().unwrap()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
