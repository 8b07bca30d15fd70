//! Which entry goes when the cache is full: S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi, SOSP '23).
//!
//! ```text
//!            new keys                      second use              no use: out
//!   insert ───────────▶ small queue (10 %) ──────────▶ main queue ─────────────▶
//!      │                     │ no second use: out         ▲   │ used: again to
//!      │                     ▼                            │   ▼ its beginning
//!      └── key known? ◀── ghosts (keys only) ─────────────┘
//! ```
//!
//! A scan passes through the small queue and leaves the main queue as it was. A hit increases a
//! counter of two bits in the entry, and moves nothing.
//!
//! The queues are sharded by hash. A shard has a lock, its part of the queues and of the ghosts,
//! and the timers of its entries. It knows entries by their [tokens](crate::key::Token) only.
//!
//! Invariants
//! 1. A place in the queues belongs to one entry, from before the entry is in the map until after
//!    it was taken out. Whoever takes an entry out of the map frees its place, and nobody else does.
//! 2. The weight of an entry is counted as long as it has a place. It is counted before it has one,
//!    and only if the sum stays within the capacity. So the entries in the map never exceed it.
//! 3. Nothing of the caller's runs under the lock of a shard. What is taken out of the map under the
//!    lock is handed out, and dropped after the lock.

mod ghosts;
mod queues;
mod timers;

pub(crate) use queues::{Look, Queues};
