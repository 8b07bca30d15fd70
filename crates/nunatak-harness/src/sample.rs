//! Keys and values that checks can make from numbers.

use std::fmt::Debug;
use std::hash::Hash;

/// What a key or a value of any check is.
pub trait Data: Clone + Eq + Hash + Debug + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + Debug + Send + Sync + 'static> Data for T {}

/// Data that stands for a number.
///
/// ```
/// use nunatak_harness::Sample;
/// assert_eq!(String::sample(7).number(), 7);
/// ```
pub trait Sample: Data {
    /// The one for this number.
    fn sample(number: u64) -> Self;

    /// The number that it stands for.
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

impl Sample for String {
    fn sample(number: u64) -> Self {
        format!("number {number}")
    }

    fn number(&self) -> u64 {
        let digits = self.strip_prefix("number ").expect("a sample");
        digits.parse().expect("a sample's number")
    }
}
