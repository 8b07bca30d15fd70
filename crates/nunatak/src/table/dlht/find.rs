//! Looking keys up.

use super::Table;
use super::index::{Index, Migrating};
use super::layout::{Bin, BinState, DELEGATED, Header, Slot};
use super::probe::{Probe, probe};
use crate::hash::HashCodec;
use crate::memory::prefetch::prefetch;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, DATA, FastPin, GuardPin, Mode, Ordering, fence};
use crate::table::KeyTest;
use crate::table::shared::memoised_key_test::{KeyTestAnswers, MemoisedKeyTest};
use crate::table::stages::Lookups;

/// What a scan of a bin came to.
pub(super) enum Scan<'i> {
    /// The key, in this slot, with this value while the header was unchanged.
    Hit { slot: &'i Slot, number: usize, second: u64 },
    /// In none of the claimed slots. Only true if the header is unchanged.
    Miss,
    /// In none of the claimed slots, but this one may be about to become it.
    Pending(&'i Slot),
    /// Hidden in one of the claimed slots. Only true if the header is unchanged.
    Hidden(&'i Slot, usize),
    /// The header has changed meanwhile.
    Changed,
}

impl<P: HashCodec, Y: Mode> Lookups for Table<P, Y> {
    /// The value word of a key. Touches one cache line if the key's bin has no
    /// links, and writes none that other threads use.
    #[inline(always)]
    fn find<T: KeyTest>(&self, word: u64, test: &T) -> Option<u64> {
        let hash = self.codec.hash(word);
        let pin = if Y::SHARED { FastPin::new() } else { None };
        if pin.is_some() || !Y::SHARED {
            // Acquire: pairs with the release that publishes an index.
            // SAFETY: as in `root`: the operation is announced, or the table
            // belongs to this thread.
            let index = unsafe { &*self.root.load(Ordering::Acquire) };
            // A pin is fast only where pairs are loaded whole.
            let first = match Y::SHARED || index.pairs_load_whole {
                true => self.look_in_first_bucket(index, hash, word),
                false => None,
            };
            // Before the key is tested, which may run the caller's code: a guard keeps what the
            // value word points to, and nothing of the index is touched any more.
            drop(pin);
            if let Some(found) = Self::tested(first, test) {
                return found;
            }
        }
        // From the start, so that the common case has nothing to save for it.
        self.find_slowly(word, test)
    }

    /// The same under a guard of this table, which is announced already.
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
        // SAFETY: (R2, R7) an index that was at the root while a guard was announced outlives it, but
        // for what this thread does itself, in a key's test, and then it is not touched again
        // (invariant 7).
        let index = unsafe { &*self.root.load(Ordering::Acquire) };
        let first = match index.pairs_load_whole {
            true => self.look_in_first_bucket(index, hash, word),
            false => None,
        };
        match Self::tested(first, &test) {
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
    /// What was found in the first bucket, if it is the key's. If it is another key's of this
    /// word, the key may be anywhere.
    #[inline(always)]
    fn tested<T: KeyTest>(first: Option<Option<u64>>, test: &T) -> Option<Option<u64>> {
        match first {
            Some(Some(second)) => (T::BY_WORD || test.accepts(second)).then_some(Some(second)),
            other => other,
        }
    }

    /// By value: see [`PairTable::find_guarded`](crate::table::PairTable::find_guarded).
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
                // While nothing is held and nothing announced.
                Some(second) => known.insert(second, test.accepts(second)),
            }
        }
    }

    /// For a test that runs no code of the caller's: an operation is announced.
    #[inline(always)]
    pub(super) fn find_at<T: KeyTest>(
        &self,
        index: &Index,
        hash: u64,
        word: u64,
        test: &T,
    ) -> Option<u64> {
        debug_assert!(!T::RUNS_CALLERS_CODE, "an operation is announced");
        if index.pairs_load_whole
            && let Some(found) = Self::tested(self.look_in_first_bucket(index, hash, word), test)
        {
            return found;
        }
        self.find_anywhere(index, hash, word, test)
    }

    /// What has the word in the first bucket, or the miss in a bin without links, without
    /// a branch that depends on which slot it is: such a branch is mispredicted
    /// every second time, and keeps the processor from starting the next lookup.
    #[inline(always)]
    fn look_in_first_bucket(&self, index: &Index, hash: u64, word: u64) -> Option<Option<u64>> {
        let tag = self.codec.tag(word, hash);
        // SAFETY: the processor is asked before anyone comes here.
        let probe = unsafe { probe(index.bin_of::<P>(hash), tag) };
        // Some other branch than on the slot: this one is nearly always taken
        // or nearly never.
        if probe.is(Probe::ONE) {
            return Some(Some(probe.second));
        }
        if probe.is(Probe::NONE) && !probe.header().has_linked_slots() {
            return Some(None);
        }
        None
    }

    /// The lookup in full: all slots, all states, the next index.
    #[inline(never)]
    fn find_anywhere<T: KeyTest>(
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
            // Acquire: as above; and a bin that moved is whole in the next index.
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
                // Keys vanish from the bin before they are in the next one.
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

    /// Where the bins of an index move to.
    pub(super) fn successor<'i>(&self, index: &'i Index) -> &'i Index {
        match index.migration() {
            Migrating::To(migration) => &migration.target,
            _ => unreachable!("a bin has moved and there is no migration"),
        }
    }
}

/// Whether a header is what it was when it was loaded first, so that all that
/// was read since belongs together.
#[inline(always)]
pub(super) fn still(bin: &Bin, header: Header, bug: Bug) -> bool {
    if !seeded(Bug::HeaderRecheckRelaxed) {
        // Pairs with the release fence between a claim and the stores to the
        // slot: who has read of them finds the claim.
        fence(Ordering::Acquire);
    }
    seeded(bug) || bin.header.load(Ordering::Relaxed) == header.0
}

/// What a scan takes notice of beside a key that is present.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sought {
    /// Claimed slots that are empty: the same look must find a slot not to be the key and
    /// not about to become it.
    pub(super) pending: bool,
    /// The word that hides keys, if a hidden one counts; zero if not.
    pub(super) hidden: u64,
}

impl Sought {
    pub(super) const PRESENT: Self = Self { pending: false, hidden: 0 };
}

/// Looks for a key in the claimed slots. A value is validated before it is
/// tested, so that a test may follow it to an entry.
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
    // Acquire: pairs with the release that chains a link; a slot that the
    // header shows claimed was chained before.
    let links = if header.has_linked_slots() { bin.links.load(Ordering::Acquire) } else { 0 };
    let (mut pending, mut hidden) = (None, None);
    for number in header.claimed(0) {
        let slot = index.slot(at, bin, links, number);
        // Acquire: pairs with the publication.
        let first = slot.load_first(Ordering::Acquire);
        if sought.pending && first == 0 {
            pending = Some(slot);
        }
        if sought.hidden != 0 && first == sought.hidden {
            // Acquire: if it is a value that was shown with it, the first word shows so, which is
            // loaded after it (relaxed).
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
