//! Compares every level with the portable one, and that one with a plain loop.

use super::{BitIter, Level, MAX_WORDS, match_byte};
use core::sync::atomic::{AtomicU64, Ordering};
use proptest::prelude::*;

fn naive(words: &[AtomicU64], byte: u8) -> u64 {
    let bytes = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
    bytes.enumerate().fold(0, |mask, (i, each)| mask | u64::from(each == byte) << i)
}

fn atomics(words: &[u64]) -> Vec<AtomicU64> {
    words.iter().copied().map(AtomicU64::new).collect()
}

/// Checks every level, every length and every byte.
fn agrees(words: [u64; MAX_WORDS]) {
    let words = atomics(&words);
    for length in 0..=MAX_WORDS {
        let words = &words[..length];
        for byte in 0..=u8::MAX {
            let expected = naive(words, byte);
            for level in Level::all_supported() {
                let mask = match_byte(level, words, byte);
                assert_eq!(mask, expected, "{level:?} looks for {byte:#x} in {words:x?}");
            }
        }
    }
}

#[test]
fn all_bytes_equal() {
    for byte in 0..=u8::MAX {
        agrees([u64::from_ne_bytes([byte; 8]); MAX_WORDS]);
    }
}

#[test]
fn neighbours_of_a_match_are_no_match() {
    // Pairs for which a subtraction borrows from the byte above.
    for (low, high) in [(0x00, 0x01), (0x80, 0x81), (0x7F, 0x80), (0xFE, 0xFF), (0x00, 0xFF)] {
        for pattern in [[low, high], [high, low]] {
            agrees([u64::from_le_bytes(core::array::from_fn(|i| pattern[i % 2])); MAX_WORDS]);
        }
    }
    for byte in 0..=u8::MAX {
        let others =
            [byte, byte ^ 1, byte, byte ^ 0x80, byte, byte.wrapping_add(1), byte ^ 0xFF, byte];
        agrees([u64::from_le_bytes(others); MAX_WORDS]);
    }
}

#[test]
fn each_place_has_its_own_bit() {
    for place in 0..64 {
        let mut words = [0_u64; MAX_WORDS];
        words[place / 8] = 0xA5 << (place % 8 * 8);
        for level in Level::all_supported() {
            assert_eq!(match_byte(level, &atomics(&words), 0xA5), 1 << place, "{level:?}");
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_words(words: [u64; MAX_WORDS]) {
        agrees(words);
    }

    #[test]
    fn words_of_few_bytes(choices in prop::array::uniform32(any::<u16>()), few in 1..4_u16) {
        // Few different bytes, so that many are equal to their neighbours.
        agrees(core::array::from_fn(|i| {
            let bytes = (0..8).map(|j| (choices[i * 4 + j / 2] >> (j % 2 * 8)) % few);
            bytes.fold(0, |word, byte| (word << 8) | (u64::from(byte) + 0x7F))
        }));
    }

    #[test]
    fn bits_are_those_of_the_mask(mask: u64) {
        let bits = BitIter::new(mask);
        prop_assert_eq!(bits.len(), mask.count_ones() as usize);
        prop_assert!(bits.is_sorted_by(|a, b| a < b));
        prop_assert_eq!(bits.fold(0, |bits, bit| bits | 1 << bit), mask);
    }
}

#[test]
#[should_panic(expected = "9 words")]
fn too_many_words_are_refused() {
    match_byte(Level::PORTABLE, &atomics(&[0; MAX_WORDS + 1]), 0);
}

#[test]
fn the_widest_level_is_chosen() {
    assert_eq!(Some(Level::detect()), Level::all_supported().last());
}
