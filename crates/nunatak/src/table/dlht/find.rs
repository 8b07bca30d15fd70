//! Lookups of single keys.

use super::Table;
use super::index::{Index, Migrating};
use super::layout::{Bin, BinState, DELEGATED, Header, Slot};
use super::probe::{Probe, probe, still};
use crate::hash::HashCodec;
use crate::memory::prefetch::prefetch;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, DATA, FastPin, GuardPin, Mode, Ordering, kept};
use crate::table::KeyTest;
use crate::table::shared::memoised_key_test::{KeyTestAnswers, MemoisedKeyTest};
use crate::table::stages::Lookups;

/// The result of a scan of a bin.
pub(super) enum Scan<'i> {
    /// This slot holds the key, and held this value while the header was unchanged.
    Hit { slot: &'i Slot, number: usize, second: u64 },
    /// No claimed slot holds the key. True only if the header is unchanged.
    Miss,
    /// No claimed slot holds the key, but a pending insert may store it in this slot.
    Pending(&'i Slot),
    /// This claimed slot holds the key, hidden. True only if the header is unchanged.
    Hidden(&'i Slot, usize),
    /// The header has changed meanwhile.
    Changed,
}

impl<P: HashCodec, Y: Mode> Lookups for Table<P, Y> {
    /// Returns the value word of a key. Touches one cache line if the key's bin has no links.
    /// Writes no line that other threads use.
    #[inline(always)]
    fn find<T: KeyTest>(&self, word: u64, test: &T) -> Option<u64> {
        // The caller's code may not run while an operation is announced.
        let asked = P::runs_callers_code().then(|| self.codec.hash(word));
        let pin = if Y::SHARED { FastPin::<true>::new() } else { None };
        if pin.is_some() || !Y::SHARED {
            let hash = self.hash(word, asked, &pin);
            // Acquire: pairs with the release that publishes an index.
            // SAFETY: invariant 7 of the table: the operation is announced, or the table belongs to
            // this thread.
            let index = unsafe { &*self.root.load(Ordering::Acquire) };
            let first = self.look_nearby(index, hash, word);
            // Ends the announcement before the key test, which may run the caller's code. A guard
            // keeps the entry behind the value word, and the index is not touched any more.
            drop(pin);
            if let Some(found) = Self::tested(first, test) {
                return found;
            }
        }
        // Starts again, so that the common path has no state to save.
        self.find_slowly(word, test)
    }

    /// Looks a key up like `find`, under a guard of this table that is announced already.
    #[inline(always)]
    fn find_guarded<T: KeyTest + Copy>(
        &self,
        guard: &GuardPin<'_>,
        word: u64,
        test: T,
    ) -> Option<u64> {
        debug_assert!(guard.is_of(&self.registry));
        let hash = self.codec.hash(word);
        // Acquire: pairs with the release that publishes an index.
        // SAFETY: R2, R7 and invariant 7 of the table: an index that was at the root while a guard
        // was announced outlives the guard, unless this thread itself frees it during a key test.
        // After a key test the index is not touched again.
        let index = unsafe { &*self.root.load(Ordering::Acquire) };
        match Self::tested(self.look_nearby(index, hash, word), &test) {
            Some(found) => found,
            None => self.find_copied(word, test),
        }
    }

    /// Prefetches the bin of a key.
    fn prefetch(&self, word: u64) {
        let hash = self.codec.hash(word);
        let pin = self.enter();
        prefetch(self.root(&pin).bin_address_of::<P>(hash));
    }
}

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    /// Returns the hash that was asked for, or else a word's hash.
    #[inline(always)]
    pub(super) fn hash(&self, word: u64, asked: Option<u64>, pin: &Option<FastPin<true>>) -> u64 {
        match (asked, pin) {
            (Some(hash), _) => hash,
            (None, Some(pin)) => self.codec.hash_pinned(word, pin),
            (None, None) => self.codec.hash(word),
        }
    }

    /// Returns the result of a look if it is final. If another key of the same word was found,
    /// returns `None`: the key may be elsewhere.
    #[inline(always)]
    pub(super) fn tested<T: KeyTest>(first: Option<Option<u64>>, test: &T) -> Option<Option<u64>> {
        match first {
            Some(Some(second)) => (T::BY_WORD || test.accepts(second)).then_some(Some(second)),
            other => other,
        }
    }

    /// Takes the test by value: see
    /// [`PairTable::find_guarded`](crate::table::PairTable::find_guarded).
    #[inline(never)]
    fn find_copied<T: KeyTest + Copy>(&self, word: u64, test: T) -> Option<u64> {
        self.find_slowly(word, &test)
    }

    #[inline(never)]
    fn find_slowly<T: KeyTest>(&self, word: u64, test: &T) -> Option<u64> {
        let hash = self.codec.hash(word);
        let mut known = KeyTestAnswers::default();
        loop {
            let answering = MemoisedKeyTest::new(test, &known);
            let pin = self.enter();
            let found = self.find_anywhere(self.root(&pin), hash, word, &answering);
            drop(pin);
            match answering.unknown() {
                None => return found,
                // Asks the test while this thread holds nothing and has announced nothing.
                Some(second) => known.insert(second, test.accepts(second)),
            }
        }
    }

    /// Looks a key up in the bin of an index and behind its first link. Returns `None` if the bin is
    /// not open, has further links or has changed meanwhile.
    ///
    /// Each slot has a branch, which waits until the bin arrives from memory, and which is mispredicted
    /// every second time. Until then the processor runs on into the lookups that follow, and asks for
    /// their lines. So what counts is how few instructions stand between two lookups (figures in
    /// `docs/measurements.md`).
    #[inline(always)]
    fn look_nearby(&self, index: &Index, hash: u64, word: u64) -> Option<Option<u64>> {
        let tag = self.codec.tag(word, hash);
        let offset = index.offset_of::<P>(hash);
        let bin = kept(index.bins.at_offset(offset));
        // Acquire: the slots are at least as new as the header.
        let header = Header(bin.header.load(Ordering::Acquire));
        // A snapshot leaves the pairs of moved bins where they are, and later changes are in the next index.
        if !header.is_open() && !seeded(Bug::LookInAnyState) {
            return None;
        }
        // Invariant 4 of the table: under one version a slot has one owner, so two loads read a pair.
        let hit = |slot: &Slot| {
            let second = slot.load_second(DATA);
            still(bin, header, Bug::HitWithoutHeaderRecheck).then_some(Some(second))
        };
        let [a, b, c] = &bin.slots;
        if bin.slot_has_tag::<0>(tag) {
            return hit(a);
        }
        if bin.slot_has_tag::<1>(tag) {
            return hit(b);
        }
        if bin.slot_has_tag::<2>(tag) {
            return hit(c);
        }
        if header.has_linked_slots() {
            // Acquire: pairs with the release that chains a link.
            let half = index.first_link_of(offset, bin.links.load(Ordering::Acquire))?;
            let [d, e] = &half.slots;
            if half.slot_has_tag::<0>(tag) {
                return hit(d);
            }
            if half.slot_has_tag::<1>(tag) {
                return hit(e);
            }
            if header.has_slots_of_further_links() {
                return None;
            }
        }
        still(bin, header, Bug::MissWithoutHeaderRecheck).then_some(None)
    }

    /// Looks a tag up in the bin at this offset and behind its first link. Returns `None` if the bin is
    /// not open, has further links or has changed meanwhile.
    ///
    /// In a batch the bin has arrived already, so a misprediction gains nothing and costs its
    /// instructions: there is no branch on the slot.
    #[inline(always)]
    pub(super) fn look_at_bin(index: &Index, offset: usize, tag: u64) -> Option<Option<u64>> {
        let bin = index.bins.at_offset(offset);
        let Probe { header, is_found, second } = probe(bin, tag);
        let bug = match is_found {
            true => Bug::HitWithoutHeaderRecheck,
            false => Bug::MissWithoutHeaderRecheck,
        };
        // These branches do not depend on the slot and are nearly always predicted.
        if !header.is_open() || !still(bin, header, bug) {
            return None;
        }
        if is_found {
            return Some(Some(second));
        }
        if header.has_linked_slots() {
            return Self::look_behind_first_link(index, (offset, tag), header);
        }
        Some(None)
    }

    /// Looks a key up in all slots, all states of the bin, the next index and the overflow.
    #[inline(never)]
    pub(super) fn find_anywhere<T: KeyTest>(
        &self,
        mut index: &Index,
        hash: u64,
        word: u64,
        test: &T,
    ) -> Option<u64> {
        let tag = self.codec.tag(word, hash);
        let mut backoff = Backoff::new();
        loop {
            let at = self.place(hash, index);
            let bin = index.bins.at(at);
            // Acquire: the slots are at least as new as the header. If the bin has moved, the next
            // index has all of its keys.
            let header = Header(bin.header.load(if seeded(Bug::MovedRelaxed) {
                Ordering::Relaxed
            } else {
                Ordering::Acquire
            }));
            if header.state() == BinState::Moved {
                index = self.successor(index);
                continue;
            }
            match scan(index, at, bin, header, tag, test, Sought::PRESENT) {
                Scan::Hit { second, .. } => return Some(second),
                Scan::Changed | Scan::Pending(_) | Scan::Hidden(..) => continue,
                Scan::Miss if !still(bin, header, Bug::MissWithoutHeaderRecheck) => continue,
                Scan::Miss => {}
            }
            match header.state() {
                BinState::Open => return None,
                // The mover takes keys out of the bin before it stores them in the next index.
                BinState::InTransfer if !seeded(Bug::MissDuringTransfer) => backoff.wait(),
                BinState::Special if bin.links.load(Ordering::Acquire) & DELEGATED != 0 => {
                    if let Some(found) = self.find_in_overflow(index, at, tag, test) {
                        return found;
                    }
                }
                _ => return None,
            }
        }
    }

    /// Returns the index that the bins of an index move to.
    pub(super) fn successor<'i>(&self, index: &'i Index) -> &'i Index {
        match index.migration() {
            Migrating::To(migration) => &migration.target,
            _ => unreachable!("a bin has moved and there is no migration"),
        }
    }
}

