//! One probe of the first bucket of a bin, all of it at once, for batches.
//!
//! A batch looks at a bin when it has arrived. A branch on the slot would be mispredicted every second
//! time and gain nothing. So a probe has no branch; it consists of vector instructions and leaves two
//! integers (figures in `docs/measurements.md`).
//!
//! Invariants
//! 1. The pair of a [`Probe::ONE`] was published with the tag, in a claimed slot, while the header
//!    was that of an open bin. At a [`Probe::NONE`] no pair of the bucket had the tag.
//! 2. A word that is loaded after a probe is at least as new as the words that the probe saw.

use super::layout::{Bin, Header};
use crate::seeded::{Bug, seeded};
use crate::sync::{Ordering, fence};

/// The result of a probe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    outcome: i32,
    /// The value word of [`Probe::ONE`].
    pub(super) second: u64,
    header: HeaderWord,
}

impl Probe {
    /// One pair has the tag.
    pub(super) const ONE: i32 = -1;
    /// No pair has the tag. Any other value: several pairs have it, or the header has changed or is
    /// not an open bin's.
    pub(super) const NONE: i32 = -1 << 16;

    #[inline(always)]
    pub(super) fn is(&self, outcome: i32) -> bool {
        self.outcome == outcome
    }

    /// Returns the header as it was before the slots were loaded.
    #[inline(always)]
    pub(super) fn header(&self) -> Header {
        Header(self.header.word())
    }
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
    seeded(bug) || bin.header.load(Ordering::Relaxed) == header.0
}

#[cfg(x86_64_assembly)]
mod by_vectors {
    use super::{Bin, Header, Probe};
    use crate::sync::{Ordering, fence};
    use core::arch::x86_64::__m128i;

    /// The header in a vector, so that only callers that need it take it out.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct HeaderWord(__m128i);

    impl HeaderWord {
        #[inline(always)]
        pub(super) fn word(self) -> u64 {
            // SAFETY: both types have 16 bytes, and every bit pattern is valid for both.
            let [word, _]: [u64; 2] = unsafe { core::mem::transmute(self.0) };
            word
        }
    }

    /// Looks for a tag, which is not zero.
    ///
    /// Has no branch. Only the last integer instructions wait for memory.
    ///
    /// # Safety
    /// [`pairs_load_whole`](crate::sync::pairs_load_whole) has returned true.
    #[inline(always)]
    pub(in super::super) unsafe fn probe(bin: &Bin, tag: u64) -> Probe {
        let (outcome, second): (i32, u64);
        let header: __m128i;
        // SAFETY: both types have 16 bytes, and every bit pattern is valid for both.
        let state: __m128i = unsafe { core::mem::transmute([Header::STATE, 0]) };
        // The processor keeps loads in order. On every processor with AVX each of these loads is
        // one access of 16 aligned bytes.
        // SAFETY: the block reads the 64 aligned bytes of the bin, changes no flags, and needs AVX,
        // which the caller promises.
        unsafe {
            core::arch::asm!(
                "vmovq {header}, qword ptr [{bin}]",
                "vmovq {tags}, {tag}",
                "vpunpcklqdq {tags}, {tags}, {tags}",
                "vmovdqa {a}, xmmword ptr [{bin} + 16]",
                "vmovdqa {b}, xmmword ptr [{bin} + 32]",
                "vmovdqa {c}, xmmword ptr [{bin} + 48]",
                "vmovq {again}, qword ptr [{bin}]",
                "vpcmpeqq {is_a}, {tags}, {a}",
                "vpcmpeqq {is_b}, {tags}, {b}",
                "vpcmpeqq {is_c}, {tags}, {c}",
                // The comparison of the first words decides for both words of a pair.
                "vpunpcklqdq {is_a}, {is_a}, {is_a}",
                "vpunpcklqdq {is_b}, {is_b}, {is_b}",
                "vpunpcklqdq {is_c}, {is_c}, {is_c}",
                "vpand {a}, {a}, {is_a}",
                "vpand {b}, {b}, {is_b}",
                "vpand {c}, {c}, {is_c}",
                "vpor {a}, {a}, {b}",
                "vpor {a}, {a}, {c}",
                // Minus one for each match in the lower half of `outcome`,
                "vpaddq {is_a}, {is_a}, {is_b}",
                "vpaddq {is_a}, {is_a}, {is_c}",
                // ones in the higher half if the header is unchanged and its state is open.
                "vpandn {state}, {state}, {header}",
                "vpcmpeqq {again}, {again}, {state}",
                "vpblendw {is_a}, {is_a}, {again}, 2",
                "vmovd {outcome:e}, {is_a}",
                "vpextrq {second}, {a}, 1",
                bin = in(reg) core::ptr::from_ref(bin),
                tag = in(reg) tag,
                outcome = lateout(reg) outcome,
                second = lateout(reg) second,
                header = out(xmm_reg) header,
                state = inout(xmm_reg) state => _,
                again = out(xmm_reg) _,
                tags = out(xmm_reg) _,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                is_a = out(xmm_reg) _,
                is_b = out(xmm_reg) _,
                is_c = out(xmm_reg) _,
                options(nostack, readonly, preserves_flags),
            );
        }
        // Acquire: invariant 2. The fence is no instruction. But the compiler could move the
        // caller's next load before the block above, which only reads.
        fence(Ordering::Acquire);
        Probe { outcome, second, header: HeaderWord(header) }
    }
}

