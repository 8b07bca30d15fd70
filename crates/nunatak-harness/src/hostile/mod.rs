//! Hostile callers in safe Rust, and what every map promises them.
//!
//! The promise: no undefined behaviour, no crash, no deadlock; the map works afterwards; nothing is
//! dropped twice. The keys, values and hashers of these checks call the map, panic, block, or
//! contradict themselves ([`hooks`]). Each kind of map is a [`Victim`](victim::Victim), and
//! [`kinds`] names all of them.
//!
//! Each check runs in a process of its own ([`watch::isolated`]). So a crash or a hang fails one
//! test only, and hooks and counts may be global.

pub mod absurd;
pub mod blocking;
pub mod guards;
pub mod hooks;
pub mod inconsistent;
pub mod kinds;
pub mod others;
pub mod panics;
pub mod reclamation;
pub mod reentrance;
pub mod strings;
pub mod thread_locals;
pub mod victim;
pub mod watch;