/// An operation on one key: the change of a present key, and the value word to insert for an absent
/// one.
#[derive(Clone, Copy)]
pub(super) struct Request<'r, T, F> {
    pub(super) hash: u64,
    pub(super) tag: u64,
    pub(super) test: &'r T,
    pub(super) fresh: Option<u64>,
    /// Whether the key is inserted hidden.
    pub(super) hides: bool,
    pub(super) change: &'r F,
}

/// What a scan looks for besides a present key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sought {
    /// Whether claimed slots that are empty count: one look at a slot must show that it neither
    /// holds the key nor is about to.
    pub(super) pending: bool,
    /// The hidden word if a hidden key counts; zero if not.
    pub(super) hidden: u64,
}

impl Sought {
    pub(super) const PRESENT: Self = Self { pending: false, hidden: 0 };
}

/// Looks for a key in the claimed slots. The header is checked before the value word is tested, so
/// that the test may follow the word to an entry.
#[inline(always)]
pub(super) fn scan<'i, T: KeyTest>(
    index: &'i Index,
    at: usize,
    bin: &'i Bin,
    header: Header,
    tag: u64,
    test: &T,
    sought: Sought,
) -> Scan<'i> {
    // Acquire: pairs with the release that chains a link. The link of a claimed slot was chained
    // before the claim.
    let links = if header.has_linked_slots() { bin.links.load(Ordering::Acquire) } else { 0 };
    let (mut pending, mut hidden) = (None, None);
    for number in header.claimed(0) {
        let slot = index.slot(at, bin, links, number);
        // Acquire: pairs with the publication of the tag.
        let first = slot.load_first(Ordering::Acquire);
        if sought.pending && first == 0 {
            pending = Some(slot);
        }
        if sought.hidden != 0 && first == sought.hidden {
            // Acquire: if this is the value of a commit, the load of the tag word below (relaxed)
            // shows the commit.
            let second = slot.load_second(Ordering::Acquire);
            if second == tag {
                hidden = Some((slot, number));
            } else if slot.load_first(Ordering::Relaxed) != first
                && !seeded(Bug::HiddenWithoutRecheck)
            {
                return Scan::Changed;
            }
        }
        if first == tag {
            let second = slot.load_second(DATA);
            if !still(bin, header, Bug::HitWithoutHeaderRecheck) {
                return Scan::Changed;
            }
            if test.accepts(second) {
                return Scan::Hit { slot, number, second };
            }
        }
    }
    match (pending, hidden) {
        (Some(slot), _) if !seeded(Bug::ScanIgnoresPending) => Scan::Pending(slot),
        (_, Some((slot, number))) => Scan::Hidden(slot, number),
        _ => Scan::Miss,
    }
}
