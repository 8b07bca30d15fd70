//! What a hostile caller can do in safe Rust, and what every map promises then.
//!
//! The promise: no undefined behaviour, no crash, no deadlock; the map works
//! afterwards; nothing is dropped twice. Keys, values and hashers of these
//! checks call back into the map, panic, block, or contradict themselves
//! ([`hooks`]). Each kind of map is a [`Victim`](victim::Victim), and
//! [`kinds`] names all of them.
//!
//! Each check runs in a process of its own ([`watch::isolated`]), so that a
//! crash or a hang is the failure of one test. Hooks and counts may be global
//! for that reason.

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
pub mod thread_locals;
pub mod victim;
pub mod watch;
