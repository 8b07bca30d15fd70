//! A medium for tests of what files need.

use super::{Heap, HeapRegion, Medium, Part};
use crate::error::Error;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// Memory whose epochs a test begins.
#[derive(Debug, Clone, Default)]
pub(crate) struct Epochs {
    pub(crate) present: Arc<AtomicU64>,
    pub(crate) settled: Arc<AtomicU64>,
}

impl Medium for Epochs {
    const IS_DURABLE: bool = true;

    type Direct = HeapRegion;
    type Region = HeapRegion;

    fn direct(&self, part: Part, bytes: usize) -> Result<HeapRegion, Error> {
        Heap.direct(part, bytes)
    }

    fn region(&self, part: Part, bytes: usize) -> Result<HeapRegion, Error> {
        Heap.direct(part, bytes)
    }

    fn epoch(&self) -> u64 {
        self.present.load(Relaxed)
    }

    fn settled(&self) -> u64 {
        self.settled.load(Relaxed)
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn flush<T>(&self, _: *const T, _: usize) {}

    fn fence(&self) {}

    fn barrier(&self) -> Result<(), Error> {
        Ok(())
    }

    fn set_root(&self, _: u64) {}
}
