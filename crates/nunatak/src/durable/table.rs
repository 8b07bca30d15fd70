//! [`FileTable`]: operations of a table in a file that a table in RAM does not have.

use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::durable::{Durable, Pool};
use crate::table::PairTable;
use crate::table::iceberg::{BlockSizes, Table};
use crate::table::paged::PagedTable;

/// Operations of a table in a file that a table in RAM does not have.
pub trait FileTable: Send + Sync {
    #[doc(hidden)]
    fn sync(&self) -> Result<(), Error>;
    #[doc(hidden)]
    fn has_room(&self) -> Result<(), Error>;
    #[doc(hidden)]
    fn is_tight(&self) -> bool;
    /// Whether a resize waits for a sync.
    #[doc(hidden)]
    fn needs_sync(&self) -> bool;
    /// Whether a resize of such a table ever waits for a sync.
    #[doc(hidden)]
    const MAY_NEED_SYNC: bool;
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "the trait is sealed")]
    fn pool(&self) -> &Pool;
    #[doc(hidden)]
    fn check(&self, is_pair: &(dyn Fn(u64, u64) -> bool + Sync)) -> Result<usize, Error>;
    /// How many keys recovery has found since the file was opened, not counting those found then.
    #[doc(hidden)]
    fn found(&self) -> usize {
        0
    }
    /// How many pages there are, and how many of them have a checksum.
    #[doc(hidden)]
    fn checksums(&self) -> Option<(usize, usize)> {
        None
    }
    /// Stores what the next open of the file needs.
    #[doc(hidden)]
    fn prepare_close(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl<P: HashCodec, B: BlockSizes> FileTable for Table<P, B, Durable> {
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

    fn prepare_close(&self) -> Result<(), Error> {
        // The next open counts the items.
        self.pool().set_items(PairTable::len(self));
        Ok(())
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

    fn checksums(&self) -> Option<(usize, usize)> {
        self.medium().checksums()
    }

    fn prepare_close(&self) -> Result<(), Error> {
        self.close()
    }
}
