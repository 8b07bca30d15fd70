//! [`Integer`]: values that maps add to in place.

use super::Inline;

mod sealed {
    pub trait Sealed {}
}

/// An integer of at most 8 bytes, to which [`fetch_add`](crate::InlineMap::fetch_add) and its like
/// add in place.
///
/// ```
/// use nunatak::{DlhtMap, entry::Integer};
/// fn total<V: Integer>(map: &DlhtMap<u64, V>) -> V {
///     map.values().fold(V::default(), V::wrapping_add)
/// }
/// assert_eq!(total(&DlhtMap::from([(1, 3), (2, 4)])), 7);
/// ```
pub trait Integer: Inline + Ord + Default + sealed::Sealed {
    /// Adds, wrapping around at the type's bounds.
    ///
    /// ```
    /// use nunatak::entry::Integer;
    /// assert_eq!(Integer::wrapping_add(255_u8, 2), 1);
    /// ```
    #[must_use]
    fn wrapping_add(self, other: Self) -> Self;

    /// Subtracts, wrapping around at the type's bounds.
    ///
    /// ```
    /// use nunatak::entry::Integer;
    /// assert_eq!(Integer::wrapping_sub(1_u8, 2), 255);
    /// ```
    #[must_use]
    fn wrapping_sub(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl sealed::Sealed for $integer {}

        impl Integer for $integer {
            #[inline(always)]
            fn wrapping_add(self, other: Self) -> Self {
                <$integer>::wrapping_add(self, other)
            }

            #[inline(always)]
            fn wrapping_sub(self, other: Self) -> Self {
                <$integer>::wrapping_sub(self, other)
            }
        }
    )*};
}

integers! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize }
