//! Operations on delegated bins, whose pairs are in the index's overflow, under its lock (invariant 8 of the table).

use super::find::Request;
use super::index::{Index, Migrating};
use super::{Step, Table};
use crate::hash::HashCodec;
use crate::sync::{Mode, OpPin};
use crate::table::shared::full_disk::refuse;
use crate::table::{Change, KeyTest, Shadowed};

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    /// Looks a key up in a delegated bin. Returns `None` if the bin has moved.
    pub(super) fn find_in_overflow<T: KeyTest>(
        &self,
        index: &Index,
        at: usize,
        tag: u64,
        test: &T,
    ) -> Option<Option<u64>> {
        let pairs = index.overflow.lock().pairs(at)?;
        let hit = pairs.iter().find(|&&(first, second)| first == tag && test.accepts(second));
        Some(hit.map(|&(_, second)| second))
    }

    /// Moves a delegated bin that a snapshot has frozen, so that it can be changed. Returns false
    /// if the cut is yet to come, or if hashes must be asked for first.
    fn transfer_frozen_bin(&self, pin: &OpPin<Y>, index: &Index, at: usize) -> bool {
        match index.migration() {
            Migrating::To(migration) if migration.has_begun() => {
                self.transfer_bin(pin, index, migration, at)
            }
            _ => false,
        }
    }

    /// Shows or removes a hidden key of a delegated bin. Returns `None` if the bin has moved.
    pub(super) fn unhide_in_overflow(
        &self,
        pin: &OpPin<Y>,
        index: &Index,
        at: usize,
        tag: u64,
        value: Option<u64>,
    ) -> Option<Step<bool>> {
        let mut overflow = index.overflow.lock();
        if overflow.frozen {
            drop(overflow);
            return if self.transfer_frozen_bin(pin, index, at) { None } else { Some(Step::Wait) };
        }
        let by = value.map(|value| (tag, value));
        overflow.replace(at, (self.hidden(at, index), tag), by).map(Step::Done)
    }

    /// Applies a request to a delegated bin. Returns `None` if the bin has moved.
    #[cold]
    pub(super) fn apply_in_overflow<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        pin: &OpPin<Y>,
        index: &Index,
        at: usize,
        request: &Request<'_, T, F>,
    ) -> Option<Step<Result<Option<u64>, Shadowed>>> {
        loop {
            let copy = index.overflow.lock().present(at)?.clone();
            let hit = copy
                .pairs
                .iter()
                .position(|&(first, second)| first == request.tag && request.test.accepts(second));
            if request.test.has_unknown() {
                return Some(Step::Wait);
            }
            let hidden = self.hidden(at, index);
            let may_be_shadowed = Y::SHADOWS
                && request.fresh.is_some()
                && copy.pairs.contains(&(hidden, request.tag));
            let is_shadowed = match may_be_shadowed.then(|| request.test.is_hidden()) {
                None => false,
                Some(Some(is_hidden)) => is_hidden,
                Some(None) => return Some(Step::Wait),
            };
            let mut overflow = index.overflow.lock();
            if overflow.frozen {
                drop(overflow);
                return if self.transfer_frozen_bin(pin, index, at) {
                    None
                } else {
                    Some(Step::Wait)
                };
            }
            overflow.versions += 1;
            let version = overflow.versions;
            let bin = overflow.bins.get_mut(&at).filter(|bin| !bin.moved)?;
            if bin.version != copy.version {
                continue;
            }
            bin.version = version;
            let Some(hit) = hit else {
                if is_shadowed {
                    return Some(Step::Done(Err(Shadowed)));
                }
                if let Some(value) = request.fresh {
                    if self.config.room.must_refuse(|| self.keys()) {
                        refuse();
                        return Some(Step::Done(Ok(None)));
                    }
                    let hides = Y::SHADOWS && request.hides;
                    bin.pairs.push(if hides {
                        (hidden, request.tag)
                    } else {
                        (request.tag, value)
                    });
                    self.registry.count::<Y>(1);
                }
                return Some(Step::Done(Ok(None)));
            };
            let before = bin.pairs[hit].1;
            match (request.change)(before) {
                Change::Keep => {}
                Change::To(new) => bin.pairs[hit].1 = new,
                Change::Remove => {
                    bin.pairs.swap_remove(hit);
                    self.registry.count::<Y>(-1);
                }
            }
            return Some(Step::Done(Ok(Some(before))));
        }
    }
}
