//! Changing keys: one function that inserts, puts and deletes.

use super::find::{Scan, Sought, scan, still};
use super::index::{Index, Migrating};
use super::layout::{Bin, BinState, DELEGATED, Header, Slot};
use super::{Step, Table};
use crate::hash::HashCodec;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, FastPin, Mode, OpPin, Ordering, fence};
use crate::table::shared::memoised_key_test::{KeyTestAnswers, MemoisedKeyTest};
use crate::table::stages::Changes;
use crate::table::{Change, KeyTest, Shadowed};

/// What became of a claim.
pub(super) enum Claimed {
    Published,
    /// Something else happened in the bin: to be scanned again.
    Lost,
}

/// How to go on after something was in the way.
pub(super) enum Detour<'i> {
    Again,
    Next(&'i Index),
    Overflow,
    Wait,
}

/// An operation on one key: what becomes of it if it is present, and the value
/// word to insert if it is not.
#[derive(Clone, Copy)]
pub(super) struct Request<'r, T, F> {
    pub(super) hash: u64,
    pub(super) tag: u64,
    pub(super) test: &'r T,
    pub(super) fresh: Option<u64>,
    /// Whether it is inserted hidden.
    pub(super) hides: bool,
    pub(super) change: &'r F,
}

impl<P: HashCodec, Y: Mode> Changes for Table<P, Y> {
    /// Changes a key by its value word, or inserts it, and returns the value
    /// word that was present when the operation took effect. `change` must
    /// depend on its argument only; it may be called more than once.
    ///
    /// Two atomic read-modify-writes for an insert or a removal, one for a
    /// replacement, on one or two cache lines.
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
        self.apply_unless_shadowed(word, test, fresh, change)
    }
}

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    /// The same, of a key that may be hidden if it would be inserted.
    #[inline(always)]
    pub(crate) fn apply_unless_shadowed<T: KeyTest>(
        &self,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Result<Option<u64>, Shadowed> {
        let hash = self.codec.hash(word);
        let tag = self.codec.tag(word, hash);
        let request = Request { hash, tag, test, fresh, hides: false, change: &change };
        if T::RUNS_CALLERS_CODE {
            return self.apply_asking(&request);
        }
        match self.apply_fast(&request) {
            Some(before) => Ok(before),
            None => self.apply_slowly(&request),
        }
    }

    /// In the first bucket, if that is enough.
    #[inline(always)]
    fn apply_fast<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        request: &Request<'_, T, F>,
    ) -> Option<Option<u64>> {
        let &Request { hash, tag, test, fresh, change, .. } = request;
        let pin = if Y::SHARED { FastPin::new() } else { None };
        if Y::SHARED && pin.is_none() {
            return None;
        }
        // Acquire: pairs with the release that publishes an index.
        // SAFETY: as in `root`: the operation is announced, or the table
        // belongs to this thread.
        let index = unsafe { &*self.root.load(Ordering::Acquire) };
        let done = self.apply_in_first_bucket(index, (hash, tag), test, fresh, change);
        drop(pin);
        if done.is_some() {
            self.free_retired_if_any();
        }
        done
    }

    /// The same of a test that runs the caller's code: attempts use what it has said, and it is
    /// asked between them.
    fn apply_asking<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        request: &Request<'_, T, F>,
    ) -> Result<Option<u64>, Shadowed> {
        let &Request { hash, tag, test, fresh, hides, change } = request;
        let mut known = KeyTestAnswers::default();
        loop {
            let answering = MemoisedKeyTest::new(test, &known);
            let request = Request { hash, tag, test: &answering, fresh, hides, change };
            if let Some(before) = self.apply_fast(&request) {
                return Ok(before);
            }
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

    #[inline(never)]
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
                        // Another key of this word, unless the key has been shown before it
                        // was asked for: then it is found now.
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
                        match self.change(bin, slot, number, (tag, second), request.change) {
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
                self.detour(pin, index, at, header)
            };
            match detour {
                Detour::Again => {}
                Detour::Next(next) => index = next,
                Detour::Wait => return Step::Wait,
                Detour::Overflow => {
                    if let Some(step) = self.apply_in_overflow(pin, index, at, request) {
                        return step;
                    }
                }
            }
        }
    }

    /// Changes the pair of a slot, unless it changes first.
    #[inline(always)]
    pub(super) fn change(
        &self,
        bin: &Bin,
        slot: &Slot,
        number: usize,
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
                    self.give_back(bin, number);
                }
                self.registry.count::<Y>(-1);
            }
        }
        Some(second)
    }

    /// The insert of a key that the scan of `header` did not find.
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
        match self.claim(bin, (header, claimed), number, slot, pair) {
            Claimed::Published => None,
            Claimed::Lost => Some(Detour::Again),
        }
    }

    /// Claims a free slot of a bin in which the key was not found, by changing the
    /// header from one to the other, and publishes the pair in it.
    #[inline(always)]
    pub(super) fn claim(
        &self,
        bin: &Bin,
        (header, claimed): (Header, Header),
        number: usize,
        slot: &Slot,
        pair: (u64, u64),
    ) -> Claimed {
        // Acquire: the claimant of a slot sees what its last owner left there.
        // Release: who finds a slot claimed finds the link that it is behind. What is in the slot
        // is published later.
        let order = if seeded(Bug::ClaimBeforeLink) { Ordering::Acquire } else { Ordering::AcqRel };
        if Y::cas(&bin.header, header.0, claimed.0, order).is_err() {
            return Claimed::Lost;
        }
        // Who reads of the stores below finds the claim in the header.
        fence(Ordering::Release);
        if !seeded(Bug::PublishBeforeValue) {
            slot.store_second(pair.1, Ordering::Relaxed);
        }
        if publish::<Y>(slot, pair.0) {
            if seeded(Bug::PublishBeforeValue) {
                slot.store_second(pair.1, Ordering::Relaxed);
            }
            self.registry.count::<Y>(1);
            return Claimed::Published;
        }
        // Killed, or a dead word was left there: invariant 3.
        if !seeded(Bug::ShadowedResidue) {
            slot.store_first(0, Ordering::Relaxed);
        }
        self.give_back(bin, number);
        Claimed::Lost
    }

    /// Makes a claimed slot free. In a bin that is being moved, or has been,
    /// there is nothing to be freed.
    #[inline(always)]
    pub(super) fn give_back(&self, bin: &Bin, number: usize) {
        let mut header = Header(bin.header.load(Ordering::Relaxed));
        while matches!(header.state(), BinState::Open | BinState::Special) {
            // Release: the next claimant finds the slot's key word empty.
            let mut free = header.with_free(number);
            if seeded(Bug::FreeWithoutVersion) {
                free = free.with_version_before();
            }
            match Y::cas(&bin.header, header.0, free.0, Ordering::Release) {
                Ok(()) => return,
                Err(newer) => header = Header(newer),
            }
        }
    }

    /// What to do about a bin that is not open.
    #[cold]
    pub(super) fn detour<'p>(
        &'p self,
        pin: &'p OpPin<Y>,
        index: &'p Index,
        at: usize,
        header: Header,
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
                // Whoever changes something during a migration moves a chunk,
                // so that it ends soon after it began.
                self.help(pin, index, migration);
                // Nobody else asks for what the chunk lacks: an operation that is done does not.
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

/// Makes the key of a claimed and empty slot present.
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

/// Waits until a claimed and empty slot is published or given back, then kills
/// it. Either way the bin is to be scanned again.
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
    // Its claimant was stopped between two instructions. It will find the dead
    // word and start again.
    slot.compare_exchange_first(0, dead);
}
