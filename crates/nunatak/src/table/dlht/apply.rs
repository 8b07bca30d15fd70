//! Changes of keys: one function that inserts, puts and deletes.

use super::find::{Request, Scan, Sought, scan};
use super::index::{Index, Migrating};
use super::layout::{Bin, BinState, DELEGATED, Header, Slot, act_on_slot};
use super::probe::still;
use super::{Step, Table};
use crate::hash::HashCodec;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, EntryCounts, FastPin, GuardPin, Mode, OpPin, Ordering, fence};
use crate::table::shared::full_disk::refuse;
use crate::table::shared::memoised_key_test::{KeyTestAnswers, MemoisedKeyTest};
use crate::table::stages::Changes;
use crate::table::{ByWord, Change, KeyTest, Shadowed};

/// The result of a claim.
pub(super) enum Claimed {
    Published,
    /// Another change came first: the bin must be scanned again.
    Lost,
}

/// How to continue after an obstacle.
pub(super) enum Detour<'i> {
    Again,
    Next(&'i Index),
    Overflow,
    Wait,
    /// The table does not grow and is full.
    Refused,
}

impl<P: HashCodec, Y: Mode> Changes for Table<P, Y> {
    /// Needs two atomic read-modify-writes for an insert or a removal, one for a replacement, on
    /// one or two cache lines.
    #[inline(always)]
    fn apply<T: KeyTest>(
        &self,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64> {
        match self.apply_unless_shadowed(word, test, fresh, change) {
            Ok(before) => before,
            Err(Shadowed) => unreachable!("maps whose keys may be hidden don't insert so"),
        }
    }

    #[inline(always)]
    fn apply_unless_shadowed<T: KeyTest>(
        &self,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Result<Option<u64>, Shadowed> {
        self.apply_counted(&self.registry, word, test, fresh, change)
    }

    #[inline(always)]
    fn apply_guarded<T: KeyTest>(
        &self,
        guard: &GuardPin<'_>,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64> {
        debug_assert!(guard.is_of(&self.registry));
        match self.apply_counted(guard, word, test, fresh, change) {
            Ok(before) => before,
            Err(Shadowed) => unreachable!("maps whose keys may be hidden don't insert so"),
        }
    }

    /// As `apply`; both read-modify-writes are of one word.
    #[inline(always)]
    fn remove(&self, word: u64) -> Option<u64> {
        self.remove_counted(&self.registry, word)
    }

    #[inline(always)]
    fn remove_guarded(&self, guard: &GuardPin<'_>, word: u64) -> Option<u64> {
        debug_assert!(guard.is_of(&self.registry));
        self.remove_counted(guard, word)
    }
}

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    #[inline(always)]
    fn remove_counted(&self, counts: &impl EntryCounts, word: u64) -> Option<u64> {
        // The caller's code may not run while an operation is announced.
        let asked = P::runs_callers_code().then(|| self.codec.hash(word));
        let attempt = |index: &Index, place| {
            let before = self.remove_in_first_bucket::<true>(index, place)?;
            if before.is_some() {
                counts.count::<Y>(-1);
            }
            Some(before)
        };
        if let Some(before) = self.attempt_once(word, asked, attempt) {
            return before;
        }
        match self.apply_again(word, asked, &ByWord, None, |_| Change::Remove) {
            Ok(before) => before,
            Err(Shadowed) => unreachable!("a removal inserts nothing"),
        }
    }

    /// Applies a change like `apply`. Fails if the change would insert a key that is hidden.
    #[inline(always)]
    fn apply_counted<T: KeyTest>(
        &self,
        counts: &impl EntryCounts,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Result<Option<u64>, Shadowed> {
        // The caller's code may not run while an operation is announced.
        let asked = P::runs_callers_code().then(|| self.codec.hash(word));
        if T::RUNS_CALLERS_CODE {
            return self.apply_asking(word, asked, test, fresh, &change);
        }
        match self.apply_once(counts, word, asked, test, fresh, &change) {
            Some(before) => Ok(before),
            None => self.apply_again(word, asked, test, fresh, change),
        }
    }

    /// Performs the operation in the first bucket, if that is enough.
    #[inline(always)]
    fn apply_once<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        counts: &impl EntryCounts,
        word: u64,
        asked: Option<u64>,
        test: &T,
        fresh: Option<u64>,
        change: &F,
    ) -> Option<Option<u64>> {
        self.attempt_once(word, asked, |index, place| {
            self.apply_in_first_bucket::<true, _>(index, place, test, fresh, change, counts)
        })
    }

    /// Announces an operation and attempts it at the offset of the word's bin, with its tag. Returns
    /// `None` if that has failed.
    #[inline(always)]
    fn attempt_once(
        &self,
        word: u64,
        asked: Option<u64>,
        attempt: impl FnOnce(&Index, (usize, u64)) -> Option<Option<u64>>,
    ) -> Option<Option<u64>> {
        let pin = if Y::SHARED { FastPin::<true>::new() } else { None };
        if Y::SHARED && pin.is_none() {
            return None;
        }
        let hash = self.hash(word, asked, &pin);
        let tag = self.codec.tag(word, hash);
        // Acquire: pairs with the release that publishes an index.
        // SAFETY: invariant 7 of the table: the operation is announced, or the table belongs to
        // this thread.
        let index = unsafe { &*self.root.load(Ordering::Acquire) };
        let offset = index.offset_of::<P>(hash);
        let done = attempt(index, (offset, tag));
        drop(pin);
        if done.is_some() {
            self.free_retired_if_any();
        }
        done
    }

    /// Starts an operation again that the first bucket was not enough for. Takes the change by value:
    /// what is passed by reference lies in memory, and the common path would store it there.
    #[inline(never)]
    fn apply_again<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        word: u64,
        asked: Option<u64>,
        test: &T,
        fresh: Option<u64>,
        change: F,
    ) -> Result<Option<u64>, Shadowed> {
        let hash = asked.unwrap_or_else(|| self.codec.hash(word));
        let tag = self.codec.tag(word, hash);
        self.apply_slowly(&Request { hash, tag, test, fresh, hides: false, change: &change })
    }

