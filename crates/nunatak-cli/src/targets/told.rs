//! What a map of this project tells about its inside, by its design.

use nunatak::{DlhtStats, IcebergStats, PeaStats, ResizeTimes, TurboStats};
use std::time::Duration;

/// Splits or rehashes, as the table itself counts them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Resizes {
    pub(crate) count: usize,
    /// Entries that were moved.
    pub(crate) moved: usize,
    pub(crate) time: Duration,
    pub(crate) longest: Duration,
    pub(crate) times: ResizeTimes,
}

/// The statistics of a design.
pub(crate) trait Told {
    /// Returns the shares of the items in levels 1, 2 and 3, if the design has levels.
    fn levels(&self) -> Option<[f64; 3]> {
        None
    }

    /// Returns the splits or rehashes, if the design counts them.
    fn resizes(&self) -> Option<Resizes> {
        None
    }
}

impl Told for DlhtStats {}

impl Told for IcebergStats {
    fn levels(&self) -> Option<[f64; 3]> {
        Some([1, 2, 3].map(|level| self.share(level)))
    }
}

impl Told for PeaStats {
    fn resizes(&self) -> Option<Resizes> {
        let (time, longest) = (self.split_time, self.longest_split);
        let times = self.split_times.clone();
        Some(Resizes { count: self.splits, moved: self.moved, time, longest, times })
    }
}

impl Told for TurboStats {
    fn resizes(&self) -> Option<Resizes> {
        let (time, longest) = (self.rehash_time, self.longest_rehash);
        let times = self.rehash_times.clone();
        Some(Resizes { count: self.rehashes, moved: self.moved, time, longest, times })
    }
}
