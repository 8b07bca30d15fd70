//! New arrays.

use super::part::{Format, Made, Part};

/// Collects the bits that tell which items are there. There are none before the first null.
#[derive(Debug, Default)]
struct Validity {
    bits: Vec<u8>,
    len: usize,
}

impl Validity {
    fn push(&mut self, is_valid: bool) {
        if !is_valid && self.bits.is_empty() {
            self.bits.resize(self.len / 8 + 1, u8::MAX);
        }
        if !self.bits.is_empty() {
            let bit = self.len % 8;
            if self.bits.len() <= self.len / 8 {
                self.bits.push(0);
            }
            let byte = &mut self.bits[self.len / 8];
            *byte = *byte & !(1 << bit) | u8::from(is_valid) << bit;
        }
        self.len += 1;
    }
}

/// Collects strings.
#[derive(Debug)]
pub(crate) struct Strings {
    offsets: Vec<i64>,
    bytes: Vec<u8>,
    validity: Validity,
}

impl Strings {
    pub(crate) fn new() -> Self {
        Self { offsets: vec![0], bytes: vec![], validity: Validity::default() }
    }

    pub(crate) fn push(&mut self, item: Option<&[u8]>) {
        self.bytes.extend_from_slice(item.unwrap_or_default());
        self.offsets.push(self.bytes.len() as i64);
        self.validity.push(item.is_some());
    }

    pub(super) fn finish(self) -> Part {
        let Self { offsets, bytes, validity } = self;
        let made = Made { validity: validity.bits, offsets, bytes, words: vec![] };
        Part::of_made(made, &Format::Large, validity.len)
    }
}

/// Makes an array of numbers; the format is `Words` or `Bits`.
pub(super) fn numbers(items: impl Iterator<Item = Option<u64>>, format: &Format) -> Part {
    let bits = match format {
        Format::Words(width) => 8 * width,
        _ => 1,
    };
    let (in_a_word, mask) = (64 / bits, u64::MAX >> (64 - bits));
    let (mut words, mut validity) = (vec![], Validity::default());
    for item in items {
        let place = validity.len % in_a_word;
        if place == 0 {
            words.push(0);
        }
        // The first item has the lowest bytes, which come first.
        if let Some(word) = words.last_mut() {
            *word |= (item.unwrap_or(0) & mask) << (bits * place);
        }
        validity.push(item.is_some());
    }
    let made = Made { validity: validity.bits, offsets: vec![], bytes: vec![], words };
    Part::of_made(made, format, validity.len)
}
