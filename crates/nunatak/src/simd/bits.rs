//! The set bits of a mask.

use core::iter::FusedIterator;

/// Iterates over the numbers of a mask's set bits, the lowest first, or from both ends.
///
/// ```
/// use nunatak::simd::BitIter;
/// assert_eq!(BitIter::new(0b1001_0000).collect::<Vec<_>>(), [4, 7]);
/// assert_eq!(BitIter::new(0b1001_0000).rev().collect::<Vec<_>>(), [7, 4]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BitIter(u64);

impl BitIter {
    /// The set bits of `mask`.
    ///
    /// ```
    /// use nunatak::simd::BitIter;
    /// assert_eq!(BitIter::new(u64::MAX).len(), 64);
    /// ```
    #[inline]
    pub fn new(mask: u64) -> Self {
        Self(mask)
    }
}

impl Iterator for BitIter {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let lowest = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(lowest)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.0.count_ones() as usize;
        (left, Some(left))
    }
}

impl DoubleEndedIterator for BitIter {
    #[inline]
    fn next_back(&mut self) -> Option<usize> {
        let highest = self.0.checked_ilog2()?;
        self.0 ^= 1 << highest;
        Some(highest as usize)
    }
}

impl ExactSizeIterator for BitIter {}
impl FusedIterator for BitIter {}
