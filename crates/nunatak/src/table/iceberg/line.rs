//! Comparing all fingerprints of a block of 64 slots, which are one line.

#[cfg(x86_64_assembly)]
use crate::sync::{AtomicU64, Ordering, pairs_load_whole};

/// The lock of a block: the highest bit of its last fingerprint byte.
pub(super) const LOCK: u64 = 1 << 63;
/// Whether a key of a block may be behind it: the highest bit of the byte before.
pub(super) const OVERFLOWED: u64 = 1 << 55;

/// A mask of all bits but the lent ones.
#[cfg(x86_64_assembly)]
#[repr(align(64))]
struct Line([u64; 8]);

#[cfg(x86_64_assembly)]
static ALL_BUT_LENT: Line = {
    let mut line = Line([u64::MAX; 8]);
    line.0[7] = !(LOCK | OVERFLOWED);
    line
};

/// Which ways the processor has. Without any, words are compared one by one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ways {
    /// Four loads of 16 bytes; what it needs makes a load of a pair whole, too.
    avx: bool,
    /// One load.
    #[cfg(x86_64_assembly)]
    avx512: bool,
}

impl Ways {
    /// Asks the processor. None is of use if the fingerprints are no line.
    pub(super) fn detect(is_line: bool) -> Self {
        #[cfg(x86_64_assembly)]
        {
            let avx = is_line && pairs_load_whole();
            Self { avx, avx512: avx && std::is_x86_feature_detected!("avx512bw") }
        }
        #[cfg(not(x86_64_assembly))]
        {
            let _ = is_line;
            Self { avx: false }
        }
    }

    #[inline(always)]
    pub(super) fn has_any(self) -> bool {
        self.avx
    }

    /// Returns which bytes of a line equal `fingerprint`, without the two lent bits.
    ///
    /// # Safety
    /// There is a way. `line` is 64 readable bytes, aligned to 64.
    #[cfg(x86_64_assembly)]
    #[inline(always)]
    pub(super) unsafe fn matching(self, line: *const AtomicU64, fingerprint: u8) -> u64 {
        // SAFETY: the caller's promise; the processor has what `detect` found.
        unsafe {
            match self.avx512 {
                true => matching_by_avx512(line, fingerprint),
                false => matching_by_avx(line, fingerprint),
            }
        }
    }

    /// The ways one by one.
    #[cfg(all(test, x86_64_assembly))]
    pub(super) fn others(self) -> Vec<Self> {
        self.avx.then_some(Self { avx512: false, ..self }).into_iter().collect()
    }
}

/// Returns which bytes of a line equal `fingerprint`, without the two lent bits, by AVX-512.
///
/// Five instructions; loads of words need thirty and more.
///
/// # Safety
/// `line` is 64 readable bytes, aligned to 64. The processor has AVX-512BW.
#[cfg(x86_64_assembly)]
#[inline(always)]
unsafe fn matching_by_avx512(line: *const AtomicU64, fingerprint: u8) -> u64 {
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
            mask = in(reg) &raw const ALL_BUT_LENT,
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
    crate::sync::fence(Ordering::Acquire);
    matches
}

/// As [`matching_by_avx512`], by four loads: twenty instructions.
///
/// # Safety
/// `line` is 64 readable bytes, aligned to 64. The processor has AVX.
#[cfg(x86_64_assembly)]
#[inline(always)]
unsafe fn matching_by_avx(line: *const AtomicU64, fingerprint: u8) -> u64 {
    let (first, second, third, last): (u32, u32, u32, u32);
    // As above: aligned loads of 16 bytes are not split into pieces smaller than a word, and keep
    // their order.
    // SAFETY: the block reads the line and a constant, and changes no flags. The caller promises
    // AVX.
    unsafe {
        core::arch::asm!(
            "vmovd {bytes}, {fingerprints:e}",
            "vpshufd {bytes}, {bytes}, 0",
            "vpcmpeqb {equal}, {bytes}, xmmword ptr [{line}]",
            "vpmovmskb {first:e}, {equal}",
            "vpcmpeqb {equal}, {bytes}, xmmword ptr [{line} + 16]",
            "vpmovmskb {second:e}, {equal}",
            "vpcmpeqb {equal}, {bytes}, xmmword ptr [{line} + 32]",
            "vpmovmskb {third:e}, {equal}",
            "vpxor {bytes}, {bytes}, xmmword ptr [{line} + 48]",
            "vpand {bytes}, {bytes}, xmmword ptr [{mask} + 48]",
            "vpxor {equal}, {equal}, {equal}",
            "vpcmpeqb {equal}, {equal}, {bytes}",
            "vpmovmskb {last:e}, {equal}",
            line = in(reg) line,
            mask = in(reg) &raw const ALL_BUT_LENT,
            fingerprints = in(reg) u32::from(fingerprint) * 0x0101_0101,
            bytes = out(xmm_reg) _,
            equal = out(xmm_reg) _,
            first = out(reg) first,
            second = out(reg) second,
            third = out(reg) third,
            last = out(reg) last,
            options(nostack, readonly, preserves_flags),
        );
    }
    // As above.
    crate::sync::fence(Ordering::Acquire);
    u64::from(first) | u64::from(second) << 16 | u64::from(third) << 32 | u64::from(last) << 48
}
