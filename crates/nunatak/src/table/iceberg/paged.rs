//! What a table does in a medium that copies pages before they change: a file of byte strings.
//!
//! Such a medium is ordered by copies, so moves leave nothing behind. A sync needs a moment without
//! changes: every change is announced by way of [`Cut`](crate::table::shared::cut). Before a
//! block's slots change, their page is made writable. That may find no room; then the change ends,
//! a sync frees pages, and the change begins anew. Pages for a doubling are there before it begins,
//! so that it can end on a full disk.

use super::Table;
use super::geometry::{BlockSizes, State, choices};
use super::yard::Yard;
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::{Medium, MemoryUsage, ReservedArray};
use crate::seeded::{Bug, seeded};
use crate::sync::{OpPin, Ordering, Shared};
use crate::table::shared::chains::Prepared;
#[cfg(durable)]
use crate::table::shared::undo_log::UndoLog;
use core::ops::Range;

/// Blocks whose pages are made present at once: 72 pages.
const BLOCKS_AT_ONCE: usize = 256;

impl<P: HashCodec, B: BlockSizes, M: Medium> Table<P, B, M> {
    /// Announces an operation that changes something, if changes are allowed now.
    #[inline(always)]
    pub(super) fn try_enter(&self) -> Option<OpPin<Shared>> {
        if M::IS_PAGED { self.cut.try_enter() } else { Some(OpPin::new()) }
    }

    /// Announces such an operation in a medium that copies pages. Returns nothing if changes are
    /// kept out.
    #[inline(always)]
    pub(super) fn try_enter_if_paged(&self) -> Option<Option<OpPin<Shared>>> {
        if M::IS_PAGED { self.cut.try_enter().map(Some) } else { Some(None) }
    }

    /// Stores the word by which the table finds its size again. Its page is writable.
    pub(super) fn set_root(&self, word: u64) {
        let Some(root) = &self.root else { return self.medium.set_root(word) };
        // Release: as every store to a medium.
        self.medium.store_first(root.at(0), word, Ordering::Release);
        if !seeded(Bug::RootPairUnflushed) {
            self.medium.flush(root.address(0), 1);
        }
        self.medium.fence();
    }

    /// Makes the root word writable.
    pub(super) fn prepare_root(&self) -> Result<(), Error> {
        self.root.as_ref().map_or(Ok(()), |root| root.make_writable(0))
    }

    /// Does what a block that could not be settled waits for. The caller holds nothing.
    #[cold]
    pub(super) fn prepare_to_settle(&self) {
        if M::IS_PAGED {
            self.make_room_for_copies();
        }
        self.hashes.ask(&self.codec);
    }

    /// Ends an epoch, so that pages replaced in it can be used again. The caller is in no operation.
    #[cold]
    pub(super) fn make_room_for_copies(&self) {
        // If the sync fails, the medium reports it and copies no more pages.
        let _ = self.sync_pages();
    }

    /// Makes all acknowledged changes durable, in a medium that copies pages.
    pub(super) fn sync_pages(&self) -> Result<(), Error> {
        self.medium.sync(|begin| self.cut.frozen(begin))
    }

    /// Makes two blocks writable, and the root word, which the last settler stores.
    pub(super) fn is_ready_to_settle<Y: Yard<N>, const N: usize>(
        &self,
        yard: &Y,
        blocks: [usize; 2],
    ) -> bool {
        let is_writable =
            |block| seeded(Bug::SettledPageNotCopied) || yard.make_writable(block).is_ok();
        blocks.into_iter().all(is_writable) && self.prepare_root().is_ok()
    }

    /// Makes all slots writable that the keys of a block may go to which find no room in the block
    /// `low`. Returns the slots of level 3 among them, or nothing if too many pages would have to be
    /// copied before the next sync.
    pub(super) fn prepare_overflow<Y: Yard<N>, const N: usize>(
        &self,
        yard: &Y,
        state: State,
        low: usize,
        hashes: &[(u64, u64)],
    ) -> Option<Prepared<'_, M>> {
        let coming = hashes.iter().filter(|(tag, _)| *tag != 0).map(|&(_, hash)| hash);
        // The first ones find room.
        let homeless = coming.skip(yard.room(low));
        if M::IS_PAGED && Y::IS_FRONT {
            let blocks = homeless.clone().flat_map(choices);
            let mut blocks = blocks.map(|hash| self.geometry.block(hash, state.mask()));
            if !blocks.all(|block| self.back.make_writable(block).is_ok()) {
                return None;
            }
        }
        self.chains.prepare(homeless)
    }

    /// Makes pages for the upper half of a doubling present, a piece at a call. When no piece is
    /// left, starts the doubling.
    pub(super) fn prepare_pages(&self, state: State, piece: usize) -> Result<(), Error> {
        let blocks = self.geometry.blocks(state.mask());
        if piece * BLOCKS_AT_ONCE >= blocks {
            return self.start_doubling(state);
        }
        let from = blocks + piece * BLOCKS_AT_ONCE;
        self.make_present(from..(from + BLOCKS_AT_ONCE).min(2 * blocks))?;
        self.migration.count_piece();
        Ok(())
    }

    /// Makes sure that blocks have pages.
    #[cfg(durable)]
    pub(super) fn make_present(&self, blocks: Range<usize>) -> Result<(), Error> {
        const PAGE: usize = 4096;
        let of_front = blocks.clone().step_by((PAGE / 16 / B::FRONT).max(1));
        let of_back = blocks.clone().step_by((PAGE / 16 / B::BACK).max(1));
        of_front.chain(blocks.clone().last()).try_for_each(|at| self.front.make_present(at))?;
        of_back.chain(blocks.last()).try_for_each(|at| self.back.make_present(at))
    }

    #[cfg(not(durable))]
    pub(super) fn make_present(&self, _blocks: Range<usize>) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the memory that only a table has whose pages are copied.
    pub(super) fn usage_of_pages(&self) -> MemoryUsage {
        let of_root = self.root.as_ref().map_or_else(MemoryUsage::default, ReservedArray::usage);
        let all = self.medium.usage() + of_root;
        #[cfg(durable)]
        let all = self.undo.as_ref().map_or(all, |undo| all + undo.usage());
        all
    }

    /// Returns unused pages to the system.
    pub(super) fn release_pages(&self) -> Result<(), Error> {
        if M::IS_PAGED && !self.medium.is_read_only() {
            #[cfg(durable)]
            self.undo.iter().for_each(UndoLog::shrink);
            // So that no recovery needs the discarded pages.
            self.sync_pages()?;
            self.cut.frozen(|| -> Result<(), Error> {
                self.front.trim_map()?;
                self.back.trim_map()?;
                self.chains.slots().trim_map()?;
                #[cfg(durable)]
                self.undo.as_ref().map_or(Ok(()), UndoLog::trim_map)?;
                self.medium.move_pages()
            })?;
            self.sync_pages()?;
            self.cut.frozen(|| self.medium.trim_pages());
        }
        Ok(())
    }
}
