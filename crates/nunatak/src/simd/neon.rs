//! Matching with the vectors of AArch64. One word alone is left to the portable
//! version: to move it into a vector takes as long as to match it.

use super::portable;
use core::arch::aarch64::{
    uint8x16_t, vandq_u8, vceqq_u8, vcombine_u64, vcreate_u64, vdupq_n_u8, vgetq_lane_u64,
    vpaddq_u8, vreinterpretq_u8_u64, vreinterpretq_u64_u8,
};

/// Byte `i` holds bit `i % 8`, so that a matching byte tells its place.
const BITS: u64 = 0x8040_2010_0804_0201;

#[inline]
#[target_feature(enable = "neon")]
fn wide(low: u64, high: u64) -> uint8x16_t {
    vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)))
}

/// Returns for each matching byte its bit, and zero for the others.
#[inline]
#[target_feature(enable = "neon")]
fn bits_of_two(a: &u64, b: &u64, byte: u8) -> uint8x16_t {
    let bytes = wide(*a, *b);
    vandq_u8(vceqq_u8(bytes, vdupq_n_u8(byte)), wide(BITS, BITS))
}

#[inline]
#[target_feature(enable = "neon")]
pub(super) fn match_byte(words: &[u64], byte: u8) -> u64 {
    // A sum of neighbours halves the number of bytes; three sums leave one byte for each word.
    match words {
        [a, b] => {
            let bits = bits_of_two(a, b, byte);
            let sums = vpaddq_u8(bits, bits);
            let sums = vpaddq_u8(sums, sums);
            let sums = vpaddq_u8(sums, sums);
            vgetq_lane_u64::<0>(vreinterpretq_u64_u8(sums)) & 0xFFFF
        }
        [a, b, c, d] => {
            let sums = vpaddq_u8(bits_of_two(a, b, byte), bits_of_two(c, d, byte));
            let sums = vpaddq_u8(sums, sums);
            let sums = vpaddq_u8(sums, sums);
            vgetq_lane_u64::<0>(vreinterpretq_u64_u8(sums)) & 0xFFFF_FFFF
        }
        [a, b, c, d, e, f, g, h] => {
            let low = vpaddq_u8(bits_of_two(a, b, byte), bits_of_two(c, d, byte));
            let high = vpaddq_u8(bits_of_two(e, f, byte), bits_of_two(g, h, byte));
            let sums = vpaddq_u8(low, high);
            let sums = vpaddq_u8(sums, sums);
            vgetq_lane_u64::<0>(vreinterpretq_u64_u8(sums))
        }
        _ => portable::match_byte(words, byte),
    }
}