    /// Applies a change whose test runs the caller's code. The attempts use the test's known
    /// answers; the test is asked between attempts (R7).
    fn apply_asking<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        word: u64,
        asked: Option<u64>,
        test: &T,
        fresh: Option<u64>,
        change: &F,
    ) -> Result<Option<u64>, Shadowed> {
        let hash = asked.unwrap_or_else(|| self.codec.hash(word));
        let tag = self.codec.tag(word, hash);
        let mut known = KeyTestAnswers::default();
        loop {
            let answering = MemoisedKeyTest::new(test, &known);
            let done = self.apply_once(&self.registry, word, Some(hash), &answering, fresh, change);
            if let Some(before) = done {
                return Ok(before);
            }
            let request = Request { hash, tag, test: &answering, fresh, hides: false, change };
            if !answering.has_unknown() {
                let done = self.repeat(|pin| match self.try_apply(pin, self.root(pin), &request) {
                    _ if answering.has_unknown() => Step::Done(None),
                    Step::Done(done) => Step::Done(Some(done)),
                    Step::Wait => Step::Wait,
                });
                if let Some(done) = done {
                    return done;
                }
            }
            if let Some(second) = answering.unknown() {
                known.insert(second, test.accepts(second));
            }
        }
    }

    pub(super) fn apply_slowly<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        request: &Request<'_, T, F>,
    ) -> Result<Option<u64>, Shadowed> {
        debug_assert!(!T::RUNS_CALLERS_CODE, "an operation is announced");
        self.repeat(|pin| self.try_apply(pin, self.root(pin), request))
    }

    #[inline(always)]
    pub(super) fn try_apply<'p, T: KeyTest, F: Fn(u64) -> Change>(
        &'p self,
        pin: &'p OpPin<Y>,
        mut index: &'p Index,
        request: &Request<'_, T, F>,
    ) -> Step<Result<Option<u64>, Shadowed>> {
        loop {
            let at = self.place(request.hash, index);
            let bin = index.bins.at(at);
            let tag = request.tag;
            // Acquire: the slots are at least as new as the header.
            let header = Header(bin.header.load(Ordering::Acquire));
            let detour = if header.is_open() {
                let inserts = request.fresh.is_some();
                let minds = Y::SHADOWS && inserts && !seeded(Bug::HiddenIgnored);
                let hidden = if minds { self.hidden(at, index) } else { 0 };
                let sought = Sought { pending: Y::SHARED && inserts, hidden };
                let probe = || scan(index, at, bin, header, tag, request.test, sought);
                let mut found = probe();
                if request.test.has_unknown() {
                    return Step::Wait;
                }
                if let Scan::Hidden(..) = found {
                    if !still(bin, header, Bug::MissWithoutHeaderRecheck) {
                        continue;
                    }
                    match request.test.is_hidden() {
                        Some(true) => return Step::Done(Err(Shadowed)),
                        None => return Step::Wait,
                        // The hidden key is another key of this word, or the key was shown before
                        // the test was asked. In the second case this scan finds it.
                        Some(false) => found = probe(),
                    }
                }
                match found {
                    Scan::Changed => Detour::Again,
                    Scan::Pending(slot) => {
                        clear_pending(bin, header, slot, self.dead(at, index));
                        Detour::Again
                    }
                    Scan::Hit { slot, number, second } => {
                        let (at, pair) = ((bin, header), (tag, second));
                        match self.change(at, (slot, number), pair, request.change) {
                            Some(before) => return Step::Done(Ok(Some(before))),
                            None => Detour::Again,
                        }
                    }
                    Scan::Miss | Scan::Hidden(..) => match request.fresh {
                        None if still(bin, header, Bug::MissWithoutHeaderRecheck) => {
                            return Step::Done(Ok(None));
                        }
                        None => Detour::Again,
                        Some(value) => {
                            let hides = Y::SHADOWS && request.hides;
                            let pair =
                                if hides { (self.hidden(at, index), tag) } else { (tag, value) };
                            match self.insert_absent(pin, index, at, header, pair) {
                                Some(detour) => detour,
                                None => return Step::Done(Ok(None)),
                            }
                        }
                    },
                }
            } else {
                self.detour(pin, index, at, header, request.fresh.is_some())
            };
            match detour {
                Detour::Again => {}
                Detour::Next(next) => index = next,
                Detour::Wait => return Step::Wait,
                Detour::Refused => {
                    refuse();
                    return Step::Done(Ok(None));
                }
                Detour::Overflow => {
                    if let Some(step) = self.apply_in_overflow(pin, index, at, request) {
                        return step;
                    }
                }
            }
        }
    }

    /// Changes the pair of a slot, which was there under `header`. Returns `None` if the pair has
    /// changed first.
    #[inline(always)]
    pub(super) fn change(
        &self,
        (bin, header): (&Bin, Header),
        (slot, number): (&Slot, usize),
        pair: (u64, u64),
        change: &impl Fn(u64) -> Change,
    ) -> Option<u64> {
        let (tag, second) = pair;
        match change(second) {
            Change::Keep => return Some(second),
            Change::To(new) => {
                if !Y::cas_pair(slot, pair, (tag, new)) {
                    return None;
                }
            }
            Change::Remove if seeded(Bug::RemoveByStaleValue) => {
                slot.store_first(0, Ordering::Release);
                self.give_back(bin, number);
                self.registry.count::<Y>(-1);
            }
            Change::Remove => {
                if !Y::cas_pair(slot, pair, (0, second)) {
                    return None;
                }
                if !seeded(Bug::RemoveForgetsRelease) {
                    self.give_back_under(bin, header, number);
                }
                self.registry.count::<Y>(-1);
            }
        }
        Some(second)
    }

    /// Inserts a key that the scan of `header` did not find.
    #[inline(always)]
    fn insert_absent<'p>(
        &'p self,
        pin: &'p OpPin<Y>,
        index: &'p Index,
        at: usize,
        header: Header,
        pair: (u64, u64),
    ) -> Option<Detour<'p>> {
        let bin = index.bins.at(at);
        let Some(number) = header.first_free() else {
            return Some(self.make_room(pin, index, at, header));
        };
        let Some(links) = index.ensure_link(at, bin, number) else {
            return Some(self.make_room(pin, index, at, header));
        };
        let slot = index.slot(at, bin, links, number);
        let claimed = header.with_claimed(number);
        let counts = &self.registry;
        match self.claim::<false>(bin, (header, claimed), (number, slot), pair, counts) {
            Claimed::Published => None,
            Claimed::Lost => Some(Detour::Again),
        }
    }

    /// Claims a free slot of a bin in which the key was not found, by changing `header` to
    /// `claimed`. Then publishes the pair in the slot, and counts it.
    #[inline(always)]
    pub(super) fn claim<const ALONE: bool>(
        &self,
        bin: &Bin,
        (header, claimed): (Header, Header),
        (number, slot): (usize, &Slot),
        pair: (u64, u64),
        counts: &impl EntryCounts,
    ) -> Claimed {
        // Acquire: the claimant of a slot sees the words that its last owner left. Release: a
        // thread that finds a slot claimed finds the link that leads to it. The slot's words are
        // published later.
        let order = if seeded(Bug::ClaimBeforeLink) { Ordering::Acquire } else { Ordering::AcqRel };
        if Y::cas(&bin.header, header.0, claimed.0, order).is_err() {
            return Claimed::Lost;
        }
        // A reader that sees one of the stores below finds the claim in the header.
        fence(Ordering::Release);
        let is_published = act_on_slot::<ALONE, _>(bin, (slot, number), |slot| {
            if !seeded(Bug::PublishBeforeValue) {
                slot.store_second(pair.1, Ordering::Relaxed);
            }
            publish::<Y>(slot, pair.0)
        });
        if is_published {
            if seeded(Bug::PublishBeforeValue) {
                slot.store_second(pair.1, Ordering::Relaxed);
            }
            counts.count::<Y>(1);
            return Claimed::Published;
        }
        // The insert was killed, or a dead word was left in the slot: invariant 3.
        if !seeded(Bug::ShadowedResidue) {
            slot.store_first(0, Ordering::Relaxed);
        }
        self.give_back(bin, number);
        Claimed::Lost
    }

    /// Chooses how to continue at a bin that is not open.
    #[cold]
    pub(super) fn detour<'p>(
        &'p self,
        pin: &'p OpPin<Y>,
        index: &'p Index,
        at: usize,
        header: Header,
        inserts: bool,
    ) -> Detour<'p> {
        let bin = index.bins.at(at);
        match header.state() {
            BinState::Open => Detour::Again,
            BinState::InTransfer => {
                let mut backoff = Backoff::new();
                while Header(bin.header.load(Ordering::Relaxed)).state() == BinState::InTransfer {
                    backoff.wait();
                }
                Detour::Again
            }
            BinState::Moved => {
                let Migrating::To(migration) = index.migration() else {
                    unreachable!("a bin has moved and there is no migration")
                };
                // Inserts fill the next index, so they empty this one before that is full. Other
                // changes do not wait for a chunk, as in the paper, unless the inserts have ceased:
                // in the middle of a migration there is one index too many, and one line more to
                // read.
                if inserts || migration.has_stood_still() {
                    self.help(pin, index, migration);
                }
                // Only a waiting operation asks for the hashes that the chunk lacks; an operation
                // that is done does not.
                if self.hashes.are_wanted::<P>() {
                    return Detour::Wait;
                }
                Detour::Next(&migration.target)
            }
            BinState::Special if bin.links.load(Ordering::Acquire) & DELEGATED != 0 => {
                Detour::Overflow
            }
            BinState::Special => match index.migration() {
                Migrating::To(migration)
                    if migration.has_begun() && self.transfer_bin(pin, index, migration, at) =>
                {
                    Detour::Again
                }
                _ => Detour::Wait,
            },
        }
    }
}

