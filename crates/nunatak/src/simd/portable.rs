//! Matching eight bytes at a time in an ordinary register.

/// One in every byte.
const ONES: u64 = u64::MAX / 0xFF;
/// All but the highest bit of every byte.
const LOW: u64 = ONES * 0x7F;
/// Multiplying bits `8·i` by this leaves bit `i` of them at `56 + i`. No two products meet, so
/// nothing carries.
const GATHER: u64 = 0x0102_0408_1020_4080;

/// Returns which bytes of a word equal `byte`.
#[inline(always)]
pub(super) fn match_word(word: u64, byte: u8) -> u64 {
    let difference = word ^ (ONES * u64::from(byte));
    // The usual test by a subtraction borrows across bytes, so it may report the byte above a
    // match, too. This sum stays within each byte: its highest bit is set exactly if one of the low
    // seven is.
    let unequal = ((difference & LOW) + LOW) | difference | LOW;
    (!unequal >> 7).wrapping_mul(GATHER) >> 56
}

#[inline(always)]
pub(super) fn match_byte(words: &[u64], byte: u8) -> u64 {
    words.iter().rev().fold(0, |mask, word| {
        // There are at most eight words, so the bits shifted out are empty.
        mask << 8 | match_word(*word, byte)
    })
}
