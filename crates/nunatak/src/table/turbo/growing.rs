//! What a [growing](crate::table::growing) table needs of TurboHash.

use super::{Config, SHARDS, Table, TurboStats};
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

    /// All entries are in their first bucket, as it were.
    fn small_stats(config: &Config, len: usize, slots: usize) -> TurboStats {
        TurboStats {
            len,
            shards: config.shards.unwrap_or(SHARDS),
            buckets: 0,
            slots,
            load_factor: len as f64 / slots.max(1) as f64,
            tombstones: 0,
            distances: vec![len],
            probes: vec![1.0],
            mean_probes: 1.0,
            chained: 0,
            grown: 0,
            collected: 0,
            shrunk: 0,
            rehashes: 0,
            moved: 0,
            rehash_time: Duration::ZERO,
            longest_rehash: Duration::ZERO,
            rehash_times: ResizeTimes::default(),
        }
    }
}
