#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "accounting")]
pub mod accounting;
pub mod alloc;
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
pub mod durable;
pub mod entry;
mod error;
pub mod hash;
mod map;
pub mod memory;
pub mod mode;
#[cfg(nunatak_seeded_bugs)]
pub mod seeded;
#[cfg(not(nunatak_seeded_bugs))]
mod seeded;
pub mod simd;
mod sync;
mod table;

pub use entry::Namespace;
pub use error::{BatchError, Error, FileError};
pub use hash::{Modulo, RandomState};
pub use map::{
    BlobMap, BoxedGuard, BoxedMap, ByteGuard, ByteMap, Compute, ConcurrentMap, Detached,
    DlhtBoxedMap, DlhtBuilder, DlhtLocalMap, DlhtMap, DlhtRecordMap, DlhtSet, DlhtShadowMap,
    DlhtShadowRecordMap, IcebergBoxedMap, IcebergBuilder, IcebergMap, IcebergSet, InlineMap,
    InlineSet, Op, Outcome, PeaBoxedMap, PeaBuilder, PeaMap, PeaMap8, PeaMap12, PeaMultiMap,
    PeaSet, RecordMap, RecordShadow, Removed, Request, Shadow, Stop, TurboBlobMap, TurboBoxedMap,
    TurboBuilder, TurboMap, TurboSet,
};
pub use memory::{BlobStats, MemoryUsage};
pub use table::dlht::DlhtStats;
pub use table::iceberg::{BlockSizes, Blocks, IcebergStats, SlotHandle};
pub use table::pea::{Entry8, Entry12, Entry16, EntrySize, PeaMultiStats, PeaStats, Strategy};
/// A durable medium for model checkers.
#[cfg(any(loom, shuttle))]
pub type CheckedMedium = memory::Checked<true>;
pub use table::turbo::TurboStats;
#[cfg(any(loom, shuttle))]
pub use table::{CheckedIceberg, CheckedPea, CheckedTurbo};
pub use table::{Design, Dlht, DlhtShadows, Hashes, Iceberg, Pea, Places, Turbo, Visible};
