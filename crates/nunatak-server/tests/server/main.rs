//! Servers and clients, over sockets.

mod common;
mod connections;
mod differential;
mod transactions;
