//! [`FileTable`]: what a table in a file does beyond one in RAM.

use crate::error::Error;
use crate::hash::Placement;
use crate::memory::durable::{Durable, Pool};
use crate::table::iceberg::{BlockSizes, Table};
use crate::table::paged::PagedTable;

/// What a table in a file does beyond one in RAM.
pub trait FileTable: Send + Sync {
    #[doc(hidden)]
    fn sync(&self) -> Result<(), Error>;
    #[doc(hidden)]
    fn has_room(&self) -> Result<(), Error>;
    #[doc(hidden)]
    fn is_tight(&self) -> bool;
    /// Whether something waits for a sync.
    #[doc(hidden)]
    fn needs_sync(&self) -> bool;
    /// Whether something may ever wait for one.
    #[doc(hidden)]
    const MAY_NEED_SYNC: bool;
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "the trait is sealed")]
    fn pool(&self) -> &Pool;
    #[doc(hidden)]
    fn check(&self, is_pair: &(dyn Fn(u64, u64) -> bool + Sync)) -> Result<usize, Error>;
    /// Keys that were found since the file was opened, and not then.
    #[doc(hidden)]
    fn found(&self) -> usize {
        0
    }
    /// Stores what the next one who opens the file wants to know.
    #[doc(hidden)]
    fn prepare_close(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl<P: Placement, B: BlockSizes> FileTable for Table<P, B, Durable> {
    fn sync(&self) -> Result<(), Error> {
        self.sync()
    }

    fn has_room(&self) -> Result<(), Error> {
        self.has_room()
    }

    #[inline(always)]
    fn is_tight(&self) -> bool {
        self.is_tight()
    }

    const MAY_NEED_SYNC: bool = true;

    fn needs_sync(&self) -> bool {
        self.has_leftovers()
    }

    #[allow(private_interfaces, reason = "the trait is sealed")]
    #[inline(always)]
    fn pool(&self) -> &Pool {
        self.pool()
    }

    fn check(&self, is_pair: &(dyn Fn(u64, u64) -> bool + Sync)) -> Result<usize, Error> {
        self.verify(is_pair)
    }
}

impl<T: PagedTable> FileTable for T {
    fn sync(&self) -> Result<(), Error> {
        PagedTable::sync(self)
    }

    fn has_room(&self) -> Result<(), Error> {
        PagedTable::has_room(self)
    }

    #[inline(always)]
    fn is_tight(&self) -> bool {
        PagedTable::is_tight(self)
    }

    const MAY_NEED_SYNC: bool = false;

    fn needs_sync(&self) -> bool {
        false
    }

    #[allow(private_interfaces, reason = "the trait is sealed")]
    #[inline(always)]
    fn pool(&self) -> &Pool {
        PagedTable::pool(self)
    }

    fn check(&self, is_pair: &(dyn Fn(u64, u64) -> bool + Sync)) -> Result<usize, Error> {
        self.verify(is_pair)
    }

    fn found(&self) -> usize {
        PagedTable::found(self)
    }

    fn prepare_close(&self) -> Result<(), Error> {
        self.close()
    }
}
