//! Matching with the vectors of x86-64. One word alone is left to the portable
//! version: to move it into a vector takes as long as to match it.

use super::portable;
use core::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_cmpeq_epi8, _mm_cmpeq_epi8_mask, _mm_movemask_epi8,
    _mm_set_epi64x, _mm_set1_epi8, _mm256_cmpeq_epi8, _mm256_cmpeq_epi8_mask, _mm256_movemask_epi8,
    _mm256_set_epi64x, _mm256_set1_epi8, _mm512_cmpeq_epi8_mask, _mm512_set_epi64,
    _mm512_set1_epi8,
};

#[inline(always)]
fn read(word: &u64) -> i64 {
    word.cast_signed()
}

#[inline]
#[target_feature(enable = "sse2")]
fn two([a, b]: [&u64; 2]) -> __m128i {
    _mm_set_epi64x(read(b), read(a))
}

#[inline]
#[target_feature(enable = "avx2")]
fn four([a, b, c, d]: [&u64; 4]) -> __m256i {
    _mm256_set_epi64x(read(d), read(c), read(b), read(a))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn eight([a, b, c, d, e, f, g, h]: [&u64; 8]) -> __m512i {
    let [a, b, c, d] = [read(a), read(b), read(c), read(d)];
    _mm512_set_epi64(read(h), read(g), read(f), read(e), d, c, b, a)
}

#[inline]
#[target_feature(enable = "sse2")]
fn mask_of_two(words: [&u64; 2], byte: __m128i) -> u64 {
    let equal = _mm_cmpeq_epi8(two(words), byte);
    u64::from(_mm_movemask_epi8(equal).cast_unsigned())
}

#[inline]
#[target_feature(enable = "avx2")]
fn mask_of_four(words: [&u64; 4], byte: __m256i) -> u64 {
    let equal = _mm256_cmpeq_epi8(four(words), byte);
    u64::from(_mm256_movemask_epi8(equal).cast_unsigned())
}

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn match_byte_sse2(words: &[u64], byte: u8) -> u64 {
    let wide = _mm_set1_epi8(byte.cast_signed());
    match words {
        [a, b] => mask_of_two([a, b], wide),
        [a, b, c, d] => mask_of_two([a, b], wide) | mask_of_two([c, d], wide) << 16,
        [a, b, c, d, e, f, g, h] => {
            let low = mask_of_two([a, b], wide) | mask_of_two([c, d], wide) << 16;
            let high = mask_of_two([e, f], wide) | mask_of_two([g, h], wide) << 16;
            low | high << 32
        }
        _ => portable::match_byte(words, byte),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn match_byte_avx2(words: &[u64], byte: u8) -> u64 {
    let wide = _mm256_set1_epi8(byte.cast_signed());
    match words {
        [a, b] => mask_of_two([a, b], _mm_set1_epi8(byte.cast_signed())),
        [a, b, c, d] => mask_of_four([a, b, c, d], wide),
        [a, b, c, d, e, f, g, h] => {
            mask_of_four([a, b, c, d], wide) | mask_of_four([e, f, g, h], wide) << 32
        }
        _ => portable::match_byte(words, byte),
    }
}

#[inline]
#[target_feature(enable = "avx2,avx512bw,avx512vl")]
pub(super) fn match_byte_avx512(words: &[u64], byte: u8) -> u64 {
    let signed = byte.cast_signed();
    match words {
        [a, b] => u64::from(_mm_cmpeq_epi8_mask(two([a, b]), _mm_set1_epi8(signed))),
        [a, b, c, d] => {
            u64::from(_mm256_cmpeq_epi8_mask(four([a, b, c, d]), _mm256_set1_epi8(signed)))
        }
        [a, b, c, d, e, f, g, h] => {
            let wide = _mm512_set1_epi8(signed);
            _mm512_cmpeq_epi8_mask(eight([a, b, c, d, e, f, g, h]), wide)
        }
        _ => portable::match_byte(words, byte),
    }
}
