//! Keys and values that checks make from numbers.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::RwLock;

/// The bounds of every check's keys and values.
pub trait Data: Clone + Eq + Hash + Debug + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + Debug + Send + Sync + 'static> Data for T {}

/// Data that stands for a number.
///
/// ```
/// use nunatak_harness::Sample;
/// assert_eq!(String::sample(7).number(), 7);
/// ```
pub trait Sample: Data {
    /// Makes the value that stands for this number.
    fn sample(number: u64) -> Self;

    /// Returns the number that this value stands for.
    fn number(&self) -> u64;
}

impl Sample for u64 {
    fn sample(number: u64) -> Self {
        number
    }

    fn number(&self) -> u64 {
        *self
    }
}

/// Two words that belong together, so that a value of two halves is seen.
impl Sample for (u64, u64) {
    fn sample(number: u64) -> Self {
        (number, !number.rotate_left(17))
    }

    fn number(&self) -> u64 {
        assert!(*self == Self::sample(self.0), "halves of two values: {self:x?}");
        self.0
    }
}

impl Sample for u128 {
    fn sample(number: u64) -> Self {
        let (low, high) = <(u64, u64)>::sample(number);
        Self::from(high) << 64 | Self::from(low)
    }

    fn number(&self) -> u64 {
        (*self as u64, (self >> 64) as u64).number()
    }
}

/// The few numbers of more than 31 bits get numbers of their own, from the largest downwards.
static LARGE: RwLock<Large> = RwLock::new(Large { numbers: Vec::new(), places: BTreeMap::new() });

struct Large {
    numbers: Vec<u64>,
    places: BTreeMap<u64, u32>,
}

impl Sample for u32 {
    fn sample(number: u64) -> Self {
        if number < 1 << 31 {
            return number as Self;
        }
        let known = LARGE.read().expect("nobody panics here").places.get(&number).copied();
        let place = known.unwrap_or_else(|| {
            let mut large = LARGE.write().expect("nobody panics here");
            let Large { numbers, places } = &mut *large;
            *places.entry(number).or_insert_with(|| {
                numbers.push(number);
                numbers.len() as Self - 1
            })
        });
        Self::MAX - place
    }

    fn number(&self) -> u64 {
        if *self < 1 << 31 {
            return (*self).into();
        }
        LARGE.read().expect("nobody panics here").numbers[(Self::MAX - self) as usize]
    }
}

/// Strings of many lengths: a few are larger than all size classes, and every third has at most 8
/// bytes. Every byte is known.
impl Sample for Vec<u8> {
    fn sample(number: u64) -> Self {
        let mut bytes = number.to_le_bytes().to_vec();
        if number.is_multiple_of(3) {
            bytes.truncate(8 - number.leading_zeros() as usize / 8);
            return bytes;
        }
        let length = if number % 1009 == 1008 { 70_000 } else { number % 97 } as usize;
        bytes.resize(9 + length, number as u8);
        bytes
    }

    fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        let len = self.len().min(8);
        bytes[..len].copy_from_slice(&self[..len]);
        let number = u64::from_le_bytes(bytes);
        assert!(*self == Self::sample(number), "a piece of another byte string");
        number
    }
}

impl Sample for String {
    fn sample(number: u64) -> Self {
        format!("number {number}")
    }

    fn number(&self) -> u64 {
        let digits = self.strip_prefix("number ").expect("a sample");
        digits.parse().expect("a sample's number")
    }
}
