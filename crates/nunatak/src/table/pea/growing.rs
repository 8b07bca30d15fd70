//! What a [growing](crate::table::growing) table needs of Pea Hash.

use super::{Config, PeaStats, Table};
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::Heap;
use crate::sync::Registry;
use crate::table::growing::Full;
use crate::table::shared::bucket::Layout;
use crate::table::shared::moves::ResizeTimes;
use core::time::Duration;
use std::sync::Arc;

impl<P: HashCodec + Clone, L: Layout> Full for Table<P, Heap, L> {
    type Codec = P;
    type Config = Config;

    fn check(config: &Config) -> Result<(), Error> {
        config.check()
    }

    fn is_fixed(config: &Config) -> bool {
        config.room.is_fixed()
    }

    fn make(codec: P, config: Config, capacity: usize) -> Result<Self, Error> {
        Self::new(codec, config, capacity)
    }

    fn shared_registry(&mut self) -> &mut Arc<Registry> {
        &mut self.registry
    }

    /// There are no segments.
    fn small_stats(_config: &Config, len: usize, slots: usize) -> PeaStats {
        PeaStats {
            len,
            segments: 0,
            strategies: [0; 3],
            depth: 0,
            slots,
            load_factor: len as f64 / slots.max(1) as f64,
            stashed: 0,
            chained: 0,
            splits: 0,
            moved: 0,
            split_time: Duration::ZERO,
            longest_split: Duration::ZERO,
            split_times: ResizeTimes::default(),
            crowded_splits: 0,
            merges: 0,
        }
    }
}
