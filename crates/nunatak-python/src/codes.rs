//! Distinct keys, numbered.
//!
//! A map has a word for each distinct key: the number itself, or the hash of a string. Strings whose
//! hashes are equal have the words that follow one another by [`next`].

use crate::arrow::Parts;
use crate::columns::Column;
use core::hash::{BuildHasher, Hasher};
use core::ops::Range;
use nunatak::{BatchError, DlhtMap, Error, RandomState};
use nunatak_dynamic::BLOCK;

/// What a key that is null or unknown has instead of a code.
pub(crate) const NONE: i64 = -1;

/// A column of keys.
#[derive(Clone, Copy)]
pub(crate) enum Keys<'a> {
    /// Numbers, and which of them are there.
    Words(Column<'a>, Option<&'a [bool]>),
    Strings(&'a Parts),
}

impl Keys<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Words(column, _) => column.len(),
            Self::Strings(parts) => parts.len(),
        }
    }
}

/// What the map has for the words of a block.
struct Found {
    values: [u64; BLOCK],
    present: [u64; BLOCK / 64],
}

impl Found {
    /// Looks all of them up: their cache misses overlap.
    fn of(words: &[u64], map: &DlhtMap<u64, u64>) -> Result<Self, BatchError> {
        let mut found = Self { values: [0; BLOCK], present: [0; BLOCK / 64] };
        map.get_columns(words, &mut found.values, &mut found.present)?;
        Ok(found)
    }

    fn code(&self, at: usize) -> Option<i64> {
        (self.present[at / 64] >> (at % 64) & 1 == 1).then(|| self.values[at] as i64)
    }
}

/// Distinct keys of a column, numbered in the order of their first appearance.
pub(crate) struct Codes<'a> {
    keys: Keys<'a>,
    map: DlhtMap<u64, u64>,
    /// The position of the first appearance of each.
    pub(crate) first: Vec<i64>,
    hashes: RandomState,
    /// The bits of a hash that count.
    mask: u64,
}

/// The word after this one, for a string whose hash another string has.
fn next(word: u64) -> u64 {
    // The golden ratio's fraction, which is odd: all words come before the first comes again.
    word.wrapping_add(0x9E37_79B9_7F4A_7C15)
}

impl<'a> Codes<'a> {
    /// `hash_bits` are 64; tests take few, so that strings have equal hashes.
    pub(crate) fn new(keys: Keys<'a>, hash_bits: u32) -> Result<Self, Error> {
        Ok(Self {
            keys,
            map: DlhtMap::try_with_capacity(0)?,
            first: vec![],
            hashes: RandomState::default(),
            mask: u64::MAX.checked_shr(64_u32.saturating_sub(hash_bits)).unwrap_or(0),
        })
    }

    /// The words of a block of a column.
    fn words<'b>(
        &self,
        keys: &'b Keys<'_>,
        range: Range<usize>,
        buffer: &'b mut [u64; BLOCK],
    ) -> &'b [u64] {
        match keys {
            Keys::Words(column, _) => column.words(range, buffer),
            Keys::Strings(strings) => {
                let len = range.len();
                for (word, at) in buffer.iter_mut().zip(range) {
                    let mut hasher = self.hashes.build_hasher();
                    hasher.write(strings.get(at).unwrap_or_default());
                    *word = hasher.finish() & self.mask;
                }
                &buffer[..len]
            }
        }
    }

    /// Appends the codes of a block of the column.
    pub(crate) fn extend(
        &mut self,
        range: Range<usize>,
        codes: &mut Vec<i64>,
    ) -> Result<(), BatchError> {
        let (keys, mut buffer) = (self.keys, [0; BLOCK]);
        let words = self.words(&keys, range.clone(), &mut buffer);
        let found = Found::of(words, &self.map)?;
        for (offset, at) in range.enumerate() {
            codes.push(match keys {
                Keys::Words(_, Some(is_there)) if !is_there[at] => NONE,
                Keys::Words(..) => match found.code(offset) {
                    Some(code) => code,
                    // A key that comes twice in the block has its code already.
                    None => self.add(words[offset], at).unwrap_or_else(|code| code),
                },
                Keys::Strings(strings) => match (strings.get(at), found.code(offset)) {
                    (None, _) => NONE,
                    (Some(key), Some(code)) if self.has(code, key) => code,
                    (Some(key), _) => self.add_string(key, words[offset], at),
                },
            });
        }
        Ok(())
    }

    /// Gives a new code to a word, or returns the one that it has.
    fn add(&mut self, word: u64, at: usize) -> Result<i64, i64> {
        let code = self.first.len() as i64;
        self.map.try_insert(word, code as u64).map_err(|code| code as i64)?;
        self.first.push(at as i64);
        Ok(code)
    }

    fn add_string(&mut self, key: &[u8], mut word: u64, at: usize) -> i64 {
        loop {
            match self.add(word, at) {
                Ok(code) => return code,
                Err(code) if self.has(code, key) => return code,
                Err(_) => word = next(word),
            }
        }
    }

    /// Whether a code is that of this string.
    fn has(&self, code: i64, key: &[u8]) -> bool {
        match self.keys {
            Keys::Strings(strings) => strings.get(self.first[code as usize] as usize) == Some(key),
            Keys::Words(..) => false,
        }
    }

    /// Fills in the codes of a block of a column.
    pub(crate) fn find(
        &self,
        keys: &Keys<'_>,
        range: Range<usize>,
        codes: &mut [i64; BLOCK],
    ) -> Result<(), BatchError> {
        let mut buffer = [0; BLOCK];
        let words = self.words(keys, range.clone(), &mut buffer);
        let found = Found::of(words, &self.map)?;
        for (offset, at) in range.enumerate() {
            let code = match keys {
                Keys::Words(_, Some(is_there)) if !is_there[at] => None,
                Keys::Words(..) => found.code(offset),
                Keys::Strings(strings) => strings
                    .get(at)
                    .and_then(|key| self.find_string(key, words[offset], found.code(offset))),
            };
            codes[offset] = code.unwrap_or(NONE);
        }
        Ok(())
    }

    fn find_string(&self, key: &[u8], mut word: u64, mut code: Option<i64>) -> Option<i64> {
        while code.is_some_and(|code| !self.has(code, key)) {
            word = next(word);
            code = self.map.get(&word).map(|code| code as i64);
        }
        code
    }
}
