//! Comparing the fingerprints of a whole cache line, by instructions that no checker follows.

#[cfg(x86_64_assembly)]
use core::sync::atomic::{AtomicU64, Ordering, fence};

/// The bits of a line's last 32 bytes that count. (The first 32 count in full.)
#[cfg(x86_64_assembly)]
#[repr(align(64))]
pub(crate) struct Mask([u64; 8]);

#[cfg(x86_64_assembly)]
impl Mask {
    pub(crate) const ALL: Self = Self([u64::MAX; 8]);

    /// Without these bits of the last word.
    pub(crate) const fn without(bits: u64) -> Self {
        let mut mask = Self::ALL;
        mask.0[7] = !bits;
        mask
    }
}

/// Which ways the processor has. Without any, words are compared one by one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ways {
    /// Two loads of 32 bytes; what it needs makes a load of a pair whole, too.
    avx2: bool,
    /// One load.
    #[cfg(x86_64_assembly)]
    avx512: bool,
}

impl Ways {
    /// Asks the processor. None is of use if the fingerprints are no line.
    pub(crate) fn detect(is_line: bool) -> Self {
        #[cfg(x86_64_assembly)]
        {
            let avx2 = is_line && std::is_x86_feature_detected!("avx2");
            Self { avx2, avx512: avx2 && std::is_x86_feature_detected!("avx512bw") }
        }
        #[cfg(not(x86_64_assembly))]
        {
            let _ = is_line;
            Self { avx2: false }
        }
    }

    #[inline(always)]
    pub(crate) fn has_any(self) -> bool {
        self.avx2
    }

    /// Returns which bytes of a line equal `fingerprint`, in the bits of the mask.
    ///
    /// # Safety
    /// There is a way. `line` is 64 readable bytes, aligned to 64.
    #[cfg(x86_64_assembly)]
    #[inline(always)]
    pub(crate) unsafe fn matching(
        self,
        line: *const AtomicU64,
        fingerprint: u8,
        mask: &'static Mask,
    ) -> u64 {
        // SAFETY: the caller's promise; the processor has what `detect` found.
        unsafe {
            match self.avx512 {
                true => matching_by_avx512(line, fingerprint, mask),
                false => matching_by_avx2(line, fingerprint, mask),
            }
        }
    }

    /// The ways one by one.
    #[cfg(all(test, x86_64_assembly))]
    pub(crate) fn others(self) -> Vec<Self> {
        self.avx2.then_some(Self { avx512: false, ..self }).into_iter().collect()
    }
}

/// Returns which bytes of a line equal `fingerprint`, in the bits of the mask, by AVX-512.
///
/// Five instructions; loads of words need thirty and more.
///
/// # Safety
/// `line` is 64 readable bytes, aligned to 64. The processor has AVX-512BW.
#[cfg(x86_64_assembly)]
#[inline(always)]
unsafe fn matching_by_avx512(line: *const AtomicU64, fingerprint: u8, mask: &'static Mask) -> u64 {
    let matches: u64;
    // No processor splits such a load into pieces smaller than a word, and x86 keeps loads in
    // order. So each word is read as by an acquiring load.
    // SAFETY: the block reads the line and a constant, and changes no flags. The caller promises
    // AVX-512BW.
    unsafe {
        core::arch::asm!(
            "vpbroadcastb zmm16, {fingerprint:e}",
            "vpxorq zmm16, zmm16, zmmword ptr [{line}]",
            "vptestnmb k1, zmm16, zmmword ptr [{mask}]",
            "kmovq {matches}, k1",
            line = in(reg) line,
            mask = in(reg) mask,
            fingerprint = in(reg) u32::from(fingerprint),
            matches = lateout(reg) matches,
            // The compiler uses these registers for nothing else unless it is told to.
            out("zmm16") _,
            out("k1") _,
            options(nostack, readonly, preserves_flags),
        );
    }
    // The fence is no instruction. But the compiler could move the load of a slot before the block
    // above, which only reads, as a relaxed load does.
    fence(Ordering::Acquire);
    matches
}

/// As [`matching_by_avx512`], by two loads: twelve instructions.
///
/// # Safety
/// `line` is 64 readable bytes, aligned to 64. The processor has AVX2.
#[cfg(x86_64_assembly)]
#[inline(always)]
unsafe fn matching_by_avx2(line: *const AtomicU64, fingerprint: u8, mask: &'static Mask) -> u64 {
    let (first, last): (u64, u64);
    // As above: aligned loads of 32 bytes are not split into pieces smaller than a word, and keep
    // their order.
    // SAFETY: the block reads the line and a constant, and changes no flags. The caller promises
    // AVX2. The compiler uses no upper halves of these registers unless it is told to.
    unsafe {
        core::arch::asm!(
            "vmovd {bytes}, {fingerprint:e}",
            "vpbroadcastb {bytes:y}, {bytes}",
            "vpcmpeqb {equal:y}, {bytes:y}, ymmword ptr [{line}]",
            "vpmovmskb {first:e}, {equal:y}",
            "vpxor {bytes:y}, {bytes:y}, ymmword ptr [{line} + 32]",
            "vpand {bytes:y}, {bytes:y}, ymmword ptr [{mask} + 32]",
            "vpxor {equal}, {equal}, {equal}",
            "vpcmpeqb {equal:y}, {equal:y}, {bytes:y}",
            "vpmovmskb {last:e}, {equal:y}",
            // The compiler's instructions of 16 bytes would wait for upper halves that are not zero.
            "vzeroupper",
            line = in(reg) line,
            mask = in(reg) mask,
            fingerprint = in(reg) u32::from(fingerprint),
            bytes = out(xmm_reg) _,
            equal = out(xmm_reg) _,
            first = out(reg) first,
            last = lateout(reg) last,
            options(nostack, readonly, preserves_flags),
        );
    }
    // As above.
    fence(Ordering::Acquire);
    first | last << 32
}
