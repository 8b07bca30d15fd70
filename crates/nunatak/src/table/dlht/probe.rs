//! One look at all slots of the first bucket of a bin, for batches.
//!
//! A batch looks at a bin when it has arrived. A branch on the slot would be mispredicted every second
//! time and gain nothing. So this has none (figures in `docs/measurements.md`).
//!
//! Invariants
//! 1. The words of a slot that a probe names belong together, if the header is the same afterwards: by
//!    invariant 4 of the [table](super), under one version a slot has one owner.
//! 2. A word that is loaded after a probe is at least as new as the words that the probe saw.

use super::layout::{Bin, Header};
use crate::seeded::{Bug, seeded};
use crate::sync::{Ordering, fence};

/// The result of a probe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    /// The header as it was before the slots were loaded.
    pub(super) header: Header,
    /// Whether a slot has the tag.
    pub(super) is_found: bool,
    /// The value word of the last slot that has the tag.
    pub(super) second: u64,
}

/// Returns whether a header is unchanged, so that all words read since its first load belong
/// together.
#[inline(always)]
pub(super) fn still(bin: &Bin, header: Header, bug: Bug) -> bool {
    if !seeded(Bug::HeaderRecheckRelaxed) {
        // Pairs with the release fence between a claim and the stores to the slot: a reader that
        // has seen one of these stores finds the claim.
        fence(Ordering::Acquire);
    }
    seeded(bug) || bin.has_header(header)
}

#[cfg(x86_64_assembly)]
mod by_moves {
    use super::{Bin, Header, Probe};
    use crate::sync::{Ordering, fence};
    use core::ptr;

    /// Looks for a tag, which is not zero. (Compilers make twenty-two instructions of the other
    /// version: they add each address by itself and keep each comparison as a number.)
    #[inline(always)]
    pub(in super::super) fn probe(bin: &Bin, tag: u64) -> Probe {
        let header: u64;
        let slot: *const u8;
        let second: u64;
        let bin = ptr::from_ref(bin).cast::<u8>();
        // The processor keeps loads in order.
        // SAFETY: the block reads aligned words of the bin. `slot` is the bin's address, behind which
        // its links are, or the address of one of its slots, behind which the slot's second word is.
        unsafe {
            core::arch::asm!(
                "mov {header}, qword ptr [{bin}]",
                "mov {slot}, {bin}",
                "lea {next}, [{bin} + 16]",
                "cmp qword ptr [{next}], {tag}",
                "cmove {slot}, {next}",
                "lea {next}, [{bin} + 32]",
                "cmp qword ptr [{next}], {tag}",
                "cmove {slot}, {next}",
                "lea {next}, [{bin} + 48]",
                "cmp qword ptr [{next}], {tag}",
                "cmove {slot}, {next}",
                "mov {second}, qword ptr [{slot} + 8]",
                bin = in(reg) bin,
                tag = in(reg) tag,
                header = out(reg) header,
                slot = out(reg) slot,
                next = out(reg) _,
                second = lateout(reg) second,
                options(nostack, readonly),
            );
        }
        // Acquire: invariant 2. The fence is no instruction. But the compiler could move the
        // caller's next load before the block above, which only reads.
        fence(Ordering::Acquire);
        Probe { header: Header(header), is_found: slot != bin, second }
    }
}

#[cfg(any(not(x86_64_assembly), test))]
mod by_words {
    use super::{Bin, Header, Probe};
    use crate::sync::{DATA, Ordering};
    use core::hint::select_unpredictable;

    /// Looks for a tag, which is not zero.
    #[inline(always)]
    #[cfg_attr(x86_64_assembly, allow(dead_code, reason = "tests compare it"))]
    pub(in super::super) fn probe(bin: &Bin, tag: u64) -> Probe {
        // Acquire: the slots are at least as new as the header.
        let header = Header(bin.header.load(Ordering::Acquire));
        let [a, b, c] = &bin.slots;
        // Acquire: pairs with the publication, so that the second word is at least as new as the
        // first.
        let [is_a, is_b, is_c] = [a, b, c].map(|slot| slot.load_first(Ordering::Acquire) == tag);
        let slot = select_unpredictable(is_c, c, select_unpredictable(is_b, b, a));
        Probe { header, is_found: is_a | is_b | is_c, second: slot.load_second(DATA) }
    }
}

#[cfg(x86_64_assembly)]
pub(super) use by_moves::probe;
#[cfg(not(x86_64_assembly))]
pub(super) use by_words::probe;

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::sync::Ordering::Relaxed;

    #[test]
    fn the_last_slot_that_has_the_tag_is_found() {
        for tag in [5, 1 << 63, u64::MAX] {
            for having in 0..8_u64 {
                let bin = Bin::default();
                for (at, slot) in (0_u64..).zip(&bin.slots) {
                    let first = if having >> at & 1 == 1 { tag } else { tag ^ 1 << (8 * at) };
                    slot.store_first(first, Relaxed);
                    slot.store_second(at << 48 | tag, Relaxed);
                }
                for header in [Header(0), Header(0x15), Header(!Header::STATE), Header(u64::MAX)] {
                    bin.header.store(header.0, Relaxed);
                    for probe in [probe(&bin, tag), by_words::probe(&bin, tag)] {
                        assert_eq!(probe.header, header);
                        assert_eq!(probe.is_found, having != 0, "{tag} {having}");
                        if having != 0 {
                            let last = u64::from(having.ilog2());
                            assert_eq!(probe.second, last << 48 | tag);
                        }
                    }
                }
            }
        }
    }
}