#[cfg(not(x86_64_assembly))]
mod by_words {
    use super::{Bin, Header, Probe, still};
    use crate::seeded::Bug;
    use crate::sync::{DATA, Ordering};
    use core::hint::select_unpredictable;

    #[derive(Debug, Clone, Copy)]
    pub(super) struct HeaderWord(Header);

    impl HeaderWord {
        pub(super) fn word(self) -> u64 {
            self.0.0
        }
    }

    /// Looks for a tag like the vector version, by loads of one word.
    ///
    /// # Safety
    /// This version has no requirement.
    #[inline(always)]
    pub(in super::super) unsafe fn probe(bin: &Bin, tag: u64) -> Probe {
        // Acquire: the slots are at least as new as the header.
        let header = Header(bin.header.load(Ordering::Acquire));
        // Selects without a branch: a branch on the slot is mispredicted every second time.
        // Relaxed: the word that counts is loaded again.
        let is = [0, 1, 2].map(|at: usize| bin.slots[at].load_first(Ordering::Relaxed) == tag);
        let at = select_unpredictable(is[1], 1, 0);
        let at: usize = select_unpredictable(is[2], 2, at);
        let count: i32 = is.into_iter().map(i32::from).sum();
        // Acquire: pairs with the publication, so that the second word is at least as new as the
        // first.
        let is_one = bin.slots[at].load_first(Ordering::Acquire) == tag && count == 1;
        let second = bin.slots[at].load_second(DATA);
        // If the pair has changed, it may not have been the only match.
        let is_told = count == 0 || is_one;
        let is_current = header.is_open() && still(bin, header, Bug::HitWithoutHeaderRecheck);
        let outcome = match count {
            _ if !(is_told && is_current) => 0,
            0 => Probe::NONE,
            _ => Probe::ONE,
        };
        Probe { outcome, second, header: HeaderWord(header) }
    }
}

#[cfg(x86_64_assembly)]
use by_vectors::HeaderWord;
#[cfg(x86_64_assembly)]
pub(super) use by_vectors::probe;
#[cfg(not(x86_64_assembly))]
use by_words::HeaderWord;
#[cfg(not(x86_64_assembly))]
pub(super) use by_words::probe;

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::sync::{Ordering::Relaxed, pairs_load_whole};

    #[test]
    fn one_is_told_from_none_and_from_several() {
        // Three times the second tag is that tag, modulo 2^64.
        for tag in [5, 1 << 63, u64::MAX] {
            for having in 0..8_u64 {
                let bin = Bin::default();
                for (at, slot) in (0_u64..).zip(&bin.slots) {
                    let first = if having >> at & 1 == 1 { tag } else { tag ^ 1 << (8 * at) };
                    slot.store_first(first, Relaxed);
                    slot.store_second(at << 48 | tag, Relaxed);
                }
                for header in [Header(0), Header(0x15), Header(!Header::STATE)] {
                    bin.header.store(header.0, Relaxed);
                    if !pairs_load_whole() {
                        return;
                    }
                    // SAFETY: `pairs_load_whole` has returned true above.
                    let probe = unsafe { probe(&bin, tag) };
                    assert_eq!(probe.is(Probe::ONE), having.count_ones() == 1, "{tag} {having}");
                    assert_eq!(probe.is(Probe::NONE), having == 0, "{tag} {having}");
                    assert_eq!(probe.header(), header);
                    if probe.is(Probe::ONE) {
                        let at = u64::from(having.trailing_zeros());
                        assert_eq!(probe.second, at << 48 | tag);
                    }
                }
                for state in [1 << 30, 2 << 30, 3 << 30] {
                    bin.header.store(u64::MAX << 32 | state, Relaxed);
                    // SAFETY: `pairs_load_whole` has returned true above.
                    let probe = unsafe { probe(&bin, tag) };
                    assert!(!probe.is(Probe::ONE) && !probe.is(Probe::NONE));
                }
            }
        }
    }
}

