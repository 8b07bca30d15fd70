//! The workloads, the operations that they consist of, and the limit of memory for each operation.

pub(crate) mod delete;
pub(crate) mod fill;
pub(crate) mod insdel;
pub(crate) mod inserting;
pub(crate) mod latency;
pub(crate) mod latest;
pub(crate) mod lookup;
pub(crate) mod mixed;
pub(crate) mod populate;
pub(crate) mod recovery;
pub(crate) mod space;
pub(crate) mod synced;
mod whole_loops;
pub(crate) mod words;

use crate::keys::CHECKED_BITS;
use crate::keys::Popularity;
use crate::named::Named as _;
use crate::threads::CheckFailed;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How many unbatched operations a thread does between two looks at the clock.
const BLOCK: u64 = 1024;

/// A workload that the user can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub(crate) enum Workload {
    /// Distinct keys into a map that was made large enough.
    Insert,
    /// Distinct keys into an empty map that grows as it fills.
    Grow,
    /// Lookups of random keys that are present.
    GetHit,
    /// Lookups of random keys that are absent.
    GetMiss,
    /// Insert of an absent key, then delete of that key; in a full map and in an empty one.
    Insdel,
    /// Deletes of every key of a full map.
    Delete,
    /// Deletes of random keys of a map that is 95 % full, until it is 50 % full.
    DeleteHalf,
    /// Distinct keys into a map that was made large enough, by load factor.
    Fill,
    /// Half lookups, half updates of present keys.
    PutHeavy,
    /// Updates of present keys; the DLHT paper's YCSB F.
    UpdateOnly,
    /// YCSB on a map that doubles twice while it is loaded; the writes of A and B are inserts.
    YcsbLoad,
    /// 50 % lookups, 50 % updates.
    YcsbA,
    /// 95 % lookups, 5 % updates.
    YcsbB,
    /// Lookups only.
    YcsbC,
    /// 95 % lookups of the latest keys, 5 % inserts.
    YcsbD,
    /// 50 % lookups, 50 % atomic read-modify-writes.
    YcsbF,
    /// Latencies of single operations while the map grows from empty.
    Latency,
    /// Latencies of YCSB A, whose writes are inserts, on a map that doubles; then of absent keys.
    LatencyA,
    /// Inserts into a map that has a twentieth of the items, then lookups and deletes in the grown map.
    Grown,
    /// Inserts and gets in one stream, from a twentieth of the items to all, by the share of inserts.
    MixedInserts,
    /// Resident bytes per item of 16 bytes.
    Space,
    /// Shares of the items in levels 1, 2 and 3.
    Levels,
    /// New keys, a thousand at a time, each thousand durable before the next.
    Synced,
    /// New keys, each durable before the thread stores its next one.
    Commit,
    /// Opening a closed map, by its number of items.
    Recovery,
    /// Occurrences of every word in real text, checked.
    Words,
}

impl Workload {
    /// The workloads of the bare command.
    pub(crate) const CORE: [Self; 6] =
        [Self::Insert, Self::Grow, Self::GetHit, Self::GetMiss, Self::Insdel, Self::Words];
}

impl Workload {
    /// Returns why maps of C++ are not measured by the workload; `None` if they are.
    pub(crate) const fn refusal_of_cpp(self) -> Option<&'static str> {
        match self {
            Self::Latency | Self::LatencyA => Some(
                "each operation is timed, and the call from one language to the other would be a part of it",
            ),
            Self::Words => Some("the maps of C++ have numbers as keys"),
            _ => None,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// The parameter that sets the operations of one workload apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Variant {
    Only,
    /// In a map without items that was made large enough.
    Empty,
    Keys(Popularity),
    OfInsert,
    OfGet,
    OfMiss,
    OfDelete,
    Presized,
    Grown,
    /// How full the map is at the end, in percents.
    Filled(u8),
    /// A mix of YCSB that runs on the loaded map.
    Loaded(Mixed),
    /// How many percent of the operations insert.
    Inserts(u8),
    /// The number of items.
    Items(u64),
}

/// The mixes of YCSB that run on the loaded map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mixed {
    A,
    B,
    C,
}

