//! Maps of byte strings with any number of values, in the checks of [`MultiMap`]: numbers are
//! written as strings of many lengths.

use crate::multi::MultiMap;
use nunatak::PeaBlobMultiMap;
use std::hash::BuildHasher;

/// A string for each number, some longer than a short blob may be.
#[must_use]
pub fn text(number: u64) -> Vec<u8> {
    let dots = match number % 61 {
        60 => 5000,
        rest => 5 * (rest % 7) as usize,
    };
    let mut text = number.to_string().into_bytes();
    text.resize(text.len() + dots, b'.');
    text
}

/// Returns the number that a string was made of.
///
/// # Panics
/// If it is of none.
#[must_use]
pub fn number(string: &[u8]) -> u64 {
    let digits = string.iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits.fold(0_u64, |number, byte| 10 * number + u64::from(byte - b'0'));
    assert_eq!(text(number), string);
    number
}

impl<S: BuildHasher + Send + Sync + 'static> MultiMap for PeaBlobMultiMap<u64, S> {
    fn insert(&self, key: u64, value: u64) {
        self.insert(&text(key), value).expect("memory for a key");
    }

    fn insert_unique(&self, key: u64, value: u64) -> bool {
        self.insert_unique(&text(key), value).expect("memory for a key")
    }

    fn insert_unique_many(&self, pairs: &[(u64, u64)]) -> usize {
        let pairs: Vec<_> = pairs.iter().map(|&(key, value)| (text(key), value)).collect();
        self.insert_unique_many(&pairs).expect("memory for keys")
    }

    fn insert_many(&self, pairs: &[(u64, u64)]) {
        let pairs: Vec<_> = pairs.iter().map(|&(key, value)| (text(key), value)).collect();
        self.insert_many(&pairs).expect("memory for keys");
    }

    fn all(&self, key: u64) -> Vec<u64> {
        self.get_all(&text(key)).collect()
    }

    fn all_of_many(&self, keys: &[u64]) -> Vec<Vec<u64>> {
        let keys: Vec<_> = keys.iter().copied().map(text).collect();
        // What is there before stays.
        let (mut values, mut ends) = (vec![7], vec![0; keys.len()]);
        self.copy_all_many(&keys, &mut values, &mut ends).expect("as many ends");
        let mut counts = vec![9; keys.len()];
        self.count_many(&keys, &mut counts).expect("as many counts");
        let starts = core::iter::once(&1).chain(&ends);
        starts.zip(&ends).map(|(&start, &end)| values[start..end].to_vec()).collect()
    }

    fn count(&self, key: u64) -> usize {
        self.count(&text(key))
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.get(&text(key))
    }

    fn contains_pair(&self, key: u64, value: u64) -> bool {
        self.contains_pair(&text(key), &value)
    }

    fn remove_one(&self, key: u64, value: u64) -> bool {
        self.remove_one(&text(key), &value)
    }

    fn remove_all(&self, key: u64) -> usize {
        self.remove_all(&text(key))
    }

    fn drain(&self, key: u64) -> Vec<u64> {
        self.drain(&text(key)).collect()
    }

    fn pairs(&self) -> Vec<(u64, u64)> {
        self.iter().map(|(key, value)| (number(&key), value)).collect()
    }

    fn keys_with_values(&self) -> Vec<(u64, Vec<u64>)> {
        self.iter_all().map(|(key, values)| (number(&key), values)).collect()
    }

    fn keys_with_counts(&self) -> Vec<(u64, usize)> {
        self.distinct_keys().map(|(key, count)| (number(&key), count)).collect()
    }

    fn cut(&self) -> Vec<(u64, u64)> {
        let cut = self.snapshot().expect("memory for a cut");
        cut.map(|(key, value)| (number(&key), value)).collect()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn shrink(&self) {
        self.shrink_to_fit().expect("memory for a merge");
    }
}
