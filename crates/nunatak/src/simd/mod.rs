//! Fingerprint matching: which of up to 64 bytes equal a given one.
//!
//! One interface over AVX-512, AVX2, SSE2, NEON and a portable version. [`Level::detect`] asks the
//! processor once. Bytes are read as relaxed atomic words, and vectors are made of those words: a
//! vector load over atomics would be a data race, and would mix access sizes.

mod bits;
mod line;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(all(test, not(modelled)))]
mod tests;

pub use bits::BitIter;
#[cfg(x86_64_assembly)]
pub(crate) use line::Mask;
pub(crate) use line::Ways;

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// The largest number of words for [`match_byte`].
///
/// ```
/// assert_eq!(nunatak::simd::MAX_WORDS * 8, 64);
/// ```
pub const MAX_WORDS: usize = 8;

/// An instruction set that this processor has. A level that it lacks can't be made.
///
/// ```
/// use nunatak::simd::Level;
/// assert!(Level::all_supported().any(|level| level == Level::detect()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Level(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Sse2,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    Neon,
}

impl Kind {
    /// All levels of this build, the widest last.
    const ALL: &[Self] = &[
        Self::Portable,
        #[cfg(target_arch = "x86_64")]
        Self::Sse2,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        #[cfg(target_arch = "x86_64")]
        Self::Avx512,
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        Self::Neon,
    ];

    fn is_supported(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Sse2 => is_x86_feature_detected!("sse2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
        }
    }
}

impl Level {
    /// The level that needs no special instructions.
    ///
    /// ```
    /// use nunatak::simd::Level;
    /// assert_eq!(Level::PORTABLE.name(), "portable");
    /// ```
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// Returns the widest level of this processor.
    ///
    /// ```
    /// use nunatak::simd::Level;
    /// println!("fingerprints are matched by {}", Level::detect().name());
    /// ```
    pub fn detect() -> Self {
        static WIDEST: OnceLock<Level> = OnceLock::new();
        *WIDEST.get_or_init(|| Self::all_supported().last().unwrap_or(Self::PORTABLE))
    }

    /// Iterates over all levels of this processor, the widest last.
    ///
    /// ```
    /// use nunatak::simd::Level;
    /// assert_eq!(Level::all_supported().next(), Some(Level::PORTABLE));
    /// ```
    pub fn all_supported() -> impl Iterator<Item = Self> {
        Kind::ALL.iter().copied().filter(|kind| kind.is_supported()).map(Self)
    }

    /// Returns the name of the instruction set.
    ///
    /// ```
    /// use nunatak::simd::Level;
    /// assert!(!Level::detect().name().is_empty());
    /// ```
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Sse2 => "SSE2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "AVX-512",
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Kind::Neon => "NEON",
        }
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns which bytes of `words` equal `byte`: bit `i` of the result stands for byte `i`. A word's
/// lowest byte comes first on every machine.
///
/// Made for 1, 2, 4 and 8 words. Other numbers up to [`MAX_WORDS`] give right results, but not
/// fast. Each word is read once, relaxed: bytes of one word that other threads change meanwhile are
/// seen together.
///
/// # Panics
/// If there are more than [`MAX_WORDS`] words.
///
/// ```
/// use core::sync::atomic::AtomicU64;
/// use nunatak::simd::{BitIter, Level, match_byte};
/// let fingerprints = [AtomicU64::new(0x0700_0000_0000_0009), AtomicU64::new(7)];
/// let matches = match_byte(Level::detect(), &fingerprints, 7);
/// assert_eq!(BitIter::new(matches).collect::<Vec<_>>(), [7, 8]);
/// ```
#[inline]
pub fn match_byte(level: Level, words: &[AtomicU64], byte: u8) -> u64 {
    assert!(words.len() <= MAX_WORDS, "{} words have no mask of 64 bits", words.len());
    let mut loaded = [0; MAX_WORDS];
    for (loaded, word) in loaded.iter_mut().zip(words) {
        *loaded = word.load(Ordering::Relaxed);
    }
    match_byte_in(level, &loaded[..words.len()], byte)
}

/// Does the same as [`match_byte`], of words that are loaded already.
#[inline(always)]
pub(crate) fn match_byte_in(level: Level, words: &[u64], byte: u8) -> u64 {
    debug_assert!(words.len() <= MAX_WORDS);
    match level.0 {
        Kind::Portable => portable::match_byte(words, byte),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level exists only if the processor has it.
        Kind::Sse2 => unsafe { x86::match_byte_sse2(words, byte) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level exists only if the processor has it.
        Kind::Avx2 => unsafe { x86::match_byte_avx2(words, byte) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level exists only if the processor has it.
        Kind::Avx512 => unsafe { x86::match_byte_avx512(words, byte) },
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        // SAFETY: a level exists only if the processor has it.
        Kind::Neon => unsafe { neon::match_byte(words, byte) },
    }
}
