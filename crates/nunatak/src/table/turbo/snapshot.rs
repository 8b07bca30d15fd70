//! A consistent cut of all pairs.
//!
//! Changes that are under way end, which is the cut; from there on whoever comes to a shard
//! first copies it before he changes it. So nobody waits for more than one shard's copy,
//! and reads never notice.

use super::Table;
use super::apply::Held;
use crate::error::Error;
use crate::hash::Placement;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::{
    AtomicU64, Backoff, Mutex, OpPin, Ordering, Shared, operations_ended, retire_tag,
};
use crate::table::pea::bucket::{Flag, Marking};
use crate::table::pea::layout::{Header, Layout};

/// The pairs of a cut, by their words.
#[derive(Debug)]
pub struct PairSnapshot(Vec<(u64, u64)>);

impl Iterator for PairSnapshot {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        self.0.pop()
    }
}

/// What a cut of the table needs.
#[derive(Debug, Default)]
pub(super) struct Cut {
    /// How many want that nobody changes anything.
    freezing: AtomicU64,
    /// The number of the cut that is being copied, or zero.
    number: AtomicU64,
    /// That of the last one, and its pairs so far.
    copied: Mutex<Copied>,
}

#[derive(Debug, Default)]
struct Copied {
    number: u64,
    pairs: Vec<(u64, u64)>,
    /// Whether memory was refused.
    is_refused: bool,
}

impl Copied {
    fn extend(&mut self, pairs: &[(u64, u64)]) {
        self.is_refused |= self.pairs.try_reserve(pairs.len()).is_err();
        if !self.is_refused {
            self.pairs.extend_from_slice(pairs);
        }
    }
}

/// Lets changes go on, whatever happens.
struct Frozen<'t>(&'t AtomicU64);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // Release: after what was done meanwhile.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Ends a cut, whatever happens.
struct Ended<'t>(&'t AtomicU64);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        // Relaxed: who finds the number still finds that all is copied, or copies for
        // nobody.
        self.0.store(0, Ordering::Relaxed);
    }
}

impl<P: Placement, M: Medium, L: Layout> Table<P, M, L> {
    /// Whether changes are to wait.
    #[inline(always)]
    pub(super) fn is_frozen(&self) -> bool {
        // Acquire: pairs with the release of who has let them go on.
        self.cut.freezing.load(Ordering::Acquire) != 0
    }

    /// Announces an operation that changes something, when it may. The thread is in no
    /// other.
    pub(super) fn enter(&self) -> OpPin<Shared> {
        let mut backoff = Backoff::new();
        loop {
            let pin = OpPin::new();
            if !self.is_frozen() {
                return pin;
            }
            drop(pin);
            backoff.wait();
        }
    }

    /// Runs something while nobody changes anything. The caller is in no operation.
    fn frozen<R>(&self, run: impl FnOnce() -> R) -> R {
        // Release: before the barrier that `retire_tag` is.
        self.cut.freezing.fetch_add(1, Ordering::Release);
        let frozen = Frozen(&self.cut.freezing);
        if !seeded(Bug::SnapshotWithoutGrace) {
            let tag = retire_tag();
            let mut backoff = Backoff::new();
            while !operations_ended(tag, false) {
                backoff.wait();
            }
        }
        let result = run();
        drop(frozen);
        result
    }

    /// Copies a shard, which is locked, for the cut that is being taken, unless somebody
    /// has. The caller is in an operation.
    #[inline(always)]
    pub(super) fn copy_before_change(&self, held: &Held<'_>, hash: u64) {
        // Relaxed: who has entered after the cut has seen that it may.
        let number = self.cut.number.load(Ordering::Relaxed);
        if number != 0 && !held.shard.is_copied(number) && !seeded(Bug::ChangedUncopied) {
            self.copy_shard(held, hash, number);
        }
    }

    #[cold]
    fn copy_shard(&self, held: &Held<'_>, hash: u64, number: u64) {
        let mut pairs = Vec::new();
        self.read_shard(held, hash, &mut pairs);
        self.cut.copied.lock().extend(&pairs);
        held.shard.set_copied(number);
    }

    /// Copies the pairs, by their words, of a shard, which is locked and which some hash is
    /// of.
    pub(super) fn read_shard(&self, held: &Held<'_>, hash: u64, pairs: &mut Vec<(u64, u64)>) {
        let half = (hash >> 63) as usize;
        let run = held.descriptor.run();
        let mut may_be_chained = run.is_none();
        for bucket in run.iter().flat_map(|&run| self.shards.all(run)) {
            may_be_chained |= bucket.header().has(Flag::Chained);
            let items = bucket.items(Marking::Place);
            pairs.extend(items.map(|item| (self.decoder.word(item.tag, half), item.second)));
        }
        if may_be_chained && self.chains.len() > 0 {
            let number = self.shards.number(hash);
            let all = self.chains.all().into_iter();
            let chained = all.filter(|&(hash, _)| self.shards.number(hash) == number);
            pairs.extend(chained.map(|(_, (tag, second))| (self.decoder.word(tag, half), second)));
        }
    }

    pub(super) fn snapshot(&self) -> Result<PairSnapshot, Error> {
        let _held = self.exclusive.lock();
        let room = self.len() + self.len() / 16 + 64;
        let bytes = room.saturating_mul(size_of::<(u64, u64)>());
        let number = {
            let mut copied = self.cut.copied.lock();
            let number = copied.number + 1;
            *copied = Copied { number, ..Copied::default() };
            copied.pairs.try_reserve(room).map_err(|_| Error::OutOfMemory { bytes })?;
            number
        };
        // Relaxed: who may change something has seen that nobody is kept from it any more.
        self.frozen(|| self.cut.number.store(number, Ordering::Relaxed));
        let ended = Ended(&self.cut.number);
        for number in 0..self.shards.len() {
            self.change_shard(number, |_, _| ());
        }
        drop(ended);
        let mut copied = self.cut.copied.lock();
        let pairs = core::mem::take(&mut copied.pairs);
        if copied.is_refused { Err(Error::OutOfMemory { bytes }) } else { Ok(PairSnapshot(pairs)) }
    }
}
