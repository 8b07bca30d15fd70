//! What a table of duplicate keys has besides the parts of every table.

use super::log::Log;
use super::values::Values;
use crate::error::Error;
use crate::memory::{Medium, MemoryUsage};

/// The additional parts of a table of duplicate keys.
#[derive(Debug)]
pub(in crate::table::pea) struct Duplicates<M: Medium> {
    pub(in crate::table::pea) values: Values<M>,
    /// For durable tables.
    pub(in crate::table::pea) log: Option<Log<M>>,
}

impl<M: Medium> Duplicates<M> {
    pub(in crate::table::pea) fn new(medium: &M, per_segment: usize) -> Result<Self, Error> {
        let log = M::IS_DURABLE.then(|| Log::new(medium)).transpose()?;
        Ok(Self { values: Values::new(medium, per_segment)?, log })
    }

    pub(in crate::table::pea) fn usage(&self) -> MemoryUsage {
        let log = self.log.as_ref().map_or_else(MemoryUsage::default, Log::usage);
        self.values.usage() + log
    }
}