/// A probe in which a signal follows every instruction; the signal's handler plays the other
/// thread. Real signals fall too seldom between two of these loads.
#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
#[cfg(not(any(loom, shuttle, miri, nunatak_tsan)))]
mod stepped {
    use super::super::layout::BinState;
    use super::*;
    use crate::sync::pairs_load_whole;
    use core::ffi::c_int;
    use core::sync::atomic::Ordering::Relaxed;
    use core::sync::atomic::{AtomicPtr, AtomicUsize};

    static BIN: AtomicPtr<Bin> = AtomicPtr::new(core::ptr::null_mut());
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    /// The step after which a transfer begins, and the step after which it is taken back.
    static CHANGES: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

    const TAG: u64 = 7;

    extern "C" fn step(_signal: c_int) {
        let step = STEPS.fetch_add(1, Relaxed);
        // SAFETY: `BIN` points to the bin of `look_by_steps`, which lives while it makes steps.
        let bin = unsafe { &*BIN.load(Relaxed) };
        let header = Header(bin.header.load(Relaxed));
        if step == CHANGES[0].load(Relaxed) {
            // A transfer takes keys out of a bin before they are in the next one.
            bin.header.store(header.with_state(BinState::InTransfer).0, Relaxed);
            bin.slots[1].store_first(0, Relaxed);
        }
        if step == CHANGES[1].load(Relaxed) {
            bin.slots[1].store_first(TAG, Relaxed);
            bin.header.store(header.with_state(BinState::Open).0, Relaxed);
        }
    }

    /// Returns the result of the probe, and the number of its steps.
    fn look_by_steps(changes: [usize; 2]) -> (Probe, usize) {
        let mut bin = Bin::default();
        bin.slots[1].store_second(49, Relaxed);
        bin.slots[1].store_first(TAG, Relaxed);
        BIN.store(&raw mut bin, Relaxed);
        STEPS.store(0, Relaxed);
        changes.iter().zip(&CHANGES).for_each(|(&step, change)| change.store(step, Relaxed));
        // SAFETY: the test has checked `pairs_load_whole`. The trap flag makes the processor trap
        // after each instruction until the flag is cleared. Only the handler changes anything
        // meanwhile.
        let probe = unsafe {
            core::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
            let probe = probe(&*BIN.load(Relaxed), TAG);
            core::arch::asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq");
            probe
        };
        (probe, STEPS.load(Relaxed))
    }

    #[test]
    fn a_transfer_between_two_instructions_is_not_taken_for_an_absence() {
        if !pairs_load_whole() {
            return;
        }
        // SAFETY: `step` has a handler's signature, and touches atomics only.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = step as extern "C" fn(c_int) as usize;
            assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, core::ptr::null_mut()), 0);
        }
        let never = usize::MAX;
        let (probe, steps) = look_by_steps([never; 2]);
        assert!(probe.is(Probe::ONE) && probe.second == 49 && steps > 25, "{steps}");
        let mut outcomes = [0; 2];
        for begun in 0..steps {
            for ended in (begun + 1..steps).chain([never]) {
                let (probe, _) = look_by_steps([begun, ended]);
                assert!(!probe.is(Probe::NONE), "{begun} to {ended} of {steps}");
                outcomes[usize::from(probe.is(Probe::ONE) && probe.second == 49)] += 1;
            }
        }
        // Changes before the first load or after the last load do not invalidate the probe.
        assert!(outcomes.iter().all(|&count| count > 0), "{outcomes:?}");
    }
}
