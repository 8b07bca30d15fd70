//! One computation of a key at a time, whose result all callers get.
//!
//! A caller that misses *joins*: it either begins a flight (a computation that others can wait for)
//! or finds the one that another caller has begun. The leader computes, stores the value, and ends
//! the flight; the followers wait for that.
//!
//! ```text
//!   leader:    join ── look again ── compute ── store, hidden ── commit ── leave ── end
//!   follower:  join ─────────────────── wait ────────────────────────────────────────┴─ result
//!   changer:   outdate ── change the map
//! ```
//!
//! Invariants
//! 1. Among the flights that can be joined, no two have equal keys. A flight can be joined from
//!    `join` until it leaves the list.
//! 2. Every flight that was joined leaves and ends: the leader's [`Leader`] does it when it is
//!    dropped, also by a panic, or when the future of the computation is dropped.
//! 3. The leader looks for the key again after it has joined. So it computes nothing that an earlier
//!    leader has stored: that one left after it had stored.
//! 4. A value that was computed from what was true before a change of the key is not stored. Whoever
//!    changes a key outdates its flight before it changes the map. The leader stores the value so
//!    that no get can see it, and commits by a read-modify-write of the word that a changer writes by
//!    one. Of the two, the first one is seen by the second one. If that is the changer, the leader
//!    takes its value back. If it is the leader, the change meets the value in the map, hidden or
//!    not, and applies to it.
//! 5. The caller's `Eq`, `Clone`, `Drop` and wakers run while no lock is held.

mod flight;
mod list;

pub(crate) use flight::{Computing, Flight};
pub(crate) use list::{Flights, Joined, Leader};