/// Publishes a tag in a claimed and empty slot. Returns false if the slot is not empty any more.
#[inline(always)]
fn publish<Y: Mode>(slot: &Slot, tag: u64) -> bool {
    if !Y::SHARED {
        let free = slot.load_first(Ordering::Relaxed) == 0;
        if free {
            slot.store_first(tag, Ordering::Relaxed);
        }
        return free;
    }
    if seeded(Bug::PublishWithoutCas) {
        slot.store_first(tag, Ordering::Release);
        return true;
    }
    if seeded(Bug::PublishRelaxed) {
        slot.store_first(tag, Ordering::Relaxed);
        return true;
    }
    slot.compare_exchange_first(0, tag)
}

/// Waits until a claimed and empty slot is published or given back; kills the pending insert if
/// that takes too long. In every case the bin must be scanned again.
#[cold]
fn clear_pending(bin: &Bin, header: Header, slot: &Slot, dead: u64) {
    let mut backoff = Backoff::new();
    while backoff.is_spinning() {
        backoff.wait();
        if bin.header.load(Ordering::Relaxed) != header.0 || slot.load_first(Ordering::Relaxed) != 0
        {
            return;
        }
    }
    // The claimant was stopped between two instructions. It will find the dead word and start
    // again.
    slot.compare_exchange_first(0, dead);
}
