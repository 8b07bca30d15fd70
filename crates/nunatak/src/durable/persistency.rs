//! [`Persistency`]: what a power cut leaves of a simulated file.

/// What a power cut leaves of stores that are not known to be durable.
///
/// ```
/// use nunatak::durable::{Persistency, Simulation};
/// let simulation = Simulation::new(Persistency::Lines);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistency {
    /// Persistent memory: cache lines become durable in any order, stores to one line in program
    /// order, eight bytes at once. A flushed line is durable after a fence of the same thread.
    Lines,
    /// The page cache: each sector of 512 bytes is left as it was at any moment since the last
    /// barrier, independently of others. Changes of the file's size become durable in their order.
    Pages,
}

impl Persistency {
    pub(super) fn unit(self) -> u64 {
        match self {
            Self::Lines => 64,
            Self::Pages => 512,
        }
    }
}
