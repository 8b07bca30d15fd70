//! Which entry goes when the cache is full: S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi, SOSP '23).
//!
//! ```text
//!           new keys                     used again              not used again
//!   insert ──────────▶ small queue (3 %) ───────────▶ main queue ───────────────▶ out
//!      │                    │ not used again: out        ▲  │ used again: to its beginning
//!      │                    ▼                            │  ▼
//!      └─ known key? ◀── ghosts (keys only) ─────────────┘
//! ```
//!
//! A scan passes through the small queue and leaves the main queue as it was. A hit increases a
//! counter of two bits in the entry, and moves nothing.
//!
//! The queues are sharded by hash. A shard has a lock, its part of the queues and of the ghosts,
//! and the timers of its entries. It knows entries by their [tokens](crate::key::Token) only.
//!
//! Invariants
//! 1. A place in the queues belongs to one token, from before an entry with that token is in the map
//!    until after the last one was taken out. Whoever takes an entry out of the map frees its place,
//!    except for a new entry with the same token, which takes the place over.
//! 2. A weight is counted before an entry has a place, and only if the sum stays within the
//!    capacity; and as long as the place is taken. An entry may get the counted weight of an evicted
//!    one. All entries with one token have the same weight.
//! 3. Nothing of the caller's runs under the lock of a shard. What is taken out of the map under the
//!    lock is handed out, and dropped after the lock.
//! 4. An entry in the map has a place, with one exception: an insert takes over a place without
//!    looking at the queues, and the place may have been freed just before. The insert notices it by
//!    what it replaced, and removes what has the token. Until then the map has an entry that is not
//!    counted: at most one for each thread that is inside of an insert.

mod ghosts;
mod queues;
mod timers;

pub(crate) use queues::{Look, Queues};