/// A look at a bin in which a signal follows every instruction; the signal's handler plays the other
/// thread. Real signals fall too seldom between two of these loads.
#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
#[cfg(not(any(loom, shuttle, miri, nunatak_tsan)))]
mod stepped {
    use super::super::layout::BinState;
    use super::*;
    use core::ffi::c_int;
    use core::sync::atomic::Ordering::Relaxed;
    use core::sync::atomic::{AtomicPtr, AtomicUsize};
    use parking_lot::Mutex;

    static BIN: AtomicPtr<Bin> = AtomicPtr::new(core::ptr::null_mut());
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    /// The steps after which the other thread changes the bin.
    static CHANGES: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    /// What the other thread does: a function of the bin and the number of the change.
    static CHANGE: Mutex<fn(&Bin, usize)> = Mutex::new(|_, _| {});
    /// One test makes steps at a time.
    static TURN: Mutex<()> = Mutex::new(());

    const TAG: u64 = 7;

    extern "C" fn step(_signal: c_int) {
        let step = STEPS.fetch_add(1, Relaxed);
        // SAFETY: `BIN` points to the bin of `look_by_steps`, which lives while it makes steps.
        let bin = unsafe { &*BIN.load(Relaxed) };
        for (number, change) in CHANGES.iter().enumerate() {
            if step == change.load(Relaxed) {
                CHANGE.lock()(bin, number);
            }
        }
    }

    /// Looks at a bin whose second slot holds a key of value 49, while another thread makes changes
    /// after these steps. Returns what was found, or `None` if the header was another one afterwards;
    /// and the number of steps.
    fn look_by_steps(change: fn(&Bin, usize), after: [usize; 2]) -> (Option<Option<u64>>, usize) {
        let mut bin = Bin::default();
        bin.header.store(Header(0).with_claimed(1).0, Relaxed);
        bin.slots[1].store_second(49, Relaxed);
        bin.slots[1].store_first(TAG, Relaxed);
        BIN.store(&raw mut bin, Relaxed);
        STEPS.store(0, Relaxed);
        *CHANGE.lock() = change;
        after.iter().zip(&CHANGES).for_each(|(&step, change)| change.store(step, Relaxed));
        // SAFETY: the trap flag makes the processor trap after each instruction until the flag is
        // cleared. Only the handler changes anything meanwhile.
        let found = unsafe {
            core::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
            let bin = &*BIN.load(Relaxed);
            let Probe { header, is_found, second } = probe(bin, TAG);
            let is_final = header.is_open() && still(bin, header, Bug::HitWithoutHeaderRecheck);
            let found = is_final.then_some(is_found.then_some(second));
            core::arch::asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq");
            found
        };
        (found, STEPS.load(Relaxed))
    }

    /// Returns the results of looks with changes after all pairs of steps.
    fn all_looks(change: fn(&Bin, usize)) -> Vec<Option<Option<u64>>> {
        let _turn = TURN.lock();
        // SAFETY: `step` has a handler's signature, and touches atomics and a lock that its thread
        // never holds while it makes steps.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = step as extern "C" fn(c_int) as usize;
            assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, core::ptr::null_mut()), 0);
        }
        let never = usize::MAX;
        let (found, steps) = look_by_steps(change, [never; 2]);
        assert!(found == Some(Some(49)) && steps > 15, "{found:?} after {steps}");
        let pairs = (0..steps)
            .flat_map(|first| (first + 1..steps).chain([never]).map(move |second| [first, second]));
        pairs.map(|after| look_by_steps(change, after).0).collect()
    }

    fn count(all: &[Option<Option<u64>>], result: Option<Option<u64>>) -> usize {
        all.iter().filter(|&&found| found == result).count()
    }

    #[test]
    fn a_transfer_between_two_instructions_is_not_taken_for_an_absence() {
        let all = all_looks(|bin, number| {
            let header = Header(bin.header.load(Relaxed));
            if number == 0 {
                // A transfer takes keys out of a bin before they are in the next one.
                bin.header.store(header.with_state(BinState::InTransfer).0, Relaxed);
                bin.slots[1].store_first(0, Relaxed);
            } else {
                // It is taken back.
                bin.slots[1].store_first(TAG, Relaxed);
                bin.header.store(header.with_state(BinState::Open).0, Relaxed);
            }
        });
        assert_eq!(count(&all, Some(None)), 0);
        // Changes before the first load or after the last load do not invalidate the look.
        assert!(count(&all, Some(Some(49))) > 0 && count(&all, None) > 0);
        assert_eq!(count(&all, Some(Some(49))) + count(&all, None), all.len());
    }

    #[test]
    fn a_value_of_another_key_in_the_same_slot_is_not_taken_for_the_keys() {
        let all = all_looks(|bin, number| {
            let header = Header(bin.header.load(Relaxed));
            // The key's slot goes to another key, and then back with another value.
            let (tag, value) = [(TAG + 1, 50), (TAG, 51)][number];
            bin.slots[1].store_first(0, Relaxed);
            bin.header.store(header.with_state(BinState::Open).0, Relaxed);
            bin.slots[1].store_second(value, Relaxed);
            bin.slots[1].store_first(tag, Relaxed);
        });
        assert_eq!(count(&all, Some(Some(50))), 0);
        let seen = [Some(Some(49)), Some(None), Some(Some(51)), None];
        assert!(seen.iter().all(|&result| count(&all, result) > 0), "{all:?}");
        assert_eq!(seen.iter().map(|&result| count(&all, result)).sum::<usize>(), all.len());
    }
}