/// The operation of a row in the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Operation {
    pub(crate) workload: Workload,
    pub(crate) variant: Variant,
    pub(crate) batched: bool,
}

impl Operation {
    pub(crate) const fn new(workload: Workload, variant: Variant) -> Self {
        Self { workload, variant, batched: false }
    }

    pub(crate) const fn batched(mut self, batched: bool) -> Self {
        self.batched = batched;
        self
    }

    /// Returns the class of memory accesses that limits the operation. Word counts have no limit,
    /// since the words of a text fit into the caches.
    pub(crate) fn class(self) -> Option<AccessClass> {
        use {AccessClass as A, Workload as W};
        match self.workload {
            W::GetHit | W::GetMiss | W::YcsbB | W::YcsbC | W::YcsbD => Some(A::Reads),
            // In B, too, most operations read.
            W::YcsbLoad if matches!(self.variant, Variant::Loaded(Mixed::B | Mixed::C)) => {
                Some(A::Reads)
            }
            W::Insert | W::Grow | W::Delete | W::DeleteHalf if self.batched => Some(A::Cas),
            W::Insert | W::Grow | W::Delete | W::DeleteHalf | W::Fill => Some(A::Rmw),
            W::PutHeavy | W::UpdateOnly | W::YcsbLoad | W::YcsbA | W::YcsbF => Some(A::Rmw),
            W::MixedInserts => Some(A::Rmw),
            W::Insdel => Some(A::Cas),
            W::Grown if matches!(self.variant, Variant::OfGet | Variant::OfMiss) => Some(A::Reads),
            W::Grown => Some(A::Rmw),
            W::Latency
            | W::LatencyA
            | W::Space
            | W::Levels
            | W::Synced
            | W::Commit
            | W::Recovery
            | W::Words => None,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.workload.name())?;
        f.write_str(match self.variant {
            Variant::Filled(percent) | Variant::Inserts(percent) => {
                return write!(f, "/{percent:02}");
            }
            Variant::Items(items) => return write!(f, "/{items}"),
            Variant::Loaded(Mixed::A) => "/a",
            Variant::Loaded(Mixed::B) => "/b",
            Variant::Loaded(Mixed::C) => "/c",
            Variant::Only => "",
            Variant::Empty => "/empty",
            Variant::Keys(Popularity::Uniform) => "/uniform",
            Variant::Keys(Popularity::Zipf) => "/zipf",
            Variant::OfInsert => "/insert",
            Variant::OfGet => "/get",
            Variant::OfMiss => "/miss",
            Variant::OfDelete => "/delete",
            Variant::Presized => "/pre-sized",
            Variant::Grown => "/grown",
        })?;
        f.write_str(if self.batched { "/batch" } else { "" })
    }
}

/// A kind of access to random cache lines; the probe measures the limit of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccessClass {
    /// Loads.
    Reads,
    /// A load and a store of one word.
    Rmw,
    /// A load and a compare-and-swap of one word.
    Cas,
}

impl AccessClass {
    pub(crate) const ALL: [Self; 3] = [Self::Reads, Self::Rmw, Self::Cas];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Rmw => "rmw",
            Self::Cas => "cas",
        }
    }

    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Reads => "random 64-byte line reads",
            Self::Rmw => "random read-modify-writes",
            Self::Cas => "random compare-and-swaps",
        }
    }
}

/// Returns zero exactly if a get returned the value of the key.
#[inline]
fn difference(found: Option<u64>, expected: u64) -> u64 {
    found.map_or(1, |value| (value ^ expected) & CHECKED_BITS)
}

/// Returns an error unless `wrong`, which collects differences, is zero.
fn check(wrong: u64, what: &str) -> Result<(), CheckFailed> {
    if wrong == 0 { Ok(()) } else { Err(CheckFailed(what.to_owned())) }
}
