// Where the README links to, for the compiler to check: the first definition of a link counts, and crates.io takes
// those of the README.
#![doc = include_str!("../docs/links.md")]
#![doc = ""]
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Atomics of 16 bytes for Miri: see `sync::pair`.
#![cfg_attr(miri, feature(core_intrinsics), allow(internal_features))]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("Nunatak needs a processor of 64 bits: tables reserve addresses by the gibibyte");

#[cfg(feature = "accounting")]
pub mod accounting;
pub mod alloc;
#[cfg(durable)]
pub mod durable;
#[cfg(test)]
#[path = "../tests/effort/mod.rs"]
mod effort;
#[cfg(durable)]
mod encoding;
/// For Miri, which has no maps in files.
#[cfg(miri)]
pub mod encoding;
pub mod entry;
mod error;
pub mod guide;
pub mod hash;
mod map;
pub mod memory;
pub mod mode;
pub mod save;
mod schema;
#[cfg(nunatak_seeded_bugs)]
pub mod seeded;
#[cfg(not(nunatak_seeded_bugs))]
mod seeded;
pub mod simd;
mod sync;
mod table;
mod unfinished;

/// The entries and iterators of a [`BoxedMap`].
pub mod boxed {
    pub use crate::map::boxed::entry::{Entry, ModifiedEntry, OccupiedEntry, VacantEntry};
    pub use crate::map::boxed::iterate::{IntoIter, Iter};
    pub use crate::map::boxed::reference::Ref;
}

/// The entries and iterators of an [`InlineMap`].
pub mod inline {
    pub use crate::map::entry::{Entry, ModifiedEntry, OccupiedEntry, VacantEntry};
    pub use crate::map::inline::iterate::{IntoIter, Iter};
}

/// The entries and iterators of a [`WideMap`].
pub mod wide {
    pub use crate::map::entry::{Entry, ModifiedEntry, OccupiedEntry, VacantEntry};
    pub use crate::map::wide::{IntoIter, Iter};
}

pub use entry::Namespace;
/// Lookups by other forms of a key: [`equivalent`] has the rules.
pub use equivalent::Equivalent;
pub use error::{BatchError, Error, FileError};
pub use hash::{Modulo, RandomState};
pub use map::{
    BlobMap, BoxedGuard, BoxedMap, BoxedSet, ByteGuard, ByteMap, Compute, ConcurrentMap, Detached,
    DlhtBoxedMap, DlhtBoxedSet, DlhtBuilder, DlhtLocalMap, DlhtMap, DlhtRecordMap, DlhtSet,
    DlhtShadowMap, DlhtShadowRecordMap, DlhtWideMap, DlhtWideSet, IcebergBoxedMap, IcebergBoxedSet,
    IcebergBuilder, IcebergMap, IcebergSet, IcebergWideMap, IcebergWideSet, InlineGuard, InlineMap,
    InlineSet, Op, Outcome, PeaBlobMultiMap, PeaBoxedMap, PeaBoxedSet, PeaBuilder, PeaMap, PeaMap8,
    PeaMap12, PeaMultiMap, PeaSet, RecordMap, RecordShadow, Removed, Request, Sealable, Shadow,
    Stop, TryConcurrentMap, TurboBlobMap, TurboBoxedMap, TurboBoxedSet, TurboBuilder, TurboMap,
    TurboSet, WideMap, WideSet, WideStats,
};
pub use memory::{BlobStats, MemoryUsage};
pub use schema::Schema;
pub use table::dlht::DlhtStats;
pub use table::iceberg::{BlockSizes, Blocks, IcebergStats, SlotHandle};
pub use table::pea::{Entry8, Entry12, Entry16, EntrySize, PeaMultiStats, PeaStats, Strategy};
pub use table::wide::WideDesign;
/// A durable medium for model checkers.
#[cfg(modelled)]
pub type CheckedMedium = memory::Checked<true>;
/// Reclamation by itself, for model checkers.
#[cfg(modelled)]
pub use sync::model as reclamation;
pub use table::turbo::TurboStats;
#[cfg(modelled)]
pub use table::{CheckedIceberg, CheckedPea, CheckedTurbo, GrowingTurbo};
pub use table::{
    Design, Dlht, DlhtShadows, HashesWith, Iceberg, Pea, ResizeTimes, Turbo, Unshadowed,
};
