//! Copies words that other threads may be storing meanwhile.

use super::{AtomicU64, DATA};

/// Copies words, each as it was at some instant, to uninitialised memory for as many. Copies
/// vectors of two words if `whole` says that the processor loads such a pair at once, as
/// [`pairs_load_whole`](super::pairs_load_whole) tells.
///
/// # Safety
/// `to` may be written to for as many words, and is aligned for them.
#[inline(always)]
pub(crate) unsafe fn copy_words(from: &[AtomicU64], to: *mut u64, whole: bool) {
    // SAFETY: the caller's promise.
    let copied = unsafe { lines::copy(from, to, whole) };
    for (at, word) in from.iter().enumerate().skip(copied) {
        // SAFETY: the caller's promise.
        unsafe { to.add(at).write(word.load(DATA)) };
    }
}

#[cfg(x86_64_assembly)]
mod lines {
    use super::{AtomicU64, DATA};
    use crate::memory::prefetch::prefetch;

    const LINE: usize = 8;

    /// The prefetch distance: 3.0 billion words a second of lists that no cache holds; with 24
    /// lines 2.4, without prefetches 2.3; one word at a time 1.2.
    const AHEAD: usize = 64 * LINE;

    /// Copies words from the first one up to some line, and returns their number.
    ///
    /// # Safety
    /// As of [`copy_words`](super::copy_words); the processor has AVX if `whole` says so.
    #[inline(always)]
    pub(super) unsafe fn copy(from: &[AtomicU64], to: *mut u64, whole: bool) -> usize {
        let mut copied = 0;
        if !whole {
            return copied;
        }
        // One by one up to where a vector is aligned.
        while copied < from.len() && !from[copied..].as_ptr().addr().is_multiple_of(16) {
            // SAFETY: the caller's promise.
            unsafe { to.add(copied).write(from[copied].load(DATA)) };
            copied += 1;
        }
        while from.len() - copied >= LINE {
            prefetch(from.as_ptr().wrapping_add(copied + AHEAD));
            // SAFETY: as many words are readable and writable from there on, and the first is
            // aligned.
            unsafe { copy_line(from.as_ptr().add(copied), to.add(copied)) };
            copied += LINE;
        }
        copied
    }

    /// Copies eight words by four loads, each of 16 aligned bytes: one access on every
    /// processor with AVX.
    ///
    /// # Safety
    /// The processor has AVX; `from` is aligned to 16 bytes and readable, `to` writable for
    /// eight words.
    #[inline(always)]
    unsafe fn copy_line(from: *const AtomicU64, to: *mut u64) {
        // SAFETY: the caller's promises; no flags are changed.
        unsafe {
            core::arch::asm!(
                "vmovdqa {a}, xmmword ptr [{from}]",
                "vmovdqa {b}, xmmword ptr [{from} + 16]",
                "vmovdqa {c}, xmmword ptr [{from} + 32]",
                "vmovdqa {d}, xmmword ptr [{from} + 48]",
                "vmovdqu xmmword ptr [{to}], {a}",
                "vmovdqu xmmword ptr [{to} + 16], {b}",
                "vmovdqu xmmword ptr [{to} + 32], {c}",
                "vmovdqu xmmword ptr [{to} + 48], {d}",
                from = in(reg) from,
                to = in(reg) to,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(x86_64_assembly))]
mod lines {
    /// Copies nothing: words are copied one by one.
    ///
    /// # Safety
    /// None is needed.
    #[inline(always)]
    pub(super) unsafe fn copy(_from: &[super::AtomicU64], _to: *mut u64, _whole: bool) -> usize {
        0
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn words_are_copied_from_any_place() {
        let words: Vec<AtomicU64> = (0..100).map(|n| AtomicU64::new(n * 7)).collect();
        for from in 0..20 {
            for count in [0, 1, 2, 7, 8, 9, 16, 17, 64, 80] {
                for whole in [false, crate::sync::pairs_load_whole()] {
                    let mut to = vec![u64::MAX; count + 1];
                    // SAFETY: as many words are there.
                    unsafe { copy_words(&words[from..from + count], to.as_mut_ptr(), whole) };
                    let expected = (from..from + count).map(|n| n as u64 * 7).chain([u64::MAX]);
                    assert!(to.into_iter().eq(expected), "{from} {count}");
                }
            }
        }
    }
}
